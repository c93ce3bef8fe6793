//! Reports in the style of other tools, parsed as scripts parse those tools. Compared with siege, ab and wrk, which run
//! here, and with k6's documented layout (<https://grafana.com/docs/k6/latest/results-output/end-of-test/>), which does
//! not run here.

use crate::support::holdfast;
use crate::support::load::origin;
use std::process::{Command, Stdio};

fn load(words: &[&str]) -> String {
    let output = holdfast().args(["load", "-q", "--allow-lag"]).args(words).stdin(Stdio::null()).output();
    String::from_utf8(output.expect("it starts").stdout).expect("it is text")
}

/// A line of siege's report: its name, where its value ends, the value, its unit.
#[derive(Debug, PartialEq)]
struct SiegeLine {
    name: String,
    end: usize,
    value: f64,
    decimals: usize,
    unit: String,
}

/// Every line `Name:<tabs>value unit`; anything else is siege's banner.
fn read_siege(report: &str) -> Vec<SiegeLine> {
    let line = |line: &str| {
        let (name, rest) = line.split_once(":\t").or_else(|| line.split_once(": "))?;
        let mut words = rest.split_whitespace();
        let value = words.next()?;
        // The column on a terminal with tabs of eight.
        let columns =
            |text: &str| text.chars().fold(0, |at, letter| if letter == '\t' { (at / 8 + 1) * 8 } else { at + 1 });
        Some(SiegeLine {
            name: name.to_owned(),
            end: columns(line.split_at(line.find(value)? + value.len()).0),
            value: value.parse().ok()?,
            decimals: value.split_once('.').map_or(0, |(_, decimals)| decimals.len()),
            unit: words.collect::<Vec<_>>().join(" "),
        })
    };
    report.lines().filter_map(line).collect()
}

#[test]
fn siege_and_ours_are_read_by_the_same_script() {
    for (path, failed) in [("/bytes/100000", 0.0), ("/status/503", 40.0), ("/status/404", 0.0)] {
        let origin = origin();
        let url = format!("http://{}{path}", origin.address());
        let mut siege = Command::new(testkit::peer_program("siege"));
        let siege = siege.args(["-c", "2", "-r", "20", &url]).stdin(Stdio::null()).output().expect("siege starts");
        let said = String::from_utf8_lossy(&[siege.stdout, siege.stderr].concat()).into_owned();
        let (theirs, ours) = (
            read_siege(&said),
            read_siege(&load(&["-n", "40", "-c", "2", "--no-keepalive", "--style", "siege", &url])),
        );
        assert_eq!(theirs.len(), 12, "siege has another report than this test knows: {said}");
        for (their, our) in theirs.iter().zip(&ours) {
            assert_eq!((&their.name, &their.unit, their.end), (&our.name, &our.unit, our.end), "{said}");
            assert_eq!(their.decimals, our.decimals, "{}", their.name);
        }
        assert_eq!(ours.len(), theirs.len());
        // Everything that does not depend on speed is equal.
        let of = |lines: &[SiegeLine], name: &str| lines.iter().find(|line| line.name == name).map(|line| line.value);
        for name in
            ["Transactions", "Availability", "Data transferred", "Successful transactions", "Failed transactions"]
        {
            assert_eq!(of(&theirs, name), of(&ours, name), "{path}: {name}\n{said}");
        }
        assert_eq!(of(&ours, "Failed transactions"), Some(failed));
    }
}

/// The lines of a report from the one with this beginning, with a mark for each number and its unit, and single spaces.
/// This is what a script looks for, independent of the values.
fn forms(report: &str, from: &str) -> Vec<String> {
    let form = |line: &str| {
        let mut form = String::new();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            if !letter.is_ascii_digit() {
                form.push(letter);
                continue;
            }
            while letters.next_if(|next| next.is_ascii_digit() || *next == '.').is_some() {}
            while letters.next_if(|next| next.is_ascii_alphabetic() || *next == '%').is_some() {}
            form.push('#');
        }
        form.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // ab's remarks about its figures depend on them.
    let is_opinion = |line: &&str| {
        let line = line.trim_start();
        ["WARNING: The median", "ERROR: The median", "deviation apart.", "These results are"]
            .iter()
            .any(|words| line.starts_with(words))
    };
    let lines = report.lines().skip_while(|line| !line.starts_with(from));
    lines.filter(|line| !is_opinion(line)).map(form).collect()
}

