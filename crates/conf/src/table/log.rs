//! Access logs and counters.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_log_module";
    "log_format" (2..) "name [escape=default|json|none] string ..." = "combined \"...\""
        in Http, No + REPEATABLE, Yes =>
        "Names a format of access log lines.", "log_format short '$remote_addr \"$request\" $status';";
    "access_log" (1..) "path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]] | off"
        = "logs/access.log combined"
        in Http | Server | Location | IfInLocation | LimitExcept, ListReplaced + REPEATABLE, Yes =>
        "Where requests are logged, in which format and how buffered; several lines write to several places.",
        "access_log /var/log/holdfast/access.log combined buffer=32k flush=1s;";
    "open_log_file_cache" (1..=4) "max=N [inactive=time] [min_uses=N] [valid=time] | off" = "off"
        in Http | Server | Location, Value since "0.7.4", Yes =>
        "How many log files whose path has variables stay open.", "open_log_file_cache max=100 inactive=20s;";

    module "ngx_http_stub_status_module";
    "stub_status" (0..=1) "" in Server | Location, No + REPEATABLE since "0.1.18", Yes =>
        "Answers with counters of connections and requests, in nginx's plain form.", "stub_status;";
}
