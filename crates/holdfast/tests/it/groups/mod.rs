//! `worker_groups`: several processes on the same listeners, and what an operator sees of them: one installation.

mod caching;
mod http2;
mod one_installation;
mod streams;

use crate::support::numbered::Echo;
use crate::support::{DEADLINE, Instance, children, holdfast, lives, pid, until, upgraded};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Output;

/// Requests are answered with the process id; tunnels get it in a field.
const SERVERS: &str = "server { listen 127.0.0.1:PORT; MORE
    location = /pid { return 200 $pid; }
    location = /text { return 200 one; }
    location = /status { status_page; }
    location / { proxy_pass http://UPSTREAM; proxy_set_header Connection upgrade; proxy_set_header Upgrade $http_upgrade;
        add_header X-Pid $pid always; tunnel_timeout 120s; } }";

struct Scene {
    instance: Instance,
    echo: Echo,
}

impl Scene {
    fn new(top: &str) -> Self {
        let scene = Self { instance: Instance::new("", ""), echo: Echo::start() };
        scene.configure(top, "");
        scene
    }

    fn started(top: &str) -> Self {
        let mut scene = Self::new(top);
        scene.instance.start();
        scene
    }

    /// As a daemon, for which WINCH has an effect.
    fn daemon(top: &str) -> Self {
        let scene = Self::new(top);
        let output = scene.instance.run(&[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        scene
    }

    fn configure(&self, top: &str, more: &str) {
        let servers = SERVERS.replace("UPSTREAM", &self.echo.address.to_string()).replace("MORE", more);
        self.instance.configure(top, &servers);
    }

    fn master(&self) -> u32 {
        self.instance.pid_file().expect("it runs")
    }

    fn children(&self) -> Vec<u32> {
        children(self.master())
    }

    /// Waits for this number of children.
    fn until_children(&self, count: usize) -> Vec<u32> {
        until("all children run", || self.children().len() == count);
        self.children()
    }

    /// Waits until this number of children run, and all serve.
    fn until_serving(&self, count: usize) -> Vec<u32> {
        let children = self.until_children(count);
        self.until_all_serve(count);
        children
    }

    /// Waits until this number of children serve: a child that has just begun does not accept yet. Returns how many
    /// requests it has sent.
    fn until_all_serve(&self, count: usize) -> usize {
        let mut kept = Vec::new();
        until("all children serve", || {
            kept.push(Kept::open(self));
            by_process(&kept).len() == count
        });
        kept.len()
    }

    fn send_signal(&self, signal: Signal) {
        kill(pid(self.master()), signal).expect("it runs");
    }

    fn log(&self) -> String {
        self.instance.text("logs/error.log")
    }

    fn ctl_output(&self, words: &[&str]) -> Output {
        let socket = self.instance.path("logs/holdfast.ctl");
        holdfast().arg("ctl").arg("--socket").arg(socket).args(words).output().expect("it starts")
    }

    fn ctl(&self, words: &[&str]) -> Value {
        let output = self.ctl_output(&[words, &["--json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// A kept connection and the process that has it.
struct Kept {
    stream: TcpStream,
    process: u32,
}

impl Kept {
    fn open(scene: &Scene) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", scene.instance.port)).expect("it accepts");
        stream.set_read_timeout(Some(DEADLINE)).expect("set");
        let mut kept = Self { stream, process: 0 };
        kept.process = kept.get("/pid").and_then(|text| text.parse().ok()).expect("a process id");
        kept
    }

    /// The body of the answer.
    fn get(&self, path: &str) -> Option<String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        String::from_utf8(testkit::ask(&self.stream, request).ok()?.body).ok()
    }

    fn lives(&self) -> bool {
        self.get("/pid").is_some_and(|text| text == self.process.to_string())
    }
}

/// A tunnel, and the process that opened it.
fn tunnel(scene: &Scene) -> Kept {
    let head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    let (stream, response) = upgraded(scene.instance.port, head);
    let process = response.value("X-Pid").and_then(|text| text.parse().ok()).expect("a process id");
    Kept { stream, process }
}

fn goes_through(tunnel: &mut Kept) -> bool {
    let mut back = [0; 4];
    tunnel.stream.write_all(b"ping").is_ok() && tunnel.stream.read_exact(&mut back).is_ok() && &back == b"ping"
}

fn by_process(kept: &[Kept]) -> BTreeMap<u32, usize> {
    kept.iter().fold(BTreeMap::new(), |mut counts, one| {
        *counts.entry(one.process).or_default() += 1;
        counts
    })
}

const THREE: &str = "worker_processes 3; worker_groups 3;";

#[test]
fn connections_are_spread_by_how_many_each_process_has() {
    let scene = Scene::started(THREE);
    scene.until_all_serve(3);
    let processes = scene.until_children(3);
    let kept: Vec<Kept> = (0..90).map(|_| Kept::open(&scene)).collect();
    let counts = by_process(&kept);
    assert!(counts.keys().all(|process| processes.contains(process)), "{counts:?} {processes:?}");
    // A process leaves a connection to another one that has five fewer, and a sixteenth.
    let (least, most) = (counts.values().min().copied(), counts.values().max().copied());
    assert!(counts.len() == 3 && most.unwrap_or_default() - least.unwrap_or_default() <= 8, "{counts:?}");
}

#[test]
fn killed_process_is_replaced_without_wider_loss() {
    let scene = Scene::started(THREE);
    let before = scene.until_children(3);
    let mut kept: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    let mut tunnels: Vec<Kept> = (0..30).map(|_| tunnel(&scene)).collect();
    let killed = before[1];
    kill(pid(killed), Signal::SIGKILL).expect("it lives");
    scene.instance.wait_for_line(&format!("worker process {killed} exited on signal 9"));
    scene.instance.wait_for_line("the child of worker group 2 of 3 has died and is started again in 100 ms");
    // The other processes go on: all other connections go on, and every new one is accepted.
    for one in &mut kept {
        assert_eq!(one.lives(), one.process != killed);
    }
    for one in &mut tunnels {
        assert_eq!(goes_through(one), one.process != killed);
    }
    let after = scene.until_children(3);
    assert_eq!(after.iter().filter(|process| before.contains(process)).count(), 2, "{before:?} {after:?}");
    // The new process has none of the connections, so it gets the next ones.
    let new = after.into_iter().find(|process| !before.contains(process)).expect("replaced");
    kept.retain(|one| one.process != killed);
    until("the new process serves", || {
        kept.push(Kept::open(&scene));
        kept.last().is_some_and(|one| one.process == new)
    });
}

#[test]
fn crash_looping_process_is_backed_off() {
    let scene = Scene::started("worker_processes 2; worker_groups 2;");
    let stable = scene.until_children(2)[0];
    for pause in ["100", "200", "400"] {
        until("the other process runs", || scene.children().iter().any(|process| *process != stable));
        let victim = scene.children().into_iter().find(|process| *process != stable).expect("it runs");
        kill(pid(victim), Signal::SIGKILL).expect("it lives");
        let line = format!("the child of worker group 2 of 2 has died and is started again in {pause} ms");
        scene.instance.wait_for_line(&line);
        assert_eq!(Kept::open(&scene).process, stable);
    }
    until("both run again", || scene.children().len() == 2);
    assert!(scene.children().contains(&stable));
}

#[test]
fn a_reload_reaches_all_processes_or_none() {
    let scene = Scene::started(THREE);
    let processes = scene.until_serving(3);
    let kept: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    assert_eq!(by_process(&kept).len(), 3);
    let sound = scene.instance.text("nginx.conf");
    fs::write(scene.instance.path("nginx.conf"), sound.replace("return 200 one", "retrun 200 one")).expect("written");
    scene.send_signal(Signal::SIGHUP);
    scene.instance.wait_for_line("the old one stays");
    assert!(kept.iter().all(|one| one.get("/text").as_deref() == Some("one")));
    let changed = |text: &str| {
        fs::write(scene.instance.path("nginx.conf"), sound.replace("return 200 one", &format!("return 200 {text}")))
            .expect("written");
    };
    changed("two");
    scene.send_signal(Signal::SIGHUP);
    scene.instance.wait_for_line("the new configuration holds");
    assert!(kept.iter().all(|one| one.get("/text").as_deref() == Some("two")), "each process has it");
    // Many at once: the last one counts.
    for number in 0..100 {
        changed(&format!("v{number}"));
        scene.send_signal(Signal::SIGHUP);
    }
    until("all have the last one", || kept.iter().all(|one| one.get("/text").as_deref() == Some("v99")));
    assert_eq!(scene.children(), processes, "in place");
    assert!(kept.iter().all(Kept::lives));
}

#[test]
fn refusing_process_keeps_all_at_the_old_configuration() {
    let scene = Scene::started(THREE);
    let processes = scene.until_children(3);
    let mut kept: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    let sound = scene.instance.text("nginx.conf");
    // A process that is stopped owes its answer; then it dies, and no process has changed anything.
    kill(pid(processes[2]), Signal::SIGSTOP).expect("it lives");
    fs::write(scene.instance.path("nginx.conf"), sound.replace("return 200 one", "return 200 two")).expect("written");
    scene.send_signal(Signal::SIGHUP);
    scene.instance.wait_for_line("signal 1 (SIGHUP) received");
    kill(pid(processes[2]), Signal::SIGKILL).expect("it lives");
    scene.instance.wait_for_line("; the old configuration stays");
    for one in kept.iter_mut().filter(|one| one.process != processes[2]) {
        assert_eq!(one.get("/text").as_deref(), Some("one"));
    }
    scene.until_children(3);
    scene.send_signal(Signal::SIGHUP);
    scene.instance.wait_for_line("the new configuration holds");
    for one in kept.iter_mut().filter(|one| one.process != processes[2]) {
        assert_eq!(one.get("/text").as_deref(), Some("two"));
    }
}

#[test]
fn process_count_changes_by_reload_and_tunnels_move() {
    let scene = Scene::started("worker_processes 2;");
    let mut tunnels: Vec<Kept> = (0..20).map(|_| tunnel(&scene)).collect();
    for groups in [3, 2, 1, 2] {
        let before = scene.children();
        scene.configure(&format!("worker_processes 2; worker_groups {groups};"), "");
        scene.send_signal(Signal::SIGHUP);
        until("new processes have taken over", || {
            let now = scene.children();
            now.len() == groups && now.iter().all(|process| !before.contains(process))
        });
        assert!(tunnels.iter_mut().all(goes_through), "{groups}: {}", scene.log());
    }
}

#[test]
fn quit_and_stop_end_all_processes() {
    for word in ["quit", "stop"] {
        let mut scene = Scene::started(THREE);
        let processes = scene.until_children(3);
        assert!(scene.instance.fetch("/text").is_ok_and(|response| response.ends_with("one")));
        scene.instance.signal(word);
        assert_eq!(scene.instance.wait(), Some(0), "{}", scene.log());
        assert!(processes.iter().all(|process| !lives(*process)));
    }
}

#[test]
fn an_upgrade_moves_the_tunnels_of_all_processes() {
    let scene = Scene::daemon(THREE);
    let old = scene.master();
    let before = scene.until_serving(3);
    let mut tunnels: Vec<Kept> = (0..30).map(|_| tunnel(&scene)).collect();
    assert_eq!(by_process(&tunnels).len(), 3);
    scene.send_signal(Signal::SIGUSR2);
    until("another program serves", || {
        scene.log().matches("holdfast serves").count() == 2 && scene.master() != old && scene.children().len() == 3
    });
    let after = scene.children();
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    until("the old program has ended", || !lives(old) && before.iter().all(|process| !lives(*process)));
    assert!(tunnels.iter_mut().all(goes_through), "{}", scene.log());
    assert!(after.iter().all(|process| lives(*process)));
    let new = scene.master();
    scene.instance.signal("stop");
    until("the new program has ended", || !lives(new));
}

#[test]
fn an_upgrade_that_is_taken_back_brings_the_tunnels_back() {
    let scene = Scene::daemon(THREE);
    let old = scene.master();
    scene.until_children(3);
    let mut tunnels: Vec<Kept> = (0..30).map(|_| tunnel(&scene)).collect();
    scene.send_signal(Signal::SIGUSR2);
    until("another program serves", || scene.log().matches("holdfast serves").count() == 2 && scene.master() != old);
    let new = scene.master();
    kill(pid(old), Signal::SIGWINCH).expect("it runs");
    until("the old processes have ended", || children(old).iter().all(|process| *process == new));
    assert!(tunnels.iter_mut().all(goes_through), "{}", scene.log());
    // QUIT during the upgrade: the new program ends, and the old one serves again.
    kill(pid(old), Signal::SIGHUP).expect("it runs");
    until("the old program has its processes again", || children(old).len() == 4);
    kill(pid(new), Signal::SIGQUIT).expect("it runs");
    until("the new program has ended", || !lives(new));
    assert!(tunnels.iter_mut().all(goes_through), "{}", scene.log());
    until("the pid file is that of the old one", || scene.instance.pid_file() == Some(old));
    assert_eq!(scene.until_children(3).len(), 3);
    scene.instance.signal("stop");
    until("it has ended", || !lives(old));
}

#[test]
fn orphaned_processes_serve_until_a_new_master_adopts_them() {
    let mut scene = Scene::started(THREE);
    let before = scene.until_children(3);
    let mut tunnels: Vec<Kept> = (0..30).map(|_| tunnel(&scene)).collect();
    scene.send_signal(Signal::SIGKILL);
    assert_eq!(scene.instance.wait(), None);
    until("all know it", || scene.log().matches("the master process is gone; this process serves on").count() == 3);
    assert!(before.iter().all(|process| lives(*process)));
    assert!(tunnels.iter_mut().all(goes_through));
    let more: Vec<Kept> = (0..30).map(|_| Kept::open(&scene)).collect();
    assert_eq!(by_process(&more).len(), 3, "all accept");
    drop(more);
    fs::write(scene.instance.path("logs/error.log"), "").expect("emptied");
    scene.instance.start();
    until("the old processes have finished", || before.iter().all(|process| !lives(*process)));
    assert!(tunnels.iter_mut().all(goes_through), "{}", scene.log());
    assert_eq!(scene.until_children(3).len(), 3);
}

#[test]
fn orphaned_processes_obey_termination() {
    let mut scene = Scene::started(THREE);
    let before = scene.until_children(3);
    scene.send_signal(Signal::SIGKILL);
    assert_eq!(scene.instance.wait(), None);
    until("all know it", || scene.log().matches("the master process is gone; this process serves on").count() == 3);
    scene.instance.signal("quit");
    until("all have ended", || before.iter().all(|process| !lives(*process)));
}

#[test]
fn what_processes_cannot_share_is_refused_with_both_directives() {
    let refused = |top: &str, servers: &str, message: &str| {
        let instance = Instance::new(top, servers);
        let output = instance.run(&["-t"]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(message), "{top} {servers}: {errors}");
        assert!(errors.contains("cannot be used with \"worker_groups\" above 1"), "{errors}");
        let alone = Instance::new(&top.replace("worker_groups 2;", "worker_groups 1;"), servers);
        assert!(alone.run(&["-t"]).status.success(), "{top} {servers}");
    };
    refused("worker_groups 2; master_process off;", "", "\"master_process off\"");
    let learn = "upstream u { server 127.0.0.1:1; sticky learn create=$upstream_cookie_a lookup=$cookie_a zone=z:1m; }
        server { listen 127.0.0.1:PORT; location / { proxy_pass http://u; } }";
    refused("worker_groups 2;", learn, "\"sticky learn\"");
    let acme = "resolver 127.0.0.1; acme_issuer a { uri https://ca.test/; accept_terms_of_service; state_path state; }
        server { listen 127.0.0.1:PORT ssl; server_name a.test; acme_certificate a;
        ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }";
    refused("worker_groups 2;", acme, "\"acme_issuer\"");
}
