//! What all pages of one client's request share: variables, the groups of the last expression, and blocks.

use super::text::TEXT_BYTES_MAX;
use crate::captures::Captures;

/// Bytes of variables and blocks of one request. A page may make a variable of itself, twice, any number of times.
const SHARED_BYTES_MAX: usize = 1024 * 1024;

/// Why nothing more is kept.
pub(super) const FULL: &str = "the SSI variables and blocks of one request are too large";

/// A name and its value.
#[derive(Debug)]
struct Named {
    name: Box<[u8]>,
    value: Vec<u8>,
}

/// The variables, groups and blocks of the pages of one request.
#[derive(Debug, Default)]
pub struct Shared {
    variables: Vec<Named>,
    blocks: Vec<Named>,
    pub(super) captures: Captures,
    bytes: usize,
}

/// Bytes that an entry takes besides its texts.
const ENTRY_BYTES: usize = 64;

impl Shared {
    /// The value of a variable, by its name in lower case; first the groups.
    pub(super) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        if let Some(group) = self.captures.of_digit(name) {
            return Some(group);
        }
        self.variables.iter().find(|variable| *variable.name == *name).map(|variable| &variable.value[..])
    }

    /// Sets a variable, by its name in lower case. As in nginx, a group of the last expression hides a variable.
    pub(super) fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        if self.captures.of_digit(name).is_some() {
            return Ok(());
        }
        let place = self.variables.iter().position(|variable| *variable.name == *name);
        let before = place.map_or(0, |place| self.variables[place].value.len());
        let further = if place.is_some() { value.len() } else { name.len() + value.len() + ENTRY_BYTES };
        self.reserve(further, before)?;
        match place {
            Some(place) => self.variables[place].value = value.to_vec(),
            None => self.variables.push(Named { name: name.into(), value: value.to_vec() }),
        }
        Ok(())
    }

    /// Sets the variable of an `include` that has ended.
    pub fn store(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        self.set(name, value)
    }

    /// Makes a variable empty, if there is none of the name.
    pub(super) fn declare(&mut self, name: &[u8]) -> Result<(), String> {
        if self.value(name).is_some() { Ok(()) } else { self.set(name, b"") }
    }

    pub(super) fn begin_block(&mut self, name: &[u8]) -> Result<(), String> {
        self.reserve(name.len() + ENTRY_BYTES, 0)?;
        self.blocks.push(Named { name: name.into(), value: Vec::new() });
        Ok(())
    }

    /// Adds to the block that was begun last.
    pub(super) fn add_to_block(&mut self, text: &[u8]) -> Result<(), String> {
        if self.blocks.last().is_some_and(|block| block.value.len() + text.len() > TEXT_BYTES_MAX) {
            return Err(FULL.to_owned());
        }
        self.reserve(text.len(), 0)?;
        if let Some(block) = self.blocks.last_mut() {
            block.value.extend_from_slice(text);
        }
        Ok(())
    }

    /// The text of a block; of several with one name, the first.
    pub(super) fn block(&self, name: &[u8]) -> Option<&[u8]> {
        self.blocks.iter().find(|block| *block.name == *name).map(|block| &block.value[..])
    }

    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        self.bytes
    }

    fn reserve(&mut self, further: usize, freed: usize) -> Result<(), String> {
        let bytes = self.bytes.saturating_sub(freed).saturating_add(further);
        if bytes > SHARED_BYTES_MAX {
            return Err(FULL.to_owned());
        }
        self.bytes = bytes;
        Ok(())
    }
}
