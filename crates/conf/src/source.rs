//! The texts of a configuration, and spans into them.

use std::sync::{Arc, OnceLock};

/// The name of the text that `-g` gave, as nginx calls it in messages.
pub const COMMAND_LINE: &str = "command line";

/// Index of a file in a [`SourceMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A byte range `start..end` of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte, an offset into the file's text.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The smallest span that covers both; both must lie in the same file.
    pub fn to(self, other: Self) -> Self {
        debug_assert_eq!(self.file, other.file);
        Self { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The empty span just behind this one: the position at which something is missing.
    #[must_use]
    pub fn after(self) -> Self {
        Self { start: self.end, ..self }
    }
}

/// One text: a file, or what `-g` gave.
#[derive(Debug, Clone)]
pub struct Source {
    /// What diagnostics and `-T` print: the path as opened, or [`COMMAND_LINE`].
    pub name: String,
    /// The bytes. nginx.conf has no encoding: values may hold any byte. Shared, so that a parser can hold it while the
    /// map grows.
    pub text: Arc<[u8]>,
    /// Whether the file could not be read: it is here only to give a message a file name.
    unread: bool,
    /// Offset of the first byte of each line, computed at the first use.
    lines: OnceLock<Box<[u32]>>,
}

impl Source {
    /// Whether this is the text of a file that was read: false for the command line and for a file that failed to open.
    pub fn is_file(&self) -> bool {
        !self.unread && self.name != COMMAND_LINE
    }

    /// Whether the file could not be read, so that a position in it means nothing.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// One-based line and column (in bytes, as editors count ASCII) of an offset. Builds the line index at the first
    /// call.
    pub fn line_column(&self, offset: u32) -> (u32, u32) {
        let offset = offset.min(self.text.len() as u32);
        let lines = self.lines();
        let line = lines.partition_point(|&start| start <= offset);
        (line as u32, offset - lines[line - 1] + 1)
    }

    /// The bytes of a one-based line, without its line ending; empty for a line that does not exist.
    pub fn line(&self, line: u32) -> &[u8] {
        let lines = self.lines();
        let Some(&start) = (line as usize).checked_sub(1).and_then(|index| lines.get(index)) else { return &[] };
        let end = lines.get(line as usize).map_or(self.text.len(), |&next| next as usize);
        let text = &self.text[start as usize..end];
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        text.strip_suffix(b"\r").unwrap_or(text)
    }

    /// Starts of lines; the first is always 0, so the list is never empty.
    fn lines(&self) -> &[u32] {
        self.lines.get_or_init(|| {
            let newlines = memchr::memchr_iter(b'\n', &self.text);
            std::iter::once(0).chain(newlines.map(|at| at as u32 + 1)).collect()
        })
    }
}

/// All texts of one configuration, in the order in which they were opened.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Adds a text and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: Vec<u8>) -> FileId {
        self.push(name.into(), text, false)
    }

    /// Adds a file that could not be read, so that a diagnostic can name it.
    pub fn add_unread(&mut self, name: impl Into<String>) -> FileId {
        self.push(name.into(), Vec::new(), true)
    }

    fn push(&mut self, name: String, text: Vec<u8>, unread: bool) -> FileId {
        let id = FileId(u32::try_from(self.sources.len()).expect("fewer than 2^32 files"));
        self.sources.push(Source { name, text: text.into(), unread, lines: OnceLock::new() });
        id
    }

    /// The text with this id.
    pub fn source(&self, id: FileId) -> &Source {
        &self.sources[id.0 as usize]
    }

    /// All texts in the order in which they were opened.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter()
    }

    /// One-based line and column (in bytes, as editors count ASCII) of an offset.
    pub fn line_column(&self, file: FileId, offset: u32) -> (u32, u32) {
        self.source(file).line_column(offset)
    }

    /// The bytes that a span covers; empty where it does not lie in its text.
    pub fn bytes(&self, span: Span) -> &[u8] {
        self.source(span.file).text.get(span.start as usize..span.end as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        let mut sources = SourceMap::default();
        let file = sources.add("x", b"ab\n\ncd\r\ne".to_vec());
        let places: Vec<_> = (0..=9).map(|offset| sources.line_column(file, offset)).collect();
        let expected = [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2), (3, 3), (3, 4), (4, 1), (4, 2)];
        assert_eq!(places, expected);
        let source = sources.source(file);
        assert_eq!([source.line(1), source.line(2), source.line(3), source.line(4)], [&b"ab"[..], b"", b"cd", b"e"]);
        assert_eq!([source.line(0), source.line(5)], [b"", b""]);
    }

    #[test]
    fn a_place_behind_the_text_is_its_end() {
        let mut sources = SourceMap::default();
        let empty = sources.add("x", Vec::new());
        assert_eq!(sources.line_column(empty, 7), (1, 1));
        let file = sources.add("y", b"a\n".to_vec());
        assert_eq!(sources.line_column(file, 7), (2, 1));
    }
}
