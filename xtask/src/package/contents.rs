//! The contents of a package: one list of files for the `.deb` and the tarball.

use super::{Build, inventory, strip};
use crate::workspace::output_of;
use anyhow::{Context as _, Result, bail};
use flate2::{Compression, GzBuilder};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of files that an operator may change: an upgrade keeps them.
pub(super) const CONFIGURATION: &str = "etc";

/// A folder that becomes a package.
pub(super) struct Tree {
    pub(super) root: PathBuf,
}

impl Tree {
    /// An empty tree; its parent folders must exist.
    pub(super) fn new(root: PathBuf) -> Result<Self> {
        fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
        Ok(Self { root })
    }

    /// Writes a file that every user can read.
    pub(super) fn file(&self, path: &str, bytes: &[u8]) -> Result<()> {
        self.file_with_mode(path, bytes, 0o644)
    }

    pub(super) fn file_with_mode(&self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let file = self.root.join(path);
        self.directory(file.parent().context("a file is in a folder")?)?;
        fs::write(&file, bytes).with_context(|| format!("cannot write {}", file.display()))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Writes a compressed file without name and time in it, so that equal contents give equal files.
    pub(super) fn compressed(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
        encoder.write_all(bytes)?;
        self.file(&format!("{path}.gz"), &encoder.finish()?)
    }

    /// Makes a folder and its parents; the mode does not depend on the builder's umask.
    pub(super) fn directory(&self, path: &Path) -> Result<()> {
        let mut folder = self.root.clone();
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        for part in below.components() {
            folder.push(part);
            if !folder.is_dir() {
                fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
                fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(())
    }

    /// All regular files, relative to the root, sorted.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(&self.root)?.to_owned());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The program, without symbols.
pub(super) fn add_program(build: &Build<'_>, tree: &Tree, path: &str, program: &Path) -> Result<()> {
    tree.file_with_mode(path, b"", 0o755)?;
    let file = tree.root.join(path);
    strip(build, program, &file)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Installs everything from `packaging/`: configuration, welcome page, monitoring files, and the unit.
pub(super) fn add_service(build: &Build<'_>, tree: &Tree) -> Result<()> {
    let copies = [
        ("etc/nginx.conf", "etc/holdfast/nginx.conf"),
        ("etc/mime.types", "etc/holdfast/mime.types"),
        ("etc/conf.d/welcome.conf", "etc/holdfast/conf.d/welcome.conf"),
        ("html/index.html", "usr/share/holdfast/html/index.html"),
        ("systemd/holdfast.service", "usr/lib/systemd/system/holdfast.service"),
        ("systemd/holdfast-record.service", "usr/lib/systemd/system/holdfast-record.service"),
        ("systemd/holdfast-load-agent@.service", "usr/lib/systemd/system/holdfast-load-agent@.service"),
        ("logrotate/holdfast", "etc/logrotate.d/holdfast"),
    ];
    for (from, to) in copies {
        tree.file(to, &read(&build.source(from))?)?;
    }
    for folder in ["prometheus", "grafana", "kubernetes"] {
        for entry in fs::read_dir(build.source(folder))? {
            let file = entry?.file_name();
            let name = file.to_string_lossy();
            // Tests of the rules are not installed.
            if !name.ends_with(".test.yml") {
                tree.file(&format!("usr/share/holdfast/{folder}/{name}"), &read(&build.source(folder).join(&file))?)?;
            }
        }
    }
    add_folder(tree, &build.source("helm"), "usr/share/holdfast/helm")?;
    tree.file_with_mode("usr/share/holdfast/upgrade", &read(&build.source("debian/upgrade"))?, 0o755)?;
    for folder in ["etc/holdfast/sites-enabled", "var/lib/holdfast", "var/log/holdfast"] {
        tree.directory(Path::new(folder))?;
    }
    Ok(())
}

/// A folder with everything below it.
fn add_folder(tree: &Tree, from: &Path, to: &str) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let to = format!("{to}/{}", path.file_name().unwrap_or_default().to_string_lossy());
        if path.is_dir() {
            add_folder(tree, &path, &to)?;
        } else {
            tree.file(&to, &read(&path)?)?;
        }
    }
    Ok(())
}

/// Manual pages and completions, printed by the program itself.
pub(super) fn add_help(tree: &Tree, speaker: &Path) -> Result<()> {
    tree.compressed("usr/share/man/man1/holdfast.1", output_of(Command::new(speaker).arg("man"))?.as_bytes())?;
    let commands = subcommands(&output_of(Command::new(speaker).arg("--help"))?);
    if commands.is_empty() {
        bail!("`{} --help` lists no commands", speaker.display());
    }
    for name in commands {
        let page = output_of(Command::new(speaker).args(["man", &name]))?;
        tree.compressed(&format!("usr/share/man/man1/holdfast-{name}.1"), page.as_bytes())?;
    }
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/holdfast"),
        ("zsh", "usr/share/zsh/vendor-completions/_holdfast"),
        ("fish", "usr/share/fish/vendor_completions.d/holdfast.fish"),
    ] {
        tree.file(path, output_of(Command::new(speaker).args(["completions", shell]))?.as_bytes())?;
    }
    Ok(())
}

/// The names in the list of commands of the long help.
fn subcommands(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).filter_map(|line| {
        let name = line.split_whitespace().next()?;
        (name != "help").then(|| name.to_owned())
    });
    names.collect()
}

/// Licences of the program and of its dependencies, and the list of dependencies.
pub(super) fn add_notices(build: &Build<'_>, tree: &Tree) -> Result<()> {
    let packages = inventory::packages(build)?;
    let doc = "usr/share/doc/holdfast";
    tree.compressed(&format!("{doc}/sbom.cdx.json"), inventory::sbom(build, &packages)?.as_bytes())?;
    tree.compressed(&format!("{doc}/third-party"), inventory::notices(&packages)?.as_bytes())?;
    tree.compressed(&format!("{doc}/changelog"), &read(&build.workspace.root.join("CHANGELOG.md"))?)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_read_from_the_help() {
        let help = "A proxy\n\nUsage: holdfast <COMMAND>\n\nCommands:\n  serve        Start\n  load         Load a server\n               and more\n  help         Print this\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["serve", "load"]);
    }

    #[test]
    fn equal_contents_give_equal_compressed_files() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::new(folder.path().to_owned()).unwrap();
        tree.compressed("a/x", b"text").unwrap();
        tree.compressed("b/y", b"text").unwrap();
        let bytes = |path: &str| fs::read(folder.path().join(path)).unwrap();
        assert_eq!(bytes("a/x.gz"), bytes("b/y.gz"));
        assert_eq!(tree.files().unwrap(), [PathBuf::from("a/x.gz"), PathBuf::from("b/y.gz")]);
    }
}
