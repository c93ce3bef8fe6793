//! Properties of the parser over generated trees and arbitrary bytes.

use crate::support::Files;
use conf::source::SourceMap;
use conf::tree::Block;
use conf::{Loaded, check, table};
use proptest::collection::vec;
use proptest::prelude::*;

/// A directive without positions.
#[derive(Debug, Clone, PartialEq)]
struct Plain {
    words: Vec<Vec<u8>>,
    block: Option<Vec<Plain>>,
}

fn plain(block: &Block) -> Vec<Plain> {
    let directive = |directive: &conf::tree::Directive| Plain {
        words: std::iter::once(&directive.name).chain(&directive.args).map(|word| word.value.to_vec()).collect(),
        block: directive.block.as_deref().map(plain),
    };
    block.directives.iter().map(directive).collect()
}

/// How a generated word is written: the number selects one of the forms that can hold its bytes.
fn write_word(out: &mut Vec<u8>, word: &[u8], form: u8) {
    let special = |byte: &u8| b" \t\r\n;{}\"'\\#$".contains(byte);
    if form.is_multiple_of(3) && !word.is_empty() && !word.iter().any(special) {
        out.extend_from_slice(word);
        return;
    }
    let mark = if form.is_multiple_of(2) { b'"' } else { b'\'' };
    out.push(mark);
    for &byte in word {
        match byte {
            b'\t' if form.is_multiple_of(5) => out.extend_from_slice(b"\\t"),
            b'\n' if form.is_multiple_of(5) => out.extend_from_slice(b"\\n"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            _ if byte == mark => out.extend_from_slice(&[b'\\', byte]),
            _ => out.push(byte),
        }
    }
    out.push(mark);
}

fn write(out: &mut Vec<u8>, directives: &[Plain], forms: &mut impl Iterator<Item = u8>) {
    for directive in directives {
        for (at, word) in directive.words.iter().enumerate() {
            let form = forms.next().unwrap_or(0);
            if at > 0 {
                out.extend_from_slice([&b" "[..], b"\n\t", b" # a comment; {\r\n "][usize::from(form % 7).min(2)]);
            }
            write_word(out, word, form);
        }
        match &directive.block {
            Some(block) => {
                out.extend_from_slice(b" {\n");
                write(out, block, forms);
                out.extend_from_slice(b"}\n");
            }
            None => out.extend_from_slice(b";"),
        }
    }
}

/// Words of any bytes except NUL, and never `include` or the name of a block of entries.
fn word() -> impl Strategy<Value = Vec<u8>> {
    let letters = proptest::sample::select(b"ab_/.:=${}\\\"';# \t\n\r~^\x80\xff".to_vec());
    vec(letters, 0..40)
}

fn directives() -> impl Strategy<Value = Vec<Plain>> {
    let leaf = vec(word(), 1..5).prop_map(|words| Plain { words, block: None });
    let tree = leaf.prop_recursive(5, 40, 6, |inner| {
        (vec(word(), 1..4), proptest::option::of(vec(inner, 0..6))).prop_map(|(words, block)| Plain { words, block })
    });
    vec(tree, 0..8)
}

fn load(text: Vec<u8>) -> Loaded {
    let mut files = Files::new([("/etc/nginx/a", "x;\n"), ("/etc/nginx/b", "include nginx.conf; y {\n")]);
    files.0.insert("/etc/nginx/nginx.conf".into(), text);
    files.load()
}

fn all_inside(loaded: &Loaded, sources: &SourceMap) {
    let checked = check(loaded, table::all());
    for diagnostic in loaded.diagnostics.iter().chain(&checked) {
        for span in std::iter::once(diagnostic.span).chain(diagnostic.related.iter().map(|related| related.span)) {
            let len = sources.source(span.file).text.len() as u32;
            assert!(span.start <= span.end && span.end <= len, "{diagnostic:?}");
        }
        let shown = diagnostic.render(sources, false);
        assert!(shown.chars().all(|letter| letter == '\n' || letter == '\t' || !letter.is_control()), "{shown:?}");
        let record = diagnostic.record(sources);
        assert!(record.line >= 1 && record.column >= 1, "{record:?}");
    }
}

fn spans_inside(block: &Block, sources: &SourceMap) {
    for directive in &block.directives {
        let text = sources.bytes(directive.span);
        assert!(!text.is_empty(), "{directive:?}");
        for word in std::iter::once(&directive.name).chain(&directive.args) {
            assert!(directive.span.start <= word.span.start && word.span.end <= directive.span.end, "{directive:?}");
        }
        if let Some(block) = &directive.block {
            spans_inside(block, sources);
        }
    }
}

/// Pieces of the language, so that most generated texts get past the first word.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let pieces: [&[u8]; 30] = [
        b"http",
        b"server",
        b"location",
        b"events",
        b"map",
        b"types",
        b"root",
        b"include",
        b"listen",
        b"a",
        b"b",
        b"*",
        b" ",
        b" ",
        b" ",
        b"\n",
        b";",
        b";",
        b"{",
        b"}",
        b"\"",
        b"'",
        b"\\",
        b"$",
        b"${",
        b"#",
        b"{3}",
        b"\0",
        b"\xEF\xBB\xBF",
        b"\xff",
    ];
    proptest::sample::select(pieces.to_vec()).prop_map(<[u8]>::to_vec)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_tree_reads_back_as_itself(tree in directives(), forms in vec(any::<u8>(), 0..200)) {
        let mut text = Vec::new();
        write(&mut text, &tree, &mut forms.into_iter());
        let loaded = load(text);
        prop_assert!(loaded.is_ok(), "{:?}", loaded.diagnostics);
        prop_assert_eq!(plain(&loaded.tree), tree);
        spans_inside(&loaded.tree, &loaded.sources);
    }

    #[test]
    fn no_text_breaks_the_parser(text in vec(any::<u8>(), 0..300)) {
        let loaded = load(text);
        all_inside(&loaded, &loaded.sources);
    }

    #[test]
    fn no_mixture_of_the_languages_parts_breaks_the_parser(pieces in vec(piece(), 0..60)) {
        let loaded = load(pieces.concat());
        all_inside(&loaded, &loaded.sources);
        spans_inside(&loaded.tree, &loaded.sources);
    }
}
