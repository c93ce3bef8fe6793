//! Experiment files as users write them, with typing errors: what is read, and the errors for what cannot be
//! read.

use lab::experiment::{Client, File, NetworkKind, Order};
use lab::{Experiment, Loaded};
use proptest::prelude::*;

const SMALL: &str = include_str!("small.toml");

fn parse(text: &str) -> Result<Loaded, String> {
    let mut beside = |path: &str| match path {
        "page.html" => Ok("{{proxy}}".to_owned()),
        _ => Err("cannot be read: No such file".to_owned()),
    };
    Experiment::parse(text, "small.toml", &mut beside).map_err(|refused| refused.to_string())
}

/// The errors for the small experiment after one text is replaced.
fn said(instead_of: &str, text: &str) -> String {
    assert!(SMALL.contains(instead_of), "{instead_of}");
    parse(&SMALL.replacen(instead_of, text, 1)).map(|_| ()).expect_err("something is wrong with it")
}

/// Checks that the only error is this one, at `at`, with this hint.
fn is_said(instead_of: &str, text: &str, at: &str, what: &str, hint: &str) {
    let said = said(instead_of, text);
    let text = SMALL.replacen(instead_of, text, 1);
    let before = &text[..text.find(at).unwrap_or_else(|| panic!("{at} is not in the text"))];
    let (line, column) =
        (before.matches('\n').count() + 1, before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1);
    let first = said.lines().next().unwrap_or_default();
    assert_eq!(first, format!("small.toml:{line}:{column}: {what}"), "{said}");
    let hints: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("hint: ")).collect();
    assert!(hints.len() == 1 && hints[0].contains(hint), "{said}");
}

#[test]
fn reads_all_parts_of_a_file() {
    let Loaded { experiment, places } = parse(SMALL).unwrap();
    assert_eq!((experiment.name.as_str(), experiment.method.rounds), ("small", 8));
    assert_eq!((experiment.method.order, experiment.network.kind), (Order::Random, NetworkKind::Hosts));
    assert_eq!((experiment.method.look.to_bits(), experiment.loads[0].program), (0.5_f64.to_bits(), Client::Ab));
    assert_eq!(experiment.files["page.html"], File::Text("{{proxy}}".to_owned()), "it was beside");
    let arms: Vec<&str> = experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(arms, ["direct", "pooled", "unpooled"]);
    assert_eq!(experiment.claims[0].times_at_least, Some(1.2));
    // Line and column of the header of the second process.
    assert_eq!(places.of(&lab::path!["process", 1]), "small.toml:39:1");
    assert_eq!(places.of(&lab::path!["process", 1, "core"]), "small.toml:39:1", "what holds it");
}

#[test]
fn reports_all_mistakes_at_once_with_places_and_hints() {
    let text = SMALL
        .replace("rounds = 8", "ruonds = 8\nlook = \"often\"")
        .replace("program = \"ab\"", "program = \"abb\"")
        .replace("order = \"random\"", "order = \"randon\"");
    let said = parse(&text).map(|_| ()).expect_err("three slips");
    let expected = [
        "small.toml:6:1: unknown key \"ruonds\" in [method]",
        "hint: did you mean `rounds`?",
        "small.toml:7:8: \"look\" is a string, not a number",
        "small.toml:8:9: \"order\" cannot be \"randon\"",
        "hint: did you mean `random`?",
        "\"program\" cannot be \"abb\"",
        "hint: did you mean `ab`?",
    ];
    for expected in expected {
        assert!(said.contains(expected), "{expected} is not in\n{said}");
    }
    assert!(said.contains("    6 | ruonds = 8\n      | ^^^^^^\n"), "{said}");
}

/// The last line of the small experiment, to append something after it.
const END: &str = "value_at_least = 100\n";

fn with(more: &str) -> String {
    format!("{END}{more}")
}

