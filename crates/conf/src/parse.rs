//! Tokens to tree, for one text. Knows the shape of the language, `include`, and the five blocks with entries rather
//! than directives in their bodies; `check` decides what directives mean. After an error it continues behind the
//! damage, so that one run shows every mistake once. Called by `load`, which it calls back for included files.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::diagnostic::Diagnostic;
use crate::lex::{Fault, Lexer, Token};
use crate::load::Includer;
use crate::source::{FileId, Span};
use crate::tree::{Block, Directive, Quote, Word};

/// Most nested blocks, over all open files. Real configurations have five levels. The tree is walked recursively, so
/// this also bounds the stack.
pub const NESTING_MAX: usize = 64;

/// What a block contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// Directives.
    Directives,
    /// Entries of `types`, `map` and `geo`, which know `include`.
    Entries,
    /// Entries of `split_clients` and `charset_map`, where `include` is an ordinary word.
    PlainEntries,
}

impl Body {
    /// The body of the block that a directive of this name opens.
    fn of_block(name: &[u8]) -> Self {
        match name {
            b"types" | b"map" | b"geo" => Self::Entries,
            b"split_clients" | b"charset_map" => Self::PlainEntries,
            _ => Self::Directives,
        }
    }
}

/// The text being parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// A file that is included in a body of this kind.
    File(Body),
    /// What `-g` gave.
    CommandLine,
}

/// What the checks must know and the tree does not say: errors that are already reported, so that their consequences
/// are not reported too, and where directives come from.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Directives with wrong words because of a syntax error.
    pub(crate) damaged: FxHashSet<Span>,
    /// Whether braces do not match: from there on, directives may be in the wrong blocks.
    pub(crate) unbalanced: bool,
    /// Files of `state`: they hold servers and nothing else.
    pub(crate) states: FxHashSet<FileId>,
}

/// Parses one text and returns its top level.
pub(crate) fn parse(includer: &mut Includer<'_>, bytes: &[u8], file: FileId, text: Text) -> Vec<Directive> {
    let body = match text {
        Text::File(body) => body,
        Text::CommandLine => Body::Directives,
    };
    let mut parser = Parser {
        includer,
        lexer: Lexer::new(bytes, file),
        bytes,
        text,
        words: Vec::new(),
        damaged: false,
        nul_seen: false,
        frames: Vec::new(),
        current: Frame { head: None, body, directives: Vec::new(), indent: None },
        misfit: None,
    };
    if parser.check_encoding(file) {
        parser.run();
    }
    parser.current.directives
}

/// A block that is not closed yet; the outermost one is the text itself.
struct Frame {
    /// Name, arguments and `{`; `None` for the text, and for a block that has no name.
    head: Option<Head>,
    body: Body,
    directives: Vec<Directive>,
    /// Column of the block's name, if the name is the first word of its line.
    indent: Option<u32>,
}

struct Head {
    name: Word,
    args: Vec<Word>,
    open: Span,
    damaged: bool,
}

/// The first place at which indentation and braces disagree. It is no error by itself. If a brace turns out to be
/// missing or superfluous, the message points here.
struct Misfit {
    /// The head of the block that the indentation contradicts.
    head: Span,
    /// The word that is indented as if the block were closed, or the `}` that is indented as if it closed another.
    at: Span,
}

struct Parser<'p, 'l> {
    includer: &'p mut Includer<'l>,
    lexer: Lexer<'p>,
    bytes: &'p [u8],
    text: Text,
    /// The words of the directive being read.
    words: Vec<Word>,
    /// Whether that directive contained an error.
    damaged: bool,
    nul_seen: bool,
    frames: Vec<Frame>,
    current: Frame,
    misfit: Option<Misfit>,
}

impl Parser<'_, '_> {
    fn run(&mut self) {
        while !self.includer.stopped {
            match self.lexer.next() {
                Token::Word(word) => self.word(word),
                Token::Semicolon(at) if self.words.is_empty() && !self.damaged => self.unexpected(at, ";"),
                Token::Semicolon(at) => self.finish_directive(at),
                Token::Open(at) => self.open_block(at),
                Token::Close(at) => self.close(at),
                Token::Fault(fault) => self.fault(&fault),
                Token::End(at) => {
                    self.end(at);
                    return;
                }
            }
        }
        self.unwind();
    }

