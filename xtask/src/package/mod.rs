//! `cargo xtask package`: makes the packages that operators install: a `.deb`, a tarball with a static program, and an
//! OCI image. All three come from one list of files (`contents`). `cargo xtask package-test` installs the `.deb` into a
//! booted Debian (`test`).
//!
//! It uses Debian's own tools: `dpkg-deb`, `tar`, `buildah`. ADR 38 has the reasons.

mod archive;
mod changelog;
mod contents;
mod deb;
mod image;
mod inventory;
mod program;
pub(crate) mod test;

use crate::workspace::{Workspace, heading, output_of};
use anyhow::{Context as _, Result, bail};
use program::Arch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask package`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The machine that the packages are for
    #[arg(long, value_enum, default_value_t = Arch::Amd64)]
    arch: Arch,
    /// Only these, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Format::Deb, Format::Tar, Format::Image])]
    format: Vec<Format>,
    /// Package this program instead of building one; for `deb` only
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// The Debian revision, the part of the version behind the dash
    #[arg(long, default_value_t = 1)]
    revision: u32,
}

/// A kind of package.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For Debian and Ubuntu, linked to their C library
    Deb,
    /// A static program with everything that belongs to it
    Tar,
    /// An OCI image that holds nothing but the static program and a configuration
    Image,
}

/// The settings shared by all formats of one run.
struct Build<'a> {
    workspace: &'a Workspace,
    arch: Arch,
    /// The workspace's version.
    version: String,
    revision: u32,
    /// Level of xz, 1 to 9: a package that only a test installs need not be small.
    compression: u8,
    /// Time of the last commit in Unix seconds. Every file in a package gets it, so that equal sources make equal
    /// packages.
    epoch_s: u64,
    /// `target/package`.
    out: PathBuf,
}

/// Runs `cargo xtask package`.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.binary.is_some() && args.format != [Format::Deb] {
        bail!("--binary takes a program that is linked to this system's C library: add --format deb");
    }
    let build = Build::new(workspace, args.arch, args.revision)?;
    let mut made = Vec::new();
    // Manual pages and completions come from a program that runs on this machine, for packages of any machine.
    let speaker = program::native(workspace, args.arch, args.binary.as_deref())?;
    if args.format.contains(&Format::Deb) {
        let program = match &args.binary {
            Some(file) => file.clone(),
            None => program::build(workspace, args.arch, program::Linking::Dynamic)?,
        };
        made.push(deb::write(&build, &program, &speaker)?);
    }
    if args.format.iter().any(|format| *format != Format::Deb) {
        let program = program::build(workspace, args.arch, program::Linking::Static)?;
        if args.format.contains(&Format::Tar) {
            made.push(archive::write(&build, &program, &speaker)?);
        }
        if args.format.contains(&Format::Image) {
            made.push(image::write(&build, &program)?);
        }
    }
    heading("packages");
    for file in made {
        println!("{} ({} KB)", file.display(), fs::metadata(&file)?.len() / 1024);
    }
    Ok(())
}

impl<'a> Build<'a> {
    fn new(workspace: &'a Workspace, arch: Arch, revision: u32) -> Result<Self> {
        let text = fs::read_to_string(workspace.root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
        let version = text.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
        let version = version.context("Cargo.toml has no line `version = \"…\"`")?.to_owned();
        let epoch = output_of(Command::new("git").current_dir(&workspace.root).args(["log", "-1", "--format=%ct"]))?;
        let epoch_s = epoch.trim().parse().context("git did not print the time of the last commit")?;
        let out = workspace.target("package");
        fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
        Ok(Self { workspace, arch, version, revision, compression: 6, epoch_s, out })
    }

    /// An empty folder below `target/package` for one format.
    fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.out.join(format!("{name}-{}", self.arch.debian()));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// A file below `packaging/`.
    fn source(&self, path: &str) -> PathBuf {
        self.workspace.root.join("packaging").join(path)
    }

    /// A tool that makes packages: its files get the time of the last commit.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env("SOURCE_DATE_EPOCH", self.epoch_s.to_string()).env("LC_ALL", "C.UTF-8");
        command
    }
}

/// Removes symbols; otherwise a package of a debug build would have 90 MB.
fn strip(build: &Build<'_>, from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new(build.arch.binutils("strip"));
    strip.args(["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note", "-o"]);
    output_of(strip.arg(to).arg(from)).map(drop)
}
