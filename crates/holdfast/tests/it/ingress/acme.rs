//! Certificates by ACME for a cluster, with Pebble as the authority and two replicas: its requests reach either of them.

use super::scene::{Replica, Scene, wait_until};
use crate::support::pebble::{Pebble, Settings};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use testkit::Talk;
use testkit::kubernetes::ControlPlane;
use tls::{ClientSide, Trust};

const SECRETS: &str = "v1/secrets";
/// Ninety days.
const LONG_S: u32 = 90 * 86_400;

/// A load balancer as the authority sees it: each connection goes to the next replica.
struct Balancer {
    port: u16,
    replicas: Arc<Mutex<Vec<SocketAddr>>>,
    /// Connections to each of them.
    counts: Arc<[AtomicUsize; 2]>,
}

impl Balancer {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let replicas: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let counts: Arc<[AtomicUsize; 2]> = Arc::default();
        let (targets, counted) = (Arc::clone(&replicas), Arc::clone(&counts));
        // It ends with the program of the tests.
        std::thread::spawn(move || {
            for (serial, client) in listener.incoming().enumerate() {
                let targets = targets.lock().expect("no panic").clone();
                if let (Ok(client), false) = (client, targets.is_empty()) {
                    let place = serial % targets.len();
                    counted[place].fetch_add(1, Ordering::SeqCst);
                    std::thread::spawn(move || pass(client, targets[place]));
                }
            }
        });
        Self { port, replicas, counts }
    }

    fn leads_to(&self, replicas: &[&Replica]) {
        *self.replicas.lock().expect("no panic") = replicas.iter().map(|replica| replica.http).collect();
    }
}

/// One request and its answer.
fn pass(mut client: TcpStream, to: SocketAddr) {
    let Ok(mut server) = TcpStream::connect(to) else { return };
    let (mut from, mut into) = (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if into.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = into.shutdown(Shutdown::Write);
    });
    let mut answer = Vec::new();
    if server.read_to_end(&mut answer).is_ok() {
        let _ = client.write_all(&answer);
    }
    let _ = client.shutdown(Shutdown::Both);
}

/// An authority that validates at the balancer, and the flags for it.
fn authority(scene: &Scene<'_>, balancer: &Balancer, validity_s: u32) -> (Pebble, Vec<String>) {
    let settings =
        Settings { http_port: balancer.port, tls_port: testkit::free_port(), validity_s, bound_accounts: false };
    let pebble = Pebble::started(settings);
    scene.network.share((Ipv4Addr::LOCALHOST, pebble.port).into());
    let flags = vec![
        format!("--acme-directory=https://127.0.0.1:{}/dir", pebble.port),
        format!("--acme-trusted-certificate={}", pebble.folder().join("pebble.pem").display()),
        "--acme-contact=admin@shop.test".to_owned(),
        "--acme-accept-terms".to_owned(),
    ];
    (pebble, flags)
}

/// Two replicas; the first one leads.
fn replicas(scene: &Scene<'_>, flags: &[String]) -> (Replica, Replica) {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let first = scene.replica(&flags);
    wait_until("the first one leads", || first.figure("leader") == 1);
    let second = scene.start_at(&flags, 1);
    second.wait_until_ready();
    (first, second)
}

/// An Ingress that asks for a certificate.
fn ask(scene: &Scene<'_>, name: &str, host: &str, secret: &str) {
    let tls = json!([{"secretName": secret, "hosts": [host]}]);
    scene.ingress_with(name, host, "pod", &json!({"kubernetes.io/tls-acme": "true"}), &tls);
}

fn event(scene: &Scene<'_>, ingress: &str, reason: &str) -> String {
    let mut message = String::new();
    wait_until(&format!("{reason} of {ingress}"), || {
        let events = scene.plane.events(&scene.namespace, ingress);
        let found = events.into_iter().find(|event| event.reason == reason);
        found.is_some_and(|event| {
            message = event.message;
            true
        })
    });
    message
}

fn client(pebble: &Pebble) -> ClientSide {
    ClientSide::new(Trust::Authorities(pebble.root().into_bytes())).build().expect("a root")
}

