//! wrk's scripts against the built-in origin, unchanged.
#![allow(clippy::unwrap_used)] // a failed step is the end of a test

use crate::scene::{origin, requests, target};
use load::{Options, Script, Summary, start};
use std::net::SocketAddr;

fn scripted(address: SocketAddr, source: &str, count: u64) -> Options {
    let script = Script { name: "test.lua".to_owned(), source: source.to_owned(), args: vec!["first".to_owned()] };
    Options { script: Some(script), ..requests(target(address, "/"), count, 2) }
}

fn run(options: Options) -> Summary {
    start(options).unwrap().wait().unwrap()
}

/// The script of a field report (`wrk -s post.lua`): it only sets fields of the table `wrk`.
#[test]
fn the_post_script_of_the_field_report() {
    let origin = origin(origin::Options::default());
    let source = r#"
        wrk.method = "POST"
        wrk.body   = "foo=bar&baz=quux"
        wrk.path   = "/echo?id=post"
        wrk.headers["Content-Type"] = "application/x-www-form-urlencoded"
    "#;
    let whole = run(scripted(origin.address(), source, 20)).record.whole();
    assert_eq!((whole.responses, whole.errors(), origin.executed("post")), (20, 0, 20), "{:?}", whole.failures);
    // Each request has a body.
    assert_eq!(whole.bytes_sent % 20, 0);
    assert!(whole.bytes_sent / 20 > 16 + 60);
}

#[test]
fn requests_are_made_one_by_one_and_responses_are_shown() {
    let origin = origin(origin::Options::default());
    let source = r#"
        local counter, seen = 0, 0
        function init(args) assert(args[0] == "first") end
        function request()
            counter = counter + 1
            return wrk.format("POST", "/echo?id=" .. counter, nil, "body " .. counter)
        end
        function response(status, headers, body)
            assert(status == 200 and headers["Content-Type"] == "application/json", "what came is shown")
            assert(body:find('"bytes":' .. #("body " .. 1), 1, true) or body:find('"bytes":', 1, true))
            seen = seen + 1
            if seen == 5 then wrk.thread:stop() end
        end
    "#;
    let summary = run(Options { connections: 1, ..scripted(origin.address(), source, 1000) });
    let whole = summary.record.whole();
    assert!(summary.stopped && whole.responses >= 5 && whole.errors() == 0, "{:?}", whole.failures);
    // `request` is called once before the load, to count the requests in its string.
    assert_eq!([1, 2, 3].map(|id| origin.executed(&id.to_string())), [0, 1, 1]);
}

#[test]
fn several_requests_in_one_string_are_pipelined() {
    let origin = origin(origin::Options::default());
    let source = r#"
        init = function(args)
            local r = {}
            r[1] = wrk.format(nil, "/?id=one")
            r[2] = wrk.format(nil, "/?id=two")
            r[3] = wrk.format("POST", "/?id=three", nil, "abc")
            req = table.concat(r)
        end
        request = function() return req end
    "#;
    let whole = run(scripted(origin.address(), source, 30)).record.whole();
    assert_eq!((whole.responses, whole.errors()), (30, 0), "{:?}", whole.failures);
    assert_eq!(["one", "two", "three"].map(|id| origin.executed(id)), [10, 10, 10]);
}

#[test]
fn setup_and_done_see_the_threads_and_the_figures() {
    let origin = origin(origin::Options::default());
    let folder = std::env::temp_dir().join(format!("holdfast-script-{}", std::process::id()));
    let source = format!(
        r#"
        local threads = {{}}
        function setup(thread)
            thread:set("id", #threads + 1)
            table.insert(threads, thread)
        end
        function request() sent = (sent or 0) + 1; return wrk.format(nil, "/?id=" .. id) end
        function delay() return 1 end
        function done(summary, latency, requests)
            local sum = 0
            for _, thread in ipairs(threads) do sum = sum + thread:get("sent") end
            local value, count = latency(1)
            local file = io.open("{}", "w")
            file:write(string.format("%d %d %d %s %s", summary.requests, sum, summary.errors.status,
                latency.min <= latency:percentile(50) and latency:percentile(50) <= latency.max and latency.mean > 0,
                value > 0 and count > 0 and #latency > 0))
            file:close()
        end
        "#,
        folder.display()
    );
    let summary = run(Options { threads: 2, ..scripted(origin.address(), &source, 10) });
    summary.script.as_ref().unwrap().done(&summary, &[]).unwrap();
    let said = std::fs::read_to_string(&folder).unwrap();
    std::fs::remove_file(&folder).unwrap();
    // Each thread created one more string than it sent.
    assert_eq!(said, "10 12 0 true true");
    assert_eq!((origin.executed("1"), origin.executed("2")), (5, 5));
}

#[test]
fn script_mistakes_end_the_run_with_lua_errors() {
    let origin = origin(origin::Options::default());
    let error = |source: &str| start(scripted(origin.address(), source, 5)).unwrap_err().to_string();
    assert!(error("wrk.method = = 1").contains("test.lua:1:"), "{}", error("wrk.method = = 1"));
    assert!(error("function request() return 'GET / HTTP/1.1\\r\\n' end").contains("not complete"));
    assert!(error("function init() error('no way') end").contains("no way"));
    let later = "local n = 0; function request() n = n + 1; if n > 2 then error('later') end; return wrk.format() end";
    let summary = start(Options { connections: 1, ..scripted(origin.address(), later, 50) }).unwrap().wait().unwrap();
    let failure = summary.failure.as_deref().unwrap_or_default();
    assert!(failure.contains("later") && !summary.stopped, "{failure}");
    // Responses up to the stop are counted, and the figures say that the run is incomplete.
    assert_eq!(summary.record.whole().responses, 1);
    assert!(summary.health().void.iter().any(|reason| reason.contains("later")), "{:?}", summary.health().void);
}
