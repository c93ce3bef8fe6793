//! `sub_filter`: replaces texts in a body that comes in pieces. The text that begins first is replaced; of several that begin at
//! the same place, the one that was configured first. As in nginx the case of ASCII letters does not matter.

use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::Arc;

/// Most bytes that one step returns, and most bytes of a replacement. Without this limit a body full of matches would grow by the
/// ratio of the lengths.
const OUT_BYTES_MAX: usize = 64 * 1024;

/// What is sought.
#[derive(Debug)]
pub struct Searcher {
    texts: Vec<Box<[u8]>>,
    length_max: usize,
    /// `None`: too much to seek at once; nothing is found then.
    automaton: Option<AhoCorasick>,
}

impl Searcher {
    /// Texts without regard to case, none of them empty.
    pub fn new(texts: &[&[u8]]) -> Self {
        let build =
            AhoCorasick::builder().ascii_case_insensitive(true).match_kind(MatchKind::LeftmostFirst).build(texts);
        Self {
            texts: texts.iter().map(|text| text.to_ascii_lowercase().into()).collect(),
            length_max: texts.iter().map(|text| text.len()).max().unwrap_or_default(),
            automaton: build.ok(),
        }
    }

    /// The first place from which on the end of the bytes may be the beginning of a text; their length where there is none.
    fn open_end(&self, bytes: &[u8]) -> usize {
        let first = bytes.len().saturating_sub(self.length_max.saturating_sub(1));
        let begins = |at: &usize| {
            let rest = &bytes[*at..];
            self.texts.iter().any(|text| rest.len() < text.len() && text[..rest.len()].eq_ignore_ascii_case(rest))
        };
        (first..bytes.len()).find(begins).unwrap_or(bytes.len())
    }
}

/// The state of replacing in one body.
#[derive(Debug)]
pub struct Substitution {
    searcher: Arc<Searcher>,
    /// In the order of the texts.
    replacements: Vec<Vec<u8>>,
    /// Replacements that are still made; `None` for any number.
    left: Option<usize>,
    /// Received bytes that were not returned yet.
    pending: Vec<u8>,
}

impl Substitution {
    /// `once`: as many replacements are made as there are texts, and no more.
    pub fn new(searcher: Arc<Searcher>, replacements: Vec<Vec<u8>>, once: bool) -> Self {
        let left = once.then_some(replacements.len());
        Self { searcher, replacements, left, pending: Vec::new() }
    }

    /// Takes a piece and appends the bytes that are decided. `last`: nothing follows. `true`: there is more output, and the next
    /// call may pass an empty piece.
    pub fn take(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) -> bool {
        if self.left == Some(0) && self.pending.is_empty() {
            out.extend_from_slice(piece);
            return false;
        }
        self.pending.extend_from_slice(piece);
        let mut at = 0;
        let mut is_full = false;
        while self.left != Some(0) && !is_full {
            let rest = &self.pending[at..];
            let certain = if last { rest.len() } else { self.searcher.open_end(rest) };
            let found = self.searcher.automaton.as_ref().and_then(|automaton| automaton.find(rest));
            let Some(found) = found.filter(|found| found.start() < certain || last) else { break };
            out.extend_from_slice(&rest[..found.start()]);
            if let Some(replacement) = self.replacements.get(found.pattern().as_usize()) {
                out.extend_from_slice(replacement);
            }
            at += found.end();
            self.left = self.left.map(|left| left.saturating_sub(1));
            is_full = out.len() >= OUT_BYTES_MAX;
        }
        if !is_full {
            let rest = &self.pending[at..];
            let certain = if last || self.left == Some(0) { rest.len() } else { self.searcher.open_end(rest) };
            out.extend_from_slice(&rest[..certain]);
            at += certain;
        }
        self.pending.drain(..at);
        is_full
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.pending.capacity() + self.replacements.iter().map(Vec::capacity).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replaced(pairs: &[(&str, &str)], once: bool, body: &[u8], piece: usize) -> String {
        let texts: Vec<&[u8]> = pairs.iter().map(|(text, _)| text.as_bytes()).collect();
        let replacements = pairs.iter().map(|(_, by)| by.as_bytes().to_vec()).collect();
        let mut substitution = Substitution::new(Arc::new(Searcher::new(&texts)), replacements, once);
        let mut out = Vec::new();
        for piece in body.chunks(piece) {
            let mut more = substitution.take(piece, false, &mut out);
            while more {
                let mut next = Vec::new();
                more = substitution.take(b"", false, &mut next);
                out.extend(next);
            }
        }
        while substitution.take(b"", true, &mut out) {}
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn texts_are_replaced_wherever_pieces_end() {
        for piece in 1..12 {
            let all = |pairs: &[(&str, &str)], body: &str| replaced(pairs, false, body.as_bytes(), piece);
            assert_eq!(all(&[("aab", "X")], "aaab aAb aa"), "aX X aa");
            assert_eq!(all(&[("ab", "1"), ("abc", "2")], "abc"), "1c", "the one that was written first");
            assert_eq!(all(&[("abc", "2"), ("ab", "1")], "abc ab"), "2 1");
            assert_eq!(all(&[("bc", "1"), ("abcd", "2")], "abcd abce"), "2 a1e", "the one that begins first");
            assert_eq!(all(&[("x", "")], "axbx"), "ab");
            assert_eq!(all(&[("x", "xx")], "x"), "xx", "what was put in is not looked at");
            assert_eq!(replaced(&[("a", "1"), ("b", "2")], true, b"a a b", piece), "1 1 b");
            assert_eq!(replaced(&[("a", "1")], true, b"ba a", piece), "b1 a");
        }
    }

    #[test]
    fn a_step_gives_a_bounded_number_of_bytes() {
        let replacement = vec![b'y'; 1000];
        let mut substitution = Substitution::new(Arc::new(Searcher::new(&[b"x"])), vec![replacement], false);
        let (mut out, mut total, mut more) = (Vec::new(), 0, substitution.take(&[b'x'; 1000], true, &mut Vec::new()));
        assert!(more);
        while more {
            out.clear();
            more = substitution.take(b"", true, &mut out);
            assert!(out.len() < OUT_BYTES_MAX + 1001);
            total += out.len();
        }
        assert!(total > 900_000);
    }

    proptest! {
        #[test]
        fn the_sizes_of_pieces_do_not_matter(body in "[abAB]{0,60}", piece in 1_usize..70, once: bool) {
            let pairs = [("ab", "-"), ("aab", "+"), ("bbb", "")];
            prop_assert_eq!(
                replaced(&pairs, once, body.as_bytes(), piece),
                replaced(&pairs, once, body.as_bytes(), 1000)
            );
        }
    }
}