#[test]
fn refuses_unknown_missing_and_out_of_bounds_values() {
    is_said("rounds = 8", "rounds = 500", "500", "\"rounds\" is 500", "from 1 to 100");
    is_said("rounds = 8", "rounds = nan", "nan", "\"rounds\" is a float, not a whole number", "no verdicts");
    is_said("rounds = 8", "look = inf", "inf", "\"look\" is inf", "from 0.05 to 60");
    is_said("url = ", "urn = ", "urn", "unknown key \"urn\" in [[load]]", "did you mean `url`?");
    is_said(
        "program = \"nginx\"\n",
        "",
        "[[process]]\nname = \"proxy\"",
        "[[process]] has no \"program\"",
        "add `program`: `nginx`",
    );
    is_said("addresses = 2", "addresses = 0", "0\nsysctls", "\"addresses\" is 0", "from 1 to 250");
    is_said("text = \"index", "texd = \"index", "\"more.conf\"]", "[files.more.conf] has no known key", "`text`");
    is_said(
        "text = \"index",
        "bytes = 3\ntext = \"index",
        "\"more.conf\"]",
        "[files.more.conf] has text and bytes at once",
        "keep one",
    );
    is_said("kind = \"port\"", "", "[[probe]]", "[[probe]] has no \"kind\"", "`queue`");
    is_said("kind = \"port\"", "kind = \"prot\"", "\"prot\"", "\"kind\" cannot be \"prot\"", "did you mean `port`?");
    is_said("port = 8081", "port = 70000", "70000", "\"port\" is 70000", "to 65535");
    let arms = "arm = []\n[method]";
    assert!(said("[method]", arms).contains("duplicate key"), "{}", said("[method]", arms));
}

#[test]
fn names_that_lead_nowhere_are_refused() {
    is_said(
        "host = \"proxy\"\nprogram",
        "host = \"poxy\"\nprogram",
        "\"poxy\"",
        "there is no host \"poxy\"",
        "did you mean `proxy`?",
    );
    is_said(
        "host = \"proxy\"\nprogram",
        "program",
        "[[process]]\nname = \"proxy\"",
        "process \"proxy\" does not say on which host it runs",
        "\"origin\"",
    );
    is_said("host = \"proxy\"\nport", "host = \"here\"\nport", "\"here\"", "there is no host \"here\"", "`client`");
    is_said(
        "conf = \"nginx.conf\"",
        "conf = \"ngnix.conf\"",
        "\"ngnix",
        "there is no file \"ngnix.conf\"",
        "did you mean `nginx.conf`?",
    );
    is_said(
        "conf = \"nginx.conf\"\n",
        "",
        "[[process]]\nname = \"proxy\"",
        "process \"proxy\" has no configuration",
        "nginx does not start without",
    );
    is_said("without = [\"proxy\"]", "without = [\"prox\"]", "\"prox\"]", "there is no process \"prox\"", "`proxy`");
    is_said("programs = { proxy", "programs = { porxy", "porxy", "there is no process \"porxy\"", "`proxy`");
}

#[test]
fn names_that_are_taken_or_cannot_be_names_are_refused() {
    let twin = "[[arm]]\nname = \"pooled\"\nvalues = { pool = \"x\" }\n";
    is_said(
        END,
        &with(twin),
        "\"pooled\"\nvalues = { pool = \"x\"",
        "another arm is called \"pooled\" already",
        "a `name` of its own",
    );
    is_said(
        "name = \"upstream\"",
        "name = \"proxy\"",
        "\"proxy\"\nhost = \"proxy\"\nport",
        "another host is called \"proxy\" already",
        "this probe",
    );
    is_said("name = \"origin\"", "name = \"or.gin\"", "\"or.gin\"", "\"or.gin\" cannot be a name here", "letters");
    is_said(
        "name = \"small\"",
        "name = \"Small One\"",
        "\"Small",
        "\"Small One\" cannot be the name of an experiment",
        "keepalive-states",
    );
    is_said(
        "connections = \"30\"",
        "proxy = \"30\"",
        "proxy = \"30\"",
        "a value cannot be called \"proxy\": `{{proxy}}` is something else",
        "otherwise",
    );
    is_said(
        "path = \"page.html\"",
        "path = \"../page.html\"",
        "\"../page",
        "\"../page.html\" is not beside the experiment",
        "below",
    );
    is_said(
        "path = \"page.html\"",
        "path = \"pag.html\"",
        "\"pag.html\"",
        "\"pag.html\" cannot be read: No such file",
        "begins at the folder",
    );
}

