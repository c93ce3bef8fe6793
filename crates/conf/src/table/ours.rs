//! Holdfast's own directives, in nginx's grammar.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{GRPC_TLS, PROXY_TLS, STREAM_TLS, UWSGI_TLS, directives};

directives! {
    module "holdfast";
    "max_connections" (1..=4) "number [connecting=number] [queue=number timeout=time]"
        in Upstream, No since "holdfast", Yes =>
        "Exact cap on upstream connections in the whole process, on simultaneous connects, and a bounded waiting line: 502 \
         where it is full, or after `timeout` (60s).",
        "max_connections 500 connecting=50 queue=1000 timeout=2s;";
    "keepalive_learn" (flag) "on | off" = "on" in Upstream, No since "holdfast", Yes =>
        "Whether the idle time and the number of requests after which each peer closes are learned, from its \
         `Keep-Alive: timeout=` and from its closes, so that connections are retired before it.",
        "keepalive_learn off;";
    "http2_ping" (1..=2) "time [timeout=time] | off" = "off" in Upstream, No since "holdfast", Yes =>
        "Sends a PING on an HTTP/2 connection with open requests after it received nothing for this time. Without an answer within \
         `timeout` (10s) the connection is closed, and its requests fail as after `proxy_read_timeout`. Some servers treat \
         frequent PINGs as abuse: gRPC servers allow one in 5 minutes by default.",
        "http2_ping 5m timeout=10s;";
    "health_check" (0..)
        "[interval=time] [jitter=time] [fails=number] [passes=number] [timeout=time] [type=http|tcp|grpc] [uri=uri] \
         [host=name] [port=number] [status=codes] [header=condition] [body=condition] [grpc_service=name] [grpc_status=code] [mandatory [persistent]]"
        in Upstream, No since "holdfast", Yes =>
        "Asks every peer again and again whether it is well; no request goes to one that is not. \
         Every `interval` (5s) from the end of the check before, put off by up to `jitter` (0), within `timeout` (5s), \
         `uri` (/) is asked for with `host` (the group's name) at the peer's address or another `port`; `type=tcp` \
         only connects; `type=grpc` calls `grpc.health.v1` for the service `grpc_service` (the whole server), and wants \
         SERVING, or the status `grpc_status`. The response must be whole as far as its first 256 KB and meet all conditions: `status` (200-399; \
         `!500-599`), `header=NAME`, `!NAME`, `NAME=text`, `NAME!=text`, `NAME~regex`, `NAME!~regex`, `body=~regex`, \
         `body=!~regex`. After `fails` (1) failed checks in a row a peer is out, after `passes` (1) in again; `mandatory`: \
         a new peer is out until it has passed one. A reload changes nothing about peers that stay.",
        "health_check interval=2s fails=3 passes=2 uri=/healthz status=200;";
    "route_to" (1..) "@name [[~]condition ...]" in Location, No + REPEATABLE since "holdfast", Yes =>
        "Leads a request that meets all conditions to a named location, before anything else in this location. The first line that \
         matches is used; if no line matches, the location itself serves the request. Conditions are `method=text`, `header:NAME=text`, \
         `arg:NAME=text` (the first argument with this name, decoded) and `$variable=text`. Text is data, without variables. A \
         `~` before a condition makes its text a regular expression.",
        "route_to @beta method=GET header:X-Channel=beta ~arg:version=^2;";
    "retry_unsent" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether a request that is not idempotent is replayed where a FIN that came first proves that no peer took it.",
        "retry_unsent on;";
    "proxy_bind_pool" (1..) "address ..." in Http | Server | Location, ListReplaced since "holdfast", Yes =>
        "Local addresses over which upstream connections are spread: each new one comes from the address with the most \
         free ports towards its peer, and from the next where the kernel has none left; 503 when all are used up.",
        "proxy_bind_pool 127.0.0.2 127.0.0.3;";
    "proxy_request_timeout" (1) "time" = "0" in Http | Server | Location, Value since "holdfast", Yes =>
        "Longest time of a proxied request, from its head to the end of the upstream's response: its body, waiting lines and all attempts \
         count. After it the client gets 504, or a response that has begun breaks off. `0`: no limit. Tunnels and responses from \
         a cache have none; the limit of a gRPC call is what its client sends as `grpc-timeout`.",
        "proxy_request_timeout 10s;";
    "proxy_next_upstream_again" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether the peers of a group are asked again when each of them has failed. Then `proxy_next_upstream_tries` alone limits the \
         attempts of a request, also in a group of one peer; without that limit, each peer is asked once. A peer that `max_fails` has \
         taken out is not asked.",
        "proxy_next_upstream_again on;";
    "proxy_next_upstream_pause" (1) "time" = "0" in Http | Server | Location, Value since "holdfast", Yes =>
        "Pause before each further attempt of a request. If the time of `proxy_next_upstream_timeout` ends before the pause, there is \
         no further attempt. `0`: none. A request that lost its reused connection is repeated at once.",
        "proxy_next_upstream_pause 100ms;";
    "proxy_ssl_verify_san" (1..) "DNS:name | URI:uri ..." in Http | Server | Location, Value since "holdfast", With(PROXY_TLS) =>
        "Names of which the certificate of the peer must list one, where it is verified, in place of the name for SNI: host names, and \
         URIs as SPIFFE has them. The common name does not count.",
        "proxy_ssl_verify_san DNS:api.example.com URI:spiffe://example.com/api;";
    "grpc_ssl_verify_san" (1..) "DNS:name | URI:uri ..." in Http | Server | Location, Value since "holdfast", With(GRPC_TLS) =>
        "Names of which the certificate of the peer must list one, where it is verified, in place of the name for SNI: host names, and \
         URIs as SPIFFE has them. The common name does not count.",
        "grpc_ssl_verify_san DNS:api.example.com URI:spiffe://example.com/api;";
    "uwsgi_ssl_verify_san" (1..) "DNS:name | URI:uri ..." in Http | Server | Location, Value since "holdfast", With(UWSGI_TLS) =>
        "Names of which the certificate of the peer must list one, where it is verified, in place of the name for SNI: host names, and \
         URIs as SPIFFE has them. The common name does not count.",
        "uwsgi_ssl_verify_san DNS:api.example.com URI:spiffe://example.com/api;";
    "proxy_ssl_verify_san" (1..) "DNS:name | URI:uri ..." in Stream | StreamServer, Value since "holdfast", With(STREAM_TLS) =>
        "Names of which the certificate of the peer must list one, where it is verified, in place of the name for SNI: host names, and \
         URIs as SPIFFE has them. The common name does not count.",
        "proxy_ssl_verify_san DNS:db.example.com;";
    "bare_line_feeds" (flag) "on | off" = "on" in Http | Server, Value since "holdfast", Yes =>
        "Whether a line feed without a carriage return ends a line of a request head, as in nginx; `off` answers 400.",
        "bare_line_feeds off;";
    "client_half_close" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether a client that closes its sending side still waits for its response. `off`: it has left, as in nginx, once \
         everything that it sent before was read: 499, the upstream connection is closed, and its places in queues and \
         limits are free. A reset is a client that has left in either case, and a tunnel passes the close on.",
        "client_half_close on;";
    "memory_budget" (1..=2) "size [shed=all | keepalive | requests | none] | off" = "off"
        in Main, No since "holdfast", Yes =>
        "One byte budget for the buffers of all connections. Above 80 % of it connections without a complete request, then idle ones, are closed, above \
         90 % new requests are answered 503, above 95 % nothing is accepted and buffers stop growing; `shed=` gives up \
         less. Half of the memory that the process may use is a sensible size: the kernel's socket buffers come on top.",
        "memory_budget 2g;";
    "worker_groups" (1) "number | auto" = "1" in Main, No since "holdfast", Yes =>
        "Number of processes that the workers are spread over, 64 at most: each has its own descriptors. All processes accept \
         from the same listeners, and each has at least one worker. `auto` takes as many as the planned connections \
         (`worker_processes` times `worker_connections`, two descriptors each) need under the limit of descriptors. The process \
         that dies costs its own connections only. `limit_conn`, `limit_req` and caches count in all processes together; \
         `memory_budget`, `drain_rate`, `max_conns` and `max_connections` are divided among the processes.",
        "worker_groups auto;";
    "drain_rate" (1) "number | off" = "100" in Main, No since "holdfast", Yes =>
        "Tunnels per second, in the whole process, that are closed after a reload has changed or removed their location, or after \
         their peer was removed or marked `drain`. A WebSocket is closed with 1012 between two frames, any other tunnel after \
         `drain_timeout`. Tunnels of unchanged locations stay. If it is written, a process that ends drains its tunnels, too, \
         with 1001. `off`, or 0: they last until they end.",
        "drain_rate 500;";
    "drain_timeout" (1) "time" = "30s" in Main, No since "holdfast", Yes =>
        "How long a drained tunnel may take to end once it is its turn. Then both ends get a FIN.", "drain_timeout 10s;";
    "ctl_socket" (1..=3) "path [mode=octal] [group=name] | off" in Main, No since "holdfast", Yes =>
        "The Unix socket at which `holdfast ctl` reaches the master process. Without the directive it is beside the pid file, with \
         `.ctl` in place of `.pid`. Its owner alone may connect; with `group=` so may that group, unless `mode=` says otherwise. Nothing \
         may be granted to others: who can connect can stop peers and close connections.",
        "ctl_socket /run/holdfast.ctl group=adm;";
    "tunnel_timeout" (1) "time" in Http | Server | Location, Value since "holdfast", Yes =>
        "How long a tunnel may be silent; where it is not written, `proxy_read_timeout` says so, too.", "tunnel_timeout 15m;";
    "tunnel_ping" (1) "time | off" in Http | Server | Location, Value since "holdfast", Yes =>
        "After so long a silence both ends of a WebSocket are pinged, between their frames and never behind a close. An end \
         that does not answer within the tunnel's idle limit ends it. Answers go on to the other end. Other tunnels, and \
         those with extensions other than `permessage-deflate`, are not pinged.",
        "tunnel_ping 30s;";
    "request_trace_secret" (1) "secret | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "A request whose field `X-Holdfast-Trace` has this secret, of at least 16 bytes, gets its phases in the response: times, location, the \
         pool's decision for each attempt, bytes. `$request_trace` has them as a whole, for a log. The field never reaches an upstream.",
        "request_trace_secret 0f4ce3b1c59a41d6;";
    "status_page" (0) "" in Location, No since "holdfast", Yes =>
        "Live page of the gateway, with JSON (`?format=json`) and metrics (`?format=prometheus`). Without `allow`, `deny` or another check, the \
         location answers other hosts with 403.",
        "status_page;";
    "proxy_cache_purge" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "holdfast", Yes =>
        "When a request removes the entry of its key, and all variants of it, instead of being answered: 204, or 404 where \
         there is none.",
        "proxy_cache_purge $purge_method;";
    "proxy_cache_authorization" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether responses to requests with `Authorization` are kept although they do not say that they may be \
         (RFC 9111 section 3.5).",
        "proxy_cache_authorization on;";
    "fastcgi_cache_purge" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "holdfast", Yes =>
        "When a request removes the entry of its key, and all variants of it, instead of being answered: 204, or 404 where \
         there is none.",
        "fastcgi_cache_purge $purge_method;";
    "fastcgi_cache_authorization" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether responses to requests with `Authorization` are kept although they do not say that they may be \
         (RFC 9111 section 3.5).",
        "fastcgi_cache_authorization on;";
    "uwsgi_cache_purge" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "holdfast", Yes =>
        "When a request removes the entry of its key, and all variants of it, instead of being answered: 204, or 404 where \
         there is none.",
        "uwsgi_cache_purge $purge_method;";
    "uwsgi_cache_authorization" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether responses to requests with `Authorization` are kept although they do not say that they may be \
         (RFC 9111 section 3.5).",
        "uwsgi_cache_authorization on;";
    "scgi_cache_purge" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "holdfast", Yes =>
        "When a request removes the entry of its key, and all variants of it, instead of being answered: 204, or 404 where \
         there is none.",
        "scgi_cache_purge $purge_method;";
    "scgi_cache_authorization" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether responses to requests with `Authorization` are kept although they do not say that they may be \
         (RFC 9111 section 3.5).",
        "scgi_cache_authorization on;";
    "proxy_cache_key_digest" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether files of the cache have the SHA-256 of a key in place of its text, for keys with credentials. Then `holdfast ctl cache` \
         finds an entry by the digest.",
        "proxy_cache_key_digest on;";
    "fastcgi_cache_key_digest" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether files of the cache have the SHA-256 of a key in place of its text, for keys with credentials. Then `holdfast ctl cache` \
         finds an entry by the digest.",
        "fastcgi_cache_key_digest on;";
    "uwsgi_cache_key_digest" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether files of the cache have the SHA-256 of a key in place of its text, for keys with credentials. Then `holdfast ctl cache` \
         finds an entry by the digest.",
        "uwsgi_cache_key_digest on;";
    "scgi_cache_key_digest" (flag) "on | off" = "off" in Http | Server | Location, Value since "holdfast", Yes =>
        "Whether files of the cache have the SHA-256 of a key in place of its text, for keys with credentials. Then `holdfast ctl cache` \
         finds an entry by the digest.",
        "scgi_cache_key_digest on;";
}
