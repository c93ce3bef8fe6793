//! `health_check`: how holdfast checks the peers of a group, and which answers pass.

use std::time::Duration;

use super::settings::At;
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::Word;
use crate::value::size::number;
use crate::value::time::milliseconds;
use crate::value::{Parsed, Regex, invalid_parameter, parameter};

/// `health_check`
#[derive(Debug, Clone, PartialEq)]
pub struct HealthCheck {
    /// From the end of a check to the next one.
    pub interval: Duration,
    /// Each check is delayed by a random time of up to this length.
    pub jitter: Duration,
    /// Failed checks in a row that make a peer unhealthy.
    pub fails: u32,
    /// Passed checks in a row that make it healthy again.
    pub passes: u32,
    /// Time for a whole check, connecting included.
    pub timeout: Duration,
    /// Port to check instead of the peer's own.
    pub port: Option<u16>,
    /// Whether a new peer gets requests only after it has passed a check.
    pub mandatory: bool,
    /// What the check does.
    pub kind: CheckKind,
    /// Where it was written.
    pub span: Span,
}

/// What a check does.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckKind {
    /// It only connects.
    Tcp,
    /// It sends a request and tests the response.
    Http {
        /// The request's target.
        uri: Vec<u8>,
        /// Its Host field; `None` for the group's name.
        host: Option<Vec<u8>>,
        /// All of them must hold.
        conditions: Vec<CheckCondition>,
    },
    /// It calls `grpc.health.v1`.
    Grpc {
        /// The service to ask about; empty for the server as a whole.
        service: Vec<u8>,
        /// The `:authority`; `None` for the group's name.
        host: Option<Vec<u8>>,
        /// The `grpc-status` of a good answer.
        status: u8,
    },
}

/// A condition on the response.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckCondition {
    /// The status is in one of these ranges, both ends included; or, if negated, in none of them.
    Status {
        /// First and last status of each range.
        ranges: Vec<(u16, u16)>,
        /// The status must be in none of them.
        negated: bool,
    },
    /// A header field.
    Header {
        /// Its name.
        name: String,
        /// The test of its value.
        test: TextTest,
    },
    /// The start of the body, as far as the check reads it.
    Body(TextTest),
}

/// A test of a text. A missing field counts as one that does not match.
#[derive(Debug, Clone, PartialEq)]
pub enum TextTest {
    /// The field exists.
    Present,
    /// The field is missing.
    Absent,
    /// The text equals this.
    Is(Vec<u8>),
    /// The text differs from this.
    IsNot(Vec<u8>),
    /// The expression matches.
    Matches(Regex),
    /// The expression does not match.
    MatchesNot(Regex),
}

/// Shortest interval: at most 200 checks of a peer a second. A one-letter slip turns the default `5s` into `5ms`.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
/// Most conditions of one check. Each costs a test of every response; no known configuration needs more than five.
const CONDITIONS_MAX: usize = 32;
/// Most bytes of the target and of the Host: any server accepts this much by default.
const TEXT_BYTES_MAX: usize = 4096;

const HINT: &str = "`interval=`, `jitter=`, `fails=`, `passes=`, `timeout=`, `type=`, `uri=`, `host=`, `port=`, \
                    `status=`, `header=`, `body=`, `grpc_service=`, `grpc_status=`, `mandatory`";

/// `type=`
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Http,
    Tcp,
    Grpc,
}

/// Most bytes of a service name: its length takes one byte in the message.
const SERVICE_BYTES_MAX: usize = 120;

/// The parameters read so far.
struct Draft<'a> {
    check: HealthCheck,
    uri: Vec<u8>,
    host: Option<Vec<u8>>,
    conditions: Vec<CheckCondition>,
    kind: Type,
    service: Vec<u8>,
    grpc_status: u8,
    /// The first parameter that only gRPC checks accept.
    grpc_only: Option<&'a Word>,
    /// The first parameter that only HTTP checks accept.
    http_only: Option<&'a Word>,
    /// `host=`
    host_word: Option<&'a Word>,
}

pub(crate) fn parse_health_check(at: &mut At<'_>) -> Parsed<Option<HealthCheck>> {
    let check = HealthCheck {
        interval: Duration::from_secs(5),
        jitter: Duration::ZERO,
        fails: 1,
        passes: 1,
        timeout: Duration::from_secs(5),
        port: None,
        mandatory: false,
        kind: CheckKind::Tcp,
        span: at.directive.span,
    };
    let mut draft = Draft {
        check,
        uri: b"/".to_vec(),
        host: None,
        conditions: vec![],
        kind: Type::Http,
        service: vec![],
        grpc_status: 0,
        grpc_only: None,
        http_only: None,
        host_word: None,
    };
    for (place, word) in at.words().iter().enumerate() {
        // `mandatory persistent` is NGINX Plus syntax. Here the state of checks always persists, so the second word is
        // skipped.
        let is_moot = word.value == b"persistent" && place > 0 && at.words()[place - 1].value == b"mandatory";
        if !is_moot {
            draft.take(word)?;
        }
    }
    draft.finish().map(Some)
}

