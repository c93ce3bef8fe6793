//! A hierarchical timer wheel: one intrusive node per task, found by the task's index. Moving a deadline later is a store;
//! the node is looked at again when its old place comes up. Pure: the time is an argument.

use terms::U48;

/// Slots per level; a level's occupancy is one `u64`.
const SLOTS: usize = 64;
/// Levels of 64 slots each at 1 ms: 64^6 ms is about 795 days; what is later waits in the last level and is filed anew.
const LEVELS: usize = 6;
/// "No task" in the lists, and "no deadline".
const NONE: u32 = u32::MAX;
const NEVER: u64 = U48::MAX;

/// A task's timer: 16 bytes, since there is one for each.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// When the task wants to be woken, in milliseconds; `NEVER` for not at all.
    deadline: U48,
    /// `level * SLOTS + slot`, or `u16::MAX` when in no list. The slot comes up at or before the deadline.
    place: u16,
    next: u32,
    prev: u32,
}

impl Node {
    fn deadline(&self) -> u64 {
        self.deadline.into()
    }
}

const UNFILED: u16 = u16::MAX;

/// The wheel. Indices are task indices; nodes appear as they are used.
#[derive(Debug)]
pub struct Wheel {
    nodes: Vec<Node>,
    heads: [u32; SLOTS * LEVELS],
    occupied: [u64; LEVELS],
    /// All ticks up to and including this one have been handled.
    elapsed: u64,
}

impl Wheel {
    /// A wheel that starts at `now` (milliseconds), with room for this many tasks at first.
    pub fn new(now: u64, room: usize) -> Self {
        Self { nodes: Vec::with_capacity(room), heads: [NONE; SLOTS * LEVELS], occupied: [0; LEVELS], elapsed: now }
    }

    /// Sets the deadline of a task in milliseconds. A later deadline than before costs one store.
    pub fn set(&mut self, index: u32, deadline: u64) {
        let at = index as usize;
        if at >= self.nodes.len() {
            let empty = Node { deadline: NEVER.into(), place: UNFILED, next: NONE, prev: NONE };
            self.nodes.resize(at + 1, empty);
        }
        let deadline = deadline.min(NEVER);
        let node = &mut self.nodes[at];
        let (before, place) = (node.deadline(), node.place);
        node.deadline = deadline.into();
        // The first comparison saves the second in the usual case. A cleared node may be filed for after its new deadline.
        let is_later = before != NEVER && before <= deadline;
        if place != UNFILED && (is_later || self.tick_of(place) <= deadline) {
            return;
        }
        self.unfile(index);
        if deadline != NEVER {
            self.file(index, deadline);
        }
    }

    /// Removes the deadline of a task. The node may stay filed; it then expires without effect.
    pub fn clear(&mut self, index: u32) {
        if let Some(node) = self.nodes.get_mut(index as usize) {
            node.deadline = NEVER.into();
        }
    }

    /// The deadline of a task in milliseconds, if it has one.
    pub fn deadline(&self, index: u32) -> Option<u64> {
        self.nodes.get(index as usize).map(Node::deadline).filter(|&deadline| deadline != NEVER)
    }

    /// The earliest tick at which `advance` may have something to do; never later than the earliest deadline.
    pub fn next_tick(&self) -> Option<u64> {
        self.next_slot().map(|(_, _, tick)| tick)
    }

