//! Server-side includes: a page whose commands are executed while it is sent. [`Page`] takes the page in pieces and
//! returns texts and the pages to include; a [`Host`] knows the request's variables. What nginx does decides, also where
//! its documentation is silent.
//!
//! A page is trusted as far as a configuration is not: everything that it can make is bounded.

mod commands;
mod scan;
mod shared;
#[cfg(test)]
mod tests;
mod text;

pub use shared::Shared;

use commands::{find, sort};
use scan::{Scanned, Scanner, Written, shown};

/// nginx's text in place of a command that failed.
const ERROR_TEXT: &[u8] = b"[an error occurred while processing the directive]";

/// The form of dates until `config timefmt` sets another.
pub const TIME_FORMAT: &[u8] = b"%A, %d-%b-%Y %H:%M:%S %Z";

/// The request that a page belongs to.
pub trait Host {
    /// Appends the value of a variable, by its name in lower case. `false`: it has none.
    fn value(&self, name: &[u8], out: &mut Vec<u8>) -> bool;

    /// The URI of the page.
    fn uri(&self) -> &[u8];

    /// `config timefmt`
    fn set_time_format(&self, format: &[u8]);

    /// Logs an error of the page.
    fn report(&self, message: &str);
}

/// The settings of a page's location.
#[derive(Debug, Clone, Copy)]
pub struct PageSettings {
    /// `ssi_value_length`
    pub value_bytes_max: usize,
    /// `ssi_silent_errors`
    pub silent: bool,
}

/// A page to include.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    /// Its path, decoded.
    pub uri: Vec<u8>,
    /// Its arguments, as written.
    pub args: Option<Vec<u8>>,
    /// The page goes on when the included one has ended.
    pub waits: bool,
    /// The variable that gets the body, in lower case; the body is not part of the page then.
    pub set: Option<Vec<u8>>,
    /// The text in place of a page that fails or is empty.
    pub stub: Option<Vec<u8>>,
}

/// What a part of a page comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// No text.
    Nothing,
    /// Text of the page.
    Text(&'a [u8]),
    /// Text that a command makes.
    Made(Vec<u8>),
    /// A page to include.
    Include(Box<Include>),
}

/// The part of an `if` that a page is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    If,
    Else,
}

/// How `echo` encodes values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Nothing,
    Url,
    Entity,
}

/// One page being processed.
#[derive(Debug)]
pub struct Page {
    scanner: Scanner,
    silent: bool,
    within: Within,
    /// Text goes out.
    is_shown: bool,
    /// A part of the present `if` was true.
    is_chosen: bool,
    is_in_block: bool,
    /// As in nginx, an encoding holds until another is named.
    encoding: Encoding,
    error_text: Vec<u8>,
}

impl Page {
    /// A page of a location.
    pub fn new(settings: PageSettings) -> Self {
        Self {
            scanner: Scanner::new(settings.value_bytes_max),
            silent: settings.silent,
            within: Within::Nothing,
            is_shown: true,
            is_chosen: false,
            is_in_block: false,
            encoding: Encoding::Entity,
            error_text: ERROR_TEXT.to_vec(),
        }
    }

    /// Processes the beginning of the input and takes it off. `None`: the input is used up.
    pub fn next<'a>(&mut self, input: &mut &'a [u8], shared: &mut Shared, host: &impl Host) -> Option<Output<'a>> {
        let done = match self.scanner.next(input)? {
            Scanned::Text(text) if self.is_shown => return Some(Output::Text(text)),
            Scanned::Text(text) if self.is_in_block => shared.add_to_block(text).map(|()| Output::Nothing),
            Scanned::Text(_) => Ok(Output::Nothing),
            Scanned::Command(command) => self.command(&command, shared, host),
            Scanned::Invalid(fault) => Err(fault),
        };
        Some(done.unwrap_or_else(|fault| self.failed(&fault, host)))
    }

    /// The page has ended: its last text.
    pub fn finish(&mut self, host: &impl Host) -> &'static [u8] {
        let (text, fault) = self.scanner.finish();
        if let Some(fault) = fault {
            host.report(&fault);
        }
        if self.is_shown { text } else { b"" }
    }

    /// What an include comes to that is refused.
    pub fn refuse(&self, fault: &str, host: &impl Host) -> Output<'static> {
        self.failed(fault, host)
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.scanner.held_bytes() + self.error_text.capacity()
    }

    /// Logs why a command failed. As in nginx its text also appears where other text does not.
    fn failed(&self, fault: &str, host: &impl Host) -> Output<'static> {
        host.report(fault);
        if self.silent { Output::Nothing } else { Output::Made(self.error_text.clone()) }
    }

    fn command(&mut self, written: &Written, shared: &mut Shared, host: &impl Host) -> Result<Output<'static>, String> {
        let Some(known) = find(&written.name) else {
            return if self.is_shown {
                Err(format!("invalid SSI command: \"{}\"", shown(&written.name)))
            } else {
                Ok(Output::Nothing)
            };
        };
        if !self.is_shown && !known.ends_block {
            if self.is_in_block {
                return shared.add_to_block(&written.text()).map(|()| Output::Nothing);
            }
            if known.within == Within::Nothing {
                return Ok(Output::Nothing);
            }
        }
        let is_misplaced = match known.within {
            Within::Nothing => false,
            Within::If => self.within != Within::If,
            Within::Else => self.within == Within::Nothing,
        };
        if is_misplaced {
            return Err(format!("invalid context of SSI command: \"{}\"", shown(&written.name)));
        }
        let values = sort(known, written)?;
        self.execute(known, &values, shared, host)
    }
}

impl Written {
    /// The command as text again, for a block.
    fn text(&self) -> Vec<u8> {
        let mut text = [&b"<!--#"[..], &self.name].concat();
        for param in &self.params {
            text.extend([&b" "[..], &param.key, b"=\"", &param.value, b"\""].concat());
        }
        text.extend_from_slice(b" -->");
        text
    }
}
