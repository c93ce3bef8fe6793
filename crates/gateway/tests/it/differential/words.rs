//! The suite `words`: compared with the newer nginx, with its own sockets, including the error logs.

use super::cases::{Suite, words};
use super::{Accepted, Side, Sides, accepted, application, compare_suite, dead_port, start_origin};
use testkit::sides::{Nginx, nginx_or_skip};

use std::os::unix::fs::PermissionsExt as _;

/// The lines about upstreams in an error log, in order: level and message, and the URL.
fn of_upstreams(log: &str) -> Vec<String> {
    let lines = log.lines().filter_map(|line| {
        let (head, rest) = line.split_once(", client: ")?;
        let (url, _) = rest.split_once("upstream: \"")?.1.split_once('"')?;
        let (level, message) = head.split_once('[')?.1.split_once(']')?;
        Some(format!("{level} {} {url}", message.split_once('*')?.1.split_once(' ')?.1))
    });
    lines.map(|line| line.replace("127.0.0.2", "127.0.0.1").replace("/nginx/", "/ours/")).collect()
}

#[test]
fn directives_match_a_newer_nginx() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let sockets = tempfile::tempdir().unwrap();
    for side in [Side::Nginx, Side::Ours] {
        std::fs::create_dir(sockets.path().join(side.name())).unwrap();
    }
    // nginx's worker runs as another user.
    std::fs::set_permissions(sockets.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = include_str!("cases/words.conf").replace("{sockets}", sockets.path().to_str().unwrap());
    let (origin, dead, application) = (start_origin(), dead_port(), application::start());
    let dead_address = dead.local_addr().unwrap().as_socket().unwrap();
    let upstreams = [origin.address(), dead_address, origin.address(), application.address()];
    let files = vec![("site/a.txt", b"0123456789".to_vec())];
    let sides = Sides::start(&nginx, &text, &upstreams, &files);
    let suite = Suite { name: "words", text: "", cases: words::cases(), files };
    let accepted: Vec<Accepted> = accepted::read(include_str!("accepted.txt"), Nginx::New);
    let only = std::env::var("DIFFERENTIAL").ok();
    let wrong = compare_suite(&suite, &sides, &accepted, &[], only.as_deref());
    assert!(
        wrong.is_empty(),
        "{} differences (nginx's -> ours):\n    {}\n{}",
        wrong.len(),
        wrong.join("\n    "),
        sides.logs()
    );

    let [theirs, ours] = [sides.their_log(), sides.our_log()].map(|log| of_upstreams(&log));
    assert!(only.is_some() || ours.iter().any(|line| line.ends_with("none.sock:/unix-none/a?x=1")), "{ours:?}");
    assert_eq!(theirs, ours);
}
