//! PHP behind FastCGI: real php-fpm with a front controller, uploads, large and slow responses, errors, and a reload
//! under load.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Gateway, Running, Talk, peer_program, until};

/// A typical front controller: every URI without a file comes here.
const INDEX: &str = r"<?php
switch ($_SERVER['PATH_INFO'] ?? '') {
    case '/upload': echo $_SERVER['CONTENT_LENGTH'], ' ', md5(file_get_contents('php://input')); break;
    case '/form': echo json_encode($_POST), count($_FILES), $_FILES['f']['size'] ?? ''; break;
    case '/big': for ($i = 0; $i < 1000; $i++) echo str_repeat('0123456789', 1000); break;
    case '/slow': for ($i = 0; $i < 3; $i++) { echo $i; ob_flush(); flush(); usleep(100000); } break;
    case '/status': http_response_code(404); header('X-Own: yes'); setcookie('a', 'b'); setcookie('c', 'd'); echo 'nothing'; break;
    case '/redirect': header('Location: /there'); break;
    case '/warn': trigger_error('careful', E_USER_WARNING); echo 'warned'; break;
    case '/fatal': undefined_function(); break;
    case '/accel': header('X-Accel-Redirect: /protected/secret.txt'); break;
    case '/sleep': usleep(300000); echo getmypid(); break;
    case '/pid': echo getmypid(); break;
    default: echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['REQUEST_URI'], '|', $_GET['x'] ?? '', '|', $_SERVER['HTTP_X_ONE'] ?? '', '|',
        isset($_SERVER['HTTP_PROXY']) ? 'proxy' : 'none';
}
";

/// php-fpm with two workers and its own directory.
pub(crate) struct Fpm {
    master: Running,
    /// Readable for its workers, which run as another user.
    pub(crate) folder: tempfile::TempDir,
}

impl Fpm {
    /// The Unix socket at which it listens.
    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("php.sock")
    }

    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = folder.path().to_str().unwrap().to_owned();
        let socket = format!("{root}/php.sock");
        let mut conf = format!(
            "[global]\nerror_log = {root}/fpm.log\ndaemonize = no\nprocess_control_timeout = 10s\n\
             [www]\nlisten = {socket}\nlisten.mode = 0666\npm = static\npm.max_children = 2\n\
             catch_workers_output = yes\nphp_admin_flag[log_errors] = on\nphp_admin_value[display_errors] = off\n\
             php_admin_value[post_max_size] = 50M\nphp_admin_value[upload_max_filesize] = 50M\n"
        );
        // Only root can start workers as another user.
        if std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(folder.path()).unwrap()) == 0 {
            let _ = write!(conf, "user = nobody\ngroup = nogroup\n");
        }
        let conf = write(folder.path(), "fpm.conf", &conf);
        let mut command = Command::new(peer_program("php-fpm"));
        let fpm = Self { master: Running::start(command.args(["-n", "-F", "-y", &conf])), folder };
        fpm.master.until("php-fpm listens", || std::os::unix::net::UnixStream::connect(&socket).ok());
        // It listens before its workers have started.
        let children = format!("/proc/{0}/task/{0}/children", fpm.master.id());
        until("php-fpm has workers", || {
            let children = std::fs::read_to_string(&children).ok()?;
            (children.split_whitespace().count() == 2).then_some(())
        });
        fpm
    }
}

/// php-fpm, and a gateway in front of it.
struct Site {
    gateway: Gateway,
    fpm: Fpm,
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn site(location: &str) -> Site {
    let fpm = Fpm::start();
    write(fpm.folder.path(), "index.php", INDEX);
    write(fpm.folder.path(), "file.txt", "a file");
    write(fpm.folder.path(), "secret.txt", "a secret");
    let root = fpm.folder.path().to_str().unwrap();
    let socket = fpm.socket().to_str().unwrap().to_owned();
    let text = format!(
        "worker_processes 1;
        events {{ worker_connections 256; }}
        http {{
            log_format line '$status $upstream_status reused=$upstream_reused \"$request\"';
            access_log access.log line;
            client_max_body_size 50m;
            keepalive_requests 1000000;
            # A worker of PHP serves one connection until that ends: more connections than workers would wait for each other.
            upstream php {{ server unix:{socket} max_fails=0; server unix:{socket} max_fails=0; keepalive 2; max_connections 2 queue=16 timeout=10s; }}
            server {{
                listen {{listen}};
                root {root};
                location = /alive {{ return 200 alive; }}
                location / {{ try_files $uri /index.php$uri?$args; }}
                location /protected/ {{ internal; alias {root}/; }}
                location ~ \\.php(/|$) {{
                    fastcgi_split_path_info ^(.+?\\.php)(/.*)$;
                    fastcgi_param PATH_INFO $fastcgi_path_info;
                    fastcgi_param QUERY_STRING $query_string;
                    fastcgi_param REQUEST_METHOD $request_method;
                    fastcgi_param CONTENT_TYPE $content_type;
                    fastcgi_param CONTENT_LENGTH $content_length;
                    fastcgi_param REQUEST_URI $request_uri;
                    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
                    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
                    fastcgi_pass php;
                    {location}
                }}
            }}
        }}"
    );
    Site { gateway: Gateway::start(&text, &[]), fpm }
}

fn get(client: &mut Talk, target: &str) -> testkit::Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.response()
}

