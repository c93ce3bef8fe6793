//! Gets a request a stream: on a connection with room, on an idle one of the pool, or on one opened for it. The
//! worker's book decides; a waiting request opens connections that the book wants, and goes on waiting for a stream.

use crate::base::cells::GroupCells;
use crate::base::logs::error::Level;
use crate::connector::h2::carrier::CarrierTimeouts;
use crate::connector::h2::hub::{AskedStream, Given, Hub, StreamKey};
use crate::connector::h2::opening::ForStreams;
use crate::connector::h2::session::STREAMS_MAX;
use crate::connector::h2::stream::LeasedStream;
use crate::connector::lease::{LINE_ROUNDS_MAX, Wanted, wait_in_line};
use crate::connector::opening::{OpenedFor, open_for_pool};
use crate::connector::pending::Pending;
use crate::connector::{Caller, WaitTimes};
use crate::thread::WorkerThread;
use reactor::{TaskId, Woken};
use std::rc::Rc;
use std::time::Duration;
use upstream::retry::Failure;
use upstream::shared::{Grant, GroupLimits, Open};
use upstream::streams::{ConnectionId, Limits, StreamLease};

/// Leases that a request takes in a row although their connection was lost in the same turn.
const STALE_LEASES_MAX: usize = 8;

/// The configuration of shared connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedPlan<'a> {
    pub(crate) limits: &'a GroupLimits,
    /// Counts the requests that wait for a stream.
    pub(crate) cells: &'a GroupCells,
    pub(crate) send_timeout: Duration,
    pub(crate) ping: Option<(Duration, Duration)>,
}

/// A place in the line of a worker. Dropping it leaves the line; a stream already given goes to the next request.
struct PlaceInLine<'a> {
    hub: &'a Rc<Hub>,
    thread: &'a WorkerThread,
    key: StreamKey,
    task: TaskId,
}

impl Drop for PlaceInLine<'_> {
    fn drop(&mut self) {
        self.hub.leave(self.thread, self.key, self.task);
    }
}

/// One of the requests that the metrics show as waiting for a stream. Those in the pool's line are counted there.
struct CountedWait<'a> {
    cells: &'a GroupCells,
    worker: u16,
}

impl<'a> CountedWait<'a> {
    fn begin(cells: &'a GroupCells, worker: u16) -> Self {
        cells.wait_for_streams(worker, 1);
        Self { cells, worker }
    }
}

impl Drop for CountedWait<'_> {
    fn drop(&mut self) {
        self.cells.wait_for_streams(self.worker, -1);
    }
}

/// A connection that the book wants opened. If dropped, another request opens one, if the book still wants it.
struct Wish<'a> {
    hub: &'a Rc<Hub>,
    thread: &'a WorkerThread,
    key: StreamKey,
    id: Option<ConnectionId>,
}

impl Wish<'_> {
    /// The connection is being opened; returns what must follow once it is open.
    fn fulfil(mut self, timeouts: CarrierTimeouts) -> Option<ForStreams> {
        let id = self.id.take()?;
        Some(ForStreams { hub: Rc::clone(self.hub), key: self.key, id, timeouts })
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.hub.give_up(self.thread, self.key, id);
        }
    }
}

fn book_limits(plan: &SharedPlan<'_>) -> Limits {
    Limits {
        // The pool's limits count the connections of all workers, so the book has no limit here.
        connections_max: u32::MAX,
        streams_max: STREAMS_MAX,
        line_max: u32::MAX,
        requests_max: plan.limits.requests_max,
        age_ms_max: plan.limits.age_max_ms,
        // The pool limits idle connections.
        idle_ms_max: u64::MAX,
        idle_max: 0,
    }
}

/// Leases a stream to the peer.
pub(crate) async fn lease_stream<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    plan: SharedPlan<'_>,
    times: &mut WaitTimes,
) -> Result<Box<LeasedStream>, Failure> {
    let (thread, hub) = (caller.thread(), caller.hub());
    let key = if wanted.is_own() { hub.own_key(wanted.asked.key) } else { StreamKey { key: wanted.asked.key, own: 0 } };
    let began = thread.reactor.now_us();
    for _ in 0..STALE_LEASES_MAX {
        let lease = match hub.ask(thread, key, caller.task(), book_limits(&plan)) {
            AskedStream::Stream(lease) => lease,
            AskedStream::Waits => wait_for_stream(caller, wanted, &plan, key, times).await?,
            AskedStream::LineFull => return Err(Failure::NotAdmitted),
        };
        let waited_us = thread.reactor.now_us().since(began);
        match hub.session(lease.connection()).filter(|session| session.can_open()) {
            Some(session) => {
                let stream = LeasedStream::new(hub, session, lease, caller.task());
                if !stream.is_reused() {
                    times.connect_us = Some(waited_us.saturating_sub(times.queue_ms.unwrap_or(0) * 1000));
                }
                return Ok(stream);
            }
            None => hub.release(thread, key, lease),
        }
    }
    caller.log_line(
        Level::Error,
        "connections to the peer went away as fast as they were opened while connecting to upstream",
    );
    Err(Failure::ConnectFailed)
}

