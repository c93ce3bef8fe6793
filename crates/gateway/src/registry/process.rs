//! The registry of a process: the pool, mailboxes, counters, logs. Made once, before the workers start,
//! and never freed: workers and leases borrow it for `'static`.

use crate::base::alarm::Alarm;
use crate::base::counters::Counters;
use crate::base::fault::Faults;
use crate::base::logs::bell::LogBell;
use crate::base::logs::error::ErrorLog;
use crate::base::memory::{Memory, MemoryUse};
use crate::base::share::Share;
use crate::registry::acme::Acme;
use crate::registry::bind::Identities;
use crate::registry::certificates::Certificates;
use crate::registry::checks::schedule::Checks;
use crate::registry::drain_pace::DrainPace;
use crate::registry::generation::{Generation, ListenerId};
use crate::registry::handover::HandoverOrder;
use crate::registry::inspect::Inspection;
use crate::registry::key_sets::KeySets;
use crate::registry::meter::Meter;
use crate::registry::names::cache::Names;
use crate::registry::names::keys::KeyBook;
use crate::registry::neighbours::Neighbours;
use crate::registry::ocsp::ClientStatuses;
use crate::registry::peer_states::TunnelPeer;
use crate::registry::pool::{PoolDriver, UpstreamPool};
use crate::registry::ports::Ports;
use crate::registry::recent_errors::RecentErrors;
use crate::registry::shared_zones::ZoneMemory;
use crate::registry::spans::Spans;
use crate::registry::status_list::StatusList;
use crate::registry::user_files::UserFiles;
use reactor::{Accepted, Listener, Mailbox, Offload, TaskId};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use upstream::balance::{PeerHealth, PeerMode};
use upstream::ports::PairUsage;
use upstream::shared::PeerId;

/// Messages to a worker from other workers and from the control plane.
pub enum Message {
    /// Wake this task.
    Wake(TaskId),
    /// Take over a connection that another worker accepted.
    Adopt(Accepted, ListenerId),
    /// Also listen on this address.
    Listen(ListenerId, Arc<Listener>),
    /// Stop listening on this address.
    Unlisten(ListenerId),
    /// Accept what waits at the listeners: another process cannot.
    AcceptNow,
    /// Use this configuration from now on.
    Reload(Arc<Generation>),
    /// The log lines that held-back connections wait for are written.
    LinesWritten,
    /// Hand tunnels over to another process, or take them over.
    Handover(Box<HandoverOrder>),
    /// Tunnels that were to be handed over stay in this process.
    TunnelsStay,
    /// Drain the tunnels of this peer.
    DrainPeer(DrainedPeer),
    /// Answer an operator's question about connections.
    Inspect(Box<Inspection>),
    /// Finish current work, accept nothing new, and end.
    Drain,
    /// End now.
    Stop,
}

/// A peer that an operator drains.
#[derive(Debug, Clone)]
pub struct DrainedPeer {
    pub(crate) peer: PeerId,
    pub(crate) health: Arc<PeerHealth>,
}

impl DrainedPeer {
    /// Whether a tunnel to this peer is drained: not if the operator has changed their mind.
    pub(crate) fn has(&self, peer: TunnelPeer) -> bool {
        peer.peer == self.peer && peer.ordinal == self.health.ordinal() && self.health.mode() != PeerMode::Up
    }
}

/// One worker as the others see it. On its own cache lines: each worker writes its counters with every request.
#[repr(align(128))]
pub(crate) struct WorkerLink {
    pub(crate) mailbox: Mailbox<Message>,
    /// Client connections, to find the least loaded worker.
    pub(crate) connections: AtomicUsize,
    /// The worker wants to know when a collection of log lines has ended.
    pub(crate) awaits_lines: AtomicBool,
    pub(crate) counters: Counters,
}

/// The number of connections that marks a worker that has ended: more than any can have, so that it gets no new ones.
const ENDED: usize = usize::MAX / 2;

