//! The dependencies built into the program: the list of crates (SBOM, `CycloneDX` 1.5) and the notices that their
//! licences require.
//!
//! Both come from `cargo metadata` and `Cargo.lock`. Only crates that the program links count, not those of tests or of
//! the build.

use super::Build;
use crate::workspace::output_of;
use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The crate of the packaged program.
const PROGRAM: &str = "holdfast";

/// One crate that the program links.
pub(super) struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    /// The folder of its sources.
    folder: PathBuf,
    /// Whether it is part of this workspace; the package itself has the notices for those.
    is_ours: bool,
    /// SHA-256 of the crate's archive.
    checksum: Option<String>,
    /// Its own dependencies, as package URLs.
    needs: Vec<String>,
}

impl Package {
    /// Its package URL, by which scanners identify it.
    fn url(&self) -> String {
        url(&self.name, &self.version)
    }
}

fn url(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// The parts of the output of `cargo metadata` that are needed here.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Described {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `None` for a normal dependency, otherwise `dev` or `build`.
    kind: Option<String>,
}

/// All crates that the program links on the building machine, including itself, by name and version.
pub(super) fn packages(build: &Build<'_>) -> Result<Vec<Package>> {
    let mut cargo = build.workspace.cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &build.arch.target()]);
    let metadata: Metadata = serde_json::from_str(&output_of(&mut cargo)?).context("cannot read `cargo metadata`")?;
    let lock = fs::read_to_string(build.workspace.root.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    linked(&metadata, &checksums(&lock)?)
}

fn linked(metadata: &Metadata, checksums: &BTreeMap<String, String>) -> Result<Vec<Package>> {
    let described: BTreeMap<&str, &Described> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    // A crate named `…-src` contains C sources that a build script compiles into the program (`LuaJIT`).
    let sources: BTreeSet<&str> = described
        .values()
        .filter(|package| package.name.ends_with("-src"))
        .map(|package| package.id.as_str())
        .collect();
    let links = |edge: &&Edge| {
        let is_built_in = |kind: &Kind| kind.kind.as_deref() == Some("build") && sources.contains(edge.pkg.as_str());
        edge.dep_kinds.iter().any(|kind| kind.kind.is_none() || is_built_in(kind))
    };
    let nodes: BTreeMap<&str, Vec<&str>> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (node.id.as_str(), node.deps.iter().filter(links).map(|edge| edge.pkg.as_str()).collect()))
        .collect();
    let root = described.values().find(|package| package.name == PROGRAM && package.source.is_none());
    let root = root.with_context(|| format!("the workspace has no crate {PROGRAM}"))?.id.clone();

    let mut reached = BTreeSet::new();
    let mut ahead = vec![root.as_str()];
    while let Some(id) = ahead.pop() {
        if reached.insert(id) {
            ahead.extend(nodes.get(id).into_iter().flatten());
        }
    }
    let urls: BTreeMap<&str, String> =
        described.values().map(|package| (package.id.as_str(), url(&package.name, &package.version))).collect();
    let needs: BTreeMap<String, Vec<String>> = reached
        .iter()
        .map(|id| {
            let needed = nodes.get(id).into_iter().flatten().filter_map(|id| urls.get(id).cloned());
            ((*id).to_owned(), needed.collect())
        })
        .collect();
    let mut found = Vec::new();
    for (id, needs) in needs {
        let Some(package) = described.get(id.as_str()) else { bail!("cargo metadata does not describe {id}") };
        found.push(Package {
            checksum: checksums.get(&url(&package.name, &package.version)).cloned(),
            folder: package.manifest_path.parent().unwrap_or(Path::new("/")).to_owned(),
            is_ours: package.source.is_none(),
            licence: package.license.clone(),
            name: package.name.clone(),
            version: package.version.clone(),
            needs,
        });
    }
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

/// Checksums of the archives by package URL.
fn checksums(lock: &str) -> Result<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock).context("cannot read Cargo.lock")?;
    Ok(lock.package.into_iter().filter_map(|one| Some((url(&one.name, &one.version), one.checksum?))).collect())
}

