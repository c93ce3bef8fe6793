//! What a location says about filters: `gzip` and the rates.

use conf::model::{HttpVersion, MediaTypes};
use conf::value::Regex;
use conf::value::words::GzipProxied;
use rules::template::Template;

/// `gzip on` and its conditions.
pub(crate) struct GzipPlan {
    pub(crate) types: MediaTypes,
    /// A response that says a shorter length is left alone.
    pub(crate) length_min: u64,
    pub(crate) level: u8,
    pub(crate) vary: bool,
    pub(crate) proxied: GzipProxied,
    pub(crate) http_version: HttpVersion,
    pub(crate) msie6: bool,
    /// `gzip_disable`
    pub(crate) agents: Vec<Regex>,
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
