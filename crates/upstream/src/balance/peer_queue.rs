//! The waiting line of a group with `queue`: for requests without an available peer, because every peer has `max_conns`
//! exchanges or has failed. First come, first served, except for requests in front that cannot use the free peer. It
//! knows no clock and wakes no task itself: it passes tokens to a closure. `shared::connection_queue` is the line for connections
//! to a chosen peer.
//!
//! No wake-up is missed by the same rule as in the pool: a waiting request enters the line, then looks; the releasing
//! side frees a seat, then looks at the line. A fence separates the two steps on either side.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as PlainU32, AtomicU64 as PlainU64, Ordering::Relaxed};

use super::{Group, Inputs, Pick, Seat, Selection};
use crate::Millis;
use crate::sync::{AtomicU32, Mutex, Ordering, fence, lock};

/// Places that one look tries to serve, under the line's lock: some tens of microseconds. More than one attempt fails
/// only if the requests in front cannot use any free peer, as in a retry, or under another generation's limits.
const LOOKS_MAX: usize = 256;

/// The line of one group, for the whole process and across generations.
pub struct SeatLine {
    waiting: AtomicU32,
    waiting_max: PlainU32,
    refused: PlainU64,
    queue: Mutex<Queue>,
    wake: Box<dyn Fn(u64) + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    /// By ticket, which is the order of arrival.
    places: BTreeMap<u64, Place>,
    granted: BTreeMap<u64, SeatGrant>,
    tickets: u64,
    /// A seat became free, and the first request was woken to look. If it leaves without looking, the next one is
    /// woken.
    is_called: bool,
}

struct Place {
    group: Arc<Group>,
    /// As it was before the choice failed.
    selection: Selection,
    client: Box<[u8]>,
    hash_key: Box<[u8]>,
    bound: Box<[u8]>,
    random: u64,
    token: u64,
}

/// The grant for a waiting request.
#[derive(Debug)]
pub struct SeatGrant {
    /// The peer's index in the group's list: the group of [`SeatLine::stand`], or of the last [`SeatWaiter::follow`]
    /// that returned `true`.
    pub index: usize,
    /// Its seat there.
    pub seat: Seat,
    /// The request's progress, this peer included.
    pub selection: Selection,
}

/// The line is as long as `queue` permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineFull;

impl SeatLine {
    /// An empty line without room. `wake` is called with a waiter's token when there is something to poll, never
    /// under a lock; the task may be gone.
    pub fn new(wake: Box<dyn Fn(u64) + Send + Sync>) -> Self {
        Self {
            waiting: AtomicU32::new(0),
            waiting_max: PlainU32::new(0),
            refused: PlainU64::new(0),
            queue: Mutex::new(Queue::default()),
            wake,
        }
    }

    /// Sets the length of the line; requests that already wait keep their place.
    pub fn set_waiting_max(&self, waiting_max: u32) {
        self.waiting_max.store(waiting_max, Relaxed);
    }

    /// The permitted length of the line.
    pub fn waiting_max(&self) -> u32 {
        self.waiting_max.load(Relaxed)
    }

    /// Number of waiting requests.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Acquire)
    }

    /// Requests that found the line full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Takes a place at the end. `selection` is the request's state before the failed choice, and `token` is woken when
    /// there is something to [`SeatWaiter::poll`]. Poll once immediately: a seat may have become free meanwhile.
    pub fn enqueue(
        self: &Arc<Self>,
        group: &Arc<Group>,
        selection: Selection,
        inputs: &Inputs<'_>,
        token: u64,
    ) -> Result<SeatWaiter, LineFull> {
        let waiting_max = self.waiting_max();
        let more = |waiting: u32| if waiting < waiting_max { Some(waiting + 1) } else { None };
        if self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            self.refused.fetch_add(1, Relaxed);
            return Err(LineFull);
        }
        let place = Place {
            group: Arc::clone(group),
            selection,
            client: inputs.client.into(),
            hash_key: inputs.hash_key.into(),
            bound: inputs.bound.into(),
            random: inputs.random,
            token,
        };
        let mut queue = lock(&self.queue);
        queue.tickets += 1;
        let ticket = queue.tickets;
        queue.places.insert(ticket, place);
        drop(queue);
        fence(Ordering::SeqCst);
        Ok(SeatWaiter { line: Arc::clone(self), ticket, is_collected: false })
    }

    /// A seat is free: wakes the first request to look, since the code that frees a seat has no clock. The releasing
    /// side's second step.
    pub(super) fn call(&self) {
        fence(Ordering::SeqCst);
        if self.waiting() == 0 {
            return;
        }
        let mut queue = lock(&self.queue);
        // A request that was woken and has not looked yet will also see this seat.
        let front = if queue.is_called { None } else { queue.front() };
        queue.is_called |= front.is_some();
        drop(queue);
        if let Some(token) = front {
            (self.wake)(token);
        }
    }

    /// Gives free seats to the first requests that can use them. Returns the tokens of those requests.
    fn serve(&self, now: Millis) -> Vec<u64> {
        let mut served = Vec::new();
        let mut queue = lock(&self.queue);
        queue.is_called = false;
        let mut behind = 0;
        for _ in 0..LOOKS_MAX {
            let Some((&ticket, place)) = queue.places.range(behind + 1..).next() else { break };
            behind = ticket;
            if !place.group.has_room(now) {
                // Generations follow one another, so if the last request has the same group, all have it.
                if queue.places.values().next_back().is_some_and(|last| Arc::ptr_eq(&last.group, &place.group)) {
                    break;
                }
                continue;
            }
            let mut selection = place.selection.clone();
            let Pick::Peer { index, seat } = place.group.pick(&mut selection, &place.inputs(), now) else { continue };
            if let Some(place) = queue.places.remove(&ticket) {
                served.push(place.token);
            }
            queue.granted.insert(ticket, SeatGrant { index, seat, selection });
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        served
    }

    /// Removes a waiting request. The caller drops its grant without the lock, which wakes the next request.
    fn leave(&self, ticket: u64) -> Option<SeatGrant> {
        let mut queue = lock(&self.queue);
        let granted = queue.granted.remove(&ticket);
        if queue.places.remove(&ticket).is_some() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        let front = if queue.is_called { queue.front() } else { None };
        drop(queue);
        if let Some(token) = front {
            (self.wake)(token);
        }
        granted
    }
}

