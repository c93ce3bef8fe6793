//! `proxy_cache` compared with nginx: conversations of several requests with pauses between them. The conversations
//! overlap, so that all of them together take seconds.

use super::accepted::{self, Accepted};
use super::cases::caching::{Conversation, Move, conversations};
use super::cgi_applications::{self, Protocol};
use super::talk::{self, Observed};
use super::{Nginx, Side, Sides, cache_origin, compare, dead_port};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use testkit::sides::nginx_or_skip;

/// How long a request waits for the one ahead of it to reach the upstream.
const BESIDE: Duration = Duration::from_millis(150);

/// Concurrent conversations.
const AT_ONCE: usize = 48;

#[test]
fn caches_as_the_systems_nginx_does() {
    compare_with(Nginx::Old);
}

#[test]
fn caches_as_the_newest_nginx_does() {
    compare_with(Nginx::New);
}

fn compare_with(generation: Nginx) {
    let Some(nginx) = nginx_or_skip(generation) else { return };
    let origin = cache_origin::start();
    let dead = dead_port();
    let [fastcgi, scgi, uwsgi] = [Protocol::Fastcgi, Protocol::Scgi, Protocol::Uwsgi].map(cgi_applications::start);
    let upstreams = [origin.address(), dead.local_addr().unwrap().as_socket().unwrap(), fastcgi, scgi, uwsgi];
    let sides = Sides::start(&nginx, include_str!("cases/caching.conf"), &upstreams, &[]);
    let accepted = accepted::read(include_str!("accepted.txt"), generation);
    let only = std::env::var("DIFFERENTIAL").ok();
    let chosen: Vec<Conversation> = conversations()
        .into_iter()
        .filter(|conversation| only.as_deref().is_none_or(|part| conversation.name.contains(part)))
        .collect();
    let mut wrong = Vec::new();
    for batch in chosen.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let running: Vec<_> = batch
                .iter()
                .map(|conversation| {
                    let [theirs, ours] = [Side::Nginx, Side::Ours]
                        .map(|side| sides.address(side, 0))
                        .map(|address| scope.spawn(move || run(address, conversation)));
                    (conversation, theirs, ours)
                })
                .collect();
            for (conversation, theirs, ours) in running {
                let (theirs, ours) = (theirs.join().unwrap(), ours.join().unwrap());
                wrong.extend(differences(conversation, &theirs, &ours, &accepted));
            }
        });
    }
    if only.is_none() {
        wrong.extend(
            accepted.iter().filter_map(|line| line.unused("caching")).map(|line| format!("not needed: {line}")),
        );
    }
    let log = sides.our_log();
    assert!(!log.contains("bug in holdfast"), "{log}");
    assert!(chosen.len() > 200 || only.is_some(), "{} conversations", chosen.len());
    let name = generation.program();
    let count = wrong.len();
    assert!(wrong.is_empty(), "{count} differences ({name}'s -> ours):\n    {}\n{log}", wrong.join("\n    "));
}

fn run(address: std::net::SocketAddr, conversation: &Conversation) -> Vec<Observed> {
    let mut heard = Vec::new();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for step in &conversation.moves {
            if !matches!(step, Move::Beside(_)) {
                heard.extend(running.drain(..).map(|asked: ScopedJoinHandle<'_, Observed>| asked.join().unwrap()));
            }
            match step {
                // The connection's next request is answered when the response is stored, so the next request here finds it.
                Move::Ask(case) => running.push(scope.spawn(move || talk::run(address, case))),
                // The upstream has the earlier request by then.
                Move::Beside(case) => {
                    pause(BESIDE);
                    running.push(scope.spawn(move || talk::run(address, case)));
                }
                // The pause lets a stored response age.
                Move::Pause(time) => pause(*time),
            }
        }
        heard.extend(running.into_iter().map(|asked| asked.join().unwrap()));
    });
    heard
}

fn pause(time: Duration) {
    let begun = Instant::now();
    testkit::until("the pause is over", || (begun.elapsed() >= time).then_some(()));
}

fn differences(
    conversation: &Conversation,
    theirs: &[Observed],
    ours: &[Observed],
    accepted: &[Accepted],
) -> Vec<String> {
    let asks = conversation.moves.iter().filter_map(|step| match step {
        Move::Ask(case) | Move::Beside(case) => Some(case),
        Move::Pause(_) => None,
    });
    let mut wrong = Vec::new();
    for ((case, theirs), ours) in asks.zip(theirs).zip(ours) {
        for difference in compare::differences(theirs, ours) {
            if accepted.iter().filter(|line| line.covers("caching", &case.name, &difference)).count() == 0 {
                wrong.push(format!("caching/{} :: {difference}", case.name));
            }
        }
    }
    wrong
}
