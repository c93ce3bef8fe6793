//! The `Connection` field: whether the connection continues, and which fields it marks as hop-by-hop. The gateway
//! decides whether to close (limits, drain). `request` and `response` call it.

use crate::field::{Field, FieldId};
use crate::{hop, scan};

/// Most options in all Connection fields of one head together. Real heads have one or two; each named option costs a
/// search over the fields, so the sender must not choose the number of searches.
const CONNECTION_OPTIONS_MAX: u8 = 32;

/// What the Connection fields of a head said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionOptions {
    /// `close`
    pub close: bool,
    /// `keep-alive`
    pub keep_alive: bool,
    /// `upgrade`
    pub upgrade: bool,
    /// Anything else: names of fields, which [`crate::Field::hop`] now marks.
    pub named: bool,
    count: u8,
}

/// The list is malformed or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadConnection;

impl ConnectionOptions {
    /// Takes one Connection field.
    #[inline]
    pub(crate) fn take(&mut self, value: &[u8]) -> Result<(), BadConnection> {
        if value.eq_ignore_ascii_case(b"keep-alive") {
            self.keep_alive = true;
            return Ok(());
        }
        if value.eq_ignore_ascii_case(b"close") {
            self.close = true;
            return Ok(());
        }
        self.take_list(value)
    }

    fn take_list(&mut self, value: &[u8]) -> Result<(), BadConnection> {
        for option in options(value) {
            self.count += 1;
            if self.count > CONNECTION_OPTIONS_MAX || !option.iter().all(|&byte| scan::is_token_byte(byte)) {
                return Err(BadConnection);
            }
            if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade = true;
            } else {
                self.named = true;
            }
        }
        Ok(())
    }
}

/// The non-empty elements of a comma-separated list.
pub(crate) fn options(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(|option| {
            let (start, end) = scan::trim(option, 0, option.len());
            option.get(start..end).unwrap_or_default()
        })
        .filter(|option| !option.is_empty())
}

/// The protocols that an Upgrade field lists.
pub fn protocols(upgrade: &[u8]) -> impl Iterator<Item = &[u8]> {
    options(upgrade)
}

/// Whether an Upgrade field asks for h2c, which is never forwarded (RFC 9113 §3.1).
pub fn names_h2c(upgrade: &[u8]) -> bool {
    protocols(upgrade).any(|protocol| protocol.eq_ignore_ascii_case(b"h2c"))
}

/// Marks the fields that the Connection fields of this head name.
#[cold]
pub(crate) fn mark_named(bytes: &[u8], fields: &mut [Field]) {
    for index in 0..fields.len() {
        let Some(connection) = fields.get(index).filter(|field| field.id == FieldId::Connection) else { continue };
        for option in options(connection.value.of(bytes)) {
            for field in fields.iter_mut() {
                if field.name.of(bytes).eq_ignore_ascii_case(option) && !hop::is_kept_although_named(field.id) {
                    field.hop = true;
                }
            }
        }
    }
}
