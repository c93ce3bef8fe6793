//! Properties of every row, and of our own list of directives.

use super::*;
use crate::{Loader, load, tree};
use std::io;
use std::path::{Path, PathBuf};

/// The directives that holdfast aims to support, area by area; `docs/guide/reference.md` shows the support of each.
const CORE: &[&str] = &[
    // main and events
    "user worker_processes worker_rlimit_nofile worker_connections daemon master_process pid error_log env include",
    "load_module events worker_shutdown_timeout worker_cpu_affinity working_directory",
    // http structure
    "http server location listen server_name types default_type root alias index try_files internal error_page",
    "recursive_error_pages absolute_redirect port_in_redirect server_name_in_redirect merge_slashes",
    "underscores_in_headers ignore_invalid_headers server_tokens satisfy allow deny limit_except",
    // client side
    "keepalive_timeout keepalive_requests keepalive_time keepalive_min_timeout keepalive_disable",
    "client_header_buffer_size large_client_header_buffers max_headers client_header_timeout client_body_timeout",
    "client_max_body_size client_body_buffer_size client_body_temp_path client_body_in_file_only",
    "client_body_in_single_buffer send_timeout lingering_close lingering_time lingering_timeout",
    "reset_timedout_connection tcp_nodelay tcp_nopush sendfile sendfile_max_chunk chunked_transfer_encoding max_ranges",
    "etag if_modified_since",
    "expires add_header add_header_inherit add_trailer add_trailer_inherit limit_rate limit_rate_after",
    // HTTP/2
    "http2 http2_max_concurrent_streams http2_body_preread_size http2_chunk_size",
    // rewrite
    "return rewrite break set if rewrite_log uninitialized_variable_warn map geo split_clients",
    "geoip2 geoip2_proxy geoip2_proxy_recursive",
    // logs
    "log_format access_log log_not_found log_subrequest open_log_file_cache stub_status",
    // subrequests
    "auth_request auth_request_set mirror mirror_request_body add_before_body add_after_body addition_types",
    // access
    "auth_jwt auth_jwt_claim_set auth_jwt_header_set auth_jwt_key_cache auth_jwt_key_file auth_jwt_key_request",
    "auth_jwt_leeway auth_jwt_require auth_jwt_type",
    "proxy_store proxy_store_access fastcgi_store fastcgi_store_access scgi_store scgi_store_access uwsgi_store",
    "uwsgi_store_access",
    "auth_basic auth_basic_user_file auth_delay secure_link secure_link_md5 secure_link_secret valid_referers",
    // files and filters
    "gzip_static gunzip sub_filter sub_filter_once sub_filter_types sub_filter_last_modified",
    "ssi ssi_last_modified ssi_silent_errors ssi_types ssi_value_length subrequest_output_buffer_size",
    "userid userid_service userid_name userid_domain userid_path userid_expires userid_flags userid_p3p userid_mark",
    "brotli brotli_types brotli_comp_level brotli_window brotli_min_length brotli_static",
    "zstd zstd_types zstd_comp_level zstd_min_length zstd_static",
    "more_set_headers more_clear_headers more_set_input_headers more_clear_input_headers",
    "charset charset_types charset_map source_charset override_charset",
    "autoindex autoindex_format autoindex_localtime autoindex_exact_size",
    "random_index empty_gif slice open_file_cache open_file_cache_valid open_file_cache_min_uses open_file_cache_errors",
    "disable_symlinks",
    // limits, real client
    "gzip gzip_types gzip_min_length gzip_comp_level gzip_vary gzip_proxied gzip_http_version gzip_disable",
    "limit_conn_zone limit_conn limit_conn_status limit_conn_log_level limit_conn_dry_run limit_req_zone limit_req",
    "limit_req_status limit_req_log_level limit_req_dry_run set_real_ip_from real_ip_header real_ip_recursive",
    // proxy
    "proxy_pass proxy_http_version proxy_set_header proxy_pass_header proxy_hide_header proxy_ignore_headers",
    "proxy_pass_request_headers proxy_pass_request_body proxy_set_body proxy_method proxy_redirect",
    "proxy_cookie_domain proxy_cookie_path proxy_cookie_flags proxy_bind proxy_socket_keepalive proxy_socket_sndbuf",
    "proxy_socket_rcvbuf proxy_connect_timeout proxy_send_timeout proxy_read_timeout proxy_next_upstream",
    "proxy_next_upstream_tries proxy_next_upstream_timeout proxy_ignore_client_abort proxy_intercept_errors",
    "proxy_request_buffering proxy_buffering proxy_buffer_size proxy_buffers proxy_busy_buffers_size",
    "proxy_max_temp_file_size proxy_temp_file_write_size proxy_temp_path proxy_limit_rate proxy_force_ranges",
    "proxy_pass_trailers early_hints",
    "proxy_ssl_server_name proxy_ssl_name proxy_ssl_verify proxy_ssl_verify_depth proxy_ssl_trusted_certificate",
    "proxy_ssl_crl proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_password_file proxy_ssl_certificate_cache",
    "proxy_ssl_protocols proxy_ssl_ciphers proxy_ssl_conf_command proxy_ssl_session_reuse",
    // SCGI, uwsgi
    "scgi_pass uwsgi_pass",
    "scgi_buffering scgi_request_buffering scgi_ignore_client_abort scgi_bind scgi_socket_keepalive",
    "scgi_connect_timeout scgi_send_timeout scgi_buffer_size scgi_pass_request_headers scgi_pass_request_body",
    "scgi_intercept_errors scgi_read_timeout scgi_buffers scgi_busy_buffers_size scgi_force_ranges",
    "scgi_limit_rate scgi_temp_path scgi_max_temp_file_size scgi_temp_file_write_size scgi_next_upstream",
    "scgi_next_upstream_tries scgi_next_upstream_timeout scgi_param scgi_pass_header scgi_hide_header",
    "scgi_ignore_headers scgi_socket_rcvbuf scgi_socket_sndbuf",
    "uwsgi_modifier1 uwsgi_modifier2 uwsgi_buffering uwsgi_request_buffering uwsgi_ignore_client_abort",
    "uwsgi_bind uwsgi_socket_keepalive uwsgi_connect_timeout uwsgi_send_timeout uwsgi_buffer_size",
    "uwsgi_pass_request_headers uwsgi_pass_request_body uwsgi_intercept_errors uwsgi_read_timeout uwsgi_buffers",
    "uwsgi_busy_buffers_size uwsgi_force_ranges uwsgi_limit_rate uwsgi_temp_path uwsgi_max_temp_file_size",
    "uwsgi_temp_file_write_size uwsgi_next_upstream uwsgi_next_upstream_tries uwsgi_next_upstream_timeout",
    "uwsgi_param uwsgi_pass_header uwsgi_hide_header uwsgi_ignore_headers uwsgi_socket_rcvbuf",
    "uwsgi_socket_sndbuf",
    "uwsgi_ssl_session_reuse uwsgi_ssl_protocols uwsgi_ssl_ciphers uwsgi_ssl_name uwsgi_ssl_server_name uwsgi_ssl_verify",
    "uwsgi_ssl_verify_depth uwsgi_ssl_trusted_certificate uwsgi_ssl_crl uwsgi_ssl_certificate uwsgi_ssl_certificate_key",
    "uwsgi_ssl_certificate_cache uwsgi_ssl_password_file uwsgi_ssl_conf_command",
    // FastCGI
    "fastcgi_pass fastcgi_index fastcgi_split_path_info fastcgi_buffering fastcgi_request_buffering",
    "fastcgi_ignore_client_abort fastcgi_bind fastcgi_socket_keepalive fastcgi_connect_timeout",
    "fastcgi_send_timeout fastcgi_send_lowat fastcgi_buffer_size fastcgi_pass_request_headers",
    "fastcgi_pass_request_body fastcgi_intercept_errors fastcgi_read_timeout fastcgi_buffers",
    "fastcgi_busy_buffers_size fastcgi_force_ranges fastcgi_limit_rate fastcgi_temp_path",
    "fastcgi_max_temp_file_size fastcgi_temp_file_write_size fastcgi_next_upstream fastcgi_next_upstream_tries",
    "fastcgi_next_upstream_timeout fastcgi_param fastcgi_pass_header fastcgi_hide_header fastcgi_ignore_headers",
    "fastcgi_catch_stderr fastcgi_keep_conn fastcgi_socket_rcvbuf fastcgi_socket_sndbuf",
    // memcached
    "memcached_pass memcached_bind memcached_socket_keepalive memcached_connect_timeout memcached_send_timeout",
    "memcached_buffer_size memcached_read_timeout memcached_next_upstream memcached_next_upstream_tries",
    "memcached_next_upstream_timeout memcached_gzip_flag",
    // gRPC
    "grpc_pass grpc_bind grpc_socket_keepalive grpc_connect_timeout grpc_send_timeout grpc_intercept_errors",
    "grpc_buffer_size grpc_read_timeout grpc_next_upstream grpc_next_upstream_tries grpc_next_upstream_timeout",
    "grpc_set_header grpc_pass_header grpc_hide_header grpc_ignore_headers grpc_socket_rcvbuf grpc_socket_sndbuf",
    "grpc_ssl_session_reuse grpc_ssl_protocols grpc_ssl_ciphers grpc_ssl_name grpc_ssl_server_name grpc_ssl_verify",
    "grpc_ssl_verify_depth grpc_ssl_trusted_certificate grpc_ssl_crl grpc_ssl_certificate grpc_ssl_certificate_key",
    "grpc_ssl_certificate_cache grpc_ssl_password_file grpc_ssl_conf_command",
    // upstream
    "upstream keepalive ip_hash least_conn least_time hash random sticky zone state resolver resolver_timeout queue",
    // TLS towards clients
    "ssl_certificate ssl_certificate_key ssl_certificate_cache ssl_certificate_compression ssl_password_file",
    "ssl_ecdh_curve ssl_protocols ssl_ciphers ssl_prefer_server_ciphers ssl_conf_command ssl_buffer_size",
    "ssl_session_cache ssl_session_tickets ssl_session_ticket_key ssl_session_timeout ssl_early_data",
    "ssl_verify_client ssl_verify_depth ssl_client_certificate ssl_trusted_certificate ssl_crl ssl_reject_handshake",
    "ssl_stapling ssl_stapling_file ssl_stapling_responder ssl_stapling_verify ssl_ocsp ssl_ocsp_responder ssl_ocsp_cache",
    // ours
    "max_connections keepalive_learn retry_unsent proxy_bind_pool proxy_request_timeout proxy_next_upstream_again",
    "proxy_next_upstream_pause proxy_ssl_verify_san grpc_ssl_verify_san uwsgi_ssl_verify_san memory_budget worker_groups drain_rate drain_timeout ctl_socket tunnel_timeout tunnel_ping status_page",
    "bare_line_feeds health_check client_half_close http2_ping request_trace_secret",
    // OpenTelemetry
    "otel_exporter otel_resource_attr otel_service_name otel_span_attr otel_span_name otel_trace otel_trace_context",
    "endpoint interval batch_size batch_count header trusted_certificate",
    "proxy_cache proxy_cache_key proxy_cache_path proxy_cache_bypass proxy_no_cache proxy_cache_valid",
    "proxy_cache_min_uses proxy_cache_max_range_offset proxy_cache_use_stale proxy_cache_methods proxy_cache_lock",
    "proxy_cache_lock_timeout proxy_cache_lock_age proxy_cache_revalidate proxy_cache_convert_head",
    "proxy_cache_background_update proxy_cache_purge proxy_cache_authorization proxy_cache_key_digest fastcgi_cache_key_digest uwsgi_cache_key_digest scgi_cache_key_digest fastcgi_cache fastcgi_cache_key",
    "fastcgi_cache_path fastcgi_cache_bypass fastcgi_no_cache fastcgi_cache_valid fastcgi_cache_min_uses",
    "fastcgi_cache_max_range_offset fastcgi_cache_use_stale fastcgi_cache_methods fastcgi_cache_lock",
    "fastcgi_cache_lock_timeout fastcgi_cache_lock_age fastcgi_cache_revalidate fastcgi_cache_background_update",
    "fastcgi_cache_purge fastcgi_cache_authorization uwsgi_cache uwsgi_cache_key uwsgi_cache_path",
    "uwsgi_cache_bypass uwsgi_no_cache uwsgi_cache_valid uwsgi_cache_min_uses uwsgi_cache_max_range_offset",
    "uwsgi_cache_use_stale uwsgi_cache_methods uwsgi_cache_lock uwsgi_cache_lock_timeout uwsgi_cache_lock_age",
    "uwsgi_cache_revalidate uwsgi_cache_background_update uwsgi_cache_purge uwsgi_cache_authorization scgi_cache",
    "scgi_cache_key scgi_cache_path scgi_cache_bypass scgi_no_cache scgi_cache_valid scgi_cache_min_uses",
    "scgi_cache_max_range_offset scgi_cache_use_stale scgi_cache_methods scgi_cache_lock scgi_cache_lock_timeout",
    "scgi_cache_lock_age scgi_cache_revalidate scgi_cache_background_update scgi_cache_purge",
    "scgi_cache_authorization route_to",
];

