//! Groups of peers.

use std::time::Duration;

use conf::model::{Balance, CheckCondition, CheckKind, HealthCheck, Sticky};

use super::{found, http};

const SECONDS_5: Duration = Duration::from_secs(5);

#[test]
fn servers_have_their_parameters() {
    let http = http(
        "upstream u { server a:81 weight=5 max_conns=9 max_fails=0 fail_timeout=1m backup; server unix:/s down; server [::1]; keepalive 16 per_peer=4 floor=2; keepalive_learn on; max_connections 100 connecting=5 queue=20 timeout=2s; }",
    );
    let group = &http.upstreams[0];
    let [a, unix, v6] = group.servers.as_slice() else { panic!() };
    assert_eq!((a.weight, a.max_conns, a.max_fails, a.backup), (5, 9, 0, true));
    assert_eq!((a.fail_timeout, a.address.text.as_str()), (Duration::from_mins(1), "a:81"));
    assert!(unix.down);
    assert_eq!(v6.address.address.port, 80);
    let keepalive = group.settings.keepalive;
    assert_eq!((keepalive.idle, keepalive.local, keepalive.per_peer, keepalive.floor), (16, false, Some(4), 2));
    let cap = group.settings.max_connections.unwrap();
    assert_eq!((cap.most, cap.connecting, cap.queue, cap.timeout), (100, Some(5), 20, Duration::from_secs(2)));
    assert!(group.settings.keepalive_learn);
}

#[test]
fn a_pool_can_be_switched_off() {
    assert_eq!(http("upstream u { server a; keepalive 0; }").upstreams[0].settings.keepalive.idle, 0);
    assert_eq!(found("upstream u { server a; keepalive x; }"), ["invalid value \"x\" in \"keepalive\" directive <- x"]);
}

