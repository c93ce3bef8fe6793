//! The `grpc_*`, `memcached_*` and `tunnel_*` directives.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{GRPC_TLS, TUNNEL, directives};

directives! {
    module "ngx_http_grpc_module";
    "grpc_pass" (1) "[grpc[s]://]address" in Location | IfInLocation, Value since "1.13.10", Yes =>
        "The gRPC server that requests are passed to, over HTTP/2.", "grpc_pass grpc://127.0.0.1:50051;";
    "grpc_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "1.13.10", Yes =>
        "The local address from which connections to the gRPC server are made.", "grpc_bind 127.0.0.1;";
    "grpc_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.15.6", Yes =>
        "Whether connections to the gRPC server use TCP keepalive probes.", "grpc_socket_keepalive on;";
    "grpc_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "1.13.10", Yes =>
        "How long connecting to the gRPC server may take.", "grpc_connect_timeout 60s;";
    "grpc_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "1.13.10", Yes =>
        "How long the gRPC server may take no data between two writes.", "grpc_send_timeout 60s;";
    "grpc_intercept_errors" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.13.10", Yes =>
        "Whether `error_page` applies to responses of the gRPC server.", "grpc_intercept_errors on;";
    "grpc_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value since "1.13.10", Yes =>
        "Buffer for the first part of the response.", "grpc_buffer_size 8k;";
    "grpc_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "1.13.10", Yes =>
        "How long the gRPC server may send nothing between two reads.", "grpc_read_timeout 60s;";
    "grpc_next_upstream" (1..) "condition ... | off" = "error timeout"
        in Http | Server | Location, Value + REPEATABLE since "1.13.10", Yes =>
        "In which cases the next peer is tried.", "grpc_next_upstream error timeout;";
    "grpc_next_upstream_tries" (1) "number" = "0" in Http | Server | Location, Value since "1.13.10", Yes =>
        "Most attempts per request.", "grpc_next_upstream_tries 0;";
    "grpc_next_upstream_timeout" (1) "time" = "0" in Http | Server | Location, Value since "1.13.10", Yes =>
        "Time within which further peers may be tried.", "grpc_next_upstream_timeout 0;";
    "grpc_set_header" (2) "field value" = "Content-Length $content_length"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.13.10", Yes =>
        "Sets a field of requests to the gRPC server.", "grpc_set_header Content-Length $content_length;";
    "grpc_pass_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.13.10", Yes =>
        "Passes a response field that is withheld by default.", "grpc_pass_header Server;";
    "grpc_hide_header" (1) "field"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.13.10", Yes =>
        "Withholds a response field from the client.", "grpc_hide_header X-Internal;";
    "grpc_ignore_headers" (1..) "field ..."
        in Http | Server | Location, Value + REPEATABLE since "1.13.10", Yes =>
        "Response fields that do not steer the proxy.", "grpc_ignore_headers X-Accel-Redirect;";
    "grpc_ssl_session_reuse" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Whether TLS sessions are resumed.", "grpc_ssl_session_reuse on;";
    "grpc_ssl_protocols" (1..) "protocol ..." = "TLSv1.2 TLSv1.3"
        in Http | Server | Location, Value + REPEATABLE since "1.13.10", With(GRPC_TLS) =>
        "TLS versions that are allowed.", "grpc_ssl_protocols TLSv1.2 TLSv1.3;";
    "grpc_ssl_ciphers" (1) "ciphers" = "DEFAULT" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Cipher suites that are allowed, in OpenSSL's words.", "grpc_ssl_ciphers DEFAULT;";
    "grpc_ssl_name" (1) "name" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Name that the certificate of the peer must carry.", "grpc_ssl_name api.example.org;";
    "grpc_ssl_server_name" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Whether the name is sent by SNI.", "grpc_ssl_server_name on;";
    "grpc_ssl_verify" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Whether the certificate of the peer is verified.", "grpc_ssl_verify on;";
    "grpc_ssl_verify_depth" (1) "number" = "1" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Longest chain of certificates.", "grpc_ssl_verify_depth 1;";
    "grpc_ssl_trusted_certificate" (1) "file" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Certificates of trusted authorities.", "grpc_ssl_trusted_certificate ca.crt;";
    "grpc_ssl_crl" (1) "file" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Revoked certificates.", "grpc_ssl_crl ca.crl;";
    "grpc_ssl_certificate" (1) "file" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Certificate that is shown to the other side.", "grpc_ssl_certificate client.crt;";
    "grpc_ssl_certificate_key" (1) "file" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Secret key of the certificate.", "grpc_ssl_certificate_key client.key;";
    "grpc_ssl_certificate_cache" (1..=3) "off | max=N [inactive=time] [valid=time]" = "off"
        in Http | Server | Location, Value since "1.27.4", With(GRPC_TLS) =>
        "Cache of certificates and keys named by variables.", "grpc_ssl_certificate_cache off;";
    "grpc_ssl_password_file" (1) "file" in Http | Server | Location, Value since "1.13.10", With(GRPC_TLS) =>
        "Passphrases of secret keys.", "grpc_ssl_password_file passwords;";
    "grpc_ssl_conf_command" (2) "name value"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.19.4", With(GRPC_TLS) =>
        "Sets an OpenSSL configuration command.", "grpc_ssl_conf_command MinProtocol TLSv1.3;";
    "grpc_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Receive buffer of sockets to the gRPC server.", "grpc_socket_rcvbuf 0;";
    "grpc_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", Yes =>
        "Send buffer of sockets to the gRPC server.", "grpc_socket_sndbuf 0;";

    module "ngx_http_memcached_module";
    "memcached_pass" (1) "address" in Location | IfInLocation, No since "0.3.12", Yes =>
        "Answers with the value that a memcached server has for the key in `$memcached_key`.", "memcached_pass 127.0.0.1:11211;";
    "memcached_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "0.8.22", Yes =>
        "The local address from which connections to the memcached server are made.", "memcached_bind 192.0.2.1;";
    "memcached_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.15.6", Yes =>
        "Whether connections to the memcached server use TCP keepalive probes.", "memcached_socket_keepalive on;";
    "memcached_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long connecting to the memcached server may take.", "memcached_connect_timeout 60s;";
    "memcached_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long the memcached server may take no data between two writes.", "memcached_send_timeout 60s;";
    "memcached_buffer_size" (1) "size" = "4k|8k" in Http | Server | Location, Value, Yes =>
        "Buffer for the first part of the response.", "memcached_buffer_size 8k;";
    "memcached_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value, Yes =>
        "How long the memcached server may send nothing between two reads.", "memcached_read_timeout 60s;";
    "memcached_next_upstream" (1..) "error | timeout | invalid_response | not_found | off ..." = "error timeout"
        in Http | Server | Location, Value + REPEATABLE, Yes =>
        "In which cases the next peer is tried.", "memcached_next_upstream error timeout;";
    "memcached_next_upstream_tries" (1) "number" = "0"
        in Http | Server | Location, Value since "1.7.5", Yes =>
        "Most attempts per request.", "memcached_next_upstream_tries 0;";
    "memcached_next_upstream_timeout" (1) "time" = "0"
        in Http | Server | Location, Value since "1.7.5", Yes =>
        "Time within which further peers may be tried.", "memcached_next_upstream_timeout 0;";
    "memcached_gzip_flag" (1) "flag" in Http | Server | Location, Value since "1.3.6", Yes =>
        "Flag bit that marks compressed values.", "memcached_gzip_flag 2;";

    module "ngx_http_tunnel_module";
    "tunnel_socket_rcvbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", OnlyWith(TUNNEL) =>
        "Receive buffer of sockets to the peer.", "tunnel_socket_rcvbuf 0;";
    "tunnel_socket_sndbuf" (1) "size" = "0" in Http | Server | Location, Value since "1.31.3", OnlyWith(TUNNEL) =>
        "Send buffer of sockets to the peer.", "tunnel_socket_sndbuf 0;";
    "tunnel_pass" (0..=1) "[address]" in Server | Location | IfInLocation, Value since "1.31.0", No =>
        "Answers CONNECT requests with a tunnel to the address.";
    "tunnel_bind" (1..=2) "address [transparent] | off"
        in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "The local address from which connections to the peer are made.";
    "tunnel_socket_keepalive" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "Whether connections to the peer use TCP keepalive probes.", "tunnel_socket_keepalive on;";
    "tunnel_connect_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "How long connecting to the peer may take.", "tunnel_connect_timeout 60s;";
    "tunnel_send_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "How long the peer may take no data between two writes.", "tunnel_send_timeout 60s;";
    "tunnel_send_lowat" (1) "size" = "0" in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "How many bytes must be writable to the peer at once (BSD).", "tunnel_send_lowat 0;";
    "tunnel_buffer_size" (1) "size" = "16k" in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "Buffer per direction of a tunnel.", "tunnel_buffer_size 16k;";
    "tunnel_read_timeout" (1) "time" = "60s" in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "How long a tunnel may be idle.", "tunnel_read_timeout 60s;";
    "tunnel_next_upstream" (1..) "error | timeout | off ..." = "error timeout"
        in Http | Server | Location, Value + REPEATABLE since "1.31.0", OnlyWith(TUNNEL) =>
        "In which cases the next peer is tried.", "tunnel_next_upstream error timeout;";
    "tunnel_next_upstream_tries" (1) "number" = "0"
        in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "Most attempts per request.", "tunnel_next_upstream_tries 0;";
    "tunnel_next_upstream_timeout" (1) "time" = "0"
        in Http | Server | Location, Value since "1.31.0", OnlyWith(TUNNEL) =>
        "Time within which further peers may be tried.", "tunnel_next_upstream_timeout 0;";
}
