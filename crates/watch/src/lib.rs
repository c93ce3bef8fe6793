//! The observer behind `holdfast watch`: the state of every connection, where bytes pile up, who closed first, and how long
//! the ports last. It works beside any server. `log` writes samples, `read_logs` reads them, and `plain` and `view` show
//! looks; `model` evaluates the sockets and is pure. The program has the flags and exit codes. `load` also uses the model
//! and the exporter, for the sockets towards its targets.

mod configured;
mod exporter;
mod log;
pub mod model;
mod names;
mod plain;
mod read_logs;
mod sampler;
mod timestamp;
mod view;

pub use exporter::{Bound, Exporter};
pub use model::log_file::Format;
pub use read_logs::Logs;

use conf::Loader;
use model::metrics;
use model::tally::PORTS_MAX;
use names::SystemNames;
use sampler::{Sampler, Wanted};
use sockdiag::{Filter, Namespace};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;
use terminal::signals::Signals;
use terminal::{Terminal, say};

/// What to look at, how often, and where to show it.
#[derive(Debug)]
pub struct Watch {
    /// The time between two looks.
    pub interval: Duration,
    /// The number of looks; `None` continues until a signal.
    pub count: Option<NonZeroU64>,
    /// Writes a histogram of states per look to this file (`-` for standard output) and shows nothing else.
    pub log: Option<PathBuf>,
    /// The format of the log.
    pub format: Format,
    /// Ports whose sockets are counted separately, at either end.
    pub ports: Vec<u16>,
    /// nginx.conf files whose backlogs are shown beside each listener.
    pub confs: Vec<PathBuf>,
    /// The address that serves the last look at /metrics.
    pub listen: Option<SocketAddr>,
    /// Whether to print tables, even on a terminal.
    pub plain: bool,
    /// Whether to print each look as a line of JSON, even on a terminal.
    pub json: bool,
    /// The network namespace to look into; `None` is that of this process.
    pub namespace: Option<Namespace>,
    /// A filter for the sockets, in the syntax of ss; empty for all sockets.
    pub filter: String,
}

impl Watch {
    /// Looks until the count is reached, a signal comes or the reader is gone. `loader` reads the files of `confs`. The
    /// error is for the operator.
    pub fn run(&self, loader: &mut (dyn Loader + Send), signals: &Signals) -> Result<(), String> {
        if self.ports.len() > PORTS_MAX {
            return Err(format!("at most {PORTS_MAX} ports can be counted by themselves"));
        }
        let filter = parse_filter(&self.filter)?;
        // Scrapers connect from this namespace, not from the one that is observed.
        let exporter = self.listen.map(Bound::to).transpose()?.map(|bound| {
            let address = bound.address().map_or_else(String::new, |address| address.to_string());
            say(&format!("holdfast: metrics at http://{address}/metrics"));
            bound.serve()
        });
        let mut look = || self.look(filter.as_ref(), exporter.as_ref(), loader, signals);
        match &self.namespace {
            Some(namespace) => namespace.run(look).map_err(|error| error.to_string()).and_then(|looked| looked),
            None => look(),
        }
    }

    /// Looks, within the network namespace of this thread.
    fn look(
        &self,
        filter: Option<&Filter>,
        exporter: Option<&Exporter>,
        loader: &mut (dyn Loader + Send),
        signals: &Signals,
    ) -> Result<(), String> {
        if let Some(file) = &self.log {
            return log::write(self, file, filter, signals);
        }
        let mut asked = Vec::new();
        for file in &self.confs {
            asked.extend(configured::backlogs(file, &mut *loader)?);
        }
        let wanted = Wanted { ports: self.ports.clone(), asked, filter: filter.cloned() };
        if !self.plain && !self.json && exporter.is_none() && Terminal::is_there() {
            return view::show(wanted, &self.filter, self.interval, self.count, signals);
        }
        let mut sampler = Sampler::open(wanted)?;
        plain::look_on(&mut sampler, self.interval, self.count, signals, |picture| {
            if let Some(exporter) = exporter {
                exporter.show(metrics::encode(picture));
            }
            if self.json {
                return plain::print_line(picture);
            }
            exporter.is_some() && !self.plain || plain::print_picture(picture)
        })
    }
}

fn parse_filter(words: &str) -> Result<Option<Filter>, String> {
    if words.trim().is_empty() {
        return Ok(None);
    }
    Filter::parse(words, &mut SystemNames).map(Some).map_err(|error| format!("in the filter, {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_read_is_named() {
        assert_eq!(parse_filter(""), Ok(None));
        let wrong = parse_filter("state asleep").unwrap_err();
        assert!(wrong.starts_with("in the filter, `asleep` is no state"), "{wrong}");
    }
}
