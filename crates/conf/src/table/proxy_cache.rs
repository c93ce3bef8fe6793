//! The parts of the HTTP proxy for TLS, caching and storing.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{PROXY_TLS, directives};

directives! {
    module "ngx_http_proxy_module";
    "proxy_store" (1) "on | off | string" = "off" in Http | Server | Location, Value since "0.6.3", Yes =>
        "Whether responses with status 200 are saved as files: under the path of the request's file (`on`), or under the given path.",
        "proxy_store on;";
    "proxy_store_access" (1..=3) "users:permissions ..." = "user:rw"
        in Http | Server | Location, Value since "0.6.4", Yes =>
        "Permissions of saved files, and of the directories created for them.", "proxy_store_access user:rw group:rw all:r;";
    "proxy_cache" (1) "zone | off" = "off" in Http | Server | Location, Value, Yes =>
        "The zone in which responses are cached.", "proxy_cache off;";
    "proxy_cache_key" (1) "string" = "$scheme$proxy_host$request_uri"
        in Http | Server | Location, Value since "0.7.48", Yes =>
        "The key of a cached response.", "proxy_cache_key $scheme$proxy_host$request_uri;";
    "proxy_cache_path" (2..) "path keys_zone=name:size [parameters]" in Http, No + REPEATABLE, Yes =>
        "Directory, zone and limits of a cache.", "proxy_cache_path /var/cache/holdfast levels=1:2 keys_zone=one:10m max_size=1g inactive=1h;";
    "proxy_cache_bypass" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.46", Yes =>
        "When a response is not taken from the cache.", "proxy_cache_bypass $cookie_nocache $arg_nocache;";
    "proxy_no_cache" (1..) "string ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.8.38", Yes =>
        "When a response is not put into the cache.", "proxy_no_cache $cookie_nocache $arg_nocache;";
    "proxy_cache_valid" (1..) "[code ...] time"
        in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "How long responses of a status stay fresh.", "proxy_cache_valid 200 302 10m;";
    "proxy_cache_min_uses" (1) "number" = "1" in Http | Server | Location, Value, Yes =>
        "Requests after which a response is cached.", "proxy_cache_min_uses 1;";
    "proxy_cache_max_range_offset" (1) "number" in Http | Server | Location, Value since "1.11.6", Yes =>
        "Up to which offset range requests are cached.", "proxy_cache_max_range_offset 10m;";
    "proxy_cache_use_stale" (1..) "condition ... | off" = "off"
        in Http | Server | Location, Value + REPEATABLE, Yes =>
        "When a stale response may be used.", "proxy_cache_use_stale off;";
    "proxy_cache_methods" (1..) "GET | HEAD | POST ..." = "GET HEAD"
        in Http | Server | Location, Value + REPEATABLE since "0.7.59", Yes =>
        "Methods whose responses are cached.", "proxy_cache_methods GET HEAD;";
    "proxy_cache_lock" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.1.12", Yes =>
        "Whether only one request at a time fills a cache entry.", "proxy_cache_lock on;";
    "proxy_cache_lock_timeout" (1) "time" = "5s" in Http | Server | Location, Value since "1.1.12", Yes =>
        "How long others wait for the one that fills an entry.", "proxy_cache_lock_timeout 5s;";
    "proxy_cache_lock_age" (1) "time" = "5s" in Http | Server | Location, Value since "1.7.8", Yes =>
        "After how long another request may fill the entry.", "proxy_cache_lock_age 5s;";
    "proxy_cache_revalidate" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.5.7", Yes =>
        "Whether stale entries are revalidated by conditional requests.", "proxy_cache_revalidate on;";
    "proxy_cache_convert_head" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "1.9.7", Yes =>
        "Whether HEAD is turned into GET for caching.", "proxy_cache_convert_head on;";
    "proxy_cache_background_update" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.11.10", Yes =>
        "Whether stale entries are renewed in the background.", "proxy_cache_background_update on;";
    "proxy_ssl_session_reuse" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.7.11", With(PROXY_TLS) =>
        "Whether TLS sessions are resumed.", "proxy_ssl_session_reuse on;";
    "proxy_ssl_protocols" (1..) "protocol ..." = "TLSv1.2 TLSv1.3"
        in Http | Server | Location, Value + REPEATABLE since "1.5.6", With(PROXY_TLS) =>
        "TLS versions that are allowed.", "proxy_ssl_protocols TLSv1.2 TLSv1.3;";
    "proxy_ssl_ciphers" (1) "ciphers" = "DEFAULT"
        in Http | Server | Location, Value since "1.5.6", With(PROXY_TLS) =>
        "Cipher suites that are allowed, in OpenSSL's words.", "proxy_ssl_ciphers DEFAULT;";
    "proxy_ssl_name" (1) "name" = "$proxy_host"
        in Http | Server | Location, Value since "1.7.0", With(PROXY_TLS) =>
        "Name for SNI, and that the certificate of the peer must carry.", "proxy_ssl_name $proxy_host;";
    "proxy_ssl_server_name" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.7.0", With(PROXY_TLS) =>
        "Whether the name is sent by SNI.", "proxy_ssl_server_name on;";
    "proxy_ssl_verify" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.7.0", With(PROXY_TLS) =>
        "Whether the certificate of the peer is verified.", "proxy_ssl_verify on;";
    "proxy_ssl_verify_depth" (1) "number" = "1"
        in Http | Server | Location, Value since "1.7.0", With(PROXY_TLS) =>
        "Longest chain of certificates.", "proxy_ssl_verify_depth 1;";
    "proxy_ssl_trusted_certificate" (1) "file"
        in Http | Server | Location, Value since "1.7.0", With(PROXY_TLS) =>
        "Certificates of trusted authorities; without it those of the system.",
        "proxy_ssl_trusted_certificate ca.pem;";
    "proxy_ssl_crl" (1) "file" in Http | Server | Location, Value since "1.7.0", With(PROXY_TLS) =>
        "Lists of revoked certificates, one for each authority of the chain.", "proxy_ssl_crl crl.pem;";
    "proxy_ssl_certificate" (1) "file" in Http | Server | Location, Value since "1.7.8", With(PROXY_TLS) =>
        "Certificate that is shown when the peer asks for one.", "proxy_ssl_certificate client.pem;";
    "proxy_ssl_certificate_key" (1) "file" in Http | Server | Location, Value since "1.7.8", With(PROXY_TLS) =>
        "Secret key of the certificate.", "proxy_ssl_certificate_key client.key;";
    "proxy_ssl_certificate_cache" (1..=3) "off | max=N [inactive=time] [valid=time]" = "off"
        in Http | Server | Location, Value since "1.27.4", With(PROXY_TLS) =>
        "Cache of certificates and keys named by variables.", "proxy_ssl_certificate_cache off;";
    "proxy_ssl_password_file" (1) "file" in Http | Server | Location, Value since "1.7.8", With(PROXY_TLS) =>
        "Passphrases of secret keys.", "proxy_ssl_password_file passwords;";
    "proxy_ssl_conf_command" (2) "name value"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.19.4", With(PROXY_TLS) =>
        "Sets an OpenSSL configuration command: `Ciphersuites`, `CipherString`, `Curves`, `Groups`, `MinProtocol` and `MaxProtocol`.",
        "proxy_ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;";
    "proxy_ssl_key_log" (1) "path" in Http | Server | Location, Value since "1.27.2", No =>
        "File that gets the secrets of TLS sessions, for captures of the network.";
}
