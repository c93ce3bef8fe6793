//! The `scgi_*` directives.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_scgi_module";
    "scgi_pass" (1) "address" in Location | IfInLocation, Value since "0.8.42", Yes =>
        "The SCGI server that requests are passed to.", "scgi_pass 127.0.0.1:4000;";
    "scgi_store" (1) "on | off | string" = "off" in Http | Server | Location, Value since "0.8.42", Yes =>
        "Whether responses with status 200 are saved as files, and where.", "scgi_store on;";
    "scgi_store_access" (1..=3) "users:permissions ..." = "user:rw"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "Permissions of saved files, and of the directories created for them.", "scgi_store_access user:rw;";
    "scgi_buffering" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.1.5", Yes =>
        "Whether the response is read ahead of the client.", "scgi_buffering on;";
    "scgi_request_buffering" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.7.11", Yes =>
        "Whether the whole request body is read first.", "scgi_request_buffering on;";
    "scgi_ignore_client_abort" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "Whether the request goes on after the client has left.", "scgi_ignore_client_abort on;";
    "scgi_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "The local address from which connections to the SCGI server are made.", "scgi_bind 127.0.0.1;";
    "scgi_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.15.6", Yes =>
        "Whether connections to the SCGI server use TCP keepalive probes.", "scgi_socket_keepalive on;";
    "scgi_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.42", Yes =>
        "How long connecting to the SCGI server may take.", "scgi_connect_timeout 60s;";
    "scgi_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.42", Yes =>
        "How long the SCGI server may take no data between two writes.", "scgi_send_timeout 60s;";
    "scgi_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "0.8.42", Yes =>
        "Buffer for the first part of the response.", "scgi_buffer_size 8k;";
    "scgi_pass_request_headers" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "Whether the client's header fields are passed on.", "scgi_pass_request_headers on;";
    "scgi_pass_request_body" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "Whether the client's request body is passed on.", "scgi_pass_request_body on;";
    "scgi_intercept_errors" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "Whether `error_page` applies to responses of the SCGI server.", "scgi_intercept_errors on;";
    "scgi_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.42", Yes =>
        "How long the SCGI server may send nothing between two reads.", "scgi_read_timeout 60s;";
    "scgi_buffers" (2) "number size" = "8 4k|8k" in Http | Server | Location, Value since "0.8.42", Yes =>
        "Number and size of buffers for one response.", "scgi_buffers 8 8k;";
    "scgi_busy_buffers_size" (1) "size" = "8k|16k" in Http | Server | Location, Value since "0.8.42", Yes =>
        "How much may wait to be sent to the client meanwhile.", "scgi_busy_buffers_size 16k;";
    "scgi_force_ranges" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.7.7", Yes =>
        "Whether byte ranges work without `Accept-Ranges`.", "scgi_force_ranges on;";
    "scgi_limit_rate" (1) "rate" = "0" in Http | Server | Location, Value since "1.7.7", Yes =>
        "Bytes per second read from the SCGI server.", "scgi_limit_rate 0;";
    "scgi_cache" (1) "zone | off" = "off" in Http | Server | Location, Value since "0.8.42", Yes =>
        "The zone in which responses are cached.", "scgi_cache off;";
    "scgi_cache_key" (1) "string" in Http | Server | Location, Value since "0.8.42", Yes =>
        "The key of a cached response.", "scgi_cache_key $scheme$host$request_uri;";
    "scgi_cache_path" (2..) "path keys_zone=name:size [parameters]"
        in Http, No + REPEATABLE since "0.8.42", Yes =>
        "Directory, zone and limits of a cache.", "scgi_cache_path /var/cache/holdfast levels=1:2 keys_zone=one:10m max_size=1g inactive=1h;";
    "scgi_cache_bypass" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.46", Yes =>
        "When a response is not taken from the cache.", "scgi_cache_bypass $cookie_nocache $arg_nocache;";
    "scgi_no_cache" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", Yes =>
        "When a response is not put into the cache.", "scgi_no_cache $cookie_nocache $arg_nocache;";
    "scgi_cache_valid" (1..) "[code ...] time"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", Yes =>
        "How long responses of a status stay fresh.", "scgi_cache_valid 200 302 10m;";
    "scgi_cache_min_uses" (1) "number" = "1" in Http | Server | Location, Value since "0.8.42", Yes =>
        "Requests after which a response is cached.", "scgi_cache_min_uses 1;";
    "scgi_cache_max_range_offset" (1) "number" in Http | Server | Location, Value since "1.11.6", Yes =>
        "Up to which offset range requests are cached.", "scgi_cache_max_range_offset 10m;";
    "scgi_cache_use_stale" (1..) "condition ... | off" = "off"
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", Yes =>
        "When a stale response may be used.", "scgi_cache_use_stale off;";
    "scgi_cache_methods" (1..) "GET | HEAD | POST ..." = "GET HEAD"
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", Yes =>
        "Methods whose responses are cached.", "scgi_cache_methods GET HEAD;";
    "scgi_cache_lock" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.1.12", Yes =>
        "Whether only one request at a time fills a cache entry.", "scgi_cache_lock on;";
    "scgi_cache_lock_timeout" (1) "time" = "5s" in Http | Server | Location, Value since "1.1.12", Yes =>
        "How long others wait for the one that fills an entry.", "scgi_cache_lock_timeout 5s;";
    "scgi_cache_lock_age" (1) "time" = "5s" in Http | Server | Location, Value since "1.7.8", Yes =>
        "After how long another request may fill the entry.", "scgi_cache_lock_age 5s;";
    "scgi_cache_revalidate" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.5.7", Yes =>
        "Whether stale entries are revalidated by conditional requests.", "scgi_cache_revalidate on;";
    "scgi_cache_background_update" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.11.10", Yes =>
        "Whether stale entries are renewed in the background.", "scgi_cache_background_update on;";
    "scgi_temp_path" (1..=4) "path [level1 [level2 [level3]]]" = "scgi_temp"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "Directory for responses that outgrow their buffers.", "scgi_temp_path scgi_temp;";
    "scgi_max_temp_file_size" (1) "size" = "1024m" in Http | Server | Location, Value since "0.8.42", Yes =>
        "Largest temporary file of a response.", "scgi_max_temp_file_size 1024m;";
    "scgi_temp_file_write_size" (1) "size" = "8k|16k"
        in Http | Server | Location, Value since "0.8.42", Yes =>
        "Most bytes written to a temporary file at a time.", "scgi_temp_file_write_size 16k;";
    "scgi_next_upstream" (1..) "condition ... | off" = "error timeout"
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", Yes =>
        "In which cases the next peer is tried.", "scgi_next_upstream error timeout;";
    "scgi_next_upstream_tries" (1) "number" = "0" in Http | Server | Location, Value since "1.7.5", Yes =>
        "Most attempts per request.", "scgi_next_upstream_tries 0;";
    "scgi_next_upstream_timeout" (1) "time" = "0" in Http | Server | Location, Value since "1.7.5", Yes =>
        "Time within which further peers may be tried.", "scgi_next_upstream_timeout 0;";
    "scgi_param" (2..=3) "parameter value [if_not_empty]"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", Yes =>
        "Parameter passed to the SCGI server.", "scgi_param REQUEST_METHOD $request_method;";
    "scgi_pass_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", Yes =>
        "Passes a response field that is withheld by default.", "scgi_pass_header X-Accel-Expires;";
    "scgi_hide_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.42", Yes =>
        "Withholds a response field from the client.", "scgi_hide_header X-Powered-By;";
    "scgi_ignore_headers" (1..) "field ..."
        in Http | Server | Location, Value + REPEATABLE since "0.8.42", Yes =>
        "Response fields that do not steer the proxy.", "scgi_ignore_headers X-Accel-Redirect;";
    "scgi_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Receive buffer of sockets to the SCGI server.", "scgi_socket_rcvbuf 0;";
    "scgi_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Send buffer of sockets to the SCGI server.", "scgi_socket_sndbuf 0;";
}
