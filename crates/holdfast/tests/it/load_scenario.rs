//! `holdfast load --scenario`, `--urls` and `--replay` on the command line: over several processes, with thresholds by step,
//! reports and exit codes.

use crate::support::load::{load, origin, text};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

/// Writes a file into a folder and returns its path.
fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("written");
    path.to_string_lossy().into_owned()
}

const TWO_STEPS: &str = r#"
[[data]]
name = "d"
file = "d.jsonl"
order = "unique"
[[scenario]]
name = "s"
[[scenario.step]]
name = "first"
url = "/?id=a{{d.id}}"
check = [{ status = 200 }]
[[scenario.step]]
name = "second"
url = "/?id=b{{d.id}}"
check = [{ name = "never there", contains = "no such text" }]
"#;

#[track_caller]
fn expect_code(output: &Output, code: i32) -> String {
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn unique_rows_are_used_once_over_all_processes() {
    let origin = origin();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let rows: Vec<String> = (0..90).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let rows = rows.concat();
    write(folder.path(), "d.jsonl", &rows);
    let file = write(folder.path(), "s.toml", TWO_STEPS);
    let json = folder.path().join("a.json").to_string_lossy().into_owned();
    let html = folder.path().join("a.html").to_string_lossy().into_owned();
    let base = format!("http://{}", origin.address());
    let words = ["-q", "--scenario", &file, "-c", "6", "-t", "3", "--processes", "3", "--json", &json, "--html", &html];
    let output = load(&[words.as_slice(), &["--allow-lag", "--expect", "first:p99<10s", &base]].concat());
    let said = expect_code(&output, 0);
    assert!(said.contains("iterations  s: 90 begun, 90 complete") && said.contains("users, connections"), "{said}");
    assert!(said.contains("check       second: never there: 90 of 90 failed"), "{said}");
    for id in 0..90 {
        assert_eq!([origin.executed(&format!("a{id}")), origin.executed(&format!("b{id}"))], [1, 1], "{id}");
    }
    let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
    let steps = &results["scenario"]["steps"];
    assert_eq!((steps[0]["name"].as_str(), steps[0]["requests"].as_u64()), (Some("first"), Some(90)));
    assert_eq!((steps[1]["checks"][0]["failed"].as_u64(), results["responses"].as_u64()), (Some(90), Some(180)));
    assert_eq!(results["scenario"]["flows"][0]["completed"].as_u64(), Some(90));
    let page = fs::read_to_string(&html).expect("written");
    assert!(
        page.contains("Scenario s") && page.contains("never there"),
        "the page has the steps and the failed checks"
    );
}

#[test]
fn thresholds_name_steps_and_unknown_ones_are_refused() {
    let origin = origin();
    let folder = tempfile::tempdir().expect("a temporary directory");
    write(folder.path(), "d.jsonl", "{\"id\": 1}\n{\"id\": 2}\n");
    let file = write(folder.path(), "s.toml", TWO_STEPS);
    let base = format!("http://{}", origin.address());
    let with = |expect: &str| {
        load(&["-q", "--scenario", &file, "-c", "1", "-t", "1", "--expect", expect, "--allow-lag", &base])
    };
    expect_code(&with("first:checks=0"), 0);
    let missed = expect_code(&with("second:checks<1%"), 3);
    assert!(missed.contains("2 of 2 (100.000 %)"), "{missed}");
    let unknown = expect_code(&with("third:p99<1s"), 2);
    assert!(unknown.contains("the scenario has no step `third`"), "{unknown}");
    let none = expect_code(&load(&["-q", "-n", "1", "--expect", "a:p99<1s", &base]), 2);
    assert!(none.contains("none is given"), "{none}");
}

#[test]
fn mistakes_in_a_scenario_end_with_the_place() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let refused = |content: &str| {
        let file = write(folder.path(), "s.toml", content);
        expect_code(&load(&["-q", "--scenario", &file]), 2)
    };
    let typo = refused("[[scenario]]\nname = 's'\nstepp = []\n");
    assert!(typo.contains("s.toml: TOML parse error at line 3") && typo.contains("unknown field `stepp`"), "{typo}");
    let no_base = refused("[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'x'\nurl = '/'\n");
    assert!(no_base.contains("step `x`: the URL is a path, and the file has no `base`"), "{no_base}");
    let bad = refused(
        "base = 'http://127.0.0.1:9'\n[[scenario]]\nname = 's'\n[[scenario.step]]\nname = 'x'\nurl = '/'\nmethod = 'G T'\n",
    );
    assert!(bad.contains("`G T` is no method"), "{bad}");
}

#[test]
fn a_list_of_urls_is_sent_in_turn_over_all_processes() {
    let origin = origin();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let lines: Vec<String> = (0..10).map(|id| format!("/?id=u{id}\n")).collect();
    let lines = lines.concat();
    let list =
        write(folder.path(), "urls.txt", &format!("# ten paths\n{lines}HEAD http://{}/?id=head\n", origin.address()));
    let base = format!("http://{}", origin.address());
    for pace in [["--drain", "2s"], ["-R", "500/s"]] {
        let words = ["-q", "--urls", &list, "-n", "33", "-c", "6", "-t", "3", "--processes", "3", "--allow-lag"];
        let said = expect_code(&load(&[words.as_slice(), &pace, &[&base]].concat()), 0);
        assert!(said.contains("33 begun, 33 answered, 0 failed"), "{said}");
        assert!(said.contains(&format!("GET http://{}", origin.address())), "{said}");
    }
    assert!((0..10).all(|id| origin.executed(&format!("u{id}")) == 6) && origin.executed("head") == 6);
}

