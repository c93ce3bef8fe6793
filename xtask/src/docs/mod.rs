//! `cargo xtask docs`: the pages that are made from code. A test beside each table fails when its page is stale.

mod dashboards;
mod differences;
mod symptoms;

use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;

/// The page of differences from nginx, of which the lists are made and the rest is written by hand.
const DIFFERENCES: &str = "docs/guide/differences.md";

/// Runs the task.
pub(crate) fn write(workspace: &Workspace) -> Result<()> {
    write_page(workspace, "docs/guide/reference.md", &conf::reference::markdown())?;
    write_page(workspace, "docs/guide/doctor-rules.md", &doctor::rules::markdown())?;
    let read =
        |path: &str| fs::read_to_string(workspace.root.join(path)).with_context(|| format!("cannot read {path}"));
    let page = differences::fill(&read(DIFFERENCES)?, &read(differences::ACCEPTED)?)?;
    write_page(workspace, DIFFERENCES, &page)?;
    for page in doctor::log::pages::pages() {
        write_page(workspace, &symptoms::path(page.name), &page.text)?;
    }
    write_page(workspace, symptoms::INDEX, &symptoms::index(&workspace.root)?)?;
    for dashboard in &dashboards::DASHBOARDS {
        write_page(workspace, &format!("packaging/grafana/{}", dashboard.file), &dashboard.text())?;
    }
    Ok(())
}

/// Writes a page, but leaves it alone when nothing changed, so that its time says when it last did.
fn write_page(workspace: &Workspace, path: &str, text: &str) -> Result<()> {
    let file = workspace.root.join(path);
    if fs::read_to_string(&file).is_ok_and(|old| old == text) {
        println!("{path}: up to date");
        return Ok(());
    }
    fs::create_dir_all(file.parent().context("a page is in a folder")?)?;
    fs::write(&file, text).with_context(|| format!("cannot write {path}"))?;
    println!("{path}: written");
    Ok(())
}
