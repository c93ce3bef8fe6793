//! One document in every rendering, and tests that no text from outside is interpreted in any of them.

use proptest::prelude::*;
use report::{
    Axis, Block, Card, Chart, Document, Figure, Finding, Kind, Outcome, Section, Series, Severity, Table, Unit,
    Verdict, html, json, sarif, text,
};

/// Every kind of block, with `word` wherever outside text may appear.
fn everything(word: &str, numbers: &[f64]) -> Document {
    let axis = |unit| Axis::new(word, unit);
    let points = || numbers.iter().enumerate().map(|(x, y)| (x as f64, *y));
    let quantiles = numbers.iter().enumerate().map(|(x, y)| ((x as f64 + 1.0) / numbers.len() as f64, *y));
    let chart = |kind| Chart::new(word, kind, axis(Unit::of(word)), axis(Unit::Bytes), word);
    let finding = Finding {
        rule: word.to_owned(),
        severity: Severity::Warning,
        what: word.to_owned(),
        place: Some((word.to_owned(), 3, 5)),
        why: word.to_owned(),
        evidence: vec![word.to_owned(); 2],
        arithmetic: word.to_owned(),
        fix: word.to_owned(),
        side_effect: word.to_owned(),
        undo: word.to_owned(),
    };
    let verdict = Verdict {
        claim: word.to_owned(),
        outcome: Outcome::Holds,
        reason: word.to_owned(),
        brief: word.to_owned(),
        evidence: vec![(word.to_owned(), Figure::sampled(numbers, Unit::of(word)))],
    };
    let section = Section::new(word)
        .note(Severity::Error, word)
        .table(Table::new(word, &[word, word]).row(vec![word.into(), Figure::sampled(numbers, Unit::Percent).into()]))
        .chart(chart(Kind::Lines).series(Series::new(word, points())).series(Series::new(word, points())))
        .chart(chart(Kind::Stacked).series(Series::new(word, points())).series(Series::new(word, points())))
        .chart(chart(Kind::Spectrum).series(Series::new(word, quantiles)))
        .chart(Chart::bars(word, axis(Unit::Nanoseconds), word, &[(word, 1.0), (word, -2.0)]))
        .verdict(verdict)
        .finding(finding);
    Document::new(word, word).fact(word, word).section(section)
}

