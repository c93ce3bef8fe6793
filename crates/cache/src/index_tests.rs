//! Tests of the index: lookups, eviction, and the right to fill a key.

use super::*;
use proptest::prelude::*;
use std::hash::RandomState;

fn key(number: u8) -> Key {
    Key([number; 16])
}

fn index(keys_max: usize) -> Index<RandomState> {
    Index::new(keys_max, 10, RandomState::new())
}

fn enter(index: &mut Index<RandomState>, number: u8, now_s: i64) -> Entered {
    index.enter(key(number), key(number).tag(), 1, now_s).expect("room")
}

fn store(index: &mut Index<RandomState>, number: u8, bytes: u64, now_s: i64) {
    let place = enter(index, number, now_s).place;
    assert!(index.stored(place, bytes).is_empty());
    index.leave(place);
}

#[test]
fn node_size_matches_its_documentation() {
    assert!(size_of::<Node>() <= 80, "{}", size_of::<Node>());
}

#[test]
fn a_key_gets_a_file_after_enough_uses() {
    let mut index = index(10);
    let mut ask = || {
        let entered = index.enter(key(1), 0, 3, 0).expect("room");
        index.leave(entered.place);
        entered.found
    };
    assert_eq!([ask(), ask(), ask(), ask()], [Found::New, Found::Scarce, Found::NoFile, Found::NoFile]);
}

#[test]
fn the_key_that_was_used_longest_ago_gives_way() {
    let mut index = index(2);
    store(&mut index, 1, 5, 0);
    store(&mut index, 2, 6, 1);
    assert_eq!(enter(&mut index, 1, 2).found, Found::File);
    let entered = enter(&mut index, 3, 3);
    assert_eq!((entered.found, entered.evicted), (Found::New, Some(key(2))));
    assert_eq!(index.sums(), Stored { keys: 2, keys_max: 2, bytes: 5 });
    assert_eq!(index.enter(key(4), 0, 1, 3), Err(Full), "both are in use");
}

#[test]
fn unused_keys_expire_and_used_ones_stay() {
    let mut index = index(10);
    store(&mut index, 1, 1, 0);
    store(&mut index, 2, 1, 5);
    let held = enter(&mut index, 3, 0).place;
    assert_eq!(index.expire(9, 10), []);
    assert_eq!(index.expire(10, 10), [key(1)]);
    assert_eq!(index.expire(15, 10), [key(2)], "the key in use has become the newest");
    index.leave(held);
    assert_eq!((index.expire(25, 10), index.sums().keys), (vec![], 0), "it had no file");
}

#[test]
fn the_oldest_go_until_there_is_little_enough() {
    let mut index = index(10);
    for number in 1..=4 {
        store(&mut index, number, 10, 0);
    }
    let held = enter(&mut index, 1, 0).place;
    assert_eq!(index.shrink(25, 10), [key(2), key(3)]);
    assert_eq!(index.shrink(0, 10), [key(4)], "the first one is in use");
    index.leave(held);
    assert_eq!(index.sums().bytes, 10);
}

#[test]
fn one_process_fills_a_key_and_others_learn_it() {
    let mut index = index(10);
    let [first, second] = [enter(&mut index, 1, 0).place, enter(&mut index, 1, 0).place];
    assert_eq!(index.lock(first, 100, 50), Lock::Taken);
    assert_eq!(index.lock(second, 120, 50), Lock::Until(150));
    index.wait(second, 7);
    assert_eq!(index.stored(first, 3), [7]);
    assert_eq!(index.look(second, 1, 0), Some(Found::File));
    assert_eq!(index.lock(first, 200, 50), Lock::Taken);
    assert_eq!(index.lock(second, 251, 50), Lock::Taken, "the first one took too long");
    assert!(index.release(first).is_empty());
}

#[test]
fn an_update_is_left_to_another_exchange() {
    let mut index = index(10);
    let place = enter(&mut index, 1, 0).place;
    assert_eq!(index.lock(place, 0, 60), Lock::Taken);
    index.take_over(place, 50, 60);
    assert_eq!(index.lock(place, 70, 60), Lock::Until(110));
    assert!(index.release(place).is_empty());
    assert_eq!(index.lock(place, 70, 60), Lock::Taken);
}

