//! A replica in a node's network, the objects of one test, and Pods that answer with their name.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::kubernetes::{ControlPlane, KUBERNETES_DEADLINE, Network};
use testkit::{Peer, Response, Running, Talk};

/// Between two looks at a state.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The ports of a replica in its own network.
pub(super) const HTTP: u16 = 8080;
const HTTPS: u16 = 8443;
const HEALTH: u16 = 10_254;

/// A test's part of a control plane.
pub(super) struct Scene<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) network: Arc<Network>,
    pub(super) namespace: String,
    /// The program under test.
    pub(super) program: PathBuf,
    /// Where its logs go; without one, a test that fails prints them.
    pub(super) log: Option<File>,
}

/// A running replica.
pub(super) struct Replica {
    running: Running,
    pub(super) http: SocketAddr,
    pub(super) https: SocketAddr,
    health: SocketAddr,
}

impl<'a> Scene<'a> {
    /// A namespace and a class of its own; `None` where no network can be made.
    #[track_caller]
    pub(super) fn new_or_skip(plane: &'a ControlPlane) -> Option<Self> {
        let network = Arc::new(Network::new_or_skip()?);
        network.share(plane.address());
        let namespace = plane.create_namespace("ingress");
        let class = json!({"metadata": {"name": namespace}, "spec": {"controller": controller(&namespace)}});
        plane.create("networking.k8s.io/v1/ingressclasses", "", &class);
        Some(Self { plane, network, namespace, program: env!("CARGO_BIN_EXE_holdfast").into(), log: None })
    }

    /// Starts a replica, and waits until it is ready.
    pub(super) fn replica(&self, flags: &[&str]) -> Replica {
        let replica = self.start(flags);
        replica.wait_until_ready();
        replica
    }

    /// Starts a replica in the node's network.
    pub(super) fn start(&self, flags: &[&str]) -> Replica {
        self.start_at(flags, 0)
    }

    /// The same at other ports, so that a network has room for two.
    pub(super) fn start_at(&self, flags: &[&str], offset: u16) -> Replica {
        self.start_with(flags, [HTTP, HTTPS, HEALTH].map(|port| port + offset))
    }

    /// A ready replica with HTTP at its usual port.
    pub(super) fn replica_at_port_80(&self) -> Replica {
        let replica = self.start_with(&[], [80, HTTPS, HEALTH]);
        replica.wait_until_ready();
        replica
    }

    fn start_with(&self, flags: &[&str], [http, https, health]: [u16; 3]) -> Replica {
        let mut command = self.network.command(&self.program);
        command
            .arg("ingress")
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .arg(format!("--controller-class={}", controller(&self.namespace)))
            .arg(format!("--watch-namespace={}", self.namespace))
            .arg(format!("--election-id={}", self.namespace))
            .arg(format!("--http-port={http}"))
            .arg(format!("--https-port={https}"))
            .arg(format!("--healthz-port={health}"))
            .args(["--workers=2", "--listen-address=10.244.0.1", "--publish-status-address=192.0.2.1"])
            .args(flags)
            .env("POD_NAMESPACE", &self.namespace);
        let running = match &self.log {
            Some(log) => {
                let output = || log.try_clone().expect("a descriptor");
                command.stdin(Stdio::null()).stdout(output()).stderr(output());
                Running::of(command.spawn().expect("holdfast starts"))
            }
            None => Running::start(&mut command),
        };
        let reach = |port: u16| self.network.reach((self.network.address(), port).into());
        Replica { running, http: reach(http), https: reach(https), health: reach(health) }
    }

    /// A Pod that answers with its name, and its address among the Pods.
    pub(super) fn pod(&self, name: &'static str) -> (Peer, SocketAddr) {
        let length = name.len();
        let peer =
            Peer::answering(move |_| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{name}").into());
        let address = self.network.publish(peer.address());
        (peer, address)
    }

    /// A Service without a selector, so that the test makes its slices.
    pub(super) fn service(&self, name: &str) {
        let spec = json!({"ports": [{"name": "http", "port": 80}]});
        self.plane.create("v1/services", &self.namespace, &json!({"metadata": {"name": name}, "spec": spec}));
    }

    /// A slice with one endpoint.
    pub(super) fn slice(&self, service: &str, name: &str, at: SocketAddr) {
        let labels = json!({"kubernetes.io/service-name": service});
        let slice = json!({
            "metadata": {"name": name, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [at.ip().to_string()], "conditions": {"ready": true}}],
            "ports": [{"name": "http", "port": at.port(), "protocol": "TCP"}],
        });
        self.plane.create("discovery.k8s.io/v1/endpointslices", &self.namespace, &slice);
    }

