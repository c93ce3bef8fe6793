//! `cargo xtask peers`: provides the foreign servers and clients that tests and benches compare us with.
//!
//! What is on `$PATH` is used as it is. What is missing is unpacked from Debian's packages into `target/peers` (Kubernetes, Pebble and others
//! that Debian does not have are built from Go modules; SSLyze and grpcio come from PyPI); nothing
//! is installed, no service is started and no right is needed. `nginx` and `haproxy` are this system's; `nginx-stable` and
//! `nginx-new` (the same for `haproxy`) are those of Debian's stable and newest suites, always unpacked, with their own libraries. A test finds a peer at `$HOLDFAST_PEERS/NAME`, or at
//! `target/peers/bin/NAME` in the workspace root. Called by `test`, `bench` and people.

mod cert_manager;
mod debian;
pub(crate) mod go;
mod go_tools;
pub(crate) mod kubernetes;
mod otel_collector;
mod python_tools;
mod wrapper;

use crate::workspace::{Workspace, find_program, heading};
use anyhow::{Context as _, Result, bail};
use debian::Suite;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of `cargo xtask peers`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print each tool with its version, path and origin, and change nothing.
    #[arg(long)]
    list: bool,
}

/// Changed with the wrappers or the layout, so that an older folder is rebuilt.
const LAYOUT: &str = "holdfast-peers 13";

/// A program that tests or benches run for comparison.
pub(crate) struct Peer {
    /// The name under `target/peers/bin`.
    pub(crate) name: &'static str,
    /// The Debian package that holds it.
    package: &'static str,
    /// The suite of the package.
    suite: Suite,
    /// Its path in the package, relative to the root folder.
    file: &'static str,
    /// The arguments that make it print its version and end.
    version: &'static [&'static str],
}

