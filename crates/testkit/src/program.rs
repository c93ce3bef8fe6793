//! Foreign programs that tests run beside the gateway, and Debian's configuration of nginx. `cargo xtask peers` unpacks them,
//! or the system has them installed.

use crate::{output_for, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The peer program of that name, from `$HOLDFAST_PEERS`, `target/peers/bin`, or the installed programs.
///
/// # Panics
/// If it is not found: `cargo xtask peers` fetches it.
pub fn peer_program(name: &str) -> PathBuf {
    find_peer(&[name]).unwrap_or_else(|| {
        panic!("no {name} here: `cargo xtask peers` fetches it, and `cargo xtask test` does so itself")
    })
}

/// The first of these programs that is there; `None`, after [`skip`], where none is.
///
/// # Panics
/// Under `CI` where none is.
#[track_caller]
pub fn peer_or_skip(names: &[&str]) -> Option<PathBuf> {
    let found = find_peer(names);
    if found.is_none() {
        skip(&format!("there is no {}; `cargo xtask peers` provides one", names.join(" or ")));
    }
    found
}

fn find_peer(names: &[&str]) -> Option<PathBuf> {
    let given = std::env::var_os("HOLDFAST_PEERS").map(PathBuf::from);
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons may be in folders that are not in a user's `PATH`.
    let system = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let folders = given.into_iter().chain([ours]).chain(system.collect::<Vec<_>>());
    let mut files = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    files.find(|file| file.is_file())
}

/// Asserts that `promtool check metrics` accepts a page of metrics without a message.
///
/// # Panics
/// If it prints a message, or is not found.
#[track_caller]
pub fn assert_metrics_are_sound(metrics: &str) {
    let output = output_for(Command::new(peer_program("promtool")).args(["check", "metrics"]), metrics);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
}

/// Where Debian's /etc/nginx is, unpacked by `cargo xtask peers` or installed. Under CI it must be somewhere.
///
/// # Panics
/// Under CI when it is nowhere.
pub fn debian_nginx() -> Option<PathBuf> {
    let beside = std::env::var_os("HOLDFAST_PEERS").map(|bin| PathBuf::from(bin).join("../root/etc/nginx"));
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/root/etc/nginx");
    let places = beside.into_iter().chain([built, PathBuf::from("/etc/nginx")]);
    let found = places.into_iter().find(|folder| folder.join("sites-available/default").is_file());
    if found.is_none() {
        skip("Debian's nginx configuration is not here; `cargo xtask peers` provides it");
    }
    found
}