    /// Reports a byte order mark, or an encoding that cannot be parsed.
    fn check_encoding(&mut self, file: FileId) -> bool {
        let mark = |len| Span { file, start: 0, end: len };
        if self.bytes.starts_with(b"\xEF\xBB\xBF") {
            let message = "the file begins with a byte order mark (EF BB BF)";
            let hint = "save the file as UTF-8 without a byte order mark";
            self.includer.report(Diagnostic::error(mark(3), message).with_hint(hint));
            self.lexer.seek(3);
        } else if self.bytes.starts_with(b"\xFF\xFE") || self.bytes.starts_with(b"\xFE\xFF") {
            let message = "the file begins with a byte order mark of UTF-16";
            let hint = "save the file as UTF-8 without a byte order mark";
            self.includer.report(Diagnostic::error(mark(2), message).with_hint(hint));
            return false;
        }
        true
    }

    fn word(&mut self, word: Word) {
        if let Some(offset) = memchr::memchr(0, self.raw(word.span)) {
            self.damaged = true;
            if !std::mem::replace(&mut self.nul_seen, true) {
                let start = word.span.start + offset as u32;
                let at = Span { start, end: start + 1, ..word.span };
                let hint = "a configuration is text; is the file damaged, or saved in another encoding?";
                self.includer.report(Diagnostic::error(at, "the file contains a NUL byte").with_hint(hint));
            }
        }
        if self.words.is_empty() && !self.damaged {
            self.compare_indent(word.span);
        }
        self.words.push(word);
    }

