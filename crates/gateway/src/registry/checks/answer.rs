//! Evaluates a check's response: takes bytes as they arrive, and returns a result as soon as there is one. It opens no
//! socket; the control plane feeds it. Peers are not trusted here either: heads and bodies are bounded, and a response
//! that is no HTTP fails the check.

use crate::registry::checks::{CheckResult, Finding, HttpCheck};
use conf::model::{CheckCondition, TextTest};
use http1::chunked::Decoder;
use http1::{HeadEnd, Limits, Parse, RequestKind, ResponseFraming, ResponseHead, ResponseKind, find_head_end};

/// Longest head: four times the default of `proxy_buffer_size`.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a body that are examined, as in NGINX Plus; the rest of an endless body, such as a stream of events, is
/// ignored.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Most interim heads (100 to 199) before the answer. A GET gives no reason to send one.
const INTERIM_MAX: u8 = 8;
/// Bytes of a field that are shown in a line of the error log.
const VALUE_SHOWN_MAX: usize = 64;

const READING_HEAD: &str = "reading response header from upstream";
const READING_BODY: &str = "reading upstream";
const CHECKING_STATUS: &str = "checking status code";
const CHECKING_HEADER: &str = "checking header";
const CHECKING_BODY: &str = "checking body";

/// A response being received.
pub struct CheckAnswer<'plan> {
    check: &'plan HttpCheck,
    stage: AnswerPart,
    /// The head so far, and the bytes after it.
    bytes: Vec<u8>,
    /// How far the end of the head was searched for.
    searched: usize,
    interims: u8,
    /// The body, if a condition needs it.
    body: Vec<u8>,
    /// Bytes of the body received.
    body_bytes: usize,
}

enum AnswerPart {
    Head,
    Length(u64),
    Chunked(Box<Decoder>),
    UntilClose,
}

impl<'plan> CheckAnswer<'plan> {
    /// Starts with nothing received.
    pub fn new(check: &'plan HttpCheck) -> Self {
        let (bytes, body) = (Vec::new(), Vec::new());
        Self { check, stage: AnswerPart::Head, bytes, searched: 0, interims: 0, body, body_bytes: 0 }
    }

