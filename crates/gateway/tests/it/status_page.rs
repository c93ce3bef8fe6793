//! `status_page`: the page, the JSON and the Prometheus text of a gateway after some activity.
#![allow(clippy::unwrap_used)] // a failed step of a test is its end

use serde_json::Value;
use testkit::{Gateway, Peer, Refusing, Response, Talk, assert_metrics_are_sound, until};

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// A gateway with two upstreams, the second of which refuses connections.
fn gateway(first: &Peer, refusing: &Refusing) -> Gateway {
    Gateway::start_workers(
        2,
        "events {} http {
            access_log access.log;
            upstream both { server {upstream:0}; server {upstream:1} max_fails=0; keepalive 4; }
            server {
                listen {listen};
                location / { proxy_pass http://both; }
                location /status { status_page; }
                location /teapot { return 418; }
            }
        }",
        &[first.address(), refusing.address()],
    )
}

fn ask(client: &mut Talk, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response()
}

fn status(gateway: &Gateway) -> Value {
    let response = ask(&mut gateway.client(), "/status?format=json", "");
    assert_eq!(response.value("Content-Type"), Some("application/json"));
    assert_eq!(response.value("Cache-Control"), Some("no-store"));
    serde_json::from_slice(&response.body).unwrap()
}

#[test]
fn the_numbers_are_those_of_what_happened() {
    let (peer, refusing) = (Peer::saying(HELLO), Refusing::new());
    let gateway = gateway(&peer, &refusing);
    let mut client = gateway.client();
    for _ in 0..4 {
        assert_eq!(ask(&mut client, "/", "").status(), 200);
    }
    assert_eq!(ask(&mut client, "/teapot", "").status(), 418);
    let seen = until("an idle connection and all responses counted", || {
        let seen = status(&gateway);
        let responses = &seen["requests"]["responses"];
        let counted = responses["2xx"].as_u64() >= Some(4) && responses["4xx"] == 1;
        (seen["groups"][0]["idle"] == 1 && counted).then_some(seen)
    });
    assert_eq!(seen["workers"], 2);
    assert_eq!(seen["generation"], 1);
    assert_eq!(seen["requests"]["responses"]["4xx"], 1);
    assert_eq!(seen["connections"]["dropped"], 0);
    assert_eq!(seen["log_lines_dropped"]["error_log"], 0);

    let group = &seen["groups"][0];
    assert_eq!(group["name"], "both");
    assert_eq!((&group["opened"], &group["reused"]), (&1.into(), &3.into()));
    assert_eq!((&group["leased"], &group["connecting"], &group["waiting"]), (&0.into(), &0.into(), &0.into()));
    let peers = group["peers"].as_array().unwrap();
    let answering = peers.iter().find(|one| one["address"] == peer.address().to_string()).unwrap();
    assert_eq!((&answering["attempts"], &answering["reused"], &answering["failed"]), (&4.into(), &3.into(), &0.into()));
    assert_eq!(answering["responses"]["2xx"], 4);
    assert_eq!(answering["connect_time"]["count"], 1);
    assert_eq!(answering["response_time"]["count"], 4);
    let last = answering["response_time"]["buckets"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["at_most_ms"], &last["count"]), (&Value::Null, &4.into()));
    let refusing = peers.iter().find(|one| one["address"] != peer.address().to_string()).unwrap();
    assert_eq!(refusing["failed"], group["retries"]["listed"]);
    assert_eq!(refusing["opened"], 0);
    assert!(refusing["failed"].as_u64() > Some(0));

    // The ledger of ports has connections from the same address to the same peer.
    let pairs = seen["ports"]["pairs"].as_array().unwrap();
    let pair = pairs.iter().find(|pair| pair["peer"] == peer.address().to_string()).unwrap();
    assert_eq!((&pair["source"], &pair["used"], &pair["time_wait"]), (&"127.0.0.1".into(), &1.into(), &0.into()));
    assert_eq!(pair["free"].as_u64(), Some(pair["ports"].as_u64().unwrap() - 1));
    assert!(seen["ports"]["pairs_total"].as_u64() >= Some(1));

    let memory = &seen["memory"];
    assert_eq!((&memory["budget_bytes"], &memory["pressure"]), (&Value::Null, &"none".into()));
    assert!(memory["held_by"]["connections"].as_u64() > Some(0), "one client is idle: {memory}");
    let held_by: Vec<&String> = memory["held_by"].as_object().unwrap().keys().collect();
    assert_eq!(held_by, ["connections", "exchanges", "kept", "tunnels"]);
    assert_eq!(memory["shed"], serde_json::json!({"accepts": 0, "keepalive": 0, "requests": 0}));
    let none = serde_json::json!({"accepts_failed": 0, "connections_refused": 0, "accept_queue_full": 0});
    assert_eq!(seen["overload"], none);
    assert_eq!(group["peers"][0].get("check"), None, "no peer is checked here");

    let listener = &seen["listeners"][0];
    assert_eq!(listener["address"], gateway.address().to_string());
    assert!(listener["queue"]["backlog"].as_u64() > Some(0));
}

