//! Finds commands in a page that comes in pieces: `<!--# name key="value" -->`. Between calls it holds one unfinished command,
//! whose parts are bounded. The rules are nginx's, to the byte: its pages are what people have.

/// What begins a command.
const MARK: &[u8; 5] = b"<!--#";

/// Longest name of a command or a parameter, as in nginx.
const NAME_BYTES_MAX: usize = 32;

/// Most parameters of a command, as in nginx.
pub(super) const PARAMS_MAX: usize = 16;

/// A command as written. A parameter above [`PARAMS_MAX`] is kept, so that the command can be refused; others are dropped.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) name: Vec<u8>,
    pub(super) params: Vec<Param>,
}

/// A parameter as written; backslashes in its value are kept.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Param {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Scanned<'a> {
    Text(&'a [u8]),
    Command(Written),
    /// A command that cannot be read, and why.
    Invalid(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// In a mark; the number of its bytes so far.
    Mark(u8),
    BeforeName,
    Name,
    BeforeParam,
    Key,
    AfterKey,
    BeforeValue,
    /// In a value; its quotation mark.
    Value(u8),
    /// After a backslash in a value.
    Escaped(u8),
    AfterValue,
    /// After `-`, and after `--`.
    End(u8),
    /// In a command that cannot be read; the number of bytes of its `-->` so far.
    Broken(u8),
}

/// The state of one page.
#[derive(Debug)]
pub(super) struct Scanner {
    state: State,
    /// `ssi_value_length`
    value_bytes_max: usize,
    command: Written,
    /// Why the present command cannot be read.
    fault: String,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

impl Scanner {
    pub(super) fn new(value_bytes_max: usize) -> Self {
        Self { state: State::Text, value_bytes_max, command: Written::default(), fault: String::new() }
    }

    /// The next find, taken off the input. `None`: the input is used up.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Scanned<'a>> {
        while let Some((&byte, rest)) = input.split_first() {
            match self.state {
                State::Text if byte == MARK[0] => {
                    self.state = State::Mark(1);
                    *input = rest;
                }
                State::Text => {
                    let end = memchr::memchr(MARK[0], input).unwrap_or(input.len());
                    let (text, rest) = input.split_at(end);
                    *input = rest;
                    return Some(Scanned::Text(text));
                }
                State::Mark(count) if byte == MARK[usize::from(count)] => {
                    *input = rest;
                    let is_whole = usize::from(count) + 1 == MARK.len();
                    self.state = if is_whole { State::BeforeName } else { State::Mark(count + 1) };
                }
                State::Mark(count) => {
                    // It is text after all. This byte may begin a mark.
                    self.state = State::Text;
                    return Some(Scanned::Text(&MARK[..usize::from(count)]));
                }
                _ => {
                    *input = rest;
                    if let Some(found) = self.step(byte) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    /// The page has ended. Returns the beginning of a mark, which is text, and the problem if a command is unfinished.
    pub(super) fn finish(&mut self) -> (&'static [u8], Option<String>) {
        match std::mem::replace(&mut self.state, State::Text) {
            State::Text => (b"", None),
            State::Mark(count) => (&MARK[..usize::from(count)], None),
            State::Broken(_) => (b"", Some(std::mem::take(&mut self.fault))),
            _ => {
                (b"", Some(format!("unfinished \"{}\" SSI command at the end of the page", shown(&self.command.name))))
            }
        }
    }

    /// Bytes of memory that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        let params = self.command.params.iter().map(|param| param.key.capacity() + param.value.capacity());
        params.sum::<usize>() + self.command.name.capacity()
    }

    fn step(&mut self, byte: u8) -> Option<Scanned<'static>> {
        let before = self.state;
        match before {
            State::Text | State::Mark(_) => {}
            State::BeforeName | State::BeforeParam | State::AfterKey | State::BeforeValue if is_space(byte) => {}
            State::BeforeName => {
                self.command = Written { name: vec![byte], params: Vec::new() };
                self.state = State::Name;
            }
            State::Name => self.step_name(byte),
            State::BeforeParam if byte == b'-' => self.state = State::End(1),
            State::BeforeParam => {
                if self.command.params.len() > PARAMS_MAX {
                    self.command.params.pop();
                }
                self.command.params.push(Param { key: vec![byte], value: Vec::new() });
                self.state = State::Key;
            }
            State::Key => self.step_key(byte),
            State::AfterKey if byte == b'=' => self.state = State::BeforeValue,
            State::BeforeValue if matches!(byte, b'"' | b'\'') => self.state = State::Value(byte),
            State::AfterKey | State::BeforeValue => {
                let place = if before == State::AfterKey { "after" } else { "before value of" };
                self.fail(byte, |this| format!("unexpected \"{}\" symbol {place} {}", shown(&[byte]), this.param()));
            }
            State::Value(quote) if byte == quote => self.state = State::AfterValue,
            State::Value(quote) => {
                self.state = if byte == b'\\' { State::Escaped(quote) } else { before };
                self.add_to_value(byte);
            }
            State::Escaped(quote) => {
                self.state = State::Value(quote);
                self.add_to_value(byte);
            }
            State::AfterValue if is_space(byte) => self.state = State::BeforeParam,
            State::AfterValue if byte == b'-' => self.state = State::End(1),
            State::AfterValue => {
                self.fail(byte, |this| {
                    format!("unexpected \"{}\" symbol after value of {}", shown(&[byte]), this.param())
                });
            }
            State::End(1) if byte == b'-' => self.state = State::End(2),
            State::End(2) if byte == b'>' => {
                self.state = State::Text;
                return Some(Scanned::Command(std::mem::take(&mut self.command)));
            }
            State::End(_) => {
                self.fail(b' ', |this| format!("unexpected \"{}\" symbol{}", shown(&[byte]), this.of_command()));
            }
            State::Broken(2) if byte == b'>' => {
                self.state = State::Text;
                return Some(Scanned::Invalid(std::mem::take(&mut self.fault)));
            }
            State::Broken(count) => self.state = State::Broken(if byte == b'-' && count < 2 { count + 1 } else { 0 }),
        }
        None
    }

    fn step_name(&mut self, byte: u8) {
        match byte {
            _ if is_space(byte) => self.state = State::BeforeParam,
            b'-' => self.state = State::End(1),
            _ if self.command.name.len() == NAME_BYTES_MAX => {
                self.fail(b' ', |this| {
                    format!("the \"{}{}...\" SSI command is too long", shown(&this.command.name), shown(&[byte]))
                });
            }
            _ => self.command.name.push(byte),
        }
    }

    fn step_key(&mut self, byte: u8) {
        let Some(param) = self.command.params.last_mut() else { return };
        match byte {
            _ if is_space(byte) => self.state = State::AfterKey,
            b'=' => self.state = State::BeforeValue,
            b'-' => {
                param.key.push(byte);
                self.fail(byte, |this| format!("invalid {}", this.param()));
            }
            _ if param.key.len() == NAME_BYTES_MAX => self.fail(b' ', |this| format!("too long {}", this.param())),
            _ => param.key.push(byte),
        }
    }

    fn add_to_value(&mut self, byte: u8) {
        let Some(param) = self.command.params.last_mut() else { return };
        if param.value.len() < self.value_bytes_max {
            param.value.push(byte);
            return;
        }
        self.fail(b' ', |this| format!("too long value of {}", this.param()));
    }

    /// The command cannot be read: skips it. The byte may be the first of its end.
    fn fail(&mut self, byte: u8, fault: impl FnOnce(&Self) -> String) {
        self.fault = fault(self);
        self.state = State::Broken(u8::from(byte == b'-'));
    }

    fn param(&self) -> String {
        let key = self.command.params.last().map_or(&b""[..], |param| &param.key);
        format!("\"{}\" parameter{}", shown(key), self.of_command())
    }

    fn of_command(&self) -> String {
        format!(" in \"{}\" SSI command", shown(&self.command.name))
    }
}

/// Bytes of a page in a log line.
pub(super) fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
