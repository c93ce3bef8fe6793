//! How clients are read from and written to: heads, bodies, keepalive, lingering, sending.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{OFFLOAD, ONE_PIECE, OPEN_FILES, OUTPUT, POOLS, READ_AHEAD, directives};

directives! {
    module "ngx_http_core_module";
    "output_buffers" (2) "number size" = "2 32k" in Http | Server | Location, Value, Accepted(OUTPUT) =>
        "Number and size of buffers for reading a file from disk.", "output_buffers 2 32k;";
    "connection_pool_size" (1) "size" = "256|512" in Http | Server, Value, Accepted(POOLS) =>
        "How much memory a connection takes at first.", "connection_pool_size 512;";
    "request_pool_size" (1) "size" = "4k" in Http | Server, Value, Accepted(POOLS) =>
        "How much memory a request takes at first.", "request_pool_size 4k;";
    "client_header_timeout" (1) "time" = "60s" in Http | Server, Value, Yes =>
        "How long a client may take to send a complete request head.", "client_header_timeout 15s;";
    "client_header_buffer_size" (1) "size" = "1k" in Http | Server, Value, Yes =>
        "Buffer for the head of a request; longer heads move to a larger one.", "client_header_buffer_size 1k;";
    "large_client_header_buffers" (2) "number size" = "4 8k" in Http | Server, Value, Yes =>
        "Number and size of the buffers for heads that outgrow the first; a line longer than one is refused.",
        "large_client_header_buffers 4 8k;";
    "ignore_invalid_headers" (flag) "on | off" = "on" in Http | Server, Value since "0.1.30", Yes =>
        "Whether header fields with an invalid name are dropped.", "ignore_invalid_headers on;";
    "merge_slashes" (flag) "on | off" = "on" in Http | Server, Value since "0.6.15", Yes =>
        "Whether two or more slashes in a row count as one when locations are matched.", "merge_slashes off;";
    "underscores_in_headers" (flag) "on | off" = "off" in Http | Server, Value since "0.7.18", Yes =>
        "Whether header names with an underscore are valid.", "underscores_in_headers on;";
    "client_max_body_size" (1) "size" = "1m" in Http | Server | Location, Value, Yes =>
        "Largest request body; a larger one is answered with 413, `0` allows any.", "client_max_body_size 8m;";
    "client_body_buffer_size" (1) "size" = "8k|16k" in Http | Server | Location, Value, Yes =>
        "How much of a request body is held in memory before it goes to a file.", "client_body_buffer_size 64k;";
    "client_body_early_read" (1..) "string ..." in Http | Server, Value since "1.31.5", No =>
        "Whether a request body is read before the location is chosen.";
    "client_body_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long a client may pause between two pieces of a request body.", "client_body_timeout 30s;";
    "client_body_temp_path" (1..=4) "path [level1 [level2 [level3]]]" = "client_body_temp"
        in Http | Server | Location, Value, Yes =>
        "Directory for request bodies that outgrow memory, with up to three levels of subdirectories.",
        "client_body_temp_path /var/tmp/holdfast 1 2;";
    "client_body_in_file_only" (1) "on | clean | off" = "off"
        in Http | Server | Location, Value since "0.3.38", Yes =>
        "Whether every request body is written to a file, and whether the file outlives the request.",
        "client_body_in_file_only clean;";
    "client_body_in_single_buffer" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.7.58", Accepted(ONE_PIECE) =>
        "Whether a request body in memory is kept in one piece.", "client_body_in_single_buffer on;";
    "sendfile" (flag) "on | off" = "off" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Whether files go from the page cache to the socket without a copy.", "sendfile on;";
    "sendfile_max_chunk" (1) "size" = "2m" in Http | Server | Location, Value since "0.5.20", Yes =>
        "Most bytes that one `sendfile()` call moves, so that one fast client cannot hold a worker.",
        "sendfile_max_chunk 1m;";
    "aio" (1) "on | off | threads[=pool]" = "off"
        in Http | Server | Location, Value since "0.8.11", Accepted(OFFLOAD) =>
        "Whether files are read asynchronously, and by which means.", "aio threads;";
    "aio_write" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.9.13", Accepted(OFFLOAD) =>
        "Whether temporary files are written asynchronously, where `aio` is on.", "aio_write on;";
    "read_ahead" (1) "size" = "0" in Http | Server | Location, Value since "0.8.18", Accepted(READ_AHEAD) =>
        "How far the kernel reads ahead in a file.", "read_ahead 1m;";
    "directio" (1) "size | off" = "off" in Http | Server | Location, Value since "0.7.7", Accepted(OFFLOAD) =>
        "From which size on files are read past the page cache.", "directio 4m;";
    "directio_alignment" (1) "size" = "512" in Http | Server | Location, Value since "0.8.11", Accepted(OFFLOAD) =>
        "Alignment of reads past the page cache.", "directio_alignment 512;";
    "tcp_nopush" (flag) "on | off" = "off" in Http | Server | Location, Value, Yes =>
        "Whether head and start of a file are sent in full packets; works together with `sendfile`.", "tcp_nopush on;";
    "tcp_nodelay" (flag) "on | off" = "on" in Http | Server | Location, Value, Yes =>
        "Whether small writes are sent at once on kept connections and tunnels.", "tcp_nodelay on;";
    "send_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long a client may take no data between two writes of the response.", "send_timeout 30s;";
    "send_lowat" (1) "size" = "0" in Http | Server | Location, Value, No =>
        "How many bytes must be writable before the socket counts as ready (BSD).", "send_lowat 0;";
    "postpone_output" (1) "size" = "1460" in Http | Server | Location, Value, Accepted(OUTPUT) =>
        "How many bytes of output are collected before a write.", "postpone_output 1460;";
    "limit_rate" (1) "rate" = "0" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Bytes per second that one response is sent with; `0` means no limit.", "limit_rate 500k;";
    "limit_rate_after" (1) "size" = "0" in Http | Server | Location | IfInLocation, Value since "0.8.0", Yes =>
        "How much of a response is sent before `limit_rate` applies.", "limit_rate_after 1m;";
    "keepalive_time" (1) "time" = "1h" in Http | Server | Location, Value since "1.19.10", Yes =>
        "How long a client connection may serve requests before it is closed after the next one.", "keepalive_time 1h;";
    "keepalive_timeout" (1..=2) "timeout [header_timeout]" = "75s" in Http | Server | Location, Value, Yes =>
        "How long an idle client connection stays open, and what the `Keep-Alive` field says about it.",
        "keepalive_timeout 75s;";
    "keepalive_min_timeout" (1) "timeout" = "5s" in Http | Server | Location, Value since "1.27.4", Yes =>
        "How long after its last response an idle client connection is kept at least while the process ends gently (`quit`, an \
         upgrade); the next request within this time is answered with `Connection: close`. nginx's default is 0.",
        "keepalive_min_timeout 1s;";
    "keepalive_requests" (1) "number" = "1000" in Http | Server | Location, Value since "0.8.0", Yes =>
        "Requests served on one client connection before it is closed.", "keepalive_requests 10000;";
    "keepalive_disable" (1..=2) "none | browser ..." = "msie6"
        in Http | Server | Location, Value + REPEATABLE since "0.9.0", Yes =>
        "Browsers whose connections are not kept.", "keepalive_disable none;";
    "lingering_close" (1) "off | on | always" = "on" in Http | Server | Location, Value since "1.1.0", Yes =>
        "Whether unread client data is read and thrown away before closing, so that the answer is not lost to a reset.",
        "lingering_close always;";
    "lingering_time" (1) "time" = "30s" in Http | Server | Location, Value, Yes =>
        "How long unread client data is read and thrown away at most.", "lingering_time 30s;";
    "lingering_timeout" (1) "time" = "5s" in Http | Server | Location, Value, Yes =>
        "How long to wait for more client data while lingering.", "lingering_timeout 5s;";
    "reset_timedout_connection" (flag) "on | off" = "off" in Http | Server | Location, Value, Yes =>
        "Whether timed out connections are closed with a reset, which frees the socket's memory at once.",
        "reset_timedout_connection on;";
    "if_modified_since" (1) "off | exact | before" = "exact" in Http | Server | Location, Value since "0.7.24", Yes =>
        "How a file's time is compared with `If-Modified-Since`.", "if_modified_since before;";
    "max_ranges" (1) "number" in Http | Server | Location, Value since "1.1.2", Yes =>
        "Most ranges in one request; more and the whole file is sent, `0` turns ranges off.", "max_ranges 4;";
    "chunked_transfer_encoding" (flag) "on | off" = "on" in Http | Server | Location, Value since "0.8.35", Yes =>
        "Whether responses of unknown length to HTTP/1.1 clients are sent chunked.", "chunked_transfer_encoding off;";
    "etag" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.3.3", Yes =>
        "Whether static files carry an `ETag`.", "etag off;";
    "open_file_cache" (1..=2) "off | max=N [inactive=time]" = "off"
        in Http | Server | Location, Value since "0.6.10", Yes =>
        "How many open files, sizes and lookups each worker remembers, and how long unused ones.", "open_file_cache max=1000 inactive=20s;";
    "open_file_cache_valid" (1) "time" = "60s"
        in Http | Server | Location, Value since "0.6.23", Yes =>
        "How long a remembered file is trusted before it is looked at again.", "open_file_cache_valid 60s;";
    "open_file_cache_min_uses" (1) "number" = "1"
        in Http | Server | Location, Value since "0.6.23", Yes =>
        "Uses within `inactive` that keep a file remembered.", "open_file_cache_min_uses 2;";
    "open_file_cache_errors" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.6.10", Yes =>
        "Whether failed lookups are remembered too.", "open_file_cache_errors on;";
    "open_file_cache_events" (flag) "on | off" = "off" in Http | Server | Location, Value, Accepted(OPEN_FILES) =>
        "Whether the system reports changes of remembered files; not documented by nginx.",
        "open_file_cache_events off;";
    "max_headers" (1) "number" = "1000" in Http | Server, Value since "1.29.8", Yes =>
        "Most header fields in a request; one more and it is answered with 400.", "max_headers 200;";
}
