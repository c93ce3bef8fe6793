//! The installed form: the program started as root, with its default paths, an unprivileged `user` and empty state
//! directories. It runs in a mount namespace of its own, where `/etc`, `/var/lib`, `/var/log` and `/run` are folders of
//! the test.

use crate::support::{children, lives, pid, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::User;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use testkit::{Peer, free_port};

/// Folders that are private to the namespace.
const FOLDERS: [&str; 4] = ["etc", "var/lib", "var/log", "run"];
/// Files of `/etc` that the program reads.
const FILES_OF_ETC: [&str; 5] = ["passwd", "group", "nsswitch.conf", "hosts", "resolv.conf"];
/// More than `client_body_buffer_size`: the body goes through a file.
const UPLOAD_BYTES: usize = 1 << 20;

/// An isolated machine with the program installed.
struct Machine {
    root: tempfile::TempDir,
    /// Holds the namespace while its standard input is open.
    holder: Child,
    user: User,
    port: u16,
    origin: Peer,
}

impl Machine {
    /// `None`, with the reason printed, where no mount namespace can be made.
    fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            return skip("it takes root");
        }
        let user = ["www-data", "nobody"].into_iter().find_map(|name| User::from_name(name).ok().flatten());
        let Some(user) = user else { return skip("there is no user www-data or `nobody`") };
        let root = tempfile::tempdir().expect("a temporary directory");
        for folder in FOLDERS {
            fs::create_dir_all(root.path().join(folder)).expect("made");
        }
        for name in FILES_OF_ETC {
            // A file that the machine does not have is not needed.
            let _ = fs::copy(Path::new("/etc").join(name), root.path().join("etc").join(name));
        }
        fs::create_dir(root.path().join("etc/holdfast")).expect("made");
        let mounts: Vec<String> =
            FOLDERS.iter().map(|name| format!("mount --bind {}/{name} /{name}", root.path().display())).collect();
        let script = format!("{} && echo ready && read line", mounts.join(" && "));
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("util-linux is there");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("read");
        if line != "ready\n" {
            let _ = holder.wait();
            return skip("mount namespaces are not permitted here");
        }
        let origin = Peer::answering(|request| {
            let length = request.body.len().to_string();
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{length}", length.len()).into_bytes()
        });
        let machine = Self { root, holder, user, port: free_port(), origin };
        machine.configure("", "");
        Some(machine)
    }

    /// Writes the configuration: directives without a default, and the given ones for the top level and the location.
    fn configure(&self, top: &str, location: &str) {
        let text = format!(
            "user {};\n{top}\nevents {{}}\nhttp {{ server {{ listen 127.0.0.1:{}; client_max_body_size 10m;\n\
             location / {{ proxy_pass http://{}; {location} }} }} }}\n",
            self.user.name,
            self.port,
            self.origin.address()
        );
        fs::write(self.path("/etc/holdfast/nginx.conf"), text).expect("written");
    }

    /// The path of a file of the machine, outside of the namespace.
    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn run(&self, flags: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.id().to_string(), "--"]);
        command.arg(env!("CARGO_BIN_EXE_holdfast")).args(flags).stdin(Stdio::null());
        command.output().expect("util-linux is there")
    }

    fn must(&self, flags: &[&str]) {
        let output = self.run(flags);
        assert!(output.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// The master's pid, from the default pid file.
    fn master(&self) -> Option<u32> {
        self.text("/run/holdfast.pid").trim_end().parse().ok()
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
        assert_eq!((data.uid(), data.permissions().mode() & 0o7777), (self.user.uid.as_raw(), 0o700), "{path}");
    }

    fn lines(&self, path: &str, count: usize) {
        until(&format!("{path} has {count} lines"), || self.text(path).lines().count() == count);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for name in ["/run/holdfast.pid.oldbin", "/run/holdfast.pid"] {
            let Some(master) = self.text(name).trim_end().parse().ok().filter(|master| lives(*master)) else {
                continue;
            };
            let _ = kill(pid(master), Signal::SIGTERM);
            until("the master has ended", || !lives(master));
        }
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

#[test]
fn a_cache_survives_an_upgrade_and_a_restart() {
    let Some(machine) = Machine::new() else { return };
    machine.configure("", "proxy_cache one; proxy_cache_valid 200 1h; add_header X-Cache $upstream_cache_status;");
    let conf = machine.path("/etc/holdfast/nginx.conf");
    let text = fs::read_to_string(&conf).expect("written");
    let zone = "http { proxy_cache_path /var/lib/holdfast/cache levels=1:2 keys_zone=one:1m;";
    fs::write(&conf, text.replace("http {", zone)).expect("written");
    machine.must(&SERVE);
    machine.assert_is_users("/var/lib/holdfast/cache");
    assert_eq!(machine.cache_status(), "MISS");
    until("the response is stored", || machine.cache_status() == "HIT");
    let old = machine.master().expect("a daemon that serves has written it");
    kill(pid(old), Signal::SIGUSR2).expect("it runs");
    until("another master serves", || machine.master().is_some_and(|new| new != old && !children(new).is_empty()));
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    until("the old one has ended", || !lives(old));
    assert_eq!(machine.cache_status(), "HIT", "stored by the program before");
    machine.must(&["-s", "quit"]);
    until("it has ended", || machine.master().is_none());
    assert!(machine.path("/var/lib/holdfast/cache/index.snapshot").exists());
    machine.must(&SERVE);
    assert_eq!(machine.cache_status(), "HIT", "stored before the restart");
}

const SERVE: [&str; 3] = ["serve", "-c", "/etc/holdfast/nginx.conf"];
const ERROR_LOG: &str = "/var/lib/holdfast/logs/error.log";
const ACCESS_LOG: &str = "/var/lib/holdfast/logs/access.log";

#[allow(clippy::unnecessary_wraps)] // the value of its caller
fn skip(why: &str) -> Option<Machine> {
    testkit::skip(why);
    None
}

#[test]
fn uploads_logs_reload_and_upgrade_work_as_installed() {
    let Some(machine) = Machine::new() else { return };
    machine.must(&["-t"]);
    machine.must(&SERVE);
    let old = machine.master().expect("a daemon that serves has written it");
    let worker = children(old)[0];
    let status = fs::read_to_string(format!("/proc/{worker}/status")).expect("it runs");
    let uid = machine.user.uid.to_string();
    assert!(status.lines().any(|line| line.split_whitespace().eq(["Uid:", &uid, &uid, &uid, &uid])), "{status}");
    machine.assert_uploads();
    machine.assert_is_users("/var/lib/holdfast/client_body_temp");
    machine.lines(ACCESS_LOG, 1);
    // Rotates the log as logrotate does.
    fs::rename(machine.path(ACCESS_LOG), machine.path(&format!("{ACCESS_LOG}.1"))).expect("renamed");
    machine.must(&["-s", "reopen"]);
    // The master makes the new file, and then tells the worker, which may log a request to the old one until then.
    let mut uploads = 1;
    until("lines go to the new log", || {
        machine.assert_uploads();
        uploads += 1;
        machine.text(ACCESS_LOG).lines().count() > 0
    });
    let logged = || [ACCESS_LOG.to_owned(), format!("{ACCESS_LOG}.1")].map(|path| machine.text(&path).lines().count());
    until("each upload has a line", || logged().iter().sum::<usize>() == uploads);
    // Reloads with another directory, with subdirectories that the worker makes.
    machine.configure("", "client_body_temp_path /var/lib/holdfast/bodies 1 2; client_body_in_file_only on;");
    machine.must(&["-s", "reload"]);
    until("the reload is done", || {
        machine.text(ERROR_LOG).contains("the new configuration holds") || {
            // At the default log level the reload prints nothing, so the test looks for the directory.
            machine.path("/var/lib/holdfast/bodies").exists()
        }
    });
    // The master makes the directory before it gives it to the user. A body in it shows that both are done.
    until("bodies go there", || {
        machine.assert_uploads();
        fs::read_dir(machine.path("/var/lib/holdfast/bodies")).is_ok_and(|mut found| found.next().is_some())
    });
    machine.assert_is_users("/var/lib/holdfast/bodies");
    // Another program replaces this one.
    kill(pid(old), Signal::SIGUSR2).expect("it runs");
    until("another master serves", || machine.master().is_some_and(|new| new != old && !children(new).is_empty()));
    machine.assert_uploads();
    kill(pid(old), Signal::SIGQUIT).expect("it runs");
    until("the old one has ended", || !lives(old));
    machine.assert_uploads();
    machine.must(&["-s", "quit"]);
    until("it has ended", || machine.master().is_none());
}

#[test]
fn each_verdict_reports_a_directory_that_cannot_be_made() {
    let Some(machine) = Machine::new() else { return };
    const MESSAGE: &str = "mkdir() \"/var/lib/no/such\" failed (2: No such file or directory)";
    machine.configure("", "client_body_temp_path /var/lib/no/such;");
    for flags in [&["-t"][..], &SERVE] {
        let output = machine.run(flags);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && errors.contains(MESSAGE), "{flags:?}: {errors}");
    }
    fs::create_dir(machine.path("/var/lib/closed")).expect("made");
    fs::set_permissions(machine.path("/var/lib/closed"), fs::Permissions::from_mode(0o700)).expect("set");
    machine.configure("", "client_body_temp_path /var/lib/closed/body;");
    let errors = String::from_utf8_lossy(&machine.run(&["-t"]).stderr).into_owned();
    assert!(errors.contains("may not pass through \"/var/lib/closed\""), "{errors}");
    machine.configure("", "");
    machine.must(&SERVE);
    machine.configure("", "client_body_temp_path /var/lib/no/such;");
    let master = machine.master().expect("it serves");
    kill(pid(master), Signal::SIGHUP).expect("it runs");
    until("the reload is refused", || machine.text(ERROR_LOG).contains(MESSAGE));
    machine.assert_uploads();
}