impl<'a> Draft<'a> {
    fn take(&mut self, word: &'a Word) -> Parsed<()> {
        if self.take_plain(word)? {
            return Ok(());
        }
        if self.take_grpc(word)? {
            self.grpc_only = self.grpc_only.or(Some(word));
            return Ok(());
        }
        if let Some(value) = parameter(word, "host") {
            let host = parse_text(&value).filter(|host| host.iter().all(|byte| !b"/?#@".contains(byte)));
            self.host =
                Some(host.ok_or_else(|| {
                    invalid_parameter(word).with_hint("a name, with a port or without; no variables")
                })?);
            self.host_word = self.host_word.or(Some(word));
            return Ok(());
        }
        self.http_only = self.http_only.or(Some(word));
        if let Some(value) = parameter(word, "uri") {
            self.uri = parse_text(&value).filter(|uri| uri.starts_with(b"/")).ok_or_else(|| {
                invalid_parameter(word).with_hint("a path that begins with `/`, without spaces and variables")
            })?;
        } else if let Some(value) = parameter(word, "status") {
            let condition = parse_status(&value).ok_or_else(|| {
                invalid_parameter(word).with_hint("codes and ranges: `200`, `200-399`, `200,204`, or `!500-599`")
            })?;
            self.conditions.push(condition);
        } else if let Some(value) = parameter(word, "header") {
            self.conditions.push(parse_header(&value)?);
        } else if let Some(value) = parameter(word, "body") {
            self.conditions.push(parse_body(&value)?);
        } else if word.value.starts_with(b"match=") {
            return Err(invalid_parameter(word)
                .with_hint("conditions are in the directive itself: `status=200-399 header=Content-Type=text/html`"));
        } else {
            return Err(invalid_parameter(word).with_hint(HINT));
        }
        if self.conditions.len() > CONDITIONS_MAX {
            let message = format!("more than {CONDITIONS_MAX} conditions in \"health_check\"");
            return Err(Diagnostic::error(word.span, message));
        }
        Ok(())
    }

