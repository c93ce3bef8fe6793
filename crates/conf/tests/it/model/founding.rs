//! Lowers the configurations of the founding reports as a whole: the model has every value they set.

use std::time::Duration;

use conf::model::{HttpVersion, WorkerProcesses, lower};
use conf::value::words::NextUpstream;

use super::fixed;
use crate::support::Files;

const CONTROL_EXPERIMENT: &str = "
worker_processes 1;
events { worker_connections 1024; }
http {
    include mime.types;
    default_type application/octet-stream;
    sendfile on;
    upstream api_backend { server 127.0.0.1:10000; keepalive 16; keepalive_requests 10000000; }
    server {
        listen 80;
        server_name a b c;
        ssl_session_timeout 5m;
        underscores_in_headers on;
        location / {
            proxy_pass http://api_backend;
            proxy_redirect off;
            proxy_set_header Host $host;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_next_upstream error timeout invalid_header http_500 http_502 http_503 http_504;
            proxy_max_temp_file_size 0;
            proxy_connect_timeout 90;
            proxy_send_timeout 90;
            proxy_read_timeout 90;
            proxy_buffer_size 4k;
            proxy_buffers 4 32k;
            proxy_busy_buffers_size 64k;
            proxy_temp_file_write_size 64k;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }
    }
}
";

#[test]
fn control_experiment_has_its_documented_settings() {
    let types = "types { text/html html htm; }";
    let loaded = Files::new([("/etc/nginx/nginx.conf", CONTROL_EXPERIMENT), ("/etc/nginx/mime.types", types)]).load();
    assert!(loaded.is_ok(), "{:?}", loaded.diagnostics);
    let (model, found) = lower(&loaded.tree, &loaded.sources);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(model.main.settings.worker_processes, WorkerProcesses::Count(1));
    assert_eq!(model.events.settings.worker_connections, 1024);

    let http = model.http.expect("the text has an http block");
    let group = &http.upstreams[0].settings;
    assert_eq!((group.keepalive.idle, group.keepalive.local, group.keepalive_requests), (16, false, 10_000_000));
    let server = &http.servers[0];
    assert_eq!(server.names.iter().map(|name| name.text.as_slice()).collect::<Vec<_>>(), [b"a", b"b", b"c"]);
    assert!(server.settings.head.underscores_in_headers);

    let location = &server.locations[0];
    assert_eq!(fixed(location.content.as_ref()).upstream.name, "api_backend");
    let (proxy, transport) = (&location.settings.proxy, &location.settings.transport);
    assert!(proxy.redirects.is_empty());
    assert_eq!((proxy.set_headers.len(), proxy.http_version), (4, HttpVersion::Http11));
    assert!(proxy.set_headers[3].value.is_empty());
    assert!(transport.next_upstream.contains(NextUpstream::HTTP_504.with(NextUpstream::INVALID_HEADER)));
    assert_eq!((transport.connect_timeout, transport.read_timeout), (Duration::from_secs(90), Duration::from_secs(90)));
    assert_eq!((transport.max_temp_file_size, transport.buffers.count, transport.busy_size()), (0, 4, 64 << 10));
}

#[test]
fn the_off_arm_pools_nothing() {
    let text = CONTROL_EXPERIMENT
        .replace("keepalive 16; keepalive_requests 10000000;", "keepalive 0;")
        .replace("proxy_http_version 1.1;", "proxy_http_version 1.0;")
        .replace("include mime.types;", "");
    let loaded = Files::new([("/etc/nginx/nginx.conf", &text)]).load();
    let (model, found) = lower(&loaded.tree, &loaded.sources);
    assert!(found.is_empty(), "{found:?}");
    let http = model.http.expect("the text has an http block");
    assert_eq!(http.upstreams[0].settings.keepalive.idle, 0);
    assert_eq!(http.servers[0].locations[0].settings.proxy.http_version, HttpVersion::Http10);
}
