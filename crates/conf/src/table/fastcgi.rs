//! The `fastcgi_*` directives.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_fastcgi_module";
    "fastcgi_pass" (1) "address" in Location | IfInLocation, Value, Yes =>
        "The FastCGI server that requests are passed to.", "fastcgi_pass 127.0.0.1:9000;";
    "fastcgi_index" (1) "name" in Http | Server | Location, Value, Yes =>
        "File name appended to a path that ends with a slash.", "fastcgi_index index.php;";
    "fastcgi_split_path_info" (1) "regex"
        in Http | Server | Location, Value + REPEATABLE since "0.7.31", Yes =>
        "Regular expression that splits the path into script name and path info.", "fastcgi_split_path_info ^(.+\\.php)(/.+)$;";
    "fastcgi_store" (1) "on | off | string" = "off"
        in Http | Server | Location, Value since "0.6.3", Yes =>
        "Whether responses with status 200 are saved as files, and where.", "fastcgi_store on;";
    "fastcgi_store_access" (1..=3) "users:permissions ..." = "user:rw"
        in Http | Server | Location, Value since "0.6.4", Yes =>
        "Permissions of saved files, and of the directories created for them.", "fastcgi_store_access user:rw;";
    "fastcgi_buffering" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.5.6", Yes =>
        "Whether the response is read ahead of the client.", "fastcgi_buffering on;";
    "fastcgi_request_buffering" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.7.11", Yes =>
        "Whether the whole request body is read first.", "fastcgi_request_buffering on;";
    "fastcgi_ignore_client_abort" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.3.36", Yes =>
        "Whether the request goes on after the client has left.", "fastcgi_ignore_client_abort on;";
    "fastcgi_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "0.8.22", Yes =>
        "The local address from which connections to the FastCGI server are made.", "fastcgi_bind 127.0.0.1;";
    "fastcgi_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.15.6", Yes =>
        "Whether connections to the FastCGI server use TCP keepalive probes.", "fastcgi_socket_keepalive on;";
    "fastcgi_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long connecting to the FastCGI server may take.", "fastcgi_connect_timeout 60s;";
    "fastcgi_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long the FastCGI server may take no data between two writes.", "fastcgi_send_timeout 60s;";
    "fastcgi_send_lowat" (1) "size" = "0" in Http | Server | Location, Value, Yes =>
        "How many bytes must be writable to the FastCGI server at once (BSD).", "fastcgi_send_lowat 0;";
    "fastcgi_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "0.3.12", Yes =>
        "Buffer for the first part of the response.", "fastcgi_buffer_size 8k;";
    "fastcgi_pass_request_headers" (flag) "on | off" = "on" in Http | Server | Location, Value, Yes =>
        "Whether the client's header fields are passed on.", "fastcgi_pass_request_headers on;";
    "fastcgi_pass_request_body" (flag) "on | off" = "on" in Http | Server | Location, Value, Yes =>
        "Whether the client's request body is passed on.", "fastcgi_pass_request_body on;";
    "fastcgi_intercept_errors" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.3.50", Yes =>
        "Whether `error_page` applies to responses of the FastCGI server.", "fastcgi_intercept_errors on;";
    "fastcgi_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long the FastCGI server may send nothing between two reads.", "fastcgi_read_timeout 60s;";
    "fastcgi_buffers" (2) "number size" = "8 4k|8k" in Http | Server | Location, Value, Yes =>
        "Number and size of buffers for one response.", "fastcgi_buffers 8 8k;";
    "fastcgi_busy_buffers_size" (1) "size" = "8k|16k" in Http | Server | Location, Value, Yes =>
        "How much may wait to be sent to the client meanwhile.", "fastcgi_busy_buffers_size 16k;";
    "fastcgi_force_ranges" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.7.7", Yes =>
        "Whether byte ranges work without `Accept-Ranges`.", "fastcgi_force_ranges on;";
    "fastcgi_limit_rate" (1) "rate" = "0" in Http | Server | Location, Value since "1.7.7", Yes =>
        "Bytes per second read from the FastCGI server.", "fastcgi_limit_rate 0;";
    "fastcgi_cache" (1) "zone | off" = "off" in Http | Server | Location, Value, Yes =>
        "The zone in which responses are cached.", "fastcgi_cache off;";
    "fastcgi_cache_key" (1) "string" in Http | Server | Location, Value, Yes =>
        "The key of a cached response.", "fastcgi_cache_key $scheme$host$request_uri;";
    "fastcgi_cache_path" (2..) "path keys_zone=name:size [parameters]" in Http, No + REPEATABLE, Yes =>
        "Directory, zone and limits of a cache.", "fastcgi_cache_path /var/cache/holdfast levels=1:2 keys_zone=one:10m max_size=1g inactive=1h;";
    "fastcgi_cache_bypass" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.46", Yes =>
        "When a response is not taken from the cache.", "fastcgi_cache_bypass $cookie_nocache $arg_nocache;";
    "fastcgi_no_cache" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.38", Yes =>
        "When a response is not put into the cache.", "fastcgi_no_cache $cookie_nocache $arg_nocache;";
    "fastcgi_cache_valid" (1..) "[code ...] time"
        in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "How long responses of a status stay fresh.", "fastcgi_cache_valid 200 302 10m;";
    "fastcgi_cache_min_uses" (1) "number" = "1" in Http | Server | Location, Value, Yes =>
        "Requests after which a response is cached.", "fastcgi_cache_min_uses 1;";
    "fastcgi_cache_max_range_offset" (1) "number"
        in Http | Server | Location, Value since "1.11.6", Yes =>
        "Up to which offset range requests are cached.", "fastcgi_cache_max_range_offset 10m;";
    "fastcgi_cache_use_stale" (1..) "condition ... | off" = "off"
        in Http | Server | Location, Value + REPEATABLE, Yes =>
        "When a stale response may be used.", "fastcgi_cache_use_stale off;";
    "fastcgi_cache_methods" (1..) "GET | HEAD | POST ..." = "GET HEAD"
        in Http | Server | Location, Value + REPEATABLE since "0.7.59", Yes =>
        "Methods whose responses are cached.", "fastcgi_cache_methods GET HEAD;";
    "fastcgi_cache_lock" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.1.12", Yes =>
        "Whether only one request at a time fills a cache entry.", "fastcgi_cache_lock on;";
    "fastcgi_cache_lock_timeout" (1) "time" = "5s"
        in Http | Server | Location, Value since "1.1.12", Yes =>
        "How long others wait for the one that fills an entry.", "fastcgi_cache_lock_timeout 5s;";
    "fastcgi_cache_lock_age" (1) "time" = "5s" in Http | Server | Location, Value since "1.7.8", Yes =>
        "After how long another request may fill the entry.", "fastcgi_cache_lock_age 5s;";
    "fastcgi_cache_revalidate" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.5.7", Yes =>
        "Whether stale entries are revalidated by conditional requests.", "fastcgi_cache_revalidate on;";
    "fastcgi_cache_background_update" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.11.10", Yes =>
        "Whether stale entries are renewed in the background.", "fastcgi_cache_background_update on;";
    "fastcgi_temp_path" (1..=4) "path [level1 [level2 [level3]]]" = "fastcgi_temp"
        in Http | Server | Location, Value, Yes =>
        "Directory for responses that outgrow their buffers.", "fastcgi_temp_path fastcgi_temp;";
    "fastcgi_max_temp_file_size" (1) "size" = "1024m" in Http | Server | Location, Value, Yes =>
        "Largest temporary file of a response.", "fastcgi_max_temp_file_size 1024m;";
    "fastcgi_temp_file_write_size" (1) "size" = "8k|16k" in Http | Server | Location, Value, Yes =>
        "Most bytes written to a temporary file at a time.", "fastcgi_temp_file_write_size 16k;";
    "fastcgi_next_upstream" (1..) "condition ... | off" = "error timeout"
        in Http | Server | Location, Value + REPEATABLE, Yes =>
        "In which cases the next peer is tried.", "fastcgi_next_upstream error timeout;";
    "fastcgi_next_upstream_tries" (1) "number" = "0"
        in Http | Server | Location, Value since "1.7.5", Yes =>
        "Most attempts per request.", "fastcgi_next_upstream_tries 0;";
    "fastcgi_next_upstream_timeout" (1) "time" = "0"
        in Http | Server | Location, Value since "1.7.5", Yes =>
        "Time within which further peers may be tried.", "fastcgi_next_upstream_timeout 0;";
    "fastcgi_param" (2..=3) "parameter value [if_not_empty]"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.1.29", Yes =>
        "Parameter passed to the FastCGI server.", "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;";
    "fastcgi_pass_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.3.46", Yes =>
        "Passes a response field that is withheld by default.", "fastcgi_pass_header X-Accel-Expires;";
    "fastcgi_hide_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.3.46", Yes =>
        "Withholds a response field from the client.", "fastcgi_hide_header X-Powered-By;";
    "fastcgi_ignore_headers" (1..) "field ..."
        in Http | Server | Location, Value + REPEATABLE since "0.7.54", Yes =>
        "Response fields that do not steer the proxy.", "fastcgi_ignore_headers X-Accel-Redirect;";
    "fastcgi_catch_stderr" (1) "string"
        in Http | Server | Location, Value + REPEATABLE since "0.5.23", Yes =>
        "Text on the error stream that makes a response invalid.", "fastcgi_catch_stderr \"PHP Fatal error\";";
    "fastcgi_keep_conn" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.1.4", Yes =>
        "Whether connections to the FastCGI server are kept.", "fastcgi_keep_conn on;";
    "fastcgi_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Receive buffer of sockets to the FastCGI server.", "fastcgi_socket_rcvbuf 0;";
    "fastcgi_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Send buffer of sockets to the FastCGI server.", "fastcgi_socket_sndbuf 0;";
}