/// All peers of tests and benches.
const PEERS: [Peer; 32] = [
    Peer { name: "nginx", package: "nginx", suite: Suite::System, file: "usr/sbin/nginx", version: &["-v"] },
    Peer { name: "haproxy", package: "haproxy", suite: Suite::System, file: "usr/sbin/haproxy", version: &["-v"] },
    Peer { name: "wrk", package: "wrk", suite: Suite::System, file: "usr/bin/wrk", version: &["-v"] },
    Peer { name: "ab", package: "apache2-utils", suite: Suite::System, file: "usr/bin/ab", version: &["-V"] },
    Peer { name: "varnishd", package: "varnish", suite: Suite::System, file: "usr/sbin/varnishd", version: &["-V"] },
    // Foreign clients and servers of TLS.
    Peer { name: "openssl", package: "openssl", suite: Suite::System, file: "usr/bin/openssl", version: &["version"] },
    Peer { name: "curl", package: "curl", suite: Suite::System, file: "usr/bin/curl", version: &["--version"] },
    Peer { name: "siege", package: "siege", suite: Suite::System, file: "usr/bin/siege", version: &["--version"] },
    Peer { name: "hey", package: "hey", suite: Suite::System, file: "usr/bin/hey", version: &["-h"] },
    Peer {
        name: "h2load",
        package: "nghttp2-client",
        suite: Suite::System,
        file: "usr/bin/h2load",
        version: &["--version"],
    },
    Peer {
        name: "nghttp",
        package: "nghttp2-client",
        suite: Suite::System,
        file: "usr/bin/nghttp",
        version: &["--version"],
    },
    Peer {
        name: "promtool",
        package: "prometheus",
        suite: Suite::System,
        file: "usr/bin/promtool",
        version: &["--version"],
    },
    Peer {
        name: "prometheus",
        package: "prometheus",
        suite: Suite::System,
        file: "usr/bin/prometheus",
        version: &["--version"],
    },
    Peer { name: "nft", package: "nftables", suite: Suite::System, file: "usr/sbin/nft", version: &["--version"] },
    Peer {
        name: "dnsmasq",
        package: "dnsmasq-base",
        suite: Suite::System,
        file: "usr/sbin/dnsmasq",
        version: &["--version"],
    },
    // A client of name servers.
    Peer { name: "dig", package: "bind9-dnsutils", suite: Suite::System, file: "usr/bin/dig", version: &["-v"] },
    // The usual FastCGI application behind nginx.
    Peer {
        name: "php-fpm",
        package: "php8.2-fpm",
        suite: Suite::System,
        file: "usr/sbin/php-fpm8.2",
        version: &["-v"],
    },
    // The compiler for the Go gateway of the lab's `two-limit-pool`, and for all peers that are Go modules; Kubernetes needs 1.26.
    Peer {
        name: "go",
        package: "golang-1.26-go",
        suite: Suite::Newest,
        file: "usr/lib/go-1.26/bin/go",
        version: &["version"],
    },
    // Where Kubernetes keeps its objects. The API server serves lists from its cache with 3.5.13 or newer only.
    Peer { name: "etcd", package: "etcd-server", suite: Suite::Stable, file: "usr/bin/etcd", version: &["--version"] },
    Peer {
        name: "chromium",
        package: "chromium-headless-shell",
        suite: Suite::System,
        file: "usr/lib/chromium/chromium-headless-shell",
        version: &["--version"],
    },
    // A TCP server that is not HTTP, and its client.
    Peer {
        name: "redis-server",
        package: "redis-server",
        suite: Suite::System,
        file: "usr/bin/redis-server",
        version: &["--version"],
    },
    Peer {
        name: "redis-cli",
        package: "redis-tools",
        suite: Suite::System,
        file: "usr/bin/redis-cli",
        version: &["--version"],
    },
    // A broker of MQTT, and its clients.
    Peer {
        name: "mosquitto",
        package: "mosquitto",
        suite: Suite::System,
        file: "usr/sbin/mosquitto",
        version: &["-h"],
    },
    Peer {
        name: "mosquitto_pub",
        package: "mosquitto-clients",
        suite: Suite::System,
        file: "usr/bin/mosquitto_pub",
        version: &["--help"],
    },
    Peer {
        name: "mosquitto_sub",
        package: "mosquitto-clients",
        suite: Suite::System,
        file: "usr/bin/mosquitto_sub",
        version: &["--help"],
    },
    // The messages of the load farm.
    Peer {
        name: "nats-server",
        package: "nats-server",
        suite: Suite::System,
        file: "usr/sbin/nats-server",
        version: &["--version"],
    },
    // A store of metrics that takes InfluxDB's line protocol.
    Peer {
        name: "victoria-metrics",
        package: "victoria-metrics",
        suite: Suite::System,
        file: "usr/bin/victoria-metrics",
        version: &["--version"],
    },
    // What `memcached_pass` asks.
    Peer {
        name: "memcached",
        package: "memcached",
        suite: Suite::System,
        file: "usr/bin/memcached",
        version: &["--version"],
    },
    nginx_of("nginx-stable", Suite::Stable),
    haproxy_of("haproxy-stable", Suite::Stable),
    nginx_of("nginx-new", Suite::Newest),
    haproxy_of("haproxy-new", Suite::Newest),
];

/// Packages with a part of a peer and no program: Debian's nginx has `stream` in a separate module, and modules of others.
const PARTS: [(&str, Suite); 9] = [
    ("libnginx-mod-http-brotli-filter", Suite::System),
    ("libnginx-mod-http-brotli-static", Suite::System),
    ("libnginx-mod-http-geoip2", Suite::System),
    ("libnginx-mod-http-headers-more-filter", Suite::System),
    ("libnginx-mod-stream", Suite::Newest),
    ("libnginx-mod-http-brotli-filter", Suite::Newest),
    ("libnginx-mod-http-brotli-static", Suite::Newest),
    ("libnginx-mod-http-geoip2", Suite::Newest),
    ("libnginx-mod-http-headers-more-filter", Suite::Newest),
];

const fn nginx_of(name: &'static str, suite: Suite) -> Peer {
    Peer { name, package: "nginx", suite, file: "usr/sbin/nginx", version: &["-v"] }
}

const fn haproxy_of(name: &'static str, suite: Suite) -> Peer {
    Peer { name, package: "haproxy", suite, file: "usr/sbin/haproxy", version: &["-v"] }
}

impl Peer {
    /// The user's installed program; a newer suite's program is never taken from the system.
    fn installed(&self) -> Option<PathBuf> {
        if self.name == "go" {
            return find_program("go").filter(|go| go::is_new_enough(go));
        }
        if self.suite == Suite::System { find_program(self.name) } else { None }
    }

    /// The beginning of the stamp's line that names its package.
    fn stamp(&self) -> String {
        format!("{}{}=", self.suite.stamp(), self.package)
    }
}

