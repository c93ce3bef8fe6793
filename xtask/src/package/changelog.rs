//! The changelog of the Debian package, generated from the workspace's. Debian requires a version, a date and a
//! maintainer for each entry.

use super::Build;
use super::contents::read;
use anyhow::{Context as _, Result};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// The maintainer of the package.
pub(super) const MAINTAINER: &str = "Holdfast contributors <packages@holdfast.example>";

/// Debian's width of a changelog line.
const WIDTH: usize = 78;

/// The whole file.
pub(super) fn text(build: &Build<'_>) -> Result<String> {
    let ours = String::from_utf8_lossy(&read(&build.workspace.root.join("CHANGELOG.md"))?).into_owned();
    let date = OffsetDateTime::from_unix_timestamp(i64::try_from(build.epoch_s)?)?;
    let date = date.format(&Rfc2822).context("the time of the last commit cannot be written")?;
    let version = super::deb::version(build);
    let entries: String = entries(&ours).iter().map(|entry| wrapped(entry)).collect();
    Ok(format!("holdfast ({version}) unstable; urgency=medium\n\n{entries}\n -- {MAINTAINER}  {date}\n"))
}

/// The items of the newest section, each on one line and without Markdown.
fn entries(changelog: &str) -> Vec<String> {
    let section = changelog.lines().skip_while(|line| !line.starts_with("## ")).skip(1);
    let mut items: Vec<String> = Vec::new();
    for line in section.take_while(|line| !line.starts_with("## ")) {
        if let Some(item) = line.strip_prefix("* ") {
            items.push(item.to_owned());
        } else if let (Some(item), false) = (items.last_mut(), line.trim().is_empty()) {
            item.push(' ');
            item.push_str(line.trim());
        }
    }
    items.iter().map(|item| item.replace('`', "")).collect()
}

/// An item in Debian's form: an asterisk, and wrapped lines.
fn wrapped(item: &str) -> String {
    let mut lines = vec![String::from("  *")];
    for word in item.split_whitespace() {
        let line = lines.last_mut().expect("it begins with one");
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.trim() != "*" {
            lines.push(format!("    {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_the_newest_section_are_wrapped() {
        let found =
            entries("# Changelog\n\nText.\n\n## 0.2.0\n\n* One `thing`\n  goes on.\n* Two.\n\n## 0.1.0\n\n* Old.\n");
        assert_eq!(found, ["One thing goes on.", "Two."]);
        let long = "word ".repeat(40);
        assert!(
            wrapped(&long)
                .lines()
                .all(|line| line.len() <= WIDTH && line.starts_with("    ") | line.starts_with("  * "))
        );
    }
}
