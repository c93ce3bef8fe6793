//! Causes that need made samples: a kernel that kills, a processor that is taken away, a clock that jumps. Those that can be injected are
//! tested with real servers in `holdfast/tests/it/incident`.

use super::*;
use crate::sample::{ControlGroup, Counts, Errors, Group, Listener, Peer, Sockets};

const BEGUN_MS: u64 = 1_795_658_400_000;

/// A sample each second of a gateway with two peers, all well.
fn well(second: u64) -> Sample {
    let peer = |address: &str| Peer {
        address: address.to_owned(),
        attempts: 50,
        timed: 50,
        mean_ms: Some(4.0 + (second % 3) as f64),
        ..Peer::default()
    };
    let group =
        Group { name: "app".to_owned(), peers: vec![peer("10.0.0.1:80"), peer("10.0.0.2:80")], ..Group::default() };
    Sample {
        at_ms: BEGUN_MS + second * 1000,
        up_ms: second * 1000,
        over_ms: 1000,
        gateway: Some(Gateway {
            started_at_s: 1,
            generation: 3,
            requests: 100,
            groups: vec![group],
            ..Gateway::default()
        }),
        sockets: Some(Sockets {
            listeners: vec![Listener { address: "0.0.0.0:80".to_owned(), backlog: Some(511), ..Listener::default() }],
            ..Sockets::default()
        }),
        ..Sample::default()
    }
}

/// Ten minutes, changed from one second to another.
fn recording(change: impl Fn(u64, &mut Sample)) -> Recording {
    let head = Head { format: crate::sample::FORMAT, interval_ms: 1000, processors: 2, ..Head::default() };
    let sample = |second| {
        let mut sample = well(second);
        change(second, &mut sample);
        sample
    };
    Recording { samples: (0..600).map(sample).collect(), heads: vec![(BEGUN_MS, head)], ..Recording::default() }
}

/// Judges the last five minutes.
fn judged(recording: &Recording) -> Judgement {
    judge(recording, Question { from_ms: BEGUN_MS + 300_000, until_ms: BEGUN_MS + 600_000 })
}

/// Cause, subject and second of each claim, its consequences behind it.
fn named(judgement: &Judgement) -> Vec<(&'static str, String, u64)> {
    let all = judgement.claims.iter().flat_map(|claim| std::iter::once(claim).chain(&claim.consequences));
    all.map(|claim| (claim.cause.name(), claim.subject.clone(), (claim.since_ms - BEGUN_MS) / 1000)).collect()
}

fn errors(cause: &str, subject: &str, count: u64) -> Errors {
    Errors { cause: cause.to_owned(), subject: subject.to_owned(), count }
}

fn gateway(sample: &mut Sample) -> &mut Gateway {
    sample.gateway.as_mut().expect("it is there")
}

#[test]
fn nothing_is_claimed_of_a_well_gateway_or_of_nothing() {
    let judgement = judged(&recording(|_, _| {}));
    assert_eq!((named(&judgement), judgement.samples, judgement.samples_before), (vec![], 300, 300));
    let text = text(&judgement, Zone::of_minutes(0));
    assert!(text.starts_with("Nothing unusual from 2026-11-26 02:05:00 to 02:10:00."), "{text}");
    assert!(
        text.contains("Looked at: sockets: free ports of up to 0 destinations, queues of up to 1 listeners, 300 times"),
        "{text}"
    );
    let nothing = judge(&Recording::default(), Question { from_ms: 10_000, until_ms: 60_000 });
    assert_eq!(nothing.gaps, [Gap { from_ms: 10_000, until_ms: 60_000 }]);
    assert!(summary(&nothing, Zone::of_minutes(0)).starts_with("No samples from "));
}

#[test]
fn usual_errors_are_no_incident_and_more_of_them_are() {
    let refused = |second: u64, burst_from: u64| {
        recording(move |at, sample| {
            if at % 20 == 7 {
                sample.errors.push(errors("log-upstream-refused", "http://10.0.0.1:80", 1));
            }
            if (burst_from..burst_from + second).contains(&at) {
                sample.errors.push(errors("log-upstream-refused", "http://10.0.0.1:80", 9));
            }
        })
    };
    assert_eq!(named(&judged(&refused(0, 0))), []);
    assert_eq!(named(&judged(&refused(5, 401))), [("peer-refuses", "10.0.0.1:80".to_owned(), 401)]);
    // It began before the window, and still went on in it.
    let judgement = judged(&recording(|at, sample| {
        if (290..320).contains(&at) {
            sample.errors.push(errors("log-upstream-refused", "http://10.0.0.1:80", 9));
        }
    }));
    assert!(judgement.claims.is_empty() || named(&judgement)[0].2 <= 301, "{judgement:?}");
}

#[test]
fn a_killed_process_explains_what_follows() {
    let judgement = judged(&recording(|second, sample| {
        if second == 400 {
            sample.machine.group =
                Some(ControlGroup { memory_limit_kb: Some(65_536), oom_kills: 1, ..ControlGroup::default() });
        }
        if (401..410).contains(&second) {
            sample.gateway = None;
            sample.unanswered = Some("no instance listens there".to_owned());
        }
        if second >= 410 {
            gateway(sample).started_at_s = 2;
        }
    }));
    assert_eq!(named(&judgement), [("process-killed", String::new(), 400), ("gateway-silent", String::new(), 401)]);
    assert_eq!(judgement.claims.len(), 1);
    assert_eq!(judgement.events.len(), 1, "{:?}", judgement.events);
    assert!(judgement.claims[0].what.contains("control group"));
    let document = document(&judgement, Zone::of_minutes(0));
    assert!(document.findings().next().is_some_and(|finding| finding.fix.contains("memory_budget")));
}