#[test]
fn unknown_templates_are_refused_at_their_place() {
    is_said(
        "{{origin}}:8081; {{pool}}",
        "{{orgin}}:8081; {{pool}}",
        "{{orgin}}",
        "nothing says what `orgin` is in arm \"pooled\"",
        "did you mean `origin`?",
    );
    is_said("listen {{proxy.2}}", "listen {{proxy.3}}", "{{proxy.3}}", "host `proxy` has no address \"3\"", "it has 2");
    is_said(
        "{{file:more.conf}}",
        "{{file:moor.conf}}",
        "{{file:moor.conf}}",
        "there is no file \"moor.conf\"",
        "`more.conf`",
    );
    is_said(
        "{{folder}}/nginx.pid",
        "{{folder/nginx.pid",
        "{{folder/nginx.pid;",
        "this template is not closed",
        "`{{{{`",
    );
    is_said(
        "connections = \"30\"",
        "connections = \"{{connections}}\"",
        "{{connections}}",
        "`connections` leads through more than 4 values",
        "circle",
    );
    is_said(
        "values = { pool = \"keepalive",
        "values = { pol = \"keepalive",
        "{{pool}}",
        "nothing says what `pool` is in arm \"pooled\"",
        "`pol`",
    );
}

#[test]
fn arms_that_do_nothing_otherwise_are_refused() {
    let twin = "[[arm]]\nname = \"twin\"\nvalues = { pool = \"keepalive 30;\", unused = \"x\" }\n";
    is_said(END, &with(twin), "[[arm]]\nname = \"twin\"", "arm \"twin\" is the same as \"pooled\"", "--control");
    let gone = "[[arm]]\nname = \"gone\"\nwithout = [\"proxy\"]\ndescriptors = { proxy = 9 }\n";
    is_said(
        END,
        &with(gone),
        "proxy = 9",
        "arm \"gone\" does without \"proxy\", so nothing of it can be changed",
        "keep one",
    );
}

#[test]
fn refuses_settings_that_change_the_machine() {
    is_said(
        "net.core.somaxconn",
        "kernel.pid_max",
        "\"kernel.pid_max\"",
        "\"kernel.pid_max\" is not of a network namespace",
        "whole machine",
    );
    is_said(
        "net.core.somaxconn",
        "net.ipv4.tcp_mem",
        "\"net.ipv4",
        "\"net.ipv4.tcp_mem\" is not of a network namespace",
        "no experiment",
    );
    is_said(
        "net.core.somaxconn",
        "net.../../etc",
        "\"net...",
        "\"net.../../etc\" is not of a network namespace",
        "names such as",
    );
    let loopback = "[network]\nkind = \"loopback\"\n\n[hosts.client]";
    is_said(
        "[hosts.client]",
        loopback,
        "\"net.core",
        "\"net.core.somaxconn\" would be the machine's own on its loopback",
        "namespace",
    );
    let one = "[network]\nkind = \"namespace\"\n[hosts.client]\nsysctls = { \"net.core.somaxconn\" = \"128\" }";
    is_said(
        "[hosts.client]",
        one,
        "\"512\"",
        "one namespace cannot have net.core.somaxconn = 512 here and 128 on host \"client\"",
        "hosts",
    );
}

