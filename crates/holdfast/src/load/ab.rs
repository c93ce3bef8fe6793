//! `holdfast load ab`: the command line and report of `ApacheBench`.

use super::args::read_body;
use crate::typed::{count, seconds, size};
use load::{Options, Pace, Target, Version};
use std::path::PathBuf;
use std::time::Duration;

/// ab's limit of requests for `-t` without `-n`.
const REQUESTS_WITH_TIME: u64 = 50_000;

/// Load-test with the flags of `ApacheBench`: HTTP/1.0, and a connection for each request unless -k
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Requests in all
    #[arg(short = 'n', value_name = "N", default_value_t = 1, value_parser = count)]
    requests: u64,
    /// Requests at a time
    #[arg(short = 'c', value_name = "N", default_value_t = 1, value_parser = size)]
    concurrency: usize,
    /// Maximum seconds; alone it means -n 50000
    #[arg(short = 't', value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<u64>,
    /// Seconds to wait for each response
    #[arg(short = 's', value_name = "SECONDS", default_value_t = 30, value_parser = seconds)]
    timeout: u64,
    /// Keep connections
    #[arg(short = 'k')]
    keepalive: bool,
    /// POST the content of this file
    #[arg(short = 'p', value_name = "FILE")]
    post: Option<PathBuf>,
    /// PUT the content of this file
    #[arg(short = 'u', value_name = "FILE", conflicts_with = "post")]
    put: Option<PathBuf>,
    /// Content-Type of the file
    #[arg(short = 'T', value_name = "TYPE", default_value = "text/plain")]
    content_type: String,
    /// A header field
    #[arg(short = 'H', value_name = "FIELD")]
    header: Vec<String>,
    /// A cookie, as NAME=VALUE
    #[arg(short = 'C', value_name = "COOKIE")]
    cookie: Vec<String>,
    /// HEAD instead of GET
    #[arg(short = 'i')]
    head: bool,
    /// Method
    #[arg(short = 'm', value_name = "METHOD")]
    method: Option<String>,
    /// Accept bodies of different lengths
    #[arg(short = 'l')]
    variable_length: bool,
    /// Source address
    #[arg(short = 'B', value_name = "ADDRESS")]
    bind: Option<std::net::IpAddr>,
    /// No progress lines
    #[arg(short = 'q')]
    pub(super) quiet: bool,
    /// Accepted for compatibility with ab: socket errors never end the run
    #[arg(short = 'r')]
    keep_going: bool,
    #[command(flatten)]
    pub(super) files: super::args::FileArgs,
    /// URL to load
    url: String,
}

impl Args {
    pub(super) fn options(&self) -> Result<Options, String> {
        let url = if self.url.contains("://") { self.url.clone() } else { format!("http://{}", self.url) };
        let mut target = Target::new(url.parse().map_err(|error| format!("{url}: {error}"))?);
        let mut field = |name: &str, value: &str| target.fields.push((name.to_owned(), value.to_owned()));
        for given in &self.header {
            let (name, value) =
                given.split_once(':').ok_or_else(|| format!("`{given}` is not a header, write NAME: VALUE"))?;
            field(name.trim(), value.trim());
        }
        if !self.cookie.is_empty() {
            field("Cookie", &self.cookie.join("; "));
        }
        let file = self.post.as_ref().or(self.put.as_ref());
        if file.is_some() {
            field("Content-Type", &self.content_type);
        }
        for (name, value) in [("User-Agent", "ApacheBench/2.3"), ("Accept", "*/*")] {
            if !target.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
                target.fields.push((name.to_owned(), value.to_owned()));
            }
        }
        if let Some(file) = file {
            target.body = read_body(file)?;
        }
        let default_method = match (&self.post, &self.put) {
            (Some(_), _) => "POST",
            (_, Some(_)) => "PUT",
            _ if self.head => "HEAD",
            _ => "GET",
        };
        target.method = self.method.clone().unwrap_or_else(|| default_method.to_owned());
        let with_time = self.time_limit.is_some() && self.requests == 1;
        let options = Options {
            pace: Pace::closed(),
            connections: self.concurrency,
            threads: 1,
            processes: None,
            requests: Some(if with_time { REQUESTS_WITH_TIME } else { self.requests }),
            duration: self.time_limit.map(Duration::from_secs),
            keepalive: self.keepalive,
            version: Version::Http10,
            response_timeout: Duration::from_secs(self.timeout),
            sources: self.bind.into_iter().collect(),
            templates: false,
            parts: true,
            ignore_length: self.variable_length,
            ..Options::new(target)
        };
        options.check().map_err(|error| error.to_string())?;
        Ok(options)
    }
}
