//! Loading: includes, `-g`, limits, and the resulting tree.

use std::path::Path;

use crate::support::Files;
use conf::load::{INCLUDE_DEPTH_MAX, NESTING_MAX};
use conf::tree::{Block, Directive};
use conf::{Loaded, verdict};

/// The tree on one line: words between spaces, blocks in braces.
fn shape(block: &Block) -> String {
    let directive = |directive: &Directive| {
        let words: Vec<_> = std::iter::once(&directive.name).chain(&directive.args).map(|word| word.text()).collect();
        match &directive.block {
            Some(block) => format!("{} {{ {} }}", words.join(" "), shape(block)),
            None => format!("{};", words.join(" ")),
        }
    };
    block.directives.iter().map(directive).collect::<Vec<_>>().join(" ")
}

fn lines(loaded: &Loaded) -> Vec<String> {
    loaded.diagnostics.iter().map(|found| verdict::log_line(found, &loaded.sources)).collect()
}

#[test]
fn included_files_replace_the_include() {
    let mut files = Files::new([
        ("/etc/nginx/nginx.conf", "a;\nhttp { include conf.d/*.conf; include mime.types; z; }\n"),
        ("/etc/nginx/conf.d/20.conf", "server { listen 20; }"),
        ("/etc/nginx/conf.d/10.conf", "server {\n include /etc/nginx/snippet;\n}"),
        ("/etc/nginx/conf.d/30.conf.off", "no;"),
        ("/etc/nginx/conf.d/.hidden.conf", "no;"),
        ("/etc/nginx/snippet", "listen 10;"),
        ("/etc/nginx/mime.types", "types { include more; text/html html htm; }"),
        ("/etc/nginx/more", "a/b c;"),
    ]);
    let loaded = files.load();
    assert_eq!(lines(&loaded), [""; 0]);
    let expected = "a; http { server { listen 10; } server { listen 20; } types { a/b c; text/html html htm; } z; }";
    assert_eq!(shape(&loaded.tree), expected);
    // A span lies in the file that contains the directive.
    let http = loaded.tree.directives[1].block.as_ref().expect("http has a block");
    let span = http.directives[1].span;
    assert_eq!(loaded.sources.source(span.file).name, "/etc/nginx/conf.d/20.conf");
    assert_eq!(loaded.sources.bytes(span), b"server { listen 20; }");
}

#[test]
fn a_mask_may_match_nothing_and_a_file_must_exist() {
    let text = "include none/*.conf;\ninclude none.conf;\ninclude conf.d;\n";
    let mut files = Files::new([("/etc/nginx/nginx.conf", text), ("/etc/nginx/conf.d/a", "")]);
    let expected = [
        "nginx: [emerg] open() \"/etc/nginx/none.conf\" failed (2: No such file or directory) in /etc/nginx/nginx.conf:2",
        "nginx: [emerg] pread() \"/etc/nginx/conf.d\" failed (21: Is a directory) in /etc/nginx/nginx.conf:3",
    ];
    assert_eq!(lines(&files.load()), expected);
}

#[test]
fn the_systems_own_error_is_shown_once() {
    struct Full;
    impl conf::Loader for Full {
        fn read(&mut self, _: &Path) -> std::io::Result<Vec<u8>> {
            Err(std::io::Error::from_raw_os_error(24))
        }
        fn glob(&mut self, _: &Path) -> std::io::Result<Vec<std::path::PathBuf>> {
            Ok(Vec::new())
        }
    }
    let loaded = conf::load(Path::new("conf/nginx.conf"), Path::new("/opt/x"), None, &mut Full);
    assert_eq!(lines(&loaded), ["nginx: [emerg] open() \"/opt/x/conf/nginx.conf\" failed (24: Too many open files)"]);
    assert_eq!(loaded.conf_prefix, Path::new("/opt/x/conf"));
    let shown = loaded.diagnostics[0].render(&loaded.sources, false);
    assert_eq!(shown, "/opt/x/conf/nginx.conf: open() \"/opt/x/conf/nginx.conf\" failed (24: Too many open files)\n");
}

