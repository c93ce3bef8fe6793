//! The handbook's symptom pages. Those of the doctor's phrases are generated from its table, the others are written by
//! hand, and this module generates the list of all of them.

use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// The list of all pages.
pub(super) const INDEX: &str = "docs/guide/symptoms.md";
/// The folder of the pages.
const FOLDER: &str = "docs/guide/symptoms";

/// The path of a page.
pub(super) fn path(name: &str) -> String {
    format!("{FOLDER}/{name}.md")
}

/// The page that lists all pages by title.
pub(super) fn index(root: &Path) -> Result<String> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(root.join(FOLDER)).context("the folder of symptoms is readable")? {
        let file = entry?.path();
        let text = fs::read_to_string(&file)?;
        let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
        let title = title.with_context(|| format!("{} has no title", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        rows.push((title.to_owned(), name));
    }
    rows.sort_by_key(|(title, _)| title.to_lowercase());
    let mut page = String::from(
        "# Symptoms\n\nOne page for each line that a log or an alert has, with its meaning and its cure. `cargo xtask docs` makes this list. [`holdfast incident`](incidents.md)\nsays what began an incident, from a recording.\n\n",
    );
    for (title, name) in rows {
        writeln!(page, "* [{}](symptoms/{name})", title.replace('[', "\\[").replace(']', "\\]"))?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn generated_pages_and_the_list_are_fresh() {
        for page in doctor::log::pages::pages() {
            let there = fs::read_to_string(root().join(path(page.name))).unwrap_or_default();
            assert!(there == page.text, "{} is stale: run `cargo xtask docs`", path(page.name));
        }
        let there = fs::read_to_string(root().join(INDEX)).unwrap_or_default();
        assert!(there == index(&root()).unwrap(), "{INDEX} is stale: run `cargo xtask docs`");
        let summary = fs::read_to_string(root().join("docs/guide/SUMMARY.md")).unwrap();
        for entry in fs::read_dir(root().join(FOLDER)).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            assert!(summary.contains(&format!("(symptoms/{name})")), "SUMMARY.md does not list symptoms/{name}");
        }
    }

    /// A page written by hand has, on its second line, the words of the program's source that produce its log line.
    #[test]
    fn quoted_lines_match_the_program() {
        let made: Vec<&str> = doctor::log::pages::pages().iter().map(|page| page.name).collect();
        let source = sources(&root().join("crates"));
        let mut checked = 0;
        for entry in fs::read_dir(root().join(FOLDER)).unwrap() {
            let file = entry.unwrap().path();
            if made.contains(&file.file_stem().unwrap().to_str().unwrap()) {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let words = text.lines().nth(1).and_then(|line| line.strip_prefix("<!-- in the source: "));
            let words = words.and_then(|line| line.strip_suffix(" -->"));
            let words = words.unwrap_or_else(|| panic!("{}: the second line names no words", file.display()));
            for part in words.split(" | ") {
                assert!(source.contains(part), "{}: the program has no {part:?}", file.display());
                assert!(text.matches(part).count() > 1, "{}: the page itself has no {part:?}", file.display());
            }
            checked += 1;
        }
        assert!(checked > 8, "{checked} pages");
    }

    /// All Rust sources below a folder, with lines that end in a backslash joined as the compiler does.
    fn sources(folder: &Path) -> String {
        let mut all = String::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(path).unwrap();
                    let mut parts = text.split("\\\n");
                    all.push_str(parts.next().unwrap_or_default());
                    parts.for_each(|part| all.push_str(part.trim_start()));
                }
            }
        }
        all
    }
}
