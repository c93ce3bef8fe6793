//! The causes that can be named, in the order in which they are looked for: what is exhausted on this machine, then what a peer does, then
//! what only shows as slowness. An earlier cause explains the later ones in its row.

use doctor::log::{Explanation, explanation};

/// What began an incident.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the table below describes them
pub enum Cause {
    ProcessKilled,
    WorkerCrashed,
    DiskFull,
    DescriptorsExhausted,
    WorkerConnectionsExhausted,
    MemoryBudget,
    PortsExhausted,
    GatewaySilent,
    AcceptQueue,
    NameNotResolved,
    CertificateExpired,
    UpstreamHandshake,
    PeerRefuses,
    PeerUnreachable,
    PeerUnanswered,
    PacketLoss,
    PeerBreaks,
    PeerSilent,
    PeerInvalid,
    CpuTaken,
    CpuExhausted,
    PeerSlow,
    PoolExhausted,
    RequestsLimited,
    ConnectionsLimited,
    TimeWaitFull,
    NoLivePeer,
    ClientsLeave,
}

/// What is known of a cause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// The name in reports and in JSON.
    pub(super) name: &'static str,
    /// The causes of log lines that say it.
    pub(super) lines: &'static [&'static str],
    /// What it leads to.
    pub(super) explains: &'static [Cause],
    /// Its page of the handbook, below `symptoms/`; empty without one.
    pub(super) page: &'static str,
    /// The explanation, if the doctor has none for a line of `lines`.
    own: Option<Explanation>,
}

const fn row(
    name: &'static str,
    lines: &'static [&'static str],
    page: &'static str,
    explains: &'static [Cause],
) -> Row {
    Row { name, lines, explains, page, own: None }
}

const fn own(
    row: Row,
    cause: &'static str,
    meaning: &'static str,
    cure: &'static str,
    side_effect: &'static str,
) -> Row {
    Row { own: Some(Explanation { cause, meaning, cure, side_effect }), ..row }
}

/// What any shortage on this machine leads to.
const BY_SHORTAGE: &[Cause] = {
    #[allow(clippy::enum_glob_use)] // tables of their names
    use Cause::*;
    &[
        WorkerCrashed,
        GatewaySilent,
        AcceptQueue,
        PeerSlow,
        PoolExhausted,
        NoLivePeer,
        ClientsLeave,
        PeerSilent,
        PeerUnanswered,
        CpuExhausted,
        TimeWaitFull,
        PeerBreaks,
    ]
};
/// What a peer that fails leads to.
const BY_PEER: &[Cause] = {
    #[allow(clippy::enum_glob_use)] // tables of their names
    use Cause::*;
    &[
        AcceptQueue,
        PeerRefuses,
        PeerUnreachable,
        PeerUnanswered,
        PeerBreaks,
        PeerSilent,
        PeerInvalid,
        PeerSlow,
        PoolExhausted,
        NoLivePeer,
        ClientsLeave,
        RequestsLimited,
        ConnectionsLimited,
        PacketLoss,
        UpstreamHandshake,
    ]
};

impl Cause {
    /// All, in their order.
    pub const ALL: [Self; 28] = {
        #[allow(clippy::enum_glob_use)] // a table of their names
        use Cause::*;
        [
            ProcessKilled,
            WorkerCrashed,
            DiskFull,
            DescriptorsExhausted,
            WorkerConnectionsExhausted,
            MemoryBudget,
            PortsExhausted,
            GatewaySilent,
            AcceptQueue,
            NameNotResolved,
            CertificateExpired,
            UpstreamHandshake,
            PeerRefuses,
            PeerUnreachable,
            PeerUnanswered,
            PacketLoss,
            PeerBreaks,
            PeerSilent,
            PeerInvalid,
            CpuTaken,
            CpuExhausted,
            PeerSlow,
            PoolExhausted,
            RequestsLimited,
            ConnectionsLimited,
            TimeWaitFull,
            NoLivePeer,
            ClientsLeave,
        ]
    };

    /// The name in reports and in JSON.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether this cause leads to the other.
    pub(super) fn explains(self, other: Self) -> bool {
        self.row().explains.contains(&other)
    }

