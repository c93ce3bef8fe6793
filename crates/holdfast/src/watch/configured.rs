//! What an nginx.conf asks for: the backlog of each address it listens on, to be shown beside what the kernel granted.

use super::model::listeners::Asked;
use crate::files::Files;
use conf::diagnostic::Severity;
use conf::value::Host;
use std::net::SocketAddr;
use std::path::Path;

/// nginx's `NGX_LISTEN_BACKLOG`, and so ours.
const BACKLOG_DEFAULT: u32 = 511;

/// The addresses of a configuration with their backlogs. A file that cannot be parsed is refused; words of modules that we
/// do not have are none of our business here, since the file may be another server's.
pub(super) fn backlogs(file: &Path) -> Result<Vec<Asked>, String> {
    let prefix = file.parent().unwrap_or(Path::new("."));
    let loaded = conf::load(file, prefix, None, &mut Files::default());
    if let Some(error) = loaded.diagnostics.iter().find(|found| found.severity == Severity::Error) {
        return Err(conf::verdict::log_line(error, &loaded.sources));
    }
    let (model, _) = conf::model::lower(&loaded.tree, &loaded.sources);
    let listeners = model.http.map(|http| http.listeners).unwrap_or_default();
    let mut asked = Vec::new();
    for listener in listeners {
        if let Host::Ip(ip) = listener.address.host {
            let backlog = listener.options.backlog.unwrap_or(BACKLOG_DEFAULT);
            asked.push(Asked { address: SocketAddr::new(ip, listener.address.port), backlog });
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backlogs_are_those_of_the_text_or_nginx_s_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nginx.conf");
        let text =
            "events {} http { server { listen 127.0.0.1:80 backlog=9000; listen 81; listen unix:/x; return 204; } }";
        std::fs::write(&file, text).unwrap();
        let mut asked = backlogs(&file).unwrap();
        asked.sort_by_key(|asked| asked.address.port());
        let pairs: Vec<_> = asked.iter().map(|asked| (asked.address.to_string(), asked.backlog)).collect();
        assert_eq!(pairs, [("127.0.0.1:80".to_owned(), 9000), ("0.0.0.0:81".to_owned(), 511)]);
        std::fs::write(&file, "events {} http { lua_shared_dict a 1m; server { listen 127.0.0.1:82; } }").unwrap();
        assert_eq!(backlogs(&file).unwrap().len(), 1, "words of foreign modules do not matter");
        std::fs::write(&file, "events {} http { server { listen 80 } }").unwrap();
        let error = backlogs(&file).unwrap_err();
        assert!(error.contains("nginx.conf:1"), "{error}");
    }
}
