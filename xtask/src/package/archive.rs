//! The tarball: a static program for every Linux, with the files of the Debian package that are useful elsewhere.

use super::Build;
use super::contents::{self, Tree, read};
use crate::workspace::{heading, output_of};
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Writes `holdfast-VERSION-linux-ARCH.tar.gz` and returns its path.
pub(super) fn write(build: &Build<'_>, program: &Path, speaker: &Path) -> Result<PathBuf> {
    heading("the tarball");
    let name = format!("holdfast-{}-linux-{}", build.version, build.arch.debian());
    let folder = build.folder("tar")?;
    let tree = Tree::new(folder.join(&name))?;
    contents::add_program(build, &tree, "usr/bin/holdfast", program)?;
    contents::add_service(build, &tree)?;
    contents::add_help(&tree, speaker)?;
    contents::add_notices(build, &tree)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        tree.file(file, &read(&build.workspace.root.join(file))?)?;
    }
    let archive = build.out.join(format!("{name}.tar.gz"));
    let mut tar = build.command("tar");
    tar.arg(format!("--mtime=@{}", build.epoch_s));
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--create", "--use-compress-program"]);
    // Without -n, gzip writes the time of compression into the file.
    tar.args(["gzip -9n", "--file"]).arg(&archive).arg("--directory").arg(&folder).arg(&name);
    output_of(&mut tar)?;
    Ok(archive)
}
