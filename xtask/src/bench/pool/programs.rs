//! What stands in the namespace of a sample: the origin, the proxy before it, their configurations and ports. Starts them;
//! what they did is read elsewhere.

use super::super::arms::{answers, nginx_main, nginx_only};
use super::plan::{Arm, Server};
use anyhow::{Context as _, Result};
use lab::stage::process::{Started, placed};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the proxy listens; the namespace is the sample's own, so ports can be agreed upon.
pub(super) const GATEWAY_PORT: u16 = 8080;
/// F0's port of the origin.
pub(super) const ORIGIN_PORT: u16 = 10_000;
/// Where the origin says what it has accepted.
const STATUS_PORT: u16 = 10_001;
/// nginx's welcome page had as many bytes, and stands under this name.
pub(super) const PAGE: &str = "612";
const PAGE_BYTES: usize = 612;

/// Where the programs are.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Paths {
    pub(super) holdfast: PathBuf,
    pub(super) nginx: PathBuf,
    pub(super) haproxy: PathBuf,
    pub(super) ab: PathBuf,
    pub(super) wrk: PathBuf,
    /// For configurations and what the programs write.
    pub(super) home: PathBuf,
}

/// Which core each may use; `None`: any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Placement {
    pub(super) client: Option<usize>,
    pub(super) proxy: Option<usize>,
    pub(super) origin: Option<usize>,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = |core: Option<usize>| core.map_or_else(|| "any core".to_owned(), |core| format!("core {core}"));
        write!(f, "client on {}, proxy on {}, origin on {}", on(self.client), on(self.proxy), on(self.origin))
    }
}

/// Starts the origin, an nginx with one worker that serves the page, answers POST, and keeps every connection.
pub(super) fn start_origin(paths: &Paths, core: Option<usize>) -> Result<Started> {
    let home = &paths.home;
    let pages = home.join("pages");
    fs::create_dir_all(&pages)?;
    fs::write(pages.join(PAGE), [b'x'; PAGE_BYTES])?;
    let text = format!(
        "{main}http {{\n{own}    access_log off;\n    default_type text/plain;\n    sendfile on;\n    \
         keepalive_requests 1000000000;\n    keepalive_timeout 3600s;\n    open_file_cache max=100;\n    \
         server {{\n        listen 127.0.0.1:{ORIGIN_PORT} backlog=4096;\n        root {pages};\n        \
         location = /post {{\n            return 200 \"taken\\n\";\n        }}\n    }}\n    \
         server {{\n        listen 127.0.0.1:{STATUS_PORT};\n        location / {{\n            stub_status;\n        }}\n    \
         }}\n}}\n",
        main = nginx_main(home, "origin", 1),
        own = nginx_only(home),
        pages = pages.display(),
    );
    let mut origin = start_nginx(&paths.nginx, "origin", &text, home, core)?;
    origin.wait_ready(|| answers(ORIGIN_PORT, PAGE))?;
    Ok(origin)
}

/// Starts the arm's proxy, if it has one.
pub(super) fn start_proxy(paths: &Paths, arm: Arm, core: Option<usize>) -> Result<Option<Started>> {
    let home = &paths.home;
    let mut proxy = match arm.server {
        Server::Direct => return Ok(None),
        Server::Nginx => start_nginx(&paths.nginx, "nginx", &nginx_conf(arm, home), home, core)?,
        Server::Holdfast => start_nginx(&paths.holdfast, "holdfast", &nginx_conf(arm, home), home, core)?,
        Server::Haproxy => {
            let conf = home.join("haproxy.conf");
            fs::write(&conf, haproxy_conf(arm))?;
            let mut command = placed(core, &paths.haproxy);
            command.arg("-db").arg("-f").arg(&conf);
            Started::new("haproxy", &mut command, home.join("haproxy.out"))?
        }
    };
    proxy.wait_ready(|| answers(GATEWAY_PORT, PAGE))?;
    Ok(Some(proxy))
}

/// nginx, or Holdfast, which is started the same way.
fn start_nginx(program: &Path, name: &str, text: &str, home: &Path, core: Option<usize>) -> Result<Started> {
    let conf = home.join(format!("{name}.conf"));
    fs::write(&conf, text)?;
    let mut command = placed(core, program);
    command.arg("-p").arg(home).arg("-e").arg("stderr").arg("-c").arg(&conf);
    Ok(Started::new(name, &mut command, home.join(format!("{name}.out")))?)
}

