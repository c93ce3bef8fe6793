//! The gateway's status for operators: all numbers at one moment (`snapshot`) and its three renderings: a page, JSON,
//! and Prometheus text. A `status_page` exchange asks for one; a thread that may block makes it.

pub(crate) mod kernel;
pub(crate) mod metrics;
pub(crate) mod page;
pub(crate) mod snapshot;

use crate::content::status::snapshot::Snapshot;
use crate::registry::generation::Generation;
use crate::registry::process::Registry;

/// The format of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusFormat {
    /// A page for people, which refreshes itself.
    Html,
    /// Everything as one JSON object.
    Json,
    /// Prometheus's text format, version 0.0.4.
    Prometheus,
}

impl StatusFormat {
    /// The format that a request asks for: `format=` in its arguments, else the end of its path, else the first media
    /// type in its Accept field that names one. A client that names none (`curl`, a collector) gets Prometheus text.
    /// `Err`: the argument names no format.
    pub(crate) fn of_request(path: &[u8], args: Option<&[u8]>, accept: Option<&[u8]>) -> Result<Self, ()> {
        if let Some(format) = args.and_then(|args| rules::variable::arg(args, b"format")) {
            return match format {
                b"html" => Ok(Self::Html),
                b"json" => Ok(Self::Json),
                b"prometheus" => Ok(Self::Prometheus),
                _ => Err(()),
            };
        }
        let endings: [(&[u8], Self); 4] = [
            (b"/json", Self::Json),
            (b".json", Self::Json),
            (b"/metrics", Self::Prometheus),
            (b".prom", Self::Prometheus),
        ];
        if let Some((_, format)) = endings.into_iter().find(|(ending, _)| path.ends_with(ending)) {
            return Ok(format);
        }
        let types = accept.unwrap_or_default().split(|&byte| byte == b',');
        let known = types.filter_map(|range| {
            let media = range.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
            let is = |name: &[u8]| media.eq_ignore_ascii_case(name);
            match () {
                () if is(b"text/html") => Some(Self::Html),
                () if is(b"application/json") => Some(Self::Json),
                () if is(b"text/plain") || is(b"application/openmetrics-text") => Some(Self::Prometheus),
                () => None,
            }
        });
        Ok(known.into_iter().next().unwrap_or(Self::Prometheus))
    }

    /// The Content-Type of the format.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Renders the present status as a document. It locks each worker's shard for a moment and asks the kernel about
/// listeners, so no worker calls it.
pub(crate) fn render(shared: &Registry, generation: &Generation, format: StatusFormat) -> Vec<u8> {
    let snapshot = Snapshot::take(shared, generation);
    match format {
        StatusFormat::Html => page::render(&snapshot).into_bytes(),
        // The snapshot is strings and numbers: serialising it cannot fail.
        StatusFormat::Json => serde_json::to_vec_pretty(&snapshot).unwrap_or_default(),
        StatusFormat::Prometheus => metrics::render(&snapshot).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSER: &[u8] = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    const COLLECTOR: &[u8] =
        b"application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

    fn format(path: &str, args: Option<&str>, accept: Option<&[u8]>) -> Result<StatusFormat, ()> {
        StatusFormat::of_request(path.as_bytes(), args.map(str::as_bytes), accept)
    }

    #[test]
    fn the_argument_goes_before_the_path_and_the_path_before_accept() {
        assert_eq!(format("/s/metrics", Some("format=json"), Some(BROWSER)), Ok(StatusFormat::Json));
        assert_eq!(format("/s/metrics", None, Some(BROWSER)), Ok(StatusFormat::Prometheus));
        assert_eq!(format("/s.json", Some("x=1"), Some(BROWSER)), Ok(StatusFormat::Json));
        assert_eq!(format("/s", None, Some(BROWSER)), Ok(StatusFormat::Html));
        assert_eq!(format("/s", None, Some(COLLECTOR)), Ok(StatusFormat::Prometheus));
        assert_eq!(format("/s", None, Some(b"application/json")), Ok(StatusFormat::Json));
        assert_eq!(format("/s", None, Some(b"*/*")), Ok(StatusFormat::Prometheus));
        assert_eq!(format("/s", None, None), Ok(StatusFormat::Prometheus));
        assert_eq!(format("/s", Some("format=xml"), None), Err(()));
    }
}
