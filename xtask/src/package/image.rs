//! The OCI image: `FROM scratch`, the static program, a configuration, an unprivileged user.
//!
//! `target/package/image-ARCH` is the context for `docker build`. If `buildah` is installed, the image is built here,
//! too.

use super::Build;
use super::contents::{self, Tree, read};
use crate::workspace::{find_program, heading, output_of};
use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Writes the folder with the Dockerfile, and the image as an archive if `buildah` is installed. Returns the archive,
/// or the Dockerfile.
pub(super) fn write(build: &Build<'_>, program: &Path) -> Result<PathBuf> {
    heading("the OCI image");
    let folder = build.folder("image")?;
    let tree = Tree::new(folder.join("root"))?;
    contents::add_program(build, &tree, "usr/bin/holdfast", program)?;
    for (from, to) in [
        ("image/nginx.conf", "etc/holdfast/nginx.conf"),
        ("image/passwd", "etc/passwd"),
        ("image/group", "etc/group"),
        ("etc/mime.types", "etc/holdfast/mime.types"),
        ("html/index.html", "usr/share/holdfast/html/index.html"),
    ] {
        tree.file(to, &read(&build.source(from))?)?;
    }
    contents::add_notices(build, &tree)?;
    tree.directory(Path::new("tmp"))?;
    fs::set_permissions(tree.root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    let dockerfile = folder.join("Dockerfile");
    fs::write(&dockerfile, read(&build.source("image/Dockerfile"))?)?;
    if find_program("buildah").is_none() {
        println!(
            "NOT BUILT: buildah is missing. `docker build {}` or `apt-get install buildah` makes the image.",
            folder.display()
        );
        return Ok(dockerfile);
    }
    let archive = build.out.join(format!("holdfast-{}-image-{}.tar", build.version, build.arch.debian()));
    if archive.exists() {
        fs::remove_file(&archive)?;
    }
    let tag = format!("holdfast:{}", build.version);
    // Separate storage: it leaves nothing in the system's, and needs neither a daemon nor a setuid helper.
    let storage = build.out.join("buildah");
    let buildah = |words: &[&str]| {
        let mut command = build.command("buildah");
        command.arg("--root").arg(storage.join("root")).arg("--runroot").arg(storage.join("run"));
        command.args(["--storage-driver", "vfs"]).args(words);
        command
    };
    let mut bud = buildah(&["bud", "--isolation", "chroot", "--format", "docker", "--quiet", "--arch"]);
    bud.args([build.arch.debian(), "--timestamp", &build.epoch_s.to_string(), "--tag", &tag]).arg(&folder);
    output_of(&mut bud)?;
    output_of(buildah(&["push", "--quiet", &tag]).arg(format!("docker-archive:{}:{tag}", archive.display())))?;
    output_of(&mut buildah(&["rmi", "--all", "--force"]))?;
    Ok(archive)
}