/// The same text for nginx and Holdfast, but for what makes an arm unpooled: nginx 1.22 is so without a word, and
/// Holdfast, as nginx since 1.29.7, has to be told.
fn nginx_conf(arm: Arm, home: &Path) -> String {
    let is_nginx = arm.server == Server::Nginx;
    let (group, location) = match arm.keepalive {
        0 if is_nginx => (String::new(), ""),
        0 => ("        keepalive 0;\n".to_owned(), "            proxy_http_version 1.0;\n"),
        count => (
            // F0's number: no connection ends because it has served enough.
            format!("        keepalive {count};\n        keepalive_requests 10000000;\n"),
            "            proxy_http_version 1.1;\n            proxy_set_header Connection \"\";\n",
        ),
    };
    format!(
        "{main}http {{\n{own}    access_log off;\n    keepalive_timeout 3600s;\n    keepalive_requests 1000000000;\n    \
         upstream api_backend {{\n        server 127.0.0.1:{ORIGIN_PORT};\n{group}    }}\n    \
         server {{\n        listen 127.0.0.1:{GATEWAY_PORT} backlog=4096;\n        \
         location / {{\n            proxy_pass http://api_backend;\n            proxy_set_header Host $host;\n{location}        \
         }}\n    }}\n}}\n",
        main = nginx_main(home, arm.server.name(), arm.workers),
        own = if is_nginx { nginx_only(home) } else { String::new() },
    )
}

/// `http-server-close` is its word for no pool; with one, whoever asks gets any idle connection, as in the others.
fn haproxy_conf(arm: Arm) -> String {
    let (mode, limit) = match arm.keepalive {
        0 => ("option http-server-close\n    http-reuse never", String::new()),
        count => ("http-reuse always", format!(" pool-max-conn {count}")),
    };
    format!(
        "global\n    nbthread {threads}\n    maxconn 9000\n\ndefaults\n    mode http\n    {mode}\n    timeout connect 5s\n    \
         timeout client 3600s\n    timeout server 3600s\n    timeout http-request 3600s\n    \
         timeout http-keep-alive 3600s\n\nfrontend bench\n    bind 127.0.0.1:{GATEWAY_PORT} backlog 4096\n    \
         default_backend api_backend\n\nbackend api_backend\n    server origin 127.0.0.1:{ORIGIN_PORT}{limit}\n",
        threads = arm.workers,
    )
}

/// What the origin has had since it started, this question included.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct AtOrigin {
    pub(super) accepted: u64,
    pub(super) requests: u64,
}

impl AtOrigin {
    /// Asks it.
    pub(super) fn read() -> Result<AtOrigin> {
        let mut stream = TcpStream::connect(("127.0.0.1", STATUS_PORT))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut said = String::new();
        stream.read_to_string(&mut said)?;
        parse_status(&said).with_context(|| format!("the origin's status is {said:?}"))
    }

    /// What came since an earlier question, without the so many questions that were asked since.
    pub(super) fn since(self, earlier: AtOrigin, questions: u64) -> AtOrigin {
        let less = |now: u64, then: u64| now.saturating_sub(then).saturating_sub(questions);
        AtOrigin { accepted: less(self.accepted, earlier.accepted), requests: less(self.requests, earlier.requests) }
    }
}

/// ` 3 3 7`: accepted, handled, requests; in the line behind their names.
fn parse_status(said: &str) -> Option<AtOrigin> {
    let line = said.lines().skip_while(|line| !line.starts_with("server accepts")).nth(1)?;
    let mut numbers = line.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some(AtOrigin { accepted: numbers.next()?, requests: numbers.nth(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(server: Server, keepalive: u32) -> String {
        let arm = Arm { server, keepalive, workers: 1 };
        if server == Server::Haproxy { haproxy_conf(arm) } else { nginx_conf(arm, Path::new("/home")) }
    }

    #[test]
    fn the_arms_of_a_proxy_differ_in_nothing_but_the_pool() {
        let only_in = |one: &str, other: &str| {
            let lines = one.lines().filter(|line| !other.contains(line)).map(|line| line.trim().to_owned());
            lines.collect::<Vec<_>>()
        };
        let (unpooled, pooled) = (text(Server::Holdfast, 0), text(Server::Holdfast, 16));
        assert_eq!(only_in(&unpooled, &pooled), ["keepalive 0;", "proxy_http_version 1.0;"]);
        let words = ["keepalive 16;", "keepalive_requests 10000000;", "proxy_http_version 1.1;"];
        assert_eq!(only_in(&pooled, &unpooled)[..3], words);
        assert!(only_in(&text(Server::Nginx, 0), &text(Server::Nginx, 16)).is_empty());
        let haproxy = (text(Server::Haproxy, 0), text(Server::Haproxy, 16));
        assert_eq!(only_in(&haproxy.0, &haproxy.1), ["option http-server-close", "http-reuse never"]);
    }

    #[test]
    fn the_origins_status_is_read() {
        let said = "HTTP/1.1 200 OK\r\n\r\nActive connections: 2 \nserver accepts handled requests\n 31 31 4711 \n\
                    Reading: 0 Writing: 1 Waiting: 1 \n";
        let earlier = parse_status(said).unwrap();
        assert_eq!(earlier, AtOrigin { accepted: 31, requests: 4711 });
        let later = AtOrigin { accepted: 42, requests: 5712 };
        assert_eq!(later.since(earlier, 1), AtOrigin { accepted: 10, requests: 1000 });
        assert_eq!(parse_status("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }
}
