//! The page in a real browser, at desktop and phone width, light and dark: the charts exist, nothing overflows, no text
//! of a chart leaves its drawing, and the console is empty. Skipped without Chromium; `cargo xtask peers` provides it.

use report::{
    Axis, Card, Chart, Document, Figure, Finding, Kind, Outcome, Section, Series, Severity, Table, Unit, Verdict, html,
};

/// A document like that of a lab, with long names and large numbers.
fn example() -> Document {
    let states = |level: f64| (0..150).map(move |i| (f64::from(i) * 2e9, level + f64::from(i % 7) * level / 20.0));
    let time = || Axis::new("time since the start", Unit::Nanoseconds);
    let chart = |kind, title| {
        Chart::new(title, kind, time(), Axis::new("sockets", Unit::of("")), "n = 150 samples, one every 2 s")
    };
    let mut histogram = stats::Histogram::new();
    for i in 1..20_000_u64 {
        histogram.record(200_000 + i * i * 3);
    }
    let spectrum = Chart::new(
        "Latency",
        Kind::Spectrum,
        Axis::new("percentile", Unit::Percent),
        Axis::new("latency", Unit::Nanoseconds),
        "n = 19,999 requests",
    )
    .series(Series::spectrum("pooled", &histogram.spectrum(5)))
    .series(Series::spectrum("pooled, corrected", &histogram.corrected(1_000_000).spectrum(5)));
    let bars = [("direct", 28.5), ("unpooled, with a connection for each request", 73.7), ("pooled", 35.3)];
    let mut table =
        Table::new("CPU per request", &["arm", "client", "gateway", "origin", "bottleneck, and how it was told"]);
    for arm in ["direct", "unpooled", "pooled"] {
        let cpu = || Figure::sampled(&[28.5e3, 21.1e3, 29.8e3], Unit::Nanoseconds).into();
        table = table.row(vec![arm.into(), cpu(), cpu(), cpu(), "the client, whose core was never idle".into()]);
    }
    let verdict = Verdict {
        claim: "sockets to the gateway's port differ by more than 100 ×".to_owned(),
        outcome: Outcome::Holds,
        reason: "off lies above on: × 820 [× 815 to × 827 at 95 %], 8 rounds, p = 7.81e-3".to_owned(),
        brief: "× 820 [× 815 to × 827 at 95 %]".to_owned(),
        evidence: vec![("ratio".to_owned(), Figure::sampled(&[815.0, 820.0, 827.0], Unit::Ratio))],
    };
    let section = Section::new("Result")
        .verdict(verdict)
        .chart(
            chart(Kind::Lines, "Sockets in TIME_WAIT")
                .series(Series::new("keepalive on", states(1300.0)))
                .series(Series::new("keepalive off", states(16_900.0))),
        )
        .chart(
            chart(Kind::Stacked, "Sockets by state")
                .series(Series::new("ESTABLISHED", states(1700.0)))
                .series(Series::new("TIME_WAIT", states(16_900.0))),
        )
        .chart(spectrum)
        .chart(Chart::bars(
            "CPU of the gateway",
            Axis::new("CPU per request", Unit::of("µs")),
            "median of 5 rounds",
            &bars,
        ))
        .table(table)
        .finding(finding());
    Document::new("Keepalive off and on, counted in TCP states", "holdfast lab 0.1.0")
        .answer("Without a pool the gateway's port has 820 times as many sockets, nearly all of them in TIME_WAIT.")
        .card(Card::new("keepalive off", Figure::exact(16_900.0, Unit::of("")), "sockets").trend([1.0, 9.0, 4.0]))
        .card(Card::new(
            "unpooled, with a connection for each request",
            Figure::exact(73_700.0, Unit::Nanoseconds),
            "CPU",
        ))
        .fact("machine", "2 cores")
        .section(section.clone())
        .section(section.folded())
}

fn finding() -> Finding {
    Finding {
        rule: "upstream-without-keepalive".to_owned(),
        severity: Severity::Warning,
        what: "upstream group \"api\" keeps no connections".to_owned(),
        place: Some(("/etc/nginx/sites-enabled/a-rather-long-name-without-blanks.example.com.conf".to_owned(), 14, 5)),
        why: "Each request opens a connection and closes it.".to_owned(),
        evidence: vec!["first".to_owned(), "second".to_owned()],
        arithmetic: "28232 ports / 60 s = 470 requests/s".to_owned(),
        fix: format!("upstream api {{\n    # {}\n    keepalive 32;\n}}", "a long line ".repeat(20)),
        side_effect: "Idle connections stay open.".to_owned(),
        undo: "keepalive 0;".to_owned(),
    }
}

#[test]
fn report_page_renders_at_both_widths_and_schemes() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("report.html");
    std::fs::write(&page, html::render(&example())).expect("written");
    testkit::assert_page_holds(&page, 8);
}