#[test]
fn an_access_log_is_replayed_at_its_pace_or_faster() {
    let origin = origin();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let line = |second: u32, request: &str| {
        format!("127.0.0.1 - - [24/Nov/2026:18:00:{second:02} +0000] \"{request}\" 200 5 \"-\" \"x\"\n")
    };
    let log: String = [
        line(0, "GET /?id=r0 HTTP/1.1"),
        line(0, "GET /?id=r1 HTTP/1.1"),
        line(0, "POST /?id=post HTTP/1.1"),
        line(1, "HEAD /?id=r2 HTTP/1.1"),
        "garbage\n".to_owned(),
        line(9, "GET /?id=r3 HTTP/1.1"),
    ]
    .concat();
    let log = write(folder.path(), "access.log", &log);
    let (json, base) =
        (folder.path().join("a.json").to_string_lossy().into_owned(), format!("http://{}", origin.address()));
    let replay = |more: &[&str]| {
        load(&[["-q", "--replay", &log, "--allow-lag", "--json", &json].as_slice(), more, &[&base]].concat())
    };
    let said = expect_code(&replay(&["--speed", "10x"]), 0);
    assert!(said.contains("4 requests in 1.0 s; left out: 1 lines that do not fit the format, 1 requests"), "{said}");
    let results: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("it is JSON");
    let elapsed = results["elapsed_s"].as_f64().expect("a time");
    // The last line is nine seconds after the first one.
    assert!((0.89..20.0).contains(&elapsed) && results["loop"] == "open", "{elapsed}");
    assert_eq!(results["responses"].as_u64(), Some(4));
    let said = expect_code(&replay(&["--speed", "max", "--replay-all-methods", "-c", "2"]), 0);
    assert!(said.contains("5 begun, 5 answered"), "{said}");
    assert_eq!(["r0", "r1", "r2", "r3", "post"].map(|id| origin.executed(id)), [2, 2, 2, 2, 1]);
    let unknown = expect_code(&replay(&["--log-format", "$status"]), 2);
    assert!(unknown.contains("--log-format: the format has no $request"), "{unknown}");
}

#[test]
fn plays_copied_recorded_and_described_scenarios() {
    let origin = origin();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let base = format!("http://{}", origin.address());
    let curl = format!(
        "curl '{base}/?id=one' -H 'Cookie: a=b' --compressed\ncurl '{base}/echo' --json '{{\"a\": \"{{{{uuid}}}}\"}}'\n\
         curl '{base}/echo' -F 'who=me' -F 'n=2'"
    );
    let har = format!(
        r#"{{"log": {{"entries": [
            {{"startedDateTime": "2026-11-25T22:00:00Z", "time": 1, "response": {{"status": 200}},
              "request": {{"method": "GET", "url": "{base}/?id=two", "headers": []}}}},
            {{"startedDateTime": "2026-11-25T22:00:00.3Z", "time": 1, "response": {{"status": 404}},
              "request": {{"method": "POST", "url": "{base}/status/404", "headers": [],
                "postData": {{"mimeType": "application/x-www-form-urlencoded", "text": "a=1&b=2"}}}}}}]}}}}"#
    );
    let openapi = format!(
        r#"{{"openapi": "3.0.3", "servers": [{{"url": "{base}"}}], "paths": {{
            "/": {{"get": {{"responses": {{"200": {{}}}}, "parameters": [
                {{"name": "id", "in": "query", "required": true, "example": "three"}}]}}}},
            "/status/{{code}}": {{"put": {{"responses": {{"204": {{}}}}, "parameters": [
                {{"name": "code", "in": "path", "required": true, "schema": {{"example": 204}}}}],
                "requestBody": {{"content": {{"application/json": {{"schema": {{"type": "object", "properties": {{"x": {{"type": "integer"}}}}}}}}}}}}}}}}}}}}"#
    );
    for (name, content, id, said) in [
        ("a.sh", curl, "one", "Cookies are left out"),
        ("b.har", har, "two", ""),
        ("c.json", openapi, "three", "Some operations change data"),
    ] {
        let (file, scenario) = (write(folder.path(), name, &content), folder.path().join(format!("{name}.toml")));
        let scenario = scenario.to_string_lossy().into_owned();
        let told = expect_code(&load(&["convert", &file, "-o", &scenario]), 0);
        assert!(told.contains(said), "{told}");
        let words = ["-q", "--allow-lag", "--scenario", &scenario, "-c", "2", "-n", "6", "--expect", "checks<0.1%"];
        let played = expect_code(&load(&words), 0);
        assert!(origin.executed(id) > 0, "{name}: {played}");
    }
    let wrong = write(folder.path(), "d.txt", "hello");
    assert!(expect_code(&load(&["convert", &wrong]), 1).contains("neither a command line of curl"));
}
