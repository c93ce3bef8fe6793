//! Explains 502s and 504s: groups the lines of an nginx error log by the phrase that names the cause. Each group gets
//! its meaning, its place, and the cure. Lines are read one by one, and memory does not grow with the log.

pub mod pages;
mod phrases;

use crate::configuration::Configuration;
use crate::facts::Facts;
use crate::group::address;
use phrases::{PHRASES, Phrase};
use report::{Finding, Severity};
use std::collections::BTreeMap;

/// Most peers kept per group. A log with more shows attacks or broken service discovery, for which these are
/// representative.
const PEERS_MAX: usize = 64;
/// Of these, the ones with the most lines are shown.
const PEERS_SHOWN: usize = 3;
/// Most configuration lines quoted for each directive; further equal ones add nothing.
const QUOTED_MAX: usize = 3;
/// Longer lines are cut; nginx itself writes messages of at most 2,048 bytes.
const LINE_BYTES_MAX: usize = 8192;

/// The names of all causes that can be recognised, as used in findings.
pub fn causes() -> impl Iterator<Item = &'static str> {
    PHRASES.iter().map(|phrase| phrase.name)
}

/// The cause that a line of an error log names, in a few words; `None` if it is not a known one.
pub fn cause(line: &str) -> Option<&'static str> {
    let phrase = PHRASES.iter().find(|phrase| phrase.words.iter().all(|words| line.contains(words)));
    phrase.map(|phrase| phrase.cause)
}

/// A line of an error log without anything of the request: the name of its cause, and the peer or the name that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason<'a> {
    /// The name of the cause, one of [`causes`].
    pub cause: &'static str,
    /// Scheme, host and port of the upstream, or the name that was looked up; empty if the line names neither.
    pub subject: &'a str,
}

/// The reason that a line of an error log names; `None` if it is not a known one.
pub fn reason(line: &str) -> Option<Reason<'_>> {
    let phrase = PHRASES.iter().find(|phrase| phrase.words.iter().all(|words| line.contains(words)))?;
    let looked_up = || {
        let before = line.split_once(" could not be resolved").map(|(before, _)| before)?;
        before.rsplit(' ').next()
    };
    let subject = field(line, "upstream: \"").map(peer_of).or_else(looked_up).unwrap_or_default();
    Some(Reason { cause: phrase.name, subject })
}

/// What is known of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// The cause in a few words.
    pub cause: &'static str,
    /// What happened.
    pub meaning: &'static str,
    /// What to do.
    pub cure: &'static str,
    /// What the cure costs.
    pub side_effect: &'static str,
}

/// The explanation of a cause by its name, one of [`causes`].
pub fn explanation(name: &str) -> Option<Explanation> {
    let Phrase { cause, meaning, cure, side_effect, .. } = PHRASES.iter().find(|phrase| phrase.name == name)?;
    Some(Explanation { cause, meaning, cure, side_effect })
}

/// The sums of a log so far.
#[derive(Debug, Clone)]
pub struct Log {
    groups: Vec<Group>,
    lines: u64,
    others: u64,
}

#[derive(Debug, Clone, Default)]
struct Group {
    count: u64,
    /// The first line of the cause in the file, counted from 1.
    line: u64,
    first: String,
    last: String,
    peers: BTreeMap<String, u64>,
    reused: u64,
    not_repeatable: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self { groups: vec![Group::default(); PHRASES.len()], lines: 0, others: 0 }
    }
}