/// The directives of `ngx_http_acme_module`. Other modules have directives with some of these names, too.
const ACME: &str = "acme_issuer acme_certificate uri account_key challenge contact external_account_key profile \
                    ssl_trusted_certificate ssl_verify state_path accept_terms_of_service";

/// Directives that are checked and have no effect, by our own decision.
const ACCEPTED: &[&str] = &[
    "use multi_accept accept_mutex worker_priority pcre_jit load_module",
    "types_hash_max_size types_hash_bucket_size server_names_hash_max_size server_names_hash_bucket_size",
    "variables_hash_max_size variables_hash_bucket_size map_hash_max_size map_hash_bucket_size",
    "proxy_headers_hash_max_size proxy_headers_hash_bucket_size referer_hash_max_size referer_hash_bucket_size",
    "connection_pool_size request_pool_size output_buffers postpone_output directio aio",
    "http2_recv_buffer_size http2_pool_size http2_streams_index_size http2_push http2_push_preload http2_idle_timeout",
    "http2_recv_timeout http2_max_requests http2_max_field_size http2_max_header_size http2_max_concurrent_pushes",
    // Until responses are compressed:
    "gzip_buffers",
];

fn words(list: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    list.iter().flat_map(|line| line.split(' '))
}

/// A configuration that is one text, and no other file.
struct OneText<'t>(&'t str);

