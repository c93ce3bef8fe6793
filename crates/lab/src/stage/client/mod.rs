//! The load generators and their reports in a common form, one file each: `holdfast load`, `ab`, wrk, siege, h2load, hey
//! with oha (the same report), `holdfast lab hold`, and `holdfast load floor`. It creates command lines and parses outputs;
//! `sample` starts and watches the programs.

mod ab;
mod floor;
mod h2load;
mod hey;
mod hold;
mod ours;
mod siege;
mod wrk;

pub use ab::parse_ab;
pub use floor::parse_floor;
pub use h2load::parse_h2load;
pub use hey::parse_hey;
pub use hold::{held_line, parse_held};
pub use ours::parse_load;
pub use siege::parse_siege;
pub use wrk::{WRK_SCRIPT, WrkFigures, parse_wrk};

use super::StageError;
use super::programs::Words;
use crate::experiment::Client;
use crate::plan::{Amount, StagedLoad};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The figures that a client reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Complete responses of any status. For WebSockets: messages that arrived.
    pub requests: u64,
    /// The same plus requests without a response.
    pub attempts: u64,
    /// Complete responses per second.
    pub requests_per_second: f64,
    /// Requests without a response, or with an error response.
    pub failed: u64,
    /// Failures by cause, in the client's words, if it reports causes.
    pub causes: BTreeMap<String, u64>,
    /// As precise as the client reports: ab in whole milliseconds, siege in hundredths of a second.
    pub latency: Latency,
    /// Whether requests are due at fixed times. Then the client reports its lag, and being busy is not a problem by itself.
    pub is_open: bool,
    /// Why the figures say nothing about the arm, if the client reports that.
    pub void: Vec<String>,
    /// The load's lag, if it is part of its latencies and the client reports it.
    #[serde(default)]
    pub late: Option<String>,
    /// Other figures of the client, by name.
    pub more: BTreeMap<String, f64>,
    /// Every latency in ns with three digits, and its count; empty if the client does not report them. With this, the
    /// quantiles of several loads are those of all their requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<(u64, u64)>,
    /// Responses per second over time, in seconds since the start; empty if the client does not report them.
    pub over_time: Vec<(f64, f64)>,
}

/// Latencies of requests in milliseconds; `None` if the client does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// 90 % are faster.
    pub p90: Option<f64>,
    /// 99 % are faster.
    pub p99: Option<f64>,
    /// 99.9 % are faster.
    #[serde(default)]
    pub p999: Option<f64>,
    /// The slowest.
    pub max: Option<f64>,
}

impl Latency {
    /// Each latency with the name that figures use.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let each = [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p999),
            ("max", self.max),
        ];
        each.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

/// The command line of a load of `amount` in an existing folder, and where the load writes its JSON.
pub(super) fn words(load: &StagedLoad, program: PathBuf, amount: Amount) -> Result<Words, StageError> {
    let mut arguments: Vec<OsString> = Vec::new();
    let own = load.arguments.iter().map(OsString::from);
    match load.program {
        Client::Load => {
            arguments.extend(["load", "-q", "--allow-lag", "--json"].map(OsString::from));
            arguments.push(json_of(load).into());
            arguments.extend(ours::amount_words(amount));
            arguments.extend(own);
        }
        Client::Ab => {
            arguments.extend(ab::FLAGS.map(OsString::from));
            arguments.extend(own);
            // After -c and similar arguments: -t sets a number of requests, unless one follows it.
            arguments.extend(ab::amount_words(amount));
        }
        Client::Wrk => {
            arguments.extend(wrk::flags(load)?);
            arguments.extend(wrk::amount_words(amount)?);
        }
        Client::Siege => {
            let settings = load.folder.join("siegerc");
            fs::write(&settings, siege::SETTINGS)?;
            arguments.push(format!("--rc={}", settings.display()).into());
            arguments.extend(own);
            arguments.extend(siege::amount_words(amount, &load.arguments));
        }
        Client::Hold => {
            arguments.extend(["lab", "hold"].map(OsString::from));
            arguments.extend(own);
            arguments.extend(hold::amount_words(amount)?);
        }
        Client::Floor => {
            arguments.extend(["load", "floor", "--json"].map(OsString::from));
            arguments.extend(floor::amount_words(amount)?);
            arguments.extend(own);
        }
        Client::H2load => {
            arguments.extend(own);
            arguments.extend(h2load::amount_words(amount));
        }
        Client::Hey | Client::Oha => {
            arguments.extend((load.program == Client::Oha).then(|| "--no-tui".into()));
            arguments.extend(own);
            arguments.extend(hey::amount_words(amount));
        }
    }
    arguments.extend(load.program.asks().then(|| (&load.url).into()));
    Ok(Words { program, arguments })
}

/// Parses the figures of a finished load; `output` is the file with its output.
pub(super) fn figures(load: &StagedLoad, output: &Path) -> Result<Figures, StageError> {
    let said_too_much = |path: &Path| fs::metadata(path).is_ok_and(|about| about.len() > SAID_BYTES_MAX);
    if [output.to_owned(), json_of(load)].iter().any(|path| said_too_much(path)) {
        let most = SAID_BYTES_MAX >> 20;
        return Err(StageError::new(format!("{} ended without figures: it wrote more than {most} MiB", load.name)));
    }
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let figures = match load.program {
        Client::Load => parse_load(&read(&json_of(load))),
        Client::Ab => parse_ab(&read(output)),
        Client::Wrk => parse_wrk(&read(output)).map(Figures::from),
        Client::Siege => parse_siege(&read(output)),
        Client::Hold => parse_held(&read(output)),
        Client::Floor => parse_floor(&read(output)),
        Client::H2load => parse_h2load(&read(output)),
        Client::Hey | Client::Oha => parse_hey(&read(output)),
    };
    figures.ok_or_else(|| StageError::new(format!("{} ended without figures", load.name)))
}

