//! What a location says about filters: `gzip` and the rates.

use crate::plan::added_fields::fields;
use conf::model::{HttpVersion, MediaTypes};
use conf::value::Regex;
use conf::value::words::GzipProxied;
use http1::FieldId;
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

impl GzipPlan {
    /// Whether a response of this status and with these fields is one to compress.
    pub(crate) fn wants(&self, status: u16, head: &[u8]) -> bool {
        if !matches!(status, 200 | 403 | 404) {
            return false;
        }
        let (mut media, mut length, mut encoded) = (None, None, false);
        for (name, value) in fields(head) {
            match FieldId::of_name(name) {
                FieldId::ContentType => media = media.or(Some(value)),
                FieldId::ContentLength => length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
                FieldId::ContentEncoding => encoded |= !value.is_empty(),
                _ => {}
            }
        }
        !encoded && length.is_none_or(|length: u64| length >= self.length_min) && self.covers(media)
    }

    fn covers(&self, media: Option<&[u8]>) -> bool {
        let MediaTypes::Some(types) = &self.types else { return true };
        let media = media.unwrap_or_default();
        let media = media.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
        !media.is_empty() && types.iter().any(|known| known.eq_ignore_ascii_case(media))
    }
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
