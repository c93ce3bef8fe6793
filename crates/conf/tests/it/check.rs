//! Checks against rows that this test defines, for cases that the real table may not have.

use crate::support::Files;
use conf::check;
use conf::diagnostic::{Diagnostic, Severity};
use conf::load::ERRORS_MAX;
use conf::table::{Args, Context, Contexts, Directive, FOREIGN, Inherit, Module, Support};

const fn row(name: &'static str, context: Context, args: Args, support: Support) -> Directive {
    Directive {
        name,
        module: Module("ngx_test_module"),
        contexts: Contexts::of(&[context]),
        args,
        syntax: "word",
        default: None,
        inherit: Inherit::No,
        repeatable: true,
        since: "0.1.0",
        doc: "",
        example: "",
        support,
    }
}

const fn args(min: u8, max: u8, block: bool) -> Args {
    Args { min, max, block, flag: false }
}

const ROWS: [Directive; 7] = [
    row("events", Context::Main, args(0, 0, true), Support::Yes),
    row("works", Context::Main, args(1, 1, false), Support::Yes),
    row("many", Context::Main, args(1, u8::MAX, false), Support::Yes),
    row("accepted", Context::Main, args(1, 1, false), Support::Accepted("it is always so")),
    row("only", Context::Main, args(1, 1, false), Support::OnlyWith("a TLS listener")),
    row("foreign", Context::Main, args(1, 1, false), Support::No),
    row("foreign_block", Context::Main, args(0, 0, true), Support::No),
];

fn found(text: &str) -> Vec<Diagnostic> {
    let loaded = Files::new([("/etc/nginx/nginx.conf", &format!("events {{}}\n{text}"))]).load();
    assert!(loaded.is_ok(), "{:?}", loaded.diagnostics);
    check(&loaded, &ROWS)
}

fn messages(text: &str) -> Vec<String> {
    found(text).into_iter().map(|found| found.message).collect()
}

#[test]
fn distinguishes_foreign_from_mistyped_directives() {
    assert_eq!(messages("foreign;"), ["directive \"foreign\" is known but not supported by holdfast"]);
    assert_eq!(messages("foreign_block { what ever; }").len(), 1);
    let mistyped = found("foregn 1;");
    assert_eq!(mistyped[0].message, "unknown directive \"foregn\"");
    assert_eq!(mistyped[0].hint.as_deref(), Some("did you mean `foreign`? (known, but not supported by holdfast)"));
}

#[test]
fn foreign_directives_are_no_typos() {
    for (text, hint) in [
        ("http { api; }", "it belongs to NGINX Plus; `status_page` shows"),
        (
            "http { upstream a { check interval=3000; } }",
            "it belongs to the module for active health checks of Tengine; `health_check`",
        ),
    ] {
        let loaded = Files::new([("/etc/nginx/nginx.conf", &format!("events {{}}\n{text}"))]).load();
        let found = check(&loaded, conf::table::all());
        let name = text.split(&['{', ' ', ';'][..]).find(|word| conf::table::foreign(word).is_some()).unwrap();
        assert_eq!(found[0].message, format!("directive \"{name}\" is known but not supported by holdfast"), "{text}");
        assert!(found[0].hint.as_deref().is_some_and(|said| said.starts_with(hint)), "{:?}", found[0].hint);
    }
}

#[test]
fn unsupported_directives_name_a_replacement() {
    for (text, hint) in [
        (
            "http { server { location / { image_filter size; } } }",
            "nginx's ngx_http_image_filter_module; pass these paths to an image service",
        ),
        ("http { dav_methods PUT; }", "nginx's ngx_http_dav_module; pass the path to a WebDAV server"),
        ("http { client_body_early_read on; }", "nginx's ngx_http_core_module; the body decides nothing here"),
        ("http { json_set $a $request_body a; }", "nginx's ngx_http_json_module; bodies are not parsed here"),
        ("http { zstd_dict_file a; }", "ngx_http_zstd_filter_module, a module that is no part of nginx; browsers"),
        ("mail { }", "nginx's ngx_mail_core_module; keep `mail` in an nginx"),
    ] {
        let loaded = Files::new([("/etc/nginx/nginx.conf", &format!("events {{}}\n{text}"))]).load();
        let found = check(&loaded, conf::table::all());
        assert!(found[0].message.ends_with("is known but not supported by holdfast"), "{text}");
        let hint = format!("it belongs to {hint}");
        assert!(found[0].hint.as_deref().is_some_and(|said| said.starts_with(&hint)), "{:?}", found[0].hint);
    }
}

