//! Builds the program for a package: for this machine or another one, with the C library linked dynamically or
//! statically.

use crate::trained;
use crate::workspace::{FEATURES, Workspace, find_program, heading, output_of, run};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A machine that packages are made for.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Arch {
    /// x86-64
    Amd64,
    /// 64-bit ARM
    Arm64,
}

/// How the C library is linked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Linking {
    /// Dynamically, from the machine that runs the program.
    Dynamic,
    /// Statically (static-pie): the program runs on every Linux.
    Static,
}

impl Arch {
    /// Debian's name of the architecture.
    pub(super) fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Rust's name of the architecture.
    fn rust(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    pub(super) fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.rust())
    }

    pub(super) fn is_native(self) -> bool {
        self.rust() == std::env::consts::ARCH
    }

    /// A GNU tool for this architecture.
    pub(super) fn binutils(self, name: &str) -> String {
        if self.is_native() { name.to_owned() } else { format!("{}-linux-gnu-{name}", self.rust()) }
    }
}

/// Builds `holdfast` with the profile `dist` and returns its path. Takes minutes. The program for this machine is trained
/// first; one for another machine cannot run here, and is not.
pub(super) fn build(workspace: &Workspace, arch: Arch, linking: Linking) -> Result<PathBuf> {
    let target = arch.target();
    let folder = workspace.target(match linking {
        Linking::Dynamic => "package-dynamic",
        Linking::Static => "package-static",
    });
    let trained = if arch.is_native() { trained::flags(&trained::profile(workspace)?) } else { String::new() };
    heading(&format!("building holdfast for {} ({})", arch.debian(), folder.display()));
    let mut cargo = trained::dist_build(workspace, &target, &folder);
    if !arch.is_native() {
        check_cross(arch)?;
        let linker = format!("{}-linux-gnu-gcc", arch.rust());
        cargo.env(format!("CARGO_TARGET_{}_LINKER", target.replace('-', "_").to_uppercase()), linker);
    }
    // With an explicit target this affects only the program, not the build scripts.
    cargo.env(
        "RUSTFLAGS",
        match linking {
            Linking::Dynamic => trained,
            Linking::Static => format!("-Ctarget-feature=+crt-static {trained}"),
        },
    );
    run(&mut cargo)?;
    Ok(folder.join(target).join("dist/holdfast"))
}

/// Checks for a compiler for the other machine, and for Rust's standard library for it.
fn check_cross(arch: Arch) -> Result<()> {
    let compiler = format!("{}-linux-gnu-gcc", arch.rust());
    if find_program(&compiler).is_none() {
        bail!(
            "{compiler} is missing. On Debian: apt-get install gcc-{}-linux-gnu libc6-dev-{}-cross",
            arch.rust(),
            arch.debian()
        );
    }
    let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    if !Path::new(sysroot.trim()).join("lib/rustlib").join(arch.target()).is_dir() {
        bail!("the standard library for {0} is missing: rustup target add {0}", arch.target());
    }
    Ok(())
}

/// A program that runs here with the same help as the packaged one: the packaged one itself, or a debug build if that
/// is for another machine.
pub(super) fn native(workspace: &Workspace, arch: Arch, given: Option<&Path>) -> Result<PathBuf> {
    if let (Some(file), true) = (given, arch.is_native()) {
        return Ok(file.to_owned());
    }
    let mut cargo = workspace.cargo();
    run(cargo.args(["build", "--quiet", "--locked", "--package", "holdfast", "--features", FEATURES]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.root.join("target"), PathBuf::from);
    Ok(target.join("debug/holdfast"))
}

/// The lowest version of the C library that a program needs, from the versions of its symbols, such as `2.34`.
pub(super) fn c_library(program: &Path) -> Result<String> {
    let text = output_of(Command::new("readelf").arg("--version-info").arg("--wide").arg(program))?;
    let Some(version) = newest_version(&text) else {
        bail!("{} names no version of the C library: is it linked statically?", program.display());
    };
    Ok(version)
}

fn newest_version(readelf: &str) -> Option<String> {
    let parts = |version: &str| version.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok();
    let versions = readelf.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
        parts(rest.get(..end)?)
    });
    let newest = versions.max()?;
    Some(newest.iter().map(ToString::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_compared_by_number() {
        let text = "  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 3\n  0x20:   Name: GLIBC_2.34  Flags: none\n\
                    Name: GCC_3.0  Name: GLIBC_2.3.4\n";
        assert_eq!(newest_version(text).as_deref(), Some("2.34"));
        assert_eq!(newest_version("no versions"), None);
    }
}
