//! No wake-up is lost: a task reads a request and then waits for its peer to leave, and the peer's steps fall between any two
//! steps of the loop. Every order is tried, on real sockets: pairs of Unix sockets, whose events are there when the call
//! returns.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use reactor::{Awaited, Interest, Leaving, Reactor, Read, Ready, Stream, TaskId, Waited as _, Woken};
use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// What the peer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Send,
    Fin,
    Close,
}

/// How the task begins to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arming {
    /// It asks for the state first.
    Asking,
    /// It only arms, as this reactor's users did before: the model must find what that loses.
    Blind,
}

/// Where the task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It has been woken, or starts, and reads the request next.
    Reading,
    /// It has read the request and arms next.
    Arming,
    /// It waits.
    Waiting,
    /// It was woken from its wait and looks next.
    Looking,
    /// It knows that the peer has left.
    Done,
}

struct Scene {
    reactor: Rc<Reactor>,
    task: TaskId,
    stream: Stream,
    peer: Option<UnixStream>,
    phase: Phase,
    read: usize,
    requests: usize,
    leaving: Leaving,
    arming: Arming,
}

impl Scene {
    fn new(requests: usize, leaving: Leaving, arming: Arming) -> Self {
        let reactor = Reactor::new().unwrap();
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let task = reactor.create_task();
        let stream = reactor.register(OwnedFd::from(ours), task).unwrap();
        let phase = Phase::Reading;
        Self { reactor, task, stream, peer: Some(peer), phase, read: 0, requests, leaving, arming }
    }

    fn act(&mut self, act: Act) {
        match act {
            // The task may know already that the peer has gone; the peer acts all the same.
            Act::Send => _ = self.peer.as_ref().unwrap().write_all(b"x"),
            Act::Fin => self.peer.as_ref().unwrap().shutdown(Shutdown::Write).unwrap(),
            Act::Close => self.peer = None,
        }
    }

    /// One step of the loop or of the task: a turn where the task is not ready, otherwise what the task does next.
    fn step(&mut self) {
        match self.phase {
            Phase::Reading => match self.stream.read_with(1, <[u8]>::len) {
                Ok(Read::Data(count)) => {
                    self.read += count;
                    if self.read == self.requests {
                        self.phase = Phase::Arming;
                    }
                }
                Ok(Read::NotReady) => {
                    // What wakes it is consumed before it reads.
                    self.turn();
                    self.woken();
                }
                Ok(Read::Closed) | Err(_) => self.phase = Phase::Done,
            },
            Phase::Arming => {
                self.arm();
                self.phase = Phase::Waiting;
            }
            Phase::Waiting => {
                self.turn();
                if self.woken() {
                    self.phase = Phase::Looking;
                }
            }
            Phase::Looking => self.phase = if self.is_gone() { Phase::Done } else { Phase::Arming },
            Phase::Done => {}
        }
    }

    fn arm(&self) {
        match self.arming {
            Arming::Asking => {
                let hour = self.reactor.now().after(Duration::from_hours(1));
                self.reactor.begin_wait(self.task, &self.awaited(), hour);
            }
            Arming::Blind => {}
        }
    }

    fn is_gone(&self) -> bool {
        match self.arming {
            Arming::Asking => match self.reactor.end_wait(self.task, &self.awaited()) {
                Woken::PeerGone => true,
                Woken::Ready => false,
                Woken::Deadline => panic!("an hour has passed"),
            },
            Arming::Blind => self.stream.has_left(self.leaving),
        }
    }

    fn awaited(&self) -> Awaited<'_> {
        Awaited { sockets: [None, None], peer: Some((&self.stream, self.leaving)) }
    }

    fn turn(&self) {
        self.reactor.turn(Some(0)).unwrap();
    }

    fn woken(&self) -> bool {
        let mut woken = false;
        while let Some(ready) = self.reactor.next_ready() {
            woken |= ready == Ready::Task(self.task);
        }
        woken
    }
}

/// Steps between which the peer acts: enough to read two requests, to wait, and to be woken for nothing twice.
const STEPS: usize = 12;
/// Steps after which nothing more can happen by itself.
const QUIET: usize = 12;

/// Every way to let the acts fall between the steps: for each act the step before which it happens.
fn orders(acts: usize) -> Vec<Vec<usize>> {
    (0..acts).fold(vec![vec![]], |shorter, _| {
        let longer = shorter.iter().flat_map(|order| {
            let from = order.last().copied().unwrap_or(0);
            (from..=STEPS).map(|step| order.iter().copied().chain([step]).collect())
        });
        longer.collect()
    })
}