    /// Meaning and advice.
    pub(super) fn explanation(self) -> Explanation {
        let row = self.row();
        let of_line = || row.lines.iter().find_map(|name| explanation(name));
        row.own.or_else(of_line).unwrap_or(Explanation { cause: row.name, meaning: "", cure: "", side_effect: "" })
    }

    /// The table.
    #[rustfmt::skip] // a table: a row is a line or two
    pub(super) fn row(self) -> Row {
        match self {
            Self::ProcessKilled => own(row("process-killed", &["log-worker-killed"], "worker-killed", BY_SHORTAGE),
                "the kernel killed a process for want of memory",
                "The machine or a control group had no memory left, and the kernel ended the process that held most. All its connections ended at once.",
                "dmesg | grep -i 'out of memory'   # which process, and what it held\nmemory_budget 512m;   # Holdfast sheds work before the kernel kills it\nproxy_buffers 8 4k;   # less for each response",
                "With a budget some requests get 503 instead."),
            Self::WorkerCrashed => row("worker-crashed", &["log-worker-crashed"], "worker-crashed", BY_SHORTAGE),
            Self::GatewaySilent => own(row("gateway-silent", &[], "not-serving", BY_SHORTAGE),
                "the gateway did not answer the recorder",
                "Its process ended, was stopped, or does not come to answer its control socket or status page.",
                "holdfast ctl status\nsystemctl status holdfast   # and its error log at that time", "None."),
            Self::DiskFull => row("disk-full", &["log-disk-full"], "disk-full", &[]),
            Self::DescriptorsExhausted => row("descriptors-exhausted", &["log-descriptors-exhausted"], "descriptors-exhausted", BY_SHORTAGE),
            Self::WorkerConnectionsExhausted => row("worker-connections-exhausted", &["log-worker-connections-exhausted"], "worker-connections-exhausted", BY_SHORTAGE),
            Self::MemoryBudget => own(row("memory-budget", &[], "memory-budget", BY_SHORTAGE),
                "memory_budget was used up",
                "The buffers of all connections reached memory_budget: idle connections were closed, then requests were refused with 503.",
                "# the error log names the connections that hold most\nproxy_buffers 8 4k;   # less for each response\nmemory_budget 512m;   # more, if the machine has it",
                "With smaller buffers a slow client occupies its upstream connection for longer."),
            Self::PortsExhausted => row("ports-exhausted", &["log-ports-exhausted"], "ports-exhausted", BY_SHORTAGE),
            Self::AcceptQueue => own(row("accept-queue", &["log-upstream-queue-full"], "accept-queue", BY_PEER),
                "an accept queue was full",
                "Connections arrived faster than the program behind the listener accepted them. The kernel dropped them; clients try again after 1, 3 and 7 seconds.",
                "listen 80 backlog=4096;   # or the backlog of the program that listens there\nsysctl -w net.core.somaxconn=4096\n# if the queue is full all the time, the program is too slow: look at its CPU",
                "In a burst clients wait in the queue instead of being dropped."),
            Self::NameNotResolved => row("name-not-resolved", &["log-name-not-resolved", "log-no-resolver"], "name-not-resolved", BY_PEER),
            Self::CertificateExpired => own(row("certificate-expired", &[], "", &[]),
                "the certificate that clients are shown had ended",
                "Clients refuse a certificate behind its last day, so their handshakes fail.",
                "# a new certificate into the files of ssl_certificate: Holdfast reads them by itself\nholdfast doctor -c nginx.conf", "None."),
            Self::UpstreamHandshake => row("upstream-handshake", &["log-upstream-certificate-refused", "log-upstream-handshake-failed"], "upstream-handshake-failed", BY_PEER),
            Self::PeerRefuses => row("peer-refuses", &["log-upstream-refused", "log-upstream-socket-missing", "log-upstream-forbidden"], "upstream-refused", BY_PEER),
            Self::PeerUnreachable => row("peer-unreachable", &["log-upstream-unreachable", "log-network-unreachable", "log-source-address-not-here"], "upstream-unreachable", BY_PEER),
            Self::PeerUnanswered => row("peer-unanswered", &["log-upstream-connect-timeout"], "upstream-connect-timeout", BY_PEER),
            Self::PacketLoss => own(row("packet-loss", &[], "", BY_PEER),
                "packets were lost",
                "Bytes had to be sent again since their acknowledgement did not come: the network between this host and the peer drops packets, or the peer's host does not answer.",
                "ip -s link; ethtool -S DEVICE   # drops and errors of the own device\nmtr -T -P PORT ADDRESS   # where on the way packets are lost", "None."),
            Self::PeerBreaks => row("peer-breaks", &["log-upstream-reset", "log-upstream-closed-early", "log-upstream-truncated", "log-upstream-broke-while-sending"], "upstream-closed-early", BY_PEER),
            Self::PeerSilent => row("peer-silent", &["log-upstream-read-timeout", "log-upstream-read-timeout-inside"], "upstream-read-timeout", BY_PEER),
            Self::PeerInvalid => row("peer-invalid", &["log-upstream-no-http", "log-upstream-head-invalid", "log-upstream-chunks-broken", "log-upstream-head-too-large"], "upstream-no-http", BY_PEER),
            Self::CpuTaken => own(row("cpu-taken", &[], "", BY_SHORTAGE),
                "the CPU was taken away from this machine",
                "A hypervisor gave the processors to other machines (steal), or the quota of the control group was used up (throttled).",
                "cat /sys/fs/cgroup/system.slice/holdfast.service/cpu.stat   # nr_throttled\n# raise CPUQuota= of the unit or the limit of the container; on a virtual machine: another size or host", "None."),
            Self::CpuExhausted => own(row("cpu-exhausted", &[], "", BY_SHORTAGE),
                "all processors were busy",
                "Requests waited for a processor.",
                "top -H   # which process and thread\nworker_processes auto;\n# without a pool each request costs a connection: keepalive in the upstream", "None."),
            Self::PeerSlow => own(row("peer-slow", &[], "upstream-read-timeout", BY_PEER),
                "a peer answered slowly",
                "Its responses took longer than before. It is overloaded, or waits itself: for a thread, a lock, a database.",
                "# the peer's own log and load at that time\nholdfast ctl peers drain GROUP PEER   # meanwhile, if others can carry its load\nupstream … { least_time header; … }", "The other peers get its requests."),
            Self::PoolExhausted => own(row("pool-exhausted", &["log-pool-exhausted"], "requests-wait", &[Cause::ClientsLeave, Cause::NoLivePeer]),
                "all of max_connections were in use",
                "Requests waited for a connection or were refused, although the peers answered as fast as before: more requests came than the limit carries.",
                "upstream … { max_connections 400 queue=100 timeout=2s; }   # connections = requests a second × seconds a request",
                "The peers get more requests at a time."),
            Self::RequestsLimited => row("requests-limited", &["log-request-limited"], "request-limited", &[]),
            Self::ConnectionsLimited => row("connections-limited", &["log-connections-limited"], "connections-limited", &[]),
            Self::TimeWaitFull => row("time-wait-full", &["log-tw-buckets-full"], "tw-buckets-full", &[]),
            Self::NoLivePeer => row("no-live-peer", &["log-no-live-upstreams"], "no-live-upstreams", &[Cause::ClientsLeave]),
            Self::ClientsLeave => row("clients-leave", &["log-client-gone"], "client-gone", &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_advice_and_its_page() {
        let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/symptoms/");
        for cause in Cause::ALL {
            let Explanation { meaning, cure, side_effect, .. } = cause.explanation();
            assert!([meaning, cure, side_effect].iter().all(|text| !text.is_empty()), "{}", cause.name());
            let page = cause.row().page;
            assert!(page.is_empty() || std::path::Path::new(&format!("{pages}{page}.md")).exists(), "{}", cause.name());
            let known = |name: &&'static str| {
                doctor::log::causes().any(|known| known == *name) || *name == crate::record::POOL_EXHAUSTED
            };
            assert!(cause.row().lines.iter().all(known), "{}", cause.name());
        }
        assert!(Cause::ALL.is_sorted());
    }
}
