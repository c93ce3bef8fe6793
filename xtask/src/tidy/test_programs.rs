//! Rule: the integration tests of a crate are one program, `tests/it`. Each further program would be linked separately,
//! with all its dependencies.

use super::Finding;
use super::source::Source;

/// The usual program of each crate, and the names of those that need a process, or names, of their own.
const PROGRAMS: [&str; 4] = ["it", "process", "alone", "under_tls"];

pub(super) fn check(source: &Source) -> Option<Finding> {
    let (_, inside) = source.path.strip_prefix("crates/")?.split_once('/')?;
    let mut parts = inside.strip_prefix("tests/")?.split('/');
    let (first, second) = (parts.next()?, parts.next());
    let name = match (first.strip_suffix(".rs"), second) {
        (Some(name), None) => name,
        (None, Some("main.rs")) if !PROGRAMS.contains(&first) => first,
        _ => return None,
    };
    Some(Finding {
        path: source.path.clone(),
        line: 1,
        rule: "test-programs",
        text: format!(
            "move it to tests/it/{name}.rs or tests/it/{name}/mod.rs, with `mod {name};` in tests/it/main.rs"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_programs_are_found() {
        let is_found = |path| check(&Source::fixture(path, "")).is_some();
        for path in ["crates/a/tests/b.rs", "crates/a/tests/b/main.rs"] {
            assert!(is_found(path), "{path}");
        }
        for path in ["crates/a/tests/it/b.rs", "crates/a/tests/alone/main.rs", "crates/a/src/tests/b.rs"] {
            assert!(!is_found(path), "{path}");
        }
    }
}
