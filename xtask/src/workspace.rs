//! Finds the workspace, and runs other programs for tasks: with a heading, in the root, and with the program's name in
//! errors.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Features of `holdfast` that packages, benches and tests have, and the first build has not (ADR 57).
pub(crate) const FEATURES: &str = "full";

/// The workspace on disk.
pub(crate) struct Workspace {
    /// Absolute path of the folder that holds the root `Cargo.toml`.
    pub(crate) root: PathBuf,
}

impl Workspace {
    /// Finds the root by the manifest folder that `cargo run` sets, or by where this crate was built.
    pub(crate) fn locate() -> Result<Workspace> {
        let manifest =
            std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| OsStr::new(env!("CARGO_MANIFEST_DIR")).to_owned());
        let root = Path::new(&manifest).parent().context("the manifest folder of xtask has no parent")?;
        if !root.join("Cargo.lock").is_file() {
            bail!("{} is not the workspace root: no Cargo.lock there", root.display());
        }
        Ok(Workspace { root: root.to_owned() })
    }

    /// Path for what tasks fetch, build and generate. It does not depend on `CARGO_TARGET_DIR`, because tests and
    /// documents rely on its paths.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        self.root.join("target").join(name)
    }

    /// The cargo of the pinned toolchain, started in the root.
    pub(crate) fn cargo(&self) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root);
        command
    }
}

/// Whether a script, not a person, runs this: missing optional parts are failures then.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// A heading that is easy to find in a long log.
pub(crate) fn heading(text: &str) {
    println!("\n=== {text}");
}

/// Runs a program with its output on the terminal.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a program and returns its standard output; an error includes its standard error.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("{} ended with {}\n{}", shown(command), output.status, stderr.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as a person would type it, shortened if it has many arguments.
pub(crate) fn shown(command: &Command) -> String {
    const ARGUMENTS_MAX: usize = 12; // longer lists of packages would push the error off the screen
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().take(ARGUMENTS_MAX).map(|word| word.to_string_lossy().into_owned()));
    if command.get_args().len() > ARGUMENTS_MAX {
        words.push("…".to_owned());
    }
    format!("`{}`", words.join(" "))
}

/// The first executable file of that name on `$PATH`, then in the folders of system programs.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    lab::stage::process::find_program(name, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_program_reports_its_command_and_output() {
        let error = output_of(Command::new("sh").args(["-c", "echo the reason >&2; exit 3"])).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("the reason") && text.contains("exit status: 3"), "{text}");
    }
}
