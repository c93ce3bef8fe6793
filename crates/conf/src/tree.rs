//! The syntax tree: the words and blocks of the text, without their meaning.

use crate::bytes::ShortBytes;
use crate::source::Span;
use std::sync::Arc;

/// How a word was written. Quoting is kept because it changes the meaning in some places (`if (-f "$x")`, `map`
/// patterns).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// `word`
    Bare,
    /// `'word'`
    Single,
    /// `"word"`
    Double,
}

/// One word of a directive: its name or an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The value after quotes and escapes are removed; variables are not replaced.
    pub value: ShortBytes,
    /// Where it is, quotes included.
    pub span: Span,
    /// How it was written.
    pub quote: Quote,
}

impl Word {
    /// The value as text, with U+FFFD for bytes that are not UTF-8. For messages and for comparisons with ASCII words.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.value)
    }
}

/// `name arg arg;` or `name arg { … }`, with `include` already replaced by what was included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The directive's name.
    pub name: Word,
    /// The arguments, in order.
    pub args: Vec<Word>,
    /// What is between the braces, if there are any. Behind a pointer because one directive in ten has a block; shared
    /// because trees that are made one after another have most blocks in common (see `reuse`).
    pub block: Option<Arc<Block>>,
    /// From the name to the `;` or the closing brace.
    pub span: Span,
}

/// The directives between two braces, or of a whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// In the order of the text; those of included files are where the `include` was.
    pub directives: Vec<Directive>,
    /// Where the block opened (its `{`).
    pub open: Span,
    /// Where it closed.
    pub close: Span,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of configuration is about 30 bytes and becomes a directive with two arguments. The budget for tree and
    /// model together is 20 bytes of memory for each byte of text; this test leaves most of it to the model.
    #[test]
    fn a_line_of_configuration_costs_a_few_times_its_text() {
        assert_eq!(size_of::<Word>(), 40);
        assert_eq!(size_of::<Directive>(), 88);
    }
}
