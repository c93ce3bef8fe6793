//! Rewriting, and variables made from tables.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{HASH, directives};

directives! {
    module "ngx_http_geo_module";
    "geo" (block 1..=2) "[$address] $variable" in Http, No + REPEATABLE since "0.1.17", Yes =>
        "Defines a variable by the network that the client address belongs to.",
        "geo $internal { default 0; 10.0.0.0/8 1; }";

    module "ngx_http_map_module";
    "map" (block 2) "string $variable" in Http, No + REPEATABLE since "0.3.16", Yes =>
        "Defines a variable by looking another value up in a table.",
        "map $http_upgrade $connection_upgrade { default upgrade; \"\" close; }";
    "map_hash_max_size" (1) "size" = "2048" in Http, No, Accepted(HASH) =>
        "Largest size of the hash tables of `map`.", "map_hash_max_size 2048;";
    "map_hash_bucket_size" (1) "size" = "32|64|128" in Http, No, Accepted(HASH) =>
        "Bucket size of the hash tables of `map`.", "map_hash_bucket_size 64;";

    module "ngx_http_rewrite_module";
    "rewrite" (2..=3) "regex replacement [flag]"
        in Server | Location | IfInServer | IfInLocation, No + REPEATABLE, Yes =>
        "Replaces the request's path where a regular expression matches, or redirects.",
        "rewrite ^/old/(.*)$ /new/$1 last;";
    "return" (1..=2) "code [text] | code URL | URL"
        in Server | Location | IfInServer | IfInLocation, No + REPEATABLE, Yes =>
        "Ends processing with a status, and with text or a redirect address.", "return 301 https://$host$request_uri;";
    "break" (0) "" in Server | Location | IfInServer | IfInLocation, No + REPEATABLE, Yes =>
        "Ends the rewrite instructions of this level.", "break;";
    "if" (block 1..) "(condition)" in Server | Location, No + REPEATABLE, Yes =>
        "Applies settings where a condition on a variable, a match or a file test holds.",
        "if ($request_method = POST) { return 405; }";
    "set" (2) "$variable value" in Server | Location | IfInServer | IfInLocation, No + REPEATABLE, Yes =>
        "Gives a variable a value.", "set $tier gold;";
    "rewrite_log" (flag) "on | off" = "off" in Http | Server | Location | IfInServer | IfInLocation, Value, Yes =>
        "Whether rewrite steps are logged at notice level.", "rewrite_log on;";
    "uninitialized_variable_warn" (flag) "on | off" = "on"
        in Http | Server | Location | IfInServer | IfInLocation, Value since "0.3.39", Yes =>
        "Whether the use of a variable without a value is logged.", "uninitialized_variable_warn on;";

    module "ngx_http_split_clients_module";
    "split_clients" (block 2) "string $variable" in Http, No + REPEATABLE since "0.8.37", Yes =>
        "Defines a variable by shares, from a hash of the given text.",
        "split_clients $remote_addr $variant { 10% b; * a; }";
}
