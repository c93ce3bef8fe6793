//! The objects of a large cluster: Services with endpoints, Ingresses with paths to several of them, certificates.

use crate::ingress::scene::{INGRESSES, Scene};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::Authority;

/// The port of all Pods.
pub(crate) const POD_PORT: u16 = 9376;
/// Endpoints of a slice: what the controller of Kubernetes makes.
const SLICE_MAX: usize = 100;
/// Every n-th Ingress has a certificate of its own.
const CERTIFICATE_EACH: usize = 10;
/// Of a hundred Services one is large, and the large ones have half of the endpoints.
const LARGE_SHARE: usize = 100;
/// Services with one endpoint each, which moves from address to address.
pub(crate) const MOVING: usize = 10;
/// Requests to the API server at the same time.
const CREATORS: usize = 8;

/// The resource of slices.
pub(crate) const SLICES: &str = "discovery.k8s.io/v1/endpointslices";

/// How large the cluster is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) ingresses: usize,
    pub(crate) routes: usize,
    pub(crate) endpoints: usize,
    /// Changes of each kind that are measured.
    pub(crate) changes: usize,
}

impl Size {
    /// Paths of an Ingress.
    pub(crate) fn paths(self) -> usize {
        self.routes.div_ceil(self.ingresses)
    }

    /// There are as many Services as Ingresses.
    fn services(self) -> usize {
        self.ingresses
    }

    /// Services with many endpoints.
    pub(crate) fn large(self) -> usize {
        self.services().div_ceil(LARGE_SHARE)
    }

    /// The Service of a path.
    fn service_of(self, ingress: usize, path: usize) -> usize {
        (ingress + path * 7) % self.services()
    }

    /// The numbers of the endpoints of a Service.
    fn endpoints_of(self, service: usize) -> std::ops::Range<usize> {
        let half = self.endpoints / 2;
        let share = |all: usize, of: usize, index: usize| all * index / of;
        let (large, small) = (self.large(), self.services() - self.large());
        match service.checked_sub(large) {
            None => share(half, large, service)..share(half, large, service + 1),
            Some(index) => {
                half + share(self.endpoints - half, small, index)..half + share(self.endpoints - half, small, index + 1)
            }
        }
    }

    /// Whether a path of an Ingress leads to this address.
    pub(crate) fn leads_to(self, ingress: usize, path: usize, address: &str) -> bool {
        let number = address.parse::<Ipv4Addr>().map(|ip| u32::from(ip).wrapping_sub(FIRST) as usize);
        number.is_ok_and(|number| self.endpoints_of(self.service_of(ingress, path)).contains(&number))
    }

    /// An Ingress with all its paths, and one more if it is changed.
    pub(crate) fn ingress(self, index: usize, class: &str, more: Option<&str>) -> Value {
        let path = |path: &str, service: usize| {
            json!({"path": path, "pathType": "Prefix",
                "backend": {"service": {"name": format!("s{service}"), "port": {"number": 80}}}})
        };
        let mut paths: Vec<Value> =
            (0..self.paths()).map(|it| path(&format!("/p{it}"), self.service_of(index, it))).collect();
        paths.extend(more.map(|more| path(more, self.service_of(index, 0))));
        let host = host(index);
        let tls = if index.is_multiple_of(CERTIFICATE_EACH) {
            json!([{"hosts": [host], "secretName": certificate(index)}])
        } else {
            json!([])
        };
        // Hosts with a certificate answer without TLS, too, so that one client can ask for all of them.
        let mut annotations = json!({"nginx.ingress.kubernetes.io/ssl-redirect": "false"});
        if index.is_multiple_of(3) {
            annotations["nginx.ingress.kubernetes.io/proxy-body-size"] = json!("8m");
            annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] = json!("60");
        }
        json!({
            "metadata": {"name": format!("i{index}"), "annotations": annotations},
            "spec": {"ingressClassName": class, "tls": tls, "rules": [{"host": host, "http": {"paths": paths}}]},
        })
    }
}

/// The address of endpoint 0: 10.1.0.0.
pub(crate) const FIRST: u32 = 0x0a01_0000;
/// The addresses of endpoints that move, from 10.64.0.0 on.
const FIRST_MOVING: u32 = 0x0a40_0000;

/// All addresses of Pods.
pub(crate) const POD_ADDRESSES: &str = "10.0.0.0/9";

/// The host of an Ingress.
pub(crate) fn host(ingress: usize) -> String {
    format!("h{ingress}.test")
}

/// The host of a Service with an endpoint that moves.
pub(crate) fn moving_host(index: usize) -> String {
    format!("moving{index}.test")
}

/// The address of such an endpoint after a number of moves.
pub(crate) fn moving_address(index: usize, moves: usize) -> Ipv4Addr {
    Ipv4Addr::from(FIRST_MOVING + (moves * MOVING + index) as u32)
}

