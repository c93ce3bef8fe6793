//! The gateway's status for operators: all numbers at one moment (`snapshot`) and its renderings: a page, JSON, and the
//! formats of Prometheus. A `status_page` exchange asks for one; a thread that may block makes it.

pub(crate) mod kernel;
pub(crate) mod metrics;
pub(crate) mod page;
pub(crate) mod snapshot;

use crate::content::status::snapshot::Snapshot;
use crate::registry::generation::Generation;
use crate::registry::process::Registry;
use report::prometheus::Format;

/// The format of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatusFormat {
    /// A page for people, which refreshes itself.
    Html,
    /// Everything as one JSON object.
    Json,
    /// Metrics.
    Metrics(Format),
}

impl StatusFormat {
    /// The format that a request asks for: `format=` in its arguments, else the end of its path, else the media type in its
    /// Accept field that it prefers of those that name one. A client that names none (`curl`) gets Prometheus's text. Where the
    /// path asks for metrics, Accept says in which of their formats. `Err`: the argument names no format.
    pub(crate) fn of_request(path: &[u8], args: Option<&[u8]>, accept: Option<&[u8]>) -> Result<Self, ()> {
        if let Some(format) = args.and_then(|args| rules::variable::arg(args, b"format")) {
            return match format {
                b"html" => Ok(Self::Html),
                b"json" => Ok(Self::Json),
                b"prometheus" => Ok(Self::Metrics(Format::Text)),
                b"openmetrics" => Ok(Self::Metrics(Format::OpenMetrics)),
                b"protobuf" => Ok(Self::Metrics(Format::Protobuf)),
                _ => Err(()),
            };
        }
        let accepted = |wanted: fn(&Self) -> bool| preferred(accept.unwrap_or_default(), wanted);
        let ends_with = |endings: [&[u8]; 2]| endings.iter().any(|ending| path.ends_with(ending));
        if ends_with([b"/json", b".json"]) {
            return Ok(Self::Json);
        }
        if ends_with([b"/metrics", b".prom"]) {
            return Ok(accepted(|format| matches!(format, Self::Metrics(_))).unwrap_or(Self::Metrics(Format::Text)));
        }
        Ok(accepted(|_| true).unwrap_or(Self::Metrics(Format::Text)))
    }

    /// The format of a media range without its quality.
    fn of_media(range: &[u8]) -> Option<Self> {
        let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let media = parts.next().unwrap_or_default();
        let is = |name: &[u8]| media.eq_ignore_ascii_case(name);
        let is_family = |part: &[u8]| part.eq_ignore_ascii_case(b"proto=io.prometheus.client.MetricFamily");
        match () {
            () if is(b"text/html") => Some(Self::Html),
            () if is(b"application/json") => Some(Self::Json),
            () if is(b"text/plain") => Some(Self::Metrics(Format::Text)),
            () if is(b"application/openmetrics-text") => Some(Self::Metrics(Format::OpenMetrics)),
            () if is(b"application/vnd.google.protobuf") && parts.any(is_family) => {
                Some(Self::Metrics(Format::Protobuf))
            }
            () => None,
        }
    }

    /// The Content-Type of the format.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
            Self::Metrics(format) => format.content_type(),
        }
    }
}

/// The wanted format with the highest quality in an Accept field, the first one of equals.
fn preferred(accept: &[u8], wanted: fn(&StatusFormat) -> bool) -> Option<StatusFormat> {
    let mut best: Option<(u32, StatusFormat)> = None;
    for range in accept.split(|&byte| byte == b',') {
        let Some(format) = StatusFormat::of_media(range).filter(wanted) else { continue };
        let quality = quality_of(range);
        if quality > best.map_or(0, |(highest, _)| highest) {
            best = Some((quality, format));
        }
    }
    best.map(|(_, format)| format)
}

/// The quality of a media range in thousandths; what is no number is 1.
fn quality_of(range: &[u8]) -> u32 {
    let parameters = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let written = parameters.skip(1).find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
    let number = written.and_then(|text| std::str::from_utf8(text).ok()?.parse::<f64>().ok());
    number.filter(|number| (0.0..=1.0).contains(number)).map_or(1000, |number| (number * 1000.0) as u32)
}

/// Renders the present status as a document. It locks each worker's shard for a moment and asks the kernel about
/// listeners, so no worker calls it.
pub(crate) fn render(registry: &Registry, generation: &Generation, format: StatusFormat) -> Vec<u8> {
    let snapshot = Snapshot::of_all(registry, generation);
    match format {
        StatusFormat::Html => page::render(&snapshot).into_bytes(),
        // The snapshot is strings and numbers: serialising it cannot fail.
        StatusFormat::Json => serde_json::to_vec_pretty(&snapshot).unwrap_or_default(),
        StatusFormat::Metrics(format) => metrics::render(&snapshot, format),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BROWSER: &[u8] = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    /// What Prometheus 2.53 asks for, and the same where it takes native histograms.
    const COLLECTOR: &[u8] =
        b"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    const NATIVE: &[u8] =
        b"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
        application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    const TEXT: StatusFormat = StatusFormat::Metrics(Format::Text);
    const OPEN: StatusFormat = StatusFormat::Metrics(Format::OpenMetrics);
    const PROTOBUF: StatusFormat = StatusFormat::Metrics(Format::Protobuf);

    fn format(path: &str, args: Option<&str>, accept: Option<&[u8]>) -> Result<StatusFormat, ()> {
        StatusFormat::of_request(path.as_bytes(), args.map(str::as_bytes), accept)
    }

    #[test]
    fn the_argument_goes_before_the_path_and_the_path_before_accept() {
        assert_eq!(format("/s/metrics", Some("format=json"), Some(BROWSER)), Ok(StatusFormat::Json));
        assert_eq!(format("/s", Some("format=openmetrics"), Some(BROWSER)), Ok(OPEN));
        assert_eq!(format("/s", Some("format=protobuf"), None), Ok(PROTOBUF));
        assert_eq!(format("/s/metrics", None, Some(BROWSER)), Ok(TEXT));
        assert_eq!(format("/s.json", Some("x=1"), Some(BROWSER)), Ok(StatusFormat::Json));
        assert_eq!(format("/s", None, Some(BROWSER)), Ok(StatusFormat::Html));
        assert_eq!(format("/s", None, Some(b"application/json")), Ok(StatusFormat::Json));
        assert_eq!(format("/s", None, Some(b"*/*")), Ok(TEXT));
        assert_eq!(format("/s", None, None), Ok(TEXT));
        assert_eq!(format("/s", Some("format=xml"), None), Err(()));
    }

    #[test]
    fn a_collector_gets_the_format_that_it_prefers() {
        for path in ["/s", "/s/metrics"] {
            assert_eq!(format(path, None, Some(COLLECTOR)), Ok(OPEN));
            assert_eq!(format(path, None, Some(NATIVE)), Ok(PROTOBUF));
        }
        assert_eq!(format("/s", None, Some(b"text/plain;q=0.5, application/openmetrics-text;q=0.4")), Ok(TEXT));
        assert_eq!(format("/s", None, Some(b"text/html;q=0, application/json;q=0.1")), Ok(StatusFormat::Json));
        assert_eq!(format("/s", None, Some(b"application/vnd.google.protobuf;proto=other")), Ok(TEXT));
        assert_eq!(format("/s", None, Some(b"application/json;q=x, text/html;q=0.9")), Ok(StatusFormat::Json));
    }
}
