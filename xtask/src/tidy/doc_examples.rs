//! Rule: a library has `doctest = false` exactly if its documentation has no example. Without that line, `cargo test` lets rustdoc
//! read the whole crate to find nothing, which takes seconds for each crate.

use super::Finding;
use super::source::Source;
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
use std::collections::BTreeMap;

/// The line in `[lib]` of a manifest.
const WITHOUT: &str = "doctest = false";

/// What the rule knows of the crates, by their folders.
#[derive(Default)]
pub(super) struct Examples {
    /// Whether the manifest of a library says that it has no example.
    without: BTreeMap<String, bool>,
    /// Crates with `src/lib.rs`.
    libraries: Vec<String>,
    /// The file and line of the first example.
    first: BTreeMap<String, (String, usize)>,
}

impl Examples {
    /// Notes a manifest.
    pub(super) fn note_manifest(&mut self, path: &str, text: &str) {
        if let Some(folder) = path.strip_suffix("/Cargo.toml") {
            self.without.insert(folder.to_owned(), text.lines().any(|line| line == WITHOUT));
        }
    }

    /// Notes a file of a crate.
    pub(super) fn note_source(&mut self, source: &Source) {
        let Some((folder, inside)) = source.path.split_once("/src/") else { return };
        if inside == "lib.rs" {
            self.libraries.push(folder.to_owned());
        }
        if let Some(line) = first_example(&source.text) {
            self.first.entry(folder.to_owned()).or_insert_with(|| (source.path.clone(), line));
        }
    }

    pub(super) fn check(self) -> Vec<Finding> {
        let finding =
            |path: String, line, text: &str| Finding { path, line, rule: "doc-examples", text: text.to_owned() };
        let all = self.libraries.iter().filter_map(|folder| {
            match (self.without.get(folder)?, self.first.get(folder)) {
                (true, Some((path, line))) => {
                    let text = "this example is never compiled: remove `doctest = false` from the crate's manifest";
                    Some(finding(path.clone(), *line, text))
                }
                (false, None) => {
                    let text = "no example is in the documentation: add `doctest = false` to `[lib]`, which saves a run of rustdoc";
                    Some(finding(format!("{folder}/Cargo.toml"), 1, text))
                }
                _ => None,
            }
        });
        all.collect()
    }
}

/// The line of the first block of code in documentation that rustdoc compiles.
fn first_example(text: &str) -> Option<usize> {
    let mut block: Vec<&str> = Vec::new();
    for (index, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim_start();
        let documents = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        if let Some(documents) = documents {
            block.push(documents.strip_prefix(' ').unwrap_or(documents));
            continue;
        }
        if let Some(at) = example_in(&block.join("\n")) {
            return Some(index + 1 - block.len() + at);
        }
        block.clear();
    }
    None
}

/// Lines before the first example.
fn example_in(documentation: &str) -> Option<usize> {
    let mut events = Parser::new(documentation).into_offset_iter();
    let (_, range) = events.find(|(event, _)| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => true,
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => is_compiled(language),
        _ => false,
    })?;
    Some(documentation.get(..range.start)?.matches('\n').count())
}

/// Whether rustdoc treats a block with these words as Rust.
fn is_compiled(language: &str) -> bool {
    let words = language.split([',', ' ']).filter(|word| !word.is_empty());
    let mut others = words.filter(|word| {
        let known = ["rust", "no_run", "should_panic", "compile_fail"].contains(word);
        !known && !word.starts_with("ignore") && !word.starts_with("edition")
    });
    others.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(manifest: &str, text: &str) -> Vec<(String, usize)> {
        let mut examples = Examples::default();
        examples.note_manifest("crates/a/Cargo.toml", manifest);
        examples.note_source(&Source::parse("crates/a/src/lib.rs", text.to_owned()).unwrap());
        examples.check().into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn only_crates_with_examples_run_rustdoc() {
        let (with, without) = ("[package]\n", "[lib]\ndoctest = false\n");
        let example = "//! A.\n\nfn f() {}\n\n/// B.\n///\n/// ```no_run\n/// f();\n/// ```\nfn g() {}\n";
        let drawing = "//! A.\n//!\n//! ```text\n//! a -> b\n//! ```\n";
        let indented = "//! A.\n//!\n//!     f();\n";
        assert_eq!((found(with, example), found(without, drawing)), (vec![], vec![]));
        assert_eq!(found(without, example), [("crates/a/src/lib.rs".to_owned(), 7)]);
        assert_eq!(found(without, indented), [("crates/a/src/lib.rs".to_owned(), 3)]);
        assert_eq!(found(with, drawing), [("crates/a/Cargo.toml".to_owned(), 1)]);
    }
}
