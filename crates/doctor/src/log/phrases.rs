//! The phrases that nginx writes about errors between it and an upstream, with their meaning and cure. The first that
//! matches a line counts, so narrower phrases come before wider ones. Holdfast writes the same phrases.

/// A cause as logs name it.
pub(super) struct Phrase {
    /// The name in findings.
    pub(super) name: &'static str,
    /// A line must contain all of them.
    pub(super) words: &'static [&'static str],
    /// The response that the client got; empty if it noticed nothing.
    pub(super) status: &'static str,
    /// The cause in a few words.
    pub(super) cause: &'static str,
    /// What happened.
    pub(super) meaning: &'static str,
    /// What to do.
    pub(super) cure: &'static str,
    /// What the cure costs.
    pub(super) side_effect: &'static str,
    /// Sysctls to quote in the evidence.
    pub(super) sysctls: &'static [&'static str],
    /// Whether to quote the process's limit of descriptors.
    pub(super) descriptors: bool,
    /// Directives to quote in the evidence.
    pub(super) directives: &'static [&'static str],
}

const NOTHING: Phrase = Phrase {
    name: "",
    words: &[],
    status: "",
    cause: "",
    meaning: "",
    cure: "",
    side_effect: "",
    sysctls: &[],
    descriptors: false,
    directives: &[],
};

