//! ss's filter words (man page ss(8), and `misc/ssfilter.y` of iproute2 for what it leaves out), and a few of our own: `port`
//! and `addr` for either end, `state` and `exclude` anywhere, `process`, `pid`. As in ss, `and` and `or` are taken from left to
//! right, and neither binds closer than the other.

use super::{Compare, Filter, FilterError, Names, Side, Test};
use crate::{State, StateSet};
use std::net::IpAddr;

/// More than a person types; a longer filter is refused.
const WORDS_MAX: usize = 512;
/// Parentheses and negations within each other: the parser calls itself for each.
const DEPTH_MAX: usize = 32;

pub(super) fn parse(text: &str, names: &mut dyn Names) -> Result<Filter, FilterError> {
    let words = split(text);
    if words.len() > WORDS_MAX {
        return Err(problem(format!("a filter has at most {WORDS_MAX} words, not {}", words.len())));
    }
    let mut parser = Parser { words: &words, at: 0, depth: 0, names };
    let states = parser.leading_states()?;
    let rest = (parser.at < words.len()).then(|| parser.expression()).transpose()?;
    if let Some(word) = parser.peek() {
        return Err(problem(format!("`{word}` was not expected here")));
    }
    match (states, rest) {
        (Some(states), Some(rest)) => Ok(Filter::And(Box::new(Filter::Test(Test::State(states))), Box::new(rest))),
        (Some(states), None) => Ok(Filter::Test(Test::State(states))),
        (None, Some(rest)) => Ok(rest),
        (None, None) => Err(problem("a filter has at least one word, such as `state time-wait`".to_owned())),
    }
}

fn problem(problem: String) -> FilterError {
    FilterError { problem }
}

