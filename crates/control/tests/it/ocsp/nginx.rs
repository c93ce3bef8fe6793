//! nginx with the same server block.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use testkit::{Running, free_port, peer_or_skip, until};

pub(crate) struct Nginx {
    _running: Running,
    pub(crate) address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Nginx {
    /// `{listen}` means its address.
    pub(crate) fn start(server: &str) -> Option<Self> {
        let program = peer_or_skip(&["nginx-new"])?;
        let (folder, address) = (tempfile::tempdir().unwrap(), SocketAddr::from(([127, 0, 0, 1], free_port())));
        let at = folder.path().display();
        let server = server.replace("{listen}", &address.to_string());
        let text = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log info; events {{}}
             http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;
                 uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; {server} }}"
        );
        let path = folder.path().join("nginx.conf");
        fs::write(&path, text).unwrap();
        let mut command = Command::new(program);
        let running = Running::listening(command.args(["-e", "/dev/null", "-c"]).arg(&path), address);
        Some(Self { _running: running, address, folder })
    }

    pub(crate) fn logged(&self, phrase: &str) {
        until(phrase, || {
            let text = fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default();
            text.contains(phrase).then_some(())
        });
    }
}
