//! Groups of peers: balancing, limits, idle connections.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_upstream_module";
    "upstream" (block 1) "name" in Http, No + REPEATABLE since "0.3.47", Yes =>
        "Names a group of peers that `proxy_pass` can refer to.", "upstream backend { server 127.0.0.1:9000; }";
    "server" (1..)
        "address [weight=number] [max_conns=number] [max_fails=number] [fail_timeout=time] [backup] [down] \
         [resolve] [service=name] [route=name] [drain] [slow_start=time]"
        in Upstream, No + REPEATABLE, Yes =>
        "One peer of the group: its address, weight, limits and role.",
        "server 127.0.0.1:9000 weight=2 max_fails=3 fail_timeout=10s;";
    "resolver" (1..) "address ... [valid=time] [ipv6=on|off] [status_zone=zone]"
        in Upstream, No since "1.27.3", Yes =>
        "Name servers for the group's peers with `resolve`.", "resolver 127.0.0.53 valid=30s;";
    "resolver_timeout" (1) "time" = "30s" in Upstream, No since "1.27.3", Yes =>
        "How long resolving a name of the group may take.", "resolver_timeout 5s;";
    "hash" (1..=2) "key [consistent]" in Upstream, No + REPEATABLE since "1.7.2", Yes =>
        "Chooses peers by a hash of the given text; `consistent` moves few keys when peers change.",
        "hash $request_uri consistent;";
    "ip_hash" (0) "" in Upstream, No + REPEATABLE, Yes =>
        "Chooses peers by a hash of the client address.", "ip_hash;";
    "keepalive" (1..=4) "connections [local] [per_peer=number] [floor=number]" = "32 local"
        in Upstream, No since "1.1.4", Yes =>
        "How many idle connections to the group are kept: n per worker, shared by all workers; `0` keeps none. \
         `per_peer` of them at the most are one peer's; `floor` connections to each peer are opened ahead of demand.",
        "keepalive 32;";
    "keepalive_time" (1) "time" = "1h" in Upstream, No since "1.19.10", Yes =>
        "How long an upstream connection may serve requests before it is closed after the next one.",
        "keepalive_time 1h;";
    "keepalive_timeout" (1) "timeout" = "60s" in Upstream, No since "1.15.3", Yes =>
        "How long an idle upstream connection is kept.", "keepalive_timeout 60s;";
    "keepalive_requests" (1) "number" = "1000" in Upstream, No since "1.15.3", Yes =>
        "Requests sent on one upstream connection before it is closed.", "keepalive_requests 10000;";
    "least_conn" (0) "" in Upstream, No + REPEATABLE since "1.3.1", Yes =>
        "Chooses the peer with the fewest exchanges and tunnels under way, by weight, counted over all workers.",
        "least_conn;";
    "random" (0..=2) "[two [least_conn | least_time=header | least_time=last_byte]]" in Upstream, No + REPEATABLE since "1.15.1", Yes =>
        "Chooses peers at random, or the better of two chosen at random.", "random two least_conn;";
    "zone" (1..=2) "name [size]" in Upstream, No + REPEATABLE since "1.9.0", Yes =>
        "Names the zone in which the group's state is shared between workers. Here it always is, for they are threads of \
         one process: balancing, failures and limits count over all workers with `zone` and without, and its size \
         bounds nothing.",
        "zone backend 64k;";
    "least_time" (1..=2) "header | last_byte [inflight]" in Upstream, No since "1.31.0", Yes =>
        "Chooses the peer with the least response time and the fewest exchanges under way, by weight; with `inflight` \
         what was not answered yet counts by its age.",
        "least_time header;";
    "sticky" (2..)
        "cookie name [expires=time] [domain=name] [path=path] [flag ...] | route $variable ... | learn \
         create=$variable lookup=$variable zone=name[:size] [timeout=time] [header] | header name"
        in Upstream, No since "1.29.6", Yes =>
        "Sends the requests of one session to the same peer, known by a cookie, a route, what was learned (256 bytes of \
         the zone a session; the one unused for longest gives way), or a field of ours that the client sends back.",
        "sticky cookie srv_id expires=1h path=/;";
    "state" (1) "file" in Upstream, No since "1.9.7", Yes =>
        "A file that holds the group's `server` lines, read at start and at reload; without it the group has no peers. It \
         is in place of `server`. A relative path is taken from the main file's directory. Nothing changes a group while \
         it runs, so the file is never written.",
        "state /var/lib/holdfast/backend.conf;";
    "queue" (1..=2) "number [timeout=time]" in Upstream, No since "1.5.12", Yes =>
        "How many requests may wait, first come, first served, while no peer can be chosen: all have `max_conns` exchanges, \
         or have failed. With `max_connections` also for a connection. 502 where the line is full, or after `timeout` (60s).",
        "queue 100 timeout=30s;";
}
