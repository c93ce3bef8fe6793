//! The files and folders that both sides have made.

use super::sides::{Side, Sides, without_digits};
use crate::support::comes_true;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Folders below a side's own whose files are compared. In those of `proxy` and its like nginx has none left.
const FOLDERS: [&str; 11] = [
    "body",
    "proxy",
    "fastcgi",
    "uwsgi",
    "scgi",
    "elsewhere",
    "cache",
    "aside-cache",
    "fastcgi-cache",
    "aside-temp",
    "store",
];

/// Path, permissions, owner and size of all of them.
pub(super) fn compare(sides: &Sides) -> Vec<String> {
    let of = |side: Side| {
        let mut found = BTreeMap::new();
        let home = sides.machine.path(side.home());
        for name in FOLDERS {
            let own = match (side, name) {
                (Side::Ours, "body") => "client_body_temp".to_owned(),
                (Side::Ours, "proxy" | "fastcgi" | "uwsgi" | "scgi") => format!("{name}_temp"),
                _ => name.to_owned(),
            };
            describe(&home.join(own), name, &mut found);
        }
        found
    };
    // Unfinished files are removed behind the requests.
    comes_true(|| differences("file", &of(Side::Nginx), &of(Side::Ours)).is_empty());
    let theirs = of(Side::Nginx);
    assert!(theirs.contains_key("body/##########") && theirs.len() > 40, "{theirs:?}");
    differences("file", &theirs, &of(Side::Ours))
}

fn describe(path: &Path, name: &str, found: &mut BTreeMap<String, String>) {
    let Ok(facts) = fs::symlink_metadata(path) else { return };
    let owner = format!("{:o} {}:{}", facts.mode() & 0o7777, facts.uid(), facts.gid());
    if !facts.is_dir() {
        // The two have different heads in the files of their caches.
        let size = if name.contains("cache") { String::new() } else { format!(" {} bytes", facts.len()) };
        // The files of one shape are listed together.
        let known = found.entry(name.to_owned()).or_default();
        let mut all: Vec<String> = known.split("; ").filter(|one| !one.is_empty()).map(str::to_owned).collect();
        all.push(format!("{owner}{size}"));
        all.sort();
        *known = all.join("; ");
        return;
    }
    // Temporary files come and go, and nginx makes their folders in advance.
    let top = name.split('/').next().unwrap_or_default();
    if !["proxy", "fastcgi", "uwsgi", "scgi", "aside-temp"].contains(&top) {
        found.entry(name.to_owned()).or_insert(format!("{owner} folder"));
    }
    let is_numbered = ["body", "elsewhere"].contains(&top);
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let own = entry.file_name().to_string_lossy().into_owned();
        let own = if is_numbered { without_digits(&own) } else { own };
        describe(&entry.path(), &format!("{name}/{own}"), found);
    }
}

/// What is different between two lists.
pub(super) fn differences(
    what: &str,
    theirs: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
) -> Vec<String> {
    let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let shown = |found: Option<&String>| found.map_or("none", |text| text).to_owned();
    let pairs = names.into_iter().map(|name| (name, shown(theirs.get(name)), shown(ours.get(name))));
    pairs
        .filter(|(_, theirs, ours)| theirs != ours)
        .map(|(name, theirs, ours)| format!("{what} {name}: {theirs} -> {ours}"))
        .collect()
}
