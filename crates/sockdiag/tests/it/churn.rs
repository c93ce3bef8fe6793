//! What a census and a look at the processes find while thousands of sockets come and go beside those that stay.

use crate::elsewhere::{Elsewhere, skipped};
use rustix::net::sockopt::set_socket_linger;
use sockdiag::{Census, Owners, Question, Socket, SocketUse, State, Summary};
use std::collections::HashSet;
use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Connections that stay, each with two sockets: all tests together need fewer than the 1,024 descriptors of a shell.
const LASTING: usize = 50;
/// Threads that open and close beside them.
const CHURNING: usize = 3;
/// Descriptors that these have at most: each as many connections as one of its rounds, with two ends, and a listener.
const BELOW: usize = CHURNING * (2 * ROUND + 1);
/// Connections that are opened before all of them are closed.
const ROUND: usize = 24;
/// Longer than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// Looks while they do.
const LOOKS: usize = 40;

/// Ends threads when the test does, by a panic, too.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Opens and closes connections of its own until the end, some dozen at a time, and counts them. They end by resets, so that no
/// TIME_WAIT is left that uses up the ports.
fn churn<'scope>(scope: &'scope Scope<'scope, '_>, ended: &'scope AtomicBool, opened: &'scope AtomicU64) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    scope.spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            let mut pairs = Vec::new();
            for _ in 0..ROUND {
                let client = TcpStream::connect(address).expect("it listens");
                set_socket_linger(&client, Some(Duration::ZERO)).expect("set");
                pairs.push((client, listener.accept().expect("connected").0));
                opened.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
}

/// Connections that stay as long as this.
fn lasting() -> Vec<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let mut kept = Vec::new();
    for _ in 0..LASTING {
        kept.push(TcpStream::connect(address).expect("it listens"));
        kept.push(listener.accept().expect("connected").0);
    }
    kept
}

/// Its addresses, both ends.
fn ends(stream: &TcpStream) -> (SocketAddr, SocketAddr) {
    (stream.local_addr().expect("bound"), stream.peer_addr().expect("connected"))
}

/// Both ends of each established socket of one census, and how it went; no cookie comes twice.
fn look(census: &mut Census) -> (HashSet<(SocketAddr, SocketAddr)>, Summary) {
    let (mut cookies, mut standing) = (HashSet::new(), HashSet::new());
    let visit = |socket: &Socket| {
        assert!(cookies.insert(socket.cookie), "{socket:?} came twice");
        if socket.state == State::Established {
            standing.insert((socket.local, socket.remote));
        }
    };
    let summary = census.for_each(&Question::default(), visit).expect("the kernel answers");
    (standing, summary)
}

#[test]
fn a_census_visits_lasting_sockets_once_despite_churn() {
    let Some(elsewhere) = Elsewhere::start("a_census_visits_lasting_sockets_once_despite_churn") else { return };
    elsewhere.run(|| {
        loopback_up();
        let kept = lasting();
        let (ended, opened) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut census = Census::open().expect("a kernel");
        std::thread::scope(|scope| {
            let _ends = Ends(&ended);
            for _ in 0..CHURNING {
                churn(scope, &ended, &opened);
            }
            for number in 0..LOOKS {
                let (standing, summary) = look(&mut census);
                let lost = kept.iter().filter(|stream| !standing.contains(&ends(stream))).count();
                assert_eq!(lost, 0, "look {number} of {} sockets, beside {opened:?} connections", summary.sockets);
            }
        });
        assert!(opened.load(Ordering::Relaxed) > LOOKS as u64, "there was churn");
        // And now that it has ended: as many as the kernel's own books have.
        // The last resets may still be under way at the first look.
        let deadline = Instant::now() + DEADLINE;
        loop {
            let told = look(&mut census).1.sockets;
            let books = SocketUse::read().expect("/proc is there");
            let booked = [books.tcp, books.tcp6, books.time_waits].into_iter().flatten().sum::<u64>();
            if told == booked {
                return;
            }
            assert!(Instant::now() < deadline, "{told} told, {books:?}");
        }
    });
}

/// If many sockets share a chain of the kernel's table, each socket that is added between two reads moves the others.
#[test]
fn visits_repeated_sockets_once() {
    const NAME: &str = "visits_repeated_sockets_once";
    /// How many chains a namespace has that is made from this one (Linux 6.1).
    const CHAINS: &str = "/proc/sys/net/ipv4/tcp_child_ehash_entries";
    let Some(parent) = Elsewhere::start(NAME) else { return };
    let child = parent.run(|| std::fs::write(CHAINS, "16").is_ok().then(|| Elsewhere::start(NAME)).flatten());
    let Some(child) = child else {
        return skipped(NAME, "needs a kernel that makes tables of few chains");
    };
    child.run(|| {
        loopback_up();
        let _kept = lasting();
        let (ended, opened) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let _ends = Ends(&ended);
            for _ in 0..CHURNING {
                churn(scope, &ended, &opened);
            }
            let mut census = Census::open().expect("a kernel");
            let deadline = Instant::now() + DEADLINE;
            while look(&mut census).1.retold == 0 {
                assert!(Instant::now() < deadline, "nothing was told twice beside {opened:?} connections");
            }
        });
    });
}

#[test]
fn finds_lasting_sockets_of_a_process_with_churn() {
    // What comes and goes takes numbers below those that stay, so that it is met, and counted, before them.
    let below: Vec<File> = (0..BELOW).map(|_| File::open("/dev/null").expect("it is there")).collect();
    let kept = lasting();
    drop(below);
    let inodes: Vec<u32> = kept.iter().map(inode_of).collect();
    let (ended, opened) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&ended);
        for _ in 0..CHURNING {
            churn(scope, &ended, &opened);
        }
        for look in 0..LOOKS {
            let owners = Owners::of_processes([std::process::id()]);
            let lost = inodes.iter().filter(|inode| owners.of(**inode).is_none()).count();
            assert_eq!(lost, 0, "look {look}, beside {opened:?} connections");
        }
    });
}

fn inode_of(stream: &TcpStream) -> u32 {
    use std::os::fd::AsRawFd as _;
    use std::os::linux::fs::MetadataExt as _;
    let status = std::fs::metadata(format!("/proc/self/fd/{}", stream.as_raw_fd())).expect("it is open");
    u32::try_from(status.st_ino()).expect("a socket's number")
}

/// A new namespace's loopback is down.
fn loopback_up() {
    let up =
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("iproute2 is installed");
    assert!(up.success());
}
