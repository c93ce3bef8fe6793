//! What stands behind the proxies: an nginx that serves files, and a thread that accepts upgrades.
//!
//! The floor knows its upstreams by fixed ports, so these are everybody's.

use super::arms::{self, Programs};
use anyhow::{Context as _, Result};
use lab::stage::process::{Started, pinned};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where the floor expects pages.
pub(super) const PAGES_PORT: u16 = 9000;
/// Where the floor expects upgrades.
pub(super) const TUNNELS_PORT: u16 = 9100;
/// It takes these in turn, to have more ports towards them.
const TUNNELS_ADDRESSES: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// Starts nginx with one file per body size, named as the size was asked for.
pub(super) fn start_pages(
    programs: &Programs,
    core: usize,
    home: &Path,
    bodies: &[super::proxy::Body],
) -> Result<Started> {
    drop(TcpListener::bind(("127.0.0.1", PAGES_PORT)).with_context(|| {
        format!("the floor's origin is hard-wired to port {PAGES_PORT}, and that port is not free")
    })?);
    let pages = home.join("pages");
    fs::create_dir_all(&pages)?;
    for body in bodies {
        fs::write(pages.join(&body.name), vec![b'x'; body.bytes])?;
    }
    let text = format!(
        "{main}http {{\n{paths}    access_log off;\n    default_type text/plain;\n    sendfile on;\n    tcp_nodelay on;\n    \
         keepalive_requests 1000000000;\n    keepalive_timeout 3600s;\n    open_file_cache max=100;\n    \
         server {{\n        listen 127.0.0.1:{PAGES_PORT} backlog=4096;\n        root {pages};\n    }}\n}}\n",
        main = arms::nginx_main(home, "origin", 1),
        paths = arms::nginx_only(home),
        pages = pages.display(),
    );
    let conf = home.join("origin.conf");
    fs::write(&conf, text)?;
    let mut command = pinned(core, &programs.nginx);
    command.arg("-p").arg(home).arg("-e").arg("stderr").arg("-c").arg(&conf);
    let mut started = Started::new("the origin", &mut command, home.join("origin.out"))?;
    started.wait_ready(|| arms::answers(PAGES_PORT, &bodies[0].name))?;
    Ok(started)
}

/// Answers every connection with 101 and then holds it, until dropped.
pub(super) struct Tunnels {
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Tunnels {
    pub(super) fn start() -> Result<Tunnels> {
        let held = Arc::new(Mutex::new(Vec::new()));
        for address in TUNNELS_ADDRESSES {
            let listener = TcpListener::bind((address, TUNNELS_PORT)).with_context(|| {
                format!("the floor's upgrades are hard-wired to {address}:{TUNNELS_PORT}, and that port is not free")
            })?;
            let keep = Arc::clone(&held);
            // The thread lives as long as the process: accepting blocks, and nothing else wants the port.
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if let Ok(stream) = accept_upgrade(stream) {
                        keep.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(stream);
                    }
                }
            });
        }
        Ok(Tunnels { held })
    }

    /// Closes what is held and says how much it was.
    pub(super) fn release(&self) -> usize {
        std::mem::take(&mut *self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)).len()
    }
}

fn accept_upgrade(mut stream: TcpStream) -> Result<TcpStream> {
    const HEAD_MAX: usize = 8192; // proxies add a few fields to our 150 bytes
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_MAX {
        let mut piece = [0; 1024];
        let n = stream.read(&mut piece)?;
        anyhow::ensure!(n > 0, "closed inside the head");
        head.extend_from_slice(piece.get(..n).unwrap_or_default());
    }
    stream.write_all(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    )?;
    Ok(stream)
}