impl fmt::Debug for SeatLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SeatLine").field("waiting_max", &self.waiting_max).finish_non_exhaustive()
    }
}

impl Queue {
    fn front(&self) -> Option<u64> {
        self.places.values().next().map(|place| place.token)
    }
}

impl Place {
    fn inputs(&self) -> Inputs<'_> {
        Inputs { client: &self.client, hash_key: &self.hash_key, random: self.random, bound: &self.bound }
    }
}

/// A place in a [`SeatLine`]. Poll it when its token was woken, and periodically: no event reports that a peer's
/// `fail_timeout` has passed. Dropping it leaves the line; a grant that it had goes to the next request.
#[must_use = "dropping it leaves the line"]
#[derive(Debug)]
pub struct SeatWaiter {
    line: Arc<SeatLine>,
    ticket: u64,
    is_collected: bool,
}

impl SeatWaiter {
    /// Takes the seat, if there is one now; also serves others in line.
    pub fn poll(&mut self, now: Millis) -> Option<SeatGrant> {
        if self.is_collected {
            return None;
        }
        let before = lock(&self.line.queue).granted.remove(&self.ticket);
        let granted = before.or_else(|| {
            let served = self.line.serve(now);
            let own = lock(&self.line.queue).granted.remove(&self.ticket);
            // Its own token may be among them: a task that is woken without need looks again, and finds nothing to do.
            for token in served {
                (self.line.wake)(token);
            }
            own
        });
        self.is_collected = granted.is_some();
        granted
    }

    /// The peers were rebuilt: waits for one of the new ones, with a fresh selection. `false` if it was granted one of
    /// the old ones already.
    #[must_use]
    pub fn follow(&self, group: &Arc<Group>) -> bool {
        let mut queue = lock(&self.line.queue);
        let Some(place) = queue.places.get_mut(&self.ticket) else { return false };
        let before = std::mem::replace(&mut place.group, Arc::clone(group));
        place.selection = Selection::default();
        drop(queue);
        drop(before);
        true
    }
}

