//! The recorder beside nginx: its error log, its `stub_status` and its processes, without Holdfast's own figures.

use super::scene::{Load, Recorder, Server, figure};
use crate::support::until;
use std::process::Command;
use std::time::Duration;
use testkit::{Running, free_port, peer_or_skip, with_own_network};

#[test]
fn a_peer_of_nginx_that_refuses_is_named() {
    with_own_network(|| {
        let Some(nginx) = peer_or_skip(&["nginx"]) else { return };
        let mut peer = Server::start(false);
        let (folder, port) = (tempfile::tempdir().expect("a temporary directory"), free_port());
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::create_dir(folder.path().join("temp")).expect("made");
        let temp = path("temp");
        let conf = format!(
        "daemon off; pid {}; error_log {} info; worker_processes 1; {}
         events {{ worker_connections 64; }}
         http {{ access_log off; client_body_temp_path {temp}/a; proxy_temp_path {temp}/b; fastcgi_temp_path {temp}/c;
            uwsgi_temp_path {temp}/d; scgi_temp_path {temp}/e;
            server {{ listen 127.0.0.1:{port}; location = /stub {{ stub_status; }} location / {{ proxy_pass http://{}; }} }} }}",
        path("nginx.pid"),
        path("error.log"),
        if nix::unistd::geteuid().is_root() { "user root;" } else { "" },
        peer.address
    );
        std::fs::write(folder.path().join("nginx.conf"), conf).expect("written");
        let mut command = Command::new(nginx);
        command.args(["-p", &path(""), "-e", &path("error.log"), "-c", &path("nginx.conf")]);
        let _nginx = Running::start(&mut command);
        until("nginx serves", || crate::support::fetch(port, "/stub").is_ok());
        let url = format!("http://127.0.0.1:{port}/stub");
        let flags = ["--cpu", "10", "--url", &url, "--error-log", &path("error.log"), "--pid-file", &path("nginx.pid")];
        let recorder = Recorder::start(&flags.map(str::to_owned));
        let _load = Load::start(port, 2, Duration::from_millis(20));
        recorder.record_baseline();
        let effect_ms = peer.stop();
        let claim = recorder.assert_names("peer-refuses", &peer.address.to_string(), effect_ms);
        assert_eq!(figure(&claim, "error lines").0, "0");
        let last = recorder.samples().pop().expect("samples");
        assert!(last.processes.len() >= 2 && last.gateway.is_some_and(|gateway| gateway.requests > 0));
    });
}
