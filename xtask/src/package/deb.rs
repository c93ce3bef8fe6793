//! The Debian package, made by `dpkg-deb` from a folder. Its scripts are in `packaging/debian`.

use super::contents::{self, CONFIGURATION, Tree, read};
use super::{Build, changelog, program};
use crate::workspace::{heading, output_of};
use anyhow::{Context as _, Result};
use md5::{Digest as _, Md5};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The description that the package manager prints.
const DESCRIPTION: &str = "reverse proxy that reads nginx.conf
 Holdfast is an HTTP/1.1 and WebSocket reverse proxy that is built around its
 pool of upstream connections. It reads nginx.conf and keeps nginx's words,
 flags and signals.
 .
 The same program has a load generator, an observer of TCP connections, a
 doctor for nginx configurations, a capacity planner and a lab for controlled
 experiments.
";

/// The scripts of the package.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The package's version.
pub(super) fn version(build: &Build<'_>) -> String {
    format!("{}-{}", build.version, build.revision)
}

/// Writes `holdfast_VERSION_ARCH.deb` and returns its path.
pub(super) fn write(build: &Build<'_>, program: &Path, speaker: &Path) -> Result<PathBuf> {
    heading("the Debian package");
    let tree = Tree::new(build.folder("deb")?)?;
    contents::add_program(build, &tree, "usr/bin/holdfast", program)?;
    contents::add_service(build, &tree)?;
    contents::add_help(&tree, speaker)?;
    contents::add_notices(build, &tree)?;
    let doc = "usr/share/doc/holdfast";
    tree.compressed(&format!("{doc}/changelog.Debian"), changelog::text(build)?.as_bytes())?;
    for name in ["copyright", "README.Debian"] {
        tree.file(&format!("{doc}/{name}"), &read(&build.source("debian").join(name))?)?;
    }
    tree.file("usr/share/lintian/overrides/holdfast", &read(&build.source("debian/lintian-overrides"))?)?;
    add_control(build, &tree, program)?;

    let deb = build.out.join(format!("holdfast_{}_{}.deb", version(build), build.arch.debian()));
    let mut pack = build.command("dpkg-deb");
    // All files belong to root, independent of the user who builds; every Debian can read xz.
    pack.arg(format!("-z{}", build.compression));
    output_of(pack.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree.root).arg(&deb))?;
    Ok(deb)
}

/// The folder `DEBIAN`: description, scripts, checksums, and the list of files that an upgrade must not replace.
fn add_control(build: &Build<'_>, tree: &Tree, program: &Path) -> Result<()> {
    let files = tree.files()?;
    let mut sums = String::new();
    let mut configuration = String::new();
    let mut bytes = 0;
    for path in &files {
        let content = read(&tree.root.join(path))?;
        bytes += content.len() as u64;
        if path.starts_with(CONFIGURATION) {
            writeln!(configuration, "/{}", path.display())?;
        }
        let sum = Md5::digest(&content).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        writeln!(sums, "{sum}  {}", path.display())?;
    }
    let control = control(build, bytes.div_ceil(1024), &program::c_library(program)?);
    tree.file("DEBIAN/control", control.as_bytes())?;
    tree.file("DEBIAN/conffiles", configuration.as_bytes())?;
    tree.file("DEBIAN/md5sums", sums.as_bytes())?;
    for name in SCRIPTS {
        let script = fs::read(build.source("debian").join(name)).with_context(|| format!("cannot read {name}"))?;
        tree.file_with_mode(&format!("DEBIAN/{name}"), &script, 0o755)?;
    }
    Ok(())
}

fn control(build: &Build<'_>, installed_kb: u64, c_library: &str) -> String {
    format!(
        "Package: holdfast\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: {maintainer}\n\
         Installed-Size: {installed_kb}\n\
         Depends: adduser, libc6 (>= {c_library}), libgcc-s1 (>= 4.2)\n\
         Recommends: logrotate\n\
         Suggests: prometheus\n\
         Section: httpd\n\
         Priority: optional\n\
         Description: {DESCRIPTION}",
        version = version(build),
        arch = build.arch.debian(),
        maintainer = changelog::MAINTAINER,
    )
}