/// The value of a line `Name: value`.
fn value_of<'a>(report: &'a str, name: &str) -> Option<&'a str> {
    report.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[test]
fn ab_and_ours_are_read_by_the_same_script() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let body = folder.path().join("body");
    std::fs::write(&body, "a=b").expect("written");
    let body = body.to_string_lossy().into_owned();
    let cases: [(&str, &[&str]); 5] = [
        ("/bytes/1000", &["-k"]),
        ("/bytes/1000", &[]),
        ("/status/404", &["-k", "-l"]),
        ("/echo", &["-k", "-p", &body, "-T", "text/x", "-H", "X-A: b"]),
        ("/", &["-i"]),
    ];
    for (path, flags) in cases {
        let origin = origin();
        let url = format!("http://{}{path}", origin.address());
        // An echo contains the request's number on its connection, so its length changes from the tenth request on. On
        // one connection the number of such requests is fixed.
        let connections = if path == "/echo" { "1" } else { "2" };
        let words = [&["-q", "-n", "40", "-c", connections], flags, &[&url]].concat();
        let ab =
            Command::new(testkit::peer_program("ab")).args(&words).stdin(Stdio::null()).output().expect("ab starts");
        let theirs = String::from_utf8_lossy(&ab.stdout).into_owned();
        let ours = holdfast().args(["load", "ab"]).args(&words).stdin(Stdio::null()).output().expect("it starts");
        let ours = String::from_utf8(ours.stdout).expect("it is text");
        assert_eq!(forms(&ours, "Server Software"), forms(&theirs, "Server Software"), "{flags:?}\n{theirs}\n{ours}");
        // These words have no columns.
        let by_kind = |report: &str| report.contains("\n   (Connect: 0, Receive: 0, Length: ");
        assert_eq!(by_kind(&ours), by_kind(&theirs), "{ours}");
        for name in [
            "Server Software",
            "Server Hostname",
            "Server Port",
            "Document Path",
            "Document Length",
            "Concurrency Level",
            "Complete requests",
            "Failed requests",
            "Non-2xx responses",
            "Keep-Alive requests",
            "Total body sent",
            "HTML transferred",
            "Total transferred",
        ] {
            assert_eq!(value_of(&ours, name), value_of(&theirs, name), "{flags:?}: {name}\n{theirs}\n{ours}");
        }
    }
}

#[test]
fn wrk_and_ours_are_read_by_the_same_script() {
    let origin = origin();
    for path in ["/", "/status/404"] {
        let url = format!("http://{}{path}", origin.address());
        let words = ["-t", "1", "-c", "2", "-d", "1s", "-H", "X-A: b", "--latency", &url];
        let wrk =
            Command::new(testkit::peer_program("wrk")).args(words).stdin(Stdio::null()).output().expect("wrk starts");
        let theirs = String::from_utf8_lossy(&wrk.stdout).into_owned();
        let ours = load(&[&["--style", "wrk"], words.as_slice()].concat());
        assert_eq!(forms(&ours, "Running"), forms(&theirs, "Running"), "{theirs}\n{ours}");
        // Columns that do not depend on the figures.
        let columns = |report: &str, head: &str| {
            let line = report.lines().find(|line| line.trim_start().starts_with(head)).expect("the line is there");
            (line.len() - line.trim_start().len(), line.len())
        };
        for head in ["Thread Stats", "Latency Distribution", "1 threads and 2 connections"] {
            assert_eq!(columns(&ours, head), columns(&theirs, head), "{head}");
        }
    }
}

/// A line of k6's summary: its section, its name, the column of its colon, its values.
#[derive(Debug, PartialEq)]
struct K6Line {
    section: String,
    name: String,
    colon: usize,
    values: Vec<String>,
}