/// The elements of the page without the style sheet: element names, and attribute names with their values.
fn elements(page: &str) -> Vec<String> {
    page.split('<').skip(1).map(|tag| tag.split('>').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_page_asks_for_nothing_and_runs_nothing() {
    let page = html::render(&everything("word", &[1.0, 2.0, 3.0]));
    for forbidden in ["<script", "http://", "https://", "url(", "@import", " on", "javascript:"] {
        let found = elements(&page).iter().any(|element| element.contains(forbidden));
        assert!(!found, "{forbidden} in the page");
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    assert!(page.contains("default-src 'none'"));
    assert_eq!(page.matches("role=\"img\"").count(), 4, "a drawing per chart");
    assert_eq!(page.matches("Numbers of this chart").count(), 4, "and a table for each");
}

#[test]
fn terminal_gets_columns_or_records_by_width() {
    let figure = |value| Figure::sampled(&[value, value * 1.1], Unit::Nanoseconds).into();
    let table = Table::new("CPU per request", &["arm", "CPU"])
        .row(vec!["pooled".into(), figure(20e3)])
        .row(vec!["unpooled, with a long name".into(), figure(70e3)]);
    let document = Document::new("Example", "holdfast").section(Section::new("Result").table(table));
    let wide = text::render(&document, 80);
    assert!(wide.contains("\narm                                                  CPU\n"), "{wide}");
    assert!(wide.contains("\npooled                        21 µs [20 µs–22 µs], n = 2\n"), "{wide}");
    let narrow = text::render(&document, 40);
    assert!(narrow.contains("* pooled\n    CPU  21 µs [20 µs–22 µs], n = 2\n"), "{narrow}");
}

#[test]
fn page_leads_with_the_answer_and_brief_text_ends_with_it() {
    let table = |title: &str| {
        let figure = Figure::sampled(&[20e3, 21e3, 22e3], Unit::Nanoseconds);
        Table::new(title, &["arm", "CPU"]).row(vec!["pooled".into(), figure.into()])
    };
    let verdict = |claim: &str, outcome| Verdict {
        claim: claim.to_owned(),
        outcome,
        reason: format!("why {claim}"),
        brief: if outcome == Outcome::Undecided { "5 more rounds needed".to_owned() } else { String::new() },
        evidence: Vec::new(),
    };
    let claims = Section::new("Claims")
        .verdict(verdict("it is cheaper", Outcome::Holds))
        .verdict(verdict("it is faster", Outcome::Undecided))
        .verdict(verdict("it is smaller", Outcome::Fails));
    let document = Document::new("Pool", "holdfast lab")
        .answer("A pool halves the CPU per request.")
        .card(Card::new("pooled", Figure::exact(21e3, Unit::Nanoseconds), "of 40 µs").trend([1.0, f64::NAN, 3.0]))
        .fact("kernel", "6.18")
        .section(claims)
        .section(Section::new("Figures").table(table("In short")))
        .section(Section::new("Everything").table(table("At length")).folded());
    let page = html::render(&document);
    let order = [
        "A pool halves",
        "class=\"cards\"",
        "it is cheaper",
        "In short",
        "<summary><h2>Everything",
        "Method and environment",
    ];
    let places: Vec<_> =
        order.iter().map(|part| page.find(part).unwrap_or_else(|| panic!("{part} in {page}"))).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(
        page.contains("title=\"21 µs [20 µs–22 µs], n = 3\">21 µs ±5 %</td>"),
        "the whole spread is a hover away: {page}"
    );
    assert!(page.contains("it is faster <span class=\"brief\">5 more rounds needed</span></summary>"), "{page}");
    assert!(page.contains("<details class=\"claim fails\" open>") && page.contains("<details class=\"claim holds\">"));
    let brief = text::brief(&document, 80);
    let expected = "\
Pool

Claims
------
✓ it is cheaper
? it is faster
    undecided: 5 more rounds needed
✗ it is smaller
    fails: why it is smaller

Figures
-------

In short
arm           CPU
pooled  21 µs ±5 %

A pool halves the CPU per request.
";
    assert_eq!(brief, expected.replace("arm           CPU", "arm            CPU"));
    let whole = text::render(&document, 80);
    assert!(
        whole.contains("At length")
            && whole.contains("kernel")
            && whole.ends_with("A pool halves the CPU per request.\n")
    );
}

#[test]
fn a_finding_keeps_the_lines_of_its_fix() {
    let mut document = everything("word", &[1.0]);
    if let Some(Block::Finding(finding)) = document.sections[0].blocks.last_mut() {
        finding.fix = "upstream api {\n    keepalive 32;\n}".to_owned();
    }
    let rendered = text::render(&document, 80);
    assert!(rendered.contains("  fix:\n      upstream api {\n          keepalive 32;\n      }\n"), "{rendered}");
    assert!(rendered.contains("word:3:5: warning: word [word]"), "{rendered}");
}

#[test]
fn another_schema_is_refused_by_name() {
    let error = json::parse("{\"schema\": \"holdfast.report/9\"}").map_err(|error| error.to_string());
    assert_eq!(
        error,
        Err("the report has the schema \"holdfast.report/9\"; this program reads \"holdfast.report/1\"".to_owned())
    );
    assert!(json::parse("[").is_err());
}

#[test]
fn sarif_names_rule_level_and_place() {
    let mut document = everything("word", &[1.0]);
    if let Some(Block::Finding(finding)) = document.sections[0].blocks.last_mut() {
        finding.place = Some(("conf d/nginx.conf".to_owned(), 14, 5));
    }
    let text = sarif::render(&document);
    for expected in [
        "\"version\": \"2.1.0\"",
        "\"ruleId\": \"word\"",
        "\"level\": \"warning\"",
        "\"startLine\": 14",
        "conf%20d/nginx.conf",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

/// Texts that look like markup, escapes or control sequences.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = [
        "<script>alert(1)</script>",
        "\"",
        "'",
        "</title>",
        "</svg>",
        "]]>",
        "-->",
        "&lt;",
        "\u{1b}[2J",
        "\u{202e}",
        "\0",
        "\\",
        "\n",
        "</pre>",
        " onload=x ",
        "é",
        "日本",
        "\u{7f}",
        "</style>",
        "\u{9b}31m",
    ];
    let piece = prop_oneof![prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), any::<String>()];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("w{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn text_cannot_change_the_pages_structure(word in hostile()) {
        let (plain, page) = (html::render(&everything("word", &[1.0, 2.0])), html::render(&everything(&word, &[1.0, 2.0])));
        // The same elements with the same attributes; only a label attribute carries text, and lines may break.
        let shape = |page: &str| {
            let elements = elements(page).into_iter().filter(|element| element != "br");
            elements.map(|element| element.split(" aria-label=").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        prop_assert!(shape(&plain) == shape(&page), "{}", page);
        for element in elements(&page) {
            prop_assert_eq!(element.matches('"').count() % 2, 0, "{}", element);
        }
        prop_assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn no_text_reaches_the_terminal_as_a_command(word in hostile(), width in 0..200_usize) {
        let rendered = text::render(&everything(&word, &[1.0, 2.0]), width);
        prop_assert!(rendered.chars().all(|c| c == '\n' || !c.is_control()));
    }

    #[test]
    fn json_gives_back_the_document(word in hostile(), numbers in prop::collection::vec(-1e300..1e300_f64, 1..6)) {
        let document = everything(&word, &numbers);
        prop_assert_eq!(json::parse(&json::render(&document)).expect("own text"), document);
    }

    #[test]
    fn no_number_breaks_a_rendering(numbers in prop::collection::vec(any::<f64>(), 0..8)) {
        let document = everything("word", &numbers);
        let page = html::render(&document);
        let drawn: Vec<_> = elements(&page).into_iter().filter(|element| element.starts_with("poly") || element.starts_with("line")).collect();
        prop_assert!(drawn.iter().all(|element| !element.contains("NaN") && !element.contains("inf")), "{:?}", drawn);
        prop_assert!(!text::render(&document, 80).is_empty());
        prop_assert!(json::parse(&json::render(&document)).is_ok());
    }
}

#[test]
fn puts_a_fact_below_its_long_name() {
    let document = Document::new("T", "made")
        .fact("short", "one")
        .fact("a name that takes more than a third of it, since", "two words");
    let text = text::render(&document, 60);
    assert!(text.ends_with("short                 one\na name that takes more than a third of it, since\n                      two words\n"), "{text}");
    let wide = text::render(&document, 200);
    let expected = "a name that takes more than a third of it, since  two words\n";
    assert!(wide.ends_with(expected), "{wide}");
}
