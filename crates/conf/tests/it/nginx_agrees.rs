//! Compares our verdict with real `nginx -t` over generated configurations: each directive on our list that the
//! installed nginx knows, with right and wrong contexts, numbers of arguments, blocks and repetitions; and random
//! pieces of the language.
//!
//! If nginx refuses the shape, we must refuse it in the same words. If nginx refuses the meaning (a bad value, an
//! unknown name), we must refuse it too. If nginx accepts, we must accept. Intended disagreements are in
//! `nginx_disagrees.txt` with their reason; one that no longer exists fails the test. By default one case in twelve is
//! run; `NGINX_AGREES=all` runs every one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::Files;
use conf::diagnostic::Severity;
use conf::table::{Context, Directive, Support};
use conf::{check, table};
use testkit::peer_or_skip;

/// One configuration and its subject.
struct Case {
    /// `directive: what was done to it`, the key of `nginx_disagrees.txt`.
    name: String,
    text: String,
    /// What we must do if nginx accepts it.
    expected: Expected,
}

/// Our answer where nginx accepts.
#[derive(Clone, Copy, PartialEq)]
enum Expected {
    /// We accept it, too.
    Taken,
    /// We accept it without reading its values, because it has no effect in holdfast.
    Idle,
    /// It only states what holdfast does anyway, about something that holdfast does not have.
    Neutral,
    /// We accept it, or report it as known but not supported.
    Known,
}

/// The program that is asked.
struct Nginx {
    program: PathBuf,
    /// Lines in front of each text.
    loads: String,
}

impl Nginx {
    fn plain(program: PathBuf) -> Self {
        Self { program, loads: String::new() }
    }

    fn with_stream(program: PathBuf) -> Self {
        Self { loads: testkit::sides::load_stream(&program), program }
    }
}

/// nginx's answer.
#[derive(Debug, PartialEq)]
enum Verdict {
    Good,
    /// Refused because of its shape, with these words.
    Shape(String),
    /// Refused because of its meaning.
    Meaning(String),
}

/// The contexts in which a directive is tried, each with a configuration that has room for it.
const PLACES: [(Context, &str); 9] = [
    (Context::Main, "events {}\n@"),
    (Context::Events, "events { @ }"),
    (Context::Http, "events {}\nhttp { @ }"),
    (Context::Server, "events {}\nhttp { server { @ } }"),
    (Context::Location, "events {}\nhttp { server { location / { @ } } }"),
    (Context::IfInServer, "events {}\nhttp { server { if ($host) { @ } } }"),
    (Context::IfInLocation, "events {}\nhttp { server { location / { if ($host) { @ } } } }"),
    (Context::LimitExcept, "events {}\nhttp { server { location / { limit_except GET { @ } } } }"),
    (Context::Upstream, "events {}\nhttp { upstream u { server 127.0.0.1:1; @ } }"),
];

/// The same for the modules of `stream`: a server needs a handler, unless the directive is one.
const STREAM_PLACES: [(Context, &str); 4] = [
    (Context::Http, "events {}\nhttp { @ }"),
    (Context::Stream, "events {}\nstream { @ }"),
    (Context::StreamServer, "events {}\nstream { server { listen 12345; return x; @ } }"),
    (Context::StreamUpstream, "events {}\nstream { upstream u { server 127.0.0.1:1; @ } }"),
];
const WITHOUT_HANDLER: (Context, &str) = (Context::StreamServer, "events {}\nstream { server { listen 12345; @ } }");

/// nginx's phrases for the errors of shape.
const SHAPES: [&str; 10] = [
    "unknown directive",
    "directive is not allowed here",
    "invalid number of arguments in",
    "is not terminated by",
    "has no opening",
    "unexpected \"",
    "unexpected end of file",
    "it must be \"on\" or \"off\"",
    "directive is duplicate",
    "no \"events\" section",
];