pub(super) const PHRASES: [Phrase; 38] = [
    Phrase {
        name: "log-source-address-not-here",
        words: &["bind(", "Cannot assign requested address", "connecting to upstream"],
        status: "500",
        cause: "the address to connect from is not one of this host",
        meaning: "proxy_bind names an address that no interface has, or not any more. Without it the ports of all other addresses are \
                  as they were.",
        cure: "ip address   # what this host has\nproxy_bind ADDRESS;   # one of them, or the line removed",
        side_effect: "The upstream sees another source address.",
        directives: &["proxy_bind"],
        ..NOTHING
    },
    Phrase {
        name: "log-ports-exhausted",
        words: &["Cannot assign requested address", "connecting to upstream"],
        status: "502",
        cause: "no local port was left for a connection to the upstream",
        meaning: "All ports towards this peer were in use or in TIME_WAIT: connections are opened and closed faster than 60 s of \
                  TIME_WAIT let them be used again.",
        cure: "upstream … { keepalive 64; }   # keep connections instead of closing them\n\
               sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"\n# more peers, ports or source addresses: `holdfast plan`",
        side_effect: "Kept connections are open at the upstream as well; ports listened on in the range must be reserved.",
        sysctls: &["net.ipv4.ip_local_port_range", "net.ipv4.tcp_tw_reuse", "net.ipv4.tcp_max_tw_buckets"],
        directives: &["keepalive", "proxy_bind"],
        ..NOTHING
    },
    Phrase {
        name: "log-descriptors-exhausted",
        words: &["Too many open files"],
        status: "500 or no answer",
        cause: "a worker ran out of descriptors",
        meaning: "Each client, each upstream connection and each file takes one. Clients that are not accepted wait in the queue.",
        cure: "worker_rlimit_nofile 65535;   # at least worker_connections, and room for files",
        side_effect: "More sockets need more kernel memory, some 4 KB each. A restart is needed.",
        sysctls: &["fs.file-max", "fs.nr_open"],
        descriptors: true,
        directives: &["worker_rlimit_nofile", "worker_connections"],
    },
    Phrase {
        name: "log-worker-connections-exhausted",
        words: &["worker_connections are not enough"],
        status: "500 or closed",
        cause: "a worker reached worker_connections",
        meaning: "Clients and upstream connections count alike: a proxied request takes two, and idle keepalive clients take one each.",
        cure: "events { worker_connections 16384; }\nworker_rlimit_nofile 32768;",
        side_effect: "nginx reserves 424 bytes for each possible connection and worker.",
        descriptors: true,
        directives: &["worker_processes", "worker_connections"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-socket-missing",
        words: &["(2: No such file or directory)", "connecting to upstream"],
        status: "502",
        cause: "the upstream's Unix socket is not there",
        meaning: "The program behind it is not running, or made its socket elsewhere, as with a private /tmp of its service.",
        cure: "ls -l SOCKET; systemctl status PROGRAM\n# the same path on both sides, outside /tmp:\nserver unix:/run/app/app.sock;",
        side_effect: "None.",
        directives: &["server"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-forbidden",
        words: &["(13: Permission denied)", "connecting to upstream"],
        status: "502",
        cause: "the workers may not connect to the upstream",
        meaning: "For a Unix socket the worker's user lacks the right to write to it or to enter its folder; for an address SELinux \
                  forbids it.",
        cure: "# a socket: group and mode, and every folder above it\nchgrp www-data SOCKET; chmod 660 SOCKET\n# SELinux:\nsetsebool -P httpd_can_network_connect 1",
        side_effect: "With the boolean every program of that domain may connect anywhere.",
        directives: &["user"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-certificate-refused",
        words: &["upstream SSL certificate"],
        status: "502",
        cause: "the upstream's certificate was refused",
        meaning: "proxy_ssl_verify is on, and the certificate has expired, is for another name, or its issuer is not in the trusted file.",
        cure: "proxy_ssl_trusted_certificate FILE;\nproxy_ssl_name HOST;   # the name in the certificate",
        side_effect: "A holder of a key of these issuers can replace the upstream.",
        directives: &["proxy_ssl_verify", "proxy_ssl_trusted_certificate", "proxy_ssl_name"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-handshake-failed",
        words: &["SSL handshaking to upstream"],
        status: "502 or 504",
        cause: "the TLS handshake with the upstream failed",
        meaning: "The peer speaks no TLS on that port, wants the server name, another version or cipher, or shows a certificate that is \
                  not trusted.",
        cure: "proxy_ssl_server_name on;\nproxy_ssl_name HOST;\n# where the port speaks plain HTTP: proxy_pass http://…",
        side_effect: "The name that is asked for is visible on the wire.",
        directives: &["proxy_ssl_server_name", "proxy_ssl_name", "proxy_ssl_verify", "proxy_ssl_protocols"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-refused",
        words: &["Connection refused", "connecting to upstream"],
        status: "502",
        cause: "nothing listens at the upstream's address",
        meaning: "The peer is not running, restarting, or listens elsewhere; a peer whose accept queue is full refuses only with \
                  tcp_abort_on_overflow.",
        cure: "# see that it runs: ss -ltn\n# a second peer takes over while one restarts:\nupstream … { server A; server B; }",
        side_effect: "While one peer is down the others carry its load.",
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-queue-full",
        words: &["Resource temporarily unavailable", "connecting to upstream"],
        status: "502",
        cause: "the accept queue of the upstream's socket is full",
        meaning: "The program behind the socket accepts more slowly than connections arrive, or listens with a short backlog.",
        cure: "# in the upstream program: a larger backlog, and\nsysctl -w net.core.somaxconn=4096\nupstream … { keepalive 64; }",
        side_effect: "Requests wait in the queue instead of failing at once.",
        sysctls: &["net.core.somaxconn"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-unreachable",
        words: &["No route to host", "connecting to upstream"],
        status: "502",
        cause: "the upstream's address cannot be reached",
        meaning: "A host is gone, or a firewall on the way rejects.",
        cure: "ip route get ADDRESS\n# remove the peer, or mark it down:\nserver ADDRESS down;",
        side_effect: "The other peers carry its load.",
        ..NOTHING
    },
    Phrase {
        name: "log-network-unreachable",
        words: &["Network is unreachable", "connecting to upstream"],
        status: "502",
        cause: "there is no route to the upstream",
        meaning: "The host has no route for that address; most often a name has an IPv6 address too, and the host has no IPv6.",
        cure: "resolver 127.0.0.53 ipv6=off;\n# or addresses of the family that there is a route for:\nserver 10.0.0.1:8080;",
        side_effect: "Peers that are reached by IPv6 alone are not reached.",
        directives: &["resolver", "server"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-connect-timeout",
        words: &["timed out", "while connecting to upstream"],
        status: "504",
        cause: "the upstream did not take the connection in time",
        meaning: "SYNs go unanswered: the peer's accept queue overflows, a firewall drops them, or the host is gone. Repeats come after \
                  1, 3 and 7 seconds, so a short burst is enough.",
        cure: "# on the upstream: nstat -az TcpExtListenOverflows; a larger backlog and somaxconn there\nproxy_connect_timeout 2s;   # the next peer sooner",
        side_effect: "A short timeout gives up on a peer that is only slow.",
        sysctls: &["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"],
        directives: &["proxy_connect_timeout"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-read-timeout",
        words: &["upstream timed out", "reading response header from upstream"],
        status: "504",
        cause: "the upstream took the request and did not answer in time",
        meaning: "The request waits inside the upstream: for a thread, a pool of its own, a database. For a WebSocket it is silence.",
        cure: "# where the answer may take longer:\nlocation /slow { proxy_read_timeout 120s; }\n# otherwise look at what the upstream waits for",
        side_effect: "A longer timeout keeps both connections, and the client, waiting.",
        directives: &["proxy_read_timeout"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-read-timeout-inside",
        words: &["upstream timed out"],
        status: "504 or a cut response",
        cause: "the upstream fell silent within a response, a request or a tunnel",
        meaning: "Between two reads or writes more time passed than proxy_read_timeout or proxy_send_timeout allow; with tunnels the \
                  heartbeats are rarer than the timeout.",
        cure: "proxy_read_timeout 900s;\nproxy_send_timeout 900s;   # longer than the time between heartbeats",
        side_effect: "A peer that vanished is noticed later.",
        directives: &["proxy_read_timeout", "proxy_send_timeout"],
        ..NOTHING
    },
    Phrase {
        name: "log-client-gone",
        words: &["client prematurely closed connection"],
        status: "499",
        cause: "clients gave up before the answer was there",
        meaning: "Their timeout, or that of a load balancer in front, is shorter than what the upstream takes; the work was done for nothing.",
        cure: "# see how long they wait: $request_time of lines with 499\n# then a faster upstream, or a longer timeout in front\nproxy_ignore_client_abort off;",
        side_effect: "None.",
        directives: &["proxy_ignore_client_abort", "proxy_read_timeout"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-closed-early",
        words: &["upstream prematurely closed connection while reading response header"],
        status: "502",
        cause: "the upstream closed before it answered",
        meaning: "On a kept connection it closed for idleness just as the request went out; on a fresh one the program ended or refused \
                  the request without a word.",
        cure: "# ours must give up idle connections before the upstream does:\nupstream … { keepalive_timeout 20s; }   # below the upstream's own\n\
               # and the upstream must not end connections after few requests",
        side_effect: "Somewhat more connections are opened.",
        directives: &["keepalive", "keepalive_timeout", "keepalive_requests"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-head-too-large",
        words: &["upstream sent too big header"],
        status: "502",
        cause: "the upstream's response head does not fit proxy_buffer_size",
        meaning: "Mostly cookies or tokens that grew.",
        cure: "proxy_buffer_size 16k;\nproxy_busy_buffers_size 24k;",
        side_effect: "Every proxied response, and every tunnel, takes that buffer.",
        directives: &["proxy_buffer_size"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-no-http",
        words: &["upstream sent no valid HTTP"],
        status: "502, or the bytes as they came",
        cause: "the upstream did not answer in HTTP/1",
        meaning: "Another protocol lives on that port: TLS, HTTP/2, FastCGI, SSH. nginx takes such bytes for HTTP/0.9.",
        cure: "# TLS: proxy_pass https://…   FastCGI: fastcgi_pass   HTTP/2 alone: the upstream must speak HTTP/1 as well",
        side_effect: "None.",
        directives: &["proxy_pass"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-chunks-broken",
        words: &["upstream sent invalid chunked response"],
        status: "a cut response",
        cause: "the upstream's chunks are malformed",
        meaning: "The body of a chunked response does not follow the format; mostly a program that writes Transfer-Encoding itself.",
        cure: "# in the upstream: leave the framing to its HTTP library\nproxy_http_version 1.0;   # meanwhile: without chunks",
        side_effect: "With HTTP/1.0 no connection is kept.",
        directives: &["proxy_http_version"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-head-invalid",
        words: &["upstream sent", "while reading response header from upstream"],
        status: "502",
        cause: "the upstream's response head is malformed",
        meaning: "A header has a bad name or value, a length appears twice, or Content-Length and Transfer-Encoding are together. \
                  nginx refuses what could be read in two ways.",
        cure: "# look at what it sends:\ncurl -sv http://PEER/ -o /dev/null\n# and let its HTTP library write the head",
        side_effect: "None.",
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-truncated",
        words: &["upstream prematurely closed connection"],
        status: "a cut response",
        cause: "the upstream closed within a response",
        meaning: "The head was sent and the body broke off: the program failed, or was ended, while it answered.",
        cure: "# look at the upstream's own log at that time; nothing here can repair a response that was begun",
        side_effect: "None.",
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-broke-while-sending",
        words: &["Broken pipe", "sending request to upstream"],
        status: "502",
        cause: "the upstream closed while the request was being sent",
        meaning: "It does not want the whole body (too large, not allowed), or this side kept the connection longer than the upstream did.",
        cure: "upstream … { keepalive_timeout 20s; }   # below the upstream's own\nclient_max_body_size 1m;   # what the upstream takes",
        side_effect: "Larger bodies are refused here with 413.",
        directives: &["keepalive_timeout", "client_max_body_size"],
        ..NOTHING
    },
    Phrase {
        name: "log-upstream-reset",
        words: &["Connection reset by peer", "upstream"],
        status: "502",
        cause: "the upstream broke the connection",
        meaning: "It closed with bytes unread, was ended, or the connection was idle for longer than it or a firewall allows.",
        cure: "upstream … { keepalive_timeout 20s; }   # below the upstream's and the firewall's idle time\nproxy_socket_keepalive on;",
        side_effect: "Somewhat more connections are opened.",
        directives: &["keepalive", "keepalive_timeout"],
        ..NOTHING
    },
    Phrase {
        name: "log-no-live-upstreams",
        words: &["no live upstreams"],
        status: "502",
        cause: "all peers are marked as failed",
        meaning: "Each peer failed max_fails times within fail_timeout, often because of a few slow requests. Then every request \
                  fails, even if the peers work.",
        cure: "server A max_fails=5 fail_timeout=5s;\n# find the first failures in this log: they are the cause",
        side_effect: "A peer that is really dead gets more requests before it is avoided.",
        directives: &["server"],
        ..NOTHING
    },
    Phrase {
        name: "log-no-resolver",
        words: &["no resolver defined to resolve"],
        status: "502",
        cause: "a name had to be looked up while running, and there is no resolver",
        meaning: "proxy_pass has a variable in it, so its host is looked up for each request, by the servers of `resolver` alone.",
        cure: "resolver 127.0.0.53 valid=30s;   # the system's: see /etc/resolv.conf",
        side_effect: "Names are asked for again every 30 s; /etc/hosts is not read.",
        directives: &["resolver", "proxy_pass"],
        ..NOTHING
    },
    Phrase {
        name: "log-name-not-resolved",
        words: &["could not be resolved"],
        status: "502",
        cause: "the upstream's name has no address",
        meaning: "The resolver did not know the name or did not answer.",
        cure: "resolver 127.0.0.53 valid=30s;\nresolver_timeout 5s;",
        side_effect: "Addresses are asked for again every 30 s.",
        directives: &["resolver", "resolver_timeout"],
        ..NOTHING
    },
    Phrase {
        name: "log-response-to-disk",
        words: &["is buffered to a temporary file"],
        cause: "a response or request went through a file",
        meaning: "It was larger than the buffers and the other side was slower; it costs disk and time, not correctness.",
        cure: "proxy_max_temp_file_size 0;   # let the upstream wait for the client instead",
        side_effect: "The upstream's connection is busy for as long as the client reads.",
        directives: &["proxy_buffers", "proxy_max_temp_file_size"],
        ..NOTHING
    },
    Phrase {
        name: "log-disk-full",
        words: &["No space left on device"],
        status: "500 or a cut response",
        cause: "the disk of temporary files or logs is full",
        meaning: "Bodies that outgrow their buffers go to files; on a full disk those requests fail.",
        cure: "df -h; df -i\nproxy_max_temp_file_size 0;   # responses wait for their client instead\nclient_body_temp_path /var/lib/nginx/body;",
        side_effect: "The upstream's connection is busy for as long as the client reads.",
        directives: &["proxy_temp_path", "client_body_temp_path", "proxy_max_temp_file_size"],
        ..NOTHING
    },
    Phrase {
        name: "log-temporary-file-forbidden",
        words: &["(13: Permission denied)", "while reading upstream"],
        status: "a cut response",
        cause: "a response could not go to its temporary file",
        meaning: "The worker's user may not write to proxy_temp_path: the folder belongs to an earlier user, or nginx was once started as \
                  another one.",
        cure: "chown -R www-data /var/lib/nginx/proxy   # the user of `user`\n# or none: proxy_max_temp_file_size 0;",
        side_effect: "None.",
        directives: &["user", "proxy_temp_path"],
        ..NOTHING
    },
    Phrase {
        name: "log-worker-killed",
        words: &["exited on signal 9"],
        status: "cut connections",
        cause: "a signal killed a worker: the kernel, out of memory, or an operator",
        meaning: "All its connections ended at once. Most often memory was used up (dmesg has \"Out of memory\"): buffers times slow \
                  clients, or old workers that tunnels keep alive after reloads.",
        cure: "proxy_buffer_size 4k;\nproxy_buffers 4 8k;\nworker_shutdown_timeout 1h;   # an end for workers of earlier configurations",
        side_effect: "Tunnels of earlier configurations are closed after that time.",
        directives: &["proxy_buffers", "proxy_buffer_size", "proxy_busy_buffers_size", "worker_shutdown_timeout"],
        ..NOTHING
    },
    Phrase {
        name: "log-worker-crashed",
        words: &["exited on signal"],
        status: "cut connections",
        cause: "a worker crashed",
        meaning: "All its connections ended at once. A module, or an old bug.",
        cure: "# which modules are loaded, and whether it ends without them:\nnginx -T | grep load_module",
        side_effect: "What the module did is missing.",
        directives: &["load_module"],
        ..NOTHING
    },
    Phrase {
        name: "log-request-limited",
        words: &["limiting requests"],
        status: "503",
        cause: "limit_req refused or delayed requests",
        meaning: "More requests came than the rate allows, after the burst was used up. Behind a load balancer all clients may count as one.",
        cure: "limit_req zone=NAME burst=50 nodelay;\n# the client's address behind a load balancer:\nset_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For;",
        side_effect: "Larger bursts reach the upstream.",
        directives: &["limit_req", "limit_req_zone"],
        ..NOTHING
    },
    Phrase {
        name: "log-connections-limited",
        words: &["limiting connections"],
        status: "503",
        cause: "limit_conn refused requests",
        meaning: "More were in flight for one key than allowed. Behind a load balancer or NAT many clients share a key.",
        cure: "limit_conn NAME 100;",
        side_effect: "One client may hold more.",
        directives: &["limit_conn", "limit_conn_zone"],
        ..NOTHING
    },
    Phrase {
        name: "log-conntrack-full",
        words: &["nf_conntrack: table full"],
        status: "timeouts",
        cause: "the kernel's table of tracked flows is full",
        meaning: "Packets of new connections are dropped; this is a line of the kernel's log, and nginx's has timeouts at the same time.",
        cure: "sysctl -w net.netfilter.nf_conntrack_max=1048576",
        side_effect: "256 bytes of kernel memory for each flow.",
        sysctls: &["net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_count"],
        ..NOTHING
    },
    Phrase {
        name: "log-tw-buckets-full",
        words: &["time wait bucket table overflow"],
        status: "resets now and then",
        cause: "tcp_max_tw_buckets was reached",
        meaning: "Sockets that should be in TIME_WAIT were destroyed; a line of the kernel's log.",
        cure: "sysctl -w net.ipv4.tcp_max_tw_buckets=262144\nupstream … { keepalive 64; }",
        side_effect: "256 bytes of kernel memory for each.",
        sysctls: &["net.ipv4.tcp_max_tw_buckets"],
        ..NOTHING
    },
    Phrase {
        name: "log-syn-flood",
        words: &["ossible SYN flooding"],
        status: "connection timeouts",
        cause: "an accept queue or SYN queue overflowed",
        meaning: "A line of the kernel's log; the port is in it. Mostly not an attack: bursts are larger than the backlog.",
        cure: "sysctl -w net.core.somaxconn=8192\nlisten 80 backlog=8192;   # and a restart",
        side_effect: "Under overload all wait longer.",
        sysctls: &["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"],
        directives: &["listen"],
        ..NOTHING
    },
    Phrase {
        name: "log-address-in-use",
        words: &["bind() to", "(98: "],
        status: "it does not start",
        cause: "a port to listen on was taken",
        meaning: "Another server listens there, or a connection has the port, since it lies in ip_local_port_range.",
        cure: "ss -tanp sport = :PORT\nsysctl -w net.ipv4.ip_local_reserved_ports=PORT",
        side_effect: "connect() has one port less.",
        sysctls: &["net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"],
        directives: &["listen"],
        ..NOTHING
    },
];
