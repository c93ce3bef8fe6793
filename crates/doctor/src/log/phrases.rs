//! The phrases that nginx writes when something went wrong between it and an upstream, with what each means and cures. The first
//! that fits a line counts, so narrower ones stand before wider ones. Holdfast writes the same phrases.

/// A cause as the log names it.
pub(super) struct Phrase {
    /// As in findings.
    pub(super) name: &'static str,
    /// All of them stand in the line.
    pub(super) words: &'static [&'static str],
    /// What the client got; empty where it noticed nothing.
    pub(super) status: &'static str,
    /// In a few words.
    pub(super) cause: &'static str,
    /// What happened.
    pub(super) meaning: &'static str,
    /// What to do.
    pub(super) cure: &'static str,
    /// What the cure costs.
    pub(super) side_effect: &'static str,
    /// Sysctls whose values belong to the evidence.
    pub(super) sysctls: &'static [&'static str],
    /// Whether the process's limit of descriptors does.
    pub(super) descriptors: bool,
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
};

pub(super) const PHRASES: [Phrase; 16] = [
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
        name: "log-upstream-connect-timeout",
        words: &["upstream timed out", "while connecting to upstream"],
        status: "504",
        cause: "the upstream did not take the connection in time",
        meaning: "SYNs go unanswered: the peer's accept queue overflows, a firewall drops them, or the host is gone. Repeats come after \
                  1, 3 and 7 seconds, so a short burst is enough.",
        cure: "# on the upstream: nstat -az TcpExtListenOverflows; a larger backlog and somaxconn there\nproxy_connect_timeout 2s;   # the next peer sooner",
        side_effect: "A short timeout gives up on a peer that is only slow.",
        sysctls: &["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"],
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
        name: "log-upstream-reset",
        words: &["Connection reset by peer", "upstream"],
        status: "502",
        cause: "the upstream broke the connection",
        meaning: "It closed with bytes unread, was ended, or the connection was idle for longer than it or a firewall allows.",
        cure: "upstream … { keepalive_timeout 20s; }   # below the upstream's and the firewall's idle time\nproxy_socket_keepalive on;",
        side_effect: "Somewhat more connections are opened.",
        ..NOTHING
    },
    Phrase {
        name: "log-no-live-upstreams",
        words: &["no live upstreams"],
        status: "502",
        cause: "all peers were taken for dead",
        meaning: "Each failed max_fails times within fail_timeout, often by a handful of slow requests, and then all requests fail at \
                  once although the peers may be well.",
        cure: "server A max_fails=5 fail_timeout=5s;\n# find the first failures in this log: they are the cause",
        side_effect: "A peer that is really dead gets more requests before it is avoided.",
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
        ..NOTHING
    },
    Phrase {
        name: "log-response-to-disk",
        words: &["is buffered to a temporary file"],
        cause: "a response or request went through a file",
        meaning: "It was larger than the buffers and the other side was slower; it costs disk and time, not correctness.",
        cure: "proxy_max_temp_file_size 0;   # let the upstream wait for the client instead",
        side_effect: "The upstream's connection is busy for as long as the client reads.",
        ..NOTHING
    },
];