#[test]
fn claims_that_nothing_can_decide_are_refused() {
    is_said("of = \"pooled\"", "of = \"poled\"", "\"poled\"", "there is no arm \"poled\"", "did you mean `pooled`?");
    is_said(
        "against = \"unpooled\"",
        "against = \"pooled\"",
        "\"pooled\"\ntimes",
        "\"pooled\" is compared with itself",
        "--control",
    );
    is_said(
        "requests_per_second",
        "requests_per_secund",
        "\"requests_per_secund\"",
        "there is no figure \"requests_per_secund\"",
        "did you mean `requests_per_second`?",
    );
    is_said(
        "requests_per_second",
        "cores.poxy",
        "\"cores.poxy\"",
        "there is no figure \"cores.poxy\"",
        "did you mean `cores.proxy`?",
    );
    let direct = "[[claim]]\nsays = \"x\"\nfigure = \"cores.proxy\"\nof = \"direct\"\nvalue_at_most = 1\n";
    is_said(
        END,
        &with(direct),
        "\"cores.proxy\"",
        "arm \"direct\" does without what \"cores.proxy\" is measured of",
        "",
    );
    let quick = "[quick]\narms = [\"direct\", \"pooled\"]\n\n[hosts.client]";
    let only_quick =
        SMALL.replacen("[hosts.client]", quick, 1).replacen("of = \"pooled\"", "of = \"pooled\"\nonly = \"quick\"", 1);
    let said = parse(&only_quick).map(|_| ()).expect_err("an arm that it does not have");
    assert!(said.contains("`--quick` does not run \"unpooled\"") && said.contains("[quick]"), "{said}");
    parse(&only_quick.replace("only = \"quick\"", "only = \"full\"")).unwrap_or_else(|refused| panic!("{refused}"));
    is_said("times_at_least = 1.2\n", "", "[[claim]]\nsays = \"a pool", "nothing is claimed here", "`times_at_least`");
    is_said(
        "times_at_least = 1.2",
        "times_at_least = 1.2\ntimes_at_most = 1",
        "1.2",
        "nothing is at least 1.2 and at most 1",
        "exchange",
    );
    is_said(
        "times_at_least = 1.2",
        "times_at_least = 1.2\nmore_at_most = 1",
        "more_at_most",
        "one claim has `times_at_least` and `more_at_most`",
        "two claims",
    );
    is_said("times_at_least = 1.2", "times_at_least = -1", "-1", "a ratio is above 0", "`more_…`");
    is_said("times_at_least = 1.2", "value_at_least = 1", "against", "`value_at_least` looks at one arm", "remove");
    is_said(
        "value_at_least = 100",
        "more_at_least = 100",
        "[[claim]]\nsays = \"an",
        "`more_at_least` compares \"unpooled\" with nothing",
        "add `against`",
    );
}

#[test]
fn loads_without_end_and_nights_without_end_are_refused() {
    is_said("requests = 1000", "", "[[load]]", "load \"client\" has no end", "add `seconds` or `requests`");
    is_said(
        "requests = 1000",
        "requests = 1000\nseconds = 1",
        "requests = 1000",
        "a load ends after `seconds` or after `requests`",
        "keep one",
    );
    is_said(
        "program = \"ab\"",
        "program = \"wrk\"",
        "requests = 1000",
        "this program counts seconds, not requests",
        "write `seconds`",
    );
    let floor = "clients = { client = \"floor\" }\nvalues = { pool = \"\" }";
    is_said(
        "values = { pool = \"\" }",
        floor,
        "client = \"floor\"",
        "this program counts seconds, not requests",
        "write `seconds`",
    );
    is_said("requests = 1000", "seconds = 10000", "8\norder", "24 samples of 10001 s are 67 hours", "at most 48 hours");
    let twice = "[[load]]\nurl = \"http://{{origin}}:8081/\"\nseconds = 1\n";
    is_said(END, &with(twice), "[[load]]\nurl", "another load is called \"client\" already", "a `name` of its own");
}

