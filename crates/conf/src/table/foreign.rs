//! Directives of other modules that real configurations contain: those of NGINX Plus, and of the third-party modules in
//! distributions and images. They are not typing mistakes: the message names their owner and what replaces them in
//! holdfast. The table has names only, not their arguments. Called for a directive that has no row, and by the
//! reference page.

/// Directives of one owner.
#[derive(Debug, Clone, Copy)]
pub struct Foreign {
    /// The owner.
    pub owner: &'static str,
    /// Their names; a final `*` matches all names with that prefix.
    pub names: &'static [&'static str],
    /// What replaces them in holdfast, or why nothing does.
    pub instead: &'static str,
}

const PLUS: &str = "NGINX Plus";

/// All of them. A name appears once; whole names come before prefixes.
pub const FOREIGN: &[Foreign] = &[
    Foreign {
        owner: PLUS,
        names: &["api", "status", "status_format", "status_zone", "upstream_conf", "upstream_show"],
        instead: "`status_page` shows the same as a page, as JSON and as metrics; `state` keeps a group's servers in a file",
    },
    Foreign {
        owner: PLUS,
        names: &["match"],
        instead: "the conditions of a check are in `health_check` itself: `status=`, `header=`, `body=`",
    },
    Foreign {
        owner: PLUS,
        names: &["keyval", "keyval_zone", "zone_sync*"],
        instead: "`map` and `geo` with `include`, and a reload, for values that change; nothing is shared between hosts",
    },
    Foreign {
        owner: PLUS,
        names: &["auth_oidc", "auth_oidc*", "oidc_provider", "session_log*"],
        instead: "`auth_jwt` checks tokens; for signing in, `auth_request` asks a service such as oauth2-proxy",
    },
    Foreign {
        owner: PLUS,
        names: &["f4f*", "hls*", "ntlm", "proxy_session_drop", "internal_redirect"],
        instead: "there is nothing like it here",
    },
    Foreign {
        owner: PLUS,
        names: &["mgmt", "license_token", "usage_report", "enforce_initial_report", "deployment_context"],
        instead: "holdfast needs no licence: take it out",
    },
    Foreign {
        owner: PLUS,
        names: &["sticky_cookie_insert", "least_time_window", "js_preload_object_sync"],
        instead: "`sticky cookie` and `least_time` are known in `upstream`",
    },
    Foreign {
        owner: "the Lua modules (OpenResty)",
        names: &[
            "lua_*",
            "init_by_lua*",
            "init_worker_by_lua*",
            "exit_worker_by_lua*",
            "set_by_lua*",
            "rewrite_by_lua*",
            "access_by_lua*",
            "content_by_lua*",
            "header_filter_by_lua*",
            "body_filter_by_lua*",
            "log_by_lua*",
            "balancer_by_lua*",
            "server_rewrite_by_lua*",
            "ssl_certificate_by_lua*",
            "ssl_client_hello_by_lua*",
            "preread_by_lua*",
        ],
        instead: "no scripts run here; `map`, `if`, `rewrite`, `split_clients` and `limit_req` do much of what they are used for",
    },
    Foreign {
        owner: "further modules of OpenResty",
        names: &[
            "echo",
            "echo_*",
            "set_unescape_uri",
            "set_escape_uri",
            "set_if_empty",
            "set_quote_*",
            "set_encode_*",
            "set_decode_*",
            "set_encrypt_session",
            "set_decrypt_session",
            "set_form_input",
            "set_form_input_multi",
            "encrypted_session_*",
            "array_split",
            "array_join",
            "array_map",
            "srcache_*",
            "memc_*",
            "redis_pass",
            "redis2_*",
            "postgres_*",
            "drizzle_*",
            "rds_*",
            "xss_*",
            "iconv_filter",
            "set_iconv",
        ],
        instead: "`return` says a text; the other work is an upstream's",
    },
    Foreign {
        owner: "the vts, sts and Prometheus exporter modules",
        names: &["vhost_traffic_status*", "stream_server_traffic_status*", "server_traffic_status*", "req_status*"],
        instead: "`status_page` with `?format=prometheus`",
    },
    Foreign {
        owner: "the module for active health checks of Tengine",
        names: &["check", "check_http_send", "check_http_expect_alive", "check_keepalive_requests", "check_status"],
        instead: "`health_check` in `upstream`",
    },
    Foreign {
        owner: "the modules for moving upstreams (upsync, dyups, jdomain, fair)",
        names: &["upsync*", "upstream_show_upsync", "dyups_*", "jdomain", "fair", "consistent_hash"],
        instead: "`server … resolve`, `service=` and `state` follow a group; `least_conn`, `least_time` and `hash … consistent` choose",
    },
    Foreign {
        owner: "ModSecurity, NAXSI and their like",
        names: &[
            "modsecurity*",
            "naxsi*",
            "SecRulesEnabled",
            "LearningMode",
            "DeniedUrl",
            "CheckRule",
            "BasicRule",
            "MainRule",
            "testcookie*",
        ],
        instead: "requests are held against RFC 9112, and no rules about their content are known",
    },
    Foreign {
        owner: "the modules that ask about users (PAM, LDAP, SPNEGO)",
        names: &["auth_pam*", "auth_ldap*", "ldap_server", "auth_gss*", "auth_digest*", "shib_request*"],
        instead: "`allow` and `deny` check addresses; the upstream checks user names and passwords",
    },
    Foreign {
        owner: "the modules for tracing",
        names: &["opentracing*", "opentelemetry*", "zipkin*", "datadog*", "jaeger*"],
        instead: "`otel_exporter`, `otel_trace` and `otel_trace_context` do their work, as in nginx",
    },
    Foreign {
        owner: "the modules that change responses",
        names: &[
            "subs_filter*",
            "replace_filter*",
            "pagespeed",
            "pagespeed*",
            "concat*",
            "trim*",
            "footer*",
            "substitutions*",
        ],
        instead: "bodies are passed on as they are",
    },
    Foreign {
        owner: "modules for uploads, listings and WebDAV",
        names: &["upload_*", "upload_progress", "track_uploads", "report_uploads", "fancyindex*", "dav_ext_*"],
        instead: "there is nothing like it here",
    },
    Foreign {
        owner: "the modules for streaming and pushing (RTMP, nchan)",
        names: &["rtmp*", "nchan_*", "push_stream*", "vod*"],
        instead: "WebSockets are tunnelled to an upstream; nothing is published from here",
    },
    Foreign {
        owner: "Phusion Passenger",
        names: &["passenger_*", "rails_*", "rack_*"],
        instead: "run the application by itself, and pass requests on to it by `proxy_pass`",
    },
    Foreign {
        owner: "Angie's ACME module",
        names: &["acme", "acme_client", "acme_client_path", "acme_dns_port", "acme_hook", "acme_http_port"],
        instead: "`acme_issuer` and `acme_certificate` do its work, as in nginx",
    },
    Foreign {
        owner: "further third-party modules",
        names: &[
            "proxy_connect",
            "proxy_connect_allow",
            "ajp_*",
            "tfs_*",
            "tnt_*",
            "cookie_flag",
            "jvm_route",
            "limit_upstream_*",
            "dynamic_limit_req*",
            "sysguard*",
            "eval*",
            "cache_purge*",
            "fastcgi_cache_purge_*",
        ],
        instead: "`proxy_cookie_flags` has the work of `cookie_flag`, `sticky route` that of `jvm_route`; there is nothing like the others",
    },
];