impl Loader for OneText<'_> {
    fn read(&mut self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn glob(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// Parses a text of one directive like any configuration.
fn statement(text: &str) -> tree::Directive {
    let loaded = load(Path::new("example.conf"), Path::new("/"), None, &mut OneText(text));
    let found: Vec<_> = loaded.diagnostics.iter().map(|found| &found.message).collect();
    assert!(found.is_empty(), "{text}: {found:?}");
    let [directive] = loaded.tree.directives.as_slice() else { panic!("{text} is not one directive") };
    directive.clone()
}

#[test]
fn the_table_knows_nginx_by_name() {
    assert!(all().len() > 800, "only {} rows", all().len());
    assert!(all().is_sorted_by_key(|row| (row.name, row.contexts.0)));
    for row in all() {
        assert_eq!(rows(row.name).iter().filter(|other| other.contexts == row.contexts).count(), 1, "{}", row.name);
    }
    assert!(rows("proxy_reed_timeout").is_empty());
}

#[test]
fn rows_of_one_name_share_no_context() {
    for row in all() {
        for context in row.contexts.iter() {
            let found: Vec<_> = rows(row.name).iter().filter(|other| other.contexts.contains(context)).collect();
            assert_eq!(found.len(), 1, "{} in {}: {found:?}", row.name, context.describe());
        }
        assert_ne!(row.contexts.0, 0, "{} has no context", row.name);
    }
}

#[test]
fn a_name_is_found_in_its_context_only() {
    let module = |name, context| find(name, context).map(|row| row.module.0);
    assert_eq!(module("server", Context::Http), Some("ngx_http_core_module"));
    assert_eq!(module("server", Context::Upstream), Some("ngx_http_upstream_module"));
    assert_eq!(module("server", Context::Stream), Some("ngx_stream_core_module"));
    assert_eq!(module("server", Context::Location), None);
    assert_eq!(module("keepalive", Context::Upstream), Some("ngx_http_upstream_module"));
    assert_eq!(module("proxy_pass", Context::Upstream), None);
}

#[test]
fn a_module_is_covered_where_one_of_its_directives_is() {
    assert!(covers("ngx_http_realip_module"));
    assert!(!covers("ngx_http_geoip_module"));
    assert!(covers("ngx_stream_core_module"));
    assert!(!covers("ngx_stream_js_module"));
    assert!(!covers("ngx_http_made_up_module"));
}

#[test]
fn every_example_has_the_right_number_of_arguments() {
    for row in all() {
        if row.example.is_empty() {
            assert!(matches!(row.support, Support::No | Support::OnlyWith(_) | Support::Accepted(_)), "{}", row.name);
            continue;
        }
        // Loading replaces an `include` by the included directives, here by none. Under another name the line survives.
        let text = row.example.replacen("include ", "included ", 1);
        let directive = statement(&text);
        let name = directive.name.text();
        assert!(name == row.name || name == "included" && row.name == "include", "{text}");
        assert!(row.args.accepts(directive.args.len()), "{text} {:?}", row.args);
        assert_eq!(directive.block.is_some(), row.args.block, "{text}");
    }
}

#[test]
fn every_default_has_the_right_number_of_arguments() {
    for row in all().iter().filter(|row| !row.args.block) {
        let Some(default) = row.default else { continue };
        let count = statement(&format!("{} {default};", row.name)).args.len();
        assert!(row.args.accepts(count), "{} {default}: {:?}", row.name, row.args);
        assert!(!row.args.flag || matches!(default, "on" | "off"), "{} {default}", row.name);
    }
}

#[test]
fn every_row_has_a_description() {
    for row in all() {
        assert!(row.doc.ends_with('.') && row.doc.len() > 15, "{}: {}", row.name, row.doc);
        assert!(row.args.min <= row.args.max && row.args.flag <= (row.args.max == 1), "{}", row.name);
        assert_eq!(row.syntax.is_empty(), row.args.min == 0 && row.syntax.is_empty(), "{} lacks a syntax", row.name);
        let version = row.since.split('.').all(|part| part.parse::<u16>().is_ok());
        assert!(version || matches!(row.since, "" | "holdfast" | "njs"), "{} since {}", row.name, row.since);
        assert_eq!(row.since == "holdfast", row.module.0 == "holdfast", "{}", row.name);
    }
}

#[test]
fn listed_directives_take_effect_or_give_a_reason() {
    for name in words(CORE).chain(words(ACCEPTED)) {
        let ours: Vec<_> = rows(name).iter().filter(|row| !row.module.0.starts_with("ngx_stream")).collect();
        assert!(!ours.is_empty(), "{name} is not in the table");
        for row in ours.into_iter().filter(|row| !row.module.0.starts_with("ngx_mail")) {
            let done = matches!(row.support, Support::Yes | Support::With(_) | Support::Accepted(_));
            assert!(done, "{name} in {}: {:?}", row.module.0, row.support);
        }
    }
    for name in words(ACCEPTED) {
        assert!(matches!(rows(name)[0].support, Support::Accepted(_)), "{name}");
    }
}

/// Words that `stream` alone has.
const STREAM: &str = "stream proxy_protocol_timeout preread_buffer_size preread_timeout ssl_preread proxy_timeout proxy_downstream_buffer \
    proxy_upstream_buffer proxy_upload_rate proxy_download_rate proxy_protocol proxy_half_close proxy_requests proxy_responses proxy_ssl proxy_ssl_alpn \
    pass ssl_alpn ssl_handshake_timeout";

#[test]
fn lowered_directives_are_on_our_list() {
    let core: Vec<_> = words(CORE).collect();
    for row in all().iter().filter(|row| matches!(row.support, Support::Yes | Support::With(_))) {
        let is_acme = row.module.0 == "ngx_http_acme_module" && ACME.split(' ').any(|name| name == row.name);
        let is_stream = row.module.0.starts_with("ngx_stream_") && STREAM.split(' ').any(|name| name == row.name);
        assert!(is_acme || is_stream || core.contains(&row.name), "{}", row.name);
    }
}

#[test]
fn words_about_tls_are_accepted_where_nothing_speaks_it() {
    let is_about_tls = |row: &&Directive| {
        row.module.0 != "ngx_http_acme_module"
            && row.module.0.starts_with("ngx_http_")
            && (row.name.starts_with("ssl_") || row.name.contains("_ssl_"))
            && !row.name.starts_with("proxy_ssl_")
    };
    let rows: Vec<_> = all().iter().filter(is_about_tls).collect();
    assert!(rows.len() > 45, "{}", rows.len());
    for row in rows {
        let is_accepted = matches!(row.support, Support::With(_) | Support::OnlyWith(_) | Support::Accepted(_));
        assert!(is_accepted, "{}: {:?}", row.name, row.support);
    }
}