    /// The present step, in the words of an error log.
    pub fn phase(&self) -> &'static str {
        if matches!(self.stage, AnswerPart::Head) { READING_HEAD } else { READING_BODY }
    }

    /// Takes further bytes. Returns the result as soon as there is one; the rest is then not needed.
    pub fn take(&mut self, bytes: &[u8]) -> Option<CheckResult> {
        if !matches!(self.stage, AnswerPart::Head) {
            return self.take_body(bytes);
        }
        self.bytes.extend_from_slice(bytes);
        loop {
            let is_first = self.searched == 0;
            match find_head_end(&self.bytes, self.searched) {
                HeadEnd::Found(end) => self.searched = end,
                HeadEnd::NotYet(at) => {
                    self.searched = at;
                    // A response that is invalid from its first bytes need not be complete.
                    if !is_first && self.bytes.len() < HEAD_BYTES_MAX {
                        return None;
                    }
                }
            }
            let mut head = ResponseHead::default();
            match http1::response::parse(&self.bytes, &Limits::response(HEAD_BYTES_MAX), RequestKind::Other, &mut head)
            {
                Ok(Parse::Partial) => return None,
                Err(error) => return Some(self.invalid(format!("{}: {error}", error.phrase()))),
                Ok(Parse::Complete { len }) => match head.kind {
                    ResponseKind::Interim if self.interims < INTERIM_MAX => {
                        self.interims += 1;
                        self.bytes.drain(..len.min(self.bytes.len()));
                        self.searched = 0;
                    }
                    ResponseKind::Interim => {
                        return Some(self.invalid("upstream sent too many interim responses".to_owned()));
                    }
                    ResponseKind::SwitchingProtocols => {
                        return Some(self.invalid("upstream sent 101, which was not asked for".to_owned()));
                    }
                    ResponseKind::Final => return self.take_head(&head, len),
                },
            }
        }
    }

    fn invalid(&self, detail: String) -> CheckResult {
        CheckResult::new(Finding::Invalid, self.phase(), detail)
    }

    /// Handles a complete head; the bytes after it are body.
    fn take_head(&mut self, head: &ResponseHead, len: usize) -> Option<CheckResult> {
        let failed = self.check.head_conditions.iter().find_map(|condition| self.judge(condition, head));
        if failed.is_some() {
            return failed;
        }
        self.stage = match head.framing {
            ResponseFraming::None => return Some(self.judge_body()),
            ResponseFraming::Length(length) => AnswerPart::Length(length),
            ResponseFraming::Chunked => AnswerPart::Chunked(Box::default()),
            ResponseFraming::UntilClose => AnswerPart::UntilClose,
        };
        let bytes = std::mem::take(&mut self.bytes);
        self.take_body(bytes.get(len..).unwrap_or_default())
    }

    fn take_body(&mut self, bytes: &[u8]) -> Option<CheckResult> {
        let mut rest = bytes;
        let mut is_whole = false;
        // Each iteration consumes input, or is the last one.
        loop {
            let data = match &mut self.stage {
                AnswerPart::Head => return None,
                AnswerPart::UntilClose => std::mem::take(&mut rest),
                AnswerPart::Length(left) => {
                    let here = usize::try_from(*left).map_or(rest.len(), |left| rest.len().min(left));
                    *left -= here as u64;
                    is_whole = *left == 0;
                    let data = rest.get(..here).unwrap_or_default();
                    rest = &[];
                    data
                }
                AnswerPart::Chunked(decoder) => match decoder.decode(rest) {
                    Err(error) => {
                        return Some(self.invalid(format!("upstream sent invalid chunked response: {error}")));
                    }
                    Ok(decoded) => {
                        let data = rest.get(decoded.data).unwrap_or_default();
                        rest = rest.get(decoded.consumed..).unwrap_or_default();
                        is_whole = decoded.done;
                        data
                    }
                },
            };
            let room = BODY_BYTES_MAX - self.body_bytes;
            let data = data.get(..room).unwrap_or(data);
            self.body_bytes += data.len();
            if !self.check.body_conditions.is_empty() {
                self.body.extend_from_slice(data);
            }
            if is_whole || self.body_bytes >= BODY_BYTES_MAX {
                return Some(self.judge_body());
            }
            if rest.is_empty() {
                return None;
            }
        }
    }

    /// The result when the peer has closed.
    pub fn end(&self) -> CheckResult {
        match self.stage {
            AnswerPart::UntilClose => self.judge_body(),
            AnswerPart::Head if self.bytes.is_empty() => {
                CheckResult::new(Finding::Broken, READING_HEAD, "upstream prematurely closed connection")
            }
            AnswerPart::Head => CheckResult::new(
                Finding::Broken,
                READING_HEAD,
                "upstream prematurely closed connection within its header",
            ),
            AnswerPart::Length(_) | AnswerPart::Chunked(_) => CheckResult::new(
                Finding::Broken,
                READING_BODY,
                format!("upstream prematurely closed connection after {} bytes of the body", self.body_bytes),
            ),
        }
    }

    /// The failure if a condition on the head does not hold.
    fn judge(&self, condition: &CheckCondition, head: &ResponseHead) -> Option<CheckResult> {
        match condition {
            CheckCondition::Status { ranges, negated } => {
                let is_in = ranges.iter().any(|(first, last)| (*first..=*last).contains(&head.status));
                let failed = || CheckResult::new(Finding::Status, CHECKING_STATUS, format!("status {}", head.status));
                (is_in == *negated).then(failed)
            }
            CheckCondition::Header { name, test } => {
                let fields = head.fields.iter().filter(|field| {
                    let known: &[u8] = field.name.of(&self.bytes);
                    known.eq_ignore_ascii_case(name.as_bytes())
                });
                let values: Vec<&[u8]> = fields.map(|field| field.value.of(&self.bytes)).collect();
                (!holds(test, &values)).then(|| {
                    let detail = match values.first() {
                        None => format!("no field \"{name}\""),
                        Some(value) => format!("\"{name}: {}\"", shown(value)),
                    };
                    CheckResult::new(Finding::Header, CHECKING_HEADER, detail)
                })
            }
            CheckCondition::Body(_) => None,
        }
    }

    fn judge_body(&self) -> CheckResult {
        match self.check.body_conditions.iter().find(|test| !holds(test, &[&self.body])) {
            None => CheckResult::new(Finding::Passed, CHECKING_BODY, ""),
            Some(TextTest::MatchesNot(regex)) => CheckResult::new(
                Finding::Body,
                CHECKING_BODY,
                format!("{} bytes that match \"{}\"", self.body.len(), shown(&regex.pattern)),
            ),
            Some(TextTest::Matches(regex)) => CheckResult::new(
                Finding::Body,
                CHECKING_BODY,
                format!("no match of \"{}\" in {} bytes", shown(&regex.pattern), self.body.len()),
            ),
            Some(_) => CheckResult::new(Finding::Body, CHECKING_BODY, "another body"),
        }
    }
}

