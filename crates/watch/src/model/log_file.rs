//! The log of `watch --log`: one histogram per sample, as text that can be searched like the output of `netstat | awk`, as
//! CSV, or as JSON lines. Also reads all three formats; errors name the line that cannot be read.

use super::tally::{PORTS_MAX, StateCounts, Tally};
use serde::{Deserialize, Serialize};
use sockdiag::State;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How samples are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `TIME_WAIT 1341`, a line for each state, and `port 10000 TIME_WAIT 17`
    Text,
    /// A column for each state, and for each state of each port
    Csv,
    /// An object a line
    Json,
}

/// The head of a log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Requested seconds between samples.
    pub(crate) interval_s: f64,
    pub(crate) ports: Vec<u16>,
    /// Ports that `connect()` could choose from.
    pub(crate) ports_usable: Option<u32>,
    /// The source of the sockets, in words.
    pub(crate) source: String,
    /// The filter as typed; empty for none.
    pub(crate) filter: String,
}

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// UTC, as in RFC 3339.
    pub(crate) time: String,
    /// Seconds since the log began.
    pub(crate) seconds: f64,
    pub(crate) tally: Tally,
}

/// A parsed log.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Log {
    pub(crate) head: Head,
    pub(crate) samples: Vec<Sample>,
}

/// The first line identifies the format and its version for readers.
const TITLE: &str = "# holdfast watch 1 ";

pub(crate) fn encode_head(format: Format, head: &Head) -> String {
    let json = serde_json::to_string(head).unwrap_or_default();
    match format {
        Format::Text => format!("{TITLE}{json}\n"),
        Format::Csv => {
            let mut line = "time,seconds".to_owned();
            for state in State::ALL {
                let _ = write!(line, ",{state}");
            }
            for port in &head.ports {
                for state in State::ALL {
                    let _ = write!(line, ",port {port} {state}");
                }
            }
            format!("{TITLE}{json}\n{line}\n")
        }
        Format::Json => json + "\n",
    }
}

pub(crate) fn encode_sample(format: Format, sample: &Sample) -> String {
    match format {
        Format::Text => encode_text(sample),
        Format::Csv => encode_csv(sample),
        Format::Json => serde_json::to_string(&JsonSample::from(sample)).unwrap_or_default() + "\n",
    }
}

fn encode_text(sample: &Sample) -> String {
    let mut text = format!("sample {} {:.3}\n", sample.time, sample.seconds);
    for (state, count) in sample.tally.all.present() {
        let _ = writeln!(text, "{state} {count}");
    }
    for (port, histogram) in &sample.tally.ports {
        let _ = writeln!(text, "port {port} {}", histogram.connections());
        for (state, count) in histogram.present() {
            let _ = writeln!(text, "port {port} {state} {count}");
        }
    }
    text
}

fn encode_csv(sample: &Sample) -> String {
    let mut line = format!("{},{:.3}", sample.time, sample.seconds);
    let ports = sample.tally.ports.iter().map(|(_, histogram)| histogram);
    for histogram in std::iter::once(&sample.tally.all).chain(ports) {
        for state in State::ALL {
            let _ = write!(line, ",{}", histogram.of(state));
        }
    }
    line + "\n"
}

#[derive(Serialize, Deserialize)]
struct JsonSample {
    time: String,
    seconds: f64,
    states: BTreeMap<String, u64>,
    ports: BTreeMap<u16, BTreeMap<String, u64>>,
}

impl From<&Sample> for JsonSample {
    fn from(sample: &Sample) -> Self {
        let by_name = |histogram: &StateCounts| {
            histogram.present().map(|(state, count)| (state.name().to_owned(), count)).collect::<BTreeMap<_, _>>()
        };
        Self {
            time: sample.time.clone(),
            seconds: sample.seconds,
            states: by_name(&sample.tally.all),
            ports: sample.tally.ports.iter().map(|(port, histogram)| (*port, by_name(histogram))).collect(),
        }
    }
}

/// Parses a log in any of the formats. If the log ends within a sample because it is still being written, it is read up to
/// the last complete line.
pub(crate) fn parse(text: &str) -> Result<Log, String> {
    let whole = text.rfind('\n').map_or("", |end| text.get(..=end).unwrap_or_default());
    let mut lines = whole.lines().enumerate().map(|(at, line)| (at + 1, line)).peekable();
    let (_, first) = lines.next().ok_or("it is empty")?;
    let (json, is_json) = first.strip_prefix(TITLE).map_or((first, true), |json| (json, false));
    let head: Head =
        serde_json::from_str(json).map_err(|_| "its first line is not that of a log of `holdfast watch`")?;
    if head.ports.len() > PORTS_MAX {
        return Err(format!("line 1: more than {PORTS_MAX} ports"));
    }
    let mut log = Log { head, samples: Vec::new() };
    let is_csv = !is_json && lines.next_if(|(_, line)| line.starts_with("time,")).is_some();
    for (number, line) in lines {
        let read = if is_json {
            log.parse_json(line)
        } else if is_csv {
            log.parse_csv(line)
        } else {
            log.parse_text(line)
        };
        read.ok_or_else(|| format!("line {number} cannot be read: {line:?}"))?;
    }
    Ok(log)
}

