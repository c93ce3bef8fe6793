//! Resident memory per held connection: a proxy started afresh for each kind, warmed up, then filled.

use super::arms::{self, Arm, Programs};
use super::holders::{self, Held};
use super::origin::Tunnels;
use anyhow::{Context as _, Result, bail};
use lab::stage::process::pause;
use lab::stage::usage::{descriptors_of_tree, rss_kib_of_tree};
use serde::Serialize;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Connections that are opened and closed again first, so that code pages and first arenas are not charged to the rest.
const WARM_UP: usize = 200;

/// Descriptors that come and go beside the held ones: the readiness probe's, idle upstream connections.
const STRAY: usize = 8;

/// One measurement.
#[derive(Serialize)]
pub(super) struct Memory {
    pub(super) arm: &'static str,
    pub(super) held: &'static str,
    pub(super) connections: usize,
    pub(super) rss_kib_before: u64,
    pub(super) rss_kib_after: u64,
    pub(super) bytes_per_connection: f64,
}

/// Fills one arm with `connections` of one kind.
pub(super) fn measure(
    programs: &Programs,
    arm: Arm,
    core: usize,
    home: &Path,
    tunnels: &Tunnels,
    held: Held,
    connections: usize,
) -> Result<Memory> {
    let page = super::proxy::SMALL_PAGE;
    let proxy = arms::start(programs, arm, core, home, false, page)?;
    let id = proxy.process.id();
    let open = |count: usize| -> Result<Vec<TcpStream>> {
        let all = (0..count).map(|n| {
            holders::open(held, proxy.port, page).with_context(|| format!("{arm}: {} number {n}", held.name()))
        });
        all.collect()
    };
    let about = || format!("{arm}, {}", held.name());
    let before_any = descriptors_of_tree(id);
    drop(open(WARM_UP)?);
    tunnels.release();
    wait_for_descriptors(id, "fall", |count| count <= before_any + STRAY).with_context(about)?;
    let before_filling = descriptors_of_tree(id);

    let before = rss_kib_of_tree(id);
    let filled = open(connections)?;
    // Nothing answers half a head: the descriptors show when the proxy has accepted them all.
    let enough = (before_filling + connections * held.descriptors()).saturating_sub(STRAY);
    wait_for_descriptors(id, "rise", |count| count >= enough).with_context(about)?;
    let after = rss_kib_of_tree(id);
    drop(filled);
    tunnels.release();
    Ok(Memory {
        arm: arm.name(),
        held: held.name(),
        connections,
        rss_kib_before: before,
        rss_kib_after: after,
        bytes_per_connection: (after.saturating_sub(before) * 1024) as f64 / connections as f64,
    })
}

fn wait_for_descriptors(id: u32, what: &str, enough: impl Fn(usize) -> bool) -> Result<()> {
    const SECONDS: u64 = 20;
    let deadline = Instant::now() + Duration::from_secs(SECONDS);
    while !enough(descriptors_of_tree(id)) {
        if Instant::now() > deadline {
            bail!("the proxy's descriptors did not {what} within {SECONDS} s; it has {}", descriptors_of_tree(id));
        }
        pause();
    }
    Ok(())
}
