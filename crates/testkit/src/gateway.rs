//! The real gateway in the test's process: a configuration is loaded, checked, lowered, bound and served by worker threads, as the
//! binary does it. Two things differ: the file system is a text and an empty directory, and the kernel picks the ports.

use crate::signal::until;
use crate::{Authority, DEADLINE, Talk};
use conf::Loaded;
use conf::diagnostic::{Diagnostic, Severity};
use conf::source::SourceMap;
use gateway::explain::{ExplainedRequest, Explanation, explain};
use gateway::{BoundPlan, ErrorLog, Level, ListenerId, LogSink, LowerOptions, Message, Registry, Totals, records};
use reactor::{ListenOptions, Listener, PeerAddress};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;
use tls::{ClientSide, Trust};

/// The name of the only file there is.
const MAIN: &str = "nginx.conf";

/// Whether all clients speak TLS: a test program with this prefix in its name runs another program's tests over TLS.
fn under_tls() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    *IS.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        program.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"under_tls"))
    })
}

/// A configuration that explains requests.
pub struct Explainer {
    shared: &'static Registry,
    loaded: Loaded,
    plan: BoundPlan,
}

impl Explainer {
    /// What happens to a request.
    pub fn explain(&self, question: &ExplainedRequest) -> Result<Explanation, String> {
        explain(self.shared, &self.plan.generation, &self.loaded, question)
    }
}

/// A running gateway; dropping it stops it.
pub struct Gateway {
    shared: &'static Registry,
    addresses: Vec<SocketAddr>,
    listeners: Vec<(SocketAddr, Arc<Listener>)>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    prefix: tempfile::TempDir,
    upstreams: Vec<SocketAddr>,
    /// The text of the first configuration.
    text: String,
    logs: Mutex<Vec<Arc<LogSink>>>,
    error_logs: Mutex<Vec<Arc<ErrorLog>>>,
    error_text: Mutex<String>,
    access_text: Mutex<String>,
    warnings: Mutex<Vec<String>>,
    bugs_expected: bool,
}

impl Gateway {
    /// Starts one worker with this configuration. In its text `{listen}` means a loopback address of the kernel's
    /// choice, `{listen:1}`, `{listen:2}` … for further ones (` udp` and ` reuseport` may follow), and `{upstream:0}` … for the given addresses. The only host
    /// name that has an address is `localhost`.
    pub fn start(text: &str, upstreams: &[SocketAddr]) -> Self {
        Self::start_workers(1, text, upstreams)
    }

    /// As [`Self::start`], with a number of workers.
    pub fn start_workers(workers: u16, text: &str, upstreams: &[SocketAddr]) -> Self {
        let shared = Registry::leak(workers, ErrorLog::new(Level::Info, 0)).unwrap();
        let mut gateway = Self {
            shared,
            addresses: Vec::new(),
            listeners: Vec::new(),
            threads: Vec::new(),
            prefix: tempfile::tempdir().unwrap(),
            upstreams: upstreams.to_vec(),
            text: String::new(),
            logs: Mutex::default(),
            error_logs: Mutex::default(),
            error_text: Mutex::default(),
            access_text: Mutex::default(),
            warnings: Mutex::default(),
            bugs_expected: false,
        };
        gateway.text = gateway.fill_in(text);
        let (_, plan) = gateway.load(shared, &gateway.text);
        let listeners = gateway.listeners_of(&plan);
        for index in 0..workers {
            let (generation, listeners) = (Arc::clone(&plan.generation), listeners.clone());
            let worker = std::thread::Builder::new().name(format!("worker {index}"));
            // As in the program, a socket of datagrams has one worker, and of several each worker has its share.
            let mut sockets = 0..;
            let is_own = |(_, listener): &(ListenerId, Arc<Listener>)| {
                !listener.is_datagrams() || sockets.next().is_some_and(|at: u16| at % workers == index)
            };
            let listeners: Vec<_> = listeners.into_iter().filter(is_own).collect();
            let run = move || gateway::run(index, shared, generation, listeners);
            gateway.threads.push(worker.spawn(run).unwrap());
        }
        gateway
    }

    /// Puts addresses in the place of their placeholders; listening sockets are bound on the way.
    fn fill_in(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for index in 0.. {
            let placeholder = if index == 0 { "{listen}".to_owned() } else { format!("{{listen:{index}}}") };
            if !text.contains(&placeholder) {
                break;
            }
            if index >= self.addresses.len() {
                let address = loop {
                    let any = PeerAddress::Ip(SocketAddr::from(([127, 0, 0, 1], 0)));
                    let listener = Listener::bind(&any, &ListenOptions::default()).unwrap();
                    let Some(PeerAddress::Ip(address)) = listener.local_address().unwrap() else { unreachable!() };
                    // Another program may have the port of UDP.
                    let Some(datagrams) = self.datagram_sockets(&text, &placeholder, address) else { continue };
                    self.listeners.push((address, Arc::new(listener)));
                    self.listeners.extend(datagrams);
                    break address;
                };
                self.addresses.push(address);
            }
            text = text.replace(&placeholder, &self.addresses[index].to_string());
        }
        if under_tls() {
            text = self.secured(&text);
        }
        for (index, address) in self.upstreams.iter().enumerate() {
            text = text.replace(&format!("{{upstream:{index}}}"), &address.to_string());
        }
        text
    }