    /// Reads a parameter of gRPC checks; `false` if it is something else.
    fn take_grpc(&mut self, word: &Word) -> Parsed<bool> {
        if let Some(value) = parameter(word, "grpc_service") {
            let service = parse_text(&value).filter(|service| service.len() <= SERVICE_BYTES_MAX);
            self.service = service.ok_or_else(|| {
                invalid_parameter(word).with_hint("the full name of a service, such as `shop.Orders`; up to 120 bytes")
            })?;
        } else if let Some(value) = parameter(word, "grpc_status") {
            let code = number(&value.value).and_then(|code| u8::try_from(code).ok());
            self.grpc_status = code
                .ok_or_else(|| invalid_parameter(word).with_hint("a code of gRPC, such as `12` for UNIMPLEMENTED"))?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads a parameter of all types of check; `false` if it is something else.
    fn take_plain(&mut self, word: &Word) -> Parsed<bool> {
        let check = &mut self.check;
        let time = |value: &Word| milliseconds(&value.value, false).map(Duration::from_millis);
        let count = |value: &Word| {
            let count = number(&value.value).and_then(|count| u32::try_from(count).ok()).filter(|&count| count > 0);
            count.ok_or_else(|| invalid_parameter(word).with_hint("a number, at least 1"))
        };
        if let Some(value) = parameter(word, "interval") {
            check.interval = time(&value)
                .filter(|&interval| interval >= INTERVAL_MIN)
                .ok_or_else(|| invalid_parameter(word).with_hint("a time of 5 ms or more, such as `5s`"))?;
        } else if let Some(value) = parameter(word, "jitter") {
            check.jitter = time(&value).ok_or_else(|| invalid_parameter(word).with_hint("a time, such as `1s`"))?;
        } else if let Some(value) = parameter(word, "timeout") {
            check.timeout = time(&value)
                .filter(|timeout| !timeout.is_zero())
                .ok_or_else(|| invalid_parameter(word).with_hint("a time above 0, such as `5s`"))?;
        } else if let Some(value) = parameter(word, "fails") {
            check.fails = count(&value)?;
        } else if let Some(value) = parameter(word, "passes") {
            check.passes = count(&value)?;
        } else if let Some(value) = parameter(word, "port") {
            let port = number(&value.value).and_then(|port| u16::try_from(port).ok()).filter(|&port| port > 0);
            check.port = Some(port.ok_or_else(|| invalid_parameter(word).with_hint("a port from 1 to 65535"))?);
        } else if let Some(value) = parameter(word, "type") {
            self.kind = match value.value.as_slice() {
                b"http" => Type::Http,
                b"tcp" => Type::Tcp,
                b"grpc" => Type::Grpc,
                _ => return Err(invalid_parameter(word).with_hint("`http`, `tcp` or `grpc`")),
            };
        } else if word.value == b"mandatory" {
            check.mandatory = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn finish(self) -> Parsed<HealthCheck> {
        let (stray, name) = match self.kind {
            Type::Tcp => (self.http_only.or(self.grpc_only).or(self.host_word), "tcp"),
            Type::Grpc => (self.http_only, "grpc"),
            Type::Http => (self.grpc_only, "http"),
        };
        if let Some(word) = stray {
            let message = format!("\"{}\" of \"health_check\" has no meaning with \"type={name}\"", word.text());
            return Err(Diagnostic::error(word.span, message));
        }
        let kind = match self.kind {
            Type::Tcp => CheckKind::Tcp,
            Type::Grpc => CheckKind::Grpc { service: self.service, host: self.host, status: self.grpc_status },
            Type::Http => {
                let mut conditions = self.conditions;
                if !conditions.iter().any(|condition| matches!(condition, CheckCondition::Status { .. })) {
                    conditions.insert(0, CheckCondition::Status { ranges: vec![(200, 399)], negated: false });
                }
                CheckKind::Http { uri: self.uri, host: self.host, conditions }
            }
        };
        Ok(HealthCheck { kind, ..self.check })
    }
}

/// A text that is sent in a request unchanged: visible ASCII without `$`, because no variable has a value outside of a
/// request.
fn parse_text(value: &Word) -> Option<Vec<u8>> {
    let fits = (1..=TEXT_BYTES_MAX).contains(&value.value.len())
        && value.value.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'$');
    fits.then(|| value.value.to_vec())
}

fn parse_status(value: &Word) -> Option<CheckCondition> {
    let (negated, list) = match value.value.strip_prefix(b"!") {
        Some(list) => (true, list),
        None => (false, value.value.as_slice()),
    };
    let code = |text: &[u8]| {
        let code = number(text).and_then(|code| u16::try_from(code).ok());
        code.filter(|code| (100..=999).contains(code))
    };
    let range = |item: &[u8]| {
        let mut ends = item.splitn(2, |&byte| byte == b'-');
        let first = code(ends.next()?)?;
        let last = ends.next().map_or(Some(first), code)?;
        (first <= last).then_some((first, last))
    };
    let ranges = list.split(|&byte| byte == b',').map(range).collect::<Option<Vec<_>>>()?;
    (ranges.len() <= CONDITIONS_MAX).then_some(CheckCondition::Status { ranges, negated })
}

/// `NAME`, `!NAME`, `NAME=text`, `NAME!=text`, `NAME~expression`, `NAME!~expression`; with blanks around the sign or not.
fn parse_header(value: &Word) -> Parsed<CheckCondition> {
    let invalid = || {
        Diagnostic::error(value.span, format!("invalid condition \"{}\"", value.text()))
            .with_hint("`header=NAME`, `header=!NAME`, `header=NAME=text`, `NAME!=text`, `NAME~regex` or `NAME!~regex`")
    };
    let (absent, text) = match value.value.strip_prefix(b"!") {
        Some(text) => (true, text),
        None => (false, value.value.as_slice()),
    };
    let name_len = text.iter().position(|byte| b" =!~".contains(byte)).unwrap_or(text.len());
    let (name, rest) = text.split_at(name_len);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"#$%&'*+-.^_`|".contains(byte);
    if name.is_empty() || !name.iter().all(is_name) || (absent && !rest.is_empty()) {
        return Err(invalid());
    }
    let test = match rest {
        [] if absent => TextTest::Absent,
        [] => TextTest::Present,
        rest => parse_test(value, rest.trim_ascii_start())?.ok_or_else(invalid)?,
    };
    Ok(CheckCondition::Header { name: String::from_utf8_lossy(name).into_owned(), test })
}

/// `~expression` or `!~expression`.
fn parse_body(value: &Word) -> Parsed<CheckCondition> {
    match parse_test(value, value.value.trim_ascii_start())? {
        Some(test @ (TextTest::Matches(_) | TextTest::MatchesNot(_))) => Ok(CheckCondition::Body(test)),
        _ => Err(Diagnostic::error(value.span, format!("invalid condition \"{}\"", value.text()))
            .with_hint("`body=~regex`, or `body=!~regex`")),
    }
}

/// Reads an operator and the rest of the word after it. `None` if there is no operator.
fn parse_test(whole: &Word, text: &[u8]) -> Parsed<Option<TextTest>> {
    let negated = text.first() == Some(&b'!');
    let text = if negated { text.get(1..).unwrap_or_default() } else { text };
    let Some((sign, operand)) = text.split_first() else { return Ok(None) };
    let operand = operand.trim_ascii();
    match sign {
        b'=' if negated => Ok(Some(TextTest::IsNot(operand.to_vec()))),
        b'=' => Ok(Some(TextTest::Is(operand.to_vec()))),
        b'~' => {
            let (caseless, operand) = match operand.strip_prefix(b"*") {
                Some(rest) => (true, rest.trim_ascii_start()),
                None => (false, operand),
            };
            // The expression may end before the word does, so it becomes a word of its own.
            let word = Word { value: operand.into(), span: whole.span, quote: whole.quote };
            let regex = Regex::parse(&word, 0, caseless)?;
            Ok(Some(if negated { TextTest::MatchesNot(regex) } else { TextTest::Matches(regex) }))
        }
        _ => Ok(None),
    }
}