    /// Moves on to `now` and calls `fired` for each task whose deadline has come. Its deadline is cleared before that.
    pub fn advance(&mut self, now: u64, mut fired: impl FnMut(u32)) {
        while let Some((level, slot, tick)) = self.next_slot() {
            if tick > now {
                break;
            }
            self.elapsed = self.elapsed.max(tick);
            let place = level * SLOTS + slot;
            let mut index = std::mem::replace(&mut self.heads[place], NONE);
            self.occupied[level] &= !(1 << slot);
            while index != NONE {
                let node = &mut self.nodes[index as usize];
                let following = node.next;
                node.place = UNFILED;
                let deadline = node.deadline();
                if deadline == NEVER {
                    // Cleared while filed.
                } else if deadline <= now {
                    node.deadline = NEVER.into();
                    fired(index);
                } else {
                    self.file(index, deadline);
                }
                index = following;
            }
        }
        self.elapsed = self.elapsed.max(now);
    }

    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        (0..LEVELS).find_map(|level| {
            if self.occupied[level] == 0 {
                return None;
            }
            let shift = 6 * level as u32;
            let current = (self.elapsed >> shift) as u32 & 63;
            let ahead = self.occupied[level].rotate_right(current).trailing_zeros();
            let slot = ((current + ahead) & 63) as usize;
            Some((level, slot, self.tick_of((level * SLOTS + slot) as u16)))
        })
    }

    /// When the slot at this place comes up next.
    fn tick_of(&self, place: u16) -> u64 {
        let (level, slot) = (usize::from(place) / SLOTS, u64::from(place) % SLOTS as u64);
        let span = 1u64 << (6 * level);
        let revolution = span * SLOTS as u64;
        let mut tick = (self.elapsed & !(revolution - 1)) + slot * span;
        // Slots behind the current one belong to the next revolution; only the last level wraps.
        if tick + span <= self.elapsed {
            tick += revolution;
        }
        tick.max(self.elapsed)
    }

    fn file(&mut self, index: u32, deadline: u64) {
        let tick = deadline.max(self.elapsed);
        let differing = tick ^ self.elapsed;
        let level = if differing == 0 { 0 } else { (63 - differing.leading_zeros() as usize) / 6 };
        let (level, tick) = if level < LEVELS {
            (level, tick)
        } else {
            // In another revolution of the last level. Its slots may wrap, but not reach the current one again: what is
            // farther is filed under the farthest slot and looked at again then.
            let farthest = self.elapsed + (1u64 << (6 * LEVELS as u32)) - (1u64 << (6 * (LEVELS as u32 - 1)));
            (LEVELS - 1, tick.min(farthest))
        };
        let slot = (tick >> (6 * level as u32)) as usize & (SLOTS - 1);
        let place = level * SLOTS + slot;
        let head = self.heads[place];
        if head != NONE {
            self.nodes[head as usize].prev = index;
        }
        let node = &mut self.nodes[index as usize];
        (node.next, node.prev, node.place) = (head, NONE, place as u16);
        self.heads[place] = index;
        self.occupied[level] |= 1 << slot;
    }

    fn unfile(&mut self, index: u32) {
        let Node { next, prev, place, .. } = self.nodes[index as usize];
        if place == UNFILED {
            return;
        }
        let place = place as usize;
        if next != NONE {
            self.nodes[next as usize].prev = prev;
        }
        if prev == NONE {
            self.heads[place] = next;
            if next == NONE {
                self.occupied[place / SLOTS] &= !(1 << (place % SLOTS));
            }
        } else {
            self.nodes[prev as usize].next = next;
        }
        self.nodes[index as usize].place = UNFILED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fired(wheel: &mut Wheel, now: u64) -> Vec<u32> {
        let mut all = Vec::new();
        wheel.advance(now, |index| all.push(index));
        all.sort_unstable();
        all
    }

    #[test]
    fn a_deadline_fires_once_at_its_time() {
        let mut wheel = Wheel::new(1_000, 0);
        wheel.set(3, 1_500);
        assert_eq!(fired(&mut wheel, 1_499), []);
        assert_eq!(fired(&mut wheel, 1_500), [3]);
        assert_eq!(fired(&mut wheel, 9_000), []);
    }

    #[test]
    fn moved_deadline_fires_at_its_new_time() {
        let mut wheel = Wheel::new(0, 0);
        wheel.set(0, 100);
        wheel.set(0, 70_000);
        wheel.set(1, 70_000);
        wheel.set(1, 100);
        assert_eq!(fired(&mut wheel, 100), [1]);
        assert_eq!(fired(&mut wheel, 69_999), []);
        assert_eq!(fired(&mut wheel, 70_000), [0]);
    }

    #[test]
    fn earlier_deadline_after_a_cleared_one_fires_in_time() {
        let mut wheel = Wheel::new(0, 0);
        wheel.set(0, 100_000);
        wheel.clear(0);
        wheel.set(0, 70);
        assert!(wheel.next_tick().is_some_and(|tick| tick <= 70));
        assert_eq!(fired(&mut wheel, 70), [0]);
    }

    #[test]
    fn a_timer_is_small() {
        assert_eq!(size_of::<Node>(), 16);
    }

    #[test]
    fn a_deadline_beyond_the_wheel_is_kept() {
        let mut wheel = Wheel::new(5, 0);
        let far = 5 + (1 << 40);
        wheel.set(0, far);
        assert_eq!(fired(&mut wheel, far - 1), []);
        assert_eq!(fired(&mut wheel, far), [0]);
    }

    proptest! {
        /// Against a plain table: the same tasks fire at the same step, and `next_tick` never oversleeps.
        #[test]
        fn behaves_like_a_table(steps in prop::collection::vec((0u32..20, 0u64..200_000, 0u64..5_000, any::<bool>()), 1..300)) {
            let mut wheel = Wheel::new(0, 0);
            let mut table = std::collections::BTreeMap::<u32, u64>::new();
            let mut now = 0;
            for (index, delay, pass, clear) in steps {
                if clear {
                    wheel.clear(index);
                    table.remove(&index);
                } else {
                    wheel.set(index, now + delay);
                    table.insert(index, now + delay);
                }
                if let Some(earliest) = table.values().min() {
                    prop_assert!(wheel.next_tick().is_some_and(|tick| tick <= (*earliest).max(now)));
                }
                now += pass;
                let due: Vec<u32> = table.iter().filter(|(_, at)| **at <= now).map(|(index, _)| *index).collect();
                table.retain(|_, at| *at > now);
                prop_assert_eq!(fired(&mut wheel, now), due);
            }
        }
    }
}