impl WorkerLink {
    /// Counts a connection about to be handed over; `false` if the worker has ended.
    pub(crate) fn expects_one_more(&self) -> bool {
        let counted = self
            .connections
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| (count < ENDED).then(|| count + 1));
        counted.is_ok()
    }

    /// Whether it has drained and ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.connections.load(Ordering::Acquire) >= ENDED
    }

    /// Whether a draining worker may end: it has no connection. From then on it is handed none.
    pub(crate) fn end_without_connections(&self) -> bool {
        self.connections.compare_exchange(0, ENDED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Threads for jobs that may wait for a disk: a disk serves few requests at once, and more threads would only queue
/// there.
const OFFLOAD_THREADS_MAX: usize = 4;
/// Most jobs that wait for these threads. At a tenth of a millisecond each, the last one waits for 25 ms. Beyond that
/// the disk cannot keep up, and refusing some requests is better than delaying all.
const OFFLOAD_WAITING_MAX: usize = 1024;

/// Most passwords that wait to be hashed; there are as many threads as workers. At 5 ms each, the cost of
/// `htpasswd -B`, the last one waits for some seconds if there is one thread.
const HASHING_WAITING_MAX: usize = 512;

/// What the workers of a process share.
pub struct Registry {
    pub(crate) workers: Box<[WorkerLink]>,
    /// The objects that plans refer to.
    pub(crate) identities: Identities,
    pub(crate) certificates: Certificates,
    pub(crate) pool: UpstreamPool,
    pub(crate) error_log: ErrorLog,
    pub(crate) log_bell: Arc<LogBell>,
    /// For jobs that may wait for a disk.
    pub(crate) offload: Offload,
    /// For hashing passwords, which would delay file jobs.
    pub(crate) hashing: Offload,
    pub(crate) user_files: UserFiles,
    /// Keys of `auth_jwt`.
    pub(crate) key_sets: KeySets,
    /// How fast tunnels are drained.
    pub(crate) drain_pace: DrainPace,
    /// Another process takes over the tunnels of this one.
    pub(crate) tunnels_move: AtomicBool,
    /// Names that are looked up at run time.
    pub(crate) names: Names,
    /// Active health checks.
    pub(crate) checks: Checks,
    /// Certificates by ACME.
    pub(crate) acme: Acme,
    /// The OCSP status of clients' certificates.
    pub(crate) client_statuses: ClientStatuses,
    /// Finished spans.
    pub(crate) spans: Spans,
    /// Keys of the pool in use.
    pub(crate) keys: KeyBook,
    /// Groups, peers and listeners for the status page.
    pub(crate) status: StatusList,
    /// The last lines of the error logs.
    pub(crate) recent_errors: RecentErrors,
    /// The pace between two status pages.
    pub(crate) meter: Meter,
    /// Unix time at which this was made.
    pub(crate) started_at_s: u64,
    pub(crate) memory: Memory,
    pub(crate) shortages: Shortages,
    pub(crate) faults: Faults,
    /// The ledger of local ports.
    pub(crate) ports: Ports,
    /// The other processes; none if this is the only one.
    pub(crate) neighbours: OnceLock<Box<dyn Neighbours>>,
    /// Held while the figures of this process are taken and published for the others.
    pub(crate) publishing: Mutex<()>,
    /// The same for the totals.
    pub(crate) publishing_totals: Mutex<()>,
    /// The memory of zones that several processes share.
    pub(crate) zone_memory: Mutex<Vec<ZoneMemory>>,
    /// Serial number of the next client connection.
    serial: AtomicU64,
    /// The distance between serial numbers, so that those of several processes differ.
    serial_step: u64,
}

/// Shortages of the process, with the rate limit of their log lines.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    /// `accept4()` found no descriptor or no memory.
    pub(crate) accept: Alarm,
    /// `worker_connections` were in use, and none could be closed.
    pub(crate) room: Alarm,
    /// `worker_connections` were in use, and connections without a request were closed.
    pub(crate) displaced: Alarm,
    /// `worker_connections` were in use, and sessions of datagrams were ended.
    pub(crate) datagrams: Alarm,
    /// Connections that found the accept queue of one of our listeners full.
    queue_full: AtomicU64,
    /// `ListenOverflows` of the network namespace.
    listen_overflows: AtomicU64,
    /// `ListenDrops` of the network namespace.
    listen_drops: AtomicU64,
}

/// Connections dropped before they were accepted, from the kernel's counters: differences since the last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AcceptDrops {
    /// Connections that found the accept queue of one of our listeners full.
    pub queue_full: u64,
    /// `ListenOverflows` of `TcpExt`: the same for all listeners of the network namespace.
    pub listen_overflows: u64,
    /// `ListenDrops` of `TcpExt`: these, and connections dropped for other reasons.
    pub listen_drops: u64,
}

/// Connections that the process could not take since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overload {
    /// Calls of `accept4()` without a free descriptor or memory.
    pub accepts_failed: u64,
    /// Connections closed at once because `worker_connections` were in use.
    pub connections_refused: u64,
    /// Connections that the kernel dropped before they were accepted.
    pub accept_drops: AcceptDrops,
    /// Panics while serving a connection: bugs of ours.
    pub bugs: u64,
}

/// Sums over all workers, as `stub_status` prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Those that were served (the same number, unless a limit refused some).
    pub handled: u64,
    /// Requests.
    pub requests: u64,
    /// Open client connections.
    pub active: u64,
    /// Connections of which a part of a head has arrived.
    pub reading: u64,
    /// Exchanges and tunnels.
    pub writing: u64,
    /// Idle connections.
    pub waiting: u64,
    /// Requests under way.
    pub exchanges: u64,
    /// Open tunnels, with sessions of `stream`.
    pub tunnels: u64,
    /// Tunnels that wait to be drained, or are being drained.
    pub draining: u64,
}

