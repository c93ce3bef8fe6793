//! The proxies of the soak and their configurations: the same peers, pooled, and each proxy's own rules for repeating
//! requests.

use super::super::nginx::{nginx_main, nginx_only};
use anyhow::Result;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;
use std::process::Command;

/// One side of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Arm {
    /// The defaults: `keepalive_learn on`, `retry_unsent off`.
    Holdfast,
    /// `keepalive_learn off`.
    HoldfastUnlearned,
    /// `retry_unsent on`.
    HoldfastRetrying,
    Nginx,
    Haproxy,
}

impl Arm {
    pub(super) const ALL: [Arm; 5] =
        [Arm::Holdfast, Arm::HoldfastUnlearned, Arm::HoldfastRetrying, Arm::Nginx, Arm::Haproxy];

    pub(super) fn is_holdfast(self) -> bool {
        matches!(self, Arm::Holdfast | Arm::HoldfastUnlearned | Arm::HoldfastRetrying)
    }

    /// The program's name.
    pub(super) fn program(self) -> &'static str {
        match self {
            Arm::Nginx => "nginx",
            Arm::Haproxy => "haproxy",
            _ => "holdfast",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Arm::Holdfast => "holdfast",
            Arm::HoldfastUnlearned => "holdfast-learn-off",
            Arm::HoldfastRetrying => "holdfast-retry-unsent",
            Arm::Nginx => "nginx",
            Arm::Haproxy => "haproxy",
        })
    }
}

/// The command that starts an arm in front of groups of peers at these ports.
pub(super) fn command(arm: Arm, program: &Path, home: &Path, port: u16, groups: &[Vec<u16>]) -> Result<Command> {
    let conf = home.join(format!("{arm}.conf"));
    let mut command = Command::new(program);
    if arm == Arm::Haproxy {
        fs::write(&conf, haproxy_conf(port, groups))?;
        command.arg("-db").arg("-f").arg(&conf);
    } else {
        fs::write(&conf, nginx_conf(arm, home, port, groups))?;
        command.arg("-p").arg(home).arg("-e").arg("stderr").arg("-c").arg(&conf);
    }
    Ok(command)
}

/// The same text for nginx and Holdfast, except for directives that only one of them has.
fn nginx_conf(arm: Arm, home: &Path, port: u16, groups: &[Vec<u16>]) -> String {
    let (group_words, location_words, http) = match arm {
        Arm::HoldfastUnlearned => ("        keepalive_learn off;\n", "", String::new()),
        Arm::HoldfastRetrying => ("", "            retry_unsent on;\n", String::new()),
        Arm::Nginx => ("", "", nginx_only(home)),
        _ => ("", "", String::new()),
    };
    let (mut upstreams, mut locations) = (String::new(), String::new());
    for (index, ports) in groups.iter().enumerate() {
        let servers = ports.iter().map(|port| format!("        server 127.0.0.1:{port} max_fails=0;\n"));
        let servers = servers.collect::<Vec<_>>().concat();
        let _ = write!(
            upstreams,
            "    upstream peers{index} {{\n{servers}        keepalive 256;\n        keepalive_requests 1000000;\n        \
             keepalive_timeout 3600s;\n{group_words}    }}\n"
        );
        let _ = write!(
            locations,
            "        location /{index}/ {{\n            proxy_pass http://peers{index};\n            \
             proxy_http_version 1.1;\n            proxy_set_header Connection \"\";\n{location_words}        }}\n"
        );
    }
    format!(
        "{main}http {{\n{http}    access_log off;\n    keepalive_timeout 3600s;\n    keepalive_requests 1000000000;\n\
         {upstreams}    server {{\n        listen 127.0.0.1:{port};\n{locations}    }}\n}}\n",
        main = nginx_main(home, &arm.to_string(), 2),
    )
}

/// A POST is not repeated after it was sent, as is the default of the other proxies.
fn haproxy_conf(port: u16, groups: &[Vec<u16>]) -> String {
    let (mut rules, mut backends) = (String::new(), String::new());
    for (index, ports) in groups.iter().enumerate() {
        let _ = writeln!(rules, "    use_backend peers{index} if {{ path_beg /{index}/ }}");
        let servers = ports.iter().map(|port| format!("    server peer{port} 127.0.0.1:{port}\n"));
        let servers = servers.collect::<Vec<_>>().concat();
        let _ = write!(backends, "\nbackend peers{index}\n    balance roundrobin\n{servers}");
    }
    format!(
        "global\n    nbthread 2\n    maxconn 9000\n\ndefaults\n    mode http\n    http-reuse always\n    retries 3\n    \
         retry-on conn-failure empty-response\n    timeout connect 5s\n    timeout client 3600s\n    timeout server 60s\n    \
         timeout http-keep-alive 3600s\n\nfrontend soak\n    bind 127.0.0.1:{port}\n    \
         http-request disable-l7-retry if METH_POST\n{rules}{backends}"
    )
}
