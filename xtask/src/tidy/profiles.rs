//! Rule: `dist` inherits `release`, which compiles many crates with little optimisation so that a visitor's first build is
//! short. `dist` names each of them again with full optimisation: packages and benches have no slow part.

use super::Finding;
use anyhow::{Context as _, Result};

const FULL: i64 = 3;

/// Checks the workspace's manifest.
pub(super) fn check(path: &str, manifest: &str) -> Result<Vec<Finding>> {
    let manifest: toml::Table = manifest.parse().with_context(|| format!("cannot parse {path}"))?;
    let Some(profiles) = manifest.get("profile") else { return Ok(Vec::new()) };
    let level = |profile: &str, package: &str| {
        profiles.get(profile)?.get("package")?.get(package)?.get("opt-level")?.as_integer()
    };
    let release = profiles.get("release").and_then(|release| release.get("package")?.as_table());
    let names = release.into_iter().flat_map(toml::Table::keys);
    let lower = names.filter(|name| level("release", name) != Some(FULL) && level("dist", name) != Some(FULL));
    Ok(lower
        .map(|name| Finding {
            path: path.to_owned(),
            line: 1,
            rule: "profiles",
            text: format!(
                "`release` lowers the optimisation of {name}: add [profile.dist.package.{name}] with opt-level = {FULL}"
            ),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_dist_leaves_out_is_found() {
        let manifest = |dist: &str| {
            format!(
                "[profile.release.package.\"*\"]\nopt-level = 0\n[profile.release.package.fast]\nopt-level = 3\n\
                 [profile.dist.package.\"*\"]\nopt-level = 3\n[profile.release.package.slow]\nopt-level = 1\n{dist}"
            )
        };
        let found = |dist| check("Cargo.toml", &manifest(dist)).expect("valid").len();
        assert_eq!(found(""), 1);
        assert_eq!(found("[profile.dist.package.slow]\nopt-level = 2\n"), 1);
        assert_eq!(found("[profile.dist.package.slow]\nopt-level = 3\n"), 0);
    }
}
