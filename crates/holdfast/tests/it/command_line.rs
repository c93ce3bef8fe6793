//! The output and exit codes of the command line, compared with nginx's.

use crate::support::{Instance, holdfast};
use std::process::Output;

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const SOUND: &str = "server { listen 127.0.0.1:PORT; return 204; }";

#[test]
fn a_sound_configuration_passes_with_nginx_s_two_lines() {
    let instance = Instance::new("", SOUND);
    let output = instance.run(&["-t"]);
    let file = instance.path("nginx.conf");
    let expected = format!(
        "nginx: the configuration file {0} syntax is ok\nnginx: configuration file {0} test is successful\n",
        file.display()
    );
    assert_eq!((output.status.code(), errors(&output)), (Some(0), expected));
    assert_eq!(errors(&instance.run(&["-tq"])), "");
    assert_eq!(instance.run(&["-t"]).stdout, b"");
}

#[test]
fn a_broken_one_fails_with_the_line_the_hint_and_the_verdict() {
    let instance = Instance::new("", "server { listen 127.0.0.1:PORT; retrun 204; }");
    let output = instance.run(&["-t"]);
    let text = errors(&output);
    let file = instance.path("nginx.conf");
    assert_eq!(output.status.code(), Some(1));
    for expected in [
        "unknown directive \"retrun\"\n",
        "^^^^^^",
        "hint: did you mean `return`?",
        &format!("nginx: [emerg] unknown directive \"retrun\" in {}:", file.display()),
        &format!("nginx: configuration file {} test failed\n", file.display()),
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colours on something that is no terminal: {text:?}");
    // A start gives the same verdict, before it binds or writes anything.
    let start = instance.run(&["-g", "daemon off;"]);
    assert_eq!(start.status.code(), Some(1));
    assert!(errors(&start).contains("unknown directive \"retrun\""), "{}", errors(&start));
    assert_eq!(instance.pid_file(), None);
}

#[test]
fn a_misspelt_variable_is_found_where_no_request_would_meet_it() {
    // None of these directives depends on a server, so each error is found.
    let idle = "log_format unused $nope1; add_header X $nope2; root $nope3; index $nope4; error_page 404 /$nope5;
        limit_rate $nope6; proxy_redirect a $nope7; proxy_cookie_path a $nope8; expires $nope9; proxy_method $nope10;
        map $nope11 $x { default 1; } upstream a { server 127.0.0.1; hash $nope12; } access_log /tmp/$nope13;
        limit_req_zone $nope14 zone=a:1m rate=1r/s; proxy_bind $nope15;";
    let output = Instance::new("", idle).run(&["-t"]);
    assert_eq!(output.status.code(), Some(1));
    for number in 1..=15 {
        let expected = format!("unknown \"nope{number}\" variable");
        assert_eq!(errors(&output).matches(&format!("{expected}\n")).count(), 1, "{expected} in\n{}", errors(&output));
    }
    let bystander = "server { listen 127.0.0.1:PORT; location / { proxy_set_header X $nope; return 204; } }
        server { listen 127.0.0.1:PORT; server_name b; location / { proxy_set_header X $nopes; } return 204; }";
    let output = Instance::new("", bystander).run(&["-t"]);
    for expected in ["unknown \"nope\" variable\n", "unknown \"nopes\" variable\n"] {
        assert_eq!(errors(&output).matches(expected).count(), 1, "{expected} in\n{}", errors(&output));
    }
    // A proxy header has an effect only in a server; without one nginx accepts the unknown variable, too.
    let output = Instance::new("", "proxy_set_header X $nope;").run(&["-t"]);
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn the_verdict_is_data_where_data_is_wanted() {
    let instance = Instance::new("", "server { listen 127.0.0.1:PORT; retrun 204; }");
    let output = instance.run(&["-t", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(verdict["ok"], false);
    assert_eq!(verdict["diagnostics"][0]["message"], "unknown directive \"retrun\"");
    assert_eq!(verdict["diagnostics"][0]["hint"], "did you mean `return`?");
}

#[test]
fn a_missing_file_is_named_with_its_errno() {
    let output = holdfast().args(["-t", "-c", "/nonexistent/nginx.conf"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    let line = "nginx: [emerg] open() \"/nonexistent/nginx.conf\" failed (2: No such file or directory)";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_log_that_cannot_be_opened_fails_the_test() {
    let instance = Instance::new("error_log /nonexistent/error.log;", SOUND);
    let output = instance.run(&["-t"]);
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    let line = "nginx: [emerg] open() \"/nonexistent/error.log\" failed (2: No such file or directory)";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_dump_has_every_file_once_and_in_order() {
    let instance = Instance::new("", "include sites/*.conf; include sites/*.conf;");
    std::fs::create_dir(instance.path("sites")).expect("made");
    for name in ["b", "a"] {
        std::fs::write(instance.path(&format!("sites/{name}.conf")), format!("# site {name}\n")).expect("written");
    }
    let output = instance.run(&["-T"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("# configuration file")).collect();
    let head = |name: &str| format!("# configuration file {}:", instance.path(name).display());
    assert_eq!(heads, [head("nginx.conf"), head("sites/a.conf"), head("sites/b.conf")]);
    assert!(text.contains(":\n# site a\n\n"), "{text}");
}

#[test]
fn versions_are_where_tools_look_for_them() {
    let version = holdfast().arg("-v").output().expect("it starts");
    assert!(errors(&version).starts_with("nginx version: nginx/1.31.4 (holdfast/"), "{}", errors(&version));
    let all = holdfast().arg("-V").output().expect("it starts");
    let text = errors(&all);
    assert!(text.starts_with("holdfast "), "{text}");
    assert!(text.lines().any(|line| line == "nginx version: nginx/1.31.4"), "{text}");
    assert!(text.lines().any(|line| line.starts_with("configure arguments: --prefix=")), "{text}");
    assert_eq!((version.status.code(), all.status.code(), all.stdout.len()), (Some(0), Some(0), 0));
}

#[test]
fn wrong_flags_end_as_in_nginx() {
    for (flags, message) in [
        (&["-x"][..], "nginx: invalid option: \"x\"\n"),
        (&["-s", "restart"], "nginx: invalid option: \"-s restart\"\n"),
        (&["-c"], "nginx: option \"-c\" requires file name\n"),
    ] {
        let output = holdfast().args(flags).output().expect("it starts");
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(1), message));
    }
    let subcommand = holdfast().arg("surf").output().expect("it starts");
    assert_eq!(subcommand.status.code(), Some(2));
    assert_eq!(holdfast().output().expect("it starts").status.code(), Some(2));
}

#[test]
fn a_signal_without_an_instance_says_which_file_is_missing() {
    let instance = Instance::new("", SOUND);
    let output = instance.run(&["-s", "reload"]);
    let path = instance.path("logs/holdfast.pid");
    let expected = format!("nginx: [error] open() \"{}\" failed (2: No such file or directory)\n", path.display());
    assert_eq!((output.status.code(), errors(&output)), (Some(1), expected));
    std::fs::write(&path, "x\n").expect("written");
    let expected = format!("nginx: [error] invalid PID number \"x\" in \"{}\"\n", path.display());
    assert_eq!(errors(&instance.run(&["-s", "stop"])), expected);
}

#[test]
fn called_nginx_it_is_nginx() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let link = folder.path().join("nginx");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_holdfast"), &link).expect("made");
    let output = std::process::Command::new(link).arg("serve").output().expect("it starts");
    assert_eq!(errors(&output), "nginx: invalid option: \"serve\"\n");
}

#[test]
fn quick_mode_prints_a_configuration_that_loads() {
    let output =
        holdfast().args(["serve", "--to", "3000", "--listen", "127.0.0.1:0", "--print-config"]).output().expect("runs");
    let text = printed(&output);
    assert!(text.contains("server 127.0.0.1:3000;") && text.contains("listen 127.0.0.1:0;"), "{text}");
    // Without `--listen` no other host can connect.
    let output = holdfast().args(["serve", "--to", "3000", "--print-config"]).output().expect("it starts");
    assert!(printed(&output).contains("listen 127.0.0.1:8080;"), "{}", printed(&output));
    let output = holdfast().args(["serve", "--to", "3000", "--print-config"]).output().expect("it starts");
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("quick.conf");
    std::fs::write(&file, &output.stdout).expect("written");
    let tested = holdfast().arg("-tc").arg(&file).output().expect("it starts");
    assert_eq!(tested.status.code(), Some(0), "{}", errors(&tested));
    let bad = holdfast().args(["serve", "--to", "a;b"]).output().expect("it starts");
    assert_eq!(bad.status.code(), Some(2));
}

#[test]
fn serve_without_configuration_exits_with_a_hint() {
    let output = holdfast().arg("serve").output().expect("it starts");
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("holdfast serve -c ") && said.contains("holdfast serve --to 127.0.0.1:3000"), "{said}");
}

#[test]
fn completions_and_manual_are_there() {
    let script = holdfast().args(["completions", "bash"]).output().expect("it starts");
    assert!(printed(&script).contains("_holdfast()"));
    let page = holdfast().arg("man").output().expect("it starts");
    assert!(printed(&page).contains(".TH holdfast 1") && printed(&page).contains("Exit codes"), "{}", printed(&page));
}

#[test]
fn a_start_counts_its_notes_and_the_test_shows_them() {
    for top in ["", "master_process off;"] {
        let mut instance =
            Instance::new(top, "sendfile on; types_hash_max_size 2048; server { listen 127.0.0.1:PORT; return 204; }");
        let shown = errors(&instance.run(&["-t"]));
        let notes = shown.matches("note: ").count();
        assert!(notes > 0, "{shown}");
        instance.start();
        let said = instance.text("stderr");
        let are = if notes == 1 { "is 1 note".to_owned() } else { format!("are {notes} notes") };
        assert!(said.contains(&format!("there {are} on this configuration; -t shows ")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