/// The orders in which the task does not learn that its peer has left.
fn losses(acts: &[Act], requests: usize, leaving: Leaving, arming: Arming) -> (usize, Vec<Vec<usize>>) {
    let orders = orders(acts.len());
    let all = orders.len();
    let lost = orders.into_iter().filter(|order| {
        let mut scene = Scene::new(requests, leaving, arming);
        for step in 0..=STEPS {
            for (act, _) in acts.iter().zip(order).filter(|(_, at)| **at == step) {
                scene.act(*act);
            }
            scene.step();
        }
        (0..QUIET).for_each(|_| scene.step());
        scene.phase != Phase::Done
    });
    (all, lost.collect())
}

const LEAVE: [(&[Act], usize, Leaving); 6] = [
    (&[Act::Send, Act::Fin], 1, Leaving::ResetOrFin),
    (&[Act::Send, Act::Close], 1, Leaving::ResetOrFin),
    (&[Act::Send, Act::Close], 1, Leaving::Reset),
    (&[Act::Send, Act::Fin, Act::Close], 1, Leaving::ResetOrFin),
    (&[Act::Send, Act::Fin, Act::Close], 1, Leaving::Reset),
    (&[Act::Send, Act::Send, Act::Fin], 2, Leaving::ResetOrFin),
];

#[test]
fn a_peer_that_leaves_between_any_two_steps_is_noticed() {
    let mut tried = 0;
    for (acts, requests, leaving) in LEAVE {
        let (all, lost) = losses(acts, requests, leaving, Arming::Asking);
        assert_eq!(lost, Vec::<Vec<usize>>::new(), "{acts:?}");
        tried += all;
    }
    assert!(tried > 1500, "{tried} orders");
}

#[test]
fn model_finds_lost_wakeups() {
    for (acts, requests, leaving) in LEAVE {
        let (_, lost) = losses(acts, requests, leaving, Arming::Blind);
        assert!(!lost.is_empty(), "{acts:?}");
    }
}

#[test]
fn half_close_is_ignored_if_only_reset_is_awaited() {
    let (all, still_there) = losses(&[Act::Send, Act::Fin], 1, Leaving::Reset, Arming::Asking);
    // Where the FIN comes before the request was awaited nothing is different: the request is read first.
    assert_eq!(still_there.len(), all);
}

#[test]
fn fin_after_an_unread_request_counts_once_read() {
    let (all, still_there) = losses(&[Act::Send, Act::Send, Act::Fin], 1, Leaving::ResetOrFin, Arming::Asking);
    assert_eq!(still_there.len(), all);
}

#[test]
fn input_that_has_arrived_needs_no_event() {
    let mut scene = Scene::new(1, Leaving::Ignored, Arming::Asking);
    scene.act(Act::Send);
    scene.turn();
    assert!(scene.woken(), "the event comes before anybody waits, and is consumed");
    let later = scene.reactor.now().after(Duration::from_hours(1));
    let both = |interest| Awaited { sockets: [None, Some((&scene.stream, interest))], peer: None };
    scene.reactor.begin_wait(scene.task, &both(Interest::NONE), later);
    scene.turn();
    assert!(!scene.woken(), "no waiter, no wake-up");
    for interest in [Interest::READ, Interest::WRITE, Interest::BOTH] {
        scene.reactor.begin_wait(scene.task, &both(interest), later);
        scene.turn();
        assert!(scene.woken(), "{interest:?}");
        assert_eq!(scene.reactor.end_wait(scene.task, &both(interest)), Woken::Ready);
    }
}

#[test]
fn a_deadline_counts_only_where_nothing_else_has_happened() {
    let mut scene = Scene::new(1, Leaving::ResetOrFin, Arming::Asking);
    let now = scene.reactor.now();
    let wake = |scene: &Scene, awaited: &Awaited<'_>| {
        scene.reactor.begin_wait(scene.task, awaited, now);
        scene.turn();
        assert!(scene.woken());
        scene.reactor.end_wait(scene.task, awaited)
    };
    let readable = |scene: &Scene| {
        let awaited = Awaited {
            sockets: [Some((&scene.stream, Interest::READ)), None],
            peer: Some((&scene.stream, scene.leaving)),
        };
        wake(scene, &awaited)
    };
    assert_eq!(readable(&scene), Woken::Deadline);
    scene.act(Act::Send);
    assert_eq!(readable(&scene), Woken::Ready);
    assert!(matches!(scene.stream.read_with(2, <[u8]>::len), Ok(Read::Data(1))));
    assert_eq!(readable(&scene), Woken::Deadline);
    scene.act(Act::Fin);
    assert_eq!(readable(&scene), Woken::PeerGone);
}
