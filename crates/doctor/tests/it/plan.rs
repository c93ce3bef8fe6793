//! The founding chain gives its numbers, every limit can be the first one, and errors in descriptions name their place.

use doctor::plan::{Chain, ChainError, Limit, Plan, cheapest, document, parse_chain, plan};
use proptest::prelude::*;

const NARROW: &str = include_str!("../../../../examples/plan/million-tunnels.toml");
const WIDE: &str = include_str!("../../../../examples/plan/million-tunnels-wide.toml");

fn chain(text: &str) -> Chain {
    parse_chain(text).unwrap_or_else(|error| panic!("{error}"))
}

fn first(plan: &Plan) -> &Limit {
    plan.first().expect("every hop has tuples")
}

/// Two tiers with the values that a test needs.
fn pair(from: &str, to: &str, traffic: &str) -> Chain {
    chain(&format!(
        "connections = 100000\n[traffic]\n{traffic}\n[[tier]]\nname = 'clients'\nports = '1024-65535'\naddresses = 10\n{from}\n\
         [[tier]]\nname = 'service'\n{to}\n"
    ))
}

#[test]
fn founding_chain_stops_at_800_thousand_tuples() {
    let chain = chain(NARROW);
    let plan = plan(&chain);
    let limit = first(&plan);
    assert_eq!((limit.place.as_str(), limit.resource, limit.connections_max), ("nginx -> ingress", "tuples", 800_020));
    assert_eq!(limit.arithmetic, "40,001 ports x 4 nginx x 5 ingress = 800,020 tuples");
    let lever = cheapest(limit, chain.connections).expect("there is one");
    assert!(lever.action.contains("ip_local_port_range=\"1024 65535\"") && lever.connections_max == 64_512 * 20);
    let text = report::text::render(&document(&chain, &plan, "holdfast"), 100);
    assert!(text.contains("[fails] the chain carries 1,000,000 connections"), "{text}");
}

#[test]
fn widened_chain_has_1_290_140_tuples() {
    let chain = chain(WIDE);
    let plan = plan(&chain);
    let tuples = plan.limits.iter().find(|limit| limit.place == "nginx -> ingress").expect("that hop");
    assert_eq!(tuples.connections_max, 1_290_140);
    assert!(first(&plan).connections_max >= 1_000_000, "{:?}", first(&plan));
}

#[test]
fn each_limit_binds_where_it_is_the_lowest() {
    let sums = [
        ("descriptors = 1064", "", "", "descriptors", 1000),
        ("", "worker_connections = 512\nprocesses = 2", "", "worker_connections", 1024),
        ("", "file_max = 5000", "", "fs.file-max", 5000),
        ("", "memory = '40M'", "", "memory", 10_240),
        ("", "queued_bytes = 5000\ntcp_mem_pages = 3000", "", "tcp_mem", 1500),
        ("conntrack_max = 65536", "", "churn_per_second = 100.0", "conntrack", 65_536 - 12_000),
        ("", "bandwidth = '1G'", "received_per_second = 1.0\nmessage_bytes = 1160", "bandwidth", 100_000),
        ("tw_buckets = 5000", "", "churn_per_second = 100.0", "TIME_WAIT buckets", 0),
        ("hosts = 1", "", "churn_per_second = 10000.0", "tuples", 645_120 - 600_000),
    ];
    for (from, to, traffic, resource, connections_max) in sums {
        let plan = plan(&pair(from, to, traffic));
        assert_eq!(
            (first(&plan).resource, first(&plan).connections_max),
            (resource, connections_max),
            "{from} {to} {traffic}"
        );
    }
}

#[test]
fn a_proxy_holds_two_of_everything() {
    let text = "connections = 10\n[[tier]]\nname='c'\n[[tier]]\nname='p'\ndescriptors=1064\n[[tier]]\nname='s'\ndescriptors=1064\n";
    let plan = plan(&chain(text));
    let of = |place: &str| plan.limits.iter().find(|l| l.place == place).map(|l| l.connections_max);
    assert_eq!((of("p"), of("s")), (Some(500), Some(1000)));
}

#[test]
fn reports_heartbeats_slower_than_the_timeout() {
    let cut = |traffic: &str| plan(&pair("", "idle_timeout_seconds = 180", traffic)).timeouts.len();
    assert_eq!((cut(""), cut("heartbeat_seconds = 180"), cut("heartbeat_seconds = 60")), (1, 1, 0));
}

#[test]
fn closing_470_per_second_exhausts_the_default_range() {
    let text = |rate: u32| {
        format!("connections = 1\n[traffic]\nchurn_per_second = {rate}.0\n[[tier]]\nname='p'\n[[tier]]\nname='s'\n")
    };
    assert_eq!(first(&plan(&chain(&text(470)))).connections_max, 28_232 - 28_200);
    assert_eq!(first(&plan(&chain(&text(471)))).connections_max, 0);
}

#[test]
fn a_slip_is_named_with_its_line_or_its_tier() {
    let error = |text: &str| parse_chain(text).expect_err("refused").to_string();
    let typo = error("connections = 1\n[[tier]]\nname='a'\nhots = 2\n");
    assert!(typo.contains("line 4") && typo.contains("hots") && typo.contains("hosts"), "{typo}");
    assert!(error("connections = 1\n[[tier]]\nname='a'\nports='61000-21000'\n").contains("is not a port range"));
    assert!(error("connections = 1\n[[tier]]\nname='a'\nmemory='64 GB'\n").contains("no size"));
    assert_eq!(parse_chain("connections = 1\n[[tier]]\nname='a'\n"), Err(ChainError::TooShort));
    assert!(
        error("connections = 1\n[[tier]]\nname='a'\nhosts=0\n[[tier]]\nname='b'\n").contains("tier \"a\": hosts is 0")
    );
    assert!(
        error("connections = 1\n[traffic]\nchurn_per_second=-1.0\n[[tier]]\nname='a'\n[[tier]]\nname='b'\n")
            .contains("not negative")
    );
}

proptest! {
    #[test]
    fn no_text_and_no_number_break_the_planner(text in any::<String>(), hosts in any::<u32>(), number in any::<i64>()) {
        let _ = parse_chain(&text);
        let text = format!(
            "connections = {}\n[traffic]\nmessage_bytes = {n}\nsent_per_second = 1e300\n[[tier]]\nname='a'\nhosts={hosts}\nuser_bytes={n}\n\
             descriptors={n}\nmemory={n}\nconntrack_max={n}\nbandwidth={n}\nqueued_bytes={n}\ntcp_mem_pages={n}\n[[tier]]\nname='b'\n",
            number.unsigned_abs() >> 1, n = number.unsigned_abs() >> 1
        );
        if let Ok(chain) = parse_chain(&text) {
            let plan = plan(&chain);
            prop_assert!(plan.limits.windows(2).all(|pair| pair[0].connections_max <= pair[1].connections_max));
            prop_assert!(!report::text::render(&document(&chain, &plan, "t"), 80).is_empty());
        }
    }
}
