//! Writes a configuration tree. Words are data, never text to parse, so no value of an object can become a directive.

use crate::ObjectName;
use conf::source::{FileId, SourceMap, Span};
use conf::tree::{Block, Directive, Quote, Word};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sources of a tree that objects write: one for each object.
#[derive(Debug, Default)]
pub struct Origins {
    sources: SourceMap,
    files: BTreeMap<ObjectName, FileId>,
    /// Those of this translation.
    owners: BTreeMap<FileId, ObjectName>,
}

impl Origins {
    /// The place of everything that an object writes.
    pub fn of(&mut self, object: &ObjectName) -> Origin {
        if let Some(file) = self.files.get(object) {
            self.owners.entry(*file).or_insert_with(|| object.clone());
            return Origin(*file);
        }
        let file = self.sources.add(object.to_string(), Vec::new());
        self.files.insert(object.clone(), file);
        self.owners.insert(file, object.clone());
        Origin(file)
    }

    /// Begins another translation: objects keep their places.
    pub fn begin(&mut self) {
        self.owners.clear();
    }

    /// How many objects have written a part of this translation.
    pub fn present(&self) -> usize {
        self.owners.len()
    }

    /// How many have written a part of an earlier one only.
    pub fn gone(&self) -> usize {
        self.files.len() - self.owners.len()
    }

    /// The parts for a translation.
    pub fn parts(&self) -> (SourceMap, BTreeMap<FileId, ObjectName>) {
        (self.sources.clone(), self.owners.clone())
    }
}

/// Marks what one object writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(pub FileId);

impl Origin {
    fn span(self) -> Span {
        Span { file: self.0, start: 0, end: 0 }
    }

    /// A word. It is marked as quoted, so that it never means anything but its bytes; variables are replaced in it.
    pub fn word(self, value: impl AsRef<[u8]>) -> Word {
        Word { value: value.as_ref().into(), span: self.span(), quote: Quote::Double }
    }

    /// A word as if written without quotes: names of directives, operators.
    pub fn bare(self, value: impl AsRef<[u8]>) -> Word {
        Word { value: value.as_ref().into(), span: self.span(), quote: Quote::Bare }
    }

    /// `name args;`
    pub fn line<A: AsRef<[u8]>>(self, name: &str, args: impl IntoIterator<Item = A>) -> Directive {
        let args = args.into_iter().map(|arg| self.word(arg)).collect();
        Directive { name: self.bare(name), args, block: None, span: self.span() }
    }

    /// `name args { directives }`
    pub fn block<A: AsRef<[u8]>>(
        self,
        name: &str,
        args: impl IntoIterator<Item = A>,
        directives: Vec<Directive>,
    ) -> Directive {
        Directive { block: Some(Arc::new(self.braces(directives))), ..self.line(name, args) }
    }

    /// `{ directives }`
    pub fn braces(self, directives: Vec<Directive>) -> Block {
        Block { directives, open: self.span(), close: self.span() }
    }
}
