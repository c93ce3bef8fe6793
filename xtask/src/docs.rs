//! `cargo xtask docs`: the pages that are made from code. A test beside each table fails when its page is stale.

use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;

/// A page that nobody edits.
struct Page {
    /// Relative to the root.
    path: &'static str,
    text: fn() -> String,
}

const PAGES: [Page; 2] = [
    Page { path: "docs/guide/reference.md", text: conf::reference::markdown },
    Page { path: "docs/guide/doctor-rules.md", text: doctor::rules::markdown },
];

/// Runs the task.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    for Page { path, text } in PAGES {
        let file = workspace.root.join(path);
        let text = text();
        // Left alone when nothing changed, so that its time says when the page last did.
        if fs::read_to_string(&file).is_ok_and(|old| old == text) {
            println!("{path}: up to date");
            continue;
        }
        fs::create_dir_all(file.parent().context("a page stands in a folder")?)?;
        fs::write(&file, text).with_context(|| format!("cannot write {path}"))?;
        println!("{path}: written");
    }
    Ok(())
}
