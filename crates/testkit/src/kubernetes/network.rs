//! The network of a node: a namespace with a bridge, to which each Pod's namespace is connected. The machine's own network is not
//! touched: its programs and the node meet at relays only.

use super::relay::Relay;
use super::warden::{self, Kind};
use crate::{output_for, skip};
use nix::sched::{CloneFlags, setns};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::panic::resume_unwind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// The node's address among its Pods. Each node has a namespace of its own, so all have the same.
const NODE: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// Pods of a node in a test; their addresses end below 10.244.255.0.
const PODS_MAX: u32 = 65_000;

/// A node's network. Everything in it ends with it.
#[derive(Debug)]
pub struct Network {
    namespace: Named,
    pods: AtomicU32,
    relays: Mutex<Vec<Relay>>,
    /// What was shared.
    shared: Mutex<BTreeSet<SocketAddr>>,
}

impl Network {
    /// Makes one; `None`, after [`skip`], where that is not allowed.
    #[track_caller]
    pub fn new_or_skip() -> Option<Self> {
        let Some(namespace) = Named::add() else {
            skip("a network namespace takes root and iproute2");
            return None;
        };
        let batch =
            format!("link set lo up\nlink add pods type bridge\naddress add {NODE}/16 dev pods\nlink set pods up\n");
        ip(&["-netns", &namespace.0], &batch);
        Some(Self { namespace, pods: AtomicU32::new(0), relays: Mutex::default(), shared: Mutex::default() })
    }

    /// The node's address, which its Pods and its own programs reach.
    pub fn address(&self) -> Ipv4Addr {
        NODE
    }

    /// A program that runs in the node's namespace.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Runs a closure in the node's namespace, on a thread of its own. Its sockets, and the threads that it starts, stay there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter(&self.namespace.0);
                work()
            });
            inside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Makes an address of the caller's namespace reachable at the same address in the node's: the API server, for example.
    pub fn share(&self, address: SocketAddr) {
        if self.shared.lock().unwrap_or_else(PoisonError::into_inner).insert(address) {
            self.relay_from_node(address, address);
        }
    }

    /// Makes an address of the caller's namespace, such as that of a `Peer`, reachable at the node's address; returns where.
    pub fn publish(&self, address: SocketAddr) -> SocketAddr {
        self.relay_from_node((NODE, 0).into(), address)
    }

    fn relay_from_node(&self, from: SocketAddr, to: SocketAddr) -> SocketAddr {
        let listener = self.run(|| TcpListener::bind(from)).expect("a free address of the node");
        let at = listener.local_addr().expect("bound");
        self.keep(Relay::start(listener, to, None));
        at
    }

    /// Makes an address of the node's namespace reachable from the caller's; returns where, on loopback.
    pub fn reach(&self, address: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let at = listener.local_addr().expect("bound");
        self.keep(Relay::start(listener, address, Some(self.namespace.0.clone())));
        at
    }

    fn keep(&self, relay: Relay) {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner).push(relay);
    }

    /// A namespace for a Pod, connected to the node's.
    pub(super) fn add_pod(&self) -> PodNetwork {
        let serial = self.pods.fetch_add(1, Ordering::Relaxed);
        assert!(serial < PODS_MAX, "a test has fewer Pods");
        let address = Ipv4Addr::from(u32::from(NODE) + 1 + serial);
        let namespace = Named::add().expect("a node's namespace was made before");
        let (pod, cable) = (&namespace.0, format!("pod{serial}"));
        ip(
            &["-netns", &self.namespace.0],
            &format!(
                "link add {cable} type veth peer name eth0 netns {pod}\nlink set {cable} master pods\nlink set {cable} up\n"
            ),
        );
        ip(
            &["-netns", pod],
            &format!(
                "link set lo up\naddress add {address}/16 dev eth0\nlink set eth0 up\nroute add default via {NODE}\n"
            ),
        );
        PodNetwork { namespace, address }
    }
}

/// A Pod's network.
#[derive(Debug)]
pub(super) struct PodNetwork {
    namespace: Named,
    pub(super) address: Ipv4Addr,
}

impl PodNetwork {
    /// A program that runs in the Pod's namespace.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.namespace.command(program)
    }
}

/// A namespace under a name of `ip netns`, removed when dropped.
#[derive(Debug)]
struct Named(String);

impl Named {
    fn add() -> Option<Self> {
        static ADDED: AtomicU32 = AtomicU32::new(0);
        let name = format!("holdfast-{}-{}", std::process::id(), ADDED.fetch_add(1, Ordering::Relaxed));
        let added = Command::new("ip").args(["netns", "add", &name]).stderr(Stdio::null()).status();
        let added = added.is_ok_and(|status| status.success());
        if added {
            warden::keep(Kind::Namespace, &name);
        }
        added.then(|| Self(name))
    }

    /// `nsenter` becomes the program, so the process is the program itself.
    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", file(&self.0))).arg("--").arg(program);
        command
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        warden::forget(Kind::Namespace, &self.0);
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

fn file(name: &str) -> String {
    format!("/run/netns/{name}")
}

/// Moves the calling thread into a namespace.
pub(super) fn enter(name: &str) {
    let namespace = File::open(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    setns(namespace, CloneFlags::CLONE_NEWNET).unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn ip(arguments: &[&str], batch: &str) {
    let output = output_for(Command::new("ip").args(arguments).args(["-batch", "-"]), batch);
    assert!(output.status.success(), "ip: {}\n{batch}", String::from_utf8_lossy(&output.stderr));
}
