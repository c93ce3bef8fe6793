//! Rule: the gateway has layers, each a folder of `crates/gateway/src`, and a file may import only from its own layer
//! and from lower ones. A file outside of the layers is a finding, too, so that a new folder must be added to the
//! order.

use super::Finding;
use super::source::{Source, walk};
use proc_macro2::{Span, TokenStream, TokenTree};

/// From the top down.
pub(super) const LAYERS: [&str; 17] = [
    "explain",
    "worker",
    "session",
    "phases",
    "content",
    "exchange",
    "filter",
    "downstream",
    "upstream",
    "connector",
    "tunnel",
    "multiplex",
    "thread",
    "registry",
    "lower",
    "plan",
    "base",
];

/// The folder of the layers.
const FOLDER: &str = "crates/gateway/src/";

/// The position of a layer in the order; higher layers have lower numbers.
pub(super) fn place(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|name| *name == layer)
}

/// The layer of a file, by its folder; `None` if the rule does not concern the file.
pub(super) fn layer_of(path: &str) -> Option<&str> {
    let file = path.strip_prefix(FOLDER).filter(|file| *file != "lib.rs")?;
    file.split('/').next()
}

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Some(layer) = layer_of(&source.path) else { return Vec::new() };
    let finding = |line, text| Finding { path: source.path.clone(), line, rule: "layers", text };
    let Some(own) = place(layer) else {
        return vec![finding(1, format!("`{layer}` is no layer: put the file into one of {}", LAYERS.join(", ")))];
    };
    imports(&source.tokens)
        .into_iter()
        .filter(|(name, _)| place(name).is_some_and(|other| other < own))
        .map(|(name, span)| {
            let line = span.start().line;
            finding(
                line,
                format!("`{layer}` is below `{name}` and must not know it: pass what it needs, or move it up"),
            )
        })
        .collect()
}

/// The first segments of all paths that begin with `crate::`, including those in groups: `use crate::{a, b::c}`.
fn imports(tokens: &TokenStream) -> Vec<(String, Span)> {
    let mut found = Vec::new();
    walk(tokens.clone(), &mut |siblings| {
        for (at, token) in siblings.iter().enumerate() {
            if !matches!(token, TokenTree::Ident(word) if word == "crate") || !is_path_separator(siblings, at + 1) {
                continue;
            }
            match siblings.get(at + 3) {
                Some(TokenTree::Ident(name)) => found.push((name.to_string(), name.span())),
                Some(TokenTree::Group(group)) => found.extend(heads(&group.stream())),
                _ => {}
            }
        }
    });
    found
}

fn is_path_separator(siblings: &[TokenTree], at: usize) -> bool {
    (at..at + 2).all(|at| matches!(siblings.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':'))
}

/// The first word of each item of a group.
fn heads(group: &TokenStream) -> Vec<(String, Span)> {
    let mut found = Vec::new();
    let mut begins = true;
    for token in group.clone() {
        match token {
            TokenTree::Ident(name) if begins => found.push((name.to_string(), name.span())),
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                begins = true;
                continue;
            }
            _ => {}
        }
        begins = false;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::fixture(path, text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn an_upward_import_is_found_however_it_is_written() {
        let text = "use crate::worker::Worker;\nuse crate::{base::close, phases::settle};\nfn f() {\n    crate::content::x();\n}\n";
        assert_eq!(lines("crates/gateway/src/registry/ports.rs", text), [1, 2, 4]);
    }

    #[test]
    fn imports_of_lower_and_own_layers_are_right() {
        let text = "use crate::base::close;\nuse crate::registry::pool;\nuse crate::{plan, NGINX_VERSION};\n";
        assert_eq!(lines("crates/gateway/src/registry/ports.rs", text), [0; 0]);
        assert_eq!(lines("crates/load/src/x.rs", "use crate::worker::Worker;\n"), [0; 0]);
    }

    #[test]
    fn a_file_outside_of_the_layers_is_found() {
        assert_eq!(lines("crates/gateway/src/helpers.rs", "fn f() {}\n"), [1]);
        assert_eq!(lines("crates/gateway/src/lib.rs", "mod base;\n"), [0; 0]);
    }
}
