//! Passing requests to upstreams over HTTP.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{HASH, NO_SPOOL, directives};

directives! {
    module "ngx_http_proxy_module";
    "proxy_pass" (1) "URL" in Location | IfInLocation | LimitExcept, No, Yes =>
        "The server or upstream group that requests are passed to; a path behind the host replaces the matched part.",
        "proxy_pass http://backend;";
    "proxy_redirect" (1..=2) "default | off | redirect replacement" = "default"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.1.29", Yes =>
        "How `Location` and `Refresh` of the upstream's responses are rewritten for the client.", "proxy_redirect off;";
    "proxy_cookie_domain" (1..=2) "off | domain replacement" = "off"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.1.15", Yes =>
        "How the domain of cookies set by the upstream is rewritten.",
        "proxy_cookie_domain internal.example example.com;";
    "proxy_cookie_path" (1..=2) "off | path replacement" = "off"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.1.15", Yes =>
        "How the path of cookies set by the upstream is rewritten.", "proxy_cookie_path /app/ /;";
    "proxy_cookie_flags" (1..=4) "off | cookie [flag ...]" = "off"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.19.3", Yes =>
        "Flags that are set on or removed from cookies set by the upstream.",
        "proxy_cookie_flags session secure httponly;";
    "proxy_buffering" (flag) "on | off" = "on" in Http | Server | Location, Value since "0.3.12", Yes =>
        "Whether the response is read ahead of the client, up to the configured buffers.", "proxy_buffering off;";
    "proxy_request_buffering" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.7.11", Yes =>
        "Whether the whole request body is read before the upstream is asked; unbuffered bodies cannot be replayed.",
        "proxy_request_buffering off;";
    "proxy_ignore_client_abort" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.3.36", Yes =>
        "Whether the upstream request goes on after the client has left.", "proxy_ignore_client_abort on;";
    "proxy_bind" (1..=2) "address [transparent] | off" in Http | Server | Location, Value since "0.8.22", Yes =>
        "The local address, and on request the client's own, from which upstream connections are made. One whose address a \
         variable names serves one request and is not pooled.",
        "proxy_bind 127.0.0.2;";
    "proxy_socket_keepalive" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.15.6", Yes =>
        "Whether upstream connections use TCP keepalive probes.", "proxy_socket_keepalive on;";
    "proxy_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long connecting to a peer may take.", "proxy_connect_timeout 5s;";
    "proxy_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long a peer may take no data between two writes of the request.", "proxy_send_timeout 30s;";
    "proxy_send_lowat" (1) "size" = "0" in Http | Server | Location, Value, No =>
        "How many bytes must be writable to the peer at once (BSD).", "proxy_send_lowat 0;";
    "proxy_intercept_errors" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.3.50", Yes =>
        "Whether `error_page` applies to responses of the upstream with status 300 and above.",
        "proxy_intercept_errors on;";
    "proxy_set_header" (2) "field value" = "Host $proxy_host"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.1.29", Yes =>
        "Sets a field of requests to the upstream; an empty value leaves it out, but Host is `$proxy_host` then.", "proxy_set_header Host $host;";
    "proxy_headers_hash_max_size" (1) "size" = "512"
        in Http | Server | Location, Value since "0.5.19", Accepted(HASH) =>
        "Largest size of the hash tables behind `proxy_hide_header` and `proxy_set_header`.",
        "proxy_headers_hash_max_size 512;";
    "proxy_headers_hash_bucket_size" (1) "size" = "64"
        in Http | Server | Location, Value since "0.5.19", Accepted(HASH) =>
        "Bucket size of the hash tables behind `proxy_hide_header` and `proxy_set_header`.",
        "proxy_headers_hash_bucket_size 64;";
    "proxy_set_body" (1) "value" in Http | Server | Location, Value since "0.3.10", Yes =>
        "The request body sent to the upstream in place of the client's.", "proxy_set_body '{\"from\":\"gateway\"}';";
    "proxy_method" (1) "method" in Http | Server | Location, Value since "0.1.29", Yes =>
        "The method sent to the upstream in place of the client's.", "proxy_method POST;";
    "proxy_pass_request_headers" (flag) "on | off" = "on" in Http | Server | Location, Value since "0.1.29", Yes =>
        "Whether the client's header fields are passed to the upstream.", "proxy_pass_request_headers off;";
    "proxy_pass_request_body" (flag) "on | off" = "on" in Http | Server | Location, Value since "0.1.29", Yes =>
        "Whether the client's request body is passed to the upstream.", "proxy_pass_request_body off;";
    "proxy_pass_trailers" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.27.2", Yes =>
        "Whether trailer fields of the upstream are passed to the client.", "proxy_pass_trailers on;";
    "proxy_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "0.3.12", Yes =>
        "Buffer for the head of the response, and per direction of a tunnel.", "proxy_buffer_size 4k;";
    "proxy_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long a peer may send nothing between two reads of the response; also the idle limit of a tunnel.",
        "proxy_read_timeout 60s;";
    "proxy_buffers" (2) "number size" = "8 4k|8k" in Http | Server | Location, Value, Yes =>
        "Number and size of buffers for the body of one response.", "proxy_buffers 4 32k;";
    "proxy_busy_buffers_size" (1) "size" = "8k|16k" in Http | Server | Location, Value, Accepted(NO_SPOOL) =>
        "How much may wait to be sent to the client while the response is still being read.",
        "proxy_busy_buffers_size 64k;";
    "proxy_force_ranges" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.7.7", Yes =>
        "Whether byte ranges work without `Accept-Ranges` of the upstream.", "proxy_force_ranges on;";
    "proxy_limit_rate" (1) "rate" = "0" in Http | Server | Location, Value since "1.7.7", Yes =>
        "Bytes per second read from the upstream for one request; `0` means no limit.", "proxy_limit_rate 1m;";
    "proxy_temp_path" (1..=4) "path [level1 [level2 [level3]]]" = "proxy_temp"
        in Http | Server | Location, Value, Accepted(NO_SPOOL) =>
        "Directory for responses that outgrow their buffers, with up to three levels of subdirectories.",
        "proxy_temp_path /var/tmp/holdfast_proxy 1 2;";
    "proxy_max_temp_file_size" (1) "size" = "1024m" in Http | Server | Location, Value, Accepted(NO_SPOOL) =>
        "Largest temporary file for a response that outgrows its buffers; `0` writes none.",
        "proxy_max_temp_file_size 0;";
    "proxy_temp_file_write_size" (1) "size" = "8k|16k" in Http | Server | Location, Value, Accepted(NO_SPOOL) =>
        "Most bytes written to a temporary file at a time.", "proxy_temp_file_write_size 64k;";
    "proxy_next_upstream" (1..) "condition ... | off" = "error timeout"
        in Http | Server | Location, Value + REPEATABLE, Yes =>
        "In which cases the next peer is tried; a request that is not idempotent needs `non_idempotent`.",
        "proxy_next_upstream error timeout http_502;";
    "proxy_next_upstream_tries" (1) "number" = "0" in Http | Server | Location, Value since "1.7.5", Yes =>
        "Most attempts per request, the first included; `0` means no limit.", "proxy_next_upstream_tries 3;";
    "proxy_next_upstream_timeout" (1) "time" = "0" in Http | Server | Location, Value since "1.7.5", Yes =>
        "Time within which further peers may be tried; `0` means no limit.", "proxy_next_upstream_timeout 10s;";
    "proxy_pass_header" (1) "field" in Http | Server | Location, ListReplaced + REPEATABLE since "0.3.46", Yes =>
        "Passes a response field to the client that is withheld by default.", "proxy_pass_header Server;";
    "proxy_hide_header" (1) "field" in Http | Server | Location, ListReplaced + REPEATABLE since "0.3.46", Yes =>
        "Withholds a response field from the client.", "proxy_hide_header X-Powered-By;";
    "proxy_ignore_headers" (1..) "field ..." in Http | Server | Location, Value + REPEATABLE since "0.7.54", Yes =>
        "Response fields of the upstream that do not steer the proxy.", "proxy_ignore_headers X-Accel-Redirect;";
    "proxy_http_version" (1) "1.0 | 1.1 | 2" = "1.1" in Http | Server | Location, Value since "1.1.4", Yes =>
        "Protocol version of requests to the upstream; 1.0 means a connection per request, 2 that requests share connections.",
        "proxy_http_version 2;";
    "proxy_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Receive buffer of upstream sockets; `0` leaves it to the system.", "proxy_socket_rcvbuf 256k;";
    "proxy_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Send buffer of upstream sockets; `0` leaves it to the system.", "proxy_socket_sndbuf 256k;";
}
