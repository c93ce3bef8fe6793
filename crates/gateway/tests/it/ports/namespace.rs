//! Network namespaces: a test runs itself again inside one, which has this process's number in its name and is removed
//! afterwards. So neither the machine's settings nor its other connections matter.

use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

/// Set for the run inside.
const INSIDE: &str = "HOLDFAST_NAMESPACE";

/// Whether the caller is inside. If not, the test named `test` was run inside, or skipped, when this returns.
pub(crate) fn enter(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        run("ip", &["link", "set", "lo", "up"]);
        run("ip", &["address", "add", "10.99.0.1/32", "dev", "lo"]);
        return true;
    }
    let name = format!("holdfast-{}-{}", std::process::id(), &test[..test.len().min(24)]);
    let Some(namespace) = Namespace::add(&name) else {
        testkit::skip("a network namespace takes root and iproute2");
        return false;
    };
    let program = std::env::current_exe().unwrap();
    let output = Command::new("ip")
        .args(["netns", "exec", &namespace.0])
        .arg(program)
        .args([&format!("ports::{test}"), "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "inside:\n{out}\n{err}");
    false
}

/// Removed when dropped.
struct Namespace(String);

impl Namespace {
    fn add(name: &str) -> Option<Self> {
        let added = Command::new("ip").args(["netns", "add", name]).stderr(Stdio::null()).status();
        added.is_ok_and(|status| status.success()).then(|| Self(name.to_owned()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

/// Runs a program that must succeed.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Sets an IP setting of the namespace.
pub(crate) fn set(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
}

/// From now on `connect()` chooses from 64 ports.
pub(crate) fn narrow_range() {
    set("ip_local_port_range", "20000 20063");
}

/// Our sockets in TIME_WAIT, or about to be, towards an address, as counted by the kernel.
pub(crate) fn waiting_in_kernel(to: SocketAddr) -> usize {
    let IpAddr::V4(ip) = to.ip() else { panic!("an IPv4 address") };
    let remote = format!("{:08X}:{:04X}", u32::from_le_bytes(ip.octets()), to.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    // `sl local_address rem_address st …`; 04 and 05 are FIN_WAIT1 and FIN_WAIT2, 06 is TIME_WAIT.
    let waits = |line: &&str| {
        let mut columns = line.split_ascii_whitespace().skip(2);
        columns.next() == Some(&remote) && matches!(columns.next(), Some("04" | "05" | "06"))
    };
    table.lines().skip(1).filter(waits).count()
}
