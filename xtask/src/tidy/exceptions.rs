//! The list of lengths over the limit. It only shrinks: an entry must state the exact length. Growth is an error, and
//! so is an entry that is too large or no longer needed.

use super::Finding;
use anyhow::{Context as _, Result, bail};

/// Relative to the workspace root.
pub(super) const FILE: &str = "xtask/tidy-exceptions.txt";

/// A thing that is longer than its rule allows.
pub(super) struct Measure {
    pub(super) rule: &'static str,
    pub(super) path: String,
    /// The function, with its type where it has one.
    pub(super) name: Option<String>,
    pub(super) line: usize,
    pub(super) lines: usize,
    pub(super) lines_max: usize,
}

impl Measure {
    /// The text of an entry: rule, path, and the function's name if there is one.
    fn key(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        format!("{} {}{name}", self.rule, self.path)
    }
}

/// Compares the measured lengths with the list.
pub(super) fn check(listed: &str, measures: &[Measure]) -> Result<Vec<Finding>> {
    let entries = parse(listed)?;
    let mut findings = Vec::new();
    for measure in measures {
        let key = measure.key();
        let allowed = entries.iter().find(|entry| entry.key == key).map_or(measure.lines_max, |entry| entry.lines);
        if measure.lines > allowed {
            let what = measure.name.as_deref().unwrap_or("the file");
            findings.push(Finding {
                path: measure.path.clone(),
                line: measure.line,
                rule: measure.rule,
                text: format!("{what} has {} lines, {allowed} are allowed: look for a split", measure.lines),
            });
        }
    }
    for entry in entries {
        let need = measures.iter().find(|measure| measure.key() == entry.key).map(|measure| measure.lines);
        let text = match need {
            None => format!("`{}` is no longer needed: remove it", entry.key),
            Some(need) if need < entry.lines => {
                format!("`{}` needs {need} lines now, not {}: lower it", entry.key, entry.lines)
            }
            Some(_) => continue,
        };
        findings.push(Finding { path: FILE.to_owned(), line: entry.line, rule: "exception", text });
    }
    Ok(findings)
}

/// The list with every entry lowered to the current length, and without unneeded entries. Comments stay.
pub(super) fn shrink(listed: &str, measures: &[Measure]) -> Result<String> {
    let entries = parse(listed)?;
    let mut shrunk = Vec::new();
    for (index, line) in listed.lines().enumerate() {
        let Some(entry) = entries.iter().find(|entry| entry.line == index + 1) else {
            shrunk.push(line.to_owned());
            continue;
        };
        if let Some(measure) = measures.iter().find(|measure| measure.key() == entry.key) {
            shrunk.push(format!("{} {}", entry.key, measure.lines.min(entry.lines)));
        }
    }
    Ok(shrunk.join("\n") + "\n")
}

struct Entry {
    key: String,
    lines: usize,
    /// Line in the list, counted from 1.
    line: usize,
}

fn parse(listed: &str) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    for (index, text) in listed.lines().enumerate() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let at = || format!("{FILE}:{}", index + 1);
        let (key, lines) = text.rsplit_once(' ').with_context(at)?;
        let lines = lines.parse().with_context(at)?;
        if entries.iter().any(|entry| entry.key == key) {
            bail!("{}: `{key}` is listed twice", at());
        }
        entries.push(Entry { key: key.to_owned(), lines, line: index + 1 });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(name: &str, lines: usize) -> Measure {
        Measure {
            rule: "function-length",
            path: "a.rs".to_owned(),
            name: Some(name.to_owned()),
            line: 9,
            lines,
            lines_max: 70,
        }
    }

    fn texts(listed: &str, measures: &[Measure]) -> Vec<String> {
        check(listed, measures).unwrap().into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn entry_allows_exactly_its_length() {
        let listed = "# why\nfunction-length a.rs f 90\n";
        assert_eq!(texts(listed, &[long("f", 90)]), [""; 0]);
        assert_eq!(
            texts(listed, &[long("f", 91)]),
            ["a.rs:9: [function-length] f has 91 lines, 90 are allowed: look for a split"]
        );
        assert_eq!(
            texts(listed, &[long("f", 80)]),
            ["xtask/tidy-exceptions.txt:2: [exception] `function-length a.rs f` needs 80 lines now, not 90: lower it"]
        );
    }

    #[test]
    fn unlisted_items_use_the_limit_and_stale_entries_fail() {
        assert_eq!(
            texts("function-length a.rs gone 90\n", &[long("f", 71)]),
            [
                "a.rs:9: [function-length] f has 71 lines, 70 are allowed: look for a split",
                "xtask/tidy-exceptions.txt:1: [exception] `function-length a.rs gone` is no longer needed: remove it"
            ]
        );
    }

    #[test]
    fn shrinking_lowers_and_removes_but_never_raises() {
        let listed = "# why\nfunction-length a.rs f 90\nfunction-length a.rs gone 90\nfunction-length a.rs g 90\n";
        let shrunk = shrink(listed, &[long("f", 80), long("g", 99)]).unwrap();
        assert_eq!(shrunk, "# why\nfunction-length a.rs f 80\nfunction-length a.rs g 90\n");
    }

    #[test]
    fn unreadable_line_is_an_error_with_its_place() {
        let error = check("file-length a.rs many\n", &[]).unwrap_err();
        assert!(error.to_string().contains("tidy-exceptions.txt:1"));
        assert!(check("file-length a.rs 700\nfile-length a.rs 800\n", &[]).is_err());
    }
}