#[test]
fn a_processor_counts_only_if_something_became_worse() {
    let slow = |ms: f64| {
        move |second: u64, sample: &mut Sample| {
            sample.machine.busy_ms = 300;
            if (400..440).contains(&second) {
                (sample.machine.busy_ms, sample.machine.steal_ms) = (1990, if ms < 100.0 { 0 } else { 900 });
                for peer in gateway(sample).groups.iter_mut().flat_map(|group| &mut group.peers) {
                    peer.mean_ms = Some(ms);
                }
            }
        }
    };
    assert_eq!(named(&judged(&recording(slow(5.0)))), []);
    assert_eq!(named(&judged(&recording(slow(40.0)))), [("cpu-exhausted", String::new(), 400)]);
    let taken = named(&judged(&recording(slow(300.0))));
    assert_eq!(taken[0], ("cpu-taken", String::new(), 400));
    assert!(taken.iter().any(|(cause, ..)| *cause == "peer-slow"), "{taken:?}");
    assert_eq!(judged(&recording(slow(300.0))).claims.len(), 1);
}

#[test]
fn an_ended_certificate_is_named_if_clients_refuse_it() {
    let end_s = i64::try_from(BEGUN_MS / 1000 + 450).expect("fits");
    let failing = |fails: bool| {
        recording(move |second, sample| {
            gateway(sample).certificate = Some(("shop.example".to_owned(), end_s));
            gateway(sample).handshakes_failed = u64::from(second > 450 && fails);
        })
    };
    assert_eq!(named(&judged(&failing(true))), [("certificate-expired", "shop.example".to_owned(), 451)]);
    assert_eq!(named(&judged(&failing(false))), []);
}

#[test]
fn a_slow_moment_is_no_slow_peer() {
    let slow = |seconds: u64| {
        recording(move |second, sample| {
            if (400..400 + seconds).contains(&second) {
                gateway(sample).groups[0].peers[1].mean_ms = Some(900.0);
            }
        })
    };
    assert_eq!(named(&judged(&slow(2))), []);
    let judgement = judged(&slow(20));
    assert_eq!(named(&judgement), [("peer-slow", "10.0.0.2:80".to_owned(), 400)]);
    let claim = &judgement.claims[0];
    assert_eq!((claim.goes_on, claim.since_earlier), (false, false));
    let zone = Zone::of_minutes(0);
    let expected = "Since 02:06:40: 10.0.0.2:80 of app answered slowly (last seen at 02:06:59, 19 s later).";
    assert_eq!(claim.sentence(zone), expected);
    let figures: Vec<_> =
        claim.evidence.iter().map(|figure| (figure.before.as_str(), figure.during.as_str())).collect();
    assert_eq!(figures[0], ("5.0 ms", "900 ms"));
    assert_eq!(figures[2].0, "5.0 ms");
}

#[test]
fn a_queue_counts_only_if_it_overflows() {
    let dropping = |overflows: u64| {
        recording(move |second, sample| {
            if (400..403).contains(&second) {
                sample.sockets.as_mut().expect("there").listeners[0].drops = 5;
                sample.kernel = Counts::from([("ListenOverflows".to_owned(), overflows)]);
            }
        })
    };
    assert_eq!(named(&judged(&dropping(5))), [("accept-queue", "0.0.0.0:80".to_owned(), 400)]);
    assert_eq!(named(&judged(&dropping(0))), []);
}

#[test]
fn reloads_jumps_and_gaps_are_listed() {
    let mut recording = recording(|second, sample| {
        if second >= 380 {
            gateway(sample).generation = 4;
        }
        if second == 380 {
            gateway(sample).changes = vec!["group app changed".to_owned()];
        }
        if second >= 500 {
            sample.at_ms += 7000;
        }
        if (400..420).contains(&second) {
            sample.errors.push(errors("log-upstream-refused", "http://10.0.0.1:80", 9));
        }
    });
    recording.samples.retain(|sample| !(BEGUN_MS + 450_000..BEGUN_MS + 460_000).contains(&sample.at_ms));
    let judgement = judged(&recording);
    let events: Vec<&str> = judgement.events.iter().map(|event| event.what.as_str()).collect();
    assert_eq!(events, ["a reload changed group app changed", "the clock jumped forward by 7.0 s"]);
    // The clock's jump leaves a time without samples, too.
    assert_eq!(judgement.gaps.first().map(|gap| gap.until_ms - gap.from_ms), Some(11_000));
    let text = text(&judgement, Zone::of_minutes(0));
    assert!(
        text.contains("02:06:20: a reload changed group app changed.\n")
            && text.contains("No samples from 02:07:29 to 02:07:40."),
        "{text}"
    );
}

#[test]
fn two_peers_that_fail_are_two_claims() {
    let judgement = judged(&recording(|second, sample| {
        if (400..420).contains(&second) {
            sample.errors.push(errors("log-upstream-refused", "http://10.0.0.1:80", 9));
            sample.errors.push(errors("log-upstream-closed-early", "http://10.0.0.1:80", 1));
            sample.errors.push(errors("log-no-live-upstreams", "http://app", 9));
            sample.errors.push(errors("log-upstream-refused", "http://10.0.0.2:80", 9));
        }
    }));
    let top: Vec<&str> = judgement.claims.iter().map(|claim| claim.subject.as_str()).collect();
    assert_eq!(top, ["10.0.0.1:80", "10.0.0.2:80"]);
    let led_to: Vec<&str> = judgement.claims[0].consequences.iter().map(|claim| claim.cause.name()).collect();
    assert_eq!(led_to, ["peer-breaks", "no-live-peer"]);
    assert!(summary(&judgement, Zone::of_minutes(0)).ends_with("One more thing happened that this does not explain."));
}