/// Whether a test holds for the values of a field, or for the body. An expression that exceeds its match limits does
/// not hold.
fn holds(test: &TextTest, values: &[&[u8]]) -> bool {
    let any = |wanted: &[u8]| values.contains(&wanted);
    match test {
        TextTest::Present => !values.is_empty(),
        TextTest::Absent => values.is_empty(),
        TextTest::Is(text) => any(text),
        TextTest::IsNot(text) => !any(text),
        TextTest::Matches(regex) => values.iter().any(|value| regex.code.is_match(value).unwrap_or(false)),
        TextTest::MatchesNot(regex) => values.iter().all(|value| regex.code.is_match(value).is_ok_and(|is| !is)),
    }
}

/// The beginning of a text, safe for a log line.
fn shown(text: &[u8]) -> String {
    text.get(..VALUE_SHOWN_MAX).unwrap_or(text).escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::source::{FileId, Span};
    use conf::tree::{Quote, Word};
    use conf::value::Regex;
    use proptest::prelude::*;

    fn regex(pattern: &str) -> Regex {
        let span = Span { file: FileId(0), start: 0, end: 0 };
        Regex::parse(&Word { value: pattern.into(), span, quote: Quote::Bare }, 0, false).unwrap()
    }

    fn check(conditions: &[CheckCondition]) -> HttpCheck {
        HttpCheck::new(b"/", b"app", conditions)
    }

    fn status(first: u16, last: u16) -> CheckCondition {
        CheckCondition::Status { ranges: vec![(first, last)], negated: false }
    }

    /// The result of a whole conversation.
    fn judged(check: &HttpCheck, response: &str) -> (Finding, String) {
        let mut answer = CheckAnswer::new(check);
        let result = answer.take(response.as_bytes()).unwrap_or_else(|| answer.end());
        (result.finding, result.detail)
    }

    #[test]
    fn check_request_names_its_sender_and_closes() {
        let request = String::from_utf8(HttpCheck::new(b"/healthz", b"app", &[]).request.to_vec()).unwrap();
        assert!(request.starts_with("GET /healthz HTTP/1.1\r\nHost: app\r\nConnection: close\r\n"), "{request}");
        assert!(request.ends_with(" (health check)\r\n\r\n"), "{request}");
        assert!(request.ends_with(" (health check)\r\n\r\n"), "{request}");
    }

    #[test]
    fn the_status_is_in_a_range_or_out_of_it() {
        let good = check(&[status(200, 399)]);
        assert_eq!(judged(&good, "HTTP/1.1 204 No Content\r\n\r\n").0, Finding::Passed);
        assert_eq!(judged(&good, "HTTP/1.0 399 x\r\n\r\nrest").0, Finding::Passed);
        assert_eq!(judged(&good, "HTTP/1.1 500 x\r\n\r\n"), (Finding::Status, "status 500".into()));
        let other = check(&[CheckCondition::Status { ranges: vec![(500, 599), (404, 404)], negated: true }]);
        assert_eq!(judged(&other, "HTTP/1.1 204 x\r\n\r\n").0, Finding::Passed);
        assert_eq!(judged(&other, "HTTP/1.1 404 x\r\n\r\n").0, Finding::Status);
    }

    #[test]
    fn a_field_is_looked_at_on_each_of_its_lines() {
        let with = |test| check(&[CheckCondition::Header { name: "x-state".into(), test }]);
        let said = |fields: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{fields}\r\n");
        let two = said("X-State: a\r\nx-STATE: b\r\n");
        for (test, in_two, in_none) in [
            (TextTest::Present, true, false),
            (TextTest::Absent, false, true),
            (TextTest::Is(b"b".into()), true, false),
            (TextTest::IsNot(b"b".into()), false, true),
            (TextTest::Matches(regex("^b$")), true, false),
            (TextTest::MatchesNot(regex("^b$")), false, true),
        ] {
            let check = with(test.clone());
            assert_eq!(judged(&check, &two).0 == Finding::Passed, in_two, "{test:?}");
            assert_eq!(judged(&check, &said("")).0 == Finding::Passed, in_none, "{test:?}");
        }
        assert_eq!(judged(&with(TextTest::Absent), &two).1, "\"x-state: a\"");
        assert_eq!(judged(&with(TextTest::Present), &said("")).1, "no field \"x-state\"");
    }

    #[test]
    fn the_body_is_matched_however_it_is_framed() {
        let check = check(&[CheckCondition::Body(TextTest::Matches(regex("all (is )?well")))]);
        for response in [
            "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nall well",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nall \r\n4\r\nwell\r\n0\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nall well",
            "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nall well",
        ] {
            assert_eq!(judged(&check, response).0, Finding::Passed, "{response}");
        }
        let ill = judged(&check, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nnot yet");
        assert_eq!(ill, (Finding::Body, "no match of \"all (is )?well\" in 7 bytes".into()));
    }

    #[test]
    fn invalid_response_fails_the_check() {
        let check = check(&[status(100, 999)]);
        for (response, finding) in [
            ("", Finding::Broken),
            ("HTTP/1.1 200", Finding::Broken),
            ("SSH-2.0-OpenSSH_9.2\r\n", Finding::Invalid),
            ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Finding::Invalid),
            ("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nshort", Finding::Broken),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Finding::Invalid),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n", Finding::Broken),
        ] {
            assert_eq!(judged(&check, response).0, finding, "{response:?}");
        }
        let interims = "HTTP/1.1 102 x\r\n\r\n".repeat(9);
        assert_eq!(judged(&check, &interims).0, Finding::Invalid);
    }

    #[test]
    fn heads_and_bodies_without_an_end_come_to_one() {
        let check = check(&[status(200, 399)]);
        let mut answer = CheckAnswer::new(&check);
        assert_eq!(answer.take(b"HTTP/1.1 200 OK\r\n"), None);
        let line = format!("X: {}\r\n", "x".repeat(995));
        let ended = (0..20).find_map(|_| answer.take(line.as_bytes())).unwrap();
        assert_eq!((ended.finding, ended.phase), (Finding::Invalid, READING_HEAD));
        assert!(answer.bytes.len() <= HEAD_BYTES_MAX + line.len());

        let mut answer = CheckAnswer::new(&check);
        assert_eq!(answer.take(b"HTTP/1.1 200 OK\r\n\r\n"), None);
        let ended = (0..1000).find_map(|_| answer.take(&[b'x'; 1000])).unwrap();
        assert_eq!(ended.finding, Finding::Passed);
        assert_eq!((answer.body_bytes, answer.body.len()), (BODY_BYTES_MAX, 0));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_in_which_pieces_a_response_comes(
            cuts in prop::collection::vec(0_usize..120, 0..8),
            which in 0_usize..4,
        ) {
            let check = check(&[status(200, 399), CheckCondition::Body(TextTest::Matches(regex("well")))]);
            let response = [
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nall well",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nall \r\n4\r\nwell\r\n0\r\n\r\n",
                "HTTP/1.1 503 Busy\r\n\r\nwell",
                "HTTP/1.1 200 OK\r\nBad Field: x\r\n\r\n",
            ][which];
            let whole = judged(&check, response);
            let mut answer = CheckAnswer::new(&check);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(response.len())).collect();
            cuts.extend([0, response.len()]);
            cuts.sort_unstable();
            let result = cuts.windows(2).find_map(|pair| answer.take(&response.as_bytes()[pair[0]..pair[1]]));
            let result = result.unwrap_or_else(|| answer.end());
            prop_assert_eq!((result.finding, result.detail), whole);
        }

        #[test]
        fn no_bytes_of_a_peer_are_too_much_for_it(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20)) {
            let check = check(&[status(200, 399), CheckCondition::Body(TextTest::Matches(regex("x")))]);
            let mut answer = CheckAnswer::new(&check);
            for piece in pieces {
                if answer.take(&piece).is_some() {
                    break;
                }
            }
            answer.end();
        }
    }
}
