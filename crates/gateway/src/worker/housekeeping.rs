//! The chores of a worker, their schedule, and events on its idle upstream connections.

use crate::connector::h2::read_idle;
use crate::connector::leased::close_ended;
use crate::registry::pool::{Look, token};
use crate::thread::chores::Chore;
use crate::worker::Worker;
use reactor::Millis;
use std::rc::Rc;

/// Milliseconds until the next look at expired idle upstream connections that one look could not finish: other work
/// comes first.
const LEFT_OVER_MS: u64 = 10;

impl Worker {
    pub(crate) fn keep_house(self: &Rc<Self>) {
        let thread = &self.thread;
        thread.reactor.take_deadline_fired(thread.chores.task);
        let now = thread.reactor.now();
        for chore in Chore::ALL {
            if !thread.chores.take_due(chore, now) {
                continue;
            }
            match chore {
                Chore::ExpirePool => self.expire_pool(),
                Chore::AcceptAgain => self.resume_accept(),
                Chore::LookAtMemory => self.look_at_memory(),
                Chore::WatchChurn => self.watch_churn(),
                Chore::WarmPool => self.warm_pool(),
                Chore::ReturnMemory => self.return_memory(),
                Chore::TendCaches => self.tend_caches(),
                Chore::TendGeoFiles => self.tend_geo_files(),
                Chore::CloseUnusedResponses => self.close_unused_responses(now),
                Chore::DrainTunnels => self.drain_tunnels(),
            }
        }
        thread.chores.set_deadline();
    }

    /// Starts managing the caches and the databases of `geoip2`: at the start, and after a reload. One worker does it for all.
    pub(crate) fn begin_tending(&self) {
        if self.thread.index == 0 {
            let now = self.thread.reactor.now();
            self.thread.chores.plan(Chore::TendCaches, now);
            self.thread.chores.plan(Chore::TendGeoFiles, now);
        }
    }

    fn close_unused_responses(&self, now: Millis) {
        if let Some(at) = self.thread.hot_responses.borrow_mut().expire(now) {
            self.thread.chores.plan(Chore::CloseUnusedResponses, at);
        }
    }

    fn tend_geo_files(&self) {
        let (thread, generation) = (&self.thread, self.generation());
        let now_s = thread.clock.now().as_secs();
        let pauses = generation.geo_files.iter().map(|file| file.tend(thread.registry, now_s));
        if let Some(pause) = pauses.min().filter(|_| !thread.is_draining()) {
            thread.chores.plan(Chore::TendGeoFiles, thread.reactor.now().after(pause));
        }
    }

    fn tend_caches(&self) {
        let (thread, generation) = (&self.thread, self.generation());
        let now_s = thread.clock.now().as_secs() as i64;
        let pauses = generation.caches.iter().map(|zone| zone.tend(thread.registry, now_s));
        if let Some(pause) = pauses.min().filter(|_| !thread.is_draining()) {
            thread.chores.plan(Chore::TendCaches, thread.reactor.now().after(pause));
        }
    }

    fn expire_pool(&self) {
        let thread = &self.thread;
        let mut removed = Vec::new();
        let next = thread.registry.pool.expire(thread.id(), thread.pool_now(), &mut removed);
        drop(removed);
        if let Some(at) = next {
            thread.expire_pool_by(at.max(thread.pool_now().plus(LEFT_OVER_MS)));
        }
    }

    /// Handles an event on a pooled connection: it has ended, or the peer sent unrequested bytes.
    pub(super) fn discard_parked(&self, label: u64) {
        use upstream::DiscardReason::{DataOnIdle, PeerClosedIdle};
        use upstream::shared::Inspection;
        let mut has_frames = false;
        let removed = self.thread.registry.pool.inspect(self.thread.id(), token(label), |idle| {
            match idle.look(&self.thread.reactor) {
                Look::Silent => Inspection::Keep,
                Look::Frames => {
                    has_frames = true;
                    Inspection::Keep
                }
                Look::Ended => Inspection::Remove(PeerClosedIdle),
                Look::Data => Inspection::Remove(DataOnIdle),
            }
        });
        if let Some(removed) = removed {
            close_ended(removed, &self.thread);
        }
        if has_frames && let Some(checkout) = self.thread.registry.pool.attend(self.thread.id(), token(label)) {
            read_idle(&self.thread, checkout);
        }
    }
}
