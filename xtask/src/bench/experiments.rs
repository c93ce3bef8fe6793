//! `cargo xtask bench NAME` for benches in the form of experiment files: every `bench/NAME/*.toml`, run by `holdfast
//! lab run` of a `dist` build, with the peers. The files define measurements and claims; the lab runs and judges them.
//! This module builds the program, selects the files and stores the records.

use super::machine::commit;
use crate::peers;
use crate::trained;
use crate::workspace::{FEATURES, Workspace, heading, run as run_program};
use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of every bench that is made of experiment files.
#[derive(clap::Args)]
pub(super) struct Options {
    /// As short as the experiments allow: to see that everything works. Its records stay in target/bench.
    #[arg(long)]
    quick: bool,
    /// This many rounds instead of the experiments' own; below 6 there are figures, and no verdicts.
    #[arg(long)]
    rounds: Option<u32>,
    /// Only these experiments, by the names of their files.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Measure this program instead of a `dist` build of the working tree.
    #[arg(long)]
    holdfast: Option<PathBuf>,
    /// Further options of `holdfast lab run`, such as `--seed 7`, `--arm NAME` or `--control`.
    #[arg(last = true)]
    more: Vec<OsString>,
}

/// The result of one experiment, from the exit code of `holdfast lab run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Holds,
    Fails,
    Open,
}

impl Outcome {
    /// `None`: it could not run, or was interrupted.
    fn of(code: Option<i32>) -> Option<Self> {
        match code {
            Some(0) => Some(Self::Holds),
            Some(3) => Some(Self::Fails),
            Some(4) => Some(Self::Open),
            _ => None,
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Holds => "everything that is claimed holds",
            Self::Fails => "something that is claimed FAILS",
            Self::Open => "nothing fails; something is undecided, void, or was not run",
        }
    }
}

/// Runs the experiments of one bench in the order of their names.
pub(super) fn run(workspace: &Workspace, name: &str, args: &Options) -> Result<()> {
    run_beside(workspace, name, args, None)
}

/// The same with one more folder of programs, searched before `$PATH`.
pub(super) fn run_beside(workspace: &Workspace, name: &str, args: &Options, more: Option<&Path>) -> Result<()> {
    let peers = peers::provide(workspace)?;
    let given = std::env::var_os("HOLDFAST_PEERS").map(PathBuf::from);
    let folders: Vec<&Path> = [given.as_deref().unwrap_or(&peers)].into_iter().chain(more).collect();
    run_with(workspace, name, args, &folders)
}

/// The same with these folders of programs: the first is searched before all others, the rest before `$PATH`.
pub(super) fn run_with(workspace: &Workspace, name: &str, args: &Options, folders: &[&Path]) -> Result<()> {
    let files = files(&workspace.root.join("bench").join(name), &args.only)?;
    let holdfast = match &args.holdfast {
        Some(program) => std::path::absolute(program)?,
        None => build(workspace, "dist")?,
    };
    // Relative to the root, where the command runs, because the record contains the command.
    let out = Path::new("target/bench").join(name);
    let _ = fs::remove_dir_all(workspace.root.join(&out));
    fs::create_dir_all(workspace.root.join(&out))?;
    let mut outcomes = Vec::new();
    for file in files {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        heading(&format!("bench {name}: {stem}"));
        let mut lab = Command::new(&holdfast);
        lab.current_dir(&workspace.root)
            .args(["lab", "run"])
            .arg(Path::new("bench").join(name).join(&stem).with_added_extension("toml"));
        lab.arg("--out").arg(&out).arg("--note").arg(format!("commit={}", commit(workspace)));
        lab.args(args.quick.then_some("--quick"));
        lab.args(args.rounds.map(|rounds| format!("--rounds={rounds}"))).args(&args.more);
        if let Some((first, more)) = folders.split_first() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let more = more.iter().map(|folder| folder.to_path_buf());
            lab.env("HOLDFAST_PEERS", first)
                .env("PATH", std::env::join_paths(more.chain(std::env::split_paths(&path)))?);
        }
        let status = lab.status().with_context(|| format!("cannot start {}", holdfast.display()))?;
        let outcome = Outcome::of(status.code());
        outcomes.push((stem, outcome.with_context(|| format!("{} could not be run to its end", file.display()))?));
    }
    heading(&format!("bench {name}"));
    for (stem, outcome) in &outcomes {
        println!("{stem}: {}", outcome.in_words());
    }
    println!("records, pages and Markdown: {}", out.display());
    // A quick run only tests that everything works; its result is not kept.
    if !args.quick {
        keep(&workspace.root.join(&out), &workspace.root.join("bench/results"))?;
    }
    let failed: Vec<&str> =
        outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Fails).map(|(stem, _)| stem.as_str()).collect();
    if !failed.is_empty() {
        bail!("something that is claimed fails in {}", failed.join(", "));
    }
    Ok(())
}

