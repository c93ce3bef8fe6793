//! Rule: each file begins with `//!`, which says what the file is, what it is not, and who calls it.

use super::Finding;
use super::source::Source;

pub(super) fn check(source: &Source) -> Option<Finding> {
    (!source.text.starts_with("//!")).then(|| Finding {
        path: source.path.clone(),
        line: 1,
        rule: "file-header",
        text: "begin the file with `//!`: what it is, what it is not, who calls it".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_its_header_is_found() {
        assert_eq!(check(&Source::fixture("a.rs", "//! What it is.\nfn f() {}\n")), None);
        assert!(check(&Source::fixture("a.rs", "// A plain comment.\nfn f() {}\n")).is_some());
        assert!(check(&Source::fixture("a.rs", "\n//! Not on the first line.\n")).is_some());
    }
}
