//! The configurations of the gateway's two arms, as anybody could write them: text in nginx's language, which the demo
//! also prints. Text out only.

use super::plan::Arm;
use std::net::SocketAddr;
use std::path::Path;

/// nginx's customary limit of connections per worker; the demo's own connections come on top.
const WORKER_CONNECTIONS_MIN: u32 = 1024;
/// Idle upstream connections that are kept, as in the report that is repeated.
const KEEPALIVE_MIN: u32 = 100;

/// What makes an arm what it is: the line of the upstream group and the lines of the location.
pub(super) fn essence(arm: Arm, connections: u32) -> Option<(String, &'static [&'static str])> {
    match arm {
        Arm::Direct => None,
        // Without these two words nginx pools by default, since 1.29.7.
        Arm::Unpooled => Some(("keepalive 0;".to_owned(), &["proxy_http_version 1.0;"])),
        Arm::Pooled => Some((
            format!("keepalive {};", connections.max(KEEPALIVE_MIN)),
            &["proxy_http_version 1.1;", "proxy_set_header Connection \"\";"],
        )),
    }
}

/// The whole file. `folder` takes the log and the pid file.
pub(super) fn text(arm: Arm, connections: u32, listen: SocketAddr, origin: SocketAddr, folder: &Path) -> String {
    let (upstream, location) = essence(arm, connections).unwrap_or_default();
    let location = location.join("\n            ");
    let folder = folder.display();
    // A proxied connection counts twice, as in nginx.
    let worker_connections = (connections * 2 + 64).max(WORKER_CONNECTIONS_MIN);
    format!(
        "\
worker_processes 1;
pid {folder}/gateway.pid;
error_log {folder}/error.log warn;

events {{
    worker_connections {worker_connections};
}}

http {{
    access_log off;

    upstream origin {{
        server {origin};
        {upstream}
    }}

    server {{
        listen {listen};

        location / {{
            proxy_pass http://origin;
            {location}
        }}
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(arm: Arm, connections: u32) -> String {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        text(arm, connections, address(8080), address(8081), Path::new("/folder"))
    }

    #[test]
    fn the_arms_differ_in_nothing_but_the_pool() {
        let (unpooled, pooled) = (arm(Arm::Unpooled, 30), arm(Arm::Pooled, 30));
        let differing = |text: &str, other: &str| {
            let lines = text.lines().filter(|line| !other.contains(line)).map(str::trim);
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(differing(&unpooled, &pooled), ["keepalive 0;", "proxy_http_version 1.0;"]);
        let words = ["keepalive 100;", "proxy_http_version 1.1;", "proxy_set_header Connection \"\";"];
        assert_eq!(differing(&pooled, &unpooled), words);
    }

    #[test]
    fn limits_grow_with_the_load() {
        let text = arm(Arm::Pooled, 1000);
        assert!(text.contains("keepalive 1000;") && text.contains("worker_connections 2064;"), "{text}");
    }
}
