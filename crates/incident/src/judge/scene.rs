//! The samples around an incident, and how onsets are found in them: an episode begins with the first sample in which a sign is seen, and
//! goes on while the sign comes back within [`PATIENCE_MS`].

use crate::sample::{Head, Sample};

/// A sign that is away for so long has ended; one that comes back sooner, such as retries every ten seconds, is the same.
pub(super) const PATIENCE_MS: u64 = 30_000;
/// Fewest samples before a window that figures are compared with.
const BASELINE_MIN: usize = 20;

/// The samples, the window that was asked for, and what holds for all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    /// With those before the window.
    pub(super) samples: &'a [Sample],
    /// The place of the window's first sample.
    pub(super) window_from: usize,
    pub(super) head: &'a Head,
}

/// A time in which a sign was seen: places of samples, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Episode {
    pub(super) first: usize,
    pub(super) last: usize,
    /// In how many samples it was seen.
    pub(super) held: usize,
}

impl<'a> Scene<'a> {
    /// The episodes of a sign that reach into the window, in their order.
    pub(super) fn episodes(&self, holds: impl FnMut(&Sample) -> bool) -> Vec<Episode> {
        self.episodes_within(PATIENCE_MS, holds)
    }

    /// The same with another patience, for signs that are there in every sample.
    pub(super) fn episodes_within(&self, patience_ms: u64, mut holds: impl FnMut(&Sample) -> bool) -> Vec<Episode> {
        let mut episodes: Vec<Episode> = Vec::new();
        for (place, sample) in self.samples.iter().enumerate() {
            if !holds(sample) {
                continue;
            }
            match episodes.last_mut() {
                Some(episode) if sample.at_ms.saturating_sub(self.at_ms(episode.last)) <= patience_ms => {
                    (episode.last, episode.held) = (place, episode.held + 1);
                }
                _ => episodes.push(Episode { first: place, last: place, held: 1 }),
            }
        }
        episodes.retain(|episode| episode.last >= self.window_from);
        episodes
    }

    pub(super) fn at_ms(&self, place: usize) -> u64 {
        self.samples.get(place).map_or(0, |sample| sample.at_ms)
    }

    /// The samples of an episode.
    pub(super) fn during(&self, episode: &Episode) -> &'a [Sample] {
        self.samples.get(episode.first..=episode.last).unwrap_or_default()
    }

    /// The samples before an episode.
    pub(super) fn before(&self, episode: &Episode) -> &'a [Sample] {
        self.samples.get(..episode.first).unwrap_or_default()
    }

    /// The samples that figures are compared with: those before the window, or, if there are few, the first quarter.
    pub(super) fn baseline(&self) -> &'a [Sample] {
        let end = if self.window_from >= BASELINE_MIN { self.window_from } else { self.samples.len() / 4 };
        self.samples.get(..end).unwrap_or_default()
    }

    /// How long an episode lasted, the interval of its first sample included.
    pub(super) fn lasted_ms(&self, episode: &Episode) -> u64 {
        self.at_ms(episode.last).saturating_sub(self.at_ms(episode.first)) + self.head.interval_ms
    }
}

/// What is counted in these samples, in total and per second.
pub(super) fn rate(samples: &[Sample], count: impl Fn(&Sample) -> u64) -> (u64, f64) {
    let total: u64 = samples.iter().map(count).sum();
    let ms: u64 = samples.iter().map(|sample| sample.over_ms).sum();
    (total, if ms == 0 { 0.0 } else { total as f64 * 1e3 / ms as f64 })
}

/// The median of a level; `None` if no sample has it.
pub(super) fn median(samples: &[Sample], level: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    stats::summary::median(&samples.iter().filter_map(level).collect::<Vec<f64>>())
}

/// The largest value of a level.
pub(super) fn most<T: Ord>(samples: &[Sample], level: impl Fn(&Sample) -> Option<T>) -> Option<T> {
    samples.iter().filter_map(level).max()
}

/// The smallest value of a level.
pub(super) fn least<T: Ord>(samples: &[Sample], level: impl Fn(&Sample) -> Option<T>) -> Option<T> {
    samples.iter().filter_map(level).min()
}
