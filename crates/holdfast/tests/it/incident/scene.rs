//! What the tests of incidents share: upstreams that change their behaviour, clients that note each response, a recorder with short
//! intervals, and the check of a report.

use crate::support::{DEADLINE, Instance, holdfast, until};
use incident::record::wall_clock_ms;
use incident::sample::Sample;
use incident::store::read;
use serde_json::Value;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, UNIX_EPOCH};
use testkit::{Running, Talk};

/// What an upstream does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// Answers with this many bytes after this time.
    Answers(Duration, usize),
    /// Closes without an answer.
    Closes,
    /// Keeps the connection and says nothing.
    Keeps,
}

pub(super) const WELL: Habit = Habit::Answers(Duration::ZERO, 2);

/// An upstream. Each connection has a thread.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    habit: Arc<Mutex<Habit>>,
    over: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    /// `keeps`: connections are kept for further requests.
    pub(super) fn start(keeps: bool) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("bound"), keeps)
    }

    pub(super) fn on(listener: TcpListener, keeps: bool) -> Self {
        let address = listener.local_addr().expect("bound");
        let (habit, over) = (Arc::new(Mutex::new(WELL)), Arc::new(AtomicBool::new(false)));
        let acceptor = std::thread::spawn({
            let (habit, over) = (Arc::clone(&habit), Arc::clone(&over));
            move || {
                // Not blocking, so that it ends also where no connection can wake it.
                listener.set_nonblocking(true).expect("set");
                while !over.load(Ordering::SeqCst) {
                    let Ok((stream, _)) = listener.accept() else {
                        std::thread::park_timeout(Duration::from_millis(2));
                        continue;
                    };
                    let habit = Arc::clone(&habit);
                    std::thread::spawn(move || serve(stream, &habit, keeps));
                }
            }
        });
        Self { address, habit, over, acceptor: Some(acceptor) }
    }

    /// Changes what it does; returns when.
    pub(super) fn set(&self, habit: Habit) -> u64 {
        *self.habit.lock().expect("no thread panics with it") = habit;
        wall_clock_ms()
    }

    /// Closes the listener; returns when.
    pub(super) fn stop(&mut self) -> u64 {
        self.over.store(true, Ordering::SeqCst);
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().expect("it ends");
        }
        wall_clock_ms()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(stream: TcpStream, habit: &Mutex<Habit>, keeps: bool) {
    let mut talk = Talk::of(stream);
    while talk.request().is_some() {
        let now = *habit.lock().expect("no thread panics with it");
        match now {
            Habit::Closes => return,
            Habit::Keeps => {}
            Habit::Answers(delay, length) => {
                std::thread::park_timeout(delay);
                let close = if keeps { "" } else { "Connection: close\r\n" };
                let body = "x".repeat(length);
                talk.send(format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {length}\r\n\r\n{body}"));
                if !keeps {
                    return;
                }
            }
        }
    }
}

/// A response as a client saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) at_ms: u64,
    /// 0: none came.
    pub(super) status: u16,
}

/// Clients that ask over and over, each on one connection.
pub(super) struct Load {
    seen: Arc<Mutex<Vec<Seen>>>,
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
    port: u16,
}

impl Load {
    pub(super) fn start(port: u16, clients: usize, pause: Duration) -> Self {
        let mut load = Self { seen: Arc::default(), over: Arc::default(), clients: Vec::new(), port };
        load.add(clients, pause);
        load
    }

    /// Starts more clients; returns when.
    pub(super) fn add(&mut self, clients: usize, pause: Duration) -> u64 {
        for _ in 0..clients {
            let (seen, over, port) = (Arc::clone(&self.seen), Arc::clone(&self.over), self.port);
            self.clients.push(std::thread::spawn(move || {
                let mut stream = None;
                while !over.load(Ordering::SeqCst) {
                    let status = ask(&mut stream, port).unwrap_or_else(|_| {
                        stream = None;
                        0
                    });
                    seen.lock().expect("no thread panics with it").push(Seen { at_ms: wall_clock_ms(), status });
                    std::thread::park_timeout(pause);
                }
            }));
        }
        wall_clock_ms()
    }

    /// Waits for a failed response at or after this moment; returns when it came.
    pub(super) fn first_failure(&self, from_ms: u64) -> u64 {
        let mut found = None;
        until("a request fails", || {
            let seen = self.seen.lock().expect("no thread panics with it");
            found = seen.iter().find(|seen| seen.at_ms >= from_ms && seen.status != 200).map(|seen| seen.at_ms);
            found.is_some()
        });
        found.expect("just found")
    }

    /// All responses so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no thread panics with it").clone()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        for client in self.clients.drain(..) {
            let _ = client.join();
        }
    }
}

/// Sends a request on the connection, or on a new one; returns the status.
fn ask(kept: &mut Option<TcpStream>, port: u16) -> io::Result<u16> {
    let stream = if let Some(stream) = kept {
        stream
    } else {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(DEADLINE))?;
        kept.insert(stream)
    };
    // A header and a query that must not be in any recording.
    let request = "GET /?token=SECRETQUERY HTTP/1.1\r\nHost: a\r\nAuthorization: SECRETHEADER\r\n\r\n";
    Ok(testkit::ask(stream, request)?.status())
}

