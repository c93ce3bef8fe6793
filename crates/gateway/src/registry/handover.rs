//! Orders to workers that hand tunnels and idle connections to upstreams over to another process, or take them over. A thread of the process gives them
//! (`holdfast::serve::handover`), and waits for the answers; `worker::handover` carries them out.
//!
//! A tunnel that is handed over is *frozen* on both sides: it exists, and nothing moves. Either side thaws it or
//! releases it: in one process the tunnel continues, and in the other it vanishes without an end.

use crate::registry::process::{Message, Registry, WorkerLink};
use reactor::TaskId;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A worker reads its mailbox in each turn of its loop; one that does not answer within this time is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is checked whether a worker that does not answer has ended.
const LOOK_PERIOD: Duration = Duration::from_millis(20);

/// A tunnel between two processes.
#[derive(Debug)]
pub struct HandedOver {
    /// Its state, as [`handover::Tunnel`] encodes it.
    pub state: Vec<u8>,
    /// The client's socket, and the upstream's.
    pub ends: [OwnedFd; 2],
}

/// An idle connection to an upstream, between two processes. One that is lost on the way is closed.
#[derive(Debug)]
pub struct IdleHandedOver {
    /// Its state, as [`handover::Idle`] encodes it.
    pub state: Vec<u8>,
    /// The socket.
    pub socket: OwnedFd,
}

/// A frozen tunnel's worker and task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrozenId {
    worker: usize,
    task: TaskId,
}

impl FrozenId {
    pub(crate) fn new(worker: usize, task: TaskId) -> Self {
        Self { worker, task }
    }

    pub(crate) fn task(self) -> TaskId {
        self.task
    }
}

/// The tunnels that a worker has frozen.
#[derive(Debug)]
pub struct Frozen {
    /// The tunnels; this process still has its own descriptors of their sockets.
    pub tunnels: Vec<(FrozenId, HandedOver)>,
    /// Where to continue; `None` after the last one.
    pub next: Option<usize>,
}

/// How many tunnels to freeze.
#[derive(Debug, Clone, Copy)]
pub struct FreezeLimit {
    /// Most tunnels.
    pub tunnels: usize,
    /// Bytes of states after which no further tunnel is frozen.
    pub bytes: usize,
}

/// An order to a worker.
#[derive(Debug)]
pub enum HandoverOrder {
    /// Freeze tunnels from this task on.
    Freeze {
        /// Index of the first task.
        from: usize,
        /// How many.
        limit: FreezeLimit,
        /// Gets the tunnels. If it is gone, they are thawed.
        reply: Sender<Frozen>,
    },
    /// Make frozen tunnels of these. The answer has the task of each, or `None` where this process cannot continue it.
    Hold {
        /// The tunnels.
        tunnels: Vec<HandedOver>,
        /// Gets the tasks. If it is gone, the tunnels are released.
        reply: Sender<Vec<Option<TaskId>>>,
    },
    /// Continue.
    Thaw {
        /// Frozen tunnels.
        tasks: Vec<TaskId>,
        /// They stay in this process and are not frozen again.
        for_good: bool,
    },
    /// Another process continues.
    Release(Vec<TaskId>),
    /// Take the idle connections to upstreams out of the pool.
    GiveIdle {
        /// Gets them, the longest idle first. If it is gone, they are closed.
        reply: Sender<Vec<IdleHandedOver>>,
    },
    /// What was taken out is sent, or closed: the worker may end.
    IdleGiven,
    /// Pool these.
    TakeIdle(Vec<IdleHandedOver>),
}

impl Registry {
    fn order(&self, worker: usize, order: HandoverOrder) {
        self.send(worker, Message::Handover(Box::new(order)));
    }

    /// Notes whether another process takes over the tunnels of this one. As long as it does, those that can move are not
    /// drained when this process ends.
    pub fn set_tunnels_move(&self, they_move: bool) {
        if self.tunnels_move.swap(they_move, Ordering::Relaxed) && !they_move {
            for worker in 0..self.workers() {
                self.send(worker, Message::TunnelsStay);
            }
        }
    }

    pub(crate) fn tunnels_move(&self) -> bool {
        self.tunnels_move.load(Ordering::Relaxed)
    }