/// Runs the task.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if !args.list {
        provide(workspace)?;
    }
    list(workspace)
}

/// The folder that holds one program per peer.
pub(crate) fn bin(workspace: &Workspace) -> PathBuf {
    workspace.target("peers").join("bin")
}

/// Provides every peer in the folder that it returns. Quick if all exist already.
pub(crate) fn provide(workspace: &Workspace) -> Result<PathBuf> {
    let home = workspace.target("peers");
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    // Two concurrent `cargo xtask test` must not unpack over each other.
    let lock = File::create(home.join("lock")).context("cannot create the lock of target/peers")?;
    lock.lock().context("cannot lock target/peers")?;

    let bin = bin(workspace);
    if fs::read_to_string(home.join("stamp")).is_ok_and(|stamp| stamp.starts_with(LAYOUT))
        && PEERS.iter().all(|peer| bin.join(peer.name).is_file())
        && built().all(|(name, _)| bin.join(name).is_file())
        && kubernetes::has_gateway_api(&home)
    {
        python_tools::provide(&home, &bin);
        return Ok(bin);
    }
    heading("peers: nginx, haproxy, load tools and others, for tests and benches");
    let mut unpacked = Vec::new();
    for suite in [Suite::System, Suite::Stable, Suite::Newest] {
        let missing: Vec<&Peer> =
            PEERS.iter().filter(|peer| peer.suite == suite && peer.installed().is_none()).collect();
        if !missing.is_empty() {
            unpacked.extend(unpack(&home, suite, &missing)?);
        }
    }

    remove_if_there(&bin)?;
    fs::create_dir_all(&bin)?;
    for peer in &PEERS {
        let file = bin.join(peer.name);
        match peer.installed() {
            Some(installed) => std::os::unix::fs::symlink(installed, &file)?,
            None => wrapper::write(&home, peer, &file)?,
        }
        version(&file, peer).with_context(|| format!("{} does not run", peer.name))?;
    }
    build_with_go(&home, &bin)?;
    python_tools::provide(&home, &bin);
    fs::write(home.join("stamp"), format!("{LAYOUT}\n{}\n", unpacked.join("\n")))?;
    Ok(bin)
}

/// The same with what only the long tier needs.
pub(crate) fn provide_all(workspace: &Workspace) -> Result<PathBuf> {
    let bin = provide(workspace)?;
    let home = workspace.target("peers");
    if !cert_manager::is_provided(&home, &bin) {
        heading("peers: cert-manager, for the long tier");
        cert_manager::build(&go::Go::of(&home, &bin)?, &home, &bin)?;
    }
    Ok(bin)
}

/// Builds the peers that are Go modules.
fn build_with_go(home: &Path, bin: &Path) -> Result<()> {
    let go = go::Go::of(home, bin)?;
    for tool in &go_tools::TOOLS {
        go_tools::build(tool, &go, home, bin)?;
    }
    otel_collector::build(&go, home, bin)?;
    kubernetes::build(&go, bin)?;
    kubernetes::provide_gateway_api(&go, home)
}

/// Fetches and unpacks missing peers; returns `name=version` of each package.
fn unpack(home: &Path, suite: Suite, missing: &[&Peer]) -> Result<Vec<String>> {
    let names = missing.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ");
    let parts = PARTS.iter().filter(|(_, of)| *of == suite).map(|(package, _)| *package);
    let packages: Vec<&str> = missing.iter().map(|peer| peer.package).chain(parts).collect();
    let by_hand = format!(
        "not found: {names}. On Debian and Ubuntu they are in the packages {}; elsewhere install them by the same \
         names (ab is part of Apache httpd, h2load of nghttp2) so that they are on $PATH, then run this again.",
        packages.join(" ")
    );
    if find_program("apt-get").is_none() || find_program("dpkg").is_none() {
        bail!("{by_hand}");
    }
    debian::unpack(home, suite, &packages).context(by_hand)
}

