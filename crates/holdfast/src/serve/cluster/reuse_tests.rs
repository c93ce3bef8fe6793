//! After any change, a configuration that shares with the one before equals one that is made from scratch.
#![allow(clippy::needless_pass_by_value)] // `json!` makes values

use super::configuration::{Change, Frame, Made, make};
use super::files::ClusterFiles;
use super::tree::ProcessLines;
use crate::verdict::{Lasting, Prepared};
use conf::model::{Http, Server};
use conf::source::FileId;
use gateway::names::Found;
use ingress::objects::Object;
use ingress::{Cluster, EndpointSource, Name, Settings, Translation, cluster};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

const PREFIX: &str = "nginx.ingress.kubernetes.io";

/// One process without sockets.
struct Process {
    frame: Frame,
    lasting: Lasting,
    following: Rc<RefCell<BTreeMap<String, EndpointSource>>>,
    serving: Option<Prepared>,
    files: ClusterFiles,
    memory: ingress::Memory,
    /// Nothing is shared with the configuration before.
    forgets: bool,
}

impl Process {
    fn new(forgets: bool, endpoints: usize) -> Self {
        let settings = Settings {
            watch_ingress_without_class: true,
            config_map: Some(Name::new("system", "controller")),
            ..Settings::default()
        };
        let following = Rc::<RefCell<BTreeMap<String, EndpointSource>>>::default();
        let names = Rc::clone(&following);
        let lasting = Lasting::before_bind(move |registry| {
            for name in names.borrow().keys() {
                let address = |it: usize| Ipv4Addr::from(0x0a00_0000 + it as u32);
                let found = |it| Found { ip: address(it).into(), port: Some(80), priority: 0, weight: 0 };
                registry.names().answer(name, (0..endpoints).map(found).collect());
            }
        });
        let lines = ProcessLines { workers: Some(1), shutdown_seconds: 1 };
        let own_files = ClusterFiles::self_made().unwrap();
        let frame = Frame { settings, lines, instance: super::instance().unwrap(), own_files };
        Self {
            frame,
            lasting,
            following,
            serving: None,
            files: ClusterFiles::default(),
            memory: ingress::Memory::default(),
            forgets,
        }
    }

    /// Makes the configuration for a cluster. Returns its findings.
    fn renew(&mut self, cluster: &Cluster) -> Result<Vec<String>, String> {
        let made = Made {
            tree: self.serving.as_ref().map(|it| &it.loaded.tree).filter(|_| !self.forgets),
            is_stale: true,
            files: &self.files,
            bound_files: &self.files,
        };
        if self.forgets {
            self.lasting.forget();
            self.memory = ingress::Memory::default();
        }
        let follow = |translation: &Translation| self.following.borrow_mut().clone_from(&translation.endpoints);
        let candidate =
            make(cluster.clone(), &self.frame, made, |_| false, &follow, (&mut self.lasting, &mut self.memory))?;
        let Change::Tree(prepared) = candidate.change else { return Err("nothing to bind".into()) };
        (self.serving, self.files) = (Some(*prepared), candidate.files);
        Ok(candidate.translation.findings.iter().map(|found| format!("{found:?}")).collect())
    }

    fn http(&self) -> &Http {
        self.serving.as_ref().unwrap().model.as_ref().unwrap().http.as_ref().unwrap()
    }

    /// Tree and model as text, with names of sources in place of their numbers.
    fn shown(&self) -> String {
        let serving = self.serving.as_ref().unwrap();
        let text = format!("{:?}\n{:?}", serving.loaded.tree, serving.model);
        let mut parts = text.split("FileId(");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, rest) = part.split_once(')').unwrap();
            let source = serving.loaded.sources.source(FileId(number.parse().unwrap()));
            out.push_str(&source.name);
            out.push_str(rest);
        }
        out.replace(", Directive", ",\nDirective").replace(", Location", ",\nLocation")
    }
}

fn object<T: Object + serde::de::DeserializeOwned>(namespace: &str, name: &str, mut value: Value) -> T {
    thread_local!(static VERSION: Cell<u64> = const { Cell::new(0) });
    let version = VERSION.replace(VERSION.get() + 1);
    for (key, text) in [("namespace", namespace), ("name", name), ("uid", name)] {
        value["metadata"][key] = json!(text);
    }
    value["metadata"]["resourceVersion"] = json!(version.to_string());
    serde_json::from_value(value).unwrap()
}

