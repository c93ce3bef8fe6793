//! The structure of `http`: servers, locations, files, errors.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{HASH, directives};

directives! {
    module "ngx_http_core_module";
    "http" (block 0) "" in Main, No, Yes =>
        "Holds the configuration of HTTP servers.", "http { server { listen 127.0.0.1:8080; } }";
    "variables_hash_max_size" (1) "size" = "1024" in Http, No since "0.3.27", Accepted(HASH) =>
        "Largest size of the hash table of variables.", "variables_hash_max_size 1024;";
    "variables_hash_bucket_size" (1) "size" = "64" in Http, No since "0.3.27", Accepted(HASH) =>
        "Bucket size of the hash table of variables.", "variables_hash_bucket_size 64;";
    "server_names_hash_max_size" (1) "size" = "512" in Http, No since "0.3.18", Accepted(HASH) =>
        "Largest size of the hash tables of server names.", "server_names_hash_max_size 512;";
    "server_names_hash_bucket_size" (1) "size" = "32|64|128" in Http, No since "0.3.18", Accepted(HASH) =>
        "Bucket size of the hash tables of server names.", "server_names_hash_bucket_size 64;";
    "server" (block 0) "" in Http, No + REPEATABLE, Yes =>
        "Describes one virtual server, chosen by the address a connection came to and the host it asks for.",
        "server { listen 127.0.0.1:8080; return 204; }";
    "location" (block 1..=2) "[= | ~ | ~* | ^~] uri | @name" in Server | Location, No + REPEATABLE, Yes =>
        "Settings for paths that match exactly (`=`), by prefix or by an expression (`~`, `~*`); `@name` is internal.",
        "location /api/ { proxy_pass http://127.0.0.1:9000; }";
    "listen" (1..)
        "address[:port[-port]] | port[-port] | unix:path [default_server] [backlog=number] [reuseport] \
         [rcvbuf=size] [sndbuf=size] [so_keepalive=on|off|[idle]:[interval]:[count]] [fastopen=number] \
         [deferred] [bind] [ipv6only=on|off] [multipath] [proxy_protocol] [ssl] [quic]"
        = "*:80" in Server, No + REPEATABLE, Yes =>
        "An address, port or Unix socket on which the server takes connections, with the socket's options.",
        "listen 127.0.0.1:8080 backlog=8192;";
    "server_name" (1..) "name ..." = "\"\"" in Server, No + REPEATABLE, Yes =>
        "The host names that the server answers to: exact, with a wildcard at one end, or a regular expression.",
        "server_name example.com *.example.com;";
    "types_hash_max_size" (1) "size" = "1024" in Http | Server | Location, Value since "0.3.16", Accepted(HASH) =>
        "Largest size of the hash table of media types.", "types_hash_max_size 2048;";
    "types_hash_bucket_size" (1) "size" = "64" in Http | Server | Location, Value since "0.3.16", Accepted(HASH) =>
        "Bucket size of the hash table of media types.", "types_hash_bucket_size 64;";
    "types" (block 0) "" = "{ text/html html; image/gif gif; image/jpeg jpg; }"
        in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Maps file name extensions to media types.", "types { text/html html htm; }";
    "default_type" (1) "mime-type" = "text/plain" in Http | Server | Location, Value, Yes =>
        "The media type where the extension is not known.", "default_type application/octet-stream;";
    "root" (1) "path" = "html" in Http | Server | Location | IfInLocation, Value, Yes =>
        "The directory under which the request's path is looked up.", "root /var/www/html;";
    "alias" (1) "path" in Location, No, Yes =>
        "The path that takes the place of the matched part of the location.", "alias /srv/images/;";
    "limit_except" (block 1..) "method ..." in Location, No since "0.3.37", Yes =>
        "Limits all methods but the listed ones; GET includes HEAD.", "limit_except GET { deny all; }";
    "subrequest_output_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "1.13.10", Yes =>
        "Longest response that `include` of SSI puts into a variable (`set`).", "subrequest_output_buffer_size 16k;";
    "satisfy" (1) "all | any" = "all" in Http | Server | Location, Value since "0.6.25", Yes =>
        "Whether all of the access checks must allow a request, or any one of them.", "satisfy any;";
    "auth_delay" (1) "time" = "0s" in Http | Server | Location, Value since "1.17.10", Yes =>
        "How long to wait before an unauthorized request is answered.", "auth_delay 1s;";
    "internal" (0) "" in Location, No since "0.1.29", Yes =>
        "Closes the location to requests from outside; redirects within the server still reach it.", "internal;";
    "absolute_redirect" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.11.8", Yes =>
        "Whether redirects made by the server carry scheme and host.", "absolute_redirect off;";
    "server_name_in_redirect" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.6.25", Yes =>
        "Whether absolute redirects use the first `server_name` instead of the host the client asked for.",
        "server_name_in_redirect off;";
    "port_in_redirect" (flag) "on | off" = "on" in Http | Server | Location, Value since "0.1.35", Yes =>
        "Whether absolute redirects made by the server name the listening port.", "port_in_redirect off;";
    "msie_padding" (flag) "on | off" = "on" in Http | Server | Location, Value, No =>
        "Whether short error pages are padded for old browsers.", "msie_padding on;";
    "msie_refresh" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.3.61", No =>
        "Whether old browsers get a refresh page in place of a redirect.", "msie_refresh on;";
    "log_not_found" (flag) "on | off" = "on" in Http | Server | Location, Value since "0.1.38", Yes =>
        "Whether a missing file is logged as an error.", "log_not_found off;";
    "log_subrequest" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.7.18", Yes =>
        "Whether subrequests appear in the access log.", "log_subrequest on;";
    "recursive_error_pages" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.3.61", Yes =>
        "Whether `error_page` applies again to an error met while serving an error page.", "recursive_error_pages on;";
    "server_tokens" (1) "on | off | build | string" = "on" in Http | Server | Location, Value since "0.6.15", Yes =>
        "What the `Server` field and error pages say about the version.", "server_tokens off;";
    "error_page" (2..) "code ... [=[response]] uri"
        in Http | Server | Location | IfInLocation, ListReplaced + REPEATABLE, Yes =>
        "What to answer in place of the given error codes: a path, another address, or a named location.",
        "error_page 500 502 503 504 /50x.html;";
    "post_action" (1) "uri" in Http | Server | Location | IfInLocation, Value since "0.3.10", No =>
        "A location that is run after the request has been answered; not documented by nginx.";
    "error_log" (1..) "file [level]" in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Where errors of this level of the configuration are logged, and from which severity on.",
        "error_log /var/log/holdfast/error.log warn;";
    "resolver" (1..) "address ... [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=zone]"
        in Http | Server | Location, Value since "0.6.18", Yes =>
        "Name servers for names that are looked up while running.", "resolver 127.0.0.53 valid=30s;";
    "resolver_timeout" (1) "time" = "30s" in Http | Server | Location, Value since "0.6.18", Yes =>
        "How long resolving a name may take.", "resolver_timeout 5s;";
    "disable_symlinks" (1..=2) "off | on | if_not_owner [from=part]" = "off"
        in Http | Server | Location, Value since "1.1.15", Yes =>
        "Whether symbolic links in the path of a file are refused.", "disable_symlinks if_not_owner from=$document_root;";
    "try_files" (2..) "file ... uri | file ... =code" in Server | Location, No since "0.7.27", Yes =>
        "Serves the first of these files that exists, else goes on to the last argument.", "try_files $uri $uri/ =404;";
    "early_hints" (1..) "string ..." in Http | Server | Location, ListReplaced + REPEATABLE since "1.29.0", Yes =>
        "When 103 responses of the upstream are passed to the client: if at least one value is neither empty nor `0`.",
        "early_hints $http_sec_fetch_mode;";
}