#[test]
fn peers_are_chosen_by_the_method_written() {
    let http = http("upstream a { ip_hash; server x; } upstream b { hash $uri consistent; server x; } upstream c { random two least_conn; server x; }
        upstream d { least_time header inflight; server x; sticky cookie id expires=1h path=/; }");
    assert_eq!(http.upstreams[0].settings.balance, Balance::IpHash);
    assert!(matches!(http.upstreams[1].settings.balance, Balance::Hash { consistent: true, .. }));
    assert!(matches!(http.upstreams[2].settings.balance, Balance::Random(_)));
    assert!(matches!(http.upstreams[3].settings.balance, Balance::LeastTime { inflight: true, .. }));
    assert!(matches!(&http.upstreams[3].settings.sticky, Some(Sticky::Cookie { name, .. }) if name == "id"));
}

#[test]
fn refuses_invalid_sticky() {
    let learn = "learn create=$cookie_a lookup=$cookie_a";
    for (text, expected) in [
        ("cookies a", "unknown parameter \"cookies\" <- cookies"),
        ("cookie a path=/ path=/x", "parameter \"path\" is duplicate <- path=/x"),
        ("cookie a domain=x domain=y", "parameter \"domain\" is duplicate <- domain=y"),
        ("cookie a expires=1h expires=max", "parameter \"expires\" is duplicate <- expires=max"),
        ("cookie a samesite=lax samesite=lax", "parameter \"samesite\" is duplicate <- samesite=lax"),
        ("cookie a httponly httponly", "parameter \"httponly\" is duplicate <- httponly"),
        ("cookie a secure secure", "parameter \"secure\" is duplicate <- secure"),
        ("cookie a path=", "no value for \"path\" <- path="),
        ("cookie a domain=", "no value for \"domain\" <- domain="),
        ("cookie a expires=soon", "invalid \"expires\" parameter value <- expires=soon"),
        ("cookie a samesite=often", "invalid \"samesite\" parameter value <- samesite=often"),
        ("cookie a samesite=", "invalid \"samesite\" parameter value <- samesite="),
        ("cookie a often", "unknown parameter \"often\" <- often"),
        ("route a", "invalid variable name \"a\" <- a"),
        ("route $cookie_a x$cookie_b", "invalid variable name \"x$cookie_b\" <- x$cookie_b"),
        ("learn create=a lookup=$cookie_a zone=z:1m", "missing variable in the \"create\" parameter <- a"),
        ("learn create=$cookie_a lookup=a zone=z:1m", "missing variable in the \"lookup\" parameter <- a"),
        ("learn create=$cookie_a zone=z:1m", "\"lookup\" parameter is not specified <- sticky …"),
        ("learn lookup=$cookie_a zone=z:1m", "\"create\" parameter is not specified <- sticky …"),
        (learn, "\"zone\" parameter is not specified <- sticky …"),
        ("LEARN zone=z", "zone size is not specified <- zone=z"),
        ("LEARN zone=:1m", "zone name is not specified <- zone=:1m"),
        ("LEARN zone=z:many", "invalid zone size <- zone=z:many"),
        ("LEARN zone=z:31k", "zone is too small <- zone=z:31k"),
        ("LEARN zone=z:1m zone=z:1m", "parameter \"zone\" is duplicate <- zone=z:1m"),
        ("LEARN zone=z:1m timeout=0", "invalid timeout <- timeout=0"),
        ("LEARN zone=z:1m timeout=1s timeout=1s", "parameter \"timeout\" is duplicate <- timeout=1s"),
        ("LEARN zone=z:1m sync", "unknown parameter \"sync\" <- sync"),
    ] {
        let text = format!("sticky {};", text.replace("LEARN", learn));
        let expected = expected.replace("sticky …", &text);
        assert_eq!(found(&format!("upstream u {{ server a; {text} }}")), [expected], "{text}");
    }
}

#[test]
fn refuses_invalid_groups() {
    assert_eq!(found("upstream u { }"), ["no servers are inside upstream <- upstream u"]);
    assert_eq!(found("upstream u { server a; } upstream U { server b; }"), ["duplicate upstream \"U\" <- upstream U"]);
    assert_eq!(found("upstream u { server a backup; }"), ["no servers in upstream \"u\" <- upstream u"]);
    assert_eq!(
        found("upstream u { ip_hash; server a; server b backup; }"),
        ["balancing method does not support parameter \"backup\" <- backup"]
    );
    assert_eq!(found("upstream u { server a weight=0; }"), ["invalid parameter \"weight=0\" <- weight=0"]);
    assert_eq!(found("upstream u { server http://a; }"), ["invalid host in upstream \"http://a\" <- http://a"]);
    assert_eq!(
        found("upstream u { server a; keepalive 8; least_conn; }"),
        ["warning: load balancing method redefined <- least_conn"]
    );
    assert_eq!(
        found("resolver 127.0.0.1; upstream u { server a resolve; }"),
        ["resolving names at run time requires upstream \"u\" to be in shared memory <- server a resolve;"]
    );
    assert_eq!(
        found("upstream u { server a; zone z 64k; server b resolve; }"),
        ["no resolver defined to resolve names at run time in upstream \"u\" <- server b resolve;"]
    );
}

#[test]
fn a_group_has_one_waiting_line() {
    let queue =
        |text: &str| http(text).upstreams[0].settings.queue.map(|queue| (queue.length, queue.timeout.as_secs()));
    assert_eq!(queue("upstream u { server a max_conns=1; queue 100 timeout=30s; }"), Some((100, 30)));
    assert_eq!(queue("upstream u { server a; max_connections 5; queue 1; }"), Some((1, 60)));
    for (text, expected) in [
        ("queue 0;", "invalid value \"0\" <- 0"),
        ("queue -1;", "invalid value \"-1\" <- -1"),
        ("queue many;", "invalid value \"many\" <- many"),
        ("queue 5 30s;", "invalid parameter \"30s\" <- 30s"),
        ("queue 5 timeout=soon;", "invalid parameter \"timeout=soon\" <- timeout=soon"),
        (
            "max_connections 9 queue=7 timeout=1s; queue 5;",
            "upstream \"u\": queue 5 contradicts \"queue=7\" of \"max_connections\" <- queue 5;",
        ),
        (
            "queue 5; max_connections 9 queue=7;",
            "upstream \"u\": queue 5 contradicts \"queue=7\" of \"max_connections\" <- queue 5;",
        ),
    ] {
        assert_eq!(found(&format!("upstream u {{ server a max_conns=1; {text} }}")), [expected], "{text}");
    }
    assert_eq!(
        found("upstream u { server a; server b; queue 5; }"),
        [
            "warning: upstream \"u\": no server has \"max_conns\", so requests queue only while all servers have failed <- queue 5;"
        ]
    );
}

fn check(parameters: &str) -> HealthCheck {
    let mut http = http(&format!("upstream u {{ server a; health_check {parameters}; }}"));
    http.declared.upstreams.remove(0).settings.health_check.clone().expect("it is written")
}

#[test]
fn a_health_check_has_defaults() {
    let check = check("");
    assert_eq!((check.interval, check.jitter, check.timeout), (SECONDS_5, Duration::ZERO, SECONDS_5));
    assert_eq!((check.fails, check.passes, check.port, check.mandatory), (1, 1, None, false));
    let CheckKind::Http { uri, host, conditions } = check.kind else { panic!() };
    assert_eq!((uri.as_slice(), host), (&b"/"[..], None));
    assert_eq!(conditions, [CheckCondition::Status { ranges: vec![(200, 399)], negated: false }]);
    assert!(http("upstream u { server a; }").upstreams[0].settings.health_check.is_none());
}

#[test]
fn a_health_check_has_parameters() {
    let all = check("interval=2s jitter=500ms fails=3 passes=2 timeout=1s port=8081 mandatory persistent type=tcp");
    assert_eq!((all.interval, all.jitter), (Duration::from_secs(2), Duration::from_millis(500)));
    assert_eq!((all.fails, all.passes, all.timeout, all.port), (3, 2, Duration::from_secs(1), Some(8081)));
    assert!(all.mandatory);
    assert_eq!(all.kind, CheckKind::Tcp);

    let http = check(
        "uri=/h?x=1 host=a.example:80 status=200,204-206 status=!205 header=A header=!B \"header=C = d e\" header=C!=x \
         header=D~^[a-z]+$ \"header=D !~* X\" body=~ok body=!~down",
    );
    let CheckKind::Http { uri, host, conditions } = http.kind else { panic!() };
    assert_eq!((uri.as_slice(), host.as_deref()), (&b"/h?x=1"[..], Some(&b"a.example:80"[..])));
    let shown: Vec<String> = conditions.iter().map(|condition| format!("{condition:?}")).collect();
    assert_eq!(
        shown,
        [
            "Status { ranges: [(200, 200), (204, 206)], negated: false }",
            "Status { ranges: [(205, 205)], negated: true }",
            "Header { name: \"A\", test: Present }",
            "Header { name: \"B\", test: Absent }",
            "Header { name: \"C\", test: Is([100, 32, 101]) }",
            "Header { name: \"C\", test: IsNot([120]) }",
            "Header { name: \"D\", test: Matches(Regex(~ \"^[a-z]+$\")) }",
            "Header { name: \"D\", test: MatchesNot(Regex(~* \"X\")) }",
            "Body(Matches(Regex(~ \"ok\")))",
            "Body(MatchesNot(Regex(~ \"down\")))",
        ]
    );
}

#[test]
fn refuses_invalid_health_checks() {
    for wrong in [
        "interval=0",
        "interval=4ms",
        "interval=x",
        "jitter=-1",
        "fails=0",
        "passes=x",
        "timeout=0",
        "port=0",
        "port=65536",
        "type=udp",
        "uri=healthz",
        "uri=/$host",
        "uri=",
        "host=a/b",
        "host=",
        "status=99",
        "status=1000",
        "status=300-200",
        "status=200,",
        "status=ok",
        "match=m",
        "persistent",
        "often",
    ] {
        let expected = format!("invalid parameter \"{wrong}\" <- {wrong}");
        assert_eq!(found(&format!("upstream u {{ server a; health_check {wrong}; }}")), [expected]);
    }
    for (wrong, marked) in [
        ("header=", ""),
        ("header=A?b", "A?b"),
        ("header=!A=b", "!A=b"),
        ("header=A!", "A!"),
        ("body=", ""),
        ("body=ok", "ok"),
        ("body==ok", "=ok"),
    ] {
        let expected = format!("invalid condition \"{marked}\" <- {marked}");
        assert_eq!(found(&format!("upstream u {{ server a; health_check {wrong}; }}")), [expected]);
    }
    assert_eq!(
        found("upstream u { server a; health_check uri=/x type=tcp; }"),
        ["\"uri=/x\" of \"health_check\" has no meaning with \"type=tcp\" <- uri=/x"]
    );
    let regex = found("upstream u { server a; health_check body=~a(b; }");
    assert!(regex[0].starts_with("pcre2_compile() failed: missing closing parenthesis"), "{regex:?}");
    let many = format!("upstream u {{ server a; health_check {}; }}", "header=A ".repeat(33));
    assert_eq!(found(&many), ["more than 32 conditions in \"health_check\" <- header=A"]);
}