fn put_service(cluster: &mut Cluster, name: &str, port: u16) {
    let spec = json!({"spec": {"clusterIP": "10.0.0.9", "ports": [{"name": "web", "port": port}]}});
    cluster::insert(&mut cluster.services, object("shop", name, spec));
}

fn rules(host: &str, paths: &[(String, String)]) -> Value {
    let path = |(path, service): &(String, String)| json!({"path": path, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}});
    json!([{"host": host, "http": {"paths": paths.iter().map(path).collect::<Vec<_>>()}}])
}

fn put_ingress(cluster: &mut Cluster, name: &str, annotations: &[(&str, String)], spec: Value) {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(key, text)| (format!("{PREFIX}/{key}"), json!(text))).collect();
    let metadata = json!({"annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z"});
    cluster::insert(&mut cluster.ingresses, object("shop", name, json!({"metadata": metadata, "spec": spec})));
}

fn put_secret(cluster: &mut Cluster, name: &str, data: &[(&str, &str)]) {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, text)| ((*key).to_owned(), json!(encode(text)))).collect();
    cluster::insert(&mut cluster.secrets, object("shop", name, json!({"data": data})));
}

/// Ingresses with hosts, paths and Services of their own, every tenth with some annotations.
fn large(ingresses: usize, paths: usize) -> Cluster {
    let mut cluster = Cluster::default();
    for index in 0..ingresses {
        put_service(&mut cluster, &format!("s{index}"), 80);
        put_large_ingress(&mut cluster, index, ingresses, paths);
    }
    cluster
}

fn put_large_ingress(cluster: &mut Cluster, index: usize, ingresses: usize, paths: usize) {
    let path = |it: usize| (format!("/p{it}"), format!("s{}", (index + it * 7) % ingresses));
    let paths: Vec<_> = (0..paths).map(path).collect();
    let mut annotations = vec![("ssl-redirect", "false".to_owned())];
    if index.is_multiple_of(3) {
        annotations.extend([("proxy-body-size", "8m".to_owned()), ("proxy-read-timeout", "60".to_owned())]);
    }
    let spec = json!({"rules": rules(&format!("h{index}.test"), &paths)});
    put_ingress(cluster, &format!("i{index}"), &annotations, spec);
}

fn shared(before: &Http, after: &Http) -> usize {
    let is_known = |server: &&Arc<Server>| before.servers.iter().any(|known| Arc::ptr_eq(known, server));
    after.servers.iter().filter(is_known).count()
}

#[test]
fn one_changed_ingress_leaves_all_other_servers() {
    let mut process = Process::new(false, 1);
    let mut cluster = large(20, 5);
    process.renew(&cluster).unwrap();
    let before = process.http().clone();
    put_large_ingress(&mut cluster, 7, 20, 6);
    process.renew(&cluster).unwrap();
    assert_eq!(shared(&before, process.http()), before.servers.len() - 1);
    let before = process.http().clone();
    put_service(&mut cluster, "new", 80);
    let spec = json!({"rules": rules("a.test", &[("/".to_owned(), "new".to_owned())])});
    put_ingress(&mut cluster, "new", &[], spec);
    process.renew(&cluster).unwrap();
    assert_eq!(shared(&before, process.http()), before.servers.len(), "a host and a Service were added");
    let before = process.http().clone();
    cluster.ingresses.remove(&Name::new("shop", "new"));
    process.renew(&cluster).unwrap();
    assert_eq!(shared(&before, process.http()), before.servers.len() - 1, "and removed");
}

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

fn change(cluster: &mut Cluster, random: &mut Random, pairs: &[(String, String)]) {
    let number = random.below(6);
    match random.below(12) {
        0 => put_service(cluster, &format!("s{number}"), [80, 80, 81][random.below(3)]),
        1 => _ = cluster.services.remove(&Name::new("shop", format!("s{number}"))),
        2 => {
            let (chain, key) = &pairs[random.below(pairs.len())];
            put_secret(cluster, &format!("c{}", number % 2), &[("tls.crt", chain), ("tls.key", key)]);
        }
        3 => put_secret(cluster, "c0", &[("tls.crt", "-----BEGIN NOTHING"), ("tls.key", "-----BEGIN NOTHING")]),
        4 => _ = cluster.secrets.remove(&Name::new("shop", format!("c{}", number % 2))),
        5 => put_secret(cluster, "users", &[("auth", ["a:b", "c:d"][random.below(2)])]),
        6 => {
            let data = json!({"proxy-read-timeout": (random.below(2) + 7).to_string(), "hsts": "true"});
            cluster::insert(&mut cluster.config_maps, object("system", "controller", json!({"data": data})));
        }
        7 => _ = cluster.ingresses.remove(&Name::new("shop", format!("i{number}"))),
        _ => random_ingress(cluster, random, number),
    }
}

