//! Rule: an ignored test gives the reason: `#[ignore = "needs a million ports"]`.

use super::Finding;
use super::source::{Source, walk};
use proc_macro2::TokenTree;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Checks tokens rather than attributes, because tests inside macro calls such as `proptest!` count, too.
    walk(source.tokens.clone(), &mut |siblings| {
        for pair in siblings.windows(2) {
            let [TokenTree::Punct(hash), TokenTree::Group(group)] = pair else { continue };
            if hash.as_char() == '#' && group.stream().to_string() == "ignore" {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: hash.span().start().line,
                    rule: "bare-ignore",
                    text: "say why and when it is run instead: `#[ignore = \"…\"]`".to_owned(),
                });
            }
        }
    });
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_ignore_is_found_also_inside_a_macro_call() {
        let source = Source::fixture(
            "a.rs",
            "#[test]\n#[ignore]\nfn a() {}\nproptest! {\n    #[test]\n    #[ignore]\n    fn b(x in 0..3) {}\n}\n",
        );
        assert_eq!(check(&source).iter().map(|finding| finding.line).collect::<Vec<_>>(), [2, 6]);
    }

    #[test]
    fn a_reason_is_enough_and_other_words_are_not_meant() {
        let source = Source::fixture(
            "a.rs",
            "#[test]\n#[ignore = \"slow\"]\nfn a() { let ignore = [ignore]; }\n// #[ignore]\nconst S: &str = \"#[ignore]\";\n",
        );
        assert_eq!(check(&source), []);
    }
}