/// Words, parentheses by themselves, and runs of operator characters by themselves.
fn split(text: &str) -> Vec<&str> {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Space,
        Parenthesis,
        Operator,
        Word,
    }
    let kind = |c: char| match c {
        '(' | ')' => Kind::Parenthesis,
        '=' | '!' | '<' | '>' | '&' | '|' => Kind::Operator,
        c if c.is_whitespace() => Kind::Space,
        _ => Kind::Word,
    };
    let mut words = Vec::new();
    let mut begun: Option<(usize, Kind)> = None;
    for (at, c) in text.char_indices() {
        let now = kind(c);
        if let Some((start, before)) = begun
            && (before != now || now == Kind::Parenthesis)
        {
            if before != Kind::Space {
                words.extend(text.get(start..at));
            }
            begun = None;
        }
        begun = begun.or(Some((at, now)));
    }
    if let Some((start, before)) = begun
        && before != Kind::Space
    {
        words.extend(text.get(start..));
    }
    words
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    depth: usize,
    names: &'a mut dyn Names,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self, expected: &str) -> Result<&'a str, FilterError> {
        let word = self.peek().ok_or_else(|| problem(format!("{expected} is missing at the end")))?;
        self.at += 1;
        Ok(word)
    }

    fn takes(&mut self, words: &[&str]) -> bool {
        let taken = self.peek().is_some_and(|word| words.contains(&word));
        self.at += usize::from(taken);
        taken
    }

    /// As in ss, states at the beginning add up: `state established state time-wait` is both.
    fn leading_states(&mut self) -> Result<Option<StateSet>, FilterError> {
        let mut states = None;
        loop {
            if self.takes(&["state"]) {
                let more = parse_states(self.next("a state")?)?;
                states = Some(states.unwrap_or(StateSet::NONE).union(more));
            } else if self.takes(&["exclude", "excl"]) {
                let fewer = parse_states(self.next("a state")?)?;
                states = Some(states.unwrap_or(StateSet::ALL).without(fewer));
            } else {
                let joined = states.is_some() && self.takes(&["and", "&&", "&"]);
                if joined && self.peek().is_none() {
                    return Err(problem("a test is missing after `and`".to_owned()));
                }
                return Ok(states);
            }
            if self.peek().is_some_and(|word| matches!(word, "or" | "||" | "|")) {
                // An alternative to a state is a test like others; begin again as one.
                self.at = 0;
                return Ok(None);
            }
        }
    }

    fn expression(&mut self) -> Result<Filter, FilterError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(problem(format!("more than {DEPTH_MAX} parentheses or negations within each other")));
        }
        let mut left = self.negated()?;
        loop {
            if self.takes(&["or", "||", "|"]) {
                left = Filter::Or(Box::new(left), Box::new(self.negated()?));
                continue;
            }
            // As in ss, two tests side by side must both pass.
            let joined = self.takes(&["and", "&&", "&"]);
            if !joined && self.peek().is_none_or(|word| word == ")") {
                self.depth -= 1;
                return Ok(left);
            }
            left = Filter::And(Box::new(left), Box::new(self.negated()?));
        }
    }

    fn negated(&mut self) -> Result<Filter, FilterError> {
        let mut negations = 0;
        while self.takes(&["not", "!"]) {
            negations += 1;
        }
        let inner = if self.takes(&["("]) {
            let inner = self.expression()?;
            if !self.takes(&[")"]) {
                return Err(problem("a `)` is missing".to_owned()));
            }
            inner
        } else {
            self.test()?
        };
        Ok(if negations % 2 == 1 { Filter::Not(Box::new(inner)) } else { inner })
    }

    fn test(&mut self) -> Result<Filter, FilterError> {
        let word = self.next("a test")?;
        let test = match word {
            "sport" => return self.port(Side::Local),
            "dport" => return self.port(Side::Remote),
            "port" => return self.port(Side::Either),
            "src" => return self.net(Side::Local),
            "dst" => return self.net(Side::Remote),
            "addr" => return self.net(Side::Either),
            "state" => Test::State(parse_states(self.next("a state")?)?),
            "exclude" | "excl" => Test::State(StateSet::ALL.without(parse_states(self.next("a state")?)?)),
            "pid" => {
                self.takes(&["=", "=="]);
                let word = self.next("a process id")?;
                Test::Pid(word.parse().map_err(|_| problem(format!("`{word}` is no process id")))?)
            }
            "process" => {
                self.takes(&["=", "=="]);
                Test::Process(self.next("the name of a process")?.to_owned())
            }
            "cgroup" => {
                let compare = self.compare();
                let word = self.next("a control group")?;
                let inode =
                    self.names.cgroup(word).ok_or_else(|| problem(format!("there is no control group `{word}`")))?;
                return equal_or_not(compare, Filter::Test(Test::Cgroup(inode)), word);
            }
            _ => {
                return Err(problem(format!(
                    "`{word}` is no test; known are sport, dport, port, src, dst, addr, state, exclude, process, pid, \
                     cgroup, and not, and, or, parentheses"
                )));
            }
        };
        Ok(Filter::Test(test))
    }

    fn compare(&mut self) -> Compare {
        for (compare, words) in COMPARISONS {
            if self.takes(words) {
                return compare;
            }
        }
        Compare::Equal
    }

    /// `OP :PORT`, or the port alone; a number, or a service by its name.
    fn port(&mut self, side: Side) -> Result<Filter, FilterError> {
        let compare = self.compare();
        let word = self.next("a port")?;
        let named = word.strip_prefix(':').unwrap_or(word);
        let port = named.parse().ok().or_else(|| self.names.service(named));
        let port = port.ok_or_else(|| problem(format!("`{word}` is no port: write `:80`")))?;
        Ok(Filter::Test(Test::Port(side, compare, port)))
    }

    /// `[OP] HOST[/PREFIX][:PORT]`; IPv6 in brackets where a port follows.
    fn net(&mut self, side: Side) -> Result<Filter, FilterError> {
        let compare = self.compare();
        let word = self.next("an address")?;
        let test = parse_net(side, word, self.names)?;
        equal_or_not(compare, test, word)
    }
}

fn equal_or_not(compare: Compare, test: Filter, word: &str) -> Result<Filter, FilterError> {
    match compare {
        Compare::Equal => Ok(test),
        Compare::NotEqual => Ok(Filter::Not(Box::new(test))),
        _ => Err(problem(format!("addresses and groups have no order: `{word}` can only be `=` or `!=`"))),
    }
}

const COMPARISONS: [(Compare, &[&str]); 6] = [
    (Compare::Equal, &["=", "==", "eq", "is"]),
    (Compare::NotEqual, &["!=", "ne", "neq"]),
    (Compare::AtLeast, &[">=", "ge", "geq"]),
    (Compare::AtMost, &["<=", "le", "leq"]),
    (Compare::Above, &[">", "gt"]),
    (Compare::Below, &["<", "lt"]),
];