fn random_ingress(cluster: &mut Cluster, random: &mut Random, number: usize) {
    let host = format!("h{}.test", random.below(4));
    let path =
        |random: &mut Random| (["/", "/a", "/b/", "/c"][random.below(4)].to_owned(), format!("s{}", random.below(6)));
    let paths: Vec<_> = (0..=random.below(3)).map(|_| path(random)).collect();
    let all = [
        ("proxy-body-size", "8m".to_owned()),
        ("rewrite-target", "/x/$1".to_owned()),
        ("limit-rps", "5".to_owned()),
        ("whitelist-source-range", "10.0.0.0/8".to_owned()),
        ("server-alias", format!("alias{}.test", random.below(3))),
        ("backend-protocol", "HTTPS".to_owned()),
        ("canary", "true".to_owned()),
        ("canary-weight", "10".to_owned()),
        ("auth-type", "basic".to_owned()),
        ("auth-secret", "users".to_owned()),
        ("affinity", "cookie".to_owned()),
        ("enable-cors", "true".to_owned()),
        ("no-such-annotation", "x".to_owned()),
        ("proxy-read-timeout", "seven".to_owned()),
        ("ssl-redirect", "false".to_owned()),
    ];
    let mut annotations: Vec<_> = all.into_iter().filter(|_| random.one_in(6)).collect();
    if annotations.iter().any(|(name, _)| *name == "auth-type") {
        annotations.push(("auth-secret", "users".to_owned()));
    }
    let mut spec = json!({"rules": rules(&host, &paths)});
    if random.one_in(2) {
        spec["tls"] = json!([{"hosts": [host], "secretName": format!("c{}", random.below(2))}]);
    }
    put_ingress(cluster, &format!("i{number}"), &annotations, spec);
}

#[test]
fn any_changes_give_the_configuration_of_the_cluster() {
    let authority = testkit::Authority::new("reuse");
    let pairs: Vec<(String, String)> = (0..3)
        .map(|_| {
            let issued = authority.issue(&["h0.test", "h1.test", "h2.test", "h3.test"]);
            (issued.chain, issued.key)
        })
        .collect();
    let (mut sharing, mut fresh) = (Process::new(false, 2), Process::new(true, 2));
    // The same certificate of its own, since its path and its content are part of both.
    fresh.frame.own_files = sharing.frame.own_files.clone();
    let mut cluster = Cluster::default();
    let (mut random, mut all, mut same) = (Random(7), 0, 0);
    for round in 0..300 {
        change(&mut cluster, &mut random, &pairs);
        let before = sharing.serving.as_ref().map(|_| sharing.http().clone());
        let (now, expected) = (sharing.renew(&cluster), fresh.renew(&cluster));
        assert_eq!(now, expected, "round {round}");
        assert_eq!(sharing.shown(), fresh.shown(), "round {round}");
        all += sharing.http().servers.len();
        same += before.map_or(0, |before| shared(&before, sharing.http()));
    }
    assert!(same * 3 > all, "{same} of {all} servers were shared");
}

/// Prints how long a change takes. `cargo test --profile dist … reuse_tests::times -- --ignored --nocapture`
#[test]
#[ignore = "prints times of a large cluster, and compares nothing"]
fn times() {
    let mut process = Process::new(false, 20);
    let mut cluster = large(1000, 5);
    for round in 0..8 {
        put_large_ingress(&mut cluster, round * 97, 1000, 5 + round % 2);
        let (begun, used) = (Instant::now(), reactor::thread_cpu());
        process.renew(&cluster).unwrap();
        println!("round {round}: {:?}, {:?} of CPU", begun.elapsed(), reactor::thread_cpu().saturating_sub(used));
    }
}
