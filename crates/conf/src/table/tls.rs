//! TLS towards clients, HTTP/2 and HTTP/3.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{DHE, ECH, HTTP2, POOLS, QUIC, TLS, directives};

directives! {
    module "ngx_http_v3_module";
    "quic_bpf" (flag) "on | off" = "off" in Main, No since "1.25.0", OnlyWith(QUIC) =>
        "Whether packets of a QUIC connection reach their worker by an eBPF program.", "quic_bpf on;";
    "http3" (flag) "on | off" = "on" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "Whether HTTP/3 is negotiated on QUIC listeners.", "http3 on;";
    "http3_hq" (flag) "on | off" = "off" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "Whether HTTP/0.9 over QUIC is negotiated, for interoperability tests.", "http3_hq on;";
    "http3_max_concurrent_streams" (1) "number" = "128" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "Most request streams at once in one connection.", "http3_max_concurrent_streams 128;";
    "http3_stream_buffer_size" (1) "size" = "64k" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "Buffer of a QUIC stream.", "http3_stream_buffer_size 64k;";
    "quic_retry" (flag) "on | off" = "off" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "Whether clients must prove their address first.", "quic_retry on;";
    "quic_gso" (flag) "on | off" = "off" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "Whether packets are sent in batches by segmentation offload.", "quic_gso on;";
    "quic_host_key" (1) "file" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "File of the key for QUIC tokens.";
    "quic_active_connection_id_limit" (1) "number" = "2" in Http | Server, Value since "1.25.0", OnlyWith(QUIC) =>
        "Number of connection ids kept for a client.", "quic_active_connection_id_limit 2;";

    module "ngx_http_ssl_module";
    "ssl_certificate" (1) "file" in Http | Server, ListReplaced + REPEATABLE, With(TLS) =>
        "Certificate that is shown to the other side.", "ssl_certificate /etc/ssl/site.pem;";
    "ssl_certificate_key" (1) "file" in Http | Server, ListReplaced + REPEATABLE, With(TLS) =>
        "Secret key of the certificate.", "ssl_certificate_key /etc/ssl/site.key;";
    "ssl_certificate_cache" (1..=3) "off | max=N [inactive=time] [valid=time]" = "off"
        in Http | Server, Value since "1.27.4", With(TLS) =>
        "Cache of certificates and keys named by variables.", "ssl_certificate_cache off;";
    "ssl_password_file" (1) "file" in Http | Server, Value since "1.7.3", With(TLS) =>
        "Passphrases of secret keys.", "ssl_password_file /etc/ssl/site.pass;";
    "ssl_dhparam" (1) "file" in Http | Server, Value since "0.7.2", Accepted(DHE) =>
        "Parameters of DHE ciphers.";
    "ssl_ecdh_curve" (1) "curve" = "auto" in Http | Server, Value since "1.1.0", With(TLS) =>
        "Curves of ECDHE ciphers.", "ssl_ecdh_curve auto;";
    "ssl_protocols" (1..) "protocol ..." = "TLSv1.2 TLSv1.3" in Http | Server, Value + REPEATABLE, With(TLS) =>
        "TLS versions that are allowed.", "ssl_protocols TLSv1.2 TLSv1.3;";
    "ssl_ciphers" (1) "ciphers" = "HIGH:!aNULL:!MD5" in Http | Server, Value, With(TLS) =>
        "Cipher suites that are allowed, in OpenSSL's words.", "ssl_ciphers HIGH:!aNULL:!MD5;";
    "ssl_buffer_size" (1) "size" = "16k" in Http | Server, Value since "1.5.9", With(TLS) =>
        "Size of the buffer in which records are filled.", "ssl_buffer_size 16k;";
    "ssl_verify_client" (1) "on | off | optional | optional_no_ca" = "off"
        in Http | Server, Value since "0.3.45", With(TLS) =>
        "Whether clients must show a certificate.", "ssl_verify_client off;";
    "ssl_verify_depth" (1) "number" = "1" in Http | Server, Value since "0.3.45", With(TLS) =>
        "Longest chain of certificates.", "ssl_verify_depth 1;";
    "ssl_client_certificate" (1) "file" in Http | Server, Value since "0.3.45", With(TLS) =>
        "Authorities of client certificates, named to the client.", "ssl_client_certificate /etc/ssl/clients.pem;";
    "ssl_trusted_certificate" (1) "file" in Http | Server, Value since "1.3.7", With(TLS) =>
        "Certificates of trusted authorities.", "ssl_trusted_certificate /etc/ssl/authorities.pem;";
    "ssl_prefer_server_ciphers" (flag) "on | off" = "off" in Http | Server, Value, With(TLS) =>
        "Whether the server's order of ciphers counts.", "ssl_prefer_server_ciphers on;";
    "ssl_session_cache" (1..=2) "off | none | [builtin[:size]] [shared:name:size]" = "none"
        in Http | Server, Value + REPEATABLE, With(TLS) =>
        "Where session parameters are kept.", "ssl_session_cache none;";
    "ssl_session_tickets" (flag) "on | off" = "on" in Http | Server, Value since "1.5.9", With(TLS) =>
        "Whether sessions are resumed by tickets.", "ssl_session_tickets on;";
    "ssl_session_ticket_key" (1) "file" in Http | Server, ListReplaced + REPEATABLE since "1.5.7", With(TLS) =>
        "Key of session tickets.", "ssl_session_ticket_key /etc/ssl/ticket.key;";
    "ssl_session_timeout" (1) "time" = "5m" in Http | Server, Value, With(TLS) =>
        "How long a session can be resumed.", "ssl_session_timeout 5m;";
    "ssl_crl" (1) "file" in Http | Server, Value since "0.8.7", With(TLS) =>
        "Revoked certificates.", "ssl_crl /etc/ssl/revoked.pem;";
    "ssl_ocsp" (1) "on | off | leaf" = "off" in Http | Server, Value since "1.19.0", With(TLS) =>
        "Whether client certificates are checked by OCSP.", "ssl_ocsp off;";
    "ssl_ocsp_responder" (1) "url" in Http | Server, Value since "1.19.0", With(TLS) =>
        "OCSP responder for client certificates, in place of the one that each names.",
        "ssl_ocsp_responder http://ocsp.example.com/;";
    "ssl_ocsp_cache" (1) "off | [shared:name:size]" = "off" in Http | Server, Value since "1.19.0", With(TLS) =>
        "Cache of OCSP answers about client certificates.", "ssl_ocsp_cache off;";
    "ssl_stapling" (flag) "on | off" = "off" in Http | Server, Value since "1.3.7", With(TLS) =>
        "Whether OCSP answers are stapled.", "ssl_stapling on;";
    "ssl_stapling_file" (1) "file" in Http | Server, Value since "1.3.7", With(TLS) =>
        "File of the OCSP answer that is stapled.",
        "ssl_stapling_file ocsp.der;";
    "ssl_stapling_responder" (1) "url" in Http | Server, Value since "1.3.7", With(TLS) =>
        "OCSP responder for stapling, in place of the one that the certificate names.",
        "ssl_stapling_responder http://ocsp.example.com/;";
    "ssl_stapling_verify" (flag) "on | off" = "off" in Http | Server, Value since "1.3.7", With(TLS) =>
        "Whether OCSP answers are verified.", "ssl_stapling_verify on;";
    "ssl_early_data" (flag) "on | off" = "off" in Http | Server, Value since "1.15.3", With(TLS) =>
        "Whether early data of TLS 1.3 is accepted.", "ssl_early_data on;";
    "ssl_conf_command" (2) "name value" in Http | Server, ListReplaced + REPEATABLE since "1.19.4", With(TLS) =>
        "Sets an OpenSSL configuration command.", "ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;";
    "ssl_reject_handshake" (flag) "on | off" = "off" in Http | Server, Value since "1.19.4", With(TLS) =>
        "Whether handshakes in this server are refused.", "ssl_reject_handshake on;";
    "ssl_certificate_compression" (flag) "on | off" = "off" in Http | Server, Value since "1.29.1", With(TLS) =>
        "Whether certificates are sent compressed in TLS 1.3.", "ssl_certificate_compression on;";
    "ssl_ech_file" (1) "file" in Http | Server, ListReplaced + REPEATABLE since "1.29.4", Accepted(ECH) =>
        "Keys of encrypted client hello.";

    module "ngx_http_v2_module";
    "http2" (flag) "on | off" = "off" in Http | Server, Value since "1.25.1", Yes =>
        "Whether the server speaks HTTP/2.", "http2 on;";
    "http2_recv_buffer_size" (1) "size" = "256k" in Http, No since "1.9.5", Accepted("a worker reads into one buffer of a fixed size") =>
        "Input buffer of a worker for HTTP/2.", "http2_recv_buffer_size 256k;";
    "http2_pool_size" (1) "value" in Http | Server, Value since "1.9.5", Accepted(POOLS) =>
        "How much memory an HTTP/2 connection takes at first; not documented by nginx.";
    "http2_max_concurrent_streams" (1) "number" = "128" in Http | Server, Value since "1.9.5", With(HTTP2) =>
        "Most streams at once in one connection.", "http2_max_concurrent_streams 128;";
    "http2_max_concurrent_pushes" (1) "number" = "10"
        in Http | Server, Value + REPEATABLE since "1.13.9", Accepted("it is obsolete, and ignored") =>
        "Obsolete: server push was removed in 1.25.1.", "http2_max_concurrent_pushes 10;";
    "http2_max_requests" (1) "number" = "1000" in Http | Server, Value + REPEATABLE since "1.11.6",
        Accepted("it is obsolete, use `keepalive_requests` instead") =>
        "Obsolete since 1.19.7: `keepalive_requests` took its place.", "http2_max_requests 1000;";
    "http2_max_field_size" (1) "size" = "4k" in Http | Server, Value + REPEATABLE since "1.9.5",
        Accepted("it is obsolete, use `large_client_header_buffers` instead") =>
        "Obsolete since 1.19.7: `large_client_header_buffers` took its place.", "http2_max_field_size 4k;";
    "http2_max_header_size" (1) "size" = "16k" in Http | Server, Value + REPEATABLE since "1.9.5",
        Accepted("it is obsolete, use `large_client_header_buffers` instead") =>
        "Obsolete since 1.19.7: `large_client_header_buffers` took its place.", "http2_max_header_size 16k;";
    "http2_body_preread_size" (1) "size" = "64k" in Http | Server, Value since "1.11.0", With(HTTP2) =>
        "How much of a request body is read before it is processed.", "http2_body_preread_size 64k;";
    "http2_streams_index_size" (1) "value" in Http | Server, Value since "1.9.5",
        Accepted("streams are found by their number, in a table that grows as needed") =>
        "Size of the table of streams; not documented by nginx.";
    "http2_recv_timeout" (1) "time" = "30s" in Http | Server, Value + REPEATABLE since "1.9.5",
        Accepted("it is obsolete, use `client_header_timeout` instead") =>
        "Obsolete since 1.19.7: `client_header_timeout` took its place.", "http2_recv_timeout 30s;";
    "http2_idle_timeout" (1) "time" = "3m" in Http | Server, Value + REPEATABLE since "1.9.5",
        Accepted("it is obsolete, use `keepalive_timeout` instead") =>
        "Obsolete since 1.19.7: `keepalive_timeout` took its place.", "http2_idle_timeout 3m;";
    "http2_chunk_size" (1) "size" = "8k" in Http | Server | Location, Value since "1.9.5", With(HTTP2) =>
        "Largest piece of a response body in one frame.", "http2_chunk_size 8k;";
    "http2_push_preload" (flag) "on | off" = "off"
        in Http | Server | Location, Value + REPEATABLE since "1.13.9", Accepted("it is obsolete, and ignored") =>
        "Obsolete: server push was removed in 1.25.1.", "http2_push_preload on;";
    "http2_push" (1) "uri | off" = "off"
        in Http | Server | Location, Value + REPEATABLE since "1.13.9", Accepted("it is obsolete, and ignored") =>
        "Obsolete: server push was removed in 1.25.1.", "http2_push off;";
}