fn parse_net(side: Side, word: &str, names: &mut dyn Names) -> Result<Filter, FilterError> {
    let wrong =
        || problem(format!("`{word}` is not an address: write 10.0.0.0/8, 10.0.0.1:80, 2001:db8::/32 or [::1]:80"));
    let (host, port) = if let Some(inner) = word.strip_prefix('[') {
        let (host, rest) = inner.split_once(']').ok_or_else(wrong)?;
        // `[::]/0:80` and `[::]:80/0` are both to be met; only the prefix directly behind the bracket is taken.
        let (prefix, port) = rest.rsplit_once(':').map_or((rest, None), |(prefix, port)| (prefix, Some(port)));
        (format!("{host}{prefix}"), port)
    } else if word.matches(':').count() == 1 {
        let (host, port) = word.split_once(':').ok_or_else(wrong)?;
        (host.to_owned(), Some(port))
    } else {
        (word.to_owned(), None)
    };
    let port = match port {
        None | Some("" | "*") => None,
        Some(port) => Some(port.parse().ok().or_else(|| names.service(port)).ok_or_else(wrong)?),
    };
    let (host, prefix) = host.split_once('/').map_or((host.as_str(), None), |(host, prefix)| (host, Some(prefix)));
    if matches!(host, "" | "*" | "any" | "all" | "default") {
        // Any address, and perhaps with this port; a port of at least 0 is any.
        let (compare, port) = port.map_or((Compare::AtLeast, 0), |port| (Compare::Equal, port));
        return Ok(Filter::Test(Test::Port(side, compare, port)));
    }
    let address: IpAddr = host.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix: u8 = prefix.map_or(Ok(longest), str::parse).map_err(|_| wrong())?;
    if prefix > longest {
        return Err(wrong());
    }
    // IPv4 in its IPv6 form is meant as IPv4, since sockets are shown so.
    Ok(Filter::Test(match address.to_canonical() {
        plain @ IpAddr::V4(_) if longest == 128 && prefix >= 96 => Test::Net(side, plain, prefix - 96, port),
        _ => Test::Net(side, address, prefix, port),
    }))
}

