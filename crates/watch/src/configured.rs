//! Reads from an nginx.conf the backlog of each listening address, to show it beside the backlog that the kernel granted.

use super::model::listeners::ConfiguredListener;
use conf::Loader;
use conf::diagnostic::Severity;
use conf::value::Host;
use std::net::SocketAddr;
use std::path::Path;

/// nginx's `NGX_LISTEN_BACKLOG`, and so ours.
const BACKLOG_DEFAULT: u32 = 511;

/// The addresses of a configuration with their backlogs. Returns an error for a file that cannot be parsed. Unknown
/// directives are ignored, because the file may belong to another server.
pub(super) fn backlogs(file: &Path, loader: &mut dyn Loader) -> Result<Vec<ConfiguredListener>, String> {
    let prefix = file.parent().unwrap_or(Path::new("."));
    let loaded = conf::load(file, prefix, None, loader);
    if let Some(error) = loaded.diagnostics.iter().find(|found| found.severity == Severity::Error) {
        return Err(conf::verdict::log_line(error, &loaded.sources));
    }
    let (model, _) = conf::model::lower(&loaded.tree, &loaded.sources);
    let http = model.http.map(|http| http.listeners).unwrap_or_default();
    let stream = model.stream.map(|stream| stream.listeners).unwrap_or_default();
    let mut asked = Vec::new();
    // Datagrams have no accept queue.
    for listener in http.into_iter().chain(stream).filter(|listener| !listener.options.udp) {
        if let Host::Ip(ip) = listener.address.host {
            let backlog = listener.options.backlog.unwrap_or(BACKLOG_DEFAULT);
            asked.push(ConfiguredListener { address: SocketAddr::new(ip, listener.address.port), backlog });
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::PathBuf;

    /// A file that exists only in memory.
    struct OneText(&'static str);

    impl Loader for OneText {
        fn read(&mut self, _path: &Path) -> io::Result<Vec<u8>> {
            Ok(self.0.into())
        }

        fn glob(&mut self, _mask: &Path) -> io::Result<Vec<PathBuf>> {
            Ok(Vec::new())
        }
    }

    fn backlogs_of(text: &'static str) -> Result<Vec<ConfiguredListener>, String> {
        backlogs(Path::new("/c/nginx.conf"), &mut OneText(text))
    }

    #[test]
    fn backlogs_come_from_the_text_or_nginx_defaults() {
        let text =
            "events {} http { server { listen 127.0.0.1:80 backlog=9000; listen 81; listen unix:/x; return 204; } }";
        let mut asked = backlogs_of(text).unwrap();
        asked.sort_by_key(|asked| asked.address.port());
        let pairs: Vec<_> = asked.iter().map(|asked| (asked.address.to_string(), asked.backlog)).collect();
        assert_eq!(pairs, [("127.0.0.1:80".to_owned(), 9000), ("0.0.0.0:81".to_owned(), 511)]);
        let asked = backlogs_of("events {} http { lua_shared_dict a 1m; server { listen 127.0.0.1:82; } }").unwrap();
        assert_eq!(asked.len(), 1, "words of foreign modules do not matter");
        let text = "events {} stream { server { listen 127.0.0.1:90 backlog=77; return ''; } \
                    server { listen 127.0.0.1:90 udp; return ''; } server { listen 91 udp; return ''; } }";
        let pairs: Vec<_> =
            backlogs_of(text).unwrap().iter().map(|asked| (asked.address.port(), asked.backlog)).collect();
        assert_eq!(pairs, [(90, 77)], "those of stream, without datagrams");
        let error = backlogs_of("events {} http { server { listen 80 } }").unwrap_err();
        assert!(error.contains("nginx.conf:1"), "{error}");
    }
}
