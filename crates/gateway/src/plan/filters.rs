//! A location's filter settings: `gzip`, additions and rates.

use conf::model::{HttpVersion, MediaTypes, ReadyMade};
use conf::value::Regex;
use conf::value::words::GzipProxied;
use rules::ssi::PageSettings;
use rules::substitute::Searcher;
use rules::template::Template;
use std::sync::Arc;

/// A coding of compressed bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

impl Coding {
    /// Its name in `Content-Encoding` and `Accept-Encoding`.
    pub(crate) fn token(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The ending of ready-made files.
    pub(crate) fn suffix(self) -> &'static [u8] {
        match self {
            Self::Gzip => b".gz",
            Self::Brotli => b".br",
            Self::Zstd => b".zst",
        }
    }
}

/// `brotli` and `brotli_static`, or the same of `zstd`.
pub(crate) struct CodingPlan {
    pub(crate) coding: Coding,
    pub(crate) on: bool,
    pub(crate) ready_made: ReadyMade,
    pub(crate) types: MediaTypes,
    /// A response with a shorter stated length is not compressed.
    pub(crate) length_min: u64,
    pub(crate) level: u8,
    /// Largest window, as a power of two.
    pub(crate) window: u8,
}

/// `gzip`, `gunzip` and `gzip_static`, if one of them is on, and which clients get compressed responses.
pub(crate) struct GzipPlan {
    /// `gzip`
    pub(crate) on: bool,
    /// `gunzip`
    pub(crate) unpacks: bool,
    /// `gzip_static`
    pub(crate) ready_made: ReadyMade,
    pub(crate) types: MediaTypes,
    /// A response with a shorter stated length is not compressed.
    pub(crate) length_min: u64,
    pub(crate) level: u8,
    pub(crate) vary: bool,
    pub(crate) proxied: GzipProxied,
    pub(crate) http_version: HttpVersion,
    pub(crate) msie6: bool,
    /// `gzip_disable`
    pub(crate) agents: Vec<Regex>,
    /// brotli and zstd, the preferred one first.
    pub(crate) others: Box<[CodingPlan]>,
}

/// `charset`, `source_charset`, `override_charset` and `charset_types`.
pub(crate) struct CharsetPlan {
    pub(crate) charset: Option<Template>,
    pub(crate) source: Option<Template>,
    pub(crate) overrides: bool,
    pub(crate) types: MediaTypes,
}

/// `sub_filter`
pub(crate) struct SubstitutePlan {
    pub(crate) types: MediaTypes,
    pub(crate) texts: SoughtTexts,
    /// In the order of the texts.
    pub(crate) replacements: Vec<Template>,
    pub(crate) once: bool,
    pub(crate) keeps_last_modified: bool,
}

/// The texts that `sub_filter` searches for.
pub(crate) enum SoughtTexts {
    Fixed(Arc<Searcher>),
    Templates(Vec<Template>),
}

/// `ssi`
pub(crate) struct SsiPlan {
    pub(crate) types: MediaTypes,
    pub(crate) page: PageSettings,
    /// `ssi_last_modified`
    pub(crate) keeps_last_modified: bool,
}

/// `add_before_body` and `add_after_body`.
pub(crate) struct AdditionPlan {
    pub(crate) before: Option<Box<[u8]>>,
    pub(crate) after: Option<Box<[u8]>>,
    pub(crate) types: MediaTypes,
}

/// `limit_rate` and `limit_rate_after`.
pub(crate) struct RatePlan {
    /// Bytes per second; 0 for no limit.
    pub(crate) rate: SizePlan,
    /// Bytes.
    pub(crate) after: SizePlan,
}

/// A size that may depend on the request.
pub(crate) enum SizePlan {
    Fixed(u64),
    Template(Template),
}
