//! The configurations that people copy: the corrected examples and Debian's default one give no findings, and the
//! faulty ones give every founding mistake.

use doctor::{Configuration, Dialect, Facts, System, facts, rules};
use std::io;
use std::path::{Path, PathBuf};

/// Files on disk; paths below /etc/nginx are looked up below `etc`.
struct Disk {
    etc: PathBuf,
}

impl Disk {
    fn place(&self, path: &Path) -> PathBuf {
        path.strip_prefix("/etc/nginx").map_or_else(|_| path.to_path_buf(), |rest| self.etc.join(rest))
    }
}

impl conf::Loader for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(self.place(path))
    }

    /// All files of the folder, because these configurations use only the masks `*` and `*.conf`.
    fn glob(&mut self, mask: &Path) -> io::Result<Vec<PathBuf>> {
        let (Some(folder), Some(name)) = (mask.parent(), mask.file_name().and_then(|name| name.to_str())) else {
            return Ok(Vec::new());
        };
        let Ok(entries) = std::fs::read_dir(self.place(folder)) else { return Ok(Vec::new()) };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|found| found.ends_with(name.trim_start_matches('*'))).map(|name| folder.join(name)).collect())
    }
}

fn workspace() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in crates/");
    crates.parent().expect("crates/ lies in the workspace").to_path_buf()
}

/// A host with the settings that the examples ask for.
fn cured_host() -> System {
    let sysctls = [
        ("net.core.somaxconn", "8192"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.ip_local_port_range", "32768 60999"),
        ("fs.nr_open", "1048576"),
    ];
    let sysctls = sysctls.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    System { sysctls, memory_bytes: Some(8 << 30), cpus: Some(2), descriptors: Some(65_536), ..System::default() }
}

fn facts_of(path: &Path, etc: PathBuf, dialect: Dialect) -> Facts {
    let prefix = path.parent().expect("a file lies in a folder");
    let loaded = conf::load(path, prefix, None, &mut Disk { etc });
    assert!(loaded.is_ok(), "{}: {:?}", path.display(), loaded.diagnostics);
    Facts { dialect, configuration: Some(Configuration::new(loaded)), system: cured_host(), ..Facts::default() }
}

fn found(name: &str, dialect: Dialect) -> Vec<String> {
    let facts = facts_of(&workspace().join("examples").join(name), PathBuf::new(), dialect);
    rules::examine(&facts).into_iter().map(|finding| finding.rule).collect()
}

/// Examples of founding mistakes.
const FAULTY: [&str; 3] = ["keepalive-states-off.conf", "throughput-unpooled.conf", "listen-backlog-off.conf"];

/// Intended findings in examples: these applications sign or compare the Host with its port, and images may be opened
/// by their own address.
const MEANT: [(&str, &str); 6] = [
    ("gitlab.conf", "host-spoofing"),
    ("keycloak.conf", "host-spoofing"),
    ("oauth2-proxy.conf", "host-spoofing"),
    ("object-store.conf", "host-spoofing"),
    ("registry.conf", "host-spoofing"),
    ("protected-downloads.conf", "referer-may-be-absent"),
];

#[test]
fn the_corrected_examples_have_no_findings() {
    let folder = std::fs::read_dir(workspace().join("examples")).expect("the examples are there");
    let paths = folder
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|it| it == "conf"));
    let names = paths.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    // Every example that is not deliberately faulty is meant to be copied.
    let cured: Vec<String> = names.filter(|name| !FAULTY.contains(&name.as_str())).collect();
    assert!(cured.len() >= 9, "{cured:?}");
    let mut wrong = Vec::new();
    for name in &cured {
        for dialect in [Dialect::Holdfast, Dialect::NGINX_1_30] {
            let found = found(name, dialect).into_iter();
            let found = found.filter(|rule| !MEANT.contains(&(name.as_str(), rule.as_str())));
            wrong.extend(found.map(|rule| format!("{name} as {}: {rule}", dialect.name())));
        }
    }
    assert_eq!(wrong, [""; 0]);
    for name in ["keepalive-states-on.conf", "throughput-pooled.conf", "pooled-api.conf", "websocket-level1.conf"] {
        assert_eq!(found(name, Dialect::NGINX_1_22), [""; 0], "{name} as nginx 1.22");
    }
}

#[test]
fn the_founding_mistakes_are_found_in_the_faulty_ones() {
    for dialect in [Dialect::Holdfast, Dialect::NGINX_1_30, Dialect::NGINX_1_22] {
        assert_eq!(found("keepalive-states-off.conf", dialect), ["upstream-without-keepalive"]);
        assert_eq!(found("throughput-unpooled.conf", dialect), ["upstream-without-keepalive"]);
        assert_eq!(found("listen-backlog-off.conf", dialect), ["listen-backlog"]);
    }
}

#[test]
fn the_founding_kernel_settings_are_read_critically() {
    let text = "net.ipv4.tcp_max_tw_buckets = 200000\nnet.ipv4.ip_conntrack_max = 2000000\nnetfilter.ip_conntrack_max = 2000000\n\
                net.nf_conntrack_max = 2000000\nnet.netfilter.nf_conntrack_max = 2000000\nnet.ipv4.tcp_mem = 786432 2097152 3145728\n\
                net.ipv4.tcp_rmem = 4096 4096 16777216\nnet.ipv4.tcp_tw_recycle = 1\n";
    let facts = Facts { settings: facts::parse_settings("sysctl.conf", text), ..Facts::default() };
    let found: Vec<_> = rules::examine(&facts).iter().map(doctor_place).collect();
    assert_eq!(
        found,
        [
            "sysctl.conf:2:1 folklore-sysctl",
            "sysctl.conf:3:1 folklore-sysctl",
            "sysctl.conf:8:1 folklore-sysctl",
            "sysctl.conf:7:1 one-page-receive-buffer",
        ]
    );
}

fn doctor_place(finding: &report::Finding) -> String {
    format!("{} {}", finding.place_text(), finding.rule)
}

#[test]
fn debians_stock_configuration_has_no_findings() {
    let Some(etc) = testkit::debian_nginx() else { return };
    for dialect in [Dialect::NGINX_1_22, Dialect::NGINX_1_30, Dialect::Holdfast] {
        let mut facts = facts_of(Path::new("/etc/nginx/nginx.conf"), etc.clone(), dialect);
        // The usual limit of a shell and the kernel's defaults, on a host without tuning.
        facts.system.descriptors = Some(1024);
        facts.system.sysctls.insert("net.core.somaxconn".to_owned(), "4096".to_owned());
        assert_eq!(rules::examine(&facts), [], "as {}", dialect.name());
    }
}

#[test]
fn the_guides_page_is_made_from_the_table() {
    let page = std::fs::read_to_string(workspace().join("docs/guide/doctor-rules.md")).unwrap_or_default();
    assert!(page == rules::markdown(), "docs/guide/doctor-rules.md is stale: run `cargo xtask docs`");
}