/// Modules that distributions build as loadable, or that only the commercial nginx has: a plain nginx does not know their
/// directives.
const LOADED: [&str; 13] = [
    "ngx_http_auth_jwt_module",
    "ngx_http_image_filter_module",
    "ngx_http_xslt_module",
    "ngx_http_geoip_module",
    "ngx_http_perl_module",
    "ngx_stream_core_module",
    "ngx_http_headers_more_filter_module",
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_zstd_filter_module",
    "ngx_http_zstd_static_module",
    "ngx_http_geoip2_module",
    "ngx_otel_module",
];

/// `1.22.1` as three numbers.
fn version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split('.').map(|part| part.parse().ok());
    Some([parts.next()??, parts.next()??, parts.next()??])
}

fn version_of(nginx: &Path) -> [u32; 3] {
    let output = Command::new(nginx).arg("-v").output().expect("nginx runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let number = text.trim().rsplit_once('/').map_or("", |(_, number)| number);
    version(number.split(' ').next().unwrap_or("")).unwrap_or_else(|| panic!("no version in {text:?}"))
}

/// Cases for one row, from its example.
fn cases_of(row: &Directive, places: &[(Context, &'static str)], into: &mut Vec<Case>) {
    let is_idle = matches!(row.support, Support::Accepted(_) | Support::OnlyWith(_));
    let expected = if is_idle { Expected::Idle } else { Expected::Taken };
    let mut add = |what: &str, (_, place): (Context, &str), body: &str| {
        into.push(Case { name: format!("{}: {what}", row.name), text: place.replace('@', body) + "\n", expected });
    };
    let valid: Vec<_> = places.iter().copied().filter(|(context, _)| row.contexts.contains(*context)).collect();
    // Main already has its `events`.
    let Some(&place) = valid.first().filter(|_| row.name != "events") else { return };
    if !row.example.is_empty() {
        for &place in places {
            if valid.contains(&place) || table::find(row.name, place.0).is_none() {
                add(&format!("example in {}", place.0.describe()), place, row.example);
            }
        }
        add("twice", place, &format!("{0}\n{0}", row.example));
        add("without its end", place, row.example.trim_end_matches([';', '}']));
    }
    for count in 0..5 {
        let end = if row.args.block { " {}" } else { ";" };
        add(&format!("{count} arguments"), place, &format!("{}{}{end}", row.name, " 1".repeat(count)));
    }
    let end = if row.args.block { ";" } else { " {}" };
    let args = " 1".repeat(usize::from(row.args.min));
    add("block or not", place, &format!("{}{args}{end}", row.name));
}

/// The documented default, `off`, `on` and the example of each row, in each of its contexts. We must know every
/// directive that nginx has.
fn words_of(row: &Directive, into: &mut Vec<Case>) {
    let mut bodies: Vec<(String, String)> = Vec::new();
    if !row.args.block {
        bodies.extend(row.default.map(|default| ("default".to_owned(), format!("{} {default};", row.name))));
        bodies.extend(row.neutral_values().map(|value| (format!("neutral {value}"), format!("{} {value};", row.name))));
        if row.args.accepts(1) {
            bodies.extend(["off", "on"].map(|word| (word.to_owned(), format!("{} {word};", row.name))));
        }
    }
    if !row.example.is_empty() {
        bodies.push(("example".to_owned(), row.example.to_owned()));
    }
    for place in PLACES.iter().filter(|(context, _)| row.contexts.contains(*context)) {
        // Main already has its `events`.
        for (what, body) in bodies.iter().filter(|_| row.name != "events") {
            let is_neutral = row.support == Support::No && what.starts_with("neutral ");
            into.push(Case {
                name: format!("{} in {}: {what}", row.name, place.0.describe()),
                text: place.1.replace('@', body) + "\n",
                expected: if is_neutral { Expected::Neutral } else { Expected::Known },
            });
        }
    }
}

/// Values at the limits of what nginx accepts, each in its context.
const VALUES: &[(Context, &[&str])] = &[
    (
        Context::Main,
        &[
            "env \"\";",
            "env \"=x\";",
            "worker_priority 100;",
            "worker_priority -100;",
            "worker_priority +5;",
            "worker_priority --5;",
            "worker_priority x;",
            "worker_priority \"\";",
        ],
    ),
    (
        Context::Http,
        &[
            "connection_pool_size 1;",
            "connection_pool_size 96;",
            "connection_pool_size 112;",
            "connection_pool_size 113;",
            "connection_pool_size 120;",
            "request_pool_size 100;",
            "request_pool_size 128;",
            "request_pool_size 1000;",
            "gzip_window 256;",
            "gzip_window 512;",
            "gzip_window 1000;",
            "gzip_window 32k;",
            "gzip_window 64k;",
            "gzip_hash 256;",
            "gzip_hash 3k;",
            "gzip_hash 128k;",
            "gzip_hash 256k;",
            "postpone_gzipping 7;",
            "real_ip_header \"X Y\";",
            "real_ip_header \"\";",
            "proxy_hide_header \"\";",
            "proxy_hide_header \"X-A:\";",
            "proxy_pass_header \"X A\";",
            "set_real_ip_from 5;",
            "set_real_ip_from 1.2;",
            "set_real_ip_from \"\";",
            "set_real_ip_from 1.2.3.4/33;",
            "access_log /dev/null combined buffer=8k; server { access_log /dev/null; }",
            "access_log /dev/null; server { access_log /dev/null combined buffer=8k flush=1m; }",
        ],
    ),
];

fn values(into: &mut Vec<Case>) {
    for (context, bodies) in VALUES {
        let (_, place) = PLACES.iter().find(|(place, _)| place == context).expect("a place");
        for body in *bodies {
            let (name, text) = (format!("value {body}"), place.replace('@', body) + "\n");
            into.push(Case { name, text, expected: Expected::Taken });
        }
    }
}

/// Texts of random pieces of the language. The generator gives the same texts on every machine.
fn soups(into: &mut Vec<Case>) {
    const PIECES: [&str; 36] = [
        "set $a ",
        "set",
        "return 200 ",
        "return",
        "location /x {",
        "location",
        "if ($host) {",
        " ",
        " ",
        "\n",
        "\t",
        "\r\n",
        ";",
        ";",
        ";\n",
        "; ",
        "}",
        "}",
        "{",
        "\"",
        "\"",
        "'",
        "\\",
        "\\\"",
        "$host",
        "${host}",
        "$",
        "#",
        "# x\n",
        "abc",
        "a\"b",
        "x'",
        "\\n",
        "0",
        ")",
        "~",
    ];
    let mut seed = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    for number in 0..800 {
        let mut body = String::new();
        for _ in 0..=next(9) {
            body.push_str(PIECES[next(PIECES.len())]);
        }
        // Most random texts fail at once; a valid directive before and after the text shows whether the parser resumes
        // at the right place.
        let text = format!("events {{}}\nhttp {{ server {{ set $b \"x\"; {body}\nset $c y; }} }}\n");
        into.push(Case { name: format!("soup {number}"), text, expected: Expected::Taken });
    }
}

fn ask_nginx(nginx: &Nginx, folder: &Path, text: &str) -> Verdict {
    let path = folder.join("nginx.conf");
    fs::write(&path, format!("{}{text}", nginx.loads)).expect("the folder can be written");
    let output = Command::new(&nginx.program)
        .args(["-t", "-e", "stderr", "-p"])
        .arg(folder)
        .arg("-c")
        .arg(&path)
        .output()
        .expect("nginx runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // What follows this line depends on the machine: ports, logs, folders.
    if said.contains("syntax is ok") && !said.contains("zero size shared memory zone") {
        return Verdict::Good;
    }
    let emergency = said.lines().find_map(|line| line.split_once("[emerg] ").map(|(_, message)| message));
    // Before the message are the process and the thread: `12#12: `.
    let message = emergency.and_then(|message| message.split_once(": ")).map_or(said.as_str(), |(_, message)| message);
    let message = message.rsplit_once(" in ").map_or(message, |(message, _)| message).to_owned();
    if SHAPES.iter().any(|shape| message.contains(shape)) { Verdict::Shape(message) } else { Verdict::Meaning(message) }
}

/// The messages of our errors.
fn ask_us(rows: &[Directive], text: &str) -> Vec<String> {
    let loaded = Files::new([("/etc/nginx/nginx.conf", text)]).load();
    let mut found = loaded.diagnostics.clone();
    found.extend(check(&loaded, rows));
    if found.iter().all(|found| found.severity < Severity::Error) {
        found.extend(conf::model::lower(&loaded.tree, &loaded.sources).1);
    }
    conf::diagnostic::sort(&mut found);
    found.into_iter().filter(|found| found.severity == Severity::Error).map(|found| found.message).collect()
}

/// The disagreement of the two in one case, if any.
fn disagreement(case: &Case, theirs: &Verdict, ours: &[String]) -> Option<String> {
    let is_soup = case.name.starts_with("soup");
    let is_refused_as_known = |message: &String| message.contains("known but not supported by holdfast");
    match theirs {
        Verdict::Good if case.expected == Expected::Known && ours.iter().all(is_refused_as_known) => None,
        // Only cases that nginx accepts count here; other cases compare how nginx refuses.
        Verdict::Shape(_) | Verdict::Meaning(_) if matches!(case.expected, Expected::Known | Expected::Neutral) => None,
        // nginx reports an undefined zone only after it opens logs and ports, so the result depends on the machine.
        Verdict::Good if ours.iter().all(|message| message.starts_with("zero size shared memory zone")) => None,
        Verdict::Good => Some(format!("nginx takes it, we say {ours:?}")),
        Verdict::Meaning(_) if !ours.is_empty() => None,
        // Users are looked up at start, host names at run time, and directives that act only together with something
        // unsupported are not read.
        Verdict::Meaning(message)
            if case.expected == Expected::Idle
                || ["host not found", "getpwnam"].iter().any(|words| message.contains(words)) =>
        {
            None
        }
        Verdict::Meaning(message) => Some(format!("nginx says {message:?}, we say nothing")),
        Verdict::Shape(message) if ours.contains(message) => None,
        // If a text is broken in several places, both must refuse it; nginx reports the first error it meets.
        Verdict::Shape(_) if is_soup && !ours.is_empty() => None,
        // We name the directive that lacks its end; nginx names the brace that comes too early.
        Verdict::Shape(message)
            if message == "unexpected \"}\"" && ours.iter().any(|ours| ours.contains("is not terminated by")) =>
        {
            None
        }
        Verdict::Shape(message) => Some(format!("nginx says {message:?}, we say {ours:?}")),
    }
}

/// The key under which a disagreement in this case is accepted: the case, or its directive.
fn key<'a>(case: &'a str, accepted: &BTreeMap<&str, &str>) -> Option<&'a str> {
    [case, case.split(": ").next()?].into_iter().find(|key| accepted.contains_key(key))
}

/// Case or directive, and the reason of the disagreement.
fn accepted() -> BTreeMap<&'static str, &'static str> {
    include_str!("nginx_disagrees.txt")
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split_once(" -- ").unwrap_or_else(|| panic!("{line:?} has no reason behind ` -- `")))
        .collect()
}

/// The disagreements in these cases, each with the case's text.
fn disagreements<'c>(nginx: &Nginx, chosen: &[&'c Case], rows: &[Directive]) -> BTreeMap<&'c str, (String, &'c str)> {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let folder = tempfile::tempdir().expect("there is a temporary folder");
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = chosen.get(at) else { break };
                    // nginx creates the logs that a case names; the next case must not find them.
                    let folder = folder.path().join(at.to_string());
                    fs::create_dir(&folder).expect("the folder can be made");
                    let theirs = ask_nginx(nginx, &folder, &case.text);
                    if let Some(what) = disagreement(case, &theirs, &ask_us(rows, &case.text)) {
                        wrong
                            .lock()
                            .expect("no thread panicked")
                            .insert(case.name.as_str(), (what, case.text.as_str()));
                    }
                }
            });
        }
    });
    wrong.into_inner().expect("no thread panicked")
}

