//! `cargo xtask package-test`: boots a Debian system with nginx in a container (`systemd-nspawn`), and installs, uses,
//! upgrades under load and purges the package in it. The steps are in `packaging/test/install.sh`.
//!
//! By default it packages a debug build, which takes a minute. With `--release` it packages the `dist` build of `cargo
//! xtask package` and starts the image, too.

use super::{Build, deb, program};
use crate::workspace::{Workspace, find_program, heading, in_ci, output_of, run, shown};
use anyhow::{Context as _, Result, bail};
use program::Arch;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Options of `cargo xtask package-test`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Test packages of a `dist` build
    #[arg(long)]
    release: bool,
    /// Package this program, which must be built already
    #[arg(long, value_name = "FILE", conflicts_with = "release")]
    binary: Option<PathBuf>,
}

/// The oldest supported Debian.
const SUITE: &str = "bookworm";
/// Packages of the system besides the essential ones.
const PACKAGES: &str = "adduser,curl,dbus,lintian,logrotate,nginx-light,procps,systemd,systemd-sysv";
/// The whole test takes about 40 s; a busy machine may need several times as long.
const DEADLINE: Duration = Duration::from_mins(5);

/// The unit that runs the test in the container.
const UNIT: &str = "[Unit]\nDescription=Test of the package\nAfter=nginx.service dbus.service\n\
                    [Service]\nType=oneshot\nExecStart=/bin/sh /packages/install.sh\n\
                    StandardOutput=append:/packages/log\nStandardError=append:/packages/log\n";

/// Runs the task.
pub(crate) fn run_test(workspace: &Workspace, args: &Args) -> Result<()> {
    if let Err(missing) = check_needs() {
        if in_ci() {
            return Err(missing);
        }
        println!("NOT TESTED: the package was not installed: {missing:#}");
        return Ok(());
    }
    let begun = Instant::now();
    let debs = packages(workspace, args)?;
    let system = workspace.target("package").join("system");
    unpack(&provide_system(workspace)?, &system)?;
    prepare(workspace, &system, &debs)?;

    heading("installing the package in a booted Debian");
    let booted = boot(&system);
    let packages = system.join("packages");
    print!("{}", fs::read_to_string(packages.join("log")).unwrap_or_default());
    booted?;
    match fs::read_to_string(packages.join("result")) {
        Ok(result) if result.trim() == "passed" => {
            remove(&system)?;
            if args.release {
                start_image(workspace)?;
            }
            println!("\nthe package test passed in {:.0} s", begun.elapsed().as_secs_f64());
            Ok(())
        }
        Ok(result) => bail!("the package test failed at: {} ({} is kept)", result.trim(), system.display()),
        Err(_) => bail!("the system ended without a result ({} is kept)", system.display()),
    }
}

fn check_needs() -> Result<()> {
    let needs = [("mmdebstrap", "mmdebstrap"), ("systemd-nspawn", "systemd-container"), ("dpkg-deb", "dpkg")];
    for (name, package) in needs {
        if find_program(name).is_none() {
            bail!("{name} is missing. On Debian: apt-get install {package}");
        }
    }
    if !rustix::process::geteuid().is_root() {
        bail!("booting a container takes root");
    }
    Ok(())
}

/// Makes two packages that differ in their revision.
fn packages(workspace: &Workspace, args: &Args) -> Result<[PathBuf; 2]> {
    let arch = native_arch();
    let program = match (&args.binary, args.release) {
        (Some(file), _) => file.clone(),
        (None, true) => program::build(workspace, arch, program::Linking::Dynamic)?,
        (None, false) => program::native(workspace, arch, None)?,
    };
    let mut debs = Vec::new();
    for revision in [1, 2] {
        let mut build = Build::new(workspace, arch, revision)?;
        if !args.release {
            build.compression = 1;
        }
        debs.push(deb::write(&build, &program, &program)?);
    }
    debs.try_into().ok().context("two packages were made")
}

/// The system as an archive, made once and kept in `target/peers`.
fn provide_system(workspace: &Workspace) -> Result<PathBuf> {
    let home = workspace.target("peers");
    fs::create_dir_all(&home)?;
    let archive = home.join(format!("debian-{SUITE}.tar"));
    let stamp = home.join(format!("debian-{SUITE}.stamp"));
    if archive.is_file() && fs::read_to_string(&stamp).is_ok_and(|text| text == PACKAGES) {
        return Ok(archive);
    }
    heading(&format!("a Debian {SUITE} with nginx and lintian"));
    let partial = home.join(format!("debian-{SUITE}.partial.tar"));
    let mut make = Command::new("mmdebstrap");
    make.args(["--quiet", "--variant=minbase", &format!("--include={PACKAGES}"), SUITE]).arg(&partial);
    output_of(make.arg("http://deb.debian.org/debian"))?;
    fs::rename(&partial, &archive)?;
    fs::write(stamp, PACKAGES)?;
    Ok(archive)
}

fn unpack(archive: &Path, system: &Path) -> Result<()> {
    remove(system)?;
    fs::create_dir_all(system)?;
    run(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(system))
}

fn remove(system: &Path) -> Result<()> {
    match fs::remove_dir_all(system) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", system.display()))
        }
        _ => Ok(()),
    }
}

fn prepare(workspace: &Workspace, system: &Path, debs: &[PathBuf; 2]) -> Result<()> {
    let folder = system.join("packages");
    fs::create_dir(&folder)?;
    for (deb, name) in debs.iter().zip(["old.deb", "new.deb"]) {
        fs::copy(deb, folder.join(name))?;
    }
    fs::copy(workspace.root.join("packaging/test/install.sh"), folder.join("install.sh"))?;
    let units = system.join("etc/systemd/system");
    fs::write(units.join("package-test.service"), UNIT)?;
    fs::create_dir_all(units.join("multi-user.target.wants"))?;
    std::os::unix::fs::symlink("../package-test.service", units.join("multi-user.target.wants/package-test.service"))?;
    Ok(())
}

/// Makes the image and starts its root filesystem without a container runtime.
fn start_image(workspace: &Workspace) -> Result<()> {
    let arch = native_arch();
    super::run(workspace, &super::Args { arch, format: vec![super::Format::Image], binary: None, revision: 1 })?;
    heading("starting the image's root filesystem");
    let folder = workspace.target("package").join(format!("image-{}", arch.debian()));
    let mut unshare = Command::new("timeout");
    unshare
        .args(["60", "unshare", "--net", "--mount", "--pid", "--fork", "sh"])
        .arg(workspace.root.join("packaging/test/image.sh"));
    run(unshare.arg(folder))
}

fn native_arch() -> Arch {
    if Arch::Amd64.is_native() { Arch::Amd64 } else { Arch::Arm64 }
}

#[allow(clippy::disallowed_methods)] // polls another process under a deadline
/// Boots the system in a separate network with loopback only, and waits until it has powered off.
fn boot(system: &Path) -> Result<()> {
    let console = system.with_extension("console");
    let output = File::create(&console)?;
    let mut nspawn = Command::new("systemd-nspawn");
    nspawn.args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network", "--console=pipe"]);
    nspawn.arg("--directory").arg(system);
    nspawn.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let mut child = nspawn.spawn().with_context(|| format!("cannot start {}", shown(&nspawn)))?;
    let begun = Instant::now();
    while begun.elapsed() < DEADLINE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    child.wait()?;
    bail!("the system did not power off within {} s; its console: {}", DEADLINE.as_secs(), console.display());
}
