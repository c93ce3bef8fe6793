//! Texts that a configuration was read from, and spans into them.

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
}

/// One text: a file, or what `-g` gave.
#[derive(Debug, Clone)]
pub struct Source {
    /// What diagnostics and `-T` print: the path as opened, or `command line`.
    pub name: String,
    /// The bytes. nginx.conf has no encoding: values may hold any byte.
    pub text: Vec<u8>,
}

/// All texts of one configuration, in the order in which they were opened.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Adds a text and returns its id.
    pub fn add(&mut self, name: impl Into<String>, text: Vec<u8>) -> FileId {
        let id = FileId(u32::try_from(self.sources.len()).expect("fewer than 2^32 files"));
        self.sources.push(Source { name: name.into(), text });
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
        let text = &self.source(file).text;
        let upto = &text[..(offset as usize).min(text.len())];
        let line = upto.iter().filter(|&&byte| byte == b'\n').count() as u32 + 1;
        let start = upto.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        (line, (upto.len() - start) as u32 + 1)
    }
}
