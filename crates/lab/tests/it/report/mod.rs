//! The report of a record: claims first, then everything that limits its figures. Also its page in a real browser.

mod example;

use report::Document;

/// The report of the record, judged.
fn document(samples_max: usize) -> Document {
    let record = example::record(samples_max);
    lab::report::document(&record, &lab::judge::judge(&record))
}

/// The positions of the texts, in order.
fn places(text: &str, parts: &[&str]) -> Vec<usize> {
    parts.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{part:?} is not in:\n{text}"))).collect()
}

#[test]
fn report_begins_with_claims_and_its_command() {
    let made = document(usize::MAX);
    let text = report::text::render(&made, 200);
    let order = [
        "holdfast lab run states --seed 7",
        "nginx/1.22.1",
        "[holds] off has more than 100",
        "The first paragraph, of which",
        "The second one.",
        "Throughput and latency",
        "CPU per answered request",
        "Resident memory at most",
        "Sockets by TCP state",
        "Over the rounds",
        "Arms in the order in which they ran",
    ];
    assert!(places(&text, &order).is_sorted(), "{text}");
}

#[test]
fn brief_report_fits_two_screens_and_ends_with_the_answer() {
    let made = document(usize::MAX);
    let text = report::text::brief(&made, 80);
    assert!(text.lines().count() <= 48, "{} lines:\n{text}", text.lines().count());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let answer = made.answer.clone().expect("there is one");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    assert!(words(&text).ends_with(&words(&answer)), "{answer}\n{text}");
    assert!(answer.contains("claim") && answer.contains("hold"), "{answer}");
    for part in ["✓ off has more than 100", "This plateau is a ceiling", "requests/s"] {
        assert!(words(&text).contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("nginx/1.22.1") && !text.contains("Arms in the order"), "{text}");
    assert_eq!(made.cards.len() % 2, 0, "both arms of each figure: {:?}", made.cards);
}

#[test]
fn figures_have_unit_spread_and_count_without_voids() {
    let made = document(usize::MAX);
    let text = report::text::render(&made, 400);
    assert!(text.contains("127 µs [126 µs–128 µs], n = 7"), "CPU of the proxy: {text}");
    assert!(text.contains("2,399 [2,398–2,400], n = 6"), "without the void one: {text}");
    assert!(text.contains("on 2400: 1 of 7 samples are void: the load was late by 12 ms at p99"), "{text}");
    assert!(text.contains("on 2400 (void), off 2400, off 1200"), "the order of round 4");
    assert!(!text.contains("TCPAutoCorking"), "a counter that says nothing about connections");
    assert!(text.contains("tcp.server.Tcp.ActiveOpens"), "{text}");
}

#[test]
fn plateau_at_the_port_count_is_a_ceiling_of_all_its_arms() {
    let made = document(usize::MAX);
    let text = report::text::render(&made, 2000);
    // One sentence for both arms, not two.
    let sentence = "off 1200, off 2400: the sockets on port 10000 (upstream) stayed at 16,384, as many as the 16,384 ports 49152–65535 \
         that host server has towards one destination. This plateau is a ceiling, not a load";
    assert!(text.contains(sentence), "{text}");
    assert_eq!(text.matches("This plateau is a ceiling").count(), 1, "{text}");
    assert!(!text.contains("on 2400: the sockets"), "34 sockets are no ceiling, however flat");
}

#[test]
fn missing_parts_are_listed_before_any_figure() {
    let made = document(5);
    let text = report::text::render(&made, 100);
    let order = [
        "This record is partial: Ctrl-C after some samples",
        "Arm \"haproxy\" is absent: haproxy is not there",
        "The first paragraph",
    ];
    assert!(places(&text, &order).is_sorted(), "{text}");
    let empty = document(0);
    let text = report::text::render(&empty, 100);
    assert!(text.contains("This record is partial") && !text.contains("Throughput"), "{text}");
}

#[test]
fn all_renderings_hold_the_same_figures_and_stay_small() {
    let made = document(usize::MAX);
    let markdown = report::markdown::render(&made);
    assert!(markdown.contains("* **holds**: off has more than 100 times as many sockets"), "{markdown}");
    assert!(markdown.contains("| 127 µs [126 µs–128 µs], n = 7 |"), "{markdown}");
    let json = report::json::render(&made);
    assert_eq!(report::json::parse(&json).expect("own text"), made);
    let page = report::html::render(&made);
    // Three arms over 244 looks; a page of the longest run has ten times as many arms and no more points.
    assert!(page.len() < 300_000 && json.len() < 1_500_000, "page {} bytes, JSON {} bytes", page.len(), json.len());
    for chart in [
        "Throughput in each round",
        "99th percentile in each round",
        "off 2400: sockets by TCP state, upstream",
        "CPU per request of proxy",
        "Resident memory: proxy",
    ] {
        assert!(page.contains(&format!("<h3>{chart}</h3>")), "{chart}");
    }
}

#[test]
fn lab_page_renders_at_both_widths_and_schemes() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("report.html");
    let made = document(usize::MAX);
    std::fs::write(&page, report::html::render(&made)).expect("written");
    let blocks = made.sections.iter().flat_map(|section| &section.blocks);
    let charts = blocks.filter(|block| matches!(block, report::Block::Chart(_))).count();
    assert!(charts >= 9, "{charts} charts");
    testkit::assert_page_holds(&page, charts);
}