/// Waits in line, and opens connections that the book wants.
async fn wait_for_stream<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    plan: &SharedPlan<'_>,
    key: StreamKey,
    times: &mut WaitTimes,
) -> Result<StreamLease, Failure> {
    let (thread, hub) = (caller.thread(), caller.hub());
    let place = PlaceInLine { hub, thread, key, task: caller.task() };
    let began = thread.reactor.now();
    loop {
        match hub.collect(place.task) {
            Some(Given::Stream(lease)) => return Ok(lease),
            Some(Given::Failed(failed)) => {
                if !failed.message.is_empty() {
                    caller.log_line(Level::Error, &failed.message);
                }
                return Err(failed.failure);
            }
            None => {}
        }
        if let Some(id) = hub.take_opening(key) {
            let wish = Wish { hub, thread, key, id: Some(id) };
            open(caller, wanted, plan, wish, times).await?;
            continue;
        }
        let waited = Duration::from_millis(thread.reactor.now().since(began));
        let Some(left) =
            (wanted.connect_timeout + wanted.queue_timeout).checked_sub(waited).filter(|left| !left.is_zero())
        else {
            let words =
                "upstream timed out (110: Connection timed out), no stream became free while connecting to upstream";
            caller.log_line(Level::Error, words);
            return Err(Failure::ConnectTimeout);
        };
        let counted = CountedWait::begin(plan.cells, thread.index);
        let woken = caller.wait_for(None, left).await;
        drop(counted);
        if woken == Woken::PeerGone {
            return Err(Failure::ClientGone);
        }
    }
}

/// Takes an idle connection for the line, or starts to open one as soon as the pool's limits permit it.
async fn open<C: Caller>(
    caller: &C,
    wanted: Wanted<'_>,
    plan: &SharedPlan<'_>,
    wish: Wish<'_>,
    times: &mut WaitTimes,
) -> Result<(), Failure> {
    let thread = caller.thread();
    let timeouts = CarrierTimeouts { ping: plan.ping, send_timeout: plan.send_timeout };
    let may_reuse = wanted.reused_will_do && !wanted.is_own();
    if may_reuse && let Some(up) = wanted.lease_idle(caller) {
        if let Some(streams) = wish.fulfil(timeouts) {
            streams.ready(up, thread);
        }
        return Ok(());
    }
    for _ in 0..LINE_ROUNDS_MAX {
        let permit = match thread.registry.pool.open(thread.id(), wanted.asked.key) {
            Open::Connect { permit, evicted } => {
                drop(evicted);
                permit
            }
            Open::Full { limit, evicted } => {
                drop(evicted);
                let (hub, task) = (caller.hub(), caller.task());
                match wait_in_line(caller, wanted, limit, times, || hub.is_served(task)).await? {
                    None => return Ok(()),
                    Some(Grant::Connect(permit)) => permit,
                    Some(Grant::Reuse(checkout)) => match wanted.take_over(caller, checkout) {
                        Some(up) => {
                            if let Some(streams) = wish.fulfil(timeouts) {
                                streams.ready(up, thread);
                            }
                            return Ok(());
                        }
                        None => continue,
                    },
                }
            }
        };
        let handshake = wanted.handshake(caller).await?;
        let (stream, port) = wanted.open_socket(caller)?;
        let pending = Pending::new(stream, port, permit, handshake).owned(wanted.is_own());
        if let Some(streams) = wish.fulfil(timeouts) {
            let deadline = thread.reactor.now().after(wanted.connect_timeout);
            open_for_pool(thread, pending, OpenedFor::Streams(Box::new(streams)), deadline);
        }
        return Ok(());
    }
    caller.log_line(Level::Error, "connections that became free were closed by the peer while connecting to upstream");
    Err(Failure::ConnectFailed)
}
