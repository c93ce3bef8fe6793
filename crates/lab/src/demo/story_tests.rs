//! The demo's report on invented records: it shows what they contain, and names what is missing.

use super::*;
use crate::judge::judge;
use crate::{Adaptation, shipped};
use std::collections::BTreeMap;

/// For 1000 requests: requests/s, CPU of the proxy per request, connections opened by the client and on the whole host.
const ARMS: [(&str, f64, Option<f64>, f64); 5] = [
    ("direct", 20_000.0, None, 1000.0),
    ("nginx unpooled", 9000.0, Some(80.0), 2000.0),
    ("nginx pooled", 15_000.0, Some(40.0), 1030.0),
    ("holdfast unpooled", 10_000.0, Some(70.0), 2000.0),
    ("holdfast pooled", 16_000.0, Some(35.0), 1030.0),
];

/// A record of this many rounds, with the arms whose name passes `with`.
fn record(rounds: u32, with: impl Fn(&str) -> bool) -> Record {
    let loaded = shipped::find(super::super::EXPERIMENT).and_then(|shipped| shipped.load().ok()).expect("it is sound");
    let quick = Adaptation { quick: true, ..Adaptation::default() };
    let mut record = Record {
        version: crate::record::VERSION,
        experiment: loaded.experiment.adapted(&quick).expect("it can be quick"),
        command: "holdfast demo".to_owned(),
        quick: true,
        control: false,
        seed: 1,
        began: "2026-11-22T00:00:00Z".to_owned(),
        fingerprint: vec![("kernel".to_owned(), "6.18".to_owned()), ("seldom".to_owned(), "unsaid".to_owned())],
        absent: Vec::new(),
        partial: None,
        samples: Vec::new(),
    };
    for round in 0..rounds {
        for (name, rate, cpu, opened) in ARMS.into_iter().filter(|(name, ..)| with(name)) {
            // A small variation that all arms of a round share.
            let weather = 1.0 + 0.01 * f64::from(round);
            let mut figures: BTreeMap<String, f64> = [
                ("requests_per_second", rate * weather),
                ("requests", 1000.0),
                ("failed", 0.0),
                ("latency_ms.mean", 1.5),
                ("client.connections_opened", 1000.0),
                ("tcp.here.Tcp.ActiveOpens", opened),
                ("sockets.origin.net", opened / 10.0),
                ("sockets.origin.TIME_WAIT.net", opened / 20.0),
                ("sockets.origin.TIME_WAIT.end", opened - 1000.0),
                ("closed_first.origin.end", 0.97 * (opened - 1000.0)),
                ("busiest.client", 0.97),
            ]
            .map(|(figure, value)| (figure.to_owned(), value))
            .into();
            figures.extend(cpu.map(|cpu| ("cpu_us_per_request.proxy".to_owned(), cpu * weather)));
            let (series, remarks) = (BTreeMap::new(), Vec::new());
            record.samples.push(Sample {
                arm: name.to_owned(),
                round,
                void: None,
                late: None,
                figures,
                series,
                remarks,
            });
        }
    }
    record
}

fn story_text(record: &Record) -> String {
    ::report::text::render(&document(record, &judge(record)), 120)
}

fn has(text: &str, words: &[&str]) {
    // The text without line breaks, as a reader sees it.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(flat.contains(word), "{word:?} is not in\n{text}");
    }
}

#[test]
fn whole_record_becomes_tables_text_and_verdicts() {
    let text = story_text(&record(6, |_| true));
    has(
        &text,
        &[
            "kernel 6.18",
            "median [least–most] of 6 rounds",
            "nginx unpooled: client -> nginx -> origin, with `proxy_http_version 1.0;`",
            "holdfast pooled: client -> holdfast -> origin, with `keepalive 100; proxy_http_version 1.1;",
            "direct 20,500 [20,000–21,000] 100 client",
            "holdfast pooled 16,400 [16,000–16,800] 80 client",
            "holdfast unpooled 1 1",
            "holdfast pooled 1 0.03",
            "Without a pool holdfast opened a connection to the origin for each request, and used 71.8 µs of CPU per request; with a pool \
             it opened 0.03 connections to the origin per request, and used 35.9 µs, which is 50 % of that. The client got 1.60 times the requests/s. \
             Without a pool the origin closed first (97 % of what is left in TIME_WAIT at its port is its own), so that no port of \
             holdfast is held.",
            "nginx unpooled – 100 100 97",
            "direct – 50 50 –",
            "Without a pool nginx opened",
            "[holds] a pool gives Holdfast at least 1.2 times the requests/s",
            "The client was a bottleneck of direct,",
        ],
    );
    for word in ["unsaid", "absent", "partial", "haproxy", "Too few"] {
        assert!(!text.contains(word), "{word:?} is in\n{text}");
    }
}

#[test]
fn connections_are_counted_as_people_count() {
    let said = [0.0, 0.0031, 0.5, 1.0, 1.0002, 1.25, 2.0].map(connections_to_origin);
    let expected = [
        "no connection to the origin",
        "0.0031 connections to the origin per request",
        "0.5 connections to the origin per request",
        "a connection to the origin for each request",
        "a connection to the origin for each request",
        "1.25 connections to the origin per request",
        "2 connections to the origin per request",
    ];
    assert_eq!(said, expected);
    assert_eq!(
        (counted_word(1, "round"), counted_word(8, "round"), counted_word(0, "round")),
        ("1 round".into(), "8 rounds".into(), "0 rounds".into())
    );
}

