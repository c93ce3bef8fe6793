//! Optional parts of an experiment: sweeps of values, loads that fill a pool beforehand, other programs for loads, other
//! arguments for processes, shares of figures, traced processes.

use lab::experiment::Client;
use lab::plan::{Amount, Program, Site, Staged, staged};
use lab::{Adaptation, Experiment, Places};
use std::path::Path;

const SMALL: &str = include_str!("small.toml");

const MORE: &str = r#"
[[fill]]
name = "fill"
url = "http://{{proxy.2}}:8080/{{body}}"
arguments = ["-c", "{{connections}}"]
requests = 50

[[share]]
name = "time_wait"
of = "sockets.upstream.TIME_WAIT.end"
over = "requests"

[[probe]]
kind = "calls"
name = "of_proxy"
process = "proxy"

[[arm]]
name = "by wrk"
values = { pool = "" }
programs = { proxy = "relay" }
process_arguments = { proxy = ["-p", "{{body}}", "{{file:page.html}}"] }
clients = { client = "hey" }
arguments = ["-cpus", "1"]

[[claim]]
says = "hardly any"
figure = "share.time_wait"
of = "pooled"
value_at_most = 0.001

[[claim]]
says = "few calls"
figure = "calls_per_request.of_proxy"
of = "pooled"
value_at_most = 20

[sweep]
body = ["612", "16K"]
connections = ["1", "30", "256"]
"#;

fn text() -> String {
    format!("{SMALL}\n{MORE}").replace("http://{{proxy.2}}:8080/\"", "http://{{proxy.2}}:8080/{{body}}\"")
}

fn parse(text: &str) -> Result<Experiment, String> {
    let mut beside = |_: &str| Ok("{{proxy}}".to_owned());
    let loaded = Experiment::parse(text, "small.toml", &mut beside).map_err(|refused| refused.to_string())?;
    Ok(loaded.experiment)
}

fn whole() -> Experiment {
    parse(&text()).unwrap_or_else(|refused| panic!("{refused}"))
}

/// The errors after one text is replaced.
fn said(instead_of: &str, put: &str) -> String {
    let text = text();
    assert!(text.contains(instead_of), "{instead_of}");
    parse(&text.replacen(instead_of, put, 1)).expect_err("something is wrong with it")
}

fn stage(experiment: &Experiment, arm: &str) -> Staged {
    let places = Places::default();
    let site = Site { folder: Path::new("/run"), network: experiment.network.kind, places: &places };
    staged(experiment, arm, site).unwrap_or_else(|faults| panic!("{faults:?}"))
}

#[test]
fn each_swept_combination_is_an_experiment() {
    let cells = whole().cells();
    let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
    let expected = ["small-612-1", "small-612-30", "small-612-256", "small-16k-1", "small-16k-30", "small-16k-256"];
    assert_eq!(names, expected);
    assert_eq!(
        (cells.len(), cells[3].title.as_str()),
        (whole().cell_count(), "A small experiment, body 16K, connections 1")
    );
    assert!(cells[3].sweep.is_empty(), "and has no other conditions");
    let pooled = stage(&cells[5], "pooled");
    assert_eq!(
        (pooled.loads[0].url.as_str(), pooled.loads[0].arguments[1].as_str()),
        ("http://10.77.2.2:8080/16K", "256")
    );
    let without = Experiment { sweep: std::collections::BTreeMap::new(), ..cells[0].clone() };
    assert!(without.cells() == std::slice::from_ref(&without));
}

#[test]
fn set_value_replaces_its_sweep() {
    let set = |values: &[(&str, &str)]| {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        whole().adapted(&Adaptation { values, ..Adaptation::default() })
    };
    let cells = set(&[("connections", "7")]).unwrap().cells();
    assert_eq!(cells.iter().map(|cell| cell.values["connections"].as_str()).collect::<Vec<_>>(), ["7", "7"]);
    let pooled = set(&[("pool", "keepalive 3;")]).unwrap();
    assert!(pooled.arms.iter().all(|arm| arm.values["pool"] == "keepalive 3;"));
    let error = set(&[("bodi", "1")]).expect_err("no such value");
    assert!(error.contains("small has no value \"bodi\": did you mean `body`?"), "{error}");
}

