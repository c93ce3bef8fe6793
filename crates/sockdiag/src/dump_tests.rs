//! Dumps with sockets that are reported twice, marks, refusals, replies to another question, and one of a million
//! sockets.

use super::*;
use crate::netlink::AF_INET;
use crate::scripted::{NLM_F_DUMP_INTR, SOCKETS_OF_A_READ, push_done, push_socket};

/// One read with these sockets.
fn read(sequence: u32, flags: u16, cookies: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for cookie in cookies {
        push_socket(&mut bytes, AF_INET, flags, sequence, cookie);
    }
    bytes
}

fn done(sequence: u32, error: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    push_done(&mut bytes, sequence, error);
    bytes
}

/// Takes all reads; the cookies that were handed over.
fn visited(dump: &mut Dump, reads: &[Vec<u8>]) -> Vec<u64> {
    let mut cookies = Vec::new();
    for bytes in reads {
        dump.take(bytes, |socket| cookies.push(socket.cookie)).expect("well-formed");
    }
    cookies
}

#[test]
fn hands_over_a_repeated_socket_once() {
    let mut dump = Dump::new(7);
    // Two sockets came in front of 3 in its chain, so that the next read begins two places before where it should.
    let reads = [read(7, 0, [1, 2, 3]), read(7, 0, [2, 3, 4]), read(7, 0, [4, 5]), done(7, 0)];
    assert_eq!(visited(&mut dump, &reads), [1, 2, 3, 4, 5]);
    assert!(dump.complete && !dump.interrupted);
    assert_eq!(dump.retold, 3);
}

#[test]
fn remembered_sockets_may_repeat() {
    let mut dump = Dump::new(1);
    let all = 1..=2 * RETOLD_MAX as u64;
    let last = RETOLD_MAX as u64 + 1..=2 * RETOLD_MAX as u64;
    let reads = [read(1, 0, all.clone()), read(1, 0, last), done(1, 0)];
    assert_eq!(visited(&mut dump, &reads), all.collect::<Vec<_>>());
    assert_eq!(dump.retold, RETOLD_MAX as u64);
}

#[test]
fn sockets_without_a_cookie_are_all_handed_over() {
    let mut dump = Dump::new(1);
    assert_eq!(visited(&mut dump, &[read(1, 0, [0, 0, 0])]), [0, 0, 0]);
    assert!(!dump.complete);
}

#[test]
fn distinguishes_marks_refusals_and_foreign_answers() {
    let mut dump = Dump::new(7);
    // Late answers to question 6, its end among them.
    assert_eq!(visited(&mut dump, &[read(6, 0, [1]), done(6, 0), read(7, NLM_F_DUMP_INTR, [2])]), [2]);
    assert!(dump.interrupted && !dump.complete);
    let refused = dump.take(&done(7, 12), |_| panic!("it is the end")).expect_err("ENOMEM");
    assert_eq!(
        refused.to_string(),
        "the kernel refuses the question over netlink: Cannot allocate memory (os error 12)"
    );
}

#[test]
fn a_million_sockets_take_the_memory_of_a_few() {
    const SOCKETS: u64 = 1_000_000;
    // Beside this a census has one read's buffer; nothing in it grows.
    assert!(size_of::<Dump>() <= 512, "{} bytes", size_of::<Dump>());
    let mut dump = Dump::new(1);
    let (mut count, mut sum, mut next, mut told_again) = (0_u64, 0_u64, 1_u64, 0_u64);
    while next <= SOCKETS {
        // The kernel reports more and more earlier sockets again, as if sockets were added during the dump.
        let again = (next / 1000 % RETOLD_MAX as u64).min(next - 1);
        told_again += again;
        let last = (next - again + SOCKETS_OF_A_READ as u64 - 1).min(SOCKETS);
        let bytes = read(1, 0, next - again..=last);
        dump.take(&bytes, |socket| (count, sum) = (count + 1, sum + socket.cookie)).expect("well-formed");
        next = last + 1;
    }
    dump.take(&done(1, 0), |_| panic!("it is the end")).expect("well-formed");
    assert!(dump.complete);
    assert_eq!((count, sum), (SOCKETS, SOCKETS * (SOCKETS + 1) / 2), "each once");
    assert_eq!(dump.retold, told_again);
    assert!(told_again > 10_000, "{told_again}");
}