impl Log {
    /// Counts one line, without its line end.
    pub fn read_line(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line.get(..LINE_BYTES_MAX).unwrap_or(line));
        self.lines += 1;
        let matching = PHRASES.iter().position(|phrase| phrase.words.iter().all(|words| line.contains(words)));
        let Some(group) = matching.and_then(|place| self.groups.get_mut(place)) else {
            self.others += 1;
            return;
        };
        group.count += 1;
        if group.line == 0 {
            group.line = self.lines;
        }
        if let Some(time) = timestamp(&line) {
            if group.first.is_empty() {
                time.clone_into(&mut group.first);
            }
            time.clone_into(&mut group.last);
        }
        group.reused += u64::from(line.contains("reused connection"));
        let request = field(&line, "request: \"").unwrap_or_default();
        group.not_repeatable +=
            u64::from(["POST ", "PATCH ", "LOCK "].iter().any(|method| request.starts_with(method)));
        if let Some(peer) = field(&line, "upstream: \"").map(peer_of)
            && (group.peers.len() < PEERS_MAX || group.peers.contains_key(peer))
        {
            *group.peers.entry(peer.to_owned()).or_default() += 1;
        }
    }

    /// The number of lines read, and of those without a known cause.
    pub fn lines(&self) -> (u64, u64) {
        (self.lines, self.others)
    }

    /// A finding for each cause in the log, the most frequent first. `file` is the name of the log.
    pub fn findings(&self, file: &str, facts: &Facts) -> Vec<Finding> {
        let groups = self.groups.iter().zip(&PHRASES).filter(|(group, _)| group.count > 0);
        let mut findings: Vec<(u64, Finding)> =
            groups.map(|(group, phrase)| (group.count, group.finding(phrase, file, facts))).collect();
        findings.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        findings.into_iter().map(|(_, finding)| finding).collect()
    }
}

impl Group {
    fn finding(&self, phrase: &Phrase, file: &str, facts: &Facts) -> Finding {
        let count = self.count;
        let mut evidence = vec![format!("{file}: {count} lines \"{}\"", phrase.words.join(" … "))];
        if !self.first.is_empty() {
            evidence.push(format!("first {}, last {}", self.first, self.last));
        }
        let mut peers: Vec<_> = self.peers.iter().collect();
        peers.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), name.as_str()));
        let named: Vec<String> =
            peers.iter().take(PEERS_SHOWN).map(|(peer, count)| format!("{peer} ({count})")).collect();
        if !named.is_empty() {
            evidence.push(format!("upstreams: {}", named.join(", ")));
        }
        if self.reused > 0 {
            evidence.push(format!("{} of them on a reused connection", self.reused));
        }
        if self.not_repeatable > 0 {
            evidence.push(format!(
                "{} of them were POST, PATCH or LOCK, which are not repeated once sent",
                self.not_repeatable
            ));
        }
        let sysctls = phrase.sysctls.iter().filter_map(|name| Some((name, facts.system.sysctls.get(*name)?)));
        evidence.extend(sysctls.map(|(name, value)| format!("{name} = {value}")));
        if let Some(live) = &facts.live {
            let seen = peers
                .iter()
                .take(PEERS_SHOWN)
                .filter_map(|(peer, _)| live.towards(address(peer.split_once("://")?.1)?));
            evidence.extend(seen.map(|seen| seen.sentence()));
        }
        evidence.extend(facts.configuration.iter().flat_map(|configuration| said(configuration, phrase)));
        if phrase.descriptors {
            evidence.extend(facts.system.descriptors.map(|limit| format!("descriptors of the process: {limit}")));
        }
        let status = if phrase.status.is_empty() { String::new() } else { format!(" -> {}", phrase.status) };
        Finding {
            rule: phrase.name.to_owned(),
            severity: if phrase.status.is_empty() { Severity::Note } else { Severity::Error },
            what: format!("{}{status}, {count} times", phrase.cause),
            place: Some((file.to_owned(), usize::try_from(self.line).unwrap_or(usize::MAX), 1)),
            why: phrase.meaning.to_owned(),
            evidence,
            arithmetic: String::new(),
            fix: phrase.cure.to_owned(),
            side_effect: phrase.side_effect.to_owned(),
            undo: "The settings as they were, and a reload.".to_owned(),
        }
    }
}

/// The configuration lines that belong to a cause, and the places where a default applies instead.
fn said(configuration: &Configuration, phrase: &Phrase) -> Vec<String> {
    let mut lines = Vec::new();
    for name in phrase.directives {
        let all = configuration.all(name);
        for found in all.iter().take(QUOTED_MAX) {
            let (file, line, _) = configuration.place(found.directive.span);
            let words: Vec<_> = found.directive.args.iter().map(|word| word.text().into_owned()).collect();
            lines.push(format!("{file}:{line}: {name} {}", words.join(" ")));
        }
        match all.len().saturating_sub(QUOTED_MAX) {
            0 if all.is_empty() => lines.push(format!("{name} is not set")),
            0 => {}
            more => lines.push(format!("{name}: {more} more lines")),
        }
    }
    lines
}

