//! A worker's reaction to a shortage of memory: it closes idle connections, refuses new requests, stops accepting, and
//! keeps no spare buffers. `memory` measures the shortage; `housekeeping` schedules the check.

use crate::base::alarm::and_more;
use crate::base::close::CloseReason;
use crate::base::memory::Pressure;
use crate::thread::Relief;
use crate::thread::chores::Chore;
use crate::worker::Worker;
use crate::worker::displacing::{Class, Displaceable};
use reactor::Millis;

/// Time between two checks: pressure ends within two seconds of its cause, and four wake-ups a second cost nothing.
const LOOK_PERIOD_MS: u64 = 250;
/// Least time between two attempts to make room for a request by closing connections without one. That is a walk over
/// all connections, some nanoseconds each: with this many per millisecond of waiting it takes a hundredth of the time.
const RELIEF_PERIOD_MS: u64 = 1;
const RELIEF_WALK: u64 = 1000;
/// Connections closed in one check: a few milliseconds of work. With the period above, 16,000 a second.
const CLOSES_MAX: usize = 4096;
/// Time between two releases of spares: of 256, four are left after 15 s.
const RETURN_PERIOD_MS: u64 = 5000;
/// One of this many is kept.
const SPARES_KEPT: usize = 4;
/// Decrease of the connections' memory above which the allocator is asked to return memory: less is soon used again,
/// and returning it costs more than keeping it.
const FALL_BYTES: u64 = 8 << 20;
/// Connections named in an alert.
const NAMED_MAX: usize = 3;

impl Relief for Worker {
    /// Whether new requests are answered 503; logs that from time to time.
    fn refuses_requests(&self) -> bool {
        if self.relieved_pressure() < Pressure::Requests {
            return false;
        }
        if let Some(kept_back) = self.thread.registry.memory.refused.ring(self.thread.reactor.now()) {
            self.alert("new requests are answered 503", kept_back);
        }
        true
    }
}

impl Worker {
    /// Whether nothing is accepted any more; if so, pauses accepting.
    pub(crate) fn refuses_connections(&self) -> bool {
        if self.relieved_pressure() < Pressure::Accepts {
            return false;
        }
        if self.pause_accept_for_memory()
            && let Some(kept_back) = self.thread.registry.memory.paused.ring(self.thread.reactor.now())
        {
            self.alert("nothing is accepted", kept_back);
        }
        true
    }

    /// Whether new HTTP/2 streams are refused without an answer, as new connections are: a client that opens no window
    /// would keep the memory of an answer.
    pub(crate) fn refuses_streams(&self) -> bool {
        if self.relieved_pressure() < Pressure::Accepts {
            return false;
        }
        if let Some(kept_back) = self.thread.registry.memory.refused.ring(self.thread.reactor.now()) {
            self.alert("new HTTP/2 streams are refused", kept_back);
        }
        true
    }

    /// Whether connections without a complete request are closed.
    fn sheds_waiting(&self) -> bool {
        self.thread.memory.pressure() >= Pressure::Keepalive
    }

    /// The chore; it runs while there is a budget.
    pub(crate) fn look_at_memory(&self) {
        let Some(_) = self.thread.registry.memory.budget() else {
            return self.resume_accept_after_memory();
        };
        self.thread.memory.trim();
        if self.sheds_waiting() {
            self.drop_spares();
            self.close_waiting(false);
        }
        match self.thread.memory.pressure() {
            // Accepting resumes only below this level; otherwise it would resume for every single closed connection.
            Pressure::Accepts | Pressure::Requests => _ = self.refuses_connections(),
            Pressure::Keepalive | Pressure::None => self.resume_accept_after_memory(),
        }
        self.thread.chores.plan(Chore::LookAtMemory, Millis(self.thread.reactor.now().0 + LOOK_PERIOD_MS));
    }

    /// The pressure after closing connections that wait for a request: checked before a request is refused.
    fn relieved_pressure(&self) -> Pressure {
        let pressure = self.thread.memory.pressure();
        let (now, period) = (self.thread.reactor.now(), RELIEF_PERIOD_MS + self.connections() as u64 / RELIEF_WALK);
        if pressure < Pressure::Requests || now.since(self.relieved_at.get()) < period {
            return pressure;
        }
        self.relieved_at.set(now);
        self.close_waiting(true);
        self.thread.hot_responses.borrow_mut().clear();
        self.thread.memory.trim();
        self.thread.memory.pressure()
    }

    /// Closes connections that wait for a request: first those that never sent one, then the idle ones, the oldest of
    /// each class first. A connection accepted since the last check may be about to send and is passed over; with
    /// `urgent`, not if it has sent a part of a head.
    fn close_waiting(&self, urgent: bool) {
        let last = if self.thread.registry.memory.spares_keepalive() { Class::WithoutRequest } else { Class::Idle };
        let mut waiting = self.candidates(last);
        waiting.sort_unstable();
        let now = self.thread.reactor.now();
        let mut passed_over = false;
        for Displaceable { class, since, index, is_partial, .. } in waiting.into_iter().take(CLOSES_MAX) {
            if !self.sheds_waiting() {
                return;
            }
            if class == Class::WithoutRequest && now.since(since) < LOOK_PERIOD_MS && !(urgent && is_partial) {
                passed_over = true;
                continue;
            }
            if class == Class::Idle && passed_over && !urgent {
                return;
            }
            if let Some(connection) = self.take_waiting(index) {
                if let Some(kept_back) = self.thread.registry.memory.closed.ring(now) {
                    self.alert("connections without a request are closed", kept_back);
                }
                self.close(connection, CloseReason::MemoryBudget);
            }
        }
    }

    fn alert(&self, what: &str, kept_back: u64) {
        let used = self.thread.registry.memory();
        let names: Vec<String> = self
            .thread
            .memory
            .largest(NAMED_MAX)
            .into_iter()
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(serial, bytes)| format!("*{serial} {bytes}"))
            .collect();
        self.thread.registry.error_log.alert(&format!(
            "memory_budget of {} bytes: {} are held, {what}; most by connections {}{}",
            used.budget.unwrap_or_default(),
            used.held,
            names.join(", "),
            and_more(kept_back)
        ));
    }

    fn drop_spares(&self) {
        self.keep_spares(|_| 0);
    }

    /// Frees spare buffers and futures; the closure gives the number to keep for a number of one kind.
    fn keep_spares(&self, kept: impl Fn(usize) -> usize) {
        self.spares.keep(&kept, &self.thread.memory);
        let mut slots = self.slots.borrow_mut();
        let count = kept(slots.len());
        slots.truncate(count);
    }

    /// Starts the periodic release of spares.
    pub(crate) fn begin_returning(&self) {
        self.thread.chores.plan(Chore::ReturnMemory, Millis(self.thread.reactor.now().0 + RETURN_PERIOD_MS));
    }

    /// The chore: frees most of the spares each time. A worker that still needs them allocates a few again; the spares
    /// of a burst are gone after some rounds. One worker also makes the allocator return free memory.
    pub(crate) fn return_memory(&self) {
        self.keep_spares(|count| count / SPARES_KEPT);
        self.thread.memory.trim();
        if self.thread.index == 0 && self.thread.registry.memory.take_fall(FALL_BYTES).is_some() {
            // If the job queue is full, the next check does it.
            let _ = self.thread.registry.offload.submit(reactor::return_free_memory, || ());
        }
        self.begin_returning();
    }
}
