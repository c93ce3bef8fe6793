//! `state`: the servers of a group in a separate file, and where they may appear.

use crate::support::Files;
use conf::diagnostic::Severity;
use conf::{check, model, table, verdict};
use std::path::Path;

/// The errors of a group and its state file, and the servers of the group. `None`: the file does not exist.
fn group(block: &str, state: Option<&str>) -> (Vec<String>, Vec<String>) {
    let text = format!("events {{}} http {{ upstream peers {{ {block} }} }}");
    let mut files = Files::new([("/etc/nginx/nginx.conf", &text), ("/etc/nginx/inner", "state peers.conf;")]);
    if let Some(state) = state {
        files.0.insert("/etc/nginx/peers.conf".into(), state.into());
    }
    let loaded = files.load();
    let mut found = loaded.diagnostics.clone();
    found.extend(check(&loaded, table::all()));
    let (model, more) = model::lower(&loaded.tree, &loaded.sources);
    found.extend(more);
    let errors = found.iter().filter(|found| found.severity == Severity::Error);
    let errors = errors.map(|found| verdict::log_line(found, &loaded.sources)).collect();
    let http = model.http.expect("the http block");
    let servers = http.upstreams.iter().flat_map(|group| &group.servers);
    (errors, servers.map(|server| server.address.text.clone()).collect())
}

fn errors(block: &str, state: Option<&str>) -> Vec<String> {
    group(block, state).0
}

#[test]
fn servers_come_from_the_file() {
    let (errors, servers) =
        group("zone peers 64k; state peers.conf;", Some("server 10.0.0.1;\nserver 10.0.0.2 backup;\n"));
    assert_eq!((errors, servers), (vec![], vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]));
    let (errors, servers) = group("state /etc/nginx/peers.conf; zone peers 64k;", Some("server 10.0.0.1;"));
    assert_eq!((errors, servers), (vec![], vec!["10.0.0.1".to_owned()]));
    assert_eq!(group("state peers.conf;", None), (vec![], vec![]), "it may come later");
    assert_eq!(group("state peers.conf;", Some("")), (vec![], vec![]));
}

#[test]
fn a_group_has_one_list_of_servers() {
    let refused = "nginx: [emerg] \"server\" directive cannot be used along with \"state\" in /etc/nginx/nginx.conf:1";
    assert_eq!(errors("state peers.conf; server 10.0.0.3;", None), [refused]);
    assert_eq!(errors("server 10.0.0.3; state peers.conf;", Some("server 10.0.0.1;")), [refused]);
    let twice = errors("state peers.conf; state peers.conf;", Some("server 10.0.0.1;"));
    assert_eq!(twice, ["nginx: [emerg] \"state\" directive is duplicate in /etc/nginx/nginx.conf:1"]);
}

#[test]
fn state_file_holds_servers_and_is_named_after_its_group() {
    let refused = "nginx: [emerg] a state file holds \"server\" directives only in /etc/nginx/peers.conf:2";
    assert_eq!(errors("state peers.conf;", Some("server 10.0.0.1;\nkeepalive 4;\n")), [refused]);
    let unknown = errors("state peers.conf;", Some("sever 10.0.0.1;"));
    assert!(unknown[0].contains("unknown directive \"sever\" in /etc/nginx/peers.conf:1"), "{unknown:?}");
    let unended = errors("state peers.conf;", Some("server 10.0.0.1"));
    assert!(unended[0].contains("in /etc/nginx/peers.conf:1"), "{unended:?}");
    let included = errors("include inner;", Some("server 10.0.0.1;"));
    assert!(included[0].contains("\"state\" directive is not allowed in an included file"), "{included:?}");
}

#[test]
fn unreadable_state_file_is_an_error() {
    struct Locked;
    impl conf::Loader for Locked {
        fn read(&mut self, path: &Path) -> std::io::Result<Vec<u8>> {
            if path.ends_with("nginx.conf") {
                return Ok(b"events {} http { upstream u { state x; } }".to_vec());
            }
            Err(std::io::Error::from_raw_os_error(13))
        }
        fn glob(&mut self, _: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
            Ok(Vec::new())
        }
    }
    let loaded = conf::load(Path::new("/etc/nginx/nginx.conf"), Path::new("/"), None, &mut Locked);
    let lines: Vec<String> = loaded.diagnostics.iter().map(|found| verdict::log_line(found, &loaded.sources)).collect();
    let expected = "nginx: [emerg] open() \"/etc/nginx/x\" failed (13: Permission denied) in /etc/nginx/nginx.conf:1";
    assert_eq!(lines, [expected]);
}