#[test]
fn stream_and_fastcgi_have_their_listeners_groups_and_peers() {
    let options = origin::Options { fastcgi: true, ..origin::Options::default() };
    let application = origin::Origin::bind(options).unwrap().start().unwrap();
    let (lines, datagrams) = (
        Peer::script(|mut talk| {
            talk.send("line");
            talk.expect("held");
            talk.expect("bye");
        }),
        testkit::DatagramPeer::echo(),
    );
    let gateway = Gateway::start(
        "events {} http {
            upstream app { server {upstream:0}; keepalive 4; }
            server { listen {listen}; location = /status { status_page; }
                location / { fastcgi_pass app; fastcgi_keep_conn on; fastcgi_param REQUEST_URI $request_uri; } }
        }
        stream {
            upstream lines { server {upstream:1}; }
            upstream app { server {upstream:2}; }
            server { listen {listen:1}; proxy_pass lines; }
            server { listen {listen:1} udp; proxy_pass app; }
        }",
        &[application.address(), lines.address(), datagrams.address()],
    );
    let mut client = gateway.client();
    for target in ["/bytes/10", "/status/404", "/bytes/10"] {
        ask(&mut client, target, "");
    }
    let mut session = Talk::connect(gateway.address_of(1));
    session.expect("line");
    session.send("held");
    let datagram = testkit::DatagramTalk::connect(gateway.address_of(1));
    datagram.send("ping");
    datagram.expect("ping");
    let group = |seen: &Value, name: &str| {
        let groups = seen["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == name).unwrap_or_else(|| panic!("{name}: {seen}")).clone()
    };
    let seen = until("an idle connection to the application", || {
        let seen = status(&gateway);
        (group(&seen, "app")["idle"] == 1).then_some(seen)
    });
    let app = group(&seen, "app");
    let peer = &app["peers"][0];
    assert_eq!((&app["opened"], &app["reused"], &peer["attempts"]), (&1.into(), &2.into(), &3.into()), "{app}");
    assert_eq!((&peer["responses"]["2xx"], &peer["responses"]["4xx"]), (&2.into(), &1.into()), "{app}");
    // Sockets of datagrams are not connections of the pool.
    for (name, address, open) in [("stream:lines", lines.address(), 1), ("stream:app", datagrams.address(), 0)] {
        let group = group(&seen, name);
        assert_eq!(group["peers"][0]["address"], address.to_string(), "{group}");
        assert_eq!((&group["leased"], &group["opened"]), (&open.into(), &open.into()), "{group}");
    }
    let listeners: Vec<&str> =
        seen["listeners"].as_array().unwrap().iter().map(|one| one["address"].as_str().unwrap()).collect();
    let own = gateway.address_of(1).to_string();
    assert!(listeners.contains(&own.as_str()) && listeners.contains(&format!("{own} udp").as_str()), "{listeners:?}");
    assert_eq!(seen["connections"]["tunnels"], 2);
    let metrics = ask(&mut client, "/status", "").text();
    assert_metrics_are_sound(&metrics);
    for line in [
        format!("holdfast_peer_responses_total{{group=\"app\",peer=\"{}\",class=\"2xx\"}} 2", application.address()),
        "holdfast_upstream_connections{group=\"stream:lines\",state=\"leased\"} 1".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} is missing in {metrics}");
    }
    session.send("bye");
}