fn certificate(ingress: usize) -> String {
    format!("certificate{ingress}")
}

/// A Service with one port.
pub(crate) fn service(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"ports": [{"name": "http", "port": 80, "targetPort": POD_PORT}]}})
}

/// Endpoints as the controller of Kubernetes writes them.
pub(crate) fn slice(service: &str, serial: usize, addresses: impl IntoIterator<Item = Ipv4Addr>) -> Value {
    let endpoint = |address: Ipv4Addr| {
        json!({
            "addresses": [address],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("node-{}", address.octets()[3]),
            "targetRef": {"kind": "Pod", "name": format!("{service}-{:08x}", u32::from(address)), "namespace": "shop",
                "uid": format!("6f1d3c4e-0000-4000-8000-{:012x}", u32::from(address))},
            "zone": "zone-a",
        })
    };
    json!({
        "metadata": {"name": format!("{service}-{serial}"), "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": addresses.into_iter().map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": POD_PORT, "protocol": "TCP"}],
    })
}

/// Writes all objects; returns how many.
pub(crate) fn create(scene: &Scene<'_>, size: Size) -> usize {
    let class = scene.namespace.as_str();
    let mut all: Vec<(&str, Value)> = Vec::new();
    let authority = Authority::new("scale");
    for index in 0..size.services() {
        let name = format!("s{index}");
        let endpoints: Vec<Ipv4Addr> =
            size.endpoints_of(index).map(|number| Ipv4Addr::from(FIRST + number as u32)).collect();
        all.push(("v1/services", service(&name)));
        all.extend(
            endpoints.chunks(SLICE_MAX).enumerate().map(|(at, part)| (SLICES, slice(&name, at, part.iter().copied()))),
        );
    }
    for index in 0..MOVING {
        let name = format!("moving{index}");
        let backend = json!({"service": {"name": name, "port": {"number": 80}}});
        let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
        let rules = json!([{"host": moving_host(index), "http": {"paths": paths}}]);
        all.push(("v1/services", service(&name)));
        all.push((SLICES, slice(&name, 0, [moving_address(index, 0)])));
        all.push((INGRESSES, json!({"metadata": {"name": name}, "spec": {"ingressClassName": class, "rules": rules}})));
    }
    for index in 0..size.ingresses {
        if index.is_multiple_of(CERTIFICATE_EACH) {
            let issued = authority.issue(&[&host(index)]);
            let pair = json!({"tls.crt": issued.chain, "tls.key": issued.key});
            let metadata = json!({"name": certificate(index)});
            all.push(("v1/secrets", json!({"metadata": metadata, "type": "kubernetes.io/tls", "stringData": pair})));
        }
        all.push((INGRESSES, size.ingress(index, class, None)));
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..CREATORS {
            threads.spawn(|| {
                while let Some((resource, object)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    scene.plane.create(resource, &scene.namespace, object);
                }
            });
        }
    });
    all.len()
}

/// Gives an Ingress one more path.
pub(crate) fn add_path(scene: &Scene<'_>, size: Size, ingress: usize, path: &str) {
    let changed = size.ingress(ingress, &scene.namespace, Some(path));
    let patch = json!({"spec": {"rules": changed["spec"]["rules"]}});
    scene.plane.patch(INGRESSES, &scene.namespace, &format!("i{ingress}"), &patch);
}

/// Moves the endpoint of a Service to its next address.
pub(crate) fn move_endpoint(scene: &Scene<'_>, index: usize, moves: usize) {
    let changed = slice(&format!("moving{index}"), 0, [moving_address(index, moves)]);
    let patch = json!({"endpoints": changed["endpoints"]});
    scene.plane.patch(SLICES, &scene.namespace, &format!("moving{index}-0"), &patch);
}

/// Replaces one address of the first slice of a large Service by another.
pub(crate) fn change_large(scene: &Scene<'_>, size: Size, service: usize, moves: usize) {
    let numbers = size.endpoints_of(service).take(SLICE_MAX);
    let mut addresses: Vec<Ipv4Addr> = numbers.map(|number| Ipv4Addr::from(FIRST + number as u32)).collect();
    addresses[0] = Ipv4Addr::from(FIRST_MOVING + 0x0001_0000 + moves as u32);
    let changed = slice(&format!("s{service}"), 0, addresses);
    scene.plane.patch(SLICES, &scene.namespace, &format!("s{service}-0"), &json!({"endpoints": changed["endpoints"]}));
}

/// Gives the first slice of a large Service its first addresses again.
pub(crate) fn restore_large(scene: &Scene<'_>, size: Size, service: usize) {
    let numbers = size.endpoints_of(service).take(SLICE_MAX);
    let changed = slice(&format!("s{service}"), 0, numbers.map(|number| Ipv4Addr::from(FIRST + number as u32)));
    scene.plane.patch(SLICES, &scene.namespace, &format!("s{service}-0"), &json!({"endpoints": changed["endpoints"]}));
}
