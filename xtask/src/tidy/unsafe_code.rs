//! Rule: `unsafe` is allowed only in the two crates that call the kernel. The workspace lint denies it, too, but a lint
//! can be allowed in one line, and this list cannot.

use super::Finding;
use super::source::{Source, walk};
use proc_macro2::TokenTree;

/// Folders of the crates with system calls.
const ALLOWED: [&str; 2] = ["crates/reactor/", "crates/sockdiag/"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    if ALLOWED.iter().any(|folder| source.path.starts_with(folder)) {
        return findings;
    }
    walk(source.tokens.clone(), &mut |siblings| {
        for token in siblings {
            if let TokenTree::Ident(word) = token
                && word == "unsafe"
            {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: word.span().start().line,
                    rule: "unsafe-code",
                    text: format!("system calls belong in one of {}", ALLOWED.join(" ")),
                });
            }
        }
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_UNSAFE: &str = "fn f(p: *const u8) -> u8 {\n    unsafe { *p }\n}\n";

    #[test]
    fn finds_unsafe_in_pure_crates_only() {
        let found = check(&Source::fixture("crates/http1/src/lib.rs", WITH_UNSAFE));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
        assert_eq!(check(&Source::fixture("crates/reactor/src/sys.rs", WITH_UNSAFE)), []);
    }

    #[test]
    fn ignores_the_word_in_comments_strings_and_lints() {
        let text = "#![deny(unsafe_code)]\n// unsafe\nconst S: &str = \"unsafe\";\n";
        assert_eq!(check(&Source::fixture("crates/conf/src/lib.rs", text)), []);
    }
}
