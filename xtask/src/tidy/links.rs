//! Rule: a link between documents leads to an existing file and heading, and the handbook's list has each of its pages.
//! A page of the handbook links to the handbook only: the rest of the workspace is not published with it.
//! Links to other sites are not followed.

use super::Finding;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};

/// The handbook's folder.
const HANDBOOK: &str = "docs/guide";
/// Its list of chapters, which mdBook reads.
const SUMMARY: &str = "docs/guide/SUMMARY.md";

/// The headings and links of a document.
#[derive(Default)]
struct Page {
    /// Its headings as fragments, in the form of mdBook and code hosts.
    anchors: BTreeSet<String>,
    /// Line, counted from 1, and the target as written.
    links: Vec<(usize, String)>,
}

/// `documents`: all tracked Markdown files, path and text. `files`: all tracked files.
pub(super) fn check(documents: &BTreeMap<String, String>, files: &BTreeSet<String>) -> Vec<Finding> {
    let pages: BTreeMap<&str, Page> = documents.iter().map(|(path, text)| (path.as_str(), read(text))).collect();
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for (path, page) in &pages {
        for (line, link) in &page.links {
            let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if target.is_empty() { (*path).to_owned() } else { resolve(path, target) };
            let exists = files.contains(&target) || files.iter().any(|file| is_below(file, &target));
            let text = if !exists {
                format!("{target} does not exist")
            } else if is_below(path, HANDBOOK) && !is_below(&target, HANDBOOK) {
                format!("{target} is not part of the handbook: name it without a link")
            } else if !fragment.is_empty()
                && pages.get(target.as_str()).is_some_and(|to| !to.anchors.contains(fragment))
            {
                format!("{target} has no heading #{fragment}")
            } else {
                if *path == SUMMARY {
                    listed.insert(target);
                }
                continue;
            };
            findings.push(Finding { path: (*path).to_owned(), line: *line, rule: "link", text });
        }
    }
    let guide = pages.keys().filter(|path| is_below(path, HANDBOOK) && **path != SUMMARY);
    findings.extend(guide.filter(|path| !listed.contains(**path)).map(|path| {
        let text = format!("this page is not in {SUMMARY}");
        Finding { path: (*path).to_owned(), line: 1, rule: "link", text }
    }));
    findings
}

fn is_below(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || folder.ends_with('/') || rest.starts_with('/'))
}

fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().unwrap_or_default());
                // A repeated heading gets a number.
                let mut anchor = name.clone();
                for n in 1.. {
                    if !page.anchors.contains(&anchor) {
                        break;
                    }
                    anchor = format!("{name}-{n}");
                }
                page.anchors.insert(anchor);
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) if !is_elsewhere(&dest_url) => {
                let line = text[..place.start].matches('\n').count() + 1;
                page.links.push((line, dest_url.into_string()));
            }
            _ => {}
        }
    }
    page
}

fn is_elsewhere(url: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| url.starts_with(scheme))
}

/// Lower case, hyphens for spaces, without punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// A path of the workspace, resolved from the page's folder.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(documents: &[(&str, &str)]) -> Vec<String> {
        let documents: BTreeMap<String, String> =
            documents.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let mut files: BTreeSet<String> = documents.keys().cloned().collect();
        files.insert("examples/html/index.html".to_owned());
        check(&documents, &files).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_that_lead_nowhere_are_found_and_others_are_not() {
        let readme = "# One\n\n## `two` words, once\n\n## One\n\n[a](#one) [b](#one-1) [c](#two-words-once) [d](docs/x.md#there)\n\
                      [e](examples/html) [f](https://example.org/x#y)\n\n[g](#three)\n\n| [h](docs/y.md) |\n|---|\n| [i](docs/x.md#z) |\n";
        let found = found(&[("README.md", readme), ("docs/x.md", "# There\n\n[up](../README.md#one)\n")]);
        let expected = [
            "README.md:10: [link] README.md has no heading #three",
            "README.md:12: [link] docs/y.md does not exist",
            "README.md:14: [link] docs/x.md has no heading #z",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn unlisted_handbook_page_is_found() {
        let listed = [("docs/guide/SUMMARY.md", "* [a](a.md)\n"), ("docs/guide/a.md", "# A\n")];
        assert_eq!(found(&listed), [""; 0]);
        let more = [listed[0], listed[1], ("docs/guide/b.md", "# B\n")];
        assert_eq!(found(&more), ["docs/guide/b.md:1: [link] this page is not in docs/guide/SUMMARY.md"]);
    }

    #[test]
    fn a_link_that_leaves_the_handbook_is_found() {
        let page = "# A\n\n[b](../../examples/html/index.html)\n";
        let found = found(&[("docs/guide/SUMMARY.md", "* [a](a.md)\n"), ("docs/guide/a.md", page)]);
        let expected =
            "docs/guide/a.md:3: [link] examples/html/index.html is not part of the handbook: name it without a link";
        assert_eq!(found, [expected]);
    }
}