/// The owner of a directive name, if it is in the list.
pub fn foreign(name: &str) -> Option<&'static Foreign> {
    let stands = |whole: bool| {
        FOREIGN.iter().find(|foreign| {
            foreign.names.iter().any(|known| match known.strip_suffix('*') {
                Some(start) => !whole && name.starts_with(start),
                None => whole && name == *known,
            })
        })
    };
    stands(true).or_else(|| stands(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{all, rows};
    use std::collections::BTreeSet;

    #[test]
    fn foreign_names_are_no_rows_and_each_has_one_owner() {
        let mut seen = BTreeSet::new();
        for foreign in FOREIGN {
            assert!(!foreign.instead.is_empty() && !foreign.instead.ends_with('.'), "{}", foreign.owner);
            for name in foreign.names {
                assert!(seen.insert(name), "{name} appears twice");
                assert!(rows(name).is_empty(), "{name} has a row");
                let start = name.strip_suffix('*').unwrap_or(name);
                assert!(start.len() > 2, "{name} says too little");
            }
        }
        for row in all() {
            assert!(foreign(row.name).is_none(), "{} is nginx's own", row.name);
        }
    }

    #[test]
    fn names_are_found_by_their_beginning_too() {
        let owner = |name| foreign(name).map(|foreign| foreign.owner);
        assert_eq!(owner("zone_sync_server"), Some(PLUS));
        assert_eq!(owner("content_by_lua_block"), Some("the Lua modules (OpenResty)"));
        assert_eq!(owner("more_set_headers"), None);
        assert_eq!(owner("proxy_reed_timeout"), None);
    }
}
