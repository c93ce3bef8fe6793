//! Lists of requests as scenarios: URLs from a file, and the requests of an access log. Each method and place is a flow of
//! one step, and the list says which flow and which path the n-th iteration has. So lists have the order, the sharing
//! between threads and processes, and the accounting of scenarios. Pure.

use super::log::Logged;
use super::read::{ScenarioError, ScenarioFile};
use super::{Data, DataOrder, DataPer, Flow, KeepCookies, Scenario, Step};
use crate::options::{TARGETS_MAX, Target};
use crate::pace::Stage;
use crate::url::Url;
use std::collections::HashMap;
use std::time::Duration;

/// Most requests of a list: ten minutes at 1,600 a second. Each process holds them once, some hundred bytes each.
pub const LISTED_MAX: usize = 1_000_000;
/// Longest file with a list.
pub const LIST_BYTES_MAX: u64 = 256 << 20;
/// Most stages of a replay: a day of seconds.
const STAGES_MAX: usize = 86_400;
/// The variable with the path.
const PATH: &str = "path";

/// The requests of an access log.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// The requests in the order of their times.
    pub file: ScenarioFile,
    /// The rate of the log over time.
    pub stages: Vec<Stage>,
    /// Lines that do not fit the format.
    pub unknown: usize,
    /// Requests left out because of their method.
    pub left_out: usize,
}

impl ScenarioFile {
    /// A list of URLs, one on each line: `http://…`, or a path behind `base`, each with a method before it if it is not GET.
    /// Empty lines and those with `#` are skipped. `target` has method and fields for all of them.
    pub fn of_urls(
        text: &str,
        name: &str,
        base: Option<&Url>,
        fields: &[(String, String)],
    ) -> Result<Self, ScenarioError> {
        let mut list = List::new(fields);
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let (method, url) = line.split_once(char::is_whitespace).unwrap_or(("GET", line));
            let wrong = |problem: String| ScenarioError::new(format!("line {number}: {problem}"));
            let url = match (url.trim(), base) {
                (path, Some(base)) if path.starts_with('/') => Url { path: path.to_owned(), ..base.clone() },
                (path, None) if path.starts_with('/') => {
                    return Err(wrong(format!("{path} is a path; give its server as a URL, too")));
                }
                (url, _) => url.parse().map_err(|error| wrong(format!("{url}: {error}")))?,
            };
            list.add(method, url).map_err(wrong)?;
        }
        list.finish(name, DataOrder::Sequential)
    }
}

impl Replay {
    /// The requests of a log for the server of `base`, `speed` times as fast as they came. Requests with other methods than
    /// GET and HEAD are left out unless `all_methods` is set; a log has no bodies.
    pub fn new(
        logged: &[Option<Logged>],
        name: &str,
        base: &Url,
        fields: &[(String, String)],
        (speed, all_methods): (f64, bool),
    ) -> Result<Self, ScenarioError> {
        let mut known: Vec<&Logged> = logged.iter().flatten().collect();
        let (unknown, all) = (logged.len() - known.len(), known.len());
        known.retain(|request| all_methods || matches!(request.method.as_str(), "GET" | "HEAD"));
        let left_out = all - known.len();
        known.sort_by_key(|request| request.time_ms);
        let mut list = List::new(fields);
        for request in &known {
            let url = Url { path: request.path.clone(), ..base.clone() };
            list.add(&request.method, url).map_err(ScenarioError::new)?;
        }
        let times: Vec<u64> = known.iter().map(|request| request.time_ms).collect();
        let stages = stages(&times, speed)?;
        Ok(Self { file: list.finish(name, DataOrder::Unique)?, stages, unknown, left_out })
    }
}

/// The rate over time. Logs usually have whole seconds, so the requests of a second are spread over it. If some times have
/// milliseconds, a stage is a tenth of a second.
fn stages(times_ms: &[u64], speed: f64) -> Result<Vec<Stage>, ScenarioError> {
    let bucket_ms = if times_ms.iter().any(|time| time % 1000 != 0) { 100 } else { 1000 };
    let bucket_s = bucket_ms as f64 / 1e3 / speed;
    let first = times_ms.first().map_or(0, |time| time / bucket_ms);
    let mut stages = Vec::<Stage>::new();
    let mut push = |buckets: u64, count: u64| {
        let rate = count as f64 / bucket_s;
        stages.push(Stage { duration: Duration::from_secs_f64(buckets as f64 * bucket_s), from: rate, to: rate });
        if stages.len() > STAGES_MAX {
            return Err(ScenarioError::new(format!(
                "the log has more than {STAGES_MAX} different moments: replay a part of it"
            )));
        }
        Ok(())
    };
    let mut next = first;
    for same in times_ms.chunk_by(|one, other| one / bucket_ms == other / bucket_ms) {
        let bucket = same.first().map_or(next, |time| time / bucket_ms);
        if bucket > next {
            push(bucket - next, 0)?;
        }
        push(1, same.len() as u64)?;
        next = bucket + 1;
    }
    Ok(stages)
}

/// A list that is being read.
struct List<'a> {
    fields: &'a [(String, String)],
    /// The flow of each method and place.
    known: HashMap<(String, String, bool), u16>,
    targets: Vec<Target>,
    order: Vec<u16>,
    rows: Vec<Vec<String>>,
}

