//! `open_file_cache` compared with nginx: requests for files that change, vanish and come between them.

use super::cases::Case;
use super::{Nginx, Side, Sides, compare, talk};
use std::fs;
use std::time::{Duration, Instant};
use testkit::sides::nginx_or_skip;

/// Longer than `open_file_cache_valid 4s`, which counts whole seconds.
const PAUSE: Duration = Duration::from_millis(6300);

const TEXT: &str = "
access_log off;
default_type text/plain;
open_file_cache max=100 inactive=1h;
open_file_cache_valid 1h;
server {
    listen {listen};
    server_name files.test;
    root html;
    location = /alive { return 204; }
    location /plain/ { }
    location /errors/ { open_file_cache_errors on; }
    location /valid/ { open_file_cache_valid 4s; open_file_cache_errors on; }
    location /off/ { open_file_cache off; }
    location /uses/ { open_file_cache_min_uses 3; }
    location /try/ { open_file_cache_errors on; try_files $uri $uri/ /try/fallback.txt; }
    location /try-plain/ { try_files $uri /try-plain/fallback.txt =404; }
    location /index/ { open_file_cache_errors on; index none.html index.html; }
    location /zipped/ { gzip_static on; open_file_cache_errors on; }
}";

/// A step; the names are below `html`. Both sides read the same files.
enum Move<'a> {
    /// A file gets a new content, under a new number.
    Put(&'a str, &'a str),
    Remove(&'a str),
    Ask(&'a str),
    Pause,
}

use Move::{Ask, Pause, Put, Remove};

/// What happens to the files of a location.
const MOVES: &[Move<'_>] = &[
    Put("a.txt", "first"),
    Put("b.txt", "first"),
    Put("fallback.txt", "fallback"),
    Put("folder/x.txt", "x"),
    Ask("a.txt"),
    Ask("a.txt"),
    Ask("a.txt"),
    Put("a.txt", "second, and longer"),
    Ask("a.txt"),
    Ask("none.txt"),
    Put("none.txt", "here now"),
    Ask("none.txt"),
    Ask("b.txt"),
    Remove("b.txt"),
    Ask("b.txt"),
    Ask("folder"),
    Ask("folder/"),
    Put("folder/index.html", "index"),
    Ask("folder/"),
    Ask("folder/x.txt"),
    Put("a.txt.gz", "no gzip"),
    Ask("a.txt"),
    Ask("a.txt/x"),
    Pause,
    Ask("a.txt"),
    Ask("none.txt"),
    Ask("b.txt"),
    Ask("folder/"),
];

const PLACES: &[&str] = &["plain", "errors", "valid", "off", "uses", "try", "try-plain", "index", "zipped"];

#[test]
fn open_files_are_kept_as_in_the_systems_nginx() {
    compare_with(Nginx::Old);
}

#[test]
fn open_files_are_kept_as_in_the_newest_nginx() {
    compare_with(Nginx::New);
}

fn compare_with(generation: Nginx) {
    let Some(nginx) = nginx_or_skip(generation) else { return };
    let sides = Sides::start(&nginx, TEXT, &[], &[("html/x.txt", b"x".to_vec())]);
    let html = sides.gateway().prefix().join("html");
    let (mut wrong, mut late) = (Vec::new(), Vec::new());
    for place in PLACES {
        let path = |name: &str| html.join(place).join(name);
        for (at, step) in MOVES.iter().enumerate() {
            match step {
                Put(name, content) => {
                    let (path, new) = (path(name), path("new"));
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(&new, content).unwrap();
                    fs::rename(new, path).unwrap();
                }
                Remove(name) => fs::remove_file(path(name)).unwrap(),
                Ask(name) => {
                    let fields = if *place == "zipped" { "Accept-Encoding: gzip\r\n" } else { "" };
                    let bytes = format!("GET /{place}/{name} HTTP/1.1\r\nHost: files.test\r\n{fields}\r\n");
                    let case = Case::raw(format!("{place}/{name} at {at}"), bytes);
                    let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| talk::run(sides.address(side, 0), &case));
                    if *name == "none.txt" {
                        late.push((*place, ours.answers[0].status));
                    }
                    let differences = compare::differences(&theirs, &ours);
                    wrong.extend(differences.into_iter().map(|what| format!("{} :: {what}", case.name)));
                }
                Pause if *place == "valid" => {
                    let begun = Instant::now();
                    testkit::until("the pause is over", || (begun.elapsed() >= PAUSE).then_some(()));
                }
                // Nothing changes with time there.
                Pause => {}
            }
        }
    }
    // The file that came after it was asked for: its absence is remembered in one place, for some seconds in another.
    let statuses = |place: &str| late.iter().filter(|seen| seen.0 == place).map(|seen| seen.1).collect::<Vec<_>>();
    assert_eq!(["errors", "valid", "off"].map(statuses), [[404, 404, 404], [404, 404, 200], [404, 200, 200]]);
    let (name, count) = (generation.program(), wrong.len());
    assert!(
        wrong.is_empty(),
        "{count} differences ({name}'s -> ours):\n    {}\n{}",
        wrong.join("\n    "),
        sides.logs()
    );
}
