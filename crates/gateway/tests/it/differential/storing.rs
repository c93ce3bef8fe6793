//! `proxy_store` and its kin compared with nginx: the answers, and afterwards the files of both sides on the disk, with
//! content, permissions and, where the response stated one, the time.

use super::accepted::{self, Accepted};
use super::application::decoded;
use super::cases::pattern;
use super::cases::storing::conversations;
use super::cgi_applications::{self, Protocol};
use super::{Nginx, Side, Sides, compare, talk};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use testkit::sides::nginx_or_skip;
use testkit::{Peer, until};

#[test]
fn stores_as_the_systems_nginx_does() {
    compare_with(Nginx::Old);
}

#[test]
fn stores_as_the_newest_nginx_does() {
    compare_with(Nginx::New);
}

/// Files written this long ago have a time of their own; newer ones were stored without one.
const RECENT: Duration = Duration::from_hours(24 * 365);

/// The upstream sends what the query says, and closes.
fn upstream() -> Peer {
    Peer::script(|mut talk| {
        let Some(request) = talk.request() else { return };
        let query = request.target().split_once('?').map_or("", |(_, query)| query);
        let value = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)).map(decoded);
        let mut bytes: Vec<u8> = value("raw=").unwrap_or_default().chars().map(|char| char as u8).collect();
        bytes.extend(pattern(value("size=").and_then(|size| size.parse().ok()).unwrap_or(0)));
        talk.send(bytes);
    })
}

/// Whether the difference is the time of a saved file in the response that it becomes: both sides save it at different
/// moments. The times of the files themselves are compared on disk.
fn is_time_of_saving(case: &str, difference: &str) -> bool {
    case.ends_with(" again") && ["field ETag", "field Last-Modified"].iter().any(|field| difference.starts_with(field))
}

fn compare_with(generation: Nginx) {
    let Some(nginx) = nginx_or_skip(generation) else { return };
    let origin = upstream();
    let [fastcgi, scgi, uwsgi] = [Protocol::Fastcgi, Protocol::Scgi, Protocol::Uwsgi].map(cgi_applications::start);
    let upstreams = [origin.address(), fastcgi, scgi, uwsgi];
    let sides = Sides::start(&nginx, include_str!("cases/storing.conf"), &upstreams, &[]);
    let accepted = accepted::read(include_str!("accepted.txt"), generation);
    let only = std::env::var("DIFFERENTIAL").ok();
    let all = conversations();
    assert!(all.len() >= 250, "{} conversations", all.len());
    let mut wrong = Vec::new();
    for case in all.iter().flatten() {
        if only.as_deref().is_some_and(|part| !case.name.contains(part)) {
            continue;
        }
        let [theirs, ours] = [Side::Nginx, Side::Ours].map(|side| talk::run(sides.address(side, 0), case));
        wrong.extend(
            compare::differences(&theirs, &ours)
                .into_iter()
                .filter(|difference| !is_time_of_saving(&case.name, difference))
                .filter(|difference| !is_accepted(&accepted, &case.name, difference))
                .map(|difference| format!("storing/{} :: {difference}", case.name)),
        );
    }
    wrong.extend(file_differences(&sides).into_iter().filter_map(|(path, difference)| {
        (!is_accepted(&accepted, &path, &difference)).then(|| format!("storing/{path} :: {difference}"))
    }));
    if only.is_none() {
        let unused = accepted.iter().filter_map(|line| line.unused("storing"));
        wrong.extend(unused.map(|line| format!("not needed: {line}")));
    }
    let log = sides.our_log();
    assert!(!log.contains("bug in holdfast"), "{log}");
    let (name, count) = (generation.program(), wrong.len());
    assert!(
        wrong.is_empty(),
        "{count} differences ({name}'s -> ours):\n    {}\n{}",
        wrong.join("\n    "),
        sides.logs()
    );
}

fn is_accepted(accepted: &[Accepted], case: &str, difference: &str) -> bool {
    accepted.iter().filter(|line| line.covers("storing", case, difference)).count() > 0
}

/// The files below a folder, each with permissions, time and content. Folders without files are left out: nginx makes
/// them later.
fn files(directory: &Path, root: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let facts = entry.metadata().unwrap();
        let mode = facts.mode() & 0o777;
        if path.is_dir() {
            let before = found.len();
            files(&path, root, found);
            if found.len() > before {
                found.insert(name, format!("{mode:o} folder"));
            }
            continue;
        }
        let modified = facts.modified().unwrap();
        let is_new = modified.elapsed().is_ok_and(|age| age < RECENT);
        let time =
            if is_new { "now".to_owned() } else { format!("{:?}", modified.duration_since(UNIX_EPOCH).unwrap()) };
        let bytes = fs::read(&path).unwrap_or_default();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        let sum = bytes.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        found.insert(name, format!("{mode:o} {time} {} bytes {sum:08x} {shown:?}", bytes.len()));
    }
}

fn file_differences(sides: &Sides) -> Vec<(String, String)> {
    let of = |side: Side| {
        let root = sides.gateway().prefix().join(format!("store-{}", side.name()));
        let mut found = BTreeMap::new();
        files(&root, &root, &mut found);
        found
    };
    // Unfinished files are removed on another thread.
    until("no temporary file is left", || {
        (!of(Side::Ours).keys().any(|name| name.contains("/.holdfast-"))).then_some(())
    });
    let (theirs, ours) = (of(Side::Nginx), of(Side::Ours));
    let names: std::collections::BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let shown = |found: Option<&String>| found.map_or("none", |text| text).to_owned();
    let mut wrong = Vec::new();
    for name in names {
        let (theirs, ours) = (shown(theirs.get(name)), shown(ours.get(name)));
        if theirs != ours {
            wrong.push((name.clone(), format!("{theirs} -> {ours}")));
        }
    }
    wrong
}
