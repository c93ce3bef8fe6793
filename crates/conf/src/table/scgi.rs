//! The `scgi_*` directives.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{SCGI, directives};

directives! {
    module "ngx_http_scgi_module";
    "scgi_pass" (1) "address" in Location | IfInLocation, Value since "0.8.42", No =>
        "The SCGI server that requests are passed to.";
    "scgi_store" (1) "on | off | string" = "off" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Whether responses of the SCGI server are saved as files, and where.", "scgi_store off;";
    "scgi_store_access" (1..=3) "users:permissions ..." = "user:rw"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Rights of saved files and directories.", "scgi_store_access user:rw;";
    "scgi_buffering" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.1.5", OnlyWith(SCGI) =>
        "Whether the response is read ahead of the client.", "scgi_buffering on;";
    "scgi_request_buffering" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.7.11", OnlyWith(SCGI) =>
        "Whether the whole request body is read first.", "scgi_request_buffering on;";
    "scgi_ignore_client_abort" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Whether the request goes on after the client has left.", "scgi_ignore_client_abort on;";
    "scgi_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "The local address from which connections to the SCGI server are made.";
    "scgi_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.15.6", OnlyWith(SCGI) =>
        "Whether connections to the SCGI server use TCP keepalive probes.", "scgi_socket_keepalive on;";
    "scgi_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "How long connecting to the SCGI server may take.", "scgi_connect_timeout 60s;";
    "scgi_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "How long the SCGI server may take no data between two writes.", "scgi_send_timeout 60s;";
    "scgi_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Buffer for the first part of the response.";
    "scgi_pass_request_headers" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Whether the client's header fields are passed on.", "scgi_pass_request_headers on;";
    "scgi_pass_request_body" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Whether the client's request body is passed on.", "scgi_pass_request_body on;";
    "scgi_intercept_errors" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Whether `error_page` applies to responses of the SCGI server.", "scgi_intercept_errors on;";
    "scgi_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "How long the SCGI server may send nothing between two reads.", "scgi_read_timeout 60s;";
    "scgi_buffers" (2) "number size" = "8 4k|8k" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Number and size of buffers for one response.";
    "scgi_busy_buffers_size" (1) "size" = "8k|16k" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "How much may wait to be sent to the client meanwhile.";
    "scgi_force_ranges" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.7.7", OnlyWith(SCGI) =>
        "Whether byte ranges work without `Accept-Ranges`.", "scgi_force_ranges on;";
    "scgi_limit_rate" (1) "rate" = "0" in Http | Server | Location, Value since "1.7.7", OnlyWith(SCGI) =>
        "Bytes per second read from the SCGI server.", "scgi_limit_rate 0;";
    "scgi_cache" (1) "zone | off" = "off" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "The zone in which responses are cached.", "scgi_cache off;";
    "scgi_cache_key" (1) "string" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "The key of a cached response.";
    "scgi_cache_path" (2..) "path keys_zone=name:size [parameters]"
        in Http, No + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "Directory, zone and limits of a cache.";
    "scgi_cache_bypass" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.46", OnlyWith(SCGI) =>
        "When a response is not taken from the cache.";
    "scgi_no_cache" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "When a response is not put into the cache.";
    "scgi_cache_valid" (1..) "[code ...] time"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "How long responses of a status stay fresh.";
    "scgi_cache_min_uses" (1) "number" = "1" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Requests after which a response is cached.", "scgi_cache_min_uses 1;";
    "scgi_cache_max_range_offset" (1) "number" in Http | Server | Location, Value since "1.11.6", OnlyWith(SCGI) =>
        "Up to which offset range requests are cached.";
    "scgi_cache_use_stale" (1..) "condition ... | off" = "off"
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "When a stale response may be used.", "scgi_cache_use_stale off;";
    "scgi_cache_methods" (1..) "GET | HEAD | POST ..." = "GET HEAD"
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "Methods whose responses are cached.", "scgi_cache_methods GET HEAD;";
    "scgi_cache_lock" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.1.12", OnlyWith(SCGI) =>
        "Whether only one request at a time fills a cache entry.", "scgi_cache_lock on;";
    "scgi_cache_lock_timeout" (1) "time" = "5s" in Http | Server | Location, Value since "1.1.12", OnlyWith(SCGI) =>
        "How long others wait for the one that fills an entry.", "scgi_cache_lock_timeout 5s;";
    "scgi_cache_lock_age" (1) "time" = "5s" in Http | Server | Location, Value since "1.7.8", OnlyWith(SCGI) =>
        "After how long another request may fill the entry.", "scgi_cache_lock_age 5s;";
    "scgi_cache_revalidate" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.5.7", OnlyWith(SCGI) =>
        "Whether stale entries are revalidated by conditional requests.", "scgi_cache_revalidate on;";
    "scgi_cache_background_update" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.11.10", OnlyWith(SCGI) =>
        "Whether stale entries are renewed in the background.", "scgi_cache_background_update on;";
    "scgi_temp_path" (1..=4) "path [level1 [level2 [level3]]]" = "scgi_temp"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Directory for responses that outgrow their buffers.", "scgi_temp_path scgi_temp;";
    "scgi_max_temp_file_size" (1) "size" = "1024m" in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Largest temporary file of a response.", "scgi_max_temp_file_size 1024m;";
    "scgi_temp_file_write_size" (1) "size" = "8k|16k"
        in Http | Server | Location, Value since "0.8.42", OnlyWith(SCGI) =>
        "Most bytes written to a temporary file at a time.";
    "scgi_next_upstream" (1..) "condition ... | off" = "error timeout"
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "In which cases the next peer is tried.", "scgi_next_upstream error timeout;";
    "scgi_next_upstream_tries" (1) "number" = "0" in Http | Server | Location, Value since "1.7.5", OnlyWith(SCGI) =>
        "Most attempts per request.", "scgi_next_upstream_tries 0;";
    "scgi_next_upstream_timeout" (1) "time" = "0" in Http | Server | Location, Value since "1.7.5", OnlyWith(SCGI) =>
        "Time within which further peers may be tried.", "scgi_next_upstream_timeout 0;";
    "scgi_param" (2..=3) "parameter value [if_not_empty]"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "Parameter passed to the SCGI server.";
    "scgi_pass_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "Passes a response field that is withheld by default.";
    "scgi_hide_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "Withholds a response field from the client.";
    "scgi_ignore_headers" (1..) "field ..."
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", OnlyWith(SCGI) =>
        "Response fields that do not steer the proxy.";
    "scgi_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", OnlyWith(SCGI) =>
        "Receive buffer of sockets to the SCGI server.", "scgi_socket_rcvbuf 0;";
    "scgi_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", OnlyWith(SCGI) =>
        "Send buffer of sockets to the SCGI server.", "scgi_socket_sndbuf 0;";
}