/// The time between two samples. Some rules need signs that last two seconds, however many samples that is.
pub(super) const INTERVAL_MS: u64 = 200;
/// Samples before a fault, and while it lasts.
const SAMPLES: usize = 20;

fn flags(instance: &Instance, cpu: &str) -> Vec<String> {
    let path = |name: &str| instance.path(name).display().to_string();
    ["--cpu", cpu, "-c", &path("nginx.conf"), "-p", &path("")].map(str::to_owned).to_vec()
}

/// A running recorder.
pub(super) struct Recorder {
    /// It ends before its folder is removed.
    _running: Running,
    folder: tempfile::TempDir,
}

impl Recorder {
    /// Beside a gateway. It reads sockets rarely: other tests leave many on this machine.
    pub(super) fn beside(instance: &Instance) -> Self {
        Self::start(&flags(instance, "10"))
    }

    /// Beside a gateway in a network namespace, where it reads the sockets for each sample.
    pub(super) fn with_sockets(instance: &Instance) -> Self {
        Self::start(&flags(instance, "100"))
    }

    pub(super) fn start(flags: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let child = holdfast()
            .args(["record", "--interval", &format!("{INTERVAL_MS}ms"), "--dir"])
            .arg(folder.path().join("recorder"))
            .args(flags)
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("stderr")).expect("made"))
            .spawn()
            .expect("the program starts");
        Self { _running: Running::of(child), folder }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("recorder")
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        read(&self.path(), 0, u64::MAX).map(|recording| recording.samples).unwrap_or_default()
    }

    /// Waits for samples of a time without a fault.
    pub(super) fn record_baseline(&self) {
        self.record(SAMPLES);
    }

    /// Waits for this many more samples.
    pub(super) fn record(&self, count: usize) {
        // An hour of samples is not read each time.
        let begun_ms = u64::try_from(UNIX_EPOCH.elapsed().expect("after 1970").as_millis()).expect("in range");
        let more = || read(&self.path(), begun_ms, u64::MAX).map_or(0, |recording| recording.samples.len());
        let mut read_bytes = 0;
        until("samples are recorded", || {
            let errors = std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
            assert!(!errors.contains("failed"), "{errors}");
            // Reading the recording takes longer than looking whether it has grown.
            let bytes = self.bytes();
            bytes != std::mem::replace(&mut read_bytes, bytes) && more() >= count
        });
    }

    /// The size of the recording.
    fn bytes(&self) -> u64 {
        let files = std::fs::read_dir(self.path()).into_iter().flatten().flatten();
        files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
    }

    /// What `holdfast incident` says of the last ten minutes.
    pub(super) fn judgement(&self) -> Value {
        let output = holdfast().args(["incident", "--json", "--dir"]).arg(self.path()).output().expect("it starts");
        let judgement: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        let claims = judgement["claims"].as_array().map_or(0, Vec::len);
        assert_eq!(output.status.code(), Some(if claims > 0 { 3 } else { 0 }), "{judgement:#}");
        judgement
    }

    /// The report must have one claim that nothing explains: this cause, about this subject, with its onset within two samples of
    /// the effect that was seen. Returns the claim.
    pub(super) fn assert_names(&self, cause: &str, subject: &str, effect_ms: u64) -> Value {
        self.record(SAMPLES);
        let judgement = self.judgement();
        let claims = judgement["claims"].as_array().expect("claims");
        let shown = || format!("{judgement:#}");
        assert_eq!(claims.len(), 1, "{}", shown());
        let claim = claims.first().expect("one");
        assert_eq!((claim["cause"].as_str(), claim["subject"].as_str()), (Some(cause), Some(subject)), "{}", shown());
        assert_eq!(claim["since_earlier"], false, "{}", shown());
        let since_ms = claim["since_ms"].as_u64().expect("a time");
        let samples = self.samples();
        let place = |at_ms: u64| samples.partition_point(|sample| sample.at_ms < at_ms);
        // The effect is in the first sample that begins after it.
        let (expected, found) = (place(effect_ms), place(since_ms));
        assert!(expected.abs_diff(found) <= 2, "sample {found} instead of {expected}: {effect_ms}\n{}", shown());
        self.assert_no_secrets();
        claim.clone()
    }

    /// Nothing of a request is on disk.
    pub(super) fn assert_no_secrets(&self) {
        for entry in std::fs::read_dir(self.path()).expect("a folder").flatten() {
            let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default()).into_owned();
            assert!(!text.contains("SECRET"), "{}", entry.path().display());
        }
    }
}

/// A figure of a claim: before and during.
pub(super) fn figure(claim: &Value, what: &str) -> (String, String) {
    let all = claim["evidence"].as_array().expect("evidence");
    let found = all.iter().find(|evidence| evidence["what"].as_str().is_some_and(|text| text.contains(what)));
    let found = found.unwrap_or_else(|| panic!("no figure of {what}: {claim:#}"));
    (found["before"].as_str().unwrap_or_default().to_owned(), found["during"].as_str().unwrap_or_default().to_owned())
}

/// The causes of what a claim led to.
pub(super) fn consequences(claim: &Value) -> Vec<String> {
    let all = claim["consequences"].as_array().expect("consequences");
    all.iter().filter_map(|also| Some(also["cause"].as_str()?.to_owned())).collect()
}
