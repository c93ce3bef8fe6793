//! Access and error logs.

use conf::model::{Escape, LogFormatId, LogTarget};
use conf::value::words::LogLevel;

use super::{found, http};

#[test]
fn a_log_is_implied_where_none_is_written() {
    let http = http("server { location / { } }");
    let logs = &http.servers[0].locations[0].settings.log.access;
    assert_eq!((logs.len(), logs[0].format), (1, LogFormatId(0)));
    assert_eq!(http.log_formats[0].name, "combined");
}

#[test]
fn off_cancels_inherited_logs_and_its_neighbours() {
    let http = http(
        "access_log /a; server { access_log off; location / { access_log /b; } location /c { access_log /d; access_log off; } }",
    );
    let server = &http.servers[0];
    assert!(server.location.log.access.is_empty());
    assert_eq!(server.locations[0].settings.log.access.len(), 1);
    assert!(server.locations[1].settings.log.access.is_empty());
}

#[test]
fn a_format_is_found_by_its_name() {
    let http = http(
        "log_format main escape=json '$remote_addr' ' $status'; access_log /x main buffer=32k flush=5s if=$loggable;",
    );
    let log = &http.location.log.access[0];
    assert_eq!((log.format, log.buffer), (LogFormatId(1), Some(32 << 10)));
    assert_eq!(http.log_formats[1].escape, Escape::Json);
    assert_eq!(http.log_formats[1].template.variables().collect::<Vec<_>>(), ["remote_addr", "status"]);
}

#[test]
fn refuses_invalid_logs() {
    assert_eq!(found("access_log /x nope;"), ["unknown log format \"nope\" <- nope"]);
    assert_eq!(found("access_log /x late; log_format late x;"), ["unknown log format \"late\" <- late"]);
    assert_eq!(found("log_format a x; log_format a y;"), ["duplicate \"log_format\" name \"a\" <- a"]);
    assert_eq!(
        found("access_log /$x combined buffer=4k;"),
        ["buffered logs cannot have variables in name <- access_log /$x combined buffer=4k;"]
    );
    assert_eq!(
        found("access_log /x combined flush=1m;"),
        ["no buffer is defined for access_log \"/x\" <- access_log /x combined flush=1m;"]
    );
    assert_eq!(found("access_log off x;"), ["invalid parameter \"x\" <- x"]);
    assert_eq!(found("error_log /x loud;"), ["invalid log level \"loud\" <- loud"]);
    assert_eq!(found("error_log /x debug_http debug_core;"), Vec::<String>::new());
    let duplicate = |word: &str| [format!("duplicate log level \"{word}\" <- {word}")];
    assert_eq!(found("error_log /x error debug_http;"), duplicate("debug_http"));
    assert_eq!(found("error_log /x debug_http error;"), duplicate("error"));
}

#[test]
fn error_logs_have_levels_and_targets() {
    let http =
        http("error_log stderr; server { error_log syslog:server=127.0.0.1:514,tag=t info; error_log /e crit; }");
    assert_eq!(
        (&http.location.log.error[0].target, http.location.log.error[0].level),
        (&LogTarget::Stderr, LogLevel::Error)
    );
    let server = &http.servers[0].location.log.error;
    assert!(matches!(&server[0].target, LogTarget::Syslog(syslog) if syslog.tag == "t" && syslog.facility == 23));
    assert_eq!((server.len(), server[1].level), (2, LogLevel::Crit));
}