#[test]
fn nginx_and_we_agree_on_the_shape_of_configurations() {
    let Some(nginx) = peer_or_skip(&["nginx"]) else { return };
    let installed = version_of(&nginx);
    let rows = table::all();
    let mut cases = Vec::new();
    for row in rows.iter().filter(|row| row.support != Support::No) {
        if row.since != "holdfast"
            && !LOADED.contains(&row.module.0)
            && version(row.since).is_none_or(|since| since <= installed)
        {
            cases_of(row, &PLACES, &mut cases);
        }
    }
    soups(&mut cases);
    values(&mut cases);
    let all = std::env::var("NGINX_AGREES").is_ok_and(|value| value == "all");
    let accepted = accepted();
    let is_run = |(at, case): &(usize, &Case)| {
        all || at % 12 == 0 || case.name.starts_with("value ") || key(&case.name, &accepted).is_some()
    };
    let chosen: Vec<&Case> = cases.iter().enumerate().filter(is_run).map(|(_, case)| case).collect();
    let wrong = disagreements(&Nginx::plain(nginx), &chosen, rows);
    let mut out = String::new();
    let mut unused: BTreeSet<_> = accepted.keys().copied().collect();
    for (name, (what, text)) in &wrong {
        if let Some(key) = key(name, &accepted) {
            unused.remove(key);
        } else {
            let _ = writeln!(out, "{name}: {what}\n    {text:?}");
        }
    }
    assert!(unused.is_empty(), "no disagreement any more, take these out of nginx_disagrees.txt: {unused:?}");
    assert!(out.is_empty(), "{} of {} cases disagree:\n{out}", wrong.len(), chosen.len());
}

