//! docs/guide/close-reasons.md matches the enums, and every reason has a counter that increases.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use gateway::{CloseReason, CloseSide};
use std::fmt::Write as _;
use std::path::Path;
use testkit::{Gateway, until};
use upstream::DiscardReason;

const INTRODUCTION: &str =
    "<!-- Generated from the enums in the code by `HOLDFAST_BLESS=1 cargo test -p gateway --test it close_reasons`. -->

# Why connections close

Every connection that ends has one reason, counted once: `holdfast_connections_closed_total{reason}` for clients,
`holdfast_upstream_discarded_total{group, reason}` for upstreams, `$upstream_close_reason` in access logs. A request
that is refused with its connection counts there, too. TIME_WAIT is on the side that closed first.

## Client connections

| reason | who closed first | what happened | where to look if there are many |
|---|---|---|---|
";

const UPSTREAMS: &str = "
## Upstream connections

A connection that is not pooled again has one of these. Those under `the gateway` leave a socket in TIME_WAIT here.

| reason | what happened |
|---|---|
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for reason in CloseReason::ALL {
        let side = match reason.side() {
            CloseSide::Client => "the client",
            CloseSide::Gateway => "the gateway",
            CloseSide::Upstream => "the upstream",
        };
        let (meaning, advice) = reason.explain();
        let advice = if advice.is_empty() { "as it should be" } else { advice };
        writeln!(page, "| `{}` | {side} | {meaning} | {advice} |", reason.label()).unwrap();
    }
    page += UPSTREAMS;
    for reason in DiscardReason::ALL {
        writeln!(page, "| `{}` | {} |", reason.label(), reason.phrase()).unwrap();
    }
    page
}

#[test]
fn the_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/close-reasons.md");
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page(), "docs/guide/close-reasons.md is stale: run this test with HOLDFAST_BLESS=1");
}

#[test]
fn every_close_is_counted_once_under_its_reason() {
    let mut gateway = Gateway::start(
        "events {} http { server { listen {listen}; client_max_body_size 10; keepalive_requests 2;
            client_header_timeout 1s; return 200 ok; location = /gone { return 444; } } }",
        &[],
    );
    let mut closed = 0;
    let mut counted = |gateway: &Gateway, reason: CloseReason, before: u64| {
        closed += 1;
        until(reason.label(), || (gateway.shared().closed(reason) == before + 1).then_some(()));
        let all: u64 = CloseReason::ALL.iter().map(|reason| gateway.shared().closed(*reason)).sum();
        assert_eq!(all, closed, "{reason}");
    };
    let requests: [(&str, CloseReason); 4] = [
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", CloseReason::ClientAsked),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", CloseReason::KeepaliveLimit),
        ("GET / HTTP/1.1\r\n\r\n", CloseReason::BadRequest),
        ("GET / HT", CloseReason::HeadTimeout),
    ];
    for (request, reason) in requests {
        let before = gateway.shared().closed(reason);
        let mut client = gateway.client();
        client.send(request);
        client.rest();
        drop(client);
        counted(&gateway, reason, before);
    }
    let mut client = gateway.client();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.response();
    client.close();
    counted(&gateway, CloseReason::ClientClosed, 0);
    let conf = "events {} http { server { listen {listen}; client_max_body_size 10;
        location / { return 200 ok; } location = /gone { return 444; } } }";
    gateway.reload(conf);
    let mut client = gateway.client();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world");
    client.rest();
    drop(client);
    counted(&gateway, CloseReason::BodyUnread, 0);
    let mut client = gateway.client();
    client.send("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n");
    client.rest();
    counted(&gateway, CloseReason::Unanswered, 0);
}