    /// The sockets for the datagrams of an address, if the text has `udp` behind its placeholder.
    fn datagram_sockets(
        &self,
        text: &str,
        placeholder: &str,
        address: SocketAddr,
    ) -> Option<Vec<(SocketAddr, Arc<Listener>)>> {
        let reuseport = text.contains(&format!("{placeholder} udp reuseport"));
        let count =
            if reuseport { self.shared.workers() } else { usize::from(text.contains(&format!("{placeholder} udp"))) };
        let options = ListenOptions { datagrams: true, reuseport, ..ListenOptions::default() };
        let bind = |_| Some((address, Arc::new(Listener::bind(&PeerAddress::Ip(address), &options).ok()?)));
        (0..count).map(bind).collect()
    }

    /// The configuration with TLS on every address of the test.
    fn secured(&self, text: &str) -> String {
        let (chain, key) = (self.prefix.path().join("tls.crt"), self.prefix.path().join("tls.key"));
        if !chain.exists() {
            Authority::new("Under TLS").issue(&["under-tls.test"]).write(self.prefix.path(), "tls");
        }
        let words = format!("ssl_certificate {}; ssl_certificate_key {};", chain.display(), key.display());
        let mut text = text.replacen("http {", &format!("http {{ {words}"), 1);
        for address in &self.addresses {
            text = text.replace(&format!("listen {address}"), &format!("listen {address} ssl"));
        }
        text
    }

    /// Load, check, lower, lower again, bind: an error is the end of the test.
    #[track_caller]
    fn load(&self, shared: &'static Registry, text: &str) -> (Loaded, BoundPlan) {
        let prefix = self.prefix.path();
        let loaded = conf::load(Path::new(MAIN), prefix, None, &mut OneFile(text));
        let mut found = loaded.diagnostics.clone();
        found.extend(conf::check(&loaded, conf::table::all()));
        refuse_errors(&found, &loaded.sources, text);
        let options = conf::model::Options { privileged: false };
        let (model, found) = conf::model::lower_with(&loaded.tree, &loaded.sources, options);
        refuse_errors(&found, &loaded.sources, text);
        let known_pairs = shared.known_pairs();
        let options = LowerOptions {
            prefix: prefix.to_path_buf(),
            workers: u16::try_from(shared.workers()).unwrap(),
            share: gateway::Share::default(),
            hostname: "testhost".to_owned(),
            resolve: &|name, port| match name {
                "localhost" => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
                _ => Err(io::Error::other("no such name here")),
            },
            now_s: std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
            conf_directory: loaded.conf_prefix.clone(),
            read: &|path| std::fs::read(path),
            known_pairs: &known_pairs,
        };
        let refused = |found: Vec<_>| -> ! {
            refuse_errors(&found, &loaded.sources, text);
            panic!("refused without an error")
        };
        let lowered = gateway::lower(&model, &options).unwrap_or_else(|found| refused(found));
        let warnings = lowered.warnings.iter().map(|warning| warning.message.clone()).collect();
        let plan = shared.bind(lowered.plan).unwrap_or_else(|found| refused(found));
        self.logs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(plan.logs.iter().map(|log| Arc::clone(&log.sink)));
        *self.warnings.lock().unwrap_or_else(PoisonError::into_inner) = warnings;
        let own = plan.error_logs.iter().map(|log| Arc::clone(&log.log));
        self.error_logs.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
        (loaded, plan)
    }

    fn listeners_of(&self, plan: &BoundPlan) -> Vec<(ListenerId, Arc<Listener>)> {
        let mut listeners = Vec::new();
        for spec in &plan.listeners {
            if matches!(spec.address, PeerAddress::Unix(_)) {
                listeners.push((spec.id, Arc::new(Listener::bind(&spec.address, &spec.options).unwrap())));
                continue;
            }
            let before = listeners.len();
            for (address, listener) in &self.listeners {
                if spec.address == PeerAddress::Ip(*address) && spec.options.datagrams == listener.is_datagrams() {
                    listener.apply(&spec.options).unwrap();
                    listeners.push((spec.id, Arc::clone(listener)));
                }
            }
            if listeners.len() == before {
                // A test of datagrams on all addresses of a port.
                assert!(spec.options.datagrams, "{:?} is no placeholder's address", spec.address);
                listeners.push((spec.id, Arc::new(Listener::bind(&spec.address, &spec.options).unwrap())));
            }
        }
        listeners
    }

    /// Gives all workers another configuration; its placeholders are the same addresses. The workers take it over in
    /// their own time.
    pub fn reload(&mut self, text: &str) {
        let text = self.fill_in(text);
        let (_, plan) = self.load(self.shared, &text);
        for worker in 0..self.shared.workers() {
            self.shared.send(worker, Message::Reload(Arc::clone(&plan.generation)));
        }
    }

