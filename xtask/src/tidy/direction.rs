//! Rule: dependencies point one way. Pure crates depend only on pure crates and use no socket. Only crates that run the
//! gateway depend on it. The scripted peers of `testkit` never reach a release.

use super::Finding;
use crate::metadata::{Dependency, Package};

/// What a crate of the layout may use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    /// Bytes and `now` come in, decisions come out.
    Pure,
    /// Bytes in, bytes out, plus the random numbers and the date that cryptographic protocols need. No socket.
    Engine,
    /// Sockets, clocks, threads.
    Io,
    /// Runs the gateway inside its own process.
    RunsGateway,
    /// Development only.
    Dev,
}

/// The layout of ARCHITECTURE.md. A new crate must be added here first.
const LAYOUT: [(&str, Layer); 34] = [
    ("conf", Layer::Pure),
    ("http1", Layer::Pure),
    ("http2", Layer::Pure),
    ("cache", Layer::Pure),
    ("cgi", Layer::Pure),
    ("handover", Layer::Pure),
    ("ingress", Layer::Pure),
    ("jwt", Layer::Pure),
    ("proxyproto", Layer::Pure),
    ("websocket", Layer::Pure),
    ("rules", Layer::Pure),
    ("terms", Layer::Pure),
    ("upstream", Layer::Pure),
    ("stats", Layer::Pure),
    ("report", Layer::Pure),
    ("tls", Layer::Engine),
    ("reactor", Layer::Io),
    ("sockdiag", Layer::Io),
    ("transport", Layer::Io),
    ("gateway", Layer::Io),
    ("control", Layer::RunsGateway),
    ("kubernetes", Layer::Io),
    ("origin", Layer::Io),
    ("load", Layer::Io),
    ("farm", Layer::Io),
    ("terminal", Layer::Io),
    ("watch", Layer::Io),
    ("incident", Layer::Io),
    ("doctor", Layer::Io),
    ("lab", Layer::Io),
    ("holdfast", Layer::RunsGateway),
    ("testkit", Layer::Dev),
    ("xtask", Layer::Dev),
    ("fuzz", Layer::Dev),
];

/// Crates that would give a pure crate access to a socket, a runtime or the kernel.
const NEVER_IN_PURE: [&str; 7] = ["libc", "mio", "nix", "polling", "rustix", "socket2", "tokio"];

pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let mut report = |text: String| {
            findings.push(Finding { path: package.name.clone(), line: 0, rule: "direction", text });
        };
        let Some(layer) = layer_of(&package.name) else {
            report(
                "this crate has no place in the layout: ARCHITECTURE.md, then xtask/src/tidy/direction.rs".to_owned(),
            );
            continue;
        };
        // A crate names itself to have all its features in tests.
        for dependency in package.dependencies.iter().filter(|dependency| dependency.name != package.name) {
            if let Some(text) = violation(layer, dependency) {
                report(text);
            }
        }
    }
    findings
}

fn layer_of(name: &str) -> Option<Layer> {
    LAYOUT.iter().find(|(listed, _)| *listed == name).map(|(_, layer)| *layer)
}

fn violation(layer: Layer, dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    let dev = dependency.kind.as_deref() == Some("dev");
    if dependency.path.is_none() {
        let is_without_sockets = matches!(layer, Layer::Pure | Layer::Engine);
        let forbidden = is_without_sockets && !dev && NEVER_IN_PURE.contains(&name.as_str());
        return forbidden.then(|| format!("must not depend on `{name}`: bytes and `now` come in as arguments"));
    }
    if name == "testkit" && !dev && layer != Layer::Dev {
        return Some("`testkit` is for [dev-dependencies] only".to_owned());
    }
    if layer == Layer::Pure && !dev && layer_of(name) != Some(Layer::Pure) {
        return Some(format!("is pure and must not depend on `{name}`, which is not"));
    }
    if layer == Layer::Engine && !dev && !matches!(layer_of(name), Some(Layer::Pure | Layer::Engine)) {
        return Some(format!("has no socket and must not depend on `{name}`, which may"));
    }
    // This also holds for tests: a tool uses the gateway as a process, so it measures what users run.
    if name == "gateway" && !matches!(layer, Layer::RunsGateway | Layer::Dev) {
        return Some("must not depend on `gateway`: run it as a process".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies.iter().map(|(name, kind)| Dependency {
            name: (*name).to_owned(),
            kind: kind.map(str::to_owned),
            path: layer_of(name).map(|_| format!("crates/{name}")),
        });
        Package { name: name.to_owned(), dependencies: dependencies.collect() }
    }

    fn texts(name: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
        check(&[package(name, dependencies)]).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn pure_crates_use_pure_crates_and_test_with_anything() {
        assert_eq!(texts("rules", &[("conf", None), ("memchr", None), ("reactor", Some("dev"))]), [""; 0]);
        assert_eq!(texts("rules", &[("reactor", None)]), ["is pure and must not depend on `reactor`, which is not"]);
        assert_eq!(texts("rules", &[("reactor", Some("build"))]).len(), 1);
        assert_eq!(texts("http1", &[("socket2", None)]).len(), 1);
    }

    #[test]
    fn an_engine_knows_no_socket() {
        assert_eq!(texts("tls", &[("http1", None), ("reactor", Some("dev"))]), [""; 0]);
        assert_eq!(texts("tls", &[("reactor", None)]), ["has no socket and must not depend on `reactor`, which may"]);
        assert_eq!(texts("tls", &[("socket2", None)]).len(), 1);
        assert_eq!(texts("http1", &[("tls", None)]).len(), 1);
        assert_eq!(texts("transport", &[("tls", None), ("reactor", None)]), [""; 0]);
    }

    #[test]
    fn only_listed_crates_depend_on_the_gateway() {
        assert_eq!(texts("holdfast", &[("gateway", None)]), [""; 0]);
        assert_eq!(texts("control", &[("gateway", None)]), [""; 0]);
        for tool in ["load", "doctor", "lab", "origin"] {
            assert_eq!(texts(tool, &[("gateway", None)]), ["must not depend on `gateway`: run it as a process"]);
            assert_eq!(texts(tool, &[("gateway", Some("dev"))]).len(), 1);
        }
    }

    #[test]
    fn testkit_stays_out_of_releases_and_crates_have_a_place() {
        assert_eq!(texts("gateway", &[("testkit", Some("dev"))]), [""; 0]);
        assert_eq!(texts("gateway", &[("testkit", None)]), ["`testkit` is for [dev-dependencies] only"]);
        assert_eq!(texts("surprise", &[]).len(), 1);
    }
}
