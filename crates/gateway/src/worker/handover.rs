//! Tunnels that go to another process, or come from one: freezes them, makes frozen ones, thaws and releases them
//! ([`crate::registry::handover`]). And idle connections to upstreams, which need none of that.

use crate::base::counters::bump;
use crate::base::memory::HeldFor;
use crate::connector::handed_over::{for_another, pool_from_another};
use crate::registry::handover::{FreezeLimit, Frozen, FrozenId, HandedOver, HandoverOrder, IdleHandedOver};
use crate::tunnel::Tunnel;
use crate::worker::{Body, Worker};
use reactor::TaskId;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use upstream::DiscardReason;

/// Tasks examined for one order: some hundred nanoseconds each if they are not in the CPU's cache.
const TASKS_A_TURN: usize = 4096;

impl Worker {
    pub(super) fn hand_over(self: &Rc<Self>, order: HandoverOrder) {
        match order {
            HandoverOrder::Freeze { from, limit, reply } => {
                if let Err(unsent) = reply.send(self.freeze(from, limit)) {
                    self.thaw(unsent.0.tunnels.iter().map(|(id, _)| id.task()));
                }
            }
            HandoverOrder::Hold { tunnels, reply } => {
                let tasks = tunnels.into_iter().map(|tunnel| self.hold(tunnel)).collect();
                if let Err(unsent) = reply.send(tasks) {
                    self.release(unsent.0.into_iter().flatten());
                }
            }
            HandoverOrder::Thaw { tasks, for_good } => {
                if for_good {
                    self.staying.borrow_mut().extend(&tasks);
                }
                self.thaw(tasks);
            }
            HandoverOrder::Release(tasks) => self.release(tasks),
            HandoverOrder::GiveIdle { reply } => {
                let idle = self.give_idle();
                let some = !idle.is_empty();
                // If the receiver is gone, they are closed.
                self.gives_idle.set(reply.send(idle).is_ok() && some);
            }
            HandoverOrder::IdleGiven => self.gives_idle.set(false),
            HandoverOrder::TakeIdle(idle) => idle.into_iter().for_each(|one| self.take_idle(one)),
        }
    }

    /// Empties the pool of this worker. Connections that another process cannot continue are closed.
    fn give_idle(&self) -> Vec<IdleHandedOver> {
        let pool = &self.thread.registry.pool;
        let mut removed = Vec::new();
        pool.drain(self.thread.id(), DiscardReason::Drain, &mut removed);
        removed.into_iter().filter_map(|one| for_another(one, pool)).collect()
    }

    /// Pools an idle connection of another process, if this configuration has its peer, and room.
    fn take_idle(&self, IdleHandedOver { state, socket }: IdleHandedOver) {
        if let Some(state) = handover::Idle::decode(&state) {
            pool_from_another(&self.thread, &state, socket);
        }
    }

    /// Whether another process has yet to get idle connections of this worker's pool.
    pub(super) fn owes_idle(&self) -> bool {
        let registry = self.thread.registry;
        self.gives_idle.get() || (registry.tunnels_move() && registry.pool.has_idle(self.thread.id()))
    }

    /// Ends what has no successor: at the end of the process, and when handing over to another one has failed then.
    pub(super) fn stay(self: &Rc<Self>) {
        self.drain_what_stays();
        if self.thread.is_draining() && !self.thread.registry.tunnels_move() {
            self.gives_idle.set(false);
            let mut removed = Vec::new();
            self.thread.registry.pool.drain(self.thread.id(), DiscardReason::Drain, &mut removed);
        }
    }

    fn freeze(&self, from: usize, limit: FreezeLimit) -> Frozen {
        let mut bodies = self.bodies.borrow_mut();
        let all = bodies.len();
        let end = all.min(from.saturating_add(TASKS_A_TURN));
        let mut frozen = Frozen { tunnels: Vec::new(), next: (end < all).then_some(end) };
        let mut bytes = 0;
        for index in from.min(end)..end {
            if frozen.tunnels.len() >= limit.tunnels || bytes >= limit.bytes {
                frozen.next = Some(index);
                break;
            }
            let Some(Body::Tunnel(tunnel)) = bodies.get(index) else { continue };
            if !self.may_move(tunnel) {
                continue;
            }
            // Without a free descriptor the rest stays.
            let Ok(ends) = tunnel.ends_for_another() else { break };
            let state = tunnel.state_for_another(self.thread.registry).encode();
            bytes += state.len();
            let id = FrozenId::new(self.thread.index.into(), tunnel.task);
            frozen.tunnels.push((id, HandedOver { state, ends }));
            if let Some(body) = bodies.get_mut(index)
                && let Body::Tunnel(tunnel) = std::mem::replace(body, Body::Free)
            {
                *body = Body::Frozen(tunnel);
            }
        }
        frozen
    }

    /// Makes a frozen tunnel of another process's; `None` if this process cannot continue it.
    fn hold(&self, HandedOver { state, ends }: HandedOver) -> Option<TaskId> {
        let state = handover::Tunnel::decode(&state)?;
        let generation = self.generation();
        if self.connections() >= generation.worker_connections {
            return None;
        }
        if !self.thread.registry.workers[self.thread.index as usize].expects_one_more() {
            return None;
        }
        let task = self.thread.reactor.create_task();
        self.thread.memory.name(task, self.thread.registry.next_serial());
        let Some(tunnel) = Tunnel::take_over(&self.thread, &generation, task, state, ends) else {
            self.forget_task(task);
            return None;
        };
        bump(&self.thread.counters().tunnels, 1);
        self.put(task, Body::Frozen(Box::new(tunnel)));
        Some(task)
    }

    fn thaw(self: &Rc<Self>, tasks: impl IntoIterator<Item = TaskId>) {
        for task in tasks {
            if let Some(tunnel) = self.take_frozen(task) {
                // A search for tunnels to drain has passed it by.
                self.drain_if_outdated(task, tunnel.plan(), tunnel.peer());
                self.put(task, Body::Tunnel(tunnel));
                // Bytes, or its deadline, may have come meanwhile.
                self.thread.reactor.wake(task);
            }
        }
    }

    fn release(&self, tasks: impl IntoIterator<Item = TaskId>) {
        for task in tasks {
            if let Some(tunnel) = self.take_frozen(task) {
                bump(&self.thread.counters().tunnels, -1);
                tunnel.release();
                self.forget_task(task);
            }
        }
    }

    /// Ends the task of a client connection.
    pub(super) fn forget_task(&self, task: TaskId) {
        self.begun.borrow_mut().remove(&task.index);
        self.datagrams.forget(task);
        self.thread.memory.hold(task, HeldFor::Connection, 0);
        self.thread.reactor.end_task(task);
        self.thread.registry.workers[self.thread.index as usize].connections.fetch_sub(1, Ordering::Relaxed);
        self.resume_accept();
    }

    fn take_frozen(&self, task: TaskId) -> Option<Box<Tunnel>> {
        let mut bodies = self.bodies.borrow_mut();
        let body = bodies.get_mut(task.index as usize)?;
        match std::mem::replace(body, Body::Free) {
            Body::Frozen(tunnel) if tunnel.task == task => Some(tunnel),
            other => {
                *body = other;
                None
            }
        }
    }
}
