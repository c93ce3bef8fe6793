//! A time without a fault, under a load that goes up and down: nothing is claimed. The long tier takes three hours:
//! `HOLDFAST_QUIET_MINUTES=180`.

use super::scene::{Habit, Load, Recorder, Server};
use crate::support::{Instance, holdfast};
use std::time::{Duration, Instant};
use testkit::with_own_network;

/// Seconds in the quick tier.
const QUICK_S: f64 = 30.0;

fn quiet_time() -> Duration {
    let minutes = std::env::var("HOLDFAST_QUIET_MINUTES").ok().map(|text| text.parse::<f64>().expect("minutes"));
    Duration::from_secs_f64(minutes.map_or(QUICK_S, |minutes| minutes * 60.0))
}

#[test]
fn a_quiet_time_under_varying_load_claims_nothing() {
    with_own_network(|| {
        let (one, two) = (Server::start(true), Server::start(true));
        for server in [&one, &two] {
            server.set(Habit::Answers(Duration::from_millis(5), 2000));
        }
        let mut instance = Instance::new(
            "",
            &format!(
                "upstream app {{ server {}; server {}; keepalive 16; }}
             server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://app; proxy_http_version 1.1;
                proxy_set_header Connection \"\"; }} }}",
                one.address, two.address
            ),
        );
        instance.start();
        let recorder = Recorder::beside(&instance);
        let begun = Instant::now();
        let mut turn = 0;
        while begun.elapsed() < quiet_time() {
            // From one client to eight and back, each with a pause of its own.
            let load = Load::start(instance.port, 1 + turn % 8, Duration::from_millis([5, 50, 20][turn % 3]));
            recorder.record(20);
            let failed = load.seen().iter().filter(|seen| seen.status != 200).count();
            assert_eq!(failed, 0, "the time was not quiet");
            if turn % 5 == 4 {
                // What operators do in quiet times, too.
                instance.signal("reload");
            }
            turn += 1;
        }
        let output = holdfast()
            .args(["incident", "--since", "4h ago", "--dir"])
            .arg(recorder.path())
            .output()
            .expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(text.starts_with("Nothing unusual from ") && text.contains("Looked at: sockets: "), "{text}");
        recorder.assert_no_secrets();
        let status = holdfast().args(["record", "--status", "--dir"]).arg(recorder.path()).output().expect("it starts");
        let status = String::from_utf8_lossy(&status.stdout);
        assert!(status.contains("% of one processor"), "{status}");
    });
}