/// `2026/11/21 23:40:22` at the beginning of the line.
fn timestamp(line: &str) -> Option<&str> {
    let time = line.get(..19)?;
    let shaped = time.bytes().zip(b"0000/00/00 00:00:00".iter()).all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        other => byte == *other,
    });
    shaped.then_some(time)
}

/// The text between the name and the next quote.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_once(name)?.1.split('"').next()
}

/// Scheme, host and port of an upstream's URL.
fn peer_of(url: &str) -> &str {
    let after = url.find("://").map_or(0, |at| at + 3);
    let end = url.get(after..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| after + at);
    url.get(..end).unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REFUSED: &str = "2026/11/21 23:40:22 [error] 7#7: *4 connect() failed (111: Connection refused) while connecting to upstream, \
        client: 10.0.0.9, server: api, request: \"GET /a HTTP/1.1\", upstream: \"http://127.0.0.1:9001/a\", host: \"api\"";
    const CLOSED: &str = "2026/11/21 23:41:00 [error] 7#7: *9 upstream prematurely closed connection while reading response header from \
        upstream, client: 10.0.0.9, server: api, request: \"POST /o HTTP/1.1\", upstream: \"http://127.0.0.1:9002/o\", host: \"api\"";

    fn findings(lines: &[&str]) -> Vec<Finding> {
        let mut log = Log::default();
        for line in lines {
            log.read_line(line.as_bytes());
        }
        log.findings("error.log", &Facts::default())
    }

    #[test]
    fn groups_lines_by_cause_with_time_and_peer() {
        let found = findings(&[REFUSED, CLOSED, REFUSED, "2026/11/21 23:41:01 [notice] 1#1: signal 1 received"]);
        assert_eq!(
            found.iter().map(|f| f.rule.as_str()).collect::<Vec<_>>(),
            ["log-upstream-refused", "log-upstream-closed-early"]
        );
        assert_eq!(found[0].what, "nothing listens at the upstream's address -> 502, 2 times");
        assert!(
            found[0].evidence.contains(&"upstreams: http://127.0.0.1:9001 (2)".to_owned()),
            "{:?}",
            found[0].evidence
        );
        assert!(found[0].evidence.contains(&"first 2026/11/21 23:40:22, last 2026/11/21 23:40:22".to_owned()));
        assert!(found[1].evidence.iter().any(|line| line.starts_with("1 of them were POST")));
        // Each finding points to the first line of its cause, where an editor or a review can show it.
        assert_eq!([found[0].place_text(), found[1].place_text()], ["error.log:1:1", "error.log:2:1"]);
    }

    /// Messages as nginx writes them, with the expected cause.
    const MESSAGES: &[(&str, &str)] = &[
        ("upstream timed out (110: Connection timed out) while connecting to upstream", "log-upstream-connect-timeout"),
        (
            "upstream timed out (110: Connection timed out) while reading response header from upstream",
            "log-upstream-read-timeout",
        ),
        (
            "connect() to 10.0.0.1:80 failed (99: Cannot assign requested address) while connecting to upstream",
            "log-ports-exhausted",
        ),
        ("connect() failed (99: Cannot assign requested address) while connecting to upstream", "log-ports-exhausted"),
        (
            "recv() failed (104: Connection reset by peer) while reading response header from upstream",
            "log-upstream-reset",
        ),
        ("no live upstreams while connecting to upstream", "log-no-live-upstreams"),
        ("accept4() failed (24: Too many open files)", "log-descriptors-exhausted"),
        ("socket() failed (24: Too many open files) while connecting to upstream", "log-descriptors-exhausted"),
        ("512 worker_connections are not enough", "log-worker-connections-exhausted"),
        ("1024 worker_connections are not enough while connecting to upstream", "log-worker-connections-exhausted"),
        ("upstream sent too big header while reading response header from upstream", "log-upstream-head-too-large"),
        ("api.example could not be resolved (3: Host not found)", "log-name-not-resolved"),
        (
            "connect() to unix:/run/a failed (11: Resource temporarily unavailable) while connecting to upstream",
            "log-upstream-queue-full",
        ),
        ("connect() failed (113: No route to host) while connecting to upstream", "log-upstream-unreachable"),
        ("upstream prematurely closed connection while reading upstream", "log-upstream-truncated"),
        (
            "bind(10.9.9.9) failed (99: Cannot assign requested address) while connecting to upstream",
            "log-source-address-not-here",
        ),
        (
            "connect() to unix:/run/a failed (2: No such file or directory) while connecting to upstream",
            "log-upstream-socket-missing",
        ),
        (
            "connect() to 127.0.0.1:81 failed (13: Permission denied) while connecting to upstream",
            "log-upstream-forbidden",
        ),
        (
            "connect() to [::1]:81 failed (101: Network is unreachable) while connecting to upstream",
            "log-network-unreachable",
        ),
        ("SSL_do_handshake() failed (SSL: error) while SSL handshaking to upstream", "log-upstream-handshake-failed"),
        (
            "upstream SSL certificate verify error: (10:certificate has expired) while SSL handshaking to upstream",
            "log-upstream-certificate-refused",
        ),
        (
            "upstream timed out (110: Connection timed out) while SSL handshaking to upstream",
            "log-upstream-handshake-failed",
        ),
        ("upstream sent no valid HTTP/1.0 header while reading response header from upstream", "log-upstream-no-http"),
        ("upstream sent invalid header while reading response header from upstream", "log-upstream-head-invalid"),
        ("upstream sent invalid chunked response while reading upstream", "log-upstream-chunks-broken"),
        ("writev() failed (32: Broken pipe) while sending request to upstream", "log-upstream-broke-while-sending"),
        ("no resolver defined to resolve app while sending to client", "log-no-resolver"),
        (
            "epoll_wait() reported that client prematurely closed connection, so upstream connection is closed too",
            "log-client-gone",
        ),
        ("worker process 7 exited on signal 9", "log-worker-killed"),
        ("worker process 7 exited on signal 11 (core dumped)", "log-worker-crashed"),
        ("bind() to 0.0.0.0:80 failed (98: Address already in use)", "log-address-in-use"),
        ("pwrite() \"/var/x\" failed (28: No space left on device)", "log-disk-full"),
        ("limiting requests, excess: 5.0 by zone \"a\"", "log-request-limited"),
        ("an upstream response is buffered to a temporary file /var/x while reading upstream", "log-response-to-disk"),
    ];

    #[test]
    fn distinguishes_similar_phrases_of_nginx() {
        let of = |message: &str| findings(&[message]).first().map(|finding| finding.rule.clone()).unwrap_or_default();
        for (message, rule) in MESSAGES {
            assert_eq!(of(message), *rule, "{message}");
        }
    }

    #[test]
    fn a_reason_has_nothing_of_the_request() {
        let line = REFUSED.replace("9001/a\"", "9001/a?token=secret\"");
        let expected = Reason { cause: "log-upstream-refused", subject: "http://127.0.0.1:9001" };
        assert_eq!(reason(&line), Some(expected));
        let name = "2026/11/21 23:40:22 [error] 7#7: *4 app.example could not be resolved (2: Server failure), client: 1.2.3.4";
        assert_eq!(reason(name).map(|reason| reason.subject), Some("app.example"));
        assert_eq!(reason("2026/11/21 23:40:22 [notice] 7#7: signal 1 received"), None);
        assert!(causes().all(|name| explanation(name).is_some()));
    }

    #[test]
    fn every_phrase_has_meaning_cure_and_side_effect() {
        for phrase in &PHRASES {
            let parts = [phrase.cause, phrase.meaning, phrase.cure, phrase.side_effect];
            assert!(parts.iter().all(|part| !part.is_empty()), "{}", phrase.name);
        }
    }

    proptest! {
        #[test]
        fn no_line_breaks_the_reader(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20), tail in any::<String>()) {
            let mut log = Log::default();
            for line in &lines {
                log.read_line(line);
            }
            log.read_line(format!("{REFUSED}{tail}").as_bytes());
            log.read_line(format!("2026/11/21 é{tail}, upstream: \"{tail}://é").as_bytes());
            prop_assert_eq!(log.lines().0, lines.len() as u64 + 2);
            prop_assert!(!log.findings("x", &Facts::default()).is_empty());
        }
    }
}