    /// What `explain` needs for requests under the first configuration. It has shared state of its own: the requests
    /// that this gateway serves change nothing there.
    #[track_caller]
    pub fn explainer(&self) -> Explainer {
        let shared = Registry::leak(1, ErrorLog::new(Level::Info, 0)).unwrap();
        let (loaded, plan) = self.load(shared, &self.text);
        Explainer { shared, loaded, plan }
    }

    /// The first listening address.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// A listening address by the number in its placeholder.
    pub fn address_of(&self, index: usize) -> SocketAddr {
        self.addresses[index]
    }

    /// A new client of the first listening address.
    pub fn client(&self) -> Talk {
        Self::client_of(self.address())
    }

    /// The same for a gateway of which only the address is known.
    pub fn client_of(address: SocketAddr) -> Talk {
        if !under_tls() {
            return Talk::connect(address);
        }
        let anyone = ClientSide::new(Trust::Anyone).build().unwrap();
        Talk::connect_secure(address, &anyone, "under-tls.test").unwrap_or_else(|_| Talk::refused())
    }

    /// What relative paths of the configuration are relative to.
    pub fn prefix(&self) -> PathBuf {
        self.prefix.path().to_path_buf()
    }

    /// The test makes the gateway panic on purpose, so a panic does not fail the test.
    pub fn expect_bugs(&mut self) {
        self.bugs_expected = true;
    }

    /// The process's shared state.
    pub fn shared(&self) -> &'static Registry {
        self.shared
    }

    /// The sums over all workers.
    pub fn totals(&self) -> Totals {
        self.shared.totals()
    }

    /// Waits until the sums are as wanted.
    #[track_caller]
    pub fn until_totals(&self, what: &str, wanted: impl Fn(&Totals) -> bool) -> Totals {
        until(what, || Some(self.totals()).filter(&wanted))
    }

    /// The messages about the configuration that was loaded last.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The error logs so far, the process's and those of servers and locations.
    pub fn error_log(&self) -> String {
        let mut text = self.error_text.lock().unwrap_or_else(PoisonError::into_inner);
        let mut take = |lines: &[u8], dropped| {
            assert_eq!(dropped, 0, "lines of the error log were dropped");
            *text += &String::from_utf8_lossy(lines);
        };
        self.shared.error_log().flush(&mut take);
        for own in self.error_logs.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            own.flush(&mut take);
        }
        text.clone()
    }

    /// Waits for a line of the error log with this phrase in it, and returns the first one.
    #[track_caller]
    pub fn logged(&self, phrase: &str) -> String {
        let begun = Instant::now();
        loop {
            let log = self.error_log();
            if let Some(line) = log.lines().find(|line| line.contains(phrase)) {
                return line.to_owned();
            }
            assert!(begun.elapsed() < DEADLINE, "the error log has no {phrase:?}, only:\n{log}");
            std::thread::park_timeout(std::time::Duration::from_millis(2));
        }
    }

    /// The access logs so far.
    pub fn access_log(&self) -> String {
        let mut text = self.access_text.lock().unwrap_or_else(PoisonError::into_inner);
        for sink in self.logs.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let mut lines = Vec::new();
            assert_eq!(sink.take(&mut lines), 0, "lines of an access log were dropped");
            if sink.has_records() {
                for record in records(&lines) {
                    *text += &String::from_utf8_lossy(record.line);
                    text.push('\n');
                }
            } else {
                *text += &String::from_utf8_lossy(&lines);
            }
        }
        text.clone()
    }

    /// Waits until the access logs have at least this many lines, and returns all of them.
    #[track_caller]
    pub fn access_lines(&self, count: usize) -> Vec<String> {
        let what = format!("{count} lines of the access log");
        until(&what, || {
            let lines: Vec<String> = self.access_log().lines().map(str::to_owned).collect();
            (lines.len() >= count).then_some(lines)
        })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        for worker in 0..self.shared.workers() {
            self.shared.send(worker, Message::Stop);
        }
        if std::thread::panicking() {
            // The log tells most when something has gone wrong.
            let log = self.error_log();
            #[allow(clippy::print_stderr)] // helps to read the failed test's output
            if !log.is_empty() {
                eprintln!("error log:\n{log}");
            }
            return;
        }
        for thread in self.threads.drain(..) {
            until("the worker's end", || thread.is_finished().then_some(()));
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.unwrap_or_else(|error| panic!("a worker gave up: {error}"));
        }
        let log = self.error_log();
        assert!(self.bugs_expected || !log.contains("bug in holdfast"), "{log}");
    }
}

/// The main file's text; other files are those of the file system.
struct OneFile<'a>(&'a str);

impl conf::Loader for OneFile<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        if path.ends_with(MAIN) { Ok(self.0.as_bytes().to_vec()) } else { std::fs::read(path) }
    }

    fn glob(&mut self, _mask: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[track_caller]
fn refuse_errors(found: &[Diagnostic], sources: &SourceMap, text: &str) {
    let errors: Vec<String> = found
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .map(|diagnostic| conf::verdict::log_line(diagnostic, sources))
        .collect();
    assert!(errors.is_empty(), "{}\nin\n{text}", errors.join("\n"));
}