#[test]
fn a_cycle_is_named() {
    let mut files = Files::new([
        ("/etc/nginx/nginx.conf", "include a;"),
        ("/etc/nginx/a", "include b;"),
        ("/etc/nginx/b", "x;\ninclude a;"),
    ]);
    let loaded = files.load();
    let expected = "nginx: [emerg] \"include\" cycle: /etc/nginx/a -> /etc/nginx/b -> /etc/nginx/a in /etc/nginx/b:2";
    assert_eq!(lines(&loaded), [expected]);
}

#[test]
fn endless_includes_end() {
    // Each level includes the next one twice: 2^30 files without a limit.
    let mut files = Files::default();
    for level in 0..30 {
        let text = format!("include {0};\ninclude {0};\n", level + 1);
        files.0.insert(format!("/etc/nginx/{level}").into(), text.into());
    }
    files.0.insert("/etc/nginx/30".into(), b"x;".to_vec());
    files.0.insert("/etc/nginx/nginx.conf".into(), b"include 0;".to_vec());
    let loaded = files.load();
    assert_eq!(loaded.diagnostics.len(), 1);
    assert_eq!(loaded.diagnostics[0].message, "more than 65536 files are included");

    let mut files = Files::default();
    for level in 0..=INCLUDE_DEPTH_MAX {
        files.0.insert(format!("/etc/nginx/{level}").into(), format!("include {};", level + 1).into());
    }
    files.0.insert("/etc/nginx/nginx.conf".into(), b"include 0;".to_vec());
    assert_eq!(files.load().diagnostics[0].message, "\"include\" is nested deeper than 32 files");
}

#[test]
fn a_file_that_is_included_twice_is_dumped_once() {
    let mut files = Files::new([("/etc/nginx/nginx.conf", "include a; # twice\ninclude a;\n"), ("/etc/nginx/a", "x;")]);
    let loaded = files.load();
    assert_eq!(shape(&loaded.tree), "x; x;");
    let expected = "# configuration file /etc/nginx/nginx.conf:\ninclude a; # twice\ninclude a;\n\n\
                    # configuration file /etc/nginx/a:\nx;\n";
    assert_eq!(String::from_utf8(verdict::dump(&loaded.sources)).as_deref(), Ok(expected));
}

#[test]
fn directives_of_the_command_line_come_first() {
    let mut files = Files::new([("/etc/nginx/nginx.conf", "b;")]);
    let mut with = |globals| conf::load(Path::new("/etc/nginx/nginx.conf"), Path::new("/"), Some(globals), &mut files);
    let loaded = with("daemon off; a;");
    assert_eq!((shape(&loaded.tree).as_str(), lines(&loaded).len()), ("daemon off; a; b;", 0));
    assert_eq!(verdict::dump(&loaded.sources), b"# configuration file /etc/nginx/nginx.conf:\nb;\n");
    let open = "nginx: [emerg] unexpected end of parameter, expecting \";\" in command line";
    assert_eq!(lines(&with("daemon off")), [open]);
    let block = "nginx: [emerg] block directives are not supported in -g option in command line";
    assert_eq!(lines(&with("events { }")), [block]);
}

#[test]
fn entries_may_be_called_include() {
    let text = "split_clients $a $b { include 5%; * x; }\nmap $a $b { \\include 1; }\n";
    let mut files = Files::new([("/etc/nginx/nginx.conf", text)]);
    let loaded = files.load();
    assert_eq!(lines(&loaded), [""; 0]);
    assert_eq!(shape(&loaded.tree), "split_clients $a $b { include 5%; * x; } map $a $b { \\include 1; }");
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "a {".repeat(depth), "}".repeat(depth));
    let mut files = Files::new([("/etc/nginx/nginx.conf", &nested(NESTING_MAX))]);
    assert_eq!(lines(&files.load()), [""; 0]);
    let mut files = Files::new([("/etc/nginx/nginx.conf", &nested(100_000))]);
    assert_eq!(files.load().diagnostics[0].message, "blocks are nested deeper than 64");
}

#[test]
fn errors_are_bounded_and_so_is_the_work_they_cause() {
    // Each line opens a quote that is never closed, so the lexer reads to its limit for each of them.
    let mut files = Files::new([("/etc/nginx/nginx.conf", &"a \"b;\nc 'd\n".repeat(50_000))]);
    assert_eq!(files.load().diagnostics.len(), conf::load::ERRORS_MAX);
}