fn list(workspace: &Workspace) -> Result<()> {
    let bin = bin(workspace);
    // hey prints no version, but the stamp has that of its package.
    let stamp = fs::read_to_string(workspace.target("peers").join("stamp")).unwrap_or_default();
    let mut absent = 0;
    println!("{:<14} {:<44} {:<10} path", "tool", "version", "origin");
    for peer in &PEERS {
        let file = bin.join(peer.name);
        if !file.is_file() {
            absent += 1;
            println!("{:<14} {:<44} {:<10} run `cargo xtask peers`", peer.name, "-", "absent");
            continue;
        }
        let package = stamp.lines().find(|line| line.starts_with(&peer.stamp()));
        let version = version(&file, peer)?.or(package.map(str::to_owned)).unwrap_or_else(|| "-".to_owned());
        let (origin, path) = fs::read_link(&file).map_or(("unpacked", file), |installed| ("installed", installed));
        println!("{:<14} {version:<44} {origin:<10} {}", peer.name, path.display());
    }
    for (name, version) in built() {
        let file = bin.join(name);
        let origin = if file.is_file() { "built" } else { "absent" };
        absent += usize::from(!file.is_file());
        println!("{name:<14} {version:<44} {origin:<10} {}", file.display());
    }
    for tool in &python_tools::TOOLS {
        let file = bin.join(tool.name);
        let origin = if file.is_file() { "installed" } else { "left out" };
        println!("{:<14} {:<44} {origin:<10} {}", tool.name, tool.version, file.display());
    }
    if absent > 0 {
        bail!("{absent} of {} tools are absent", PEERS.len() + built().count());
    }
    Ok(())
}

/// Name and version of each peer that Go builds.
fn built() -> impl Iterator<Item = (&'static str, &'static str)> {
    let tools = go_tools::TOOLS.iter().map(|tool| (tool.name, tool.version));
    let kubernetes = kubernetes::PROGRAMS.map(|name| (name, kubernetes::VERSION));
    tools.chain([(otel_collector::NAME, otel_collector::VERSION)]).chain(kubernetes)
}

/// The line of output with the version, if there is one. An error if the program cannot start, for example without a
/// library.
fn version(file: &Path, peer: &Peer) -> Result<Option<String>> {
    const LOADER_FAILED: i32 = 127; // the shell's and the dynamic loader's "not found"
    let output = Command::new(file).args(peer.version).stdin(Stdio::null()).output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if output.status.code().is_none_or(|code| code == LOADER_FAILED) {
        bail!("{}", text.trim());
    }
    Ok(version_line(&text).map(str::to_owned))
}

/// hey has no version option and wrk prints its version within the usage text, so the line is recognised by its form.
fn version_line(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.chars().any(|c| c.is_ascii_digit()) && !line.starts_with("  "))?;
    let line = line.split(" Copyright").next().unwrap_or(line);
    let line = line.split(" - ").next().unwrap_or(line);
    (!line.contains("CPUs")).then(|| line.split(" <$").next().unwrap_or(line).trim_end_matches(',').trim())
}

/// Copies definitions of Kubernetes resources in place of those of another version.
fn copy_definitions(source: &Path, into: &Path) -> Result<()> {
    remove_if_there(into)?;
    fs::create_dir_all(into)?;
    for file in fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))? {
        let file = file?;
        // A definition is in GROUP_RESOURCES.yaml. Other files are for people and for kustomize.
        if file.file_name().to_string_lossy().contains('_') {
            fs::copy(file.path(), into.join(file.file_name()))?;
        }
    }
    Ok(())
}

fn remove_if_there(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_picked_out_of_each_programs_own_words() {
        assert_eq!(version_line("nginx version: nginx/1.22.1\n"), Some("nginx version: nginx/1.22.1"));
        assert_eq!(
            version_line("HAProxy version 2.6.12-1 2026/10/17 - https://haproxy.org/\nStatus: long-term\n"),
            Some("HAProxy version 2.6.12-1 2026/10/17")
        );
        assert_eq!(
            version_line("wrk debian/4.1.0-3 [epoll] Copyright (C) 2012 Will Glozer\nUsage: wrk\n"),
            Some("wrk debian/4.1.0-3 [epoll]")
        );
        assert_eq!(version_line("Usage: hey [options...] <url>\n\nOptions:\n  -n  Number of requests, 200\n"), None);
    }

    #[test]
    fn unstartable_program_is_an_error() {
        let shell = find_program("sh").unwrap();
        let broken = Peer {
            name: "broken",
            package: "none",
            suite: Suite::System,
            file: "none",
            version: &["-c", "no-such-program-anywhere"],
        };
        assert!(version(&shell, &broken).unwrap_err().to_string().contains("no-such-program-anywhere"));
    }
}
