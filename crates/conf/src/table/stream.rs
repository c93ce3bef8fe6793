//! TCP and UDP proxying.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{DHE, ECH, HASH, STREAM_LISTEN, STREAM_NAMES, STREAM_TLS, directives};

directives! {
    module "ngx_stream_core_module";
    "stream" (block 0) "" in Main, No since "1.9.0", Yes =>
        "Holds the configuration of TCP and UDP servers.",
        "stream { server { listen 12345; proxy_pass 127.0.0.1:5432; } }";
    "variables_hash_max_size" (1) "size" = "1024" in Stream, No since "1.11.2", Accepted(HASH) =>
        "Largest size of the hash table of variables.", "variables_hash_max_size 1024;";
    "variables_hash_bucket_size" (1) "size" = "64" in Stream, No since "1.11.2", Accepted(HASH) =>
        "Bucket size of the hash table of variables.", "variables_hash_bucket_size 64;";
    "server_names_hash_max_size" (1) "size" = "512" in Stream, No since "1.25.5", Accepted(HASH) =>
        "Largest size of the hash tables of server names.", "server_names_hash_max_size 512;";
    "server_names_hash_bucket_size" (1) "size" = "32|64|128" in Stream, No since "1.25.5", Accepted(HASH) =>
        "Bucket size of the hash tables of server names.";
    "server" (block 0) "" in Stream, No + REPEATABLE since "1.9.0", Yes =>
        "One TCP or UDP server.",
        "server { listen 12345; proxy_pass 127.0.0.1:5432; }";
    "listen" (1..) "address:port | unix:path [parameters]" in StreamServer, No + REPEATABLE since "1.9.0", Yes =>
        "Address on which the server takes connections or datagrams.",
        "listen 127.0.0.1:12345;";
    "server_name" (1..) "name ..." in StreamServer, No + REPEATABLE since "1.25.5", With(STREAM_NAMES) =>
        "Names, as found in TLS, that the server answers to.", "server_name db.example.com;";
    "error_log" (1..) "file [level]" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.9.0", Yes =>
        "Where errors are logged, and from which severity on.",
        "error_log /var/log/holdfast/stream-error.log info;";
    "resolver" (1..) "address ... [valid=time] [ipv4=on|off] [ipv6=on|off] [status_zone=zone]"
        in Stream | StreamServer, Value since "1.11.3", Yes =>
        "Name servers for names that are looked up while running.",
        "resolver 127.0.0.53 valid=30s;";
    "resolver_timeout" (1) "time" = "30s" in Stream | StreamServer, Value since "1.11.3", Yes =>
        "How long resolving a name may take.", "resolver_timeout 30s;";
    "proxy_protocol_timeout" (1) "timeout" = "30s" in Stream | StreamServer, Value since "1.11.4", Yes =>
        "How long reading the PROXY protocol header may take.", "proxy_protocol_timeout 30s;";
    "tcp_nodelay" (flag) "on | off" = "on" in Stream | StreamServer, Value since "1.9.4", Yes =>
        "Whether small writes are sent at once.", "tcp_nodelay on;";
    "preread_buffer_size" (1) "size" = "16k" in Stream | StreamServer, Value since "1.11.5", Yes =>
        "Buffer for data read before a server is chosen.", "preread_buffer_size 16k;";
    "preread_timeout" (1) "timeout" = "30s" in Stream | StreamServer, Value since "1.11.5", Yes =>
        "How long reading ahead may take.", "preread_timeout 30s;";

    module "ngx_stream_access_module";
    "allow" (1) "address | CIDR | unix: | all" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.9.2", Yes =>
        "Allows an address or network.",
        "allow 10.0.0.0/8;";
    "deny" (1) "address | CIDR | unix: | all" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.9.2", Yes =>
        "Refuses an address or network.",
        "deny all;";

    module "ngx_stream_geo_module";
    "geo" (block 1..=2) "[$address] $variable" in Stream, No + REPEATABLE since "1.11.3", Yes =>
        "Defines a variable by the client's network.",
        "geo $office { default 0; 10.0.0.0/8 1; }";

    module "ngx_stream_geoip_module";
    "geoip_country" (1..=2) "file" in Stream, No since "1.11.3", No =>
        "Database for country variables.";
    "geoip_org" (1..=2) "file" in Stream, No since "1.11.3", No =>
        "Database for the organization variable.";
    "geoip_city" (1..=2) "file" in Stream, No since "1.11.3", No =>
        "Database for city variables.";

    module "ngx_stream_limit_conn_module";
    "limit_conn_zone" (2) "key zone=name:size" in Stream, No + REPEATABLE since "1.9.3", Yes =>
        "A named zone that counts connections per key.",
        "limit_conn_zone $binary_remote_addr zone=sessions:1m;";
    "limit_conn" (2) "zone number" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.9.3", Yes =>
        "Most connections per key of a zone.",
        "limit_conn sessions 10;";
    "limit_conn_log_level" (1) "info | notice | warn | error" = "error"
        in Stream | StreamServer, Value since "1.9.3", Yes =>
        "Severity with which refusals are logged.", "limit_conn_log_level error;";
    "limit_conn_dry_run" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.17.6", Yes =>
        "Whether the limit only counts and logs.", "limit_conn_dry_run on;";

    module "ngx_stream_log_module";
    "log_format" (2..) "name [escape=default|json|none] string ..." in Stream, No + REPEATABLE since "1.11.4", Yes =>
        "Names a format of session log lines.",
        "log_format sessions '$remote_addr $protocol $status $bytes_sent $bytes_received $session_time';";
    "access_log" (1..) "path [format [buffer=size] [gzip[=level]] [flush=time] [if=condition]] | off" = "off"
        in Stream | StreamServer, ListReplaced + REPEATABLE since "1.11.4", Yes =>
        "Where sessions are logged.", "access_log off;";
    "open_log_file_cache" (1..=4) "max=N [inactive=time] [min_uses=N] [valid=time] | off" = "off"
        in Stream | StreamServer, Value since "1.11.4", Yes =>
        "How many log files whose path has variables stay open.", "open_log_file_cache off;";

    module "ngx_stream_map_module";
    "map" (block 2) "string $variable" in Stream, No + REPEATABLE since "1.11.2", Yes =>
        "Defines a variable by looking another value up in a table.",
        "map $remote_addr $pool { default blue; 10.0.0.1 green; }";
    "map_hash_max_size" (1) "size" = "2048" in Stream, No since "1.11.2", Accepted(HASH) =>
        "Largest size of the hash tables of `map`.", "map_hash_max_size 2048;";
    "map_hash_bucket_size" (1) "size" = "32|64|128" in Stream, No since "1.11.2", Accepted(HASH) =>
        "Bucket size of the hash tables of `map`.";

    module "ngx_stream_pass_module";
    "pass" (1) "address" in StreamServer, No since "1.25.5", Yes =>
        "Hands the connection to another listener of the same process.", "pass 127.0.0.1:8080;";

    module "ngx_stream_proxy_module";
    "proxy_pass" (1) "address" in StreamServer, No since "1.9.0", Yes =>
        "The peer that sessions are passed to.",
        "proxy_pass 127.0.0.1:5432;";
    "proxy_bind" (1..=2) "address [transparent] | off" in Stream | StreamServer, Value since "1.9.2", Yes =>
        "The local address from which connections to the peer are made.",
        "proxy_bind 10.0.0.1;";
    "proxy_socket_keepalive" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.15.6", Yes =>
        "Whether connections to the peer use TCP keepalive probes.", "proxy_socket_keepalive on;";
    "proxy_connect_timeout" (1) "time" = "60s" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "How long connecting to the peer may take.", "proxy_connect_timeout 60s;";
    "proxy_timeout" (1) "timeout" = "10m" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "How long a session may be idle.", "proxy_timeout 10m;";
    "proxy_buffer_size" (1) "size" = "16k" in Stream | StreamServer, Value since "1.9.4", Yes =>
        "Buffer for the first part of the response.", "proxy_buffer_size 16k;";
    "proxy_downstream_buffer" (1) "value" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "Obsolete name of `proxy_buffer_size`.",
        "proxy_downstream_buffer 16k;";
    "proxy_upstream_buffer" (1) "value" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "Obsolete name of `proxy_buffer_size`.",
        "proxy_upstream_buffer 16k;";
    "proxy_upload_rate" (1) "rate" = "0" in Stream | StreamServer, Value since "1.9.3", Yes =>
        "Bytes per second read from the client.", "proxy_upload_rate 0;";
    "proxy_download_rate" (1) "rate" = "0" in Stream | StreamServer, Value since "1.9.3", Yes =>
        "Bytes per second read from the peer.", "proxy_download_rate 0;";
    "proxy_requests" (1) "number" = "0" in Stream | StreamServer, Value since "1.15.7", Yes =>
        "Datagrams after which a UDP session starts anew.", "proxy_requests 0;";
    "proxy_responses" (1) "number" in Stream | StreamServer, Value since "1.9.13", Yes =>
        "Datagrams expected in answer to one of the client.", "proxy_responses 1;";
    "proxy_next_upstream" (flag) "on | off" = "on" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "In which cases the next peer is tried.", "proxy_next_upstream on;";
    "proxy_next_upstream_tries" (1) "number" = "0" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "Most attempts per session.", "proxy_next_upstream_tries 0;";
    "proxy_next_upstream_timeout" (1) "time" = "0" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "Time within which further peers may be tried.", "proxy_next_upstream_timeout 0;";
    "proxy_protocol" (1) "on | off | v2" = "off" in Stream | StreamServer, Value since "1.9.2", Yes =>
        "Whether peers are greeted with the PROXY protocol, and with which version.", "proxy_protocol off;";
    "proxy_half_close" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.21.4", Yes =>
        "Whether each direction is closed on its own.", "proxy_half_close on;";
    "proxy_ssl" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.9.0", Yes =>
        "Whether connections to the peer use TLS.", "proxy_ssl on;";
    "proxy_ssl_session_reuse" (flag) "on | off" = "on" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Whether TLS sessions are resumed.", "proxy_ssl_session_reuse on;";
    "proxy_ssl_protocols" (1..) "protocol ..." = "TLSv1.2 TLSv1.3"
        in Stream | StreamServer, Value + REPEATABLE since "1.9.0", With(STREAM_TLS) =>
        "TLS versions that are allowed.", "proxy_ssl_protocols TLSv1.2 TLSv1.3;";
    "proxy_ssl_ciphers" (1) "ciphers" = "DEFAULT" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Cipher suites that are allowed, in OpenSSL's words.", "proxy_ssl_ciphers DEFAULT;";
    "proxy_ssl_name" (1) "name" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Name that the certificate of the peer must carry.", "proxy_ssl_name db.example.com;";
    "proxy_ssl_server_name" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Whether the name is sent by SNI.", "proxy_ssl_server_name on;";
    "proxy_ssl_verify" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Whether the certificate of the peer is verified.", "proxy_ssl_verify on;";
    "proxy_ssl_verify_depth" (1) "number" = "1" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Longest chain of certificates.", "proxy_ssl_verify_depth 1;";
    "proxy_ssl_trusted_certificate" (1) "file" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Certificates of trusted authorities.", "proxy_ssl_trusted_certificate /etc/ssl/certs/ca-certificates.crt;";
    "proxy_ssl_crl" (1) "file" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Revoked certificates.", "proxy_ssl_crl crl.pem;";
    "proxy_ssl_certificate" (1) "file" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Certificate that is shown to the other side.", "proxy_ssl_certificate client.pem;";
    "proxy_ssl_certificate_key" (1) "file" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Secret key of the certificate.", "proxy_ssl_certificate_key client.key;";
    "proxy_ssl_certificate_cache" (1..=3) "off | max=N [inactive=time] [valid=time]" = "off"
        in Stream | StreamServer, Value since "1.27.4", With(STREAM_TLS) =>
        "Cache of certificates and keys named by variables.", "proxy_ssl_certificate_cache off;";
    "proxy_ssl_password_file" (1) "file" in Stream | StreamServer, Value since "1.9.0", With(STREAM_TLS) =>
        "Passphrases of secret keys.", "proxy_ssl_password_file passphrases;";
    "proxy_ssl_conf_command" (2) "name value" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.19.4", With(STREAM_TLS) =>
        "Sets an OpenSSL configuration command.", "proxy_ssl_conf_command Protocol TLSv1.3;";
    "proxy_ssl_alpn" (1..) "protocol ..." in Stream | StreamServer, Value since "1.31.0", With(STREAM_TLS) =>
        "Protocols offered to the peer by ALPN.", "proxy_ssl_alpn h2 http/1.1;";

    module "ngx_stream_realip_module";
    "set_real_ip_from" (1) "address | CIDR | unix:"
        in Stream | StreamServer, ListReplaced + REPEATABLE since "1.11.4", Yes =>
        "Proxy that is trusted to name the client in a PROXY protocol line.",
        "set_real_ip_from 10.0.0.0/8;";

    module "ngx_stream_return_module";
    "return" (1) "value" in StreamServer, No since "1.11.2", Yes =>
        "Sends a text and closes the connection.",
        "return $remote_addr;";

    module "ngx_stream_set_module";
    "set" (2) "$variable value" in StreamServer, No + REPEATABLE since "1.19.3", Yes =>
        "Gives a variable a value.",
        "set $pool blue;";

    module "ngx_stream_split_clients_module";
    "split_clients" (block 2) "string $variable" in Stream, No + REPEATABLE since "1.11.3", Yes =>
        "Defines a variable by shares.",
        "split_clients $remote_addr $pool { 10% green; * blue; }";

    module "ngx_stream_ssl_module";
    "ssl_handshake_timeout" (1) "time" = "60s" in Stream | StreamServer, Value since "1.9.0", With(STREAM_LISTEN) =>
        "How long a handshake may take.", "ssl_handshake_timeout 60s;";
    "ssl_certificate" (1) "file" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.9.0", With(STREAM_LISTEN) =>
        "Certificate that is shown to the other side.", "ssl_certificate /etc/ssl/db.pem;";
    "ssl_certificate_key" (1) "file" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.9.0", With(STREAM_LISTEN) =>
        "Secret key of the certificate.", "ssl_certificate_key /etc/ssl/db.key;";
    "ssl_certificate_cache" (1..=3) "off | max=N [inactive=time] [valid=time]" = "off"
        in Stream | StreamServer, Value since "1.27.4", With(STREAM_LISTEN) =>
        "Cache of certificates and keys named by variables.", "ssl_certificate_cache off;";
    "ssl_password_file" (1) "file" in Stream | StreamServer, Value since "1.9.0", With(STREAM_LISTEN) =>
        "Passphrases of secret keys.", "ssl_password_file /etc/ssl/db.pass;";
    "ssl_dhparam" (1) "file" in Stream | StreamServer, Value since "1.9.0", Accepted(DHE) =>
        "Parameters of DHE ciphers.";
    "ssl_ecdh_curve" (1) "curve" = "auto" in Stream | StreamServer, Value since "1.9.0", With(STREAM_LISTEN) =>
        "Curves of ECDHE ciphers.", "ssl_ecdh_curve auto;";
    "ssl_protocols" (1..) "protocol ..." = "TLSv1.2 TLSv1.3"
        in Stream | StreamServer, Value + REPEATABLE since "1.9.0", With(STREAM_LISTEN) =>
        "TLS versions that are allowed.", "ssl_protocols TLSv1.2 TLSv1.3;";
    "ssl_ciphers" (1) "ciphers" = "HIGH:!aNULL:!MD5" in Stream | StreamServer, Value since "1.9.0", With(STREAM_LISTEN) =>
        "Cipher suites that are allowed, in OpenSSL's words.", "ssl_ciphers HIGH:!aNULL:!MD5;";
    "ssl_verify_client" (1) "on | off | optional | optional_no_ca" = "off"
        in Stream | StreamServer, Value since "1.11.8", With(STREAM_LISTEN) =>
        "Whether clients must show a certificate.", "ssl_verify_client off;";
    "ssl_verify_depth" (1) "number" = "1" in Stream | StreamServer, Value since "1.11.8", With(STREAM_LISTEN) =>
        "Longest chain of certificates.", "ssl_verify_depth 1;";
    "ssl_client_certificate" (1) "file" in Stream | StreamServer, Value since "1.11.8", With(STREAM_LISTEN) =>
        "Authorities of client certificates, named to the client.", "ssl_client_certificate /etc/ssl/clients.pem;";
    "ssl_trusted_certificate" (1) "file" in Stream | StreamServer, Value since "1.11.8", With(STREAM_LISTEN) =>
        "Certificates of trusted authorities.", "ssl_trusted_certificate /etc/ssl/authorities.pem;";
    "ssl_prefer_server_ciphers" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.9.0", With(STREAM_LISTEN) =>
        "Whether the server's order of ciphers counts.", "ssl_prefer_server_ciphers on;";
    "ssl_session_cache" (1..=2) "off | none | [builtin[:size]] [shared:name:size]" = "none"
        in Stream | StreamServer, Value + REPEATABLE since "1.9.0", With(STREAM_LISTEN) =>
        "Where session parameters are kept.", "ssl_session_cache none;";
    "ssl_session_tickets" (flag) "on | off" = "on" in Stream | StreamServer, Value since "1.9.0", With(STREAM_LISTEN) =>
        "Whether sessions are resumed by tickets.", "ssl_session_tickets on;";
    "ssl_session_ticket_key" (1) "file" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.9.0", With(STREAM_LISTEN) =>
        "Key of session tickets.", "ssl_session_ticket_key /etc/ssl/ticket.key;";
    "ssl_session_timeout" (1) "time" = "5m" in Stream | StreamServer, Value since "1.9.0", With(STREAM_LISTEN) =>
        "How long a session can be resumed.", "ssl_session_timeout 5m;";
    "ssl_crl" (1) "file" in Stream | StreamServer, Value since "1.11.8", With(STREAM_LISTEN) =>
        "Revoked certificates.", "ssl_crl /etc/ssl/revoked.pem;";
    "ssl_ocsp" (1) "on | off | leaf" = "off" in Stream | StreamServer, Value since "1.27.2", With(STREAM_LISTEN) =>
        "Whether client certificates are checked by OCSP.", "ssl_ocsp off;";
    "ssl_ocsp_responder" (1) "url" in Stream | StreamServer, Value since "1.27.2", With(STREAM_LISTEN) =>
        "OCSP responder for client certificates.", "ssl_ocsp_responder http://ocsp.example.com/;";
    "ssl_ocsp_cache" (1) "off | [shared:name:size]" = "off" in Stream | StreamServer, Value since "1.27.2", With(STREAM_LISTEN) =>
        "Cache of OCSP answers about client certificates.", "ssl_ocsp_cache off;";
    "ssl_stapling" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.27.2", With(STREAM_LISTEN) =>
        "Whether OCSP answers are stapled.", "ssl_stapling on;";
    "ssl_stapling_file" (1) "file" in Stream | StreamServer, Value since "1.27.2", With(STREAM_LISTEN) =>
        "File of the OCSP answer that is stapled.", "ssl_stapling_file ocsp.der;";
    "ssl_stapling_responder" (1) "url" in Stream | StreamServer, Value since "1.27.2", With(STREAM_LISTEN) =>
        "OCSP responder for stapling.", "ssl_stapling_responder http://ocsp.example.com/;";
    "ssl_stapling_verify" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.27.2", With(STREAM_LISTEN) =>
        "Whether OCSP answers are verified.", "ssl_stapling_verify on;";
    "ssl_conf_command" (2) "name value" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.19.4", With(STREAM_LISTEN) =>
        "Sets an OpenSSL configuration command.", "ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;";
    "ssl_reject_handshake" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.25.5", With(STREAM_LISTEN) =>
        "Whether handshakes in this server are refused.", "ssl_reject_handshake on;";
    "ssl_alpn" (1..) "protocol ..." in Stream | StreamServer, Value since "1.21.4", With(STREAM_LISTEN) =>
        "Protocols that the server supports by ALPN.", "ssl_alpn mqtt;";
    "ssl_certificate_compression" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.29.1", With(STREAM_LISTEN) =>
        "Whether certificates are sent compressed in TLS 1.3.", "ssl_certificate_compression on;";
    "ssl_ech_file" (1) "file" in Stream | StreamServer, ListReplaced + REPEATABLE since "1.29.4", Accepted(ECH) =>
        "Keys of encrypted client hello.";

    module "ngx_stream_ssl_preread_module";
    "ssl_preread" (flag) "on | off" = "off" in Stream | StreamServer, Value since "1.11.5", Yes =>
        "Whether names are read from the TLS greeting without ending TLS.", "ssl_preread on;";

    module "ngx_stream_upstream_module";
    "upstream" (block 1) "name" in Stream, No + REPEATABLE since "1.9.0", Yes =>
        "Names a group of peers.",
        "upstream databases { server 127.0.0.1:5432; server 127.0.0.1:5433 backup; }";
    "server" (1..) "address [parameters]" in StreamUpstream, No + REPEATABLE since "1.9.0", Yes =>
        "One peer of the group.",
        "server 127.0.0.1:5432 weight=2;";
    "resolver" (1..) "address ... [valid=time] [ipv6=on|off] [status_zone=zone]"
        in StreamUpstream, No since "1.27.3", Yes =>
        "Name servers for the group's peers with `resolve`.",
        "resolver 127.0.0.53 valid=30s;";
    "resolver_timeout" (1) "time" = "30s" in StreamUpstream, No since "1.27.3", Yes =>
        "How long resolving a name of the group may take.", "resolver_timeout 30s;";
    "hash" (1..=2) "key [consistent]" in StreamUpstream, No + REPEATABLE since "1.9.0", Yes =>
        "Chooses peers by a hash of the given text.",
        "hash $remote_addr consistent;";
    "least_conn" (0) "" in StreamUpstream, No + REPEATABLE since "1.9.0", Yes =>
        "Chooses the peer with the fewest connections, by weight.", "least_conn;";
    "random" (0..=2) "[two [method]]" in StreamUpstream, No + REPEATABLE since "1.15.1", Yes =>
        "Chooses peers at random.",
        "random two least_conn;";
    "zone" (1..=2) "name [size]" in StreamUpstream, No + REPEATABLE since "1.9.0", Yes =>
        "Names the zone in which the group's state is shared.",
        "zone databases 64k;";
    "least_time" (1..=2) "connect | first_byte | last_byte [inflight]"
        in StreamUpstream, No + REPEATABLE since "1.31.0", Yes =>
        "Chooses the peer with the least time and fewest connections, by weight.", "least_time connect;";

    module "ngx_stream_js_module";
    "js_access" (1..) "function | module.function" in Stream | StreamServer, Value since "njs", No =>
        "Handler of the access phase.";
    "js_fetch_buffer_size" (1..) "size" = "16k" in Stream | StreamServer, Value since "njs", No =>
        "Buffer of requests made by scripts.";
    "js_fetch_ciphers" (1..) "ciphers" = "HIGH:!aNULL:!MD5" in Stream | StreamServer, Value since "njs", No =>
        "Cipher suites of requests made by scripts.";
    "js_fetch_max_response_buffer_size" (1..) "size" = "1m" in Stream | StreamServer, Value since "njs", No =>
        "Largest response to a request made by a script.";
    "js_fetch_protocols" (1..) "[TLSv1] [TLSv1.1] [TLSv1.2] [TLSv1.3]" = "TLSv1 TLSv1.1 TLSv1.2"
        in Stream | StreamServer, Value since "njs", No =>
        "TLS versions of requests made by scripts.";
    "js_fetch_timeout" (1..) "time" = "60s" in Stream | StreamServer, Value since "njs", No =>
        "How long a peer of a script may be silent.";
    "js_fetch_trusted_certificate" (1..) "file" in Stream | StreamServer, Value since "njs", No =>
        "Trusted authorities of requests made by scripts.";
    "js_fetch_verify" (flag) "on | off" = "on" in Stream | StreamServer, Value since "njs", No =>
        "Whether scripts verify certificates.";
    "js_fetch_verify_depth" (1..) "number" = "100" in Stream | StreamServer, Value since "njs", No =>
        "Longest chain of certificates for scripts.";
    "js_filter" (1..) "function | module.function" in Stream | StreamServer, Value since "njs", No =>
        "Handler that filters session data.";
    "js_import" (1..) "module.js | export_name from module.js"
        in Stream | StreamServer, Value + REPEATABLE since "njs", No =>
        "Script that is loaded.";
    "js_include" (1..) "file" in Stream, No since "njs", No =>
        "Obsolete: script file that is loaded.";
    "js_path" (1..) "path" in Stream | StreamServer, Value + REPEATABLE since "njs", No =>
        "Directory of scripts.";
    "js_preread" (1..) "function | module.function" in Stream | StreamServer, Value since "njs", No =>
        "Handler of the preread phase.";
    "js_set" (1..) "$variable function | module.function"
        in Stream | StreamServer, Value + REPEATABLE since "njs", No =>
        "Variable computed by a script function.";
    "js_var" (1..) "$variable [value]" in Stream | StreamServer, Value + REPEATABLE since "njs", No =>
        "Declares a variable that scripts write.";
}