/// Largest output that is read: ours has some megabytes after hours, the others some kilobytes.
const SAID_BYTES_MAX: u64 = 1 << 26;

/// The JSON file of our own load.
fn json_of(load: &StagedLoad) -> PathBuf {
    load.folder.join("load.json")
}

/// Whole seconds, at least one, for programs that support no fractions.
fn whole_seconds(seconds: f64) -> u64 {
    seconds.ceil().max(1.0) as u64
}

/// Milliseconds of `1.20ms`, `100us`, `3.01s` or `0.0012secs`.
fn ms_of(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at_checked(digits)?;
    let factor = match unit {
        "s" | "sec" | "secs" => 1e3,
        "ms" => 1.0,
        "us" | "µs" => 1e-3,
        "ns" => 1e-6,
        _ => return None,
    };
    // As precise as the text: 1.2 and not 1.2000000000000002.
    number.parse::<f64>().ok().map(|number| (number * factor * 1e6).round() / 1e6)
}

/// The value of a flag in a list of arguments, as `-c 30` or `-c30`.
fn value_of<'a>(arguments: &'a [String], flag: &str) -> Option<&'a str> {
    arguments.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(flag)? {
        "" => arguments.get(at + 1).map(String::as_str),
        value => Some(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn load(program: Client, arguments: &[&str], folder: &Path) -> StagedLoad {
        StagedLoad {
            name: "client".to_owned(),
            place: "experiment.toml:9:1".to_owned(),
            host: "client".to_owned(),
            program,
            folder: folder.to_owned(),
            files: Vec::new(),
            url: "http://10.77.0.1/".to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            amount: Amount::Seconds(2.0),
            descriptors: None,
            core: None,
            may_limit: false,
        }
    }

    #[test]
    fn each_client_gets_its_amount_in_its_own_flags() {
        let folder = tempfile::tempdir().unwrap();
        let said = |program, arguments: &[&str], amount| {
            let words = words(&load(program, arguments, folder.path()), PathBuf::from("p"), amount).unwrap();
            let words: Vec<String> = words.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            words.join(" ").replace(&folder.path().display().to_string(), "/f")
        };
        let url = "http://10.77.0.1/";
        assert_eq!(
            said(Client::Load, &["-c", "30"], Amount::Seconds(0.25)),
            format!("load -q --allow-lag --json /f/load.json -d 250ms -c 30 {url}")
        );
        assert_eq!(said(Client::Ab, &["-c", "30", "-k"], Amount::Requests(7)), format!("-q -r -l -c 30 -k -n 7 {url}"));
        assert_eq!(said(Client::Ab, &[], Amount::Seconds(0.5)), format!("-q -r -l -t 1 -n 200000 {url}"));
        assert_eq!(
            said(Client::Wrk, &["-c", "9"], Amount::Seconds(1.5)),
            format!("--latency --timeout 10s -c 9 --script /f/figures.lua --duration 2s {url}")
        );
        assert_eq!(
            said(Client::Siege, &["-c250"], Amount::Requests(1000)),
            format!("--rc=/f/siegerc -c250 --reps=4 {url}")
        );
        assert_eq!(
            said(Client::Hold, &["--kind", "idle", "-c", "9"], Amount::Seconds(1.5)),
            format!("lab hold --kind idle -c 9 --seconds 1.5 {url}")
        );
        assert_eq!(
            said(Client::Floor, &["-R", "9/s"], Amount::Seconds(1.5)),
            "load floor --json -d 1500ms -R 9/s",
            "it sends nothing"
        );
        assert_eq!(said(Client::H2load, &["--h1"], Amount::Seconds(1.5)), format!("--h1 -D 2 {url}"));
        assert_eq!(said(Client::H2load, &["--h1"], Amount::Requests(7)), format!("--h1 -n 7 {url}"));
        assert_eq!(said(Client::Hey, &["-c", "9"], Amount::Seconds(0.5)), format!("-c 9 -z 500ms {url}"));
        assert_eq!(said(Client::Oha, &["-c", "9"], Amount::Requests(90)), format!("--no-tui -c 9 -n 90 {url}"));
        assert_eq!(said(Client::Siege, &[], Amount::Seconds(3.0)), format!("--rc=/f/siegerc --time=3S {url}"));
    }

    #[test]
    fn a_client_that_wrote_nothing_has_no_figures() {
        let folder = tempfile::tempdir().unwrap();
        let ours = [Client::Load, Client::Hold, Client::Floor];
        let others = [Client::Ab, Client::Wrk, Client::Siege, Client::H2load, Client::Hey, Client::Oha];
        for program in ours.into_iter().chain(others) {
            let error = figures(&load(program, &[], folder.path()), &folder.path().join("none")).unwrap_err();
            assert!(error.text.contains("client ended without figures"));
        }
    }
}
