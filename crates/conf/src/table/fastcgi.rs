//! The `fastcgi_*` directives.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{FASTCGI, directives};

directives! {
    module "ngx_http_fastcgi_module";
    "fastcgi_pass" (1) "address" in Location | IfInLocation, Value, No =>
        "The FastCGI server that requests are passed to.";
    "fastcgi_index" (1) "name" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "File name appended to a path that ends with a slash.";
    "fastcgi_split_path_info" (1) "regex"
        in Http | Server | Location, Value + REPEATABLE since "0.7.31", OnlyWith(FASTCGI) =>
        "Regular expression that splits the path into script name and path info.";
    "fastcgi_store" (1) "on | off | string" = "off"
        in Http | Server | Location, Value since "0.6.3", OnlyWith(FASTCGI) =>
        "Whether responses of the FastCGI server are saved as files, and where.", "fastcgi_store off;";
    "fastcgi_store_access" (1..=3) "users:permissions ..." = "user:rw"
        in Http | Server | Location, Value since "0.6.4", OnlyWith(FASTCGI) =>
        "Rights of saved files and directories.", "fastcgi_store_access user:rw;";
    "fastcgi_buffering" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.5.6", OnlyWith(FASTCGI) =>
        "Whether the response is read ahead of the client.", "fastcgi_buffering on;";
    "fastcgi_request_buffering" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.7.11", OnlyWith(FASTCGI) =>
        "Whether the whole request body is read first.", "fastcgi_request_buffering on;";
    "fastcgi_ignore_client_abort" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.3.36", OnlyWith(FASTCGI) =>
        "Whether the request goes on after the client has left.", "fastcgi_ignore_client_abort on;";
    "fastcgi_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "0.8.22", OnlyWith(FASTCGI) =>
        "The local address from which connections to the FastCGI server are made.";
    "fastcgi_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.15.6", OnlyWith(FASTCGI) =>
        "Whether connections to the FastCGI server use TCP keepalive probes.", "fastcgi_socket_keepalive on;";
    "fastcgi_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "How long connecting to the FastCGI server may take.", "fastcgi_connect_timeout 60s;";
    "fastcgi_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "How long the FastCGI server may take no data between two writes.", "fastcgi_send_timeout 60s;";
    "fastcgi_send_lowat" (1) "size" = "0" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "How many bytes must be writable to the FastCGI server at once (BSD).", "fastcgi_send_lowat 0;";
    "fastcgi_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "0.3.12", OnlyWith(FASTCGI) =>
        "Buffer for the first part of the response.";
    "fastcgi_pass_request_headers" (flag) "on | off" = "on" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "Whether the client's header fields are passed on.", "fastcgi_pass_request_headers on;";
    "fastcgi_pass_request_body" (flag) "on | off" = "on" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "Whether the client's request body is passed on.", "fastcgi_pass_request_body on;";
    "fastcgi_intercept_errors" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.3.50", OnlyWith(FASTCGI) =>
        "Whether `error_page` applies to responses of the FastCGI server.", "fastcgi_intercept_errors on;";
    "fastcgi_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "How long the FastCGI server may send nothing between two reads.", "fastcgi_read_timeout 60s;";
    "fastcgi_buffers" (2) "number size" = "8 4k|8k" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "Number and size of buffers for one response.";
    "fastcgi_busy_buffers_size" (1) "size" = "8k|16k" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "How much may wait to be sent to the client meanwhile.";
    "fastcgi_force_ranges" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.7.7", OnlyWith(FASTCGI) =>
        "Whether byte ranges work without `Accept-Ranges`.", "fastcgi_force_ranges on;";
    "fastcgi_limit_rate" (1) "rate" = "0" in Http | Server | Location, Value since "1.7.7", OnlyWith(FASTCGI) =>
        "Bytes per second read from the FastCGI server.", "fastcgi_limit_rate 0;";
    "fastcgi_cache" (1) "zone | off" = "off" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "The zone in which responses are cached.", "fastcgi_cache off;";
    "fastcgi_cache_key" (1) "string" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "The key of a cached response.";
    "fastcgi_cache_path" (2..) "path keys_zone=name:size [parameters]" in Http, No + REPEATABLE, OnlyWith(FASTCGI) =>
        "Directory, zone and limits of a cache.";
    "fastcgi_cache_bypass" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.46", OnlyWith(FASTCGI) =>
        "When a response is not taken from the cache.";
    "fastcgi_no_cache" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.38", OnlyWith(FASTCGI) =>
        "When a response is not put into the cache.";
    "fastcgi_cache_valid" (1..) "[code ...] time"
        in Http | Server | Location, ListReplaced + REPEATABLE, OnlyWith(FASTCGI) =>
        "How long responses of a status stay fresh.";
    "fastcgi_cache_min_uses" (1) "number" = "1" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "Requests after which a response is cached.", "fastcgi_cache_min_uses 1;";
    "fastcgi_cache_max_range_offset" (1) "number"
        in Http | Server | Location, Value since "1.11.6", OnlyWith(FASTCGI) =>
        "Up to which offset range requests are cached.";
    "fastcgi_cache_use_stale" (1..) "condition ... | off" = "off"
        in Http | Server | Location, Value + REPEATABLE, OnlyWith(FASTCGI) =>
        "When a stale response may be used.", "fastcgi_cache_use_stale off;";
    "fastcgi_cache_methods" (1..) "GET | HEAD | POST ..." = "GET HEAD"
        in Http | Server | Location, Value + REPEATABLE since "0.7.59", OnlyWith(FASTCGI) =>
        "Methods whose responses are cached.", "fastcgi_cache_methods GET HEAD;";
    "fastcgi_cache_lock" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.1.12", OnlyWith(FASTCGI) =>
        "Whether only one request at a time fills a cache entry.", "fastcgi_cache_lock on;";
    "fastcgi_cache_lock_timeout" (1) "time" = "5s"
        in Http | Server | Location, Value since "1.1.12", OnlyWith(FASTCGI) =>
        "How long others wait for the one that fills an entry.", "fastcgi_cache_lock_timeout 5s;";
    "fastcgi_cache_lock_age" (1) "time" = "5s" in Http | Server | Location, Value since "1.7.8", OnlyWith(FASTCGI) =>
        "After how long another request may fill the entry.", "fastcgi_cache_lock_age 5s;";
    "fastcgi_cache_revalidate" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.5.7", OnlyWith(FASTCGI) =>
        "Whether stale entries are revalidated by conditional requests.", "fastcgi_cache_revalidate on;";
    "fastcgi_cache_background_update" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.11.10", OnlyWith(FASTCGI) =>
        "Whether stale entries are renewed in the background.", "fastcgi_cache_background_update on;";
    "fastcgi_temp_path" (1..=4) "path [level1 [level2 [level3]]]" = "fastcgi_temp"
        in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "Directory for responses that outgrow their buffers.", "fastcgi_temp_path fastcgi_temp;";
    "fastcgi_max_temp_file_size" (1) "size" = "1024m" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "Largest temporary file of a response.", "fastcgi_max_temp_file_size 1024m;";
    "fastcgi_temp_file_write_size" (1) "size" = "8k|16k" in Http | Server | Location, Value, OnlyWith(FASTCGI) =>
        "Most bytes written to a temporary file at a time.";
    "fastcgi_next_upstream" (1..) "condition ... | off" = "error timeout"
        in Http | Server | Location, Value + REPEATABLE, OnlyWith(FASTCGI) =>
        "In which cases the next peer is tried.", "fastcgi_next_upstream error timeout;";
    "fastcgi_next_upstream_tries" (1) "number" = "0"
        in Http | Server | Location, Value since "1.7.5", OnlyWith(FASTCGI) =>
        "Most attempts per request.", "fastcgi_next_upstream_tries 0;";
    "fastcgi_next_upstream_timeout" (1) "time" = "0"
        in Http | Server | Location, Value since "1.7.5", OnlyWith(FASTCGI) =>
        "Time within which further peers may be tried.", "fastcgi_next_upstream_timeout 0;";
    "fastcgi_param" (2..=3) "parameter value [if_not_empty]"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.1.29", OnlyWith(FASTCGI) =>
        "Parameter passed to the FastCGI server.";
    "fastcgi_pass_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.3.46", OnlyWith(FASTCGI) =>
        "Passes a response field that is withheld by default.";
    "fastcgi_hide_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.3.46", OnlyWith(FASTCGI) =>
        "Withholds a response field from the client.";
    "fastcgi_ignore_headers" (1..) "field ..."
        in Http | Server | Location, Value + REPEATABLE since "0.7.54", OnlyWith(FASTCGI) =>
        "Response fields that do not steer the proxy.";
    "fastcgi_catch_stderr" (1) "string"
        in Http | Server | Location, Value + REPEATABLE since "0.5.23", OnlyWith(FASTCGI) =>
        "Text on the error stream that makes a response invalid.";
    "fastcgi_keep_conn" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.1.4", OnlyWith(FASTCGI) =>
        "Whether connections to the FastCGI server are kept.", "fastcgi_keep_conn on;";
    "fastcgi_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", OnlyWith(FASTCGI) =>
        "Receive buffer of sockets to the FastCGI server.", "fastcgi_socket_rcvbuf 0;";
    "fastcgi_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", OnlyWith(FASTCGI) =>
        "Send buffer of sockets to the FastCGI server.", "fastcgi_socket_sndbuf 0;";
}
