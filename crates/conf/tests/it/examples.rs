//! The configurations that people copy must pass our checks: those in examples/, and Debian's default one.

use std::io;
use std::path::{Path, PathBuf};

use conf::diagnostic::Severity;
use conf::{Loaded, Loader, verdict};

/// Files on disk, as the binary reads them, except that paths below `from` are looked up below `to`.
struct Disk {
    from: PathBuf,
    to: PathBuf,
}

impl Disk {
    fn plain() -> Self {
        Self { from: PathBuf::from("/"), to: PathBuf::from("/") }
    }

    fn place(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.from).map_or_else(|_| path.to_path_buf(), |rest| self.to.join(rest))
    }
}

impl Loader for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(self.place(path))
    }

    /// Supports a `*` in the last part of the mask only, which is all that these configurations use.
    fn glob(&mut self, mask: &Path) -> io::Result<Vec<PathBuf>> {
        let (Some(folder), Some(name)) = (mask.parent(), mask.file_name().and_then(|name| name.to_str())) else {
            return Ok(Vec::new());
        };
        let (before, after) = name.split_once('*').expect("a mask has a star");
        let Ok(entries) = std::fs::read_dir(self.place(folder)) else { return Ok(Vec::new()) };
        let fits =
            |name: &str| name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after);
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| !name.starts_with('.') && fits(name)).map(|name| folder.join(name)).collect())
    }
}

fn workspace() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in crates/");
    crates.parent().expect("crates/ lies in the workspace").to_path_buf()
}

/// All findings from `warn` upwards of reading and checking, as log lines.
fn complaints(loaded: &Loaded) -> Vec<String> {
    let checked = conf::check(loaded, conf::table::all());
    loaded
        .diagnostics
        .iter()
        .chain(&checked)
        .filter(|found| found.severity >= Severity::Warning)
        .map(|found| verdict::log_line(found, &loaded.sources))
        .collect()
}

fn examples() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(workspace().join("examples")).expect("examples/ is there");
    let mut paths: Vec<_> = folder
        .map(|entry| entry.expect("examples/ can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
        .collect();
    paths.sort();
    paths
}

#[test]
fn each_example_passes_the_checks() {
    let paths = examples();
    assert!(paths.len() >= 12, "{paths:?}");
    for path in paths {
        let prefix = path.parent().expect("an example lies in a folder");
        let loaded = conf::load(&path, prefix, None, &mut Disk::plain());
        assert_eq!(complaints(&loaded), [""; 0], "{}", path.display());
    }
}

#[test]
fn each_example_explains_itself_and_how_to_run_it() {
    for path in examples() {
        let text = std::fs::read_to_string(&path).expect("an example is text");
        let head: Vec<_> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let name = path.file_name().and_then(|name| name.to_str()).expect("an example has a name");
        for needed in ["# Run:  ", "# See:  "] {
            assert!(head.iter().any(|line| line.starts_with(needed)), "{name} lacks `{needed}`");
        }
        let command = format!("holdfast -p examples -c {name}");
        assert!(
            head.iter().any(|line| line.contains(&command)) || name == "websocket-level2.conf",
            "{name}: {command}"
        );
        assert!(!head[0].trim_start_matches('#').trim().is_empty(), "{name} does not say what it shows");
    }
}

/// The words of each founding scenario; its examples must contain them.
#[test]
fn the_scenarios_are_written_with_their_own_words() {
    let has = |name: &str, words: &[&str]| {
        let text = std::fs::read_to_string(workspace().join("examples").join(name)).expect("the example is there");
        for word in words {
            assert!(text.lines().any(|line| line.trim() == *word), "{name} lacks `{word}`");
        }
    };
    let both = [
        "worker_processes 1;",
        "worker_connections 1024;",
        "include mime.types;",
        "sendfile on;",
        "server 127.0.0.1:10000;",
        "ssl_session_timeout 5m;",
        "underscores_in_headers on;",
        "proxy_pass http://api_backend;",
        "proxy_redirect off;",
        "proxy_set_header Host $host;",
        "proxy_set_header X-Real-IP $remote_addr;",
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        "proxy_next_upstream error timeout invalid_header http_500 http_502 http_503 http_504;",
        "proxy_max_temp_file_size 0;",
        "proxy_connect_timeout 90;",
        "proxy_send_timeout 90;",
        "proxy_read_timeout 90;",
        "proxy_buffer_size 4k;",
        "proxy_buffers 4 32k;",
        "proxy_busy_buffers_size 64k;",
        "proxy_temp_file_write_size 64k;",
    ];
    has("keepalive-states-on.conf", &both);
    has("keepalive-states-off.conf", &both);
    has(
        "keepalive-states-on.conf",
        &[
            "keepalive 16;",
            "keepalive_requests 10000000;",
            "proxy_http_version 1.1;",
            "proxy_set_header Connection \"\";",
        ],
    );
    has("keepalive-states-off.conf", &["keepalive 0;", "proxy_http_version 1.0;"]);
    has("throughput-unpooled.conf", &["keepalive 0;", "proxy_http_version 1.0;", "proxy_pass http://backend-server/;"]);
    has("throughput-pooled.conf", &["keepalive 100;", "proxy_http_version 1.1;", "proxy_pass http://backend-server/;"]);
    has("throughput-origin.conf", &["index index.html index.htm;", "error_page 500 502 503 504 /50x.html;"]);
    has("listen-backlog-on.conf", &["listen 127.0.0.1:8030 default_server backlog=8192;"]);
    has("websocket-level1.conf", &["proxy_buffer_size 4k;", "proxy_buffering off;", "proxy_buffers 4 8k;"]);
    let page = std::fs::metadata(workspace().join("examples/html/index.html")).expect("the page is there");
    assert_eq!(page.len(), 612);
}

#[test]
fn debians_stock_configuration_passes_the_checks() {
    let Some(folder) = testkit::debian_nginx() else { return };
    let etc = Path::new("/etc/nginx");
    let main = etc.join("nginx.conf");
    let mut disk = Disk { from: etc.to_path_buf(), to: folder.clone() };
    let loaded = conf::load(&main, etc, None, &mut disk);
    assert_eq!(complaints(&loaded), [""; 0]);
    // The package is unpacked without running its installation script, which links the site into sites-enabled. So the
    // site is read as if `http` included it.
    let mut site = Disk { from: etc.to_path_buf(), to: folder };
    let main = wrap("/etc/nginx/sites-available/default");
    let loaded = conf::load(&main, etc, None, &mut site);
    assert_eq!(complaints(&loaded), [""; 0]);
    assert!(loaded.sources.iter().any(|source| source.name == "/etc/nginx/sites-available/default"));
}

/// A main file that includes one site, in the output folder of this test.
fn wrap(site: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("debian-site.conf");
    std::fs::write(&path, format!("events {{}}\nhttp {{ include {site}; }}\n")).expect("the target folder is writable");
    path
}
