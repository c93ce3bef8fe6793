//! Rewrite programs, and variables computed from others.

use conf::model::{Condition, GeoRange, Instruction, MapKey, ReturnBody, RewriteFlag, RouteSubject, RouteTest};

use super::{found, http, locations};

#[test]
fn instructions_keep_their_order() {
    let http = http(
        "server { set $a 1; if ($b) { return 403; } rewrite ^/x(.*) /y$1?z=$1? last; break; return 301 https://$host; }",
    );
    let program = &http.servers[0].program;
    assert!(matches!(&program[0], Instruction::Set { variable, .. } if variable == "a"));
    let Instruction::If(block) = &program[1] else { panic!() };
    assert!(
        matches!(&block.program[0], Instruction::Return(back) if back.status == 403 && back.body == ReturnBody::None)
    );
    let Instruction::Rewrite(rewrite) = &program[2] else { panic!() };
    assert_eq!((rewrite.flag, rewrite.append_args), (RewriteFlag::Last, false));
    assert!(rewrite.args.is_some());
    assert!(matches!(program[3], Instruction::Break(_)));
    assert!(matches!(&program[4], Instruction::Return(back) if matches!(back.body, ReturnBody::Redirect(_))));
}

#[test]
fn a_replacement_that_is_a_url_redirects() {
    let http =
        http("server { rewrite ^ http://x$request_uri; rewrite ^ $scheme://y permanent; rewrite ^ /z redirect; }");
    let flags: Vec<_> = http.servers[0]
        .program
        .iter()
        .map(|step| match step {
            Instruction::Rewrite(rewrite) => rewrite.flag,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(flags, [RewriteFlag::Redirect(302), RewriteFlag::Redirect(301), RewriteFlag::Redirect(302)]);
}

#[test]
fn conditions_have_all_their_forms() {
    let here = locations(
        r#"location / { if ($a) { } if ($a = b) { } if ( $a != "" ) { } if ($a ~* ^x) { } if ($a !~ y) { } if (!-f $request_filename) { } if (-d /x) { } if (-e /x) { } if (!-x /x) { } }"#,
    );
    let conditions: Vec<_> = here[0]
        .program
        .iter()
        .map(|step| match step {
            Instruction::If(block) => &block.condition,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(*conditions[0], Condition::True("a".to_owned()));
    assert!(matches!(conditions[1], Condition::Equal { negated: false, value, .. } if value.as_text() == Some(b"b")));
    assert!(matches!(conditions[2], Condition::Equal { negated: true, value, .. } if value.is_empty()));
    assert!(matches!(conditions[3], Condition::Match { negated: false, regex, .. } if regex.caseless));
    assert!(matches!(conditions[4], Condition::Match { negated: true, regex, .. } if !regex.caseless));
    assert!(matches!(conditions[5], Condition::File { negated: true, .. }));
    assert!(matches!(conditions[6], Condition::Directory { negated: false, .. }));
    assert!(matches!(conditions[7], Condition::Exists { .. }));
    assert!(matches!(conditions[8], Condition::Executable { negated: true, .. }));
}

#[test]
fn if_inherits_the_settings_of_its_location() {
    let here = locations("location / { gzip on; if ($a) { add_header X y; } }");
    let Instruction::If(block) = &here[0].program[0] else { panic!() };
    assert!(block.settings.gzip.on);
    assert_eq!((block.settings.response.add_headers.len(), here[0].settings.response.add_headers.len()), (1, 0));
}

#[test]
fn refuses_invalid_rewrite_instructions() {
    assert_eq!(found("server { return abc; }"), ["invalid return code \"abc\" <- abc"]);
    assert_eq!(found("server { return 1000; }"), ["invalid return code \"1000\" <- 1000"]);
    assert_eq!(found("server { rewrite ^ /x final; }"), ["invalid parameter \"final\" <- final"]);
    assert_eq!(found("server { rewrite ^ ''; }"), ["empty replacement <- ''"]);
    assert_eq!(found("server { set a b; }"), ["invalid variable name \"a\" <- a"]);
    assert_eq!(found("server { if (a = b) { } }"), ["invalid condition \"a\" <- (a"]);
    assert_eq!(found("server { if ($a == b) { } }"), ["unexpected \"==\" in condition <- =="]);
    assert_eq!(found("server { if $a { } }"), ["invalid condition \"$a\" <- $a"]);
}

#[test]
fn maps_know_their_keys() {
    let http =
        http(r"map $host $x { hostnames; volatile; default d; A.b 1; *.c 2; .d 3; e.* 4; ~*^f(?<g>.) 5; \default 6; }");
    let map = &http.maps[0];
    assert!(map.hostnames && map.volatile);
    assert_eq!(map.default.as_text(), Some(&b"d"[..]));
    let keys: Vec<_> = map.entries.iter().map(|(key, _)| key).collect();
    assert_eq!(*keys[0], MapKey::Exact(b"a.b".to_vec()));
    assert_eq!(*keys[1], MapKey::Suffix(b"c".to_vec()));
    assert_eq!(*keys[2], MapKey::NameAndSuffix(b"d".to_vec()));
    assert_eq!(*keys[3], MapKey::Prefix(b"e".to_vec()));
    assert!(matches!(keys[4], MapKey::Regex(regex) if regex.caseless));
    assert_eq!(*keys[5], MapKey::Exact(b"default".to_vec()));
    assert_eq!(found("map $a $b { x 1; X 2; }"), ["conflicting parameter \"x\" <- X"]);
    assert_eq!(found("map $a $b { default 1; default 2; }"), ["duplicate default map parameter <- default"]);
    assert_eq!(
        found("map $a $b { hostnames; x.y 1; .x.y 2; }"),
        ["conflicting parameter \".x.y\" <- .x.y"],
        "the short form is the name itself too"
    );
    assert_eq!(found("map $a b { }"), ["invalid variable name \"b\" <- b"]);
}

#[test]
fn geo_takes_networks_or_ranges() {
    let http = http(
        "geo $a { default x; proxy 10.0.0.0/8; 1.0.0.0/8 y; 1.2.0.0/16 z; delete 1.2.0.0/16; } geo $b $c { ranges; 1.0.0.1-1.0.0.9 w; }",
    );
    assert_eq!((http.geos[0].entries.len(), http.geos[0].proxies.len()), (1, 1));
    assert_eq!(http.geos[1].source.as_deref(), Some("b"));
    assert!(matches!(http.geos[1].entries[0].range, GeoRange::Range(..)));
    assert_eq!(found("geo $a { x y; }"), ["invalid network \"x\" <- x"]);
    assert_eq!(
        found("geo $a { ranges; 2.0.0.0-1.0.0.0 y; }"),
        ["invalid range \"2.0.0.0-1.0.0.0\" <- 2.0.0.0-1.0.0.0"]
    );
}

#[test]
fn splits_add_up_to_the_whole() {
    let splits = http("split_clients $remote_addr $v { 50% a; 25.5% b; * c; }").declared.splits;
    let below: Vec<_> = splits[0].parts.iter().map(|part| part.below).collect();
    assert_eq!(below, [Some(2_147_483_647), Some(3_242_700_307), None]);
    assert_eq!(found("split_clients $a $b { 60% x; 50% y; }"), ["percent total is greater than 100% <- 50%"]);
    assert_eq!(found("split_clients $a $b { * x; 1% y; }"), ["percent total is greater than 100% <- 1%"]);
    assert_eq!(http("split_clients $a $b { * $5; }").splits[0].parts[0].value, b"$5", "no variables in values");
    assert_eq!(found("split_clients $a $b { 1.234% x; }"), ["invalid percent value \"1.234%\" <- 1.234%"]);
}

#[test]
fn route_to_reads_conditions_as_data() {
    let here = locations(
        r#"location / { route_to @a; route_to @b method=GET "header:X-A=$1 y" ~arg:v=^[12]$ $host=x=y; } location @a { }"#,
    );
    let [all, some] = here[0].routes.as_slice() else { panic!("{:?}", here[0].routes) };
    assert!(all.name == "a" && all.conditions.is_empty());
    let [method, header, arg, variable] = some.conditions.as_slice() else { panic!("{some:?}") };
    assert_eq!((&method.subject, &method.test), (&RouteSubject::Method, &RouteTest::Equal(b"GET".to_vec())));
    assert_eq!(header.subject, RouteSubject::Header(b"x-a".to_vec()));
    assert_eq!(header.test, RouteTest::Equal(b"$1 y".to_vec()));
    assert_eq!(arg.subject, RouteSubject::Arg(b"v".to_vec()));
    assert!(matches!(&arg.test, RouteTest::Match(regex) if regex.pattern.as_ref() == b"^[12]$"));
    assert_eq!(variable.subject, RouteSubject::Variable("host".to_owned()));
    assert_eq!(variable.test, RouteTest::Equal(b"x=y".to_vec()));
}

#[test]
fn route_to_refuses_invalid_conditions() {
    for (line, message) in [
        ("route_to b;", "invalid location \"b\""),
        ("route_to @;", "invalid location \"@\""),
        ("route_to @b path=/x;", "invalid condition \"path=/x\""),
        ("route_to @b header:=x;", "invalid condition"),
        ("route_to @b method;", "invalid condition"),
        ("route_to @b ~arg:x=(;", "pcre2_compile() failed"),
        ("route_to @b $=x;", "invalid variable name"),
    ] {
        let found = found(&format!("server {{ location / {{ {line} }} }}"));
        assert!(found.iter().any(|each| each.contains(message)), "{line}: {found:?}");
    }
}