impl Drop for SeatWaiter {
    fn drop(&mut self) {
        if !self.is_collected {
            drop(self.line.leave(self.ticket));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::balance::{Checked, HealthRegistry, Member, Method, Outcome, PeerSpec};
    use crate::shared::PeerAddress;
    use crate::sync::{PlainMutex, lock_plain};

    const NOW: Millis = Millis(1000);

    struct Scene {
        line: Arc<SeatLine>,
        group: Arc<Group>,
        woken: Arc<PlainMutex<Vec<u64>>>,
    }

    /// A group of peers with `seats` seats each, and a line of `waiting_max`.
    fn scene(seats: &[u32], waiting_max: u32) -> Scene {
        let woken = Arc::<PlainMutex<Vec<u64>>>::default();
        let noted = Arc::clone(&woken);
        let line = Arc::new(SeatLine::new(Box::new(move |token| lock_plain(&noted).push(token))));
        line.set_waiting_max(waiting_max);
        let group = Arc::new(Group::new(Method::RoundRobin, members(seats)).with_line(&line));
        Scene { line, group, woken }
    }

    fn members(seats: &[u32]) -> Vec<Member> {
        let registry = HealthRegistry::default();
        let member = |(last, seats): (usize, &u32)| Member {
            spec: PeerSpec { max_conns: Some(*seats).filter(|&seats| seats > 0), ..PeerSpec::default() },
            server: "a".into(),
            sid: Arc::default(),
            health: registry.health("a", &PeerAddress::Ip(([127, 0, 0, last as u8], 80).into()), 0, Checked::Healthy),
        };
        seats.iter().enumerate().map(member).collect()
    }

    impl Scene {
        fn pick(&self) -> Option<(usize, Seat)> {
            match self.group.pick(&mut Selection::default(), &Inputs::default(), NOW) {
                Pick::Peer { index, seat } => Some((index, seat)),
                Pick::NoLive => None,
            }
        }

        fn enqueue(&self, token: u64) -> SeatWaiter {
            self.line.enqueue(&self.group, Selection::default(), &Inputs::default(), token).expect("there is room")
        }

        fn woken(&self) -> Vec<u64> {
            std::mem::take(&mut *lock_plain(&self.woken))
        }
    }

    #[test]
    fn free_seat_goes_to_the_first_in_line() {
        let scene = scene(&[1], 2);
        let (_, seat) = scene.pick().unwrap();
        let (mut one, mut two) = (scene.enqueue(1), scene.enqueue(2));
        assert!(one.poll(NOW).is_none() && two.poll(NOW).is_none());
        assert_eq!(scene.line.enqueue(&scene.group, Selection::default(), &Inputs::default(), 3).err(), Some(LineFull));
        assert_eq!((scene.line.waiting(), scene.line.refused()), (2, 1));
        drop(seat);
        assert_eq!(scene.woken(), [1]);
        // The second looks first, and serves the first.
        assert!(two.poll(NOW).is_none());
        assert_eq!(scene.woken(), [1]);
        let granted = one.poll(NOW).unwrap();
        assert_eq!((granted.index, scene.line.waiting()), (0, 1));
        drop(granted);
        assert_eq!(scene.woken(), [2]);
        assert!(two.poll(NOW).is_some());
        assert_eq!(scene.line.waiting(), 0);
    }

    #[test]
    fn leaving_with_a_call_or_a_seat_passes_it_on() {
        let scene = scene(&[1], 9);
        let (_, seat) = scene.pick().unwrap();
        let (one, two, mut three) = (scene.enqueue(1), scene.enqueue(2), scene.enqueue(3));
        drop(seat);
        assert_eq!(scene.woken(), [1]);
        drop(one);
        assert_eq!(scene.woken(), [2]);
        // Another request served it, and it leaves before it collects.
        assert!(three.poll(NOW).is_none());
        scene.woken();
        drop(two);
        assert_eq!(scene.woken(), [3]);
        assert!(three.poll(NOW).is_some());
    }

    #[test]
    fn request_that_cannot_use_a_free_peer_blocks_none() {
        let scene = scene(&[1, 1], 9);
        let (first, seat) = scene.pick().unwrap();
        let (_, _other) = scene.pick().unwrap();
        let mut tried = Selection::default();
        tried.mark(first);
        let mut one = scene.line.enqueue(&scene.group, tried, &Inputs::default(), 1).unwrap();
        let mut two = scene.enqueue(2);
        drop(seat);
        assert!(one.poll(NOW).is_none());
        assert_eq!(two.poll(NOW).map(|granted| granted.index), Some(first));
    }

    #[test]
    fn failed_peers_are_awaited_until_their_time_ends() {
        let scene = scene(&[0, 0], 1);
        for index in 0..2 {
            scene.group.report(index, Outcome::Failed, NOW);
        }
        assert!(scene.pick().is_none());
        let mut one = scene.enqueue(1);
        assert!(one.poll(NOW).is_none());
        assert!(one.poll(NOW.plus(10_000)).is_none());
        assert!(one.poll(NOW.plus(10_001)).is_some());
    }

    #[test]
    fn requests_in_line_wait_for_new_peers() {
        let scene = scene(&[1], 1);
        let (_, _seat) = scene.pick().unwrap();
        let mut one = scene.enqueue(1);
        let grown = Arc::new(scene.group.succeed(members(&[1, 1])));
        assert!(one.follow(&grown));
        assert!(one.poll(NOW).is_some());
        assert!(!one.follow(&scene.group), "it has its seat");
    }

    #[test]
    fn waits_only_for_usable_peers() {
        let scene = scene(&[1, 1], 1);
        let mut selection = Selection::default();
        assert!(scene.group.may_come(&selection, b""));
        selection.mark(0);
        assert!(scene.group.may_come(&selection, b""));
        selection.mark(1);
        assert!(!scene.group.may_come(&selection, b""));
    }
}
