//! The census over a kernel that is scripted: the other end of a pair of sockets answers each question as the test wants it.

use super::*;
use crate::scripted::{NLM_F_DUMP_INTR, SOCKETS_OF_A_READ, push_done, push_socket};
use rustix::net::socketpair;
use std::collections::HashSet;
use std::ops::RangeInclusive;

/// What the kernel answers to one question: sockets with these cookies, and whether it marks them as changed meanwhile.
struct Answer {
    cookies: RangeInclusive<u64>,
    interrupted: bool,
}

fn answer(cookies: RangeInclusive<u64>) -> Answer {
    Answer { cookies, interrupted: false }
}

/// Runs `work` over a census of which the questions are answered by these, one after the other; each family is a question.
fn over<T>(answers: Vec<Answer>, work: impl FnOnce(&mut Census) -> T) -> T {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for answer in answers {
                reply(&theirs, &answer);
            }
        });
        let mut census = Census { socket: Some(ours), ..Census::new(Source::Netlink) };
        work(&mut census)
    })
}

/// Reads a question and answers it in reads as full as a kernel's.
fn reply(socket: &OwnedFd, answer: &Answer) {
    let mut question = [0; 256];
    let (_, length) = recv(socket, &mut question[..], RecvFlags::empty()).expect("asked");
    assert!(length >= 72, "{length} bytes");
    let sequence = u32::from_ne_bytes([question[8], question[9], question[10], question[11]]);
    let family = question[16];
    let cookies: Vec<u64> = answer.cookies.clone().collect();
    for of_one_read in cookies.chunks(SOCKETS_OF_A_READ) {
        let mut bytes = Vec::new();
        for cookie in of_one_read {
            let flags = if answer.interrupted { NLM_F_DUMP_INTR } else { 0 };
            push_socket(&mut bytes, family, flags, sequence, *cookie);
        }
        send(socket, &bytes, SendFlags::empty()).expect("it is read");
    }
    let mut end = Vec::new();
    push_done(&mut end, sequence, 0);
    send(socket, &end, SendFlags::empty()).expect("it is read");
}

#[test]
fn a_family_that_is_not_wanted_is_not_asked_for() {
    for (families, is_v4) in [(Families::V4, true), (Families::V6, false)] {
        // A second question would wait for an answer in vain.
        let question = Question { families, ..Question::default() };
        let mut all = Vec::new();
        over(vec![answer(1..=3)], |census| census.for_each(&question, |socket| all.push(*socket))).expect("answered");
        assert!(all.len() == 3 && all.iter().all(|socket| socket.remote.is_ipv4() == is_v4), "{families:?}: {all:?}");
    }
}

#[test]
fn a_million_sockets_are_counted_to_the_last_one() {
    let answers = vec![answer(1..=700_000), answer(700_001..=1_000_000)];
    let ((v4, v6, waiting), summary) = over(answers, |census| {
        let (mut v4, mut v6, mut waiting) = (0_u64, 0_u64, 0_u64);
        let summary = census.for_each(&Question::default(), |socket| {
            *if socket.local.is_ipv4() { &mut v4 } else { &mut v6 } += 1;
            waiting += u64::from(socket.state == crate::State::TimeWait);
        });
        ((v4, v6, waiting), summary.expect("answered"))
    });
    assert_eq!((v4, v6, waiting), (700_000, 300_000, 333_333));
    let expected = Summary { sockets: 1_000_000, unknown: 0, retold: 0, interrupted: false, attempts: 1 };
    assert_eq!(summary, expected);
}

#[test]
fn restarted_dump_counts_only_its_last_pass() {
    let marked = |cookies| Answer { cookies, interrupted: true };
    let cookies = |answers| {
        over(answers, |census| {
            let visit = |found: &mut HashSet<u64>, socket: &Socket| assert!(found.insert(socket.cookie));
            census.collect(&Question::default(), HashSet::new, visit).expect("answered")
        })
    };
    // Of the first attempt 4 and 5 have gone at the second, and 6 has come.
    let (found, summary) = cookies(vec![marked(1..=5), answer(11..=12), answer(1..=3), answer(6..=6)]);
    assert_eq!(found, HashSet::from([1, 2, 3, 6]));
    assert_eq!((summary.attempts, summary.interrupted, summary.sockets), (2, false, 4));
    // Marked each time, it is reported as marked, and ends.
    let always = (0..ATTEMPTS_MAX).flat_map(|_| [answer(1..=9), marked(11..=12)]).collect();
    let (found, summary) = cookies(always);
    assert_eq!((found.len(), summary.attempts, summary.interrupted), (11, ATTEMPTS_MAX, true));
}

#[test]
fn empty_read_does_not_loop_forever() {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a pair");
    let mut census = Census { socket: Some(ours), ..Census::new(Source::Netlink) };
    rustix::net::shutdown(&theirs, rustix::net::Shutdown::Write).expect("connected");
    let error = census.for_each(&Question::default(), |_| {}).expect_err("nothing will come");
    assert_eq!(error.to_string(), "a reply over netlink is malformed: a read came back empty");
}
