//! Fills the lists in the guide's page of differences from nginx. Each difference that the differential suite accepts
//! has a reason in `accepted.txt`, and each reason names the section of the page that lists it: `@section the reason`.
//! The lists are between `<!-- accepted: section -->` and `<!-- end -->`; the rest of the page is written by hand.

use anyhow::{Result, bail, ensure};

/// The file of the reasons.
pub(super) const ACCEPTED: &str = "crates/gateway/tests/it/differential/accepted.txt";

const BEGIN: &str = "<!-- accepted: ";
const END: &str = "<!-- end -->";

/// One reason, and its section.
struct Reason<'a> {
    section: &'a str,
    text: &'a str,
}

/// The page with new lists.
pub(super) fn fill(page: &str, accepted: &str) -> Result<String> {
    let reasons = reasons(accepted)?;
    let mut out = String::new();
    let mut listed = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        if line == END {
            is_inside = false;
        }
        if !is_inside {
            out.push_str(line);
            out.push('\n');
        }
        let Some(section) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        is_inside = true;
        listed.push(section);
        for reason in reasons.iter().filter(|reason| reason.section == section) {
            out.push_str("* ");
            out.push_str(&shown(reason.text));
            out.push('\n');
        }
    }
    ensure!(!is_inside, "a list has no `{END}`");
    for Reason { section, text } in &reasons {
        ensure!(
            listed.contains(section),
            "the page has no list `{section}`, which {ACCEPTED} names for {text:?}; it has {}",
            listed.join(", ")
        );
    }
    Ok(out)
}

/// Lines without indentation that are not comments.
fn reasons(accepted: &str) -> Result<Vec<Reason<'_>>> {
    let mut reasons = Vec::new();
    for line in accepted.lines().filter(|line| !line.is_empty() && !line.starts_with([' ', '#'])) {
        let Some((section, text)) = line.strip_prefix('@').and_then(|line| line.split_once(' ')) else {
            bail!("{ACCEPTED}: {line:?} names no section of the page: begin it with `@section `");
        };
        reasons.push(Reason { section, text });
    }
    Ok(reasons)
}

/// A reason as a sentence, without the catalogue rows that it cites.
fn shown(text: &str) -> String {
    let is_row = |word: &str| {
        let (letter, number) = word.split_at_checked(1).unwrap_or_default();
        letter.bytes().all(|byte| byte.is_ascii_uppercase()) && number.parse::<u16>().is_ok()
    };
    let text = match text.split_once(": ") {
        Some((rows, text)) if rows.split(' ').all(is_row) => text,
        _ => text,
    };
    // Outside of code an asterisk would begin emphasis, and a bracket a tag.
    let mut is_code = true;
    let parts = text.split('`').map(|part| {
        is_code = !is_code;
        if is_code { part.to_owned() } else { part.replace('*', "\\*").replace('<', "&lt;") }
    });
    let text = parts.collect::<Vec<_>>().join("`");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    const ACCEPTED_TEXT: &str = "# note\n@heads R7 R8: no `*` * here.\n    a/b :: c\n\n@bodies RFC 1: it ends.\n";

    #[test]
    fn a_list_holds_the_reasons_of_its_section() {
        let page = "# T\n<!-- accepted: bodies -->\nold\n<!-- end -->\n<!-- accepted: heads -->\n<!-- end -->\n";
        let expected = "# T\n<!-- accepted: bodies -->\n* RFC 1: it ends.\n<!-- end -->\n<!-- accepted: heads -->\n\
                        * No `*` \\* here.\n<!-- end -->\n";
        assert_eq!(fill(page, ACCEPTED_TEXT).unwrap(), expected);
        assert_eq!(fill(expected, ACCEPTED_TEXT).unwrap(), expected);
    }

    #[test]
    fn a_reason_without_a_list_is_an_error() {
        let page = "<!-- accepted: bodies -->\n<!-- end -->\n";
        assert!(fill(page, ACCEPTED_TEXT).unwrap_err().to_string().contains("no list `heads`"));
        assert!(fill(page, "a reason\n").unwrap_err().to_string().contains("names no section"));
        assert!(fill("<!-- accepted: bodies -->\n", "").is_err());
    }

    #[test]
    fn the_guide_lists_every_accepted_difference() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
        let page = read(super::super::DIFFERENCES);
        let fresh = fill(&page, &read(ACCEPTED)).unwrap();
        assert!(page == fresh, "{} is stale: run `cargo xtask docs`", super::super::DIFFERENCES);
    }
}