fn parse_states(word: &str) -> Result<StateSet, FilterError> {
    let listen = StateSet::of(&[State::Listen, State::Close]);
    let bucket = StateSet::of(&[State::SynRecv, State::TimeWait]);
    let one = |state| Ok(StateSet::of(&[state]));
    match word.to_ascii_lowercase().as_str() {
        "all" => Ok(StateSet::ALL),
        "connected" => Ok(StateSet::ALL.without(listen)),
        "synchronized" => Ok(StateSet::ALL.without(listen).without(StateSet::of(&[State::SynSent]))),
        "bucket" => Ok(bucket),
        "big" => Ok(StateSet::ALL.without(bucket)),
        "established" => one(State::Established),
        "syn-sent" => one(State::SynSent),
        "syn-recv" | "syn-rcv" => one(State::SynRecv),
        "fin-wait-1" => one(State::FinWait1),
        "fin-wait-2" => one(State::FinWait2),
        "time-wait" => one(State::TimeWait),
        "close" | "closed" | "unconnected" => one(State::Close),
        "close-wait" => one(State::CloseWait),
        "last-ack" => one(State::LastAck),
        "listen" | "listening" => one(State::Listen),
        "closing" => one(State::Closing),
        _ => State::from_name(word).map(|state| StateSet::of(&[state])).ok_or_else(|| {
            problem(format!(
                "`{word}` is no state; known are established, syn-sent, syn-recv, fin-wait-1, fin-wait-2, time-wait, closed, \
                 close-wait, last-ack, listening, closing, all, connected, synchronized, bucket, big"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, Socket};
    use proptest::prelude::*;

    /// One group and one service.
    struct Two;

    impl Names for Two {
        fn cgroup(&mut self, path: &str) -> Option<u64> {
            (path == "/web").then_some(42)
        }

        fn service(&mut self, name: &str) -> Option<u16> {
            (name == "ndmp").then_some(10_000)
        }
    }

    fn filter(words: &str) -> Filter {
        parse(words, &mut Two).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    fn refusal(words: &str) -> String {
        parse(words, &mut ()).expect_err(words).problem
    }

    fn socket(state: State, local: &str, remote: &str) -> Socket {
        let ends = Socket::between(local.parse().unwrap(), remote.parse().unwrap());
        Socket { state, cgroup: Some(42), ..ends }
    }

    #[test]
    fn filters_mean_the_same_as_in_ss() {
        let there = socket(State::TimeWait, "10.0.0.1:40000", "10.2.3.4:10000");
        let passes = |words| filter(words).matches(&there, None);
        for words in [
            "state time-wait dport = :10000",
            "state time-wait and dport = :10000",
            "state established state time-wait",
            "exclude established",
            "state TIME_WAIT",
            "state Time-Wait",
            "excl established",
            "dport = :ndmp",
            "dst 10.2.3.4:ndmp",
            "dst any",
            "dst all:10000",
            // From left to right, as ss takes it: ( dport or sport ) and dport.
            "sport = :1 or sport = :40000 and dport = :10000",
            "cgroup != /web or dport = :10000",
            "state bucket",
            "dport=:10000",
            "dport 10000",
            "sport gt :1024 and sport <= :40000",
            "dst 10.2.0.0/16",
            "dst 10.2.3.4:10000",
            "dst = 10.2.3.4",
            "dst ::ffff:10.2.3.0/120",
            "dst :10000",
            "src != 10.0.0.2",
            "( dst 10.9.9.9 or sport = :40000 ) and not dport = :80",
            "! ( dport = :80 || dport = :443 )",
            "addr 10.0.0.1",
            "port = :40000",
            "cgroup /web",
            "state established or dport = :10000",
        ] {
            assert!(passes(words), "{words}: {:?}", filter(words));
        }
        for words in [
            "state established",
            "state connected exclude time-wait",
            "dport = :80",
            "dst 10.3.0.0/16",
            "dst 10.2.3.4:80",
            "not state time-wait",
            "process nginx",
            "dport = :10000 sport = :1",
            "dport = :10000 or sport = :1 and sport = :2",
            "dst any:1",
            "cgroup != /web",
        ] {
            assert!(!passes(words), "{words}: {:?}", filter(words));
        }
        let owner = Owner { pid: 7, name: "nginx".to_owned() };
        assert!(filter("process nginx and pid 7").matches(&there, Some(&owner)));
        assert!(!filter("not process = nginx").matches(&there, Some(&owner)));
        let six = socket(State::Established, "[2001:db8::1]:80", "[2001:db8::2]:4711");
        assert!(filter("dst [2001:db8::]/32").matches(&six, None));
        assert!(filter("src [2001:db8::1]:80").matches(&six, None));
        assert!(!filter("dst 2001:db9::/32").matches(&six, None));
    }

    #[test]
    fn the_kernel_is_asked_for_no_state_that_cannot_pass() {
        let states = |words| filter(words).states();
        assert_eq!(states("state time-wait dport = :1"), StateSet::of(&[State::TimeWait]));
        assert_eq!(states("dport = :1"), StateSet::ALL);
        assert_eq!(states("state time-wait or dport = :1"), StateSet::ALL);
        assert_eq!(states("dport = :1 and ( state listen or state closing )").bits(), 1 << 10 | 1 << 11);
        assert_eq!(states("not ( state listen )"), StateSet::ALL.without(StateSet::of(&[State::Listen])));
    }

    #[test]
    fn names_a_wrong_word_with_the_right_one() {
        assert!(refusal("dprt = :80").starts_with("`dprt` is no test; known are sport"));
        assert!(refusal("state tim-wait").starts_with("`tim-wait` is no state"));
        assert_eq!(refusal("dport = :http"), "`:http` is no port: write `:80`");
        assert_eq!(refusal("dport = 10.0.0.1:80"), "`10.0.0.1:80` is no port: write `:80`");
        assert!(refusal("dst 10.0.0.1:http").starts_with("`10.0.0.1:http` is not an address"));
        assert_eq!(refusal("( dport = :80"), "a `)` is missing");
        assert_eq!(refusal("dport = :80 )"), "`)` was not expected here");
        assert_eq!(refusal("dport ="), "a port is missing at the end");
        assert_eq!(refusal("state time-wait and"), "a test is missing after `and`");
        assert!(refusal("dst > 10.0.0.1").starts_with("addresses and groups have no order"));
        assert!(refusal("dst 10.0.0.0/33").starts_with("`10.0.0.0/33` is not an address"));
        assert_eq!(refusal("cgroup /gone"), "there is no control group `/gone`");
        assert!(refusal("").starts_with("a filter has at least one word"));
        assert!(refusal(&"( ".repeat(100)).starts_with("more than 32 parentheses"));
        assert!(refusal(&"not ".repeat(1000)).starts_with("a filter has at most 512 words"));
    }

    proptest! {
        #[test]
        fn no_words_panic(words in "[ ()!=<>&|:a-z0-9./*\\[\\]-]{0,60}") {
            if let Ok(filter) = parse(&words, &mut Two) {
                let _ = (filter.encode(), filter.states());
            }
        }

        #[test]
        fn no_order_of_known_words_panics(words in prop::collection::vec(prop::sample::select(vec![
            "(", ")", "not", "and", "or", "dport", "=", ":80", "state", "listen", "dst", "10.0.0.0/8", "exclude", "pid", "1",
        ]), 0..20)) {
            if let Ok(filter) = parse(&words.join(" "), &mut ()) {
                let _ = (filter.encode(), filter.states());
            }
        }
    }
}
