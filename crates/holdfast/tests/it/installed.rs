//! The installed form: the program started as root, with its default paths, an unprivileged `user` and empty state
//! directories, on a machine of its own (`support/machine.rs`).

use crate::support::machine::Machine;
use crate::support::{children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::Output;
use testkit::{Peer, free_port};

/// More than `client_body_buffer_size`: the body goes through a file.
const UPLOAD_BYTES: usize = 1 << 20;

/// The program on a machine of its own, before an origin.
struct Installation {
    /// Dropped first: the origin outlives what talks to it.
    machine: Machine,
    port: u16,
    origin: Peer,
}

impl Installation {
    /// `None`, with the reason printed, where no machine can be made.
    fn new() -> Option<Self> {
        let machine = Machine::new()?;
        fs::create_dir(machine.path("/etc/holdfast")).expect("made");
        let origin = Peer::answering(|request| {
            let length = request.body.len().to_string();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{length}", length.len()).into_bytes()
        });
        let installation = Self { machine, port: free_port(), origin };
        installation.configure("", "");
        Some(installation)
    }

    /// Writes the configuration: directives without a default, and the given ones for the top level and the location.
    fn configure(&self, top: &str, location: &str) {
        let text = format!(
            "user {};\n{top}\nevents {{}}\nhttp {{ server {{ listen 127.0.0.1:{}; client_max_body_size 10m;\n\
             location / {{ proxy_pass http://{}; {location} }} }} }}\n",
            self.machine.user.name,
            self.port,
            self.origin.address()
        );
        fs::write(self.path("/etc/holdfast/nginx.conf"), text).expect("written");
    }

    fn path(&self, path: &str) -> PathBuf {
        self.machine.path(path)
    }

    fn text(&self, path: &str) -> String {
        self.machine.text(path)
    }

    fn run(&self, flags: &[&str]) -> Output {
        self.machine.run(env!("CARGO_BIN_EXE_holdfast"), flags)
    }

    fn must(&self, flags: &[&str]) {
        self.machine.must(env!("CARGO_BIN_EXE_holdfast"), flags);
    }

    /// The master's pid, from the default pid file.
    fn master(&self) -> Option<u32> {
        self.machine.pid_in("/run/holdfast.pid")
    }

    /// The size of the upload that the origin reports; otherwise the response.
    fn upload(&self) -> String {
        let mut request =
            format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
        request.extend(std::iter::repeat_n('x', UPLOAD_BYTES));
        let response = testkit::fetch(("127.0.0.1", self.port), request).expect("an answer");
        if response.status() == 200 { response.text() } else { response.whole_text() }
    }

    /// `X-Cache` of a response.
    fn cache_status(&self) -> String {
        let response = crate::support::fetch(self.port, "/").expect("an answer");
        let status = response.lines().find_map(|line| line.strip_prefix("X-Cache: "));
        status.unwrap_or(&response).to_owned()
    }

    fn assert_uploads(&self) {
        assert_eq!(self.upload(), UPLOAD_BYTES.to_string(), "{}", self.text(ERROR_LOG));
    }

    /// Asserts that only the user may use a directory.
    fn assert_is_users(&self, path: &str) {
        let data = fs::metadata(self.path(path)).expect("made");
        assert_eq!((data.uid(), data.permissions().mode() & 0o7777), (self.machine.user.uid.as_raw(), 0o700), "{path}");
    }

    fn lines(&self, path: &str, count: usize) {
        until(&format!("{path} has {count} lines"), || self.text(path).lines().count() == count);
    }
}

#[test]
fn a_cache_survives_an_upgrade_and_a_restart() {
    let Some(site) = Installation::new() else { return };
    site.configure("", "proxy_cache one; proxy_cache_valid 200 1h; add_header X-Cache $upstream_cache_status;");
    let conf = site.path("/etc/holdfast/nginx.conf");
    let text = fs::read_to_string(&conf).expect("written");
    let zone = "http { proxy_cache_path /var/lib/holdfast/cache levels=1:2 keys_zone=one:1m;";
    fs::write(&conf, text.replace("http {", zone)).expect("written");
    site.must(&SERVE);
    site.assert_is_users("/var/lib/holdfast/cache");
    assert_eq!(site.cache_status(), "MISS");
    until("the response is stored", || site.cache_status() == "HIT");
    let old = site.master().expect("a daemon that serves has written it");
    kill(pid(old), Signal::SIGUSR2).expect("it runs");
    until("another master serves", || site.master().is_some_and(|new| new != old && !children(new).is_empty()));
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    until("the old one has ended", || !lives(old));
    assert_eq!(site.cache_status(), "HIT", "stored by the program before");
    site.must(&["-s", "quit"]);
    until("it has ended", || site.master().is_none());
    assert!(site.path("/var/lib/holdfast/cache/index.snapshot").exists());
    site.must(&SERVE);
    assert_eq!(site.cache_status(), "HIT", "stored before the restart");
}

const SERVE: [&str; 3] = ["serve", "-c", "/etc/holdfast/nginx.conf"];
const ERROR_LOG: &str = "/var/lib/holdfast/logs/error.log";
const ACCESS_LOG: &str = "/var/lib/holdfast/logs/access.log";

#[test]
fn uploads_logs_reload_and_upgrade_work_as_installed() {
    let Some(site) = Installation::new() else { return };
    site.must(&["-t"]);
    site.must(&SERVE);
    let old = site.master().expect("a daemon that serves has written it");
    let worker = children(old)[0];
    let status = fs::read_to_string(format!("/proc/{worker}/status")).expect("it runs");
    let uid = site.machine.user.uid.to_string();
    assert!(status.lines().any(|line| line.split_whitespace().eq(["Uid:", &uid, &uid, &uid, &uid])), "{status}");
    site.assert_uploads();
    site.assert_is_users("/var/lib/holdfast/client_body_temp");
    site.lines(ACCESS_LOG, 1);
    // Rotates the log as logrotate does.
    fs::rename(site.path(ACCESS_LOG), site.path(&format!("{ACCESS_LOG}.1"))).expect("renamed");
    site.must(&["-s", "reopen"]);
    // The master makes the new file, and then tells the worker, which may log a request to the old one until then.
    let mut uploads = 1;
    until("lines go to the new log", || {
        site.assert_uploads();
        uploads += 1;
        site.text(ACCESS_LOG).lines().count() > 0
    });
    let logged = || [ACCESS_LOG.to_owned(), format!("{ACCESS_LOG}.1")].map(|path| site.text(&path).lines().count());
    until("each upload has a line", || logged().iter().sum::<usize>() == uploads);
    // Reloads with another directory, with subdirectories that the worker makes.
    site.configure("", "client_body_temp_path /var/lib/holdfast/bodies 1 2; client_body_in_file_only on;");
    site.must(&["-s", "reload"]);
    until("the reload is done", || {
        site.text(ERROR_LOG).contains("the new configuration holds") || {
            // At the default log level the reload prints nothing, so the test looks for the directory.
            site.path("/var/lib/holdfast/bodies").exists()
        }
    });
    // The master makes the directory before it gives it to the user. A body in it shows that both are done.
    until("bodies go there", || {
        site.assert_uploads();
        fs::read_dir(site.path("/var/lib/holdfast/bodies")).is_ok_and(|mut found| found.next().is_some())
    });
    site.assert_is_users("/var/lib/holdfast/bodies");
    // Another program replaces this one.
    kill(pid(old), Signal::SIGUSR2).expect("it runs");
    until("another master serves", || site.master().is_some_and(|new| new != old && !children(new).is_empty()));
    site.assert_uploads();
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    until("the old one has ended", || !lives(old));
    site.assert_uploads();
    site.must(&["-s", "quit"]);
    until("it has ended", || site.master().is_none());
}

#[test]
fn each_verdict_reports_a_directory_that_cannot_be_made() {
    let Some(site) = Installation::new() else { return };
    const MESSAGE: &str = "mkdir() \"/var/lib/no/such\" failed (2: No such file or directory)";
    site.configure("", "client_body_temp_path /var/lib/no/such;");
    for flags in [&["-t"][..], &SERVE] {
        let output = site.run(flags);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && errors.contains(MESSAGE), "{flags:?}: {errors}");
    }
    fs::create_dir(site.path("/var/lib/closed")).expect("made");
    fs::set_permissions(site.path("/var/lib/closed"), fs::Permissions::from_mode(0o700)).expect("set");
    site.configure("", "client_body_temp_path /var/lib/closed/body;");
    let errors = String::from_utf8_lossy(&site.run(&["-t"]).stderr).into_owned();
    assert!(errors.contains("may not pass through \"/var/lib/closed\""), "{errors}");
    site.configure("", "");
    site.must(&SERVE);
    site.configure("", "client_body_temp_path /var/lib/no/such;");
    let master = site.master().expect("it serves");
    kill(pid(master), Signal::SIGHUP).expect("it runs");
    until("the reload is refused", || site.text(ERROR_LOG).contains(MESSAGE));
    site.assert_uploads();
}
