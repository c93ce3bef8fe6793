//! The job that drives a shared connection: it reads and writes for all streams, and watches the timeouts. When the
//! book retires the connection, the carrier checks it in to the pool or closes it.

use crate::base::counters::bump;
use crate::base::logs::error::Level;
use crate::base::memory::HeldFor;
use crate::connector::h2::hub::Hub;
use crate::connector::h2::session::UpstreamSession;
use crate::connector::leased::Leased;
use crate::multiplex::failure::ConnectionEnd;
use crate::thread::WorkerThread;
use crate::thread::job::Job;
use http2::Head;
use reactor::{Read, TaskId};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use upstream::DiscardReason;
use upstream::streams::Retired;

/// Bytes of one read: two frames of the usual greatest size. The engine answers each read with less than twice as much.
const READ_BYTES: usize = 32 * 1024;

/// Reads before other tasks get their turn: 256 KB.
const READS_MAX: usize = 8;

thread_local! {
    /// Buffer into which heads are decoded, one after the other.
    static HEAD: Cell<Head> = Cell::default();
}

/// How long the carrier waits for a peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct CarrierTimeouts {
    /// `http2_ping`: the silence on a connection with streams after which the carrier sends a PING, and how long the
    /// answer may take.
    pub(super) ping: Option<(Duration, Duration)>,
    /// `proxy_send_timeout`: how long its socket may accept no bytes.
    pub(super) send_timeout: Duration,
}

/// A shared connection on its worker.
pub(super) struct Carrier {
    /// `None`: an idle connection of the pool whose frames are only read and answered; no request can use it.
    hub: Option<Rc<Hub>>,
    session: Rc<UpstreamSession>,
    up: Option<Box<Leased>>,
    timeouts: CarrierTimeouts,
    /// Streams already counted in the pool.
    counted: u32,
    /// A write failed; what the peer sent before is still read.
    write_failure: Option<ConnectionEnd>,
}

/// Why the carrier is done.
enum CarrierEnd {
    Retired(Retired),
    Lost(ConnectionEnd),
    /// The connection has no streams, and everything received was read.
    Idle,
}

impl Carrier {
    /// Starts to drive a connection. From now on its socket wakes the session's task.
    pub(super) fn spawn(
        hub: Option<Rc<Hub>>,
        session: Rc<UpstreamSession>,
        up: Box<Leased>,
        timeouts: CarrierTimeouts,
        thread: &WorkerThread,
    ) {
        up.stream().attach(session.task);
        bump(&thread.counters().upstream_http2_connections, 1);
        thread.spawn(Box::new(Self { hub, session, up: Some(up), timeouts, counted: 1, write_failure: None }));
    }

    /// Reads and writes until nothing can be done. Returns why the carrier is done, if it is.
    fn drive(&mut self, thread: &WorkerThread) -> Option<CarrierEnd> {
        let up = self.up.as_mut()?;
        while self.counted < self.session.begun() {
            self.counted += 1;
            up.count_exchange();
        }
        for _ in 0..READS_MAX {
            self.write();
            if !self.session.has_room() {
                return self.wait(thread);
            }
            let mut head = HEAD.take();
            let up = self.up.as_ref()?;
            let read = up.stream().read_with(READ_BYTES, |bytes| self.session.take(bytes, &mut head));
            HEAD.set(head);
            match read {
                Ok(Read::Data(Ok(notices))) => {
                    if let Some(end) = self.hub.as_ref().and_then(|hub| hub.note(thread, &self.session, notices)) {
                        return Some(CarrierEnd::Lost(end));
                    }
                }
                Ok(Read::Data(Err(end))) => {
                    // The engine has queued a GOAWAY already.
                    self.write();
                    return Some(CarrierEnd::Lost(end));
                }
                Ok(Read::NotReady) => {
                    self.write();
                    return self.wait(thread);
                }
                Ok(Read::Closed) => return Some(CarrierEnd::Lost(ConnectionEnd::Closed)),
                Err(error) => return Some(CarrierEnd::Lost(ConnectionEnd::of_error(&error, "recv()"))),
            }
        }
        // More bytes may be there, and no event will report them.
        thread.reactor.wake(self.session.task);
        None
    }

    fn write(&mut self) {
        let Some(up) = self.up.as_ref().filter(|_| self.write_failure.is_none()) else { return };
        match self.session.write(up.stream()) {
            Ok(true) => self.session.thread.reactor.wake(self.session.task),
            Ok(false) => {}
            Err(error) => {
                self.write_failure = Some(ConnectionEnd::of_error(&error, "send()"));
                self.session.drop_unsent();
            }
        }
    }

