//! `cargo xtask docs`: writes the pages that are generated from code. A test for each table fails if its page is
//! outdated.

mod dashboards;
mod differences;
mod symptoms;

use crate::manifests;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::fs;

/// The page of differences from nginx: its lists are generated, the rest is written by hand.
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
        // Helm reads no file outside of the chart.
        write_page(workspace, &format!("{}/files/{}", manifests::CHART, dashboard.file), &dashboard.text())?;
    }
    for (path, text) in manifests::shared_files(workspace)? {
        write_page(workspace, &path, &text)?;
    }
    Ok(())
}

/// Writes a page only if its text has changed, so that the file's time shows the last change.
pub(crate) fn write_page(workspace: &Workspace, path: &str, text: &str) -> Result<()> {
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
