//! Bytes to tokens, by the grammar of nginx's own tokenizer: words (bare, quoted, with `${…}`), `;`, `{`, `}`, comments.
//! Knows nothing about directives and keeps no state between tokens except its position, so the parser may rewind it.
//! Called by `parse`.

use crate::bytes::ShortBytes;
use crate::source::{FileId, Span};
use crate::tree::{Quote, Word};

/// Longest word. nginx stops at 4,096 bytes, the size of its read buffer, but pages in `return 200 "…"` and long
/// policies in headers are legitimate. The limit keeps the error for a forgotten closing quote near the opening quote.
pub const WORD_BYTES_MAX: usize = 65_536;

/// The next piece of the text.
#[derive(Debug)]
pub(crate) enum Token {
    /// A name or an argument.
    Word(Word),
    /// `;`
    Semicolon(Span),
    /// `{`
    Open(Span),
    /// `}`
    Close(Span),
    /// The end of the text.
    End(Span),
    /// Not a token. The lexer has moved past it and can continue.
    Fault(Fault),
}

/// Why there is no token here.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Something other than a space, `;`, `{` or `)` follows a closing quote directly.
    AfterQuote {
        /// The quoted word.
        quoted: Span,
        /// The byte behind it.
        next: Span,
    },
    /// A quote is never closed.
    Unclosed {
        /// The opening quote.
        quote: Span,
    },
    /// The word is longer than [`WORD_BYTES_MAX`].
    TooLong {
        /// Its first byte.
        start: Span,
        /// How it was quoted.
        quote: Quote,
    },
}