#[test]
fn news_of_a_key_leaves_its_lock() {
    let mut index = index(10);
    let place = enter(&mut index, 1, 0).place;
    assert_eq!(index.lock(place, 0, 60), Lock::Taken);
    index.wait(place, 7);
    assert_eq!(index.take_waiting(place), [7]);
    assert!(index.take_waiting(place).is_empty() && !index.has_file(place));
    assert_eq!(index.lock(place, 1, 60), Lock::Until(60), "it is still taken");
    index.wait(place, 8);
    assert_eq!(index.stored(place, 5), [8]);
    assert!(index.has_file(place));
}

#[test]
fn a_status_counts_for_its_time() {
    let mut index = index(10);
    let place = enter(&mut index, 1, 0).place;
    index.set_status(place, 502, 5);
    assert_eq!(index.look(place, 1, 5), Some(Found::Status(502)));
    assert_eq!(index.look(place, 1, 6), Some(Found::New));
}

#[test]
fn a_purge_takes_all_variants() {
    let mut index = index(10);
    store(&mut index, 1, 1, 0);
    store(&mut index, 9, 1, 0);
    let variant = index.enter(key(2), key(1).tag(), 1, 0).expect("room").place;
    assert!(index.stored(variant, 4).is_empty());
    let mut known = index.variants(key(1));
    known.sort();
    assert_eq!(known, [key(1), key(2)]);
    let mut gone = index.purge(key(1));
    gone.sort();
    assert_eq!((gone, index.sums().bytes), (vec![key(1), key(2)], 1));
    assert_eq!(index.look(variant, 1, 0), Some(Found::NoFile), "it is in use");
    index.leave(variant);
    index.forget(key(9));
    assert_eq!((index.sums().keys, index.sums().bytes), (1, 0), "the variant's key, without its file");
    index.forget(key(2));
    assert_eq!(index.sums().keys, 0);
}

#[test]
fn a_place_outlives_its_node_and_names_nothing_else() {
    let mut index = index(1);
    let place = enter(&mut index, 1, 0).place;
    index.leave(place);
    let other = enter(&mut index, 2, 0).place;
    assert_eq!(index.look(place, 1, 0), None);
    index.note_file(place, Some(9));
    index.set_status(place, 500, 9);
    assert!(index.stored(place, 9).is_empty());
    assert_eq!((index.look(other, 1, 0), index.sums().bytes), (Some(Found::NoFile), 0));
}

#[derive(Debug, Clone)]
enum Act {
    Enter(u8),
    Leave,
    Store(u64),
    NoFile,
    Expire(i64),
    Shrink(u64),
    Purge(u8),
    Load(u8, u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..8_u8).prop_map(Act::Enter),
        3 => Just(Act::Leave),
        3 => (0..100_u64).prop_map(Act::Store),
        1 => Just(Act::NoFile),
        1 => (0..40_i64).prop_map(Act::Expire),
        1 => (0..200_u64).prop_map(Act::Shrink),
        1 => (0..8_u8).prop_map(Act::Purge),
        2 => (0..8_u8, 0..100_u64).prop_map(|(key, bytes)| Act::Load(key, bytes)),
    ]
}

/// Half of the keys are variants of the others.
fn main_of(number: u8) -> u8 {
    number % 4
}

proptest! {
    #[test]
    fn sums_and_order_stay_right(acts in prop::collection::vec(act(), 0..80)) {
        let mut index = index(5);
        let mut held: Vec<Place> = Vec::new();
        for (now_s, act) in (0..).zip(acts) {
            match act {
                Act::Enter(number) => {
                    if let Ok(entered) = index.enter(key(number), key(main_of(number)).tag(), 1, now_s) {
                        held.push(entered.place);
                    }
                }
                Act::Leave => held.pop().into_iter().for_each(|place| index.leave(place)),
                Act::Store(bytes) => drop(held.last().map(|place| index.stored(*place, bytes))),
                Act::NoFile => held.iter().for_each(|place| {
                    index.note_file(*place, None);
                }),
                Act::Expire(by) => drop(index.expire(now_s + by, 3)),
                Act::Shrink(bytes) => drop(index.shrink(bytes, 3)),
                Act::Purge(number) => drop(index.purge(key(main_of(number)))),
                Act::Load(number, bytes) => {
                    let tag = key(main_of(number)).tag();
                    index.load(Record { key: key(number), tag, bytes, expires_s: now_s + 10 });
                }
            }
            let sums = index.sums();
            prop_assert!(sums.keys <= 5);
            prop_assert_eq!(index.records().map(|record| record.bytes).sum::<u64>(), sums.bytes);
            let nodes = std::iter::successors(index.nodes.get(index.oldest as usize), |node| {
                index.nodes.get(node.newer as usize)
            });
            prop_assert_eq!(nodes.count(), sums.keys);
            for number in 0..4 {
                let mut variants = index.variants(key(number));
                variants.sort();
                let mut meant: Vec<Key> = [number, number + 4].map(key).into_iter().filter(|key| index.knows(*key)).collect();
                meant.sort();
                prop_assert_eq!(variants, meant);
            }
            prop_assert!(index.variants.len() <= 4);
            for place in &held {
                prop_assert!(index.look(*place, 1, now_s).is_some(), "a key in use is gone");
            }
        }
    }
}