#[test]
fn front_controller_gets_its_parameters() {
    let site = site("fastcgi_keep_conn on;");
    let mut client = site.gateway.client();
    assert_eq!(get(&mut client, "/file.txt").text(), "a file");
    client.send("GET /a/b%20c?x=1 HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nX-One: 2\r\nProxy: evil\r\n\r\n");
    assert_eq!(client.response().text(), "/index.php|/a/b%20c?x=1|1|1, 2|none");
    let response = get(&mut client, "/status");
    assert_eq!((response.status(), response.value("X-Own"), response.text().as_str()), (404, Some("yes"), "nothing"));
    let cookies = response.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("Set-Cookie")).count();
    assert_eq!(cookies, 2, "{response:?}");
    assert!(response.value("Status").is_none() && response.value("X-Powered-By").is_some(), "{response:?}");
    let response = get(&mut client, "/redirect");
    assert_eq!((response.status(), response.value("Location")), (302, Some("/there")));
    assert_eq!(get(&mut client, "/accel").text(), "a secret");
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().status(), 200);
    assert_eq!(get(&mut client, "/a").text(), "/index.php|/a|||none");
}

#[test]
fn uploads_arrive_whole_from_memory_from_files_and_streamed() {
    // md5 of this many times "y".
    let sizes = [(0usize, "d41d8cd98f00b204e9800998ecf8427e"), (1, "415290769594460e2e485922904f345d")];
    for words in ["", "client_body_buffer_size 1k;", "fastcgi_request_buffering off;", "fastcgi_keep_conn on;"] {
        let site = site(words);
        let mut client = site.gateway.client();
        for (size, sum) in sizes {
            client.send(format!(
                "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n{}",
                "y".repeat(size)
            ));
            assert_eq!(client.response().text(), format!("{size} {sum}"), "{words}");
        }
        let mut sums = Vec::new();
        for size in [65_527, 65_528, 65_529, 1_000_000, 20_000_000] {
            let body = vec![b'y'; size];
            client.send(format!("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n"));
            client.send(&body);
            let text = client.response().text();
            assert!(text.starts_with(&format!("{size} ")), "{words}: {text}");
            sums.push(text);
        }
        sums.dedup();
        assert_eq!(sums.len(), 5, "{sums:?}");
    }
}

#[test]
fn large_and_slow_responses_come_whole_and_at_once() {
    let site = site("fastcgi_keep_conn on; fastcgi_buffering off;");
    let mut client = site.gateway.client();
    let response = get(&mut client, "/big");
    assert_eq!((response.status(), response.body.len()), (200, 10_000_000));
    assert!(response.body.chunks(10).all(|piece| piece == b"0123456789"));
    assert_eq!(get(&mut client, "/slow").text(), "012");
}

#[test]
fn location_may_keep_fastcgi_connections() {
    for (words, reused) in [("fastcgi_keep_conn on;", 4), ("", 0)] {
        let site = site(words);
        let mut client = site.gateway.client();
        for _ in 0..5 {
            assert_eq!(get(&mut client, "/pid").status(), 200);
        }
        let lines = site.gateway.access_lines(5);
        assert_eq!(lines.iter().filter(|line| line.contains("reused=1")).count(), reused, "{words}: {lines:?}");
    }
}

#[test]
fn errors_of_scripts_are_in_the_error_log() {
    let site = site("fastcgi_keep_conn on;");
    let mut client = site.gateway.client();
    assert_eq!(get(&mut client, "/warn").text(), "warned");
    let line = site.gateway.logged("FastCGI sent in stderr: \"PHP message: PHP Warning:  careful in ");
    assert!(line.contains(" while reading ") && line.contains("upstream: \"fastcgi://unix:"), "{line}");
    assert_eq!(get(&mut client, "/fatal").status(), 500);
    site.gateway.logged("Call to undefined function undefined_function()");
    assert_eq!(get(&mut client, "/pid").status(), 200);
}

#[test]
fn a_reload_of_php_under_load_fails_no_request() {
    let site = site("fastcgi_keep_conn on; fastcgi_next_upstream error timeout http_502;");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let (mut client, stop) = (site.gateway.client(), &stop);
                scope.spawn(move || {
                    let mut served = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let response = get(&mut client, "/pid");
                        assert_eq!(response.status(), 200, "after {served}: {response:?}");
                        served += 1;
                    }
                    served
                })
            })
            .collect();
        let mut client = site.gateway.client();
        let master = site.fpm.master.id();
        let before = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children")).unwrap();
        assert_eq!(before.split_whitespace().count(), 2, "{before}");
        assert!(Command::new("kill").args(["-USR2", &master.to_string()]).status().unwrap().success());
        until("new processes answer", || {
            let pid = get(&mut client, "/pid").text();
            (!before.split(' ').any(|child| child == pid)).then_some(())
        });
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
    });
}
