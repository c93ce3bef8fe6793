//! Peers from PyPI in pinned versions and separate environments, because Debian has no package of them: SSLyze, which
//! scans TLS servers, grpcio, with which tests speak gRPC, the definitions of OpenTelemetry's protocol, and axe, which checks whether
//! everyone can read a page.

use anyhow::{Context as _, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A PyPI package that tests use.
pub(super) struct PythonTool {
    /// The name under `target/peers/bin`.
    pub(super) name: &'static str,
    /// The version that tests are written against.
    pub(super) version: &'static str,
    package: &'static str,
    /// Its environment below `target/peers`.
    folder: &'static str,
    /// The program of the environment to run; Python itself for a package without one.
    program: &'static str,
    /// Further packages that it needs, with their versions.
    with: &'static [&'static str],
    /// Packages that must not be compiled, because that would need compilers and minutes.
    only_binary: &'static str,
}

/// All of them.
pub(super) const TOOLS: [PythonTool; 4] = [
    PythonTool {
        name: "sslyze",
        version: "6.3.1",
        package: "sslyze",
        folder: "python",
        program: "sslyze",
        with: &[],
        only_binary: "nassl,cryptography,pydantic-core",
    },
    PythonTool {
        name: "python-grpc",
        version: "1.76.0",
        package: "grpcio",
        folder: "python-grpc",
        program: "python",
        with: &[],
        only_binary: "grpcio",
    },
    PythonTool {
        name: "python-otlp",
        version: "1.39.1",
        package: "opentelemetry-proto",
        folder: "python-otlp",
        program: "python",
        with: &["grpcio==1.76.0"],
        only_binary: "grpcio,protobuf",
    },
    PythonTool {
        name: "python-axe",
        version: "0.1.0",
        package: "axe-core-python",
        folder: "python-axe",
        program: "python",
        with: &[],
        only_binary: "axe-core-python",
    },
];

/// Installs missing tools. Without Python it prints a reason and skips them; a test that needs one reports that, too.
pub(super) fn provide(home: &Path, bin: &Path) {
    for tool in &TOOLS {
        let PythonTool { name, version, package, .. } = tool;
        let refused = home.join(format!("{name}-refused"));
        let is_there = bin.join(name).is_file();
        if is_there || fs::read_to_string(&refused).is_ok_and(|known| known == *version) {
            continue;
        }
        if let Err(error) = install(tool, home, bin) {
            eprintln!(
                "{name} {version} is left out: {error:#}; `pip install {package}=={version}` by hand puts it on $PATH"
            );
            // One attempt is enough: each further one would wait for the network again.
            let _ = fs::write(refused, version);
        }
    }
}

fn install(tool: &PythonTool, home: &Path, bin: &Path) -> Result<()> {
    let python = home.join(tool.folder);
    quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&python))?;
    let package = format!("{}=={}", tool.package, tool.version);
    let only = ["--only-binary", tool.only_binary];
    quietly(
        Command::new(python.join("bin/pip")).args(["install", "--quiet"]).args(only).arg(&package).args(tool.with),
    )?;
    // Not a link: Python finds its environment by the path with which it is started.
    let (wrapper, program) = (bin.join(tool.name), python.join("bin").join(tool.program));
    fs::write(&wrapper, format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display()))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).context("cannot make it executable")
}

fn quietly(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&said).trim());
    }
    Ok(())
}
