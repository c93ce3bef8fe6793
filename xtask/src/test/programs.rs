//! The test programs of the workspace: built by one command of cargo, which says where each of them is.

use crate::workspace::{Workspace, shown};
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A test program that was built.
#[derive(Debug)]
pub(super) struct Program {
    /// The package and the program, such as `gateway it` or `gateway lib`.
    pub(super) name: String,
    /// Runs all its tests.
    pub(super) command: Command,
}

/// A line that cargo writes about something it has built; other lines are of no use here.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

impl Program {
    /// The program at that path. It is started as cargo would: in the package's folder.
    fn at(executable: &Path, folder: &Path, package: &str, target: &str) -> Program {
        let mut command = Command::new(executable);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        Program { name: format!("{package} {target}"), command }
    }
}

/// Builds the test programs that the arguments of `cargo test` select.
pub(super) fn build(workspace: &Workspace, arguments: &[&str]) -> Result<Vec<Program>> {
    let mut cargo = workspace.cargo();
    cargo.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]).args(arguments);
    let output = cargo.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {}", shown(&cargo)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(&cargo), output.status);
    }
    let programs = programs_of(&String::from_utf8_lossy(&output.stdout));
    if programs.is_empty() {
        bail!("{} named no test program", shown(&cargo));
    }
    Ok(programs)
}

fn programs_of(messages: &str) -> Vec<Program> {
    // cargo says "executable": null for libraries, and other lines have no such key.
    messages.lines().filter_map(|line| serde_json::from_str(line).ok().and_then(program_of)).collect()
}

fn program_of(artifact: Artifact) -> Option<Program> {
    let folder = artifact.manifest_path.parent()?.to_owned();
    let package = folder.file_name().map(|name| name.to_string_lossy().into_owned())?;
    let target = match artifact.target.kind.first()?.as_str() {
        "test" => artifact.target.name,
        kind => kind.to_owned(),
    };
    let executable = artifact.executable.filter(|path| is_test(path))?;
    Some(Program::at(&executable, &folder, &package, &target))
}

/// Test programs are in `deps`; the program that integration tests start is built too, and is not one.
fn is_test(executable: &Path) -> bool {
    executable.parent().is_some_and(|folder| folder.ends_with("deps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_tests_and_leaves_out_libraries_and_the_program_itself() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"executable":"/t/debug/deps/a-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["test"],"name":"it"},"executable":"/t/debug/deps/it-2"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["bin"],"name":"a"},"executable":"/t/debug/a"}
{"reason":"build-finished","success":true}"#;
        let programs = programs_of(messages);
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["a lib", "a it"]);
        assert_eq!(programs[0].command.get_current_dir(), Some(Path::new("/w/crates/a")));
    }
}