fn read_k6(summary: &str) -> Vec<K6Line> {
    let mut section = String::new();
    let mut lines = Vec::new();
    for line in summary.lines() {
        let bare = line.trim();
        if bare.chars().all(|letter| letter.is_ascii_uppercase()) && line.starts_with("    ") && !bare.is_empty() {
            bare.clone_into(&mut section);
        }
        let Some((name, values)) = line.split_once(".: ") else { continue };
        lines.push(K6Line {
            section: section.clone(),
            name: name.trim().trim_end_matches('.').to_owned(),
            colon: name.chars().count() + 1,
            values: values.split_whitespace().map(str::to_owned).collect(),
        });
    }
    lines
}

/// The layout as k6 documents it for its compact summary, with the lines that have a counterpart here.
const K6_DOCUMENTED: &str = "
  █ THRESHOLDS

    http_req_duration
    ✓ 'p(95)<1500' p(95)=148.21ms


  █ TOTAL RESULTS

    HTTP
    http_req_duration..................: avg=140.36ms   min=119.08ms med=140.96ms max=154.63ms p(90)=146.88ms p(95)=148.21ms
      { expected_response:true }.......: avg=140.36ms   min=119.08ms med=140.96ms max=154.63ms p(90)=146.88ms p(95)=148.21ms
    http_req_failed....................: 0.00%  0 out of 45
    http_reqs..........................: 45     6.56109/s

    EXECUTION
    iterations.........................: 45     6.56109/s
    vus................................: 1      min=1       max=1
    vus_max............................: 1      min=1       max=1

    NETWORK
    data_received......................: 519 kB 76 kB/s
    data_sent..........................: 4.9 kB 718 B/s
";

/// The form of a value without its digits: `avg=140.36ms` and `avg=1.2s` are both `avg=N`, and units of bytes are
/// dropped, too.
fn form(value: &str) -> String {
    let is_number = value.chars().any(|letter| letter.is_ascii_digit()) && !value.ends_with("/s");
    let mut units = ["ms", "µs", "m", "s"].into_iter().filter(|_| is_number);
    let bare = units.find_map(|unit| value.strip_suffix(unit)).unwrap_or(value);
    let bytes = ["kB/s", "MB/s", "B/s", "kB", "MB", "B"].contains(&bare);
    if bytes {
        return if bare.ends_with("/s") { "bytes/s".to_owned() } else { "bytes".to_owned() };
    }
    // p(90) and p(95) are names, not values.
    let (name, number) = bare.rsplit_once('=').map_or(("", bare), |(name, number)| (name, number));
    let digits = number.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect::<String>();
    format!("{name}={digits}")
}

#[test]
fn k6_as_documented_and_ours_are_read_by_the_same_script() {
    let origin = origin();
    let url = format!("http://{}/delay/2", origin.address());
    let said = load(&["-n", "45", "-c", "3", "--style", "k6", "--expect", "p95<1500ms", &url]);
    let (documented, ours) = (read_k6(K6_DOCUMENTED), read_k6(&said));
    assert_eq!(documented.len(), 9, "the reader reads what is documented");
    for line in &documented {
        let our = ours.iter().find(|our| our.name == line.name).unwrap_or_else(|| panic!("no {} in {said}", line.name));
        assert_eq!((&our.section, our.colon), (&line.section, line.colon), "{said}");
        let forms = |line: &K6Line| line.values.iter().map(|value| form(value)).collect::<Vec<_>>();
        assert_eq!(forms(our), forms(line), "{}: {said}", line.name);
    }
    let of = |name: &str| ours.iter().find(|line| line.name == name).map(|line| line.values.join(" "));
    assert_eq!(of("http_req_failed").as_deref(), Some("0.00% 0 out of 45"));
    assert_eq!(of("vus").as_deref(), Some("3 min=3 max=3"));
    assert!(of("http_reqs").is_some_and(|values| values.starts_with("45 ")), "{said}");
    // The sections are in order, with the thresholds first.
    let places =
        ["█ THRESHOLDS", "✓ 'p95<1500ms'", "█ TOTAL RESULTS", "    HTTP\n", "    EXECUTION\n", "    NETWORK\n"];
    let places = places.map(|words| said.find(words).unwrap_or_else(|| panic!("no {words:?} in {said}")));
    assert!(places.is_sorted(), "{said}");
}
