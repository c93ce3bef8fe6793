//! Where directives were written: a step of an explanation names the file and the line of each. The plan knows the
//! places of blocks; this module finds the directives in them and around them.

use conf::Loaded;
use conf::source::{FileId, Span};
use conf::tree::{Block, Directive};
use serde::Serialize;
use std::collections::HashMap;

/// A directive in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigPlace {
    /// The file, as it was opened.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The directive with its arguments, without its block.
    pub text: String,
}

/// All directives of a configuration, with the blocks around them.
pub(super) struct Places<'a> {
    loaded: &'a Loaded,
    nodes: Vec<Node<'a>>,
    /// By file and first byte. A file that is included twice has its directives twice.
    by_start: HashMap<(FileId, u32), Vec<usize>>,
}

struct Node<'a> {
    directive: &'a Directive,
    outer: Option<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn of(loaded: &'a Loaded) -> Self {
        let mut places = Self { loaded, nodes: Vec::new(), by_start: HashMap::new() };
        places.add(&loaded.tree, None);
        places
    }

    fn add(&mut self, block: &'a Block, outer: Option<usize>) {
        for directive in &block.directives {
            let index = self.nodes.len();
            self.nodes.push(Node { directive, outer });
            let start = directive.name.span;
            self.by_start.entry((start.file, start.start)).or_default().push(index);
            if let Some(block) = &directive.block {
                self.add(block, Some(index));
            }
        }
    }

    /// The place of a directive that begins with this span.
    pub(super) fn at(&self, span: Span) -> ConfigPlace {
        match self.node(span, None) {
            Some(index) => self.place(self.nodes[index].directive),
            None => self.place_of(span, String::new()),
        }
    }

    /// The directives with these names that apply inside a block of a server: those of the innermost block that has any.
    pub(super) fn applying(&self, block: Span, server: Span, names: &[&str]) -> Vec<ConfigPlace> {
        let mut around = self.node(block, Some(server));
        loop {
            let inside = match around {
                Some(index) => self.nodes[index].directive.block.as_deref(),
                None => Some(&self.loaded.tree),
            };
            let found = inside.map(|block| self.named(block, names)).unwrap_or_default();
            match around {
                _ if !found.is_empty() => return found,
                Some(index) => around = self.nodes[index].outer,
                None => return found,
            }
        }
    }

    /// The first of them.
    pub(super) fn first_applying(&self, block: Span, server: Span, names: &[&str]) -> Option<ConfigPlace> {
        self.applying(block, server, names).into_iter().next()
    }

    fn named(&self, block: &Block, names: &[&str]) -> Vec<ConfigPlace> {
        let is_named =
            |directive: &&Directive| names.iter().any(|name| directive.name.value.as_slice() == name.as_bytes());
        block.directives.iter().filter(is_named).map(|directive| self.place(directive)).collect()
    }

    /// The directive that begins with this span; if its file was included several times, the one inside the server.
    fn node(&self, span: Span, server: Option<Span>) -> Option<usize> {
        let found = self.by_start.get(&(span.file, span.start))?;
        let is_inside = |index: &&usize| server.is_none_or(|server| self.is_inside(**index, server));
        found.iter().find(is_inside).or(found.first()).copied()
    }

    fn is_inside(&self, index: usize, outer: Span) -> bool {
        let starts = |index: usize| {
            let start = self.nodes[index].directive.name.span;
            (start.file, start.start) == (outer.file, outer.start)
        };
        std::iter::successors(Some(index), |index| self.nodes[*index].outer).any(starts)
    }

    fn place(&self, directive: &Directive) -> ConfigPlace {
        let words = std::iter::once(&directive.name).chain(&directive.args);
        let texts: Vec<_> = words.map(|word| String::from_utf8_lossy(self.loaded.sources.bytes(word.span))).collect();
        self.place_of(directive.name.span, texts.join(" "))
    }

    fn place_of(&self, span: Span, text: String) -> ConfigPlace {
        let source = self.loaded.sources.source(span.file);
        ConfigPlace { file: source.name.clone(), line: source.line_column(span.start).0, text }
    }
}