impl Log {
    fn begin(&mut self, time: &str, seconds: f64) -> Option<()> {
        let tally = Tally::of_ports(&self.head.ports);
        self.samples.push(Sample { time: time.to_owned(), seconds: Some(seconds).filter(|s| s.is_finite())?, tally });
        Some(())
    }

    fn parse_text(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match words.next()? {
            "sample" => {
                let time = words.next()?;
                self.begin(time, words.next()?.parse().ok()?)
            }
            "port" => {
                let port: u16 = words.next()?.parse().ok()?;
                // The sum of a port is for searching; it follows from the states.
                let Some(state) = State::from_name(words.next()?) else { return Some(()) };
                let tally = &mut self.samples.last_mut()?.tally;
                let (_, histogram) = tally.ports.iter_mut().find(|(listed, _)| *listed == port)?;
                histogram.add(state, words.next()?.parse().ok()?);
                Some(())
            }
            name => {
                let state = State::from_name(name)?;
                self.samples.last_mut()?.tally.all.add(state, words.next()?.parse().ok()?);
                Some(())
            }
        }
    }

    fn parse_csv(&mut self, line: &str) -> Option<()> {
        let mut fields = line.split(',');
        let time = fields.next()?;
        self.begin(time, fields.next()?.parse().ok()?)?;
        let tally = &mut self.samples.last_mut()?.tally;
        let ports = tally.ports.iter_mut().map(|(_, histogram)| histogram);
        for histogram in std::iter::once(&mut tally.all).chain(ports) {
            for state in State::ALL {
                histogram.add(state, fields.next()?.parse().ok()?);
            }
        }
        Some(())
    }

    fn parse_json(&mut self, line: &str) -> Option<()> {
        let read: JsonSample = serde_json::from_str(line).ok()?;
        self.begin(&read.time, read.seconds)?;
        let tally = &mut self.samples.last_mut()?.tally;
        for (name, count) in &read.states {
            tally.all.add(State::from_name(name)?, *count);
        }
        for (port, states) in &read.ports {
            let (_, histogram) = tally.ports.iter_mut().find(|(listed, _)| listed == port)?;
            for (name, count) in states {
                histogram.add(State::from_name(name)?, *count);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::socket;

    fn log() -> Log {
        let head = Head {
            interval_s: 2.0,
            ports: vec![80, 10_000],
            ports_usable: Some(28_232),
            source: "sock_diag over netlink".to_owned(),
            filter: String::new(),
        };
        let mut samples = Vec::new();
        for at in 0..3_u32 {
            let mut tally = Tally::of_ports(&head.ports);
            tally.count(&socket(State::Listen, "0.0.0.0:80", "0.0.0.0:0"));
            for port in 0..at {
                tally.count(&socket(State::TimeWait, &format!("10.0.0.1:{}", 40_000 + port), "10.0.0.2:10000"));
            }
            let time = format!("2026-11-21T10:00:0{}Z", 2 * at);
            samples.push(Sample { time, seconds: f64::from(at) * 2.0, tally });
        }
        Log { head, samples }
    }

    fn written(format: Format) -> String {
        let log = log();
        let samples: String = log.samples.iter().map(|sample| encode_sample(format, sample)).collect();
        encode_head(format, &log.head) + &samples
    }

    #[test]
    fn each_format_is_read_back_as_it_was_written() {
        for format in [Format::Text, Format::Csv, Format::Json] {
            let text = written(format);
            assert_eq!(parse(&text), Ok(log()), "{text}");
            // The log is still being written.
            let cut = parse(&text[..text.len() - 3]).unwrap();
            assert!(cut.samples.len() >= 2, "{cut:?}");
        }
    }

    #[test]
    fn text_greps_like_netstat_and_awk() {
        let text = written(Format::Text);
        let expected = "\
sample 2026-11-21T10:00:04Z 4.000
TIME_WAIT 2
LISTEN 1
port 80 0
port 80 LISTEN 1
port 10000 2
port 10000 TIME_WAIT 2
";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn refuses_other_files_with_their_line() {
        assert_eq!(parse(""), Err("it is empty".to_owned()));
        assert!(parse("Proto Recv-Q Send-Q\n").unwrap_err().starts_with("its first line is not that of a log"));
        let broken = written(Format::Text) + "TIME_WAIT many\n";
        assert_eq!(parse(&broken).unwrap_err(), "line 21 cannot be read: \"TIME_WAIT many\"");
        let broken = written(Format::Csv) + "2026,1,2\n";
        assert_eq!(parse(&broken).unwrap_err(), "line 6 cannot be read: \"2026,1,2\"");
        let foreign = written(Format::Json).replace("TIME_WAIT", "NAP_TIME");
        assert!(parse(&foreign).unwrap_err().starts_with("line 3 cannot be read"));
    }
}