/// Two processes that tell each other everything.
struct Pair {
    indexes: [Index<RandomState>; 2],
    told: Vec<News>,
    /// How much of it each has read.
    read: [usize; 2],
}

impl Pair {
    fn new() -> Self {
        Self { indexes: [index(100), index(100)], told: Vec::new(), read: [0; 2] }
    }

    fn catch_up(&mut self, at: usize) {
        self.told[self.read[at]..].iter().for_each(|news| self.indexes[at].apply(*news));
        self.read[at] = self.told.len();
    }

    fn files(&mut self, at: usize) -> Vec<(Key, u64)> {
        let mut files: Vec<_> = self.indexes[at].records().map(|record| (record.key, record.bytes)).collect();
        files.sort();
        files
    }

    fn act(&mut self, at: usize, act: u8, number: u8, now_s: i64) {
        let index = &mut self.indexes[at];
        match act {
            0 | 1 => {
                let place = enter(index, number, now_s).place;
                let _ = index.stored(place, u64::from(number) + u64::from(act));
                self.told.extend(index.news(place));
                index.leave(place);
            }
            2 => {
                let entered = enter(index, number, now_s);
                self.told.extend(entered.used.map(News::File));
                index.leave(entered.place);
            }
            3 => {
                index.forget(key(number));
                self.told.push(News::Gone(key(number)));
            }
            4 => {
                let _ = index.purge(key(number));
                self.told.push(News::Purged(key(number)));
            }
            5 => self.told.extend(index.expire(now_s, 3).into_iter().map(News::Gone)),
            _ => self.catch_up(at),
        }
    }
}

#[test]
fn a_status_is_known_to_all_processes_for_its_time() {
    let mut pair = Pair::new();
    let place = enter(&mut pair.indexes[0], 1, 0).place;
    pair.indexes[0].set_status(place, 502, 5);
    let news = pair.indexes[0].news(place).expect("it has one");
    pair.told.push(news);
    pair.catch_up(1);
    assert_eq!(enter(&mut pair.indexes[1], 1, 5).found, Found::Status(502));
    assert_eq!(enter(&mut pair.indexes[1], 1, 6).found, Found::New);
}

#[test]
fn uses_are_published_and_keep_keys() {
    let mut pair = Pair::new();
    pair.act(0, 0, 1, 0);
    pair.catch_up(1);
    // Ten seconds of `inactive` are told every two seconds.
    for now_s in 0..60 {
        for _ in 0..100 {
            pair.act(1, 2, 1, now_s);
        }
        pair.catch_up(0);
        let notice_delay_s = i64::from(pair.indexes[0].notice_delay_s());
        assert_eq!(pair.indexes[0].expire(now_s - notice_delay_s, 10), []);
    }
    assert!((25..35).contains(&pair.told.len()), "{}", pair.told.len());
}

proptest! {
    #[test]
    fn processes_that_have_read_everything_know_the_same_files(
        acts in prop::collection::vec((0_usize..2, 0_u8..8, 0_u8..5, 0_i64..3), 0..80)
    ) {
        let (mut pair, mut now_s) = (Pair::new(), 100);
        for (at, act, number, later_s) in acts {
            now_s += later_s;
            pair.act(at, act, number, now_s);
        }
        (0..2).for_each(|at| pair.catch_up(at));
        prop_assert_eq!(pair.files(0), pair.files(1));
        prop_assert_eq!(pair.indexes[0].sums().bytes, pair.indexes[1].sums().bytes);
    }
}
