//! `userid`: cookies that identify clients.

use super::settings::settings;
use crate::diagnostic::Diagnostic;
use crate::tree::Word;
use crate::value::plain::parse_number;
use crate::value::time::parse_seconds;
use crate::value::words::UserIdFlags;
use crate::value::{Parsed, invalid_value};
use std::time::Duration;

/// The mode of `userid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserIdMode {
    /// Cookies are neither sent nor logged.
    Off,
    /// Received cookies are logged.
    Log,
    /// Version 1 cookies are sent as well.
    V1,
    /// Version 2 cookies are sent as well.
    On,
}

/// How long a cookie lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserIdExpiry {
    /// As long as the browser runs.
    Session,
    /// Until the last day that fits 32 bits.
    Max,
    /// This long.
    After(Duration),
}

settings! {
    /// Settings of the cookies that identify a location's clients.
    pub struct UserIdSettings {
        /// The mode.
        mode: UserIdMode = UserIdMode::Off, "userid" => choice(&[
            ("off", UserIdMode::Off), ("log", UserIdMode::Log), ("v1", UserIdMode::V1), ("on", UserIdMode::On)]);
        /// The number of the service that makes the cookies; `None` derives it from the server's address.
        service: Option<u32> = None, "userid_service" => option(parse_service);
        /// The cookie's name.
        name: Vec<u8> = b"uid".to_vec(), "userid_name" => value(parse_part);
        /// Its domain; `None` for the host.
        domain: Option<Vec<u8>> = None, "userid_domain" => value(unless_none);
        /// Its path.
        path: Vec<u8> = b"/".to_vec(), "userid_path" => value(parse_part);
        /// How long it lasts.
        expires: UserIdExpiry = UserIdExpiry::Session, "userid_expires" => value(parse_expires);
        /// Its flags.
        flags: UserIdFlags = UserIdFlags::OFF, "userid_flags" => set(UserIdFlags::parse_set);
        /// The value of `P3P`; `None` sends none.
        p3p: Option<Vec<u8>> = None, "userid_p3p" => value(unless_none);
        /// The mark of cookies that need not be sent again; `None` for no mark.
        mark: Option<u8> = None, "userid_mark" => value(parse_mark);
    }
}

fn parse_service(name: &str, word: &Word) -> Parsed<u32> {
    parse_number(name, word).map(|number| number as u32)
}

/// A part of a field's value: one line.
fn parse_part(_name: &str, word: &Word) -> Parsed<Vec<u8>> {
    if http1::outgoing::is_field_value(&word.value) { Ok(word.value.to_vec()) } else { Err(invalid_value(word)) }
}

fn unless_none(name: &str, word: &Word) -> Parsed<Option<Vec<u8>>> {
    if word.value == b"none" { Ok(None) } else { parse_part(name, word).map(Some) }
}

fn parse_expires(name: &str, word: &Word) -> Parsed<UserIdExpiry> {
    match word.value.as_slice() {
        b"max" => Ok(UserIdExpiry::Max),
        b"off" => Ok(UserIdExpiry::Session),
        _ => parse_seconds(name, word).map(|time| match time {
            Duration::ZERO => UserIdExpiry::Session,
            time => UserIdExpiry::After(time),
        }),
    }
}

fn parse_mark(_name: &str, word: &Word) -> Parsed<Option<u8>> {
    match word.value.as_slice() {
        b"off" => Ok(None),
        &[mark] if mark.is_ascii_alphanumeric() || mark == b'=' => Ok(Some(mark)),
        _ => {
            let message = "value must be \"off\" or a single letter, digit or \"=\"";
            Err(Diagnostic::error(word.span, message))
        }
    }
}