    /// Removes a slice.
    pub(super) fn remove_slice(&self, name: &str) {
        self.plane.delete("discovery.k8s.io/v1/endpointslices", &self.namespace, name);
    }

    /// An Ingress with one path for a host.
    pub(super) fn ingress(&self, name: &str, host: &str, service: &str) {
        self.ingress_with(name, host, service, &json!({}), &json!([]));
    }

    /// The same with annotations and certificates.
    pub(super) fn ingress_with(&self, name: &str, host: &str, service: &str, annotations: &Value, tls: &Value) {
        let backend = json!({"service": {"name": service, "port": {"number": 80}}});
        let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
        let ingress = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"ingressClassName": self.namespace, "tls": tls, "rules": [{"host": host, "http": {"paths": paths}}]},
        });
        self.plane.create(INGRESSES, &self.namespace, &ingress);
    }

    /// A Service with one Pod, and an Ingress for it.
    pub(super) fn serve(&self, host: &str, pod: &'static str) -> Peer {
        let peer = self.pod_behind_service(pod);
        self.ingress(pod, host, pod);
        peer
    }

    /// A Service with one Pod.
    pub(super) fn pod_behind_service(&self, pod: &'static str) -> Peer {
        let (peer, address) = self.pod(pod);
        self.service(pod);
        self.slice(pod, &format!("{pod}-1"), address);
        peer
    }
}

/// The resource of Ingresses.
pub(super) const INGRESSES: &str = "networking.k8s.io/v1/ingresses";

/// The status and the body of a response; `None` if nothing answers.
fn ask(at: SocketAddr, host: &str, path: &str) -> Option<(u16, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let response = testkit::fetch(at, request).ok()?;
    Some((response.status(), response.text()))
}

fn controller(namespace: &str) -> String {
    format!("holdfast.test/{namespace}")
}

impl Replica {
    /// A request to a host, on a connection of its own.
    pub(super) fn get(&self, host: &str) -> Response {
        Talk::connect(self.http).ask_of(host, "/", "Connection: close\r\n")
    }

    /// The answer to a request: its status and its body.
    pub(super) fn answer(&self, host: &str) -> (u16, String) {
        let response = self.get(host);
        (response.status(), String::from_utf8_lossy(&response.body).into_owned())
    }

    /// Waits until a host answers so.
    #[track_caller]
    pub(super) fn wait_for(&self, host: &str, status: u16, body: &str) {
        wait_until(&format!("{host} answers {status} {body}"), || {
            // Nothing may listen there yet.
            let answer = ask(self.http, host, "/");
            answer.is_some_and(|(seen, text)| seen == status && (body.is_empty() || text == body))
        });
    }

    /// Whether `/readyz` answers 200; not before it listens.
    pub(super) fn is_ready(&self) -> bool {
        self.probe("/readyz").is_some_and(|(status, _)| status == 200)
    }

    #[track_caller]
    pub(super) fn wait_until_ready(&self) {
        wait_until("the replica is ready", || self.is_ready());
    }

    fn probe(&self, path: &str) -> Option<(u16, String)> {
        ask(self.health, "probe", path)
    }

    /// The figures of `/metrics` whose names begin with `holdfast_ingress_`.
    pub(super) fn figures(&self) -> BTreeMap<String, u64> {
        let Some((200, text)) = self.probe("/metrics") else { return BTreeMap::new() };
        let lines = text.lines().filter_map(|line| line.strip_prefix("holdfast_ingress_"));
        lines
            .filter_map(|line| Some((line.split(' ').next()?.to_owned(), line.split(' ').nth(1)?.parse().ok()?)))
            .collect()
    }

    /// One of them.
    pub(super) fn figure(&self, name: &str) -> u64 {
        self.figures().get(name).copied().unwrap_or_default()
    }

    /// The number of configurations so far.
    pub(super) fn generations(&self) -> u64 {
        self.figure("generations_total")
    }

    /// Its process id.
    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Waits until it has ended.
    #[track_caller]
    pub(super) fn wait(&mut self) -> ExitStatus {
        self.running.wait()
    }

    /// Whether it still runs.
    pub(super) fn runs(&self) -> bool {
        !self.running.has_ended()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // Its grace period would be waited for.
        if self.runs() {
            self.running.signal(Signal::SIGKILL);
        }
    }
}

/// Waits for a condition.
#[track_caller]
pub(super) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + KUBERNETES_DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not seen in {KUBERNETES_DEADLINE:?}: {what}");
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

/// The value of `--state-directory`.
pub(super) fn state_in(folder: &Path) -> String {
    format!("--state-directory={}", folder.display())
}