/// The lines in the hint are valid where the directive was, and define variables of the old module.
#[test]
fn a_foreign_switch_that_is_off_is_noted() {
    let names = FOREIGN.iter().flat_map(|foreign| foreign.names).map(|name| name.trim_end_matches('*'));
    let (mut noted, mut refused) = (0, Vec::new());
    for name in names {
        let said = |value: &str| {
            let found = said_by_the_real_table(&format!("http {{ server {{ location / {{ {name} {value} }} }} }}"));
            assert_eq!(found.len(), 1, "{name} {value}: {found:?}");
            found.into_iter().next().expect("one")
        };
        let as_known = format!("directive \"{name}\" is known but not supported by holdfast");
        match said("off;") {
            (Severity::Note, message) => {
                assert_eq!(message, format!("\"{name}\" directive has no effect here"));
                noted += 1;
            }
            (severity, message) => {
                assert_eq!((severity, message), (Severity::Error, as_known.clone()));
                refused.push(name);
            }
        }
        for value in ["on;", "off x;", "off {}"] {
            assert_eq!(said(value), (Severity::Error, as_known.clone()), "{name} {value}");
        }
    }
    assert!(noted > 100, "{noted}");
    let is_no_switch = |name: &&str| name.starts_with("echo") || name.contains("_by_lua") || name.ends_with("_pass");
    assert!(refused.iter().all(is_no_switch) && refused.contains(&"echo"), "{refused:?}");
    let fetch = said_by_the_real_table("http { js_fetch_verify off; }");
    assert_eq!(fetch[0].0, Severity::Error, "its default is `on`: {fetch:?}");
}

#[test]
fn old_database_directives_are_refused_with_new_lines() {
    for (name, variable) in
        [("geoip_country", "$geoip_country_code"), ("geoip_city", "$geoip_city "), ("geoip_org", "$geoip_org")]
    {
        for context in ["http", "stream"] {
            let text = format!("events {{}}\n{context} {{ {name} GeoIP.dat; }}");
            let loaded = Files::new([("/etc/nginx/nginx.conf", &text)]).load();
            let found = check(&loaded, conf::table::all());
            assert_eq!(found[0].message, format!("directive \"{name}\" is known but not supported by holdfast"));
            let (_, lines) =
                found[0].hint.as_deref().and_then(|hint| hint.split_once("For the same variables: ")).unwrap();
            assert!(lines.contains(variable), "{lines}");
            assert_eq!(said_by_the_real_table(&format!("{context} {{ {lines} }}")), [], "{context} {lines}");
        }
    }
}

/// The result of checking a text against the real table.
fn said_by_the_real_table(text: &str) -> Vec<(Severity, String)> {
    let loaded = Files::new([("/etc/nginx/nginx.conf", &format!("events {{}}\n{text}"))]).load();
    assert!(loaded.is_ok(), "{:?}", loaded.diagnostics);
    let found = check(&loaded, conf::table::all());
    found.into_iter().map(|found| (found.severity, found.message)).collect()
}

#[test]
fn unsupported_directive_at_default_is_a_note() {
    for body in ["msie_refresh off", "dav_methods off"] {
        let name = body.split(' ').next().unwrap();
        let note = (Severity::Note, format!("\"{name}\" directive has no effect here"));
        assert_eq!(said_by_the_real_table(&format!("http {{ {body}; }}")), [note]);
        let on = body.replace("off", "on");
        let refused = (Severity::Error, format!("directive \"{name}\" is known but not supported by holdfast"));
        assert_eq!(said_by_the_real_table(&format!("http {{ {on}; }}")), [refused]);
    }
    let messages = said_by_the_real_table("http { autoindex off; autoindex off; }");
    assert!(messages.contains(&(Severity::Error, "\"autoindex\" directive is duplicate".to_owned())), "{messages:?}");
    let messages = said_by_the_real_table("http { upstream u { server a; autoindex off; } }");
    assert!(messages[0].1.contains("is not allowed here"), "{messages:?}");
    assert!(said_by_the_real_table("http { msie_refresh off { } }")[0].1.contains("not supported"));
}

#[test]
fn a_parameter_that_begins_a_line_is_no_directive() {
    for text in [
        "http { access_log /a combined\n gzip\n flush=1m; }",
        "http { access_log /a combined\n gzip flush=1m; }",
        "http { upstream u { server a; server b; random two\n least_conn; } }",
    ] {
        assert_eq!(said_by_the_real_table(text), [], "{text}");
    }
    let messages = said_by_the_real_table("http { access_log /a\n gzip on; }");
    assert!(messages.iter().any(|(_, message)| message.contains("gzip")), "a `;` is missing: {messages:?}");
}

#[test]
fn notes_each_directive_without_effect_once() {
    let notes = found("accepted 1; accepted 2; only 1; accepted 3;");
    assert!(notes.iter().all(|note| note.severity == Severity::Note));
    let messages: Vec<_> = notes.iter().map(|note| note.message.as_str()).collect();
    let expected =
        ["\"accepted\" directive has no effect here (and in 2 more places)", "\"only\" directive has no effect here"];
    assert_eq!(messages, expected);
    assert_eq!(notes[1].hint.as_deref(), Some("it acts only with a TLS listener"));
}

#[test]
fn a_file_without_any_semicolon_gives_a_bounded_list() {
    let errors = messages(&format!("{};", "works 1\n".repeat(50_000)));
    assert_eq!(errors.len(), ERRORS_MAX);
    assert!(errors.iter().all(|message| message == "directive \"works\" is not terminated by \";\""));
}

#[test]
fn argument_that_is_a_directive_name_is_a_warning() {
    let warnings = found("many a\n works 1;");
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].severity, Severity::Warning);
    assert_eq!(messages("many a works 1;"), [""; 0]);
    assert_eq!(messages("many a\n 'works' 1;"), [""; 0]);
}