#[test]
fn fill_is_shared_by_arms_except_its_url() {
    let cell = whole().cells().remove(0);
    let pooled = stage(&cell, "pooled");
    let fill = &pooled.fills[0];
    assert_eq!((fill.name.as_str(), fill.host.as_str(), fill.amount), ("fill", "client", Amount::Requests(50)));
    assert_eq!((fill.program, fill.url.as_str()), (Client::Load, "http://10.77.2.2:8080/612"));
    let direct = stage(&cell, "direct");
    assert_eq!((direct.fills[0].url.as_str(), direct.loads[0].program), ("http://10.77.1.1:8081/", Client::Ab));
    // The arm's arguments are for the program of its load.
    let unpooled = stage(&cell, "unpooled");
    assert_eq!((unpooled.loads[0].arguments.len(), unpooled.fills[0].arguments.len()), (3, 2));
}

#[test]
fn arm_may_override_load_and_program() {
    let other = stage(&whole().cells()[0], "by wrk");
    assert_eq!((other.loads[0].program, other.loads[0].arguments.join(" ")), (Client::Hey, "-c 1 -cpus 1".to_owned()));
    let proxy = other.processes.iter().find(|process| process.name == "proxy").unwrap();
    assert_eq!(proxy.program, Program::Command("relay".to_owned()));
    assert_eq!(proxy.arguments, ["-p", "612", "/run/proxy/page.html"]);
    assert!(proxy.files.iter().any(|file| file.path.ends_with("page.html")));
}

#[test]
fn reports_mistakes_everywhere_with_hints() {
    let rows = [
        (
            "of = \"sockets.upstream.TIME_WAIT.end\"",
            "of = \"sockets.upstream.TIME_WAIT.and\"",
            "there is no figure \"sockets.upstream.TIME_WAIT.and\"",
        ),
        ("over = \"requests\"", "over = \"share.time_wait\"", "there is no figure \"share.time_wait\""),
        ("figure = \"share.time_wait\"", "figure = \"share.time_weight\"", "there is no figure \"share.time_weight\""),
        ("process = \"proxy\"", "process = \"porxy\"", "there is no process \"porxy\""),
        ("clients = { client", "clients = { clint", "there is no load \"clint\""),
        ("clients = { client = \"hey\"", "clients = { client = \"heey\"", "cannot be \"heey\""),
        ("clients = { client = \"hey\"", "clients = { client = \"wrk\"", "this program counts seconds, not requests"),
        ("process_arguments = { proxy", "process_arguments = { poxy", "there is no process \"poxy\""),
        ("name = \"fill\"", "name = \"client\"", "another load is called \"client\" already"),
        ("requests = 50\n", "", "load \"fill\" has no end"),
        ("[\"1\", \"30\", \"256\"]", "[]", "\"connections\" has no value"),
        ("[\"1\", \"30\", \"256\"]", "[\"1\", \"30\", \"1\"]", "\"1\" is here twice"),
        ("body = [\"612\"", "proxy = [\"612\"", "a value cannot be called \"proxy\""),
        ("body = [\"612\"", "bodi = [\"612\"", "nothing says what `body` is in arm"),
    ];
    for (instead_of, put, what) in rows {
        let said = said(instead_of, put);
        assert!(said.contains(what) && said.contains("\nhint: "), "{put}: {what} is not in\n{said}");
    }
    let many = (0..65).map(|number| format!("\"{number}\"")).collect::<Vec<_>>().join(", ");
    let said = said("[\"1\", \"30\", \"256\"]", &format!("[{many}]"));
    assert!(said.contains("these are 130 combinations"), "{said}");
}

#[test]
fn arm_has_no_share_of_a_missing_part() {
    let claim =
        "\n[[claim]]\nsays = \"x\"\nfigure = \"calls_per_request.of_proxy\"\nof = \"direct\"\nvalue_at_most = 1\n";
    let text = text().replacen("\n[sweep]", &format!("{claim}\n[sweep]"), 1);
    let said = parse(&text).expect_err("nothing is traced there");
    assert!(said.contains("arm \"direct\" does without what \"calls_per_request.of_proxy\" is measured of"), "{said}");
}
