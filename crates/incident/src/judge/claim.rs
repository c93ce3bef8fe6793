//! A claim: a cause, what it is about, since when, and the figures before and during it.

use crate::judge::cause::Cause;
use crate::judge::scene::{Episode, PATIENCE_MS, Scene};
use crate::moment::{Zone, span};
use serde::{Serialize, Serializer};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// Its cause.
    #[serde(serialize_with = "by_name")]
    pub cause: Cause,
    /// The peer, listener, process or group that it is about; empty if it is the machine.
    pub subject: String,
    /// The first sample in which it was seen.
    pub since_ms: u64,
    /// Whether that is the first sample that was read: it may have begun earlier.
    pub since_earlier: bool,
    /// The last sample in which it was seen.
    pub until_ms: u64,
    /// Whether it was still seen at the end of the recording.
    pub goes_on: bool,
    /// What happened, as a clause in the past tense.
    pub what: String,
    /// The figures.
    pub evidence: Vec<Evidence>,
    /// What it explains.
    pub consequences: Vec<Claim>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What it is of.
    pub what: String,
    /// Before the onset; empty if nothing was recorded, or nothing can be compared.
    pub before: String,
    /// Since the onset.
    pub during: String,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
fn by_name<S: Serializer>(cause: &Cause, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(cause.name())
}

impl Claim {
    pub(super) fn new(
        scene: &Scene<'_>,
        cause: Cause,
        subject: &str,
        episode: &Episode,
        what: impl Into<String>,
    ) -> Self {
        let (until_ms, end_ms) = (scene.at_ms(episode.last), scene.samples.last().map_or(0, |sample| sample.at_ms));
        Self {
            cause,
            subject: subject.to_owned(),
            since_ms: scene.at_ms(episode.first),
            since_earlier: episode.first == 0,
            until_ms,
            // Between two signs there may be a while without one.
            goes_on: end_ms.saturating_sub(until_ms) < PATIENCE_MS.min(5 * scene.head.interval_ms),
            what: what.into(),
            evidence: Vec::new(),
            consequences: Vec::new(),
        }
    }

    /// Adds a figure.
    #[must_use]
    pub(super) fn with(
        mut self,
        what: impl Into<String>,
        before: impl Into<String>,
        during: impl Into<String>,
    ) -> Self {
        self.evidence.push(Evidence { what: what.into(), before: before.into(), during: during.into() });
        self
    }

    /// Whether its subject is one peer.
    pub(super) fn is_about_a_peer(&self) -> bool {
        (Cause::UpstreamHandshake..=Cause::PeerInvalid).contains(&self.cause)
    }

    /// What happened, since when, and for how long, as a sentence.
    pub fn sentence(&self, zone: Zone) -> String {
        let since = if self.since_earlier { "Since before" } else { "Since" };
        let lasted = span(self.until_ms.saturating_sub(self.since_ms));
        let end = if self.goes_on {
            format!("it went on at the end of the recording, at {}", zone.clock(self.until_ms))
        } else {
            format!("last seen at {}, {lasted} later", zone.clock(self.until_ms))
        };
        format!("{since} {}: {} ({end}).", zone.clock(self.since_ms), self.what)
    }
}