fn certificate(secret: &Value) -> String {
    secret["data"]["tls.crt"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_leader_orders_and_every_replica_answers_and_serves() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let balancer = Balancer::start();
    let (pebble, flags) = authority(&scene, &balancer, LONG_S);
    let foreign = json!({"metadata": {"name": "foreign"}, "data": {"tls.crt": "bm8=", "tls.key": "bm8="}, "type": "kubernetes.io/tls"});
    scene.plane.create(SECRETS, &scene.namespace, &foreign);
    let (first, second) = replicas(&scene, &flags);
    balancer.leads_to(&[&first, &second]);
    let (_pod, address) = scene.pod("pod");
    scene.service("pod");
    scene.slice("pod", "pod-1", address);
    ask(&scene, "front", "shop.test", "front");
    ask(&scene, "foreign", "foreign.test", "foreign");
    ask(&scene, "nowhere", "nowhere.test", "nowhere");
    ask(&scene, "star", "*.star.test", "star");
    let secret =
        scene.plane.wait_for(SECRETS, &scene.namespace, "front", "a certificate", |it| !certificate(it).is_empty());
    assert_eq!(
        (&secret["type"], &secret["metadata"]["labels"]["holdfast.dev/acme"]),
        (&json!("kubernetes.io/tls"), &json!("certificate"))
    );
    for replica in [&first, &second] {
        wait_until("the certificate is used", || {
            Talk::connect_secure(replica.https, &client(&pebble), "shop.test").is_ok()
        });
        let mut talk = Talk::connect_secure(replica.https, &client(&pebble), "shop.test").expect("trusted");
        assert_eq!(talk.ask_of("shop.test", "/", "").body, b"pod");
    }
    // Pebble asks three times at once.
    assert!(balancer.counts.iter().all(|count| count.load(Ordering::SeqCst) > 0), "{:?}", balancer.counts);
    assert!(event(&scene, "front", "CertificateIssued").contains("shop.test"));
    assert!(event(&scene, "nowhere", "CertificateFailed").contains("the challenge for nowhere.test was rejected"));
    assert!(event(&scene, "star", "CertificateRefused").contains("needs a DNS challenge"));
    assert!(event(&scene, "foreign", "CertificateNotOurs").contains("is left as it is"));
    let kept = scene.plane.get(SECRETS, &scene.namespace, "foreign").expect("it is there");
    assert_eq!(kept["data"], foreign["data"]);
    assert_eq!((first.figure("certificates_issued_total"), second.figure("certificates_issued_total")), (1, 0));
    assert!(scene.plane.get(SECRETS, &scene.namespace, "nowhere").is_none());
    scene
        .plane
        .wait_for(SECRETS, &scene.namespace, "holdfast-acme-challenges", "no answers", |it| it["data"].is_null());
}

#[test]
fn next_leader_renews_with_the_same_account() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let balancer = Balancer::start();
    // It is renewed after eight seconds or a little less.
    let (pebble, flags) = authority(&scene, &balancer, 12);
    let (mut first, second) = replicas(&scene, &flags);
    balancer.leads_to(&[&first, &second]);
    let (_pod, address) = scene.pod("pod");
    scene.service("pod");
    scene.slice("pod", "pod-1", address);
    ask(&scene, "front", "shop.test", "front");
    let secret =
        scene.plane.wait_for(SECRETS, &scene.namespace, "front", "a certificate", |it| !certificate(it).is_empty());
    let side = client(&pebble);
    wait_until("the certificate is used", || Talk::connect_secure(second.https, &side, "shop.test").is_ok());
    let generations = second.generations();
    balancer.leads_to(&[&second]);
    first.signal(Signal::SIGTERM);
    assert!(first.wait().success());
    wait_until("the second one leads", || second.figure("leader") == 1);
    scene.plane.wait_for(SECRETS, &scene.namespace, "front", "another certificate", |it| {
        certificate(it) != certificate(&secret)
    });
    wait_until("it is used", || second.figure("certificate_renewals_total") > 0);
    wait_until("clients trust it", || Talk::connect_secure(second.https, &side, "shop.test").is_ok());
    wait_until("the second one ordered it", || second.figure("certificates_issued_total") > 0);
    assert_eq!(second.generations(), generations, "a renewed certificate makes no configuration");
    assert_eq!(pebble.log().matches("accounts in memory").count(), 1, "one account: {}", pebble.log());
}

#[test]
fn without_an_authority_nothing_is_ordered_or_written() {
    let Some(scene) = Scene::new_or_skip(ControlPlane::shared()) else { return };
    let replica = scene.replica(&[]);
    wait_until("it leads", || replica.figure("leader") == 1);
    let tls = json!([{"secretName": "front", "hosts": ["shop.test"]}]);
    scene.service("pod");
    scene.ingress_with("front", "shop.test", "pod", &json!({"holdfast.dev/acme": "true"}), &tls);
    assert!(event(&scene, "front", "NoAuthority").contains("--acme-directory"));
    assert!(scene.plane.list(SECRETS, &scene.namespace).is_empty());
}