#[test]
fn equal_servers_are_shown_apart_and_their_connections_once() {
    let peer = Peer::saying(HELLO);
    let gateway = Gateway::start(
        "events {} http {
            upstream twice { server {upstream:0}; server {upstream:0}; keepalive 4; }
            server { listen {listen}; location / { proxy_pass http://twice; } location /status { status_page; } }
        }",
        &[peer.address()],
    );
    let mut client = gateway.client();
    for _ in 0..4 {
        assert_eq!(ask(&mut client, "/", "").status(), 200);
    }
    let seen = until("an idle connection", || {
        let seen = status(&gateway);
        (seen["groups"][0]["idle"] == 1).then_some(seen)
    });
    let peers = seen["groups"][0]["peers"].as_array().unwrap();
    let shown: Vec<_> = peers.iter().map(|peer| (peer["address"].as_str(), &peer["attempts"], &peer["idle"])).collect();
    let (first, second) = (peer.address().to_string(), format!("{}#2", peer.address()));
    assert_eq!(shown, [(Some(&*first), &2.into(), &1.into()), (Some(&*second), &2.into(), &0.into())]);
    let metrics = ask(&mut client, "/status", "").text();
    assert_metrics_are_sound(&metrics);
}

#[test]
fn reload_keeps_counters_of_remaining_groups_only() {
    let peer = Peer::saying(HELLO);
    let text = |name: &str| {
        format!(
            "events {{}} http {{ access_log off;
                upstream stays {{ server {{upstream:0}}; }} upstream {name} {{ server {{upstream:0}}; }}
                server {{ listen {{listen}}; location / {{ proxy_pass http://stays; }}
                    location /other {{ proxy_pass http://{name}; }} location = /status {{ status_page; }} }} }}"
        )
    };
    let mut gateway = Gateway::start(&text("goes"), &[peer.address()]);
    assert_eq!(ask(&mut gateway.client(), "/", "").status(), 200);
    gateway.reload(&text("comes"));
    let seen = until("the old group to go", || {
        let seen = status(&gateway);
        let names: Vec<_> = seen["groups"].as_array()?.iter().map(|group| group["name"].clone()).collect();
        (names == ["comes", "stays"]).then_some(seen)
    });
    assert_eq!(seen["generation"], 2);
    assert_eq!(seen["groups"][1]["peers"][0]["attempts"], 1);
    assert_eq!(seen["groups"][0]["peers"][0]["attempts"], 0);
}

#[test]
fn promtool_has_nothing_to_say_about_the_metrics() {
    let (peer, refusing) = (Peer::saying(HELLO), Refusing::new());
    let gateway = gateway(&peer, &refusing);
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(ask(&mut client, "/", "").status(), 200);
    }
    let response = ask(&mut client, "/status/metrics", "Accept: text/html\r\n");
    assert_eq!(response.status(), 200);
    assert!(response.value("Content-Type").unwrap().starts_with("text/plain; version=0.0.4"), "{response:?}");
    let text = response.text();
    for line in [
        "holdfast_upstream_opened_total{group=\"both\"} 1",
        "holdfast_connections{state=\"writing\"} 1",
        "holdfast_upstream_discarded_total{group=\"both\",reason=\"pool_full\"} 0",
        "# TYPE holdfast_peer_response_duration_seconds histogram",
        "holdfast_memory_pressure{state=\"none\"} 1",
        "holdfast_overload_total{what=\"connections_refused\"} 0",
        &format!("holdfast_ports{{source=\"127.0.0.1\",peer=\"{}\",state=\"used\"}} 1", peer.address()),
    ] {
        assert!(text.lines().any(|found| found == line), "no {line:?} in\n{text}");
    }
    assert_metrics_are_sound(&text);
}

/// The metrics after one request, with this many peers.
fn metrics_of_peers(count: usize) -> String {
    let peer = Peer::saying(HELLO);
    let others = (1..count).map(|at| format!("server 127.9.{}.{}:9 down;", at / 250, at % 250 + 1));
    let others = others.collect::<Vec<_>>().concat();
    let gateway = Gateway::start(
        &format!(
            "events {{}} http {{ upstream app {{ server {{upstream:0}}; {others} }} server {{ listen {{listen}};
                location / {{ proxy_pass http://app; }} location /status {{ status_page; }} }} }}"
        ),
        &[peer.address()],
    );
    let mut client = gateway.client();
    assert_eq!(ask(&mut client, "/", "").status(), 200);
    until("the attempt is counted", || {
        let text = ask(&mut client, "/status/metrics", "").text();
        let is_counted = |line: &str| line.starts_with("holdfast_peer_attempts_total{") && line.ends_with(" 1");
        text.lines().any(is_counted).then_some(text)
    })
}

#[test]
fn many_peers_share_the_series_of_their_group() {
    let few = metrics_of_peers(1000);
    assert_eq!(few.matches("holdfast_peer_attempts_total{").count(), 1000);
    let many = metrics_of_peers(1001);
    assert_eq!(many.matches("holdfast_peer_attempts_total{").count(), 1);
    for line in [
        "holdfast_peer_attempts_total{group=\"app\",peer=\"*\"} 1",
        "holdfast_peer_responses_total{group=\"app\",peer=\"*\",class=\"2xx\"} 1",
        "holdfast_peer_connections{group=\"app\",peer=\"*\",state=\"idle\"} 1",
        "holdfast_peer_response_duration_seconds_count{group=\"app\",peer=\"*\"} 1",
    ] {
        assert!(many.lines().any(|found| found == line), "no {line:?} in\n{many}");
    }
    assert_metrics_are_sound(&many);
}

#[test]
fn browser_gets_an_html_page() {
    let (peer, refusing) = (Peer::saying(HELLO), Refusing::new());
    let gateway = gateway(&peer, &refusing);
    let mut client = gateway.client();
    assert_eq!(ask(&mut client, "/", "").status(), 200);
    let page = ask(&mut client, "/status", "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
    assert_eq!(page.value("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.value("Vary"), Some("Accept"));
    let text = page.text();
    for title in ["Local ports", "Turned away", "Peers of both", "Locations", "Last errors", "Configuration"] {
        assert!(text.contains(&format!("\">{title}</h2>")), "{title} is missing in {text}");
    }
    assert!(text.contains(&peer.address().to_string()), "{text}");
    // The counters do not include the requests for the status page itself.
    assert!(!text.contains("src=") && !text.contains("href=\"http"), "{text}");
    assert!(text.len() < 40 * 1024, "{} bytes", text.len());
}

#[test]
fn refuses_invalid_status_requests() {
    let (peer, refusing) = (Peer::saying(HELLO), Refusing::new());
    let gateway = gateway(&peer, &refusing);
    let mut client = gateway.client();
    assert_eq!(ask(&mut client, "/status?format=xml", "").status(), 400);
    client.send("POST /status HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let refused = client.response();
    assert_eq!((refused.status(), refused.value("Allow")), (405, Some("GET, HEAD")));
    client.send("HEAD /status HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().status(), 200);
}

#[test]
fn other_hosts_see_the_status_only_where_the_location_says_so() {
    let gateway = Gateway::start(
        "events {} http {
            set_real_ip_from 127.0.0.1; real_ip_header X-Real-IP;
            server { listen {listen}; location /own { status_page; }
                location /opened { status_page; allow 192.0.2.0/24; deny all; } }
        }",
        &[],
    );
    let mut client = gateway.client();
    let mut status =
        |target: &str, address: &str| ask(&mut client, target, &format!("X-Real-IP: {address}\r\n")).status();
    for (address, own, opened) in [
        ("127.0.0.1", 200, 403),
        ("::1", 200, 403),
        ("::ffff:127.1.2.3", 200, 403),
        ("192.0.2.7", 403, 200),
        ("10.0.0.1", 403, 403),
        ("2001:db8::1", 403, 403),
    ] {
        assert_eq!((status("/own", address), status("/opened", address)), (own, opened), "{address}");
    }
    gateway.logged("the status page is for this host: \"allow\" opens it to others");
}

#[test]
fn reload_is_shown_with_its_changes() {
    let peer = Peer::saying(HELLO);
    let text = |servers: &str| {
        format!(
            "events {{}} http {{ upstream app {{ server {{upstream:0}}; {servers} }}
                server {{ listen {{listen}}; server_name shop; location / {{ proxy_pass http://app; }}
                    location = /status {{ status_page; }} }} }}"
        )
    };
    let mut gateway = Gateway::start(&text(""), &[peer.address()]);
    assert_eq!(status(&gateway)["configuration"]["changes"], serde_json::json!([]));
    gateway.reload(&text("server 127.0.0.1:9 backup;"));
    let seen = until("the second configuration", || {
        let seen = status(&gateway);
        (seen["generation"] == 2).then_some(seen)
    });
    let peer = peer.address();
    let changed = format!("upstream app changed: {peer} -> {peer}, 127.0.0.1:9");
    assert_eq!(seen["configuration"]["changes"], serde_json::json!([changed]));
    let page = ask(&mut gateway.client(), "/status", "Accept: text/html\r\n").text();
    assert!(page.contains(&format!("<li>{}</li>", changed.replace('>', "&gt;"))), "{page}");
}

#[test]
fn real_browser_renders_and_updates_the_page_accessibly() {
    let Some(axe) = testkit::peer_or_skip(&["python-axe"]) else { return };
    let find =
        "import axe_core_python as a, os; print(open(os.path.join(os.path.dirname(a.__file__), 'axe.min.js')).read())";
    let axe = std::process::Command::new(axe).args(["-c", find]).output().unwrap();
    let axe = String::from_utf8(axe.stdout).unwrap();
    assert!(axe.len() > 100_000, "{} bytes", axe.len());
    let Some(mut browser) = testkit::Browser::start() else { return };
    let (peer, refusing) = (Peer::saying(HELLO), Refusing::new());
    let gateway = gateway(&peer, &refusing);
    let mut client = gateway.client();
    for _ in 0..4 {
        assert_eq!(ask(&mut client, "/", "").status(), 200);
    }
    let shared = gateway.shared();
    shared.recent_errors().explain_by(|_| Some("the upstream refuses connections"));
    let line = "2026/11/25 22:35:49 [error] 7#7: *1 connect() failed (111: Connection refused) while connecting to upstream, \
                client: 127.0.0.1, server: , request: \"GET /<b> HTTP/1.1\", upstream: \"http://127.0.0.1:9/\"";
    shared.recent_errors().keep(std::iter::repeat_n(line.as_bytes(), 30));
    let url = format!("http://{}/status", gateway.address());
    for window in testkit::Window::ALL {
        browser.set_window(window);
        let seen = browser.run_at(
            &url,
            &format!(
                "(async () => {{
                    document.querySelectorAll('details').forEach(part => part.open = true);
                    {axe};
                    const found = await axe.run(document);
                    return JSON.stringify({{
                        violations: found.violations.map(one => [one.id, one.nodes.map(node => node.html)]),
                        wide: document.documentElement.scrollWidth - window.innerWidth,
                        errors: document.querySelectorAll('.log tbody tr').length,
                    }});
                }})()"
            ),
        );
        let seen: Value = serde_json::from_str(&seen).unwrap();
        assert_eq!(seen, serde_json::json!({"violations": [], "wide": 0, "errors": 30}), "{}", window.name());
        if let Some(shots) = std::env::var_os("HOLDFAST_SCREENSHOTS") {
            browser.screenshot(&std::path::Path::new(&shots).join(format!("status-{}.png", window.name())));
        }
    }
    // The script draws what it has seen: the cards, and the connections of the group. What was opened stays open.
    let followed = "(async () => {
        document.querySelector('details').open = true;
        for (let waited = 0; waited < 200 && !document.querySelector('main svg.trend'); waited++) {
            await new Promise(done => setTimeout(done, 100));
        }
        const drawn = document.querySelectorAll('main svg.trend').length;
        return JSON.stringify([drawn, document.querySelector('details').open, document.querySelector('#stale').hidden]);
    })()";
    assert_eq!(browser.run_at(&url, followed), "[7,true,true]");
    // The page itself is all that was asked for.
    let own = format!("\"url\":\"{url}\"");
    let is_own = |one: &&String| one.starts_with("{\"documentURL\"") && one.contains(&own);
    let others: Vec<&String> = browser.complaints().iter().filter(|one| !is_own(one)).collect();
    assert!(others.is_empty(), "the console is empty: {others:?}");
}
