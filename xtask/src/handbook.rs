//! `cargo xtask handbook`: builds the handbook as a site in `target/book`. It follows the links of the built pages, and
//! checks that the search finds every page.
//!
//! `tidy` checks the links of the sources. This task finds errors that only the built site has: fragments made by
//! mdBook, and missing pages.

use crate::tools::{self, Tool};
use crate::workspace::{Workspace, heading, run};
use anyhow::{Context as _, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Without the features for watching and serving, which need a web server.
const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", features: &["--no-default-features", "--features", "search"] };

/// mdBook's page for printing, which repeats all pages.
const PRINT: &str = "print.html";

/// Runs the task.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let mdbook = tools::provide(workspace, &MDBOOK)?;
    heading("the handbook");
    let book = workspace.target("book");
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("cannot remove {}", book.display()))?;
    }
    run(Command::new(mdbook).arg("build").arg(workspace.root.join("docs/guide")))?;
    let pages = read(&book)?;
    let mut faults = broken_links(&pages);
    faults.extend(unsearchable(&book, &pages)?);
    if !faults.is_empty() {
        bail!("the handbook has {} faults:\n{}", faults.len(), faults.join("\n"));
    }
    println!("{} pages in {}: all links lead somewhere, and the search has all pages", pages.len(), book.display());
    Ok(())
}

/// The fragments and links of a page.
#[derive(Default)]
struct Page {
    anchors: BTreeSet<String>,
    links: Vec<String>,
}

/// All pages by their path in the book.
fn read(book: &Path) -> Result<BTreeMap<PathBuf, Page>> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let file = entry?.path();
            let path = file.strip_prefix(book)?.to_owned();
            if file.is_dir() {
                folders.push(file);
            } else if path.extension().is_some_and(|extension| extension == "html") && path != Path::new(PRINT) {
                pages.insert(path, parse(&fs::read_to_string(&file)?));
            } else {
                pages.entry(path).or_insert_with(Page::default);
            }
        }
    }
    Ok(pages)
}

fn parse(html: &str) -> Page {
    // mdBook puts every attribute into double quotes.
    let values = |name: &str| {
        let parts = html.split(&format!(" {name}=\"")).skip(1).collect::<Vec<_>>();
        parts.into_iter().filter_map(|rest| rest.split('"').next()).map(|value| value.replace("&amp;", "&"))
    };
    Page { anchors: values("id").collect(), links: values("href").chain(values("src")).collect() }
}

fn broken_links(pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, page) in pages.iter().filter(|(path, _)| *path != Path::new("404.html")) {
        for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("data:")) {
            let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { path.clone() } else { resolve(path, target) };
            let fault = match pages.get(&target) {
                // The page for printing repeats all pages with their fragments.
                _ if target == Path::new(PRINT) => continue,
                None => "does not exist",
                Some(to) if !fragment.is_empty() && !to.anchors.contains(fragment) => "has no such heading",
                Some(_) => continue,
            };
            faults.push(format!("{}: {link} {fault}", path.display()));
        }
    }
    faults
}

/// The path that a link on a page refers to.
fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path
}

/// Symptom pages that a search for their log line does not find.
fn unsearchable(book: &Path, pages: &BTreeMap<PathBuf, Page>) -> Result<Vec<String>> {
    let index = pages.keys().find(|path| path.to_string_lossy().starts_with("searchindex"));
    let index = index.context("mdBook made no search index")?;
    let text = fs::read_to_string(book.join(index))?;
    let is_page = |path: &&PathBuf| path.starts_with("symptoms") && path.extension().is_some_and(|end| end == "html");
    let missing = pages.keys().filter(is_page).filter(|path| !text.contains(&*path.to_string_lossy()));
    Ok(missing.map(|path| format!("the search does not have {}", path.display())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_links_and_fragments_are_found() {
        let mut pages = BTreeMap::new();
        pages.insert(
            PathBuf::from("a/x.html"),
            parse(r##"<a href="../y.html#there">1</a><a href="../y.html#gone">2</a><a href="z.html">3</a><a href="https://e/">4</a><h1 id="own"></h1><a href="#own">5</a>"##),
        );
        pages.insert(PathBuf::from("y.html"), parse(r#"<h2 id="there">"#));
        let faults = broken_links(&pages);
        assert_eq!(faults, ["a/x.html: ../y.html#gone has no such heading", "a/x.html: z.html does not exist"]);
    }
}