    /// Freezes tunnels of a worker that another process could take over, from this task on. `None`: the worker does not
    /// answer.
    pub fn freeze_tunnels(&self, worker: usize, from: usize, limit: FreezeLimit) -> Option<Frozen> {
        let (reply, answer) = channel();
        self.order(worker, HandoverOrder::Freeze { from, limit, reply });
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match answer.recv_timeout(LOOK_PERIOD) {
                Ok(frozen) => return Some(frozen),
                // A draining worker ends with its last tunnel.
                Err(_) if self.workers.get(worker).is_none_or(WorkerLink::has_ended) => {
                    return Some(Frozen { tunnels: Vec::new(), next: None });
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => return None,
            }
        }
    }

    /// Takes the idle connections to upstreams that another process can use out of a worker's pool, and closes the others.
    /// The worker does not end before [`Self::idle_given`].
    pub fn give_idle(&self, worker: usize) -> Vec<IdleHandedOver> {
        let (reply, answer) = channel();
        self.order(worker, HandoverOrder::GiveIdle { reply });
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match answer.recv_timeout(LOOK_PERIOD) {
                Ok(idle) => return idle,
                Err(RecvTimeoutError::Timeout)
                    if Instant::now() < deadline && !self.workers.get(worker).is_none_or(WorkerLink::has_ended) => {}
                Err(_) => return Vec::new(),
            }
        }
    }

    /// They are sent.
    pub fn idle_given(&self, worker: usize) {
        self.order(worker, HandoverOrder::IdleGiven);
    }

    /// Pools idle connections of another process, spread over the workers.
    pub fn take_idle(&self, idle: Vec<IdleHandedOver>) {
        let mut shares: Vec<Vec<IdleHandedOver>> = self.workers.iter().map(|_| Vec::new()).collect();
        let workers = shares.len().max(1);
        for (place, one) in idle.into_iter().enumerate() {
            if let Some(share) = shares.get_mut(place % workers) {
                share.push(one);
            }
        }
        for (worker, share) in shares.into_iter().enumerate().filter(|(_, share)| !share.is_empty()) {
            self.order(worker, HandoverOrder::TakeIdle(share));
        }
    }

    /// Makes frozen tunnels, spread over the workers. `None` for a tunnel that this process cannot continue.
    pub fn hold_tunnels(&self, tunnels: Vec<HandedOver>) -> Vec<Option<FrozenId>> {
        let mut loads: Vec<usize> = self.workers.iter().map(|link| link.connections.load(Ordering::Relaxed)).collect();
        let mut shares: Vec<(Vec<usize>, Vec<HandedOver>)> = loads.iter().map(|_| Default::default()).collect();
        let mut held = Vec::new();
        for (place, tunnel) in tunnels.into_iter().enumerate() {
            held.push(None);
            let Some((worker, load)) = loads.iter_mut().enumerate().min_by_key(|(_, load)| **load) else { continue };
            *load += 1;
            shares[worker].0.push(place);
            shares[worker].1.push(tunnel);
        }
        let asked = shares.into_iter().enumerate().filter(|(_, (places, _))| !places.is_empty());
        let asked = asked.map(|(worker, (places, tunnels))| {
            let (reply, answer) = channel();
            self.order(worker, HandoverOrder::Hold { tunnels, reply });
            (worker, places, answer)
        });
        // All workers work at the same time.
        for (worker, places, answer) in asked.collect::<Vec<_>>() {
            let tasks = answer.recv_timeout(ANSWER_TIMEOUT).unwrap_or_default();
            for (place, task) in places.into_iter().zip(tasks) {
                held[place] = task.map(|task| FrozenId { worker, task });
            }
        }
        held
    }

    /// Lets frozen tunnels continue in this process. `for_good`: they are not frozen again.
    pub fn thaw_tunnels(&self, tunnels: &[FrozenId], for_good: bool) {
        self.order_all(tunnels, |tasks| HandoverOrder::Thaw { tasks, for_good });
    }

    /// Gives frozen tunnels up: another process continues them.
    pub fn release_tunnels(&self, tunnels: &[FrozenId]) {
        self.order_all(tunnels, HandoverOrder::Release);
    }

    fn order_all(&self, tunnels: &[FrozenId], order: impl Fn(Vec<TaskId>) -> HandoverOrder) {
        for worker in 0..self.workers() {
            let tasks: Vec<TaskId> = tunnels.iter().filter(|id| id.worker == worker).map(|id| id.task).collect();
            if !tasks.is_empty() {
                self.order(worker, order(tasks));
            }
        }
    }
}
