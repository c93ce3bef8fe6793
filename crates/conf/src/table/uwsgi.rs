//! The `uwsgi_*` directives.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{UWSGI, UWSGI_TLS, directives};

directives! {
    module "ngx_http_uwsgi_module";
    "uwsgi_pass" (1) "[protocol://]address" in Location | IfInLocation, Value since "0.8.40", Yes =>
        "The uwsgi server that requests are passed to.", "uwsgi_pass 127.0.0.1:4000;";
    "uwsgi_modifier1" (1) "number" = "0" in Http | Server | Location, Value since "0.8.40", Yes =>
        "Value of modifier1 in uwsgi packets.", "uwsgi_modifier1 0;";
    "uwsgi_modifier2" (1) "number" = "0" in Http | Server | Location, Value since "0.8.40", Yes =>
        "Value of modifier2 in uwsgi packets.", "uwsgi_modifier2 0;";
    "uwsgi_store" (1) "on | off | string" = "off" in Http | Server | Location, Value since "0.8.40", Yes =>
        "Whether responses with status 200 are saved as files, and where.", "uwsgi_store on;";
    "uwsgi_store_access" (1..=3) "users:permissions ..." = "user:rw"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Permissions of saved files, and of the directories created for them.", "uwsgi_store_access user:rw;";
    "uwsgi_buffering" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.1.5", Yes =>
        "Whether the response is read ahead of the client.", "uwsgi_buffering on;";
    "uwsgi_request_buffering" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.7.11", Yes =>
        "Whether the whole request body is read first.", "uwsgi_request_buffering on;";
    "uwsgi_ignore_client_abort" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Whether the request goes on after the client has left.", "uwsgi_ignore_client_abort on;";
    "uwsgi_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "The local address from which connections to the uwsgi server are made.", "uwsgi_bind 127.0.0.1;";
    "uwsgi_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.15.6", Yes =>
        "Whether connections to the uwsgi server use TCP keepalive probes.", "uwsgi_socket_keepalive on;";
    "uwsgi_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.40", Yes =>
        "How long connecting to the uwsgi server may take.", "uwsgi_connect_timeout 60s;";
    "uwsgi_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.40", Yes =>
        "How long the uwsgi server may take no data between two writes.", "uwsgi_send_timeout 60s;";
    "uwsgi_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "0.8.40", Yes =>
        "Buffer for the first part of the response.", "uwsgi_buffer_size 8k;";
    "uwsgi_pass_request_headers" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Whether the client's header fields are passed on.", "uwsgi_pass_request_headers on;";
    "uwsgi_pass_request_body" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Whether the client's request body is passed on.", "uwsgi_pass_request_body on;";
    "uwsgi_intercept_errors" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Whether `error_page` applies to responses of the uwsgi server.", "uwsgi_intercept_errors on;";
    "uwsgi_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "0.8.40", Yes =>
        "How long the uwsgi server may send nothing between two reads.", "uwsgi_read_timeout 60s;";
    "uwsgi_buffers" (2) "number size" = "8 4k|8k" in Http | Server | Location, Value since "0.8.40", Yes =>
        "Number and size of buffers for one response.", "uwsgi_buffers 8 8k;";
    "uwsgi_busy_buffers_size" (1) "size" = "8k|16k"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "How much may wait to be sent to the client meanwhile.", "uwsgi_busy_buffers_size 16k;";
    "uwsgi_force_ranges" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.7.7", Yes =>
        "Whether byte ranges work without `Accept-Ranges`.", "uwsgi_force_ranges on;";
    "uwsgi_limit_rate" (1) "rate" = "0" in Http | Server | Location, Value since "1.7.7", Yes =>
        "Bytes per second read from the uwsgi server.", "uwsgi_limit_rate 0;";
    "uwsgi_cache" (1) "zone | off" = "off" in Http | Server | Location, Value since "0.8.40", Yes =>
        "The zone in which responses are cached.", "uwsgi_cache off;";
    "uwsgi_cache_key" (1) "string" in Http | Server | Location, Value since "0.8.40", Yes =>
        "The key of a cached response.", "uwsgi_cache_key $scheme$host$request_uri;";
    "uwsgi_cache_path" (2..) "path keys_zone=name:size [parameters]"
        in Http, No + REPEATABLE since "0.8.40", Yes =>
        "Directory, zone and limits of a cache.", "uwsgi_cache_path /var/cache/holdfast levels=1:2 keys_zone=one:10m max_size=1g inactive=1h;";
    "uwsgi_cache_bypass" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.46", Yes =>
        "When a response is not taken from the cache.", "uwsgi_cache_bypass $cookie_nocache $arg_nocache;";
    "uwsgi_no_cache" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.40", Yes =>
        "When a response is not put into the cache.", "uwsgi_no_cache $cookie_nocache $arg_nocache;";
    "uwsgi_cache_valid" (1..) "[code ...] time"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.40", Yes =>
        "How long responses of a status stay fresh.", "uwsgi_cache_valid 200 302 10m;";
    "uwsgi_cache_min_uses" (1) "number" = "1" in Http | Server | Location, Value since "0.8.40", Yes =>
        "Requests after which a response is cached.", "uwsgi_cache_min_uses 1;";
    "uwsgi_cache_max_range_offset" (1) "number" in Http | Server | Location, Value since "1.11.6", Yes =>
        "Up to which offset range requests are cached.", "uwsgi_cache_max_range_offset 10m;";
    "uwsgi_cache_use_stale" (1..) "condition ... | off" = "off"
        in Http | Server | Location, Value + REPEATABLE since "0.8.40", Yes =>
        "When a stale response may be used.", "uwsgi_cache_use_stale off;";
    "uwsgi_cache_methods" (1..) "GET | HEAD | POST ..." = "GET HEAD"
        in Http | Server | Location, Value + REPEATABLE since "0.8.40", Yes =>
        "Methods whose responses are cached.", "uwsgi_cache_methods GET HEAD;";
    "uwsgi_cache_lock" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.1.12", Yes =>
        "Whether only one request at a time fills a cache entry.", "uwsgi_cache_lock on;";
    "uwsgi_cache_lock_timeout" (1) "time" = "5s" in Http | Server | Location, Value since "1.1.12", Yes =>
        "How long others wait for the one that fills an entry.", "uwsgi_cache_lock_timeout 5s;";
    "uwsgi_cache_lock_age" (1) "time" = "5s" in Http | Server | Location, Value since "1.7.8", Yes =>
        "After how long another request may fill the entry.", "uwsgi_cache_lock_age 5s;";
    "uwsgi_cache_revalidate" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.5.7", Yes =>
        "Whether stale entries are revalidated by conditional requests.", "uwsgi_cache_revalidate on;";
    "uwsgi_cache_background_update" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.11.10", Yes =>
        "Whether stale entries are renewed in the background.", "uwsgi_cache_background_update off;";
    "uwsgi_temp_path" (1..=4) "path [level1 [level2 [level3]]]" = "uwsgi_temp"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Directory for responses that outgrow their buffers.", "uwsgi_temp_path uwsgi_temp;";
    "uwsgi_max_temp_file_size" (1) "size" = "1024m"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Largest temporary file of a response.", "uwsgi_max_temp_file_size 1024m;";
    "uwsgi_temp_file_write_size" (1) "size" = "8k|16k"
        in Http | Server | Location, Value since "0.8.40", Yes =>
        "Most bytes written to a temporary file at a time.", "uwsgi_temp_file_write_size 16k;";
    "uwsgi_next_upstream" (1..) "condition ... | off" = "error timeout"
        in Http | Server | Location, Value + REPEATABLE since "0.8.40", Yes =>
        "In which cases the next peer is tried.", "uwsgi_next_upstream error timeout;";
    "uwsgi_next_upstream_tries" (1) "number" = "0" in Http | Server | Location, Value since "1.7.5", Yes =>
        "Most attempts per request.", "uwsgi_next_upstream_tries 0;";
    "uwsgi_next_upstream_timeout" (1) "time" = "0" in Http | Server | Location, Value since "1.7.5", Yes =>
        "Time within which further peers may be tried.", "uwsgi_next_upstream_timeout 0;";
    "uwsgi_param" (2..=3) "parameter value [if_not_empty]"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.40", Yes =>
        "Parameter passed to the uwsgi server.", "uwsgi_param REQUEST_METHOD $request_method;";
    "uwsgi_string" (1) "string" in Http | Server | Location, Value since "0.8.40", OnlyWith(UWSGI) =>
        "Text of a uwsgi packet; not documented by nginx.";
    "uwsgi_pass_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.40", Yes =>
        "Passes a response field that is withheld by default.", "uwsgi_pass_header X-Accel-Expires;";
    "uwsgi_hide_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.40", Yes =>
        "Withholds a response field from the client.", "uwsgi_hide_header X-Powered-By;";
    "uwsgi_ignore_headers" (1..) "field ..."
        in Http | Server | Location, Value + REPEATABLE since "0.8.40", Yes =>
        "Response fields that do not steer the proxy.", "uwsgi_ignore_headers X-Accel-Redirect;";
    "uwsgi_ssl_session_reuse" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.5.8", With(UWSGI_TLS) =>
        "Whether TLS sessions are resumed.", "uwsgi_ssl_session_reuse on;";
    "uwsgi_ssl_protocols" (1..) "protocol ..." = "TLSv1.2 TLSv1.3"
        in Http | Server | Location, Value + REPEATABLE since "1.5.8", With(UWSGI_TLS) =>
        "TLS versions that are allowed.", "uwsgi_ssl_protocols TLSv1.2 TLSv1.3;";
    "uwsgi_ssl_ciphers" (1) "ciphers" = "DEFAULT" in Http | Server | Location, Value since "1.5.8", With(UWSGI_TLS) =>
        "Cipher suites that are allowed, in OpenSSL's words.", "uwsgi_ssl_ciphers DEFAULT;";
    "uwsgi_ssl_name" (1) "name" in Http | Server | Location, Value since "1.7.0", With(UWSGI_TLS) =>
        "Name that the certificate of the peer must carry.", "uwsgi_ssl_name app.example.com;";
    "uwsgi_ssl_server_name" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.7.0", With(UWSGI_TLS) =>
        "Whether the name is sent by SNI.", "uwsgi_ssl_server_name on;";
    "uwsgi_ssl_verify" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.7.0", With(UWSGI_TLS) =>
        "Whether the certificate of the peer is verified.", "uwsgi_ssl_verify on;";
    "uwsgi_ssl_verify_depth" (1) "number" = "1" in Http | Server | Location, Value since "1.7.0", With(UWSGI_TLS) =>
        "Longest chain of certificates.", "uwsgi_ssl_verify_depth 1;";
    "uwsgi_ssl_trusted_certificate" (1) "file" in Http | Server | Location, Value since "1.7.0", With(UWSGI_TLS) =>
        "Certificates of trusted authorities.", "uwsgi_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;";
    "uwsgi_ssl_crl" (1) "file" in Http | Server | Location, Value since "1.7.0", With(UWSGI_TLS) =>
        "Revoked certificates.", "uwsgi_ssl_crl crl.pem;";
    "uwsgi_ssl_certificate" (1) "file" in Http | Server | Location, Value since "1.7.8", With(UWSGI_TLS) =>
        "Certificate that is shown to the other side.", "uwsgi_ssl_certificate client.pem;";
    "uwsgi_ssl_certificate_key" (1) "file" in Http | Server | Location, Value since "1.7.8", With(UWSGI_TLS) =>
        "Secret key of the certificate.", "uwsgi_ssl_certificate_key client.key;";
    "uwsgi_ssl_certificate_cache" (1..=3) "off | max=N [inactive=time] [valid=time]" = "off"
        in Http | Server | Location, Value since "1.27.4", With(UWSGI_TLS) =>
        "Cache of certificates and keys named by variables.", "uwsgi_ssl_certificate_cache off;";
    "uwsgi_ssl_password_file" (1) "file" in Http | Server | Location, Value since "1.7.8", With(UWSGI_TLS) =>
        "Passphrases of secret keys.", "uwsgi_ssl_password_file passphrases;";
    "uwsgi_ssl_conf_command" (2) "name value"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.19.4", With(UWSGI_TLS) =>
        "Sets an OpenSSL configuration command.", "uwsgi_ssl_conf_command Protocol TLSv1.3;";
    "uwsgi_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Receive buffer of sockets to the uwsgi server.", "uwsgi_socket_rcvbuf 0;";
    "uwsgi_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Send buffer of sockets to the uwsgi server.", "uwsgi_socket_sndbuf 0;";
}