#[test]
fn load_without_requests_is_refused_unless_it_waits() {
    let url = "url = \"http://{{proxy.2}}:8080/\"\n";
    is_said(url, "", "[[load]]", "load \"client\" has no \"url\"", "add `url`");
    let waits = "program = \"floor\"\narguments = [\"-R\", \"9/s\"]\nseconds = 1.0\n";
    let asks = format!("program = \"ab\"\n{url}arguments = [\"-c\", \"{{{{connections}}}}\"]\nrequests = 1000\n");
    parse(&SMALL.replacen(&asks, waits, 1)).unwrap_or_else(|refused| panic!("{refused}"));
    // One arm has a load that sends requests.
    let asking = "programs = { proxy = \"holdfast\" }\nclients = { client = \"wrk\" }";
    let text = SMALL.replacen(&asks, waits, 1).replace("programs = { proxy = \"holdfast\" }", asking);
    let said = parse(&text).map(|_| ()).expect_err("it has nothing to ask for");
    let line = text[..text.find("clients = ").unwrap()].lines().count() + 1;
    assert!(said.starts_with(&format!("small.toml:{line}:13: load \"client\" has no \"url\"")), "{said}");
    parse(&text.replace(asking, &format!("{url}{asking}"))).unwrap_or_else(|refused| panic!("{refused}"));
}

#[test]
fn invalid_toml_has_its_place_without_control_characters() {
    let said = said("title = \"A small", "title = \"A \u{1b}[31msmall");
    assert!(said.starts_with("small.toml:2:") && said.contains("this is not TOML"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    is_said(
        "title = \"A small",
        "title = \"A \\u001b[31msmall",
        "\"A \\u001b",
        "this has control characters",
        "plain text",
    );
    let unclosed = parse("name = \"x\n[method\nrounds = = 3\n").map(|_| ()).expect_err("broken");
    assert!(unclosed.contains("small.toml:1:") && unclosed.contains("small.toml:2:"), "{unclosed}");
    assert!(parse("").map(|_| ()).expect_err("empty").contains("has no \"arm\""));
    let long = format!("about = \"{}\"", "x".repeat(2 << 20));
    assert!(parse(&long).map(|_| ()).expect_err("long").contains("bytes; an experiment has at most"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let refused = Experiment::read(std::path::Path::new("/nowhere/x.toml")).map(|_| ()).expect_err("not there");
    assert_eq!(refused.to_string(), "/nowhere/x.toml: cannot be read: No such file or directory (os error 2)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn shortened_or_shuffled_files_never_panic(from in 0_usize..2300, length in 0_usize..80, to in 0_usize..2300) {
        let bound = |at: usize| (0..=at.min(SMALL.len())).rev().find(|at| SMALL.is_char_boundary(*at)).unwrap_or(0);
        let (from, end, to) = (bound(from), bound(from + length), bound(to));
        let text = format!("{}{}{}", &SMALL[..from], &SMALL[end.max(from)..to.max(end).max(from)], &SMALL[from..end.max(from)]);
        match parse(&text) {
            Ok(loaded) => prop_assert!(!loaded.experiment.arms.is_empty()),
            Err(said) => prop_assert!(said.starts_with("small.toml:"), "{}", said),
        }
    }
}

#[test]
fn guide_experiment_is_sound_and_its_typo_is_reported() {
    let guide = include_str!("../../../../docs/guide/lab.md");
    let text = guide.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an experiment");
    let parse = |text: &str| Experiment::parse(text, "page-size.toml", &mut |_| Err(String::new()));
    parse(text).unwrap_or_else(|refused| panic!("{refused}"));
    let refused = parse(&text.replace("request.origin", "request.orgin")).map(|_| ()).expect_err("a slip");
    assert!(guide.contains(&refused.to_string()), "{refused}");
}