impl Totals {
    /// How many numbers it has.
    pub const COUNT: usize = 10;

    /// All numbers in their order.
    pub fn numbers(&self) -> [u64; Self::COUNT] {
        let Self { accepted, handled, requests, active, reading, writing, waiting, exchanges, tunnels, draining } =
            *self;
        [accepted, handled, requests, active, reading, writing, waiting, exchanges, tunnels, draining]
    }

    /// From [`Self::numbers`].
    pub fn of_numbers(numbers: [u64; Self::COUNT]) -> Self {
        let [accepted, handled, requests, active, reading, writing, waiting, exchanges, tunnels, draining] = numbers;
        Self { accepted, handled, requests, active, reading, writing, waiting, exchanges, tunnels, draining }
    }

    /// Adds those of another process.
    pub fn add(&mut self, other: &Self) {
        let mut sums = self.numbers();
        sums.iter_mut().zip(other.numbers()).for_each(|(sum, more)| *sum += more);
        *self = Self::of_numbers(sums);
    }

    /// What stays of a process that has ended.
    #[must_use]
    pub fn counters(self) -> Self {
        Self { accepted: self.accepted, handled: self.handled, requests: self.requests, ..Self::default() }
    }
}

impl Registry {
    /// The registry for a number of workers. Its memory is never freed.
    pub fn leak(workers: u16, error_log: ErrorLog) -> io::Result<&'static Self> {
        Self::leak_part(workers, error_log, Share::default())
    }

    /// The same for one of several processes.
    pub fn leak_part(workers: u16, error_log: ErrorLog, share: Share) -> io::Result<&'static Self> {
        let this: Arc<OnceLock<&'static Self>> = Arc::default();
        let links: io::Result<Box<[WorkerLink]>> = (0..workers)
            .map(|_| {
                Ok(WorkerLink {
                    mailbox: Mailbox::new()?,
                    connections: AtomicUsize::new(0),
                    awaits_lines: AtomicBool::new(false),
                    counters: Counters::default(),
                })
            })
            .collect();
        let wake = || {
            let this = Arc::clone(&this);
            Box::new(move |token: u64| {
                if let Some(registry) = this.get() {
                    registry.wake(token);
                }
            })
        };
        let log_bell = Arc::<LogBell>::default();
        let registry: &'static Self = Box::leak(Box::new(Self {
            workers: links?,
            identities: Identities::default(),
            certificates: Certificates::default(),
            pool: UpstreamPool::new(workers, Box::new(PoolDriver { wake: wake() })),
            error_log: error_log.for_workers(workers.into(), Arc::clone(&log_bell)),
            log_bell,
            offload: Offload::new(OFFLOAD_THREADS_MAX, OFFLOAD_WAITING_MAX),
            hashing: Offload::new(usize::from(workers), HASHING_WAITING_MAX),
            user_files: UserFiles::default(),
            key_sets: KeySets::default(),
            drain_pace: DrainPace::default(),
            tunnels_move: AtomicBool::new(false),
            names: Names::new(wake()),
            checks: Checks::default(),
            acme: Acme::default(),
            client_statuses: ClientStatuses::new(wake()),
            spans: Spans::default(),
            keys: KeyBook::default(),
            status: StatusList::new(usize::from(workers)),
            recent_errors: RecentErrors::default(),
            meter: Meter::new(reactor::monotonic_millis()),
            started_at_s: reactor::wall_clock().as_secs(),
            memory: Memory::default(),
            shortages: Shortages::default(),
            faults: Faults::default(),
            ports: Ports::new(),
            neighbours: OnceLock::new(),
            publishing: Mutex::default(),
            publishing_totals: Mutex::default(),
            zone_memory: Mutex::default(),
            serial: AtomicU64::new(1 + u64::from(share.index)),
            serial_step: share.of.max(1).into(),
        }));
        if share.of > 1 {
            registry.recent_errors.number_by_time();
        }
        Ok(this.get_or_init(|| registry))
    }

    pub(crate) fn next_serial(&self) -> u64 {
        self.serial.fetch_add(self.serial_step, Ordering::Relaxed)
    }

    /// Sends a message to one worker.
    pub fn send(&self, worker: usize, message: Message) {
        if let Some(link) = self.workers.get(worker) {
            link.mailbox.send(message);
        }
    }

    /// The error log.
    pub fn error_log(&self) -> &ErrorLog {
        &self.error_log
    }

    /// The bell for the thread that writes logs.
    pub fn log_bell(&self) -> &LogBell {
        &self.log_bell
    }

    /// Reports the end of a collection of log lines to the workers that wait for it.
    pub fn lines_written(&self) {
        self.log_bell.finish();
        for link in self.workers.iter().filter(|link| link.awaits_lines.swap(false, Ordering::SeqCst)) {
            link.mailbox.send(Message::LinesWritten);
        }
    }

    /// Names for the control plane to look up.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Health checks for the control plane to make.
    pub fn checks(&self) -> &Checks {
        &self.checks
    }

    /// Certificates for the control plane to obtain.
    pub fn acme(&self) -> &Acme {
        &self.acme
    }

    /// The last lines of the error logs, for the thread that writes them.
    pub fn recent_errors(&self) -> &RecentErrors {
        &self.recent_errors
    }

    /// Spans for the control plane to send.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// OCSP questions for the control plane to ask.
    pub fn client_statuses(&self) -> &ClientStatuses {
        &self.client_statuses
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Adds differences of the kernel's counters.
    pub fn count_accept_drops(&self, drops: AcceptDrops) {
        let AcceptDrops { queue_full, listen_overflows, listen_drops } = drops;
        self.shortages.queue_full.fetch_add(queue_full, Ordering::Relaxed);
        self.shortages.listen_overflows.fetch_add(listen_overflows, Ordering::Relaxed);
        self.shortages.listen_drops.fetch_add(listen_drops, Ordering::Relaxed);
    }

    /// Connections that could not be taken since the start.
    pub fn overload(&self) -> Overload {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Overload {
            accepts_failed: self.shortages.accept.total(),
            connections_refused: self.shortages.room.total(),
            accept_drops: AcceptDrops {
                queue_full: read(&self.shortages.queue_full),
                listen_overflows: read(&self.shortages.listen_overflows),
                listen_drops: read(&self.shortages.listen_drops),
            },
            bugs: self.workers.iter().map(|link| read(&link.counters.bugs)).sum(),
        }
    }

    /// The memory of connections under `memory_budget`.
    pub fn memory(&self) -> MemoryUse {
        self.memory.in_use(self.workers.iter().map(|link| &link.counters.held))
    }

    /// Connections closed for a reason since the start.
    pub fn closed(&self, reason: crate::base::close::CloseReason) -> u64 {
        self.workers.iter().map(|link| link.counters.closed[reason].load(Ordering::Relaxed)).sum()
    }

    /// Makes the next connection that passes this place panic. For tests; releases do not have it.
    #[cfg(debug_assertions)]
    pub fn panic_once_at(&self, fault: crate::base::fault::Fault) {
        self.faults.arm(fault);
    }

    /// Wakes the task that [`wake_token`] packed.
    pub(crate) fn wake(&self, token: u64) {
        let place = token as u32;
        let worker = (place >> INDEX_BITS) as usize;
        let task = TaskId { index: place & ((1 << INDEX_BITS) - 1), generation: (token >> 32) as u32 };
        self.send(worker, Message::Wake(task));
    }

    /// The state of local ports, for each source address and peer with recently opened connections.
    pub fn ports(&self) -> Vec<PairUsage> {
        self.ports.usages()
    }

    /// The sums over all workers. They are read one after the other, so under load they need not match exactly.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let (mut streams, mut busy) = (0, 0);
        for link in &self.workers {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            totals.accepted += read(&link.counters.accepted);
            totals.handled += read(&link.counters.handled);
            totals.requests += read(&link.counters.requests);
            // A worker that has ended has the mark in place of a number.
            let connections = link.connections.load(Ordering::Relaxed);
            totals.active += if connections < ENDED { connections as u64 } else { 0 };
            totals.reading += read(&link.counters.reading);
            totals.exchanges += read(&link.counters.exchanges);
            totals.tunnels += read(&link.counters.sessions) + read(&link.counters.tunnels);
            totals.draining += read(&link.counters.draining);
            streams += read(&link.counters.streams);
            busy += read(&link.counters.http2_busy);
        }
        totals.writing = totals.exchanges + totals.tunnels;
        // Several streams share one connection.
        let at_work = (totals.reading + totals.writing + busy).saturating_sub(streams);
        totals.waiting = totals.active.saturating_sub(at_work);
        totals
    }
}

/// Bits of a task's index in a packed wake token: 16 million tasks per worker. The 8 bits above are the worker's number
/// (the pool has at most 256), and the upper half is the generation.
const INDEX_BITS: u32 = 24;

/// Packs worker, task index and generation for the pool's waiting line.
pub(crate) fn wake_token(worker: u16, task: TaskId) -> u64 {
    let place = u32::from(worker & 0xff) << INDEX_BITS | task.index & ((1 << INDEX_BITS) - 1);
    u64::from(task.generation) << 32 | u64::from(place)
}
