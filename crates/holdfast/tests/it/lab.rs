//! `holdfast lab` from the command line: the built-in experiments, files with errors, a run on loopback, and its record
//! reported again.

use lab::Record;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn lab(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("lab").args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder).env("NO_COLOR", "1");
    command.output().expect("it starts")
}

/// A free port on the address of a lab's loopback.
fn free_port() -> u16 {
    let bound = TcpListener::bind("127.77.0.1:0").and_then(|bound| bound.local_addr());
    bound.expect("a port").port()
}

/// The experiment on a port of its own, because origins of other runs use the same loopback.
fn sizes() -> String {
    sizes_on(free_port())
}

fn sizes_on(port: u16) -> String {
    SIZES.replace("PORT", &port.to_string())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Our origin under our load, with a page of 100 bytes and one of 20,000. [`sizes`] gives it a port.
const SIZES: &str = r#"
name = "sizes"
title = "Two pages"
about = "A small one and a large one."

[method]
rounds = 2
warm_up = 0.2
look = 0.1

[network]
kind = "loopback"

[[process]]
name = "origin"
program = "holdfast"
arguments = ["origin", "--listen", "{{here}}:PORT"]
ready = { tcp = "{{here}}:PORT" }

[[load]]
url = "http://{{here}}:PORT/bytes/{{bytes}}"
arguments = ["-c", "2"]
seconds = 0.5

[[arm]]
name = "small"
values = { bytes = "100" }

[[arm]]
name = "large"
values = { bytes = "20000" }

[[claim]]
says = "nothing fails"
figure = "failed"
of = "small"
value_at_most = 0
"#;

#[test]
fn built_in_experiments_are_listed_shown_and_valid() {
    let folder = folder();
    let list = lab(&["list"], folder.path());
    assert!(list.status.success(), "{}", text(&list.stderr));
    for shipped in lab::shipped::ALL {
        assert!(text(&list.stdout).contains(shipped.name), "{}", text(&list.stdout));
        let shown = lab(&["show", shipped.name], folder.path());
        assert!(shown.status.success() && text(&shown.stdout).contains("What is claimed"), "{}", text(&shown.stderr));
    }
    let source = lab(&["show", "keepalive-states", "--source"], folder.path());
    assert!(text(&source.stdout).contains("[[arm]]"));
    let schema = lab(&["schema"], folder.path());
    assert_eq!(text(&schema.stdout), lab::schema::text());
    let unknown = lab(&["show", "keepalive-state"], folder.path());
    assert_eq!(unknown.status.code(), Some(1));
    let said = "holdfast lab: there is no experiment \"keepalive-state\": did you mean `keepalive-states`?\n";
    assert_eq!(text(&unknown.stderr), said);
}

#[test]
fn a_file_with_slips_is_refused_with_line_column_and_hint() {
    let folder = folder();
    let file = folder.path().join("sizes.toml");
    let port = free_port();
    fs::write(&file, sizes_on(port)).expect("there is room");
    let sound = lab(&["check", "sizes.toml"], folder.path());
    let said = "sizes.toml: valid: 2 arms, 2 rounds, 1 claim, takes 5 s\n";
    assert_eq!((sound.status.code(), text(&sound.stdout).as_str()), (Some(0), said), "{}", text(&sound.stderr));
    let started = lab(&["show", "sizes.toml", "--arm", "large"], folder.path());
    let url = format!("http://127.77.0.1:{port}/bytes/20000");
    assert!(text(&started.stdout).contains(&url), "{}", text(&started.stdout));

    fs::write(&file, sizes().replace("rounds = 2", "ruonds = 2").replace("{{bytes}}", "{{\\u001b}}"))
        .expect("there is room");
    let refused = lab(&["check", "sizes.toml"], folder.path());
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("sizes.toml:7:1: unknown key \"ruonds\" in [method]") && said.contains("`rounds`"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    assert_eq!(lab(&["check"], folder.path()).status.code(), Some(2));
}

/// The only file with this extension.
fn ending(folder: &Path, with: &str) -> PathBuf {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut found = entries.filter(|path| path.extension().is_some_and(|extension| extension == with));
    found.next().unwrap_or_else(|| panic!("no {with} in {}", folder.display()))
}

#[test]
fn a_run_leaves_its_record_from_which_the_report_is_made_again() {
    let folder = folder();
    fs::write(folder.path().join("sizes.toml"), sizes()).expect("there is room");
    let ran = lab(&["run", "sizes.toml", "--seed", "7", "--order", "random", "--out", "results"], folder.path());
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(4), "two rounds decide nothing: {said}{}", text(&ran.stdout));
    assert!(said.contains("sizes: 2 rounds of 2 arms, seed 7"), "{said}");
    let results = folder.path().join("results");
    let file = ending(&results, "json");
    let record = Record::read(&file).expect("a record");
    assert_eq!((record.partial.as_ref(), record.seed, record.samples.len()), (None, 7, 4));
    assert!(record.command.ends_with("lab run sizes.toml --seed 7 --order random --out results"), "{}", record.command);
    let turns = lab::schedule::turns(2, 2, lab::experiment::Order::Random, 7);
    let order: Vec<&str> = turns.iter().map(|turn| record.experiment.arms[turn.arm].name.as_str()).collect();
    let taken: Vec<&str> = record.samples.iter().map(|sample| sample.arm.as_str()).collect();
    assert_eq!(taken, order);
    assert!(record.samples.iter().all(|sample| sample.figures["requests"] > 0.0), "{record:?}");
    assert!(text(&ran.stdout).contains("undecided: 4 more rounds needed"), "{}", text(&ran.stdout));
    let page = fs::read_to_string(ending(&results, "html")).expect("a page");
    assert!(page.contains("Two pages"));

    let file = file.to_str().expect("text");
    let again = lab(&["report", file, "--markdown", "again.md"], folder.path());
    assert_eq!((again.status.code(), again.stdout), (Some(4), ran.stdout), "{}", text(&again.stderr));
    let markdown = fs::read_to_string(ending(&results, "md")).expect("Markdown");
    assert_eq!(fs::read_to_string(folder.path().join("again.md")).expect("Markdown"), markdown);
    let json = lab(&["report", file, "--json"], folder.path());
    assert!(serde_json::from_slice::<report::Document>(&json.stdout).is_ok());
}

#[test]
fn a_program_that_only_waits_is_an_arm_beside_one_that_sends() {
    let folder = folder();
    let both = sizes().replace("arguments = [\"-c\", \"2\"]\n", "may_limit = true\n");
    let small = "name = \"small\"\narguments = [\"-c\", \"2\", \"-R\", \"400/s\"]";
    let both = both.replace("name = \"small\"", small).replace("name = \"large\"", "name = \"only waits\"").replace(
        "values = { bytes = \"20000\" }",
        "without = [\"origin\"]\nclients = { client = \"floor\" }\narguments = [\"-R\", \"400/s\", \"--work\", \"10us\"]",
    );
    let claim = "[[claim]]\nsays = \"beyond a program that only waits\"\nfigure = \"client.lag_ms.p99.9\"\nof = \"small\"\n\
                 against = \"only waits\"\nmore_at_most = 60000\n";
    fs::write(folder.path().join("floor.toml"), both + claim).expect("there is room");
    let ran = lab(&["run", "floor.toml", "--rounds", "6", "--out", "results", "--full"], folder.path());
    assert_eq!(ran.status.code(), Some(0), "{}{}", text(&ran.stdout), text(&ran.stderr));
    let record = Record::read(&ending(&folder.path().join("results"), "json")).expect("a record");
    for sample in &record.samples {
        let of = |name: &str| sample.figures.get(name).copied();
        let lag = of("client.lag_ms.p99.9").unwrap_or_else(|| panic!("{sample:?}"));
        assert!(lag.is_finite() && lag >= of("client.lag_ms.p50").unwrap_or(f64::MAX), "{sample:?}");
        // A waiting client sends nothing: it has no rate and no failures.
        let asks = sample.arm == "small";
        assert_eq!((of("requests_per_second").is_some(), of("failed")), (asks, Some(0.0)), "{sample:?}");
        assert_eq!((of("client.busy_share").is_some(), sample.void.as_ref()), (!asks, None), "{sample:?}");
    }
    let said = text(&ran.stdout);
    assert!(said.contains("How late the loads themselves were") && said.contains("client.lag_ms.p99.9"), "{said}");
    assert!(said.contains("[holds] beyond a program that only waits"), "{said}");

    fs::write(folder.path().join("floor.toml"), sizes().replace("seconds = 0.5", "program = \"floor\"\nrequests = 9"))
        .expect("room");
    let refused = lab(&["check", "floor.toml"], folder.path());
    assert!(text(&refused.stderr).contains("this program counts seconds, not requests"), "{}", text(&refused.stderr));
}

#[test]
fn the_quick_form_is_shown_as_it_is_run() {
    let folder = folder();
    let shown = |arguments: &[&str]| text(&lab(arguments, folder.path()).stdout);
    let (whole, quick) = (shown(&["show", "pool-throughput"]), shown(&["show", "pool-throughput", "--quick"]));
    assert!(
        whole.contains("10, and up to 2 for void ones, arms forward") && whole.contains("haproxy pooled kept"),
        "{whole}"
    );
    let arms = quick.split("What is claimed").next().unwrap_or_default();
    assert!(quick.contains("8, and up to ") && !arms.contains("haproxy pooled"), "{quick}");
}

#[test]
fn missing_programs_are_reported_with_the_line_of_their_process() {
    let folder = folder();
    let dies = sizes().replace("\"origin\", \"--listen\"", "\"origin\", \"--no-such-flag\"");
    fs::write(folder.path().join("sizes.toml"), dies).expect("there is room");
    let ran = lab(&["run", "sizes.toml", "--out", "results"], folder.path());
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("sizes.toml:14:1") && said.contains("--no-such-flag"), "{said}");
    let record = Record::read(&ending(&folder.path().join("results"), "json")).expect("a record");
    assert!(record.partial.is_some() && record.samples.is_empty());
    let arm = lab(&["run", "sizes.toml", "--arm", "smal"], folder.path());
    assert_eq!(text(&arm.stderr), "holdfast lab: sizes has no arm \"smal\": did you mean `small`?\n");
    let only = lab(&["run", "sizes.toml", "--only", "huge"], folder.path());
    assert_eq!(text(&only.stderr), "holdfast lab: no arm has \"huge\" in its name: there are small, large\n");
}
