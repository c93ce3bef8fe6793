//! The flags that name the servers which get the metrics of a run.

use load::Url;
use load::drive::{Push, PushProtocol};

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Metrics to servers, each interval")]
pub(crate) struct PushFlags {
    /// Send metrics by Prometheus remote write; without a path, to /api/v1/write
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    remote_write: Option<Url>,
    /// Send metrics by OTLP over HTTP; without a path, to /v1/metrics
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    otlp: Option<Url>,
    /// Send metrics in the line protocol of `InfluxDB`; without a path, to /write (its databases need `/write?db=NAME`)
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    influx: Option<Url>,
    /// A label of all metrics that are sent, such as run=42; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    label: Vec<(String, String)>,
    /// A header field for these servers, such as 'Authorization: Bearer …'; may be given several times
    #[arg(long, value_name = "FIELD", value_parser = parse_field)]
    push_header: Vec<(String, String)>,
}

fn parse_url(text: &str) -> Result<Url, String> {
    text.parse().map_err(|error: load::UrlError| error.to_string())
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        let is_start = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        is_start && name.chars().all(|symbol| symbol.is_ascii_alphanumeric() || symbol == '_')
    };
    let pair = text.split_once('=').filter(|(name, value)| is_name(name) && !value.is_empty());
    let (name, value) = pair.ok_or("NAME=VALUE, with letters, digits and _ in the name")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("NAME: VALUE")?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_value = value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7F));
    if is_name && is_value { Ok((name.to_owned(), value.to_owned())) } else { Err("NAME: VALUE".to_owned()) }
}

impl PushFlags {
    /// The servers.
    pub(super) fn pushes(&self) -> Vec<Push> {
        let all = [
            (&self.remote_write, PushProtocol::RemoteWrite, "/api/v1/write"),
            (&self.otlp, PushProtocol::Otlp, "/v1/metrics"),
            (&self.influx, PushProtocol::Influx, "/write"),
        ];
        let given = all.into_iter().filter_map(|(url, protocol, path)| Some((url.as_ref()?, protocol, path)));
        given
            .map(|(url, protocol, path)| {
                let path = if url.path == "/" { path.to_owned() } else { url.path.clone() };
                let (fields, labels) = (self.push_header.clone(), self.label.clone());
                Push { protocol, url: Url { path, ..url.clone() }, fields, labels }
            })
            .collect()
    }
}