/// Reads tokens from one text.
#[derive(Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    file: FileId,
    at: usize,
    /// The last word was quoted and ends right here.
    after_quote: Option<Span>,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8], file: FileId) -> Self {
        Self { text, file, at: 0, after_quote: None }
    }

    /// The file that the text belongs to.
    pub(crate) fn file(&self) -> FileId {
        self.file
    }

    /// Moves to an offset, as if a space was before it.
    pub(crate) fn seek(&mut self, offset: u32) {
        self.at = (offset as usize).min(self.text.len());
        self.after_quote = None;
    }

    /// Returns the next token. After [`Token::End`] it always returns [`Token::End`].
    pub(crate) fn next(&mut self) -> Token {
        if let Some(quoted) = self.after_quote.take()
            && let Some(&byte) = self.text.get(self.at)
            && !is_space(byte)
            && !matches!(byte, b';' | b'{' | b')')
        {
            return Token::Fault(Fault::AfterQuote { quoted, next: self.span(self.at, self.at + 1) });
        }
        self.skip_space_and_comments();
        let start = self.at;
        let Some(&byte) = self.text.get(start) else { return Token::End(self.span(start, start)) };
        match byte {
            b';' => Token::Semicolon(self.one()),
            b'{' => Token::Open(self.one()),
            b'}' => Token::Close(self.one()),
            b'"' => self.quoted(b'"', Quote::Double),
            b'\'' => self.quoted(b'\'', Quote::Single),
            _ => self.bare(),
        }
    }

    /// A comment begins only where a word could: in `a#b` the `#` is data.
    fn skip_space_and_comments(&mut self) {
        while let Some(&byte) = self.text.get(self.at) {
            if is_space(byte) {
                self.at += 1;
            } else if byte == b'#' {
                let rest = &self.text[self.at..];
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            } else {
                break;
            }
        }
    }

    /// Up to an unescaped space, `;` or `{`. A `}` is data here, and so is the `{` of `${`.
    fn bare(&mut self) -> Token {
        let start = self.at;
        let mut end = start;
        let mut after_dollar = false;
        let mut has_escape = false;
        while let Some(&byte) = self.text.get(end) {
            match byte {
                b'\\' => {
                    has_escape = true;
                    after_dollar = false;
                    end = (end + 2).min(self.text.len());
                    continue;
                }
                b'$' => after_dollar = true,
                // nginx leaves the flag set here: in `${{` both braces are data.
                b'{' if after_dollar => {}
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' => break,
                _ => after_dollar = false,
            }
            end += 1;
        }
        if end - start > WORD_BYTES_MAX {
            self.at = end;
            return Token::Fault(Fault::TooLong { start: self.span(start, start + 1), quote: Quote::Bare });
        }
        self.at = end;
        Token::Word(self.word(start, end, 0, has_escape, Quote::Bare))
    }

    fn quoted(&mut self, mark: u8, quote: Quote) -> Token {
        let start = self.at;
        let mut end = start + 1;
        let mut has_escape = false;
        let limit = self.text.len().min(start + WORD_BYTES_MAX);
        while end < limit {
            match self.text[end] {
                b'\\' => {
                    has_escape = true;
                    end += 2;
                }
                byte if byte == mark => {
                    self.at = end + 1;
                    self.after_quote = Some(self.span(start, end + 1));
                    return Token::Word(self.word(start, end + 1, 1, has_escape, quote));
                }
                _ => end += 1,
            }
        }
        let opening = self.span(start, start + 1);
        self.at = self.text.len().min(end);
        if self.at == self.text.len() {
            Token::Fault(Fault::Unclosed { quote: opening })
        } else {
            Token::Fault(Fault::TooLong { start: opening, quote })
        }
    }

    fn word(&self, start: usize, end: usize, quote_len: usize, has_escape: bool, quote: Quote) -> Word {
        let raw = &self.text[start + quote_len..end - quote_len];
        let value = if has_escape { unescape(raw).into() } else { ShortBytes::from(raw) };
        Word { value, span: self.span(start, end), quote }
    }

    fn one(&mut self) -> Span {
        self.at += 1;
        self.span(self.at - 1, self.at)
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// `\"`, `\'`, `\\`, `\t`, `\r` and `\n` become one byte; any other backslash stays, since regular expressions need it.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        match bytes.as_slice().first() {
            Some(&next @ (b'"' | b'\'' | b'\\')) => value.push(next),
            Some(b't') => value.push(b'\t'),
            Some(b'r') => value.push(b'\r'),
            Some(b'n') => value.push(b'\n'),
            // The next byte is not consumed: it cannot be a backslash, so it is copied as it is.
            _ => {
                value.push(b'\\');
                continue;
            }
        }
        bytes.next();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens as text: words in brackets, marks as they are, faults by name.
    fn lex(text: &str) -> String {
        let mut lexer = Lexer::new(text.as_bytes(), FileId(0));
        let mut out = Vec::new();
        loop {
            out.push(match lexer.next() {
                Token::Word(word) => format!("[{}]", word.text()),
                Token::Semicolon(_) => ";".to_owned(),
                Token::Open(_) => "{".to_owned(),
                Token::Close(_) => "}".to_owned(),
                Token::End(_) => return out.join(" "),
                Token::Fault(Fault::AfterQuote { next, .. }) => {
                    lexer.seek(next.start);
                    "after-quote".to_owned()
                }
                Token::Fault(Fault::Unclosed { .. }) => "unclosed".to_owned(),
                Token::Fault(Fault::TooLong { .. }) => "too-long".to_owned(),
            });
        }
    }

    #[test]
    fn words_end_at_space_semicolon_and_opening_brace() {
        assert_eq!(lex("a b\tc\r\nd;e{f g}"), "[a] [b] [c] [d] ; [e] { [f] [g}]");
        assert_eq!(lex("a b; }"), "[a] [b] ; }");
    }

    #[test]
    fn a_comment_begins_only_where_a_word_could() {
        assert_eq!(lex("a#b c # d ; }\ne;#f"), "[a#b] [c] [e] ;");
    }

    #[test]
    fn braces_of_a_variable_belong_to_the_word() {
        assert_eq!(lex("x${a}y ${b};"), "[x${a}y] [${b}] ;");
        assert_eq!(lex("$a{"), "[$a] {");
        assert_eq!(lex("${{a;"), "[${{a] ;");
        assert_eq!(lex("a$;b"), "[a$] ; [b]");
        assert_eq!(lex("~^/\\d{3}$ {"), "[~^/\\d] { [3}$] {");
    }

    #[test]
    fn escapes_turn_into_bytes_and_others_stay() {
        assert_eq!(lex(r#"a\tb \; a\ b "\"\\\n" '\.\d';"#), "[a\tb] [\\;] [a\\ b] [\"\\\n] [\\.\\d] ;");
        assert_eq!(lex("a\\"), "[a\\]");
    }

    #[test]
    fn quotes_inside_a_word_are_data() {
        assert_eq!(lex(r#"a"b" c'd;"#), "[a\"b\"] [c'd] ;");
        assert_eq!(lex(r#"'a "b" ;{}' "it's";"#), "[a \"b\" ;{}] [it's] ;");
        assert_eq!(lex("\"\" '';"), "[] [] ;");
    }

    #[test]
    fn only_space_semicolon_brace_and_parenthesis_follow_a_quote() {
        assert_eq!(lex(r#"if ($a = "b") {"#), "[if] [($a] [=] [b] [)] {");
        assert_eq!(lex(r#""a"{ "b"; "c"d;"#), "[a] { [b] ; [c] after-quote [d] ;");
        assert_eq!(lex("'a'# x"), "[a] after-quote");
        assert_eq!(lex("'a'}"), "[a] after-quote }");
    }

    #[test]
    fn a_quote_that_is_not_closed_is_a_fault() {
        assert_eq!(lex("a \"b c;\n"), "[a] unclosed");
        assert_eq!(lex("a 'b\\'"), "[a] unclosed");
        assert_eq!(lex("a \"b\\"), "[a] unclosed");
    }

    #[test]
    fn words_may_be_longer_than_nginx_allows_but_not_endless() {
        let long = "x".repeat(WORD_BYTES_MAX);
        assert_eq!(lex(&format!("{long};")), format!("[{long}] ;"));
        assert_eq!(lex(&format!("{long}x;y;")), "too-long ; [y] ;");
        assert!(lex(&format!("a \"{long};")).starts_with("[a] too-long"));
    }

    #[test]
    fn spans_are_right_to_the_byte() {
        let text = b" ab \"c d\";";
        let mut lexer = Lexer::new(text, FileId(0));
        let mut spans = Vec::new();
        loop {
            let span = match lexer.next() {
                Token::Word(word) => word.span,
                Token::Semicolon(span) => span,
                _ => break,
            };
            spans.push(&text[span.start as usize..span.end as usize]);
        }
        assert_eq!(spans, [&b"ab"[..], b"\"c d\"", b";"]);
    }
}
