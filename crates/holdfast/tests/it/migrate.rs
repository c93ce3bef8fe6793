//! `holdfast migrate` from the command line: its report and exit codes.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn migrate(text: &str, flags: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, text).expect("written");
    std::fs::write(folder.path().join("xslt.conf"), "xslt_stylesheet one.xslt;\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(["migrate", "--from", "nginx-1.26", "-c"]).arg(file).args(flags).output().expect("it starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn lists_all_unsupported_directives_with_replacements() {
    let found = migrate(
        "events {} http {\n perl_modules lib;\n upstream app { server 127.0.0.1:1; }\n server { listen 8089;\n\
         location / { proxy_pass http://app; }\n location /pages { include xslt.conf; }\n\
         location /x { js_content a.b; }\n location /y { client_max_body_size 10x; return 204; } } }\n",
        &[],
    );
    let text = text(&found);
    for part in [
        "places have to change before Holdfast serves this configuration",
        "nginx.conf:2",
        "\"perl_modules\" is known but not supported by holdfast",
        "xslt.conf:1",
        "\"xslt_stylesheet\" is known but not supported by holdfast",
        "\"js_content\"",
        // Lowering also runs if the check found errors.
        "\"client_max_body_size\" directive invalid value",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(found.status.code(), Some(3), "{text}");
}

#[test]
fn lists_no_effect_difference_and_improvement_separately() {
    let found = migrate(
        "events {} http { server_names_hash_bucket_size 64;\n\
         upstream app { server 127.0.0.1:1; }\n\
         server { listen 8089; location / { proxy_pass http://app; } } }\n",
        &["--json"],
    );
    let document: Value = serde_json::from_slice(&found.stdout).expect("JSON");
    let all = document.to_string();
    for part in ["Holdfast serves this configuration as it is", "Without effect", "server_names_hash_bucket_size"] {
        assert!(all.contains(part), "{part} in {all}");
    }
    // By default nginx 1.26 keeps no idle connections to a group, and Holdfast does.
    assert!(all.contains("Different values") && all.contains("keepalive"), "{all}");
    assert!(all.contains("keepalive_learn on;") && !all.contains("tunnel_ping"), "{all}");
    assert_eq!(found.status.code(), Some(0), "{all}");
}

#[test]
fn cache_folders_of_nginx_are_mentioned() {
    for name in ["proxy", "fastcgi"] {
        let cache =
            format!("events {{}} http {{ {name}_cache_path /tmp/none keys_zone=one:1m; server {{ listen 8089; }} }}");
        let found = text(&migrate(&cache, &["--json"]));
        assert!(found.contains("give Holdfast another folder"), "{found}");
    }
    let found = text(&migrate("events {} http { server { listen 8089; return 200 hello; } }\n", &["--json"]));
    assert!(!found.contains("another folder"), "{found}");
}

#[test]
fn a_configuration_that_needs_nothing_ends_with_zero() {
    let found = migrate("events {} http { server { listen 8089; return 200 hello; } }\n", &["--json"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found));
}

#[test]
fn finds_errors_that_otherwise_show_at_start_only() {
    let found = migrate("events {} http { server { listen 8089; return 200 $no_such_variable; } }\n", &[]);
    assert!(text(&found).contains("no_such_variable"), "{}", text(&found));
    assert_eq!(found.status.code(), Some(3));
}

#[test]
fn a_file_that_cannot_be_read_ends_with_one() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    let found = command.args(["migrate", "-c"]).arg(Path::new("/no/such.conf")).output().expect("it starts");
    assert_eq!(found.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&found.stderr).contains("/no/such.conf"));
}