/// The list as `CycloneDX` 1.5.
pub(super) fn sbom(build: &Build<'_>, packages: &[Package]) -> Result<String> {
    let made = OffsetDateTime::from_unix_timestamp(i64::try_from(build.epoch_s)?)?.format(&Rfc3339)?;
    let licences = |package: &Package| -> Vec<serde_json::Value> {
        // Old crates write `MIT/Apache-2.0` for SPDX' `MIT OR Apache-2.0`.
        package.licence.iter().map(|text| json!({ "expression": text.replace('/', " OR ") })).collect()
    };
    let component = |package: &Package| {
        let mut value = json!({
            "type": if package.name == PROGRAM { "application" } else { "library" },
            "bom-ref": package.url(),
            "name": package.name,
            "version": package.version,
            "purl": package.url(),
            "licenses": licences(package),
        });
        if let Some(checksum) = &package.checksum {
            value["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        value
    };
    let program = packages.iter().find(|package| package.name == PROGRAM).context("the program is in the list")?;
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": made, "component": component(program) },
        "components": packages.iter().filter(|package| package.name != PROGRAM).map(component).collect::<Vec<_>>(),
        "dependencies": packages.iter().map(|package| json!({ "ref": package.url(), "dependsOn": package.needs })).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// The licence texts of all foreign crates, each text once, with the crates that use it.
pub(super) fn notices(packages: &[Package]) -> Result<String> {
    let mut by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = Vec::new();
    for package in packages.iter().filter(|package| !package.is_ours) {
        let name = format!("{} {}", package.name, package.version);
        let texts = licence_files(&package.folder)?;
        if texts.is_empty() {
            without.push(format!("{name}: {}", package.licence.as_deref().unwrap_or("no licence named")));
        }
        for text in texts {
            by_text.entry(text).or_default().insert(name.clone());
        }
    }
    let mut page = String::from("Licences of the libraries that are built into holdfast. Each text is here once.\n");
    let mut sorted: Vec<_> = by_text.into_iter().collect();
    sorted.sort_by(|a, b| a.1.cmp(&b.1));
    for (text, names) in sorted {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        write!(page, "\n{}\n{names}\n\n{}\n", "=".repeat(72), text.trim_end())?;
    }
    if !without.is_empty() {
        write!(page, "\n{}\nPackages without a licence file of their own\n\n{}\n", "=".repeat(72), without.join("\n"))?;
    }
    Ok(page)
}

/// Texts of files with the name of a licence, in the folder and one level below: C sources in a crate have theirs
/// there.
fn licence_files(folder: &Path) -> Result<Vec<String>> {
    const NAMES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];
    let mut found = Vec::new();
    let mut below = Vec::new();
    let mut look = |folder: &Path, below: Option<&mut Vec<PathBuf>>| -> Result<()> {
        let mut folders = Vec::new();
        for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            if path.is_dir() {
                folders.push(path);
            } else if NAMES.iter().any(|begin| name.starts_with(begin)) {
                let text = String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n");
                found.push(text);
            }
        }
        if let Some(below) = below {
            below.extend(folders);
        }
        Ok(())
    };
    look(folder, Some(&mut below))?;
    for folder in below {
        look(&folder, None)?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        let package = |id: &str, source: Option<&str>| {
            json!({ "id": id, "name": id, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source,
                    "manifest_path": format!("/sources/{id}/Cargo.toml") })
        };
        let edge = |to: &str, kind: Option<&str>| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        serde_json::from_value(json!({
            "packages": [package("holdfast", None), package("used", Some("registry")), package("deep", Some("registry")),
                         package("tests", Some("registry")), package("builds", Some("registry")), package("c-src", Some("registry"))],
            "resolve": { "nodes": [
                { "id": "holdfast", "deps": [edge("used", None), edge("tests", Some("dev")), edge("builds", Some("build")), edge("c-src", Some("build"))] },
                { "id": "used", "deps": [edge("deep", None)] }, { "id": "deep", "deps": [] },
                { "id": "tests", "deps": [] }, { "id": "builds", "deps": [] }] }
        }))
        .unwrap()
    }

    #[test]
    fn only_linked_crates_are_listed_with_their_checksums() {
        let lock = "[[package]]\nname = \"deep\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        let found = linked(&metadata(), &checksums(lock).unwrap()).unwrap();
        let names: Vec<&str> = found.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["c-src", "deep", "holdfast", "used"]);
        assert_eq!(found[1].checksum.as_deref(), Some("abc"));
        assert_eq!(found[3].needs, ["pkg:cargo/deep@1.0.0"]);
    }

    #[test]
    fn licences_of_vendored_sources_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("upstream")).unwrap();
        fs::write(folder.path().join("LICENSE-MIT"), "one\r\n").unwrap();
        fs::write(folder.path().join("upstream/COPYRIGHT"), "two").unwrap();
        fs::write(folder.path().join("readme"), "three").unwrap();
        assert_eq!(licence_files(folder.path()).unwrap(), ["one\n", "two"]);
    }
}
