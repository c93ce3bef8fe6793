//! Access by address, limits of requests and connections, and the real client address. Rows only; `rows.rs` says how to
//! read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_access_module";
    "allow" (1) "address | CIDR | unix: | all"
        in Http | Server | Location | LimitExcept, ListReplaced + REPEATABLE, Yes =>
        "Allows an address or network; the first rule that matches decides.", "allow 10.0.0.0/8;";
    "deny" (1) "address | CIDR | unix: | all"
        in Http | Server | Location | LimitExcept, ListReplaced + REPEATABLE, Yes =>
        "Refuses an address or network; the first rule that matches decides.", "deny all;";

    module "ngx_http_limit_conn_module";
    "limit_conn_zone" (2) "key zone=name:size" in Http, No + REPEATABLE, Yes =>
        "A named zone that counts connections per key.", "limit_conn_zone $binary_remote_addr zone=per_client:10m;";
    "limit_conn" (2) "zone number" in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Most connections per key of a zone that are served at once.", "limit_conn per_client 20;";
    "limit_conn_log_level" (1) "info | notice | warn | error" = "error"
        in Http | Server | Location, Value since "0.8.18", Yes =>
        "Severity with which refusals by `limit_conn` are logged.", "limit_conn_log_level warn;";
    "limit_conn_status" (1) "code" = "503" in Http | Server | Location, Value since "1.3.15", Yes =>
        "Status of requests refused by `limit_conn`.", "limit_conn_status 429;";
    "limit_conn_dry_run" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.17.6", Yes =>
        "Whether `limit_conn` only counts and logs.", "limit_conn_dry_run on;";

    module "ngx_http_limit_req_module";
    "limit_req_zone" (3) "key zone=name:size rate=rate [sync]" in Http, No + REPEATABLE, Yes =>
        "A named zone that measures the request rate per key.",
        "limit_req_zone $binary_remote_addr zone=per_client:10m rate=10r/s;";
    "limit_req" (1..=3) "zone=name [burst=number] [nodelay | delay=number]"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.7.20", Yes =>
        "Keeps requests to the rate of a zone: some are delayed, more than `burst` are refused.",
        "limit_req zone=per_client burst=20 nodelay;";
    "limit_req_log_level" (1) "info | notice | warn | error" = "error"
        in Http | Server | Location, Value since "0.8.18", Yes =>
        "Severity with which refusals by `limit_req` are logged; delays are one level lower.",
        "limit_req_log_level warn;";
    "limit_req_status" (1) "code" = "503" in Http | Server | Location, Value since "1.3.15", Yes =>
        "Status of requests refused by `limit_req`.", "limit_req_status 429;";
    "limit_req_dry_run" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.17.1", Yes =>
        "Whether `limit_req` only counts and logs.", "limit_req_dry_run on;";

    module "ngx_http_realip_module";
    "set_real_ip_from" (1) "address | CIDR | unix:" in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "A proxy whose word about the client address is believed.", "set_real_ip_from 10.0.0.0/8;";
    "real_ip_header" (1) "field | X-Real-IP | X-Forwarded-For | proxy_protocol" = "X-Real-IP"
        in Http | Server | Location, Value, Yes =>
        "Where a trusted proxy says the client address: a request field, or the PROXY protocol.",
        "real_ip_header X-Forwarded-For;";
    "real_ip_recursive" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.3.0", Yes =>
        "Whether trusted addresses in the list are passed over until the first that is not.", "real_ip_recursive on;";
}