/// The selected experiment files of a bench.
fn files(folder: &Path, only: &[String]) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut all = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            all.push(path);
        }
    }
    all.sort();
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(unknown) = only.iter().find(|name| !all.iter().any(|path| stem(path) == **name)) {
        let known: Vec<String> = all.iter().map(|path| stem(path)).collect();
        bail!("there is no experiment `{unknown}` in {}: there are {}", folder.display(), known.join(", "));
    }
    all.retain(|path| only.is_empty() || only.contains(&stem(path)));
    Ok(all)
}

/// Builds the working tree with a cargo profile and returns the program's path; `dist` as packages have it.
pub(super) fn build(workspace: &Workspace, profile: &str) -> Result<PathBuf> {
    if profile == "dist" {
        return trained::build(workspace);
    }
    heading(&format!("building holdfast with profile {profile}"));
    run_program(workspace.cargo().args([
        "build",
        "--profile",
        profile,
        "--package",
        "holdfast",
        "--features",
        FEATURES,
    ]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(workspace.root.join(target).join(profile).join("holdfast"))
}

/// Copies the records; `lab report` can make their pages again.
fn keep(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let kept = to.join(path.file_name().unwrap_or_default());
            fs::copy(&path, &kept).with_context(|| format!("cannot copy {}", path.display()))?;
            println!("raw record: {}", kept.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::{Adaptation, Experiment};

    /// Every folder of `bench/` with experiment files, and these files.
    fn benches() -> Vec<(String, Vec<PathBuf>)> {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench");
        let folders = fs::read_dir(&bench).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let named = |folder: PathBuf| {
            (folder.file_name().unwrap().to_string_lossy().into_owned(), files(&folder, &[]).unwrap())
        };
        folders.map(named).filter(|(_, files)| !files.is_empty()).collect()
    }

    #[test]
    fn every_experiment_is_sound_and_named_after_its_file() {
        let benches = benches();
        assert!(!benches.is_empty());
        for (bench, files) in benches {
            for file in files {
                let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
                let loaded = Experiment::read(&file).unwrap_or_else(|refused| panic!("{refused}"));
                let experiment = loaded.experiment;
                assert!(
                    experiment.name == format!("{bench}-{stem}") || experiment.name == bench,
                    "{}",
                    experiment.name
                );
                assert!(
                    !experiment.claims.is_empty() && experiment.method.rounds >= 6,
                    "{} can be judged",
                    file.display()
                );
                let quick = Adaptation { quick: true, ..Adaptation::default() };
                experiment.adapted(&quick).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            }
        }
    }

    #[test]
    fn chosen_files_are_checked_against_the_existing() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.toml", "a.toml", "proxy.conf"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names = |only: &[&str]| -> Result<Vec<String>> {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            let files = files(folder.path(), &only)?;
            Ok(files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect())
        };
        assert_eq!(names(&[]).unwrap(), ["a.toml", "b.toml"]);
        assert_eq!(names(&["b"]).unwrap(), ["b.toml"]);
        let error = names(&["c"]).unwrap_err().to_string();
        assert!(error.contains("no experiment `c`") && error.ends_with("there are a, b"), "{error}");
    }

    #[test]
    fn exit_codes_of_the_lab_are_understood() {
        assert_eq!(
            [0, 3, 4].map(|code| Outcome::of(Some(code))),
            [Outcome::Holds, Outcome::Fails, Outcome::Open].map(Some)
        );
        assert_eq!([Outcome::of(Some(1)), Outcome::of(None)], [None, None]);
    }
}