#[test]
fn reports_which_side_closed_first_and_pays_ports() {
    let of_nginx = |share: f64| {
        let mut record = record(1, |_| true);
        for sample in record.samples.iter_mut().filter(|sample| sample.arm == "nginx unpooled") {
            sample.figures.insert("closed_first.origin.end".to_owned(), share * 1000.0);
        }
        story_text(&record)
    };
    has(
        &of_nginx(1.0),
        &[
            "the origin closed first (100 % of what is left in TIME_WAIT at its port is its own), so that no port of nginx",
        ],
    );
    has(
        &of_nginx(0.02),
        &["nginx closed first (98 % of what is left in TIME_WAIT at the origin's port), and each of these holds one"],
    );
    has(
        &of_nginx(0.5),
        &["now the origin closed first (50 % of what is left in TIME_WAIT at its port is its own), now nginx, or both"],
    );
    // Without sockets in TIME_WAIT the report does not say who closed first.
    let mut none = record(1, |_| true);
    for sample in &mut none.samples {
        sample.figures.insert("sockets.origin.TIME_WAIT.end".to_owned(), 0.0);
    }
    assert!(!story_text(&none).contains("closed first ("), "{}", story_text(&none));
}

#[test]
fn reports_one_core_for_all() {
    let mut record = record(1, |_| true);
    record.fingerprint.push(("processor".to_owned(), "1 × Xeon".to_owned()));
    has(
        &story_text(&record),
        &["processor 1 × Xeon", "client, proxy and origin have one core together, on which each waits for the others"],
    );
    record.fingerprint.retain(|(name, _)| name != "processor");
    record.fingerprint.push(("processor".to_owned(), "12 × Xeon".to_owned()));
    has(&story_text(&record), &["client, proxy and origin take these cores from each other."]);
}

#[test]
fn it_fits_a_terminal_of_80_columns() {
    let text = ::report::text::render(&document(&record(6, |_| true), &judge(&record(6, |_| true))), 80);
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

#[test]
fn absent_arms_are_named_without_figures() {
    let mut record = record(6, |name| !name.starts_with("nginx"));
    let why = "nginx is not there: `cargo xtask peers` provides it under target/peers, or install it";
    record.absent = ["nginx unpooled", "nginx pooled"].map(|arm| (arm.to_owned(), why.to_owned())).into();
    let text = story_text(&record);
    has(
        &text,
        &["arm \"nginx unpooled\" is absent: nginx is not there: `cargo xtask peers`", "[holds] a pool gives Holdfast"],
    );
    assert!(!text.contains("a pool gives nginx") && !text.contains("Without a pool nginx"), "{text}");
}

#[test]
fn a_record_that_ended_early_has_figures_and_no_verdicts() {
    let mut record = record(3, |_| true);
    record.partial = Some("30 s had room for 3 of 6 rounds".to_owned());
    record.samples.truncate(12);
    let text = story_text(&record);
    has(
        &text,
        &[
            "This is partial: 30 s had room for 3 of 6 rounds",
            "Too few for verdicts: 3 rounds, where 6 are needed.",
            "Without a pool nginx",
        ],
    );
    assert!(!text.contains("[undecided]") && !text.contains("[holds]"), "{text}");
}

#[test]
fn names_samples_that_do_not_count() {
    let mut record = record(2, |_| true);
    for sample in record.samples.iter_mut().filter(|sample| sample.arm == "direct") {
        sample.void = Some("client was the bottleneck".to_owned());
    }
    let text = story_text(&record);
    has(
        &text,
        &[
            "direct: 2 of 2 samples count for nothing. client was the bottleneck",
            "nginx pooled 15,075 [15,000–15,150] –",
        ],
    );
}

#[test]
fn keeps_one_pair_for_verdicts_if_time_is_short() {
    let all = ["direct", "nginx unpooled", "nginx pooled", "holdfast unpooled", "holdfast pooled"];
    assert_eq!(kept(&all, 5), all);
    assert_eq!(kept(&all, 4), all[1..], "what has no proxy is the least of the answer");
    assert_eq!(kept(&all, 3), all[1..3]);
    assert_eq!(kept(&all[3..], 1), all[3..], "without nginx there is one pair");
    assert_eq!(kept(&["direct"], 0), ["direct"]);
}

#[test]
fn hopeless_arms_leave_their_time_to_others() {
    let all = ["direct", "nginx unpooled", "nginx pooled", "holdfast unpooled", "holdfast pooled"];
    assert_eq!(worth_running(&all, &["direct"]), all[1..]);
    assert_eq!(worth_running(&all, &["nginx pooled"]), ["direct", "holdfast unpooled", "holdfast pooled"]);
    assert_eq!(worth_running(&all, &["nginx pooled", "holdfast unpooled"]), all, "no pair is left");
    assert_eq!(worth_running(&all[..3], &["direct"]), all[1..3]);
}
