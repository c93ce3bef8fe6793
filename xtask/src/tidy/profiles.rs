//! Rule: `dist` inherits `release`, which compiles many crates with little optimisation so that a visitor's first build is
//! short. `dist` names each of them again with full optimisation: packages and benches have no slow part.

use super::Finding;
use anyhow::{Context as _, Result};

/// The settings that every package has in `dist`.
const DIST: [(&str, i64); 2] = [("opt-level", 3), ("codegen-units", 1)];

/// Checks the workspace's manifest.
pub(super) fn check(path: &str, manifest: &str) -> Result<Vec<Finding>> {
    let manifest: toml::Table = manifest.parse().with_context(|| format!("cannot parse {path}"))?;
    let Some(profiles) = manifest.get("profile") else { return Ok(Vec::new()) };
    let setting = |profile: &str, package: &str, key: &str| {
        profiles.get(profile)?.get("package")?.get(package)?.get(key)?.as_integer()
    };
    let release = profiles.get("release").and_then(|release| release.get("package")?.as_table());
    let names = release.into_iter().flat_map(toml::Table::keys);
    let pairs = names.flat_map(|name| DIST.map(|(key, full)| (name, key, full)));
    let lower = pairs.filter(|(name, key, full)| {
        setting("release", name, key).is_some_and(|set| set != *full) && setting("dist", name, key) != Some(*full)
    });
    Ok(lower
        .map(|(name, key, full)| Finding {
            path: path.to_owned(),
            line: 1,
            rule: "profiles",
            text: format!(
                "`release` has another {key} for {name}: add {key} = {full} to [profile.dist.package.{name}]"
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
        let dist = "[profile.dist.package.slow]\nopt-level = 3\n[profile.release.package.split]\ncodegen-units = 2\n";
        assert_eq!(found(dist), 1);
    }
}