    /// Sets the deadline for the next wait; returns the end if it has passed already.
    fn wait(&mut self, thread: &WorkerThread) -> Option<CarrierEnd> {
        if let Some(end) = self.write_failure.take() {
            return Some(CarrierEnd::Lost(end));
        }
        if let Some(hub) = self.hub.as_ref().filter(|_| self.session.was_pooled() && !self.session.is_opened()) {
            // Everything that arrived while it was idle has been read: the connection is usable.
            if self.session.is_going() {
                return Some(CarrierEnd::Lost(ConnectionEnd::Closed));
            }
            hub.opened(thread, &self.session);
        }
        let now = thread.reactor.now();
        let times = self.session.times();
        if !times.has_streams && !self.session.has_unsent() {
            if self.hub.is_none() {
                return Some(CarrierEnd::Idle);
            }
            if let Some(reason) = self.session.retired() {
                return Some(CarrierEnd::Retired(reason));
            }
        }
        if times.settings_due.is_some_and(|due| due <= now)
            && let Some(reason) = self.session.tick()
        {
            self.write();
            return Some(CarrierEnd::Lost(ConnectionEnd::Fault(reason)));
        }
        let stalled = times.stalled_since.map(|since| since.after(self.timeouts.send_timeout));
        if stalled.is_some_and(|due| due <= now) {
            return Some(CarrierEnd::Lost(ConnectionEnd::Stalled));
        }
        if times.ping_due.is_some_and(|due| due <= now) {
            return Some(CarrierEnd::Lost(ConnectionEnd::Silent));
        }
        let mut ping = times.ping_due;
        if let (Some((interval, timeout)), true, None) = (self.timeouts.ping, times.has_streams, times.ping_due) {
            let at = times.heard_at.after(interval);
            ping = Some(at);
            if at <= now {
                ping = Some(now.after(timeout));
                self.session.ping(now.after(timeout));
                self.write();
            }
        }
        let deadline = [times.settings_due, stalled, ping].into_iter().flatten().min();
        thread.reactor.set_deadline(self.session.task, deadline);
        None
    }

    fn finish(&mut self, end: CarrierEnd, thread: &WorkerThread) {
        let Some(mut up) = self.up.take() else { return };
        let session = &self.session;
        match end {
            CarrierEnd::Idle | CarrierEnd::Retired(Retired::IdleFull) if up.is_own() => {
                up.discard(DiscardReason::OwnSource);
            }
            CarrierEnd::Idle | CarrierEnd::Retired(Retired::IdleFull) => {
                if session.is_going() {
                    up.discard(DiscardReason::GoneAway);
                } else {
                    let engine = session.sleep();
                    up.check_in_shared(engine, thread);
                }
            }
            CarrierEnd::Retired(reason) => {
                session.send_goaway(up.stream());
                up.discard(match reason {
                    Retired::GoneAway => DiscardReason::GoneAway,
                    Retired::RequestLimit => DiscardReason::RequestLimit,
                    Retired::AgeLimit => DiscardReason::AgeLimit,
                    Retired::IdleLimit | Retired::IdleFull => DiscardReason::IdleLimit,
                });
            }
            CarrierEnd::Lost(lost) => {
                let is_going = session.is_going() && matches!(lost, ConnectionEnd::Closed);
                if let (ConnectionEnd::Fault(reason), false) = (&lost, session.times().has_streams) {
                    // No request reports it.
                    let peer = up.stream().peer_address().ok().flatten();
                    let peer = peer.map_or_else(|| "unix:".to_owned(), |peer| peer.to_string());
                    let message = format!("upstream broke off HTTP/2: {reason} while idle, upstream: \"{peer}\"");
                    thread.registry.error_log.log(Level::Info, &message);
                }
                session.fail(&lost);
                if session.was_pooled() && session.begun() == 0 {
                    up.note_end(thread);
                }
                up.take_engine();
                up.discard(if is_going { DiscardReason::GoneAway } else { lost.discard_reason() });
                if let Some(hub) = &self.hub {
                    hub.lost(thread, session, &lost);
                }
            }
        }
        if let Some(hub) = &self.hub {
            hub.parted(session);
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // After a panic, or at the end of the worker: requests must not wait for a lost connection.
        if self.up.take().is_some() {
            self.session.fail(&ConnectionEnd::Closed);
            if let Some(hub) = &self.hub {
                hub.lost(&self.session.thread, &self.session, &ConnectionEnd::Closed);
            }
        }
        bump(&self.session.thread.counters().upstream_http2_connections, -1);
    }
}

impl Job for Carrier {
    fn task(&self) -> TaskId {
        self.session.task
    }

    fn step(mut self: Box<Self>, thread: &Rc<WorkerThread>) -> Option<Box<dyn Job>> {
        let task = self.session.task;
        thread.reactor.take_deadline_fired(task);
        self.session.set_driven(true);
        let end = self.drive(thread);
        self.session.set_driven(false);
        let Some(end) = end else {
            let secure = self.up.as_ref().map_or(0, |up| up.stream().held_bytes());
            thread.memory.hold(task, HeldFor::Connection, self.session.held_bytes() + secure);
            return Some(self);
        };
        self.finish(end, thread);
        thread.memory.hold(task, HeldFor::Connection, 0);
        thread.reactor.end_task(task);
        None
    }
}
