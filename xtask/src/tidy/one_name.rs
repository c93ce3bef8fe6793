//! Rule: in `gateway` and `load`, the largest crates, each name of a type is unique. In other crates a folder is small
//! enough to distinguish two types of one name.

use super::Finding;
use super::source::Source;
use std::collections::BTreeMap;

/// The crates with unique names.
const SOURCES: [&str; 2] = ["crates/gateway/src/", "crates/load/src/"];
/// It replaces a module in a build without that module's feature, so it has the same names.
const STAND_IN: &str = "/absent.rs";

/// A type defined outside of tests: its name, and the file and line.
pub(super) type Defined = (String, (String, usize));

/// The types that a file of the crate defines at its top level.
pub(super) fn collect(source: &Source) -> Vec<Defined> {
    let is_checked = SOURCES.iter().any(|sources| source.path.starts_with(sources));
    if !is_checked || source.path.ends_with(STAND_IN) {
        return Vec::new();
    }
    let name = |item: &syn::Item| {
        let ident = match item {
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Trait(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            _ => return None,
        };
        Some((ident.to_string(), (source.path.clone(), ident.span().start().line)))
    };
    source.syntax.items.iter().filter_map(name).collect()
}

/// Finds names that several files define.
pub(super) fn check(all: Vec<Defined>) -> Vec<Finding> {
    let mut places: BTreeMap<(String, String), Vec<(String, usize)>> = BTreeMap::new();
    for (name, place) in all {
        places.entry((crate_of(&place.0).to_owned(), name)).or_default().push(place);
    }
    let mut findings = Vec::new();
    for ((_, name), places) in places {
        let [(first, _), others @ ..] = &places[..] else { continue };
        for (path, line) in others {
            let text = format!("`{name}` is a type in {first}, too: give one of them a name of its own");
            findings.push(Finding { path: path.clone(), line: *line, rule: "one-name", text });
        }
    }
    findings
}

/// The crate of a file: `gateway` of `crates/gateway/src/lib.rs`.
fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let all = files.iter().flat_map(|(path, text)| collect(&Source::fixture(path, text))).collect();
        check(all).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    #[test]
    fn finds_a_second_type_of_one_name() {
        let one = ("crates/gateway/src/a.rs", "struct Entry;\n#[cfg(test)] mod tests { struct Fixture; }\n");
        let other = ("crates/gateway/src/b.rs", "\nenum Entry { A }\n#[cfg(test)] mod tests { struct Fixture; }\n");
        assert_eq!(found(&[one, other]), [("crates/gateway/src/b.rs".to_owned(), 2)]);
    }

    #[test]
    fn replacement_without_a_feature_has_the_same_names() {
        let lua = ("crates/load/src/script/lua.rs", "struct Threads;");
        assert!(found(&[lua, ("crates/load/src/script/absent.rs", "struct Threads;")]).is_empty());
        assert_eq!(found(&[lua, ("crates/load/src/script/other.rs", "struct Threads;")]).len(), 1);
    }

    #[test]
    fn other_crates_and_other_names_are_free() {
        let one = ("crates/gateway/src/a.rs", "struct Entry; impl Entry {}");
        assert!(found(&[one, ("crates/load/src/a.rs", "struct Entry;")]).is_empty());
        assert!(found(&[("crates/lab/src/a.rs", "struct A;"), ("crates/lab/src/b.rs", "struct A;")]).is_empty());
        assert!(found(&[one, ("crates/gateway/src/b.rs", "type Row = u8; fn entry() {}")]).is_empty());
    }
}