impl<'a> List<'a> {
    fn new(fields: &'a [(String, String)]) -> Self {
        Self { fields, known: HashMap::new(), targets: Vec::new(), order: Vec::new(), rows: Vec::new() }
    }

    fn add(&mut self, method: &str, url: Url) -> Result<(), String> {
        if self.rows.len() >= LISTED_MAX {
            return Err(format!("more than {LISTED_MAX} requests"));
        }
        let key = (method.to_owned(), url.authority.clone(), url.tls);
        let flow = match self.known.get(&key) {
            Some(flow) => *flow,
            None if self.targets.len() >= TARGETS_MAX => {
                return Err(format!("more than {TARGETS_MAX} different servers and methods"));
            }
            None => {
                let flow = self.targets.len() as u16;
                let place = Url { path: format!("{{{{{PATH}}}}}"), ..url.clone() };
                let target = Target { method: method.to_owned(), fields: self.fields.to_vec(), ..Target::new(place) };
                self.targets.push(target);
                self.known.insert(key, flow);
                flow
            }
        };
        self.order.push(flow);
        self.rows.push(vec![url.path]);
        Ok(())
    }

    fn finish(self, name: &str, order: DataOrder) -> Result<ScenarioFile, ScenarioError> {
        if self.rows.is_empty() {
            return Err(ScenarioError::new("it has no requests".to_owned()));
        }
        let flow = |target: &Target| {
            let scheme = if target.url.tls { "https" } else { "http" };
            let name = format!("{} {scheme}://{}", target.method, target.url.authority);
            let nothing = (Duration::ZERO, Duration::ZERO);
            let step = Step {
                name: name.clone(),
                body: Vec::new(),
                think: nothing,
                repeat: 1,
                checks: Vec::new(),
                extract: Vec::new(),
            };
            Flow { name, weight: 1, steps: vec![step] }
        };
        let data = Data { name: PATH.to_owned(), order, per: DataPer::Iteration, columns: vec![0], rows: self.rows };
        let scenario = Scenario {
            name: name.to_owned(),
            flows: self.targets.iter().map(flow).collect(),
            data: vec![data],
            variables: vec![(PATH.to_owned(), String::new())],
            cookies: KeepCookies::None,
            order: self.order,
        };
        Ok(ScenarioFile { targets: self.targets, scenario })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Url {
        "http://127.0.0.1:80".parse().unwrap()
    }

    fn rates(stages: &[Stage]) -> Vec<(u64, f64)> {
        stages.iter().map(|stage| (stage.duration.as_millis() as u64, stage.from)).collect()
    }

    #[test]
    fn urls_keep_their_order_over_several_servers() {
        let text = "# a comment\nhttp://a/x?y\n\nHEAD https://b/z\n/path\nhttp://a/{{uuid}}\n";
        let list = ScenarioFile::of_urls(text, "urls", Some(&base()), &[]).unwrap();
        let names: Vec<&str> = list.scenario.flows.iter().map(|flow| flow.name.as_str()).collect();
        assert_eq!(names, ["GET http://a", "HEAD https://b", "GET http://127.0.0.1:80"]);
        assert_eq!(list.scenario.order, [0, 1, 2, 0]);
        let paths: Vec<&str> = list.scenario.data[0].rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(paths, ["/x?y", "/z", "/path", "/{{uuid}}"]);
    }

    #[test]
    fn mistakes_in_a_list_name_the_line() {
        let error = |text: &str| ScenarioFile::of_urls(text, "urls", None, &[]).unwrap_err().to_string();
        assert_eq!(error("http://a/\n/b"), "line 2: /b is a path; give its server as a URL, too");
        assert!(error("ftp://a/").starts_with("line 1: ftp://a/: "));
        assert_eq!(error("# nothing"), "it has no requests");
    }

    #[test]
    fn a_replay_has_the_rate_of_its_log() {
        let at = |time_ms: u64, method: &str| Some(Logged { time_ms, method: method.to_owned(), path: "/".to_owned() });
        let log = [at(5000, "GET"), at(5000, "HEAD"), None, at(8000, "GET"), at(6000, "POST"), at(5000, "GET")];
        let replay = Replay::new(&log, "log", &base(), &[], (1.0, false)).unwrap();
        assert_eq!((replay.unknown, replay.left_out, replay.file.scenario.order.len()), (1, 1, 4));
        assert_eq!(rates(&replay.stages), [(1000, 3.0), (2000, 0.0), (1000, 1.0)]);
        assert_eq!(replay.file.scenario.order, [0, 1, 0, 0], "in the order of their times");
        let fast = Replay::new(&log, "log", &base(), &[], (2.0, true)).unwrap();
        assert_eq!(rates(&fast.stages), [(500, 6.0), (500, 2.0), (500, 0.0), (500, 2.0)]);
        let fine = [at(5010, "GET"), at(5020, "GET"), at(5310, "GET")];
        let fine = Replay::new(&fine, "log", &base(), &[], (1.0, false)).unwrap();
        assert_eq!(rates(&fine.stages), [(100, 20.0), (200, 0.0), (100, 10.0)]);
    }
}
