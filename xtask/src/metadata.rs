//! The workspace's packages from `cargo metadata`: names, folders and declared dependencies.
//!
//! It reads only the workspace's own packages, so it needs neither network nor a resolved graph.

use crate::workspace::{Workspace, output_of};
use anyhow::{Context as _, Result};
use serde::Deserialize;

/// One package of the workspace.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a package's dependency tables.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for a normal dependency, otherwise `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// The folder of a dependency inside this workspace.
    pub(crate) path: Option<String>,
}

impl Package {
    /// Whether any table of the package names the crate.
    pub(crate) fn depends_on(&self, name: &str) -> bool {
        self.dependencies.iter().any(|dependency| dependency.name == name)
    }
}

/// The packages of the workspace, in cargo's order.
pub(crate) fn packages(workspace: &Workspace) -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let text = output_of(workspace.cargo().args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Metadata = serde_json::from_str(&text).context("cannot read what `cargo metadata` wrote")?;
    Ok(metadata.packages)
}