#[test]
fn whatever_nginx_takes_is_taken_or_called_known() {
    let rows = table::all();
    let mut cases = Vec::new();
    rows.iter().filter(|row| row.since != "holdfast").for_each(|row| words_of(row, &mut cases));
    let all = std::env::var("NGINX_AGREES").is_ok_and(|value| value == "all");
    let is_run = |(at, case): &(usize, &Case)| all || at % 12 == 0 || case.expected == Expected::Neutral;
    let chosen: Vec<&Case> = cases.iter().enumerate().filter(is_run).map(|(_, case)| case).collect();
    for name in ["nginx", "nginx-new"] {
        let Some(nginx) = peer_or_skip(&[name]) else { continue };
        let mut out = String::new();
        for (case, (what, text)) in disagreements(&Nginx::plain(nginx), &chosen, rows) {
            let _ = writeln!(out, "{case}: {what}\n    {text:?}");
        }
        assert!(out.is_empty(), "{name} and we disagree in {} cases:\n{out}", chosen.len());
    }
}

#[test]
fn newest_nginx_accepts_the_same_stream_blocks() {
    let Some(nginx) = peer_or_skip(&["nginx-new"]) else { return };
    let installed = version_of(&nginx);
    let rows = table::all();
    let mut cases = Vec::new();
    let is_asked = |row: &&Directive| {
        row.module.0.starts_with("ngx_stream_")
            && row.support != Support::No
            && version(row.since).is_some_and(|since| since <= installed)
    };
    for row in rows.iter().filter(is_asked) {
        let is_handler = ["return", "pass", "proxy_pass"].contains(&row.name);
        let places = STREAM_PLACES
            .map(|place| if is_handler && place.0 == Context::StreamServer { WITHOUT_HANDLER } else { place });
        cases_of(row, &places, &mut cases);
    }
    let accepted = accepted();
    // The gateway reads its address, with those of all listeners; it refuses this one, too.
    let is_chosen = |case: &&Case| case.name != "pass: 1 arguments";
    let chosen: Vec<&Case> = cases.iter().filter(is_chosen).collect();
    assert!(chosen.len() > 1000, "{} cases", chosen.len());
    let mut out = String::new();
    for (name, (what, text)) in disagreements(&Nginx::with_stream(nginx), &chosen, rows) {
        if key(name, &accepted).is_none() {
            let _ = writeln!(out, "{name}: {what}\n    {text:?}");
        }
    }
    assert!(out.is_empty(), "we disagree in some of {} cases:\n{out}", chosen.len());
}