    fn raw(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..span.end as usize]
    }

    /// Makes a directive of the words read so far.
    fn take_words(&mut self) -> Option<(Word, Vec<Word>, bool)> {
        let damaged = std::mem::take(&mut self.damaged);
        let mut words = self.words.drain(..);
        let name = words.next()?;
        Some((name, words.collect(), damaged))
    }

    fn finish_directive(&mut self, end: Span) {
        let Some((name, args, damaged)) = self.take_words() else { return };
        if name.value == b"include" && !damaged && self.include(&name, &args) {
            return;
        }
        let span = name.span.to(end);
        if damaged {
            self.includer.notes.damaged.insert(span);
        }
        let state = args.first().filter(|_| name.value == b"state" && !damaged && self.is_in_upstream()).cloned();
        self.current.directives.push(Directive { name, args, block: None, span });
        if let Some(path) = state {
            self.includer.include_state(&path, &mut self.current.directives);
        }
    }

    fn is_in_upstream(&self) -> bool {
        self.current.head.as_ref().is_some_and(|head| head.name.value == b"upstream")
    }

    /// Replaces an `include` by the included directives; returns false if `include` is an ordinary entry.
    fn include(&mut self, name: &Word, args: &[Word]) -> bool {
        if self.current.body == Body::PlainEntries {
            return false;
        }
        if let [mask] = args {
            self.includer.include(mask, self.current.body, &mut self.current.directives);
        } else {
            let last = args.last().unwrap_or(name);
            let message = "invalid number of arguments in \"include\" directive";
            let diagnostic = Diagnostic::error(name.span.to(last.span), message);
            self.includer.report(diagnostic.with_hint("it takes 1 argument: `include file | mask;`"));
        }
        true
    }

    fn open_block(&mut self, open: Span) {
        if self.is_quantifier(open) {
            let hint = "a regular expression that contains `{`, `}` or `;` must be in quotes";
            if !std::mem::replace(&mut self.damaged, true) {
                self.includer.report(Diagnostic::error(open, "unexpected \"{\"").with_hint(hint));
            }
            return;
        }
        if self.includer.depth >= NESTING_MAX {
            let message = format!("blocks are nested deeper than {NESTING_MAX}");
            self.includer.report_and_stop(Diagnostic::error(open, message).with_hint("is a `}` missing further up?"));
            return;
        }
        let indent = self.words.first().and_then(|name| self.indent(name.span));
        let reported = self.damaged;
        let head = self.take_words().map(|(name, args, damaged)| Head { name, args, open, damaged });
        let mut body = Body::Directives;
        match &head {
            None if reported => {}
            None => self.unexpected(open, "{"),
            Some(head) if self.current.body != Body::Directives => {
                let hint = format!("`{}` is an entry here, and entries have no block", head.name.text());
                self.includer.report(Diagnostic::error(open, "unexpected \"{\"").with_hint(hint));
            }
            Some(head) if self.text == Text::CommandLine => {
                let message = "block directives are not supported in -g option";
                self.includer.report(Diagnostic::error(head.name.span.to(open), message));
            }
            Some(head) if head.name.value == b"include" => {
                let message = "directive \"include\" is not terminated by \";\"";
                self.includer.report(Diagnostic::error(head.name.span.to(open), message));
            }
            Some(head) => body = Body::of_block(&head.name.value),
        }
        self.includer.depth += 1;
        let frame = Frame { head, body, directives: Vec::new(), indent };
        self.frames.push(std::mem::replace(&mut self.current, frame));
    }

    /// Whether a brace belongs to a quantifier such as `\d{3}` in an unquoted pattern. nginx opens a block there and
    /// fails at the directive `3}`. No directive begins with a digit, but entries may, so after `types{` it is a block.
    fn is_quantifier(&self, open: Span) -> bool {
        let touches = self.words.last().is_some_and(|word| word.quote == Quote::Bare && word.span.end == open.start);
        let is_entries = self.words.first().is_some_and(|name| Body::of_block(&name.value) != Body::Directives);
        let inside = &self.bytes[open.end as usize..];
        let len = inside.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b',').count();
        touches && !is_entries && inside.first().is_some_and(u8::is_ascii_digit) && inside.get(len) == Some(&b'}')
    }

    fn close(&mut self, close: Span) {
        if let Some(last) = self.words.last() {
            if !self.damaged {
                let name = self.words[0].text();
                let message = format!("directive \"{name}\" is not terminated by \";\"");
                let diagnostic = Diagnostic::error(self.words[0].span.to(last.span), message)
                    .with_related(close, "unexpected \"}\"")
                    .with_hint(format!("put `;` after `{}`", last.text()));
                self.includer.report(diagnostic);
            }
            let end = last.span.after();
            self.finish_directive(end);
        }
        self.damaged = false;
        if self.frames.is_empty() {
            self.surplus_close(close);
            return;
        }
        if let (Some(block), Some(brace)) = (self.current.indent, self.indent(close))
            && block != brace
        {
            self.remember_misfit(close);
        }
        self.close_frame(close);
    }

    fn surplus_close(&mut self, close: Span) {
        self.includer.notes.unbalanced = true;
        let mut diagnostic = Diagnostic::error(close, "unexpected \"}\"");
        if let Some(misfit) = self.misfit.take() {
            diagnostic = diagnostic
                .with_related(misfit.at, "by its indentation this does not belong here")
                .with_related(misfit.head, "it closes the block opened here");
        }
        self.includer
            .report(diagnostic.with_hint("no block is open here: remove a `}`, or add the missing `{` further up"));
    }

    fn close_frame(&mut self, close: Span) {
        let Some(outer) = self.frames.pop() else { return };
        self.includer.depth -= 1;
        let frame = std::mem::replace(&mut self.current, outer);
        // A block without a name was reported at its `{`; its contents are dropped.
        let Some(Head { name, args, open, damaged }) = frame.head else { return };
        let span = name.span.to(close);
        if damaged || self.current.body != Body::Directives {
            self.includer.notes.damaged.insert(span);
        }
        if name.value == b"include" || self.text == Text::CommandLine {
            return;
        }
        let mut directives = frame.directives;
        directives.shrink_to_fit();
        self.current.directives.push(Directive {
            name,
            args,
            block: Some(Arc::new(Block { directives, open, close })),
            span,
        });
    }

    fn end(&mut self, end: Span) {
        if let Some(last) = self.words.last() {
            let place = self.words[0].span.to(last.span);
            let end = last.span.after();
            if !self.damaged {
                let message = match self.text {
                    Text::File(_) => "unexpected end of file, expecting \";\" or \"}\"",
                    Text::CommandLine => "unexpected end of parameter, expecting \";\"",
                };
                let hint = format!("directive \"{}\" is not terminated by \";\"", self.words[0].text());
                self.includer.report(Diagnostic::error(place, message).with_hint(hint));
            }
            self.finish_directive(end);
        }
        if let Some(frame) = self.innermost_named() {
            let head = frame.name.span.to(frame.open);
            self.missing_close(head, end);
        }
        self.unwind();
    }

    fn innermost_named(&self) -> Option<&Head> {
        std::iter::once(&self.current).chain(self.frames.iter().rev()).find_map(|frame| frame.head.as_ref())
    }

    fn missing_close(&mut self, head: Span, end: Span) {
        self.includer.notes.unbalanced = true;
        let message = "unexpected end of file, expecting \"}\"";
        let (place, related) = match self.misfit.take() {
            Some(misfit) => (misfit.head, (misfit.at, "by its indentation a `}` is missing before this")),
            None => (head, (end, "the file ends here")),
        };
        let name = self.raw(place).split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let hint = format!("the block of `{}` that opens here is not closed", String::from_utf8_lossy(name));
        self.includer.report(Diagnostic::error(place, message).with_related(related.0, related.1).with_hint(hint));
    }

    /// Closes all open blocks at the end of the text, so that the tree holds everything that was read.
    fn unwind(&mut self) {
        while !self.frames.is_empty() {
            let last = self.current.directives.last().map(|directive| directive.span);
            let open = self.current.head.as_ref().map(|head| head.open);
            match (open, last) {
                // The last directive may come from an included file, where this block cannot close.
                (Some(open), Some(last)) if last.file == open.file => self.close_frame(last.after()),
                (Some(open), _) => self.close_frame(open.after()),
                (None, _) => {
                    let at = Span { start: 0, end: 0, file: self.lexer.file() };
                    self.close_frame(at);
                }
            }
        }
    }

    fn unexpected(&mut self, at: Span, mark: &str) {
        let hint = format!("there is no directive before this `{mark}`");
        self.includer.report(Diagnostic::error(at, format!("unexpected \"{mark}\"")).with_hint(hint));
    }

    fn fault(&mut self, fault: &Fault) {
        self.damaged = true;
        match *fault {
            Fault::AfterQuote { quoted, next } => self.after_quote(quoted, next),
            Fault::Unclosed { quote } => {
                let message = match self.text {
                    Text::File(_) => "unexpected end of file, expecting \";\" or \"}\"",
                    Text::CommandLine => "unexpected end of parameter, expecting \";\"",
                };
                let mark = char::from(self.raw(quote)[0]);
                let hint = format!("the quote that opens here is not closed: add `{mark}`");
                self.includer.report(Diagnostic::error(quote, message).with_hint(hint));
                self.resume_on_next_line(quote);
            }
            Fault::TooLong { start, quote: Quote::Bare } => {
                let end = (start.start as usize + 10).min(self.bytes.len());
                let beginning = String::from_utf8_lossy(&self.bytes[start.start as usize..end]);
                let message = format!("too long parameter \"{beginning}...\" started");
                self.includer.report(Diagnostic::error(start, message));
            }
            Fault::TooLong { start, .. } => {
                let mark = char::from(self.raw(start)[0]);
                let message = format!("too long parameter, probably missing terminating \"{mark}\" character");
                self.includer.report(Diagnostic::error(start, message).with_hint("the quote opens here"));
                self.resume_on_next_line(start);
            }
        }
    }

    fn after_quote(&mut self, quoted: Span, next: Span) {
        let shown = match self.raw(next)[0] {
            byte @ 0x20..0x7f => char::from(byte).to_string(),
            byte => format!("\\x{byte:02X}"),
        };
        let diagnostic = Diagnostic::error(next, format!("unexpected \"{shown}\""));
        if self.raw(quoted).contains(&b'\n') {
            // A quote that spans lines and ends inside a word probably lacks its closing quote on the line on which it
            // opens.
            let opening = Span { end: quoted.start + 1, ..quoted };
            let mark = char::from(self.raw(opening)[0]);
            let diagnostic = diagnostic.with_related(opening, "the quote opens here");
            self.includer.report(diagnostic.with_hint(format!("is the closing `{mark}` missing on that line?")));
            self.resume_on_next_line(quoted);
        } else if shown == "}" {
            self.includer.report(
                diagnostic.with_related(quoted, "this is not terminated by \";\"").with_hint("put `;` before `}`"),
            );
        } else {
            let hint = "a space, `;`, `{` or `)` must follow a closing quote; a quote inside quotes is written `\\\"`";
            self.includer.report(diagnostic.with_hint(hint));
        }
    }

    /// Ends the damaged directive at the end of the line on which a quote opened: the next line is most likely correct.
    fn resume_on_next_line(&mut self, quote: Span) {
        let start = quote.start as usize;
        let line =
            self.bytes[start..].iter().position(|&byte| byte == b'\n').map_or(self.bytes.len(), |len| start + len);
        self.lexer.seek(line as u32);
        // The quoted word is not among the words if the quote was never closed.
        while self.words.last().is_some_and(|word| word.span.start >= quote.start) {
            self.words.pop();
        }
        // A damaged block head such as `location "/a {` still opens its block.
        let rest = self.bytes[start..line].trim_ascii_end();
        let at = Span { start: line as u32, end: line as u32, ..quote };
        if rest.ends_with(b"{") && !self.words.is_empty() {
            self.open_block(at);
        } else {
            self.finish_directive(at);
        }
        self.damaged = false;
    }

    /// Column of a token, if it is the first of its line.
    fn indent(&self, at: Span) -> Option<u32> {
        let before = &self.bytes[..at.start as usize];
        let blanks = before.iter().rev().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        let start = before.len() - blanks;
        (start == 0 || before[start - 1] == b'\n').then_some(blanks as u32)
    }

    fn compare_indent(&mut self, name: Span) {
        if self.misfit.is_none()
            && let Some(block) = self.current.indent
            && let Some(indent) = self.indent(name)
            && indent <= block
        {
            self.remember_misfit(name);
        }
    }

    fn remember_misfit(&mut self, at: Span) {
        if self.misfit.is_none()
            && let Some(head) = &self.current.head
        {
            self.misfit = Some(Misfit { head: head.name.span.to(head.open), at });
        }
    }
}
