//! Limits of heads, how unwanted connections end, and packets that may wait. `X-Accel-*` stand in the differential test, beside
//! nginx.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use testkit::{End, Gateway};

#[test]
fn more_fields_than_max_headers_are_refused() {
    let gateway = Gateway::start(
        "events {} http { access_log off; max_headers 5; server { listen {listen}; return 204; } }",
        &[],
    );
    let ask = |fields: usize| {
        let lines = "X-Field: x\r\n".repeat(fields - 1);
        let mut client = gateway.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        client.response().status()
    };
    assert_eq!((ask(5), ask(6)), (204, 400));
}

#[test]
fn a_connection_without_an_answer_is_reset_where_that_is_asked_for() {
    let gateway = Gateway::start(
        "events {} http { access_log off; server { listen {listen};
            location /reset { reset_timedout_connection on; return 444; }
            location /closed { return 444; }
        } }",
        &[],
    );
    for (target, end) in [("/reset", End::Reset), ("/closed", End::Fin)] {
        let mut client = gateway.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.end(), end, "{target}");
    }
}

#[test]
fn a_location_without_nodelay_serves_as_well_and_so_does_the_next() {
    let gateway = Gateway::start(
        "events {} http { access_log off; server { listen {listen};
            location /delayed { tcp_nodelay off; return 200 delayed; }
            location / { return 200 usual; }
        } }",
        &[],
    );
    let mut client = gateway.client();
    for (target, text) in [("/delayed", "delayed"), ("/", "usual"), ("/delayed", "delayed")] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.response().text(), text);
    }
}
