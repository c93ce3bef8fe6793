//! HTTP/1 messages as the far ends of a test see them: start line, fields, body. Strict where a test must notice a
//! mistake, and deliberately not the product's parser.

/// A message with its body, taken out of its framing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The start line, without its line end.
    pub line: String,
    /// Names as they were sent, and values without the white space around them. Bytes above 0x7F as Latin-1.
    pub fields: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// Fields behind a chunked body.
    pub trailers: Vec<(String, String)>,
    /// The head, byte by byte.
    pub head: Vec<u8>,
}

/// What a peer received.
pub type Request = Message;

/// What a client received.
pub type Response = Message;

/// How long the body of a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    UntilEnd,
}

impl Message {
    /// Takes a whole head apart.
    ///
    /// # Panics
    /// When it is not one: a line without colon, or a line end that is not CRLF.
    pub(crate) fn of_head(head: &[u8]) -> Self {
        let text: String = head.iter().map(|&byte| char::from(byte)).collect();
        let text = text.strip_suffix("\r\n\r\n").expect("a head ends with an empty line");
        let (line, rest) = text.split_once("\r\n").unwrap_or((text, ""));
        Self { line: line.to_owned(), fields: parse_fields(rest), head: head.to_vec(), ..Self::default() }
    }

    /// The status of a response.
    ///
    /// # Panics
    /// When the start line is not that of an HTTP/1.1 response.
    pub fn status(&self) -> u16 {
        let rest = self.line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("no status line: {:?}", self.line));
        rest.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no status: {:?}", self.line))
    }

    /// The method of a request.
    pub fn method(&self) -> &str {
        self.line.split(' ').next().unwrap_or_default()
    }

    /// The target of a request.
    pub fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    /// The values of all fields of a name.
    pub fn values(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value).collect()
    }

    /// The value of a field that is at most once.
    ///
    /// # Panics
    /// When it appears more than once.
    pub fn value(&self, name: &str) -> Option<&str> {
        let values = self.values(name);
        assert!(values.len() <= 1, "{name} appears {} times: {self:?}", values.len());
        values.first().copied()
    }

    /// Whether the sender says that the connection ends with this message.
    pub fn announces_close(&self) -> bool {
        self.values("Connection").iter().any(|value| value.eq_ignore_ascii_case("close"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Head and body as text, for messages of failures.
    pub fn whole_text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.head), self.text())
    }

    /// How the body of a request is framed.
    pub(crate) fn request_framing(&self) -> Framing {
        self.framing().unwrap_or(Framing::Length(0))
    }

    /// How the body of the answer to a request is framed.
    pub(crate) fn response_framing(&self, to_head: bool) -> Framing {
        match self.status() {
            100..=199 | 204 | 304 => Framing::Length(0),
            _ if to_head => Framing::Length(0),
            _ => self.framing().unwrap_or(Framing::UntilEnd),
        }
    }

    fn framing(&self) -> Option<Framing> {
        let coding = self.value("Transfer-Encoding");
        let length = self.value("Content-Length");
        assert!(coding.is_none() || length.is_none(), "two framings at once: {self:?}");
        if let Some(coding) = coding {
            assert_eq!(coding, "chunked");
            return Some(Framing::Chunked);
        }
        length.map(|length| Framing::Length(length.parse().expect("Content-Length is a number")))
    }
}

/// Field lines, each ended by CRLF but the last one.
pub(crate) fn parse_fields(lines: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for line in lines.split("\r\n").filter(|line| !line.is_empty()) {
        assert!(!line.contains(['\r', '\n', '\0']), "a control character inside a line: {line:?}");
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("a line without a colon: {line:?}"));
        assert!(!name.is_empty() && !name.contains([' ', '\t']), "a bad name: {line:?}");
        fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    fields
}
