//! The installed form beside nginx: both start as root with `user`, their default paths and the same configuration, on a
//! machine of their own. Answers, lines of both logs, and the files that are left must be equal, before and after a
//! reload, and while logs are rotated. The differential suite of `gateway` compares all else, in one process as root.

mod cases;
mod files;
mod logs;
mod sides;

use cases::cases;
use sides::{Side, Sides};
use std::fmt::Write as _;
use testkit::sides::{Nginx, nginx_or_skip};

/// Most differences that a failure prints.
const SHOWN_MAX: usize = 1000;

#[test]
fn the_installed_form_serves_and_logs_as_nginx_does() {
    let Some(nginx) = nginx_or_skip(Nginx::New) else { return };
    let Some(sides) = Sides::start(&nginx) else { return };
    let mut wrong = compare_answers(&sides, 1);
    sides.reload(2);
    wrong.extend(compare_answers(&sides, 2));
    wrong.extend(logs::compare(&sides));
    sides.rotate();
    wrong.extend(compare_answers(&sides, 3));
    wrong.extend(logs::compare(&sides));
    wrong.extend(logs::compare_files(&sides));
    wrong.extend(files::compare(&sides));
    sides.quit();
    let mut report = String::new();
    for line in wrong.iter().take(SHOWN_MAX) {
        let _ = writeln!(report, "    {line}");
    }
    assert!(wrong.is_empty(), "{} differences (nginx's -> ours):\n{report}", wrong.len());
}

/// Runs all cases. Responses are stored in the first round, and come from the cache and the disk in the later ones.
fn compare_answers(sides: &Sides, round: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases() {
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| case.run(sides, side));
        let without = |all: &[String], others: &[String]| {
            all.iter().filter(|part| !others.contains(part)).cloned().collect::<Vec<_>>().join(" | ")
        };
        if theirs != ours {
            let (theirs, ours) = (without(&theirs, &ours), without(&ours, &theirs));
            wrong.push(format!("round {round}, {}: {theirs} -> {ours}", case.name()));
        }
    }
    wrong
}
