//! Every key of ingress-nginx's `ConfigMap`, and what it does here. The page `docs/guide/kubernetes/config-map.md` comes
//! from this table.

/// What is done with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Becomes one line of `http` with the checked value.
    Line(&'static str, Check),
    /// Has code of its own.
    Own,
    /// Has no effect, with the reason.
    Ignored(&'static str),
    /// Is reported as refused, with the reason; the rest of the `ConfigMap` has effect.
    Refused(&'static str),
}

/// How a value of a [`Action::Line`] is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// A size.
    Size,
    /// Several sizes or numbers: `4 8k`.
    Sizes,
    /// Seconds, perhaps with a unit.
    Time,
    /// A number within limits.
    Number(u32, u32),
    /// `true` and `false` become `on` and `off`.
    Flag,
    /// Words of letters, digits, `-`, `_`, `.`, `/`, `+`.
    Words,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The key.
    pub key: &'static str,
    /// What is done.
    pub action: Action,
    /// What it does without the key; empty if nothing.
    pub default: &'static str,
    /// A note for the page.
    pub what: &'static str,
}

const fn line(key: &'static str, name: &'static str, check: Check, default: &'static str) -> Row {
    Row { key, action: Action::Line(name, check), default, what: "" }
}

const fn own(key: &'static str, default: &'static str, what: &'static str) -> Row {
    Row { key, action: Action::Own, default, what }
}

const fn ignored(key: &'static str, why: &'static str) -> Row {
    Row { key, action: Action::Ignored(why), default: "", what: "" }
}

const fn refused(key: &'static str, why: &'static str) -> Row {
    Row { key, action: Action::Refused(why), default: "", what: "" }
}

const HASH: &str = "tables grow as they need";
const GONE: &str = "ingress-nginx removed it";
const LUA: &str = "no Lua scripts of ingress-nginx run here";
const WAF: &str = "Holdfast has no web application firewall";
const PROCESS: &str = "a setting of nginx's processes; Holdfast has threads and no files for it";
const MEMCACHED: &str = "limits of all replicas together do not exist";
const GEO: &str = "no database of countries is loaded";
const TRACE: &str = "spans are sent by OTLP: see `otlp-collector-host`";
const FIXED: &str = "TLS is rustls, which has no such setting";

/// The rows, sorted by key.
pub const ROWS: &[Row] = &[
    ignored("access-log-params", "lines are written as they come"),
    own(
        "access-log-path",
        "/dev/stdout",
        "`/var/log/nginx/access.log` is standard output, as in ingress-nginx. Other files are refused",
    ),
    own("add-headers", "", "a ConfigMap with headers for clients"),
    line("allow-backend-server-header", "proxy_pass_header", Check::Flag, "false"),
    own(
        "allow-cross-namespace-resources",
        "false",
        "`true` is refused: objects name only objects of their own namespace",
    ),
    own("allow-snippet-annotations", "false", "snippets are checked and confined"),
    ignored("annotation-value-word-blocklist", "values are data and cannot become directives"),
    ignored("annotations-risk-level", "each value is checked, so there are no levels of risk"),
    ignored("bind-address", "use the flag `--listen-address`"),
    own("block-cidrs", "", "networks that get 403"),
    own("block-referers", "", "referers that get 403: texts, or `~` and a regular expression"),
    own("block-user-agents", "", "user agents that get 403: texts, or `~` and a regular expression"),
    line("brotli-level", "brotli_comp_level", Check::Number(0, 11), "4"),
    line("brotli-min-length", "brotli_min_length", Check::Size, "20"),
    line("brotli-types", "brotli_types", Check::Words, ""),
    line("client-body-buffer-size", "client_body_buffer_size", Check::Size, "8k"),
    line("client-body-timeout", "client_body_timeout", Check::Time, "60"),
    line("client-header-buffer-size", "client_header_buffer_size", Check::Size, "1k"),
    line("client-header-timeout", "client_header_timeout", Check::Time, "60"),
    own("compute-full-forwarded-for", "false", "appends to `X-Forwarded-For` instead of replacing it"),
    own("custom-http-errors", "", "statuses for which the default backend makes the page"),
    ignored("datadog-collector-host", TRACE),
    ignored("datadog-collector-port", TRACE),
    ignored("datadog-environment", TRACE),
    ignored("datadog-operation-name-override", TRACE),
    ignored("datadog-priority-sampling", TRACE),
    ignored("datadog-sample-rate", TRACE),
    ignored("datadog-service-name", TRACE),
    ignored("debug-connections", PROCESS),
    line("default-type", "default_type", Check::Words, "text/html"),
    own("denylist-source-range", "", "networks that get 403"),
    own("disable-access-log", "false", ""),
    ignored("disable-ipv6", "use the flag `--listen-address`"),
    ignored("disable-ipv6-dns", "both families are asked for"),
    ignored("disable-proxy-intercept-errors", "use the annotation"),
    ignored("enable-access-log-for-default-backend", "all requests are logged alike"),
    ignored("enable-aio-write", PROCESS),
    line("enable-brotli", "brotli", Check::Flag, "false"),
    ignored("enable-modsecurity", WAF),
    ignored("enable-multi-accept", PROCESS),
    line("enable-ocsp", "ssl_stapling", Check::Flag, "false"),
    own("enable-opentelemetry", "false", "needs `otlp-collector-host`"),
    ignored("enable-opentracing", GONE),
    ignored("enable-owasp-modsecurity-crs", WAF),
    own("enable-real-ip", "false", "takes the client's address from `forwarded-for-header` of `proxy-real-ip-cidr`"),
    ignored("enable-syslog", "logs go to standard output"),
    line("enable-underscores-in-headers", "underscores_in_headers", Check::Flag, "false"),
    own("error-log-level", "notice", ""),
    ignored("error-log-path", "errors go to standard error"),
    own("force-ssl-redirect", "false", ""),
    own("forwarded-for-header", "X-Forwarded-For", ""),
    ignored("generate-request-id", "a request without an identifier always gets one"),
    own("global-allowed-response-headers", "", "headers that `custom-headers` may set"),
    ignored("global-auth-always-set-cookie", "use the annotation"),
    own("global-auth-cache-duration", "200 202 401 5m", ""),
    own("global-auth-cache-key", "", "answers of `global-auth-url` are cached by this key"),
    own("global-auth-method", "", ""),
    own("global-auth-request-redirect", "", ""),
    own("global-auth-response-headers", "", ""),
    own("global-auth-signin", "", ""),
    own("global-auth-signin-redirect-param", "rd", ""),
    ignored("global-auth-snippet", "use the annotation"),
    own("global-auth-url", "", "asked for each request, unless the annotation `enable-global-auth` is `false`"),
    ignored("global-rate-limit-memcached-connect-timeout", MEMCACHED),
    ignored("global-rate-limit-memcached-host", MEMCACHED),
    ignored("global-rate-limit-memcached-max-idle-timeout", MEMCACHED),
    ignored("global-rate-limit-memcached-pool-size", MEMCACHED),
    ignored("global-rate-limit-memcached-port", MEMCACHED),
    ignored("global-rate-limit-status-code", MEMCACHED),
    ignored("grpc-buffer-size-kb", "gRPC messages are not kept whole"),
    ignored("gzip-disable", "responses are compressed for every client that asks for it"),
    line("gzip-level", "gzip_comp_level", Check::Number(1, 9), "1"),
    line("gzip-min-length", "gzip_min_length", Check::Size, "256"),
    line("gzip-types", "gzip_types", Check::Words, ""),
    own("hide-headers", "", "fields of services that clients do not get"),
    own("hsts", "true", "for hosts with a certificate, over https"),
    own("hsts-include-subdomains", "true", ""),
    own("hsts-max-age", "31536000", ""),
    own("hsts-preload", "false", ""),
    ignored("http-access-log-path", "logs go to standard output"),
    own("http-redirect-code", "308", "301, 302, 307 or 308"),
    own("http-snippet", "", "checked and confined as snippets of annotations"),
    line("http2-max-concurrent-streams", "http2_max_concurrent_streams", Check::Number(1, 65_535), "128"),
    ignored("http2-max-field-size", "large-client-header-buffers bounds it"),
    ignored("http2-max-header-size", "large-client-header-buffers bounds it"),
    ignored("http2-max-requests", "keep-alive-requests bounds it"),
    line("ignore-invalid-headers", "ignore_invalid_headers", Check::Flag, "true"),
    ignored("jaeger-collector-host", TRACE),
    ignored("jaeger-endpoint", TRACE),
    ignored("jaeger-sampler-type", TRACE),
    ignored("jaeger-service-name", TRACE),
    line("keep-alive", "keepalive_timeout", Check::Time, "75"),
    line("keep-alive-requests", "keepalive_requests", Check::Number(1, u32::MAX), "1000"),
    line("large-client-header-buffers", "large_client_header_buffers", Check::Sizes, "4 8k"),
    line("limit-conn-status-code", "limit_conn_status", Check::Number(400, 599), "503"),
    ignored("limit-conn-zone-variable", "limits count by `$binary_remote_addr`"),
    line("limit-rate", "limit_rate", Check::Size, "0"),
    line("limit-rate-after", "limit_rate_after", Check::Size, "0"),
    line("limit-req-status-code", "limit_req_status", Check::Number(400, 599), "503"),
    own("load-balance", "round_robin", ""),
    own("location-snippet", "", "checked and confined as snippets of annotations"),
    own("log-format-escape-json", "false", ""),
    own("log-format-escape-none", "false", ""),
    ignored("log-format-stream", "connections of TCP and UDP services are not logged"),
    own("log-format-upstream", "ingress-nginx's format", "variables of Lua are replaced or refused"),
    ignored("lua-shared-dicts", LUA),
    refused("main-snippet", "lines of the top level cannot be confined"),
    ignored("map-hash-bucket-size", HASH),
    own("max-worker-connections", "16384", ""),
    ignored("max-worker-open-files", PROCESS),
    refused("modsecurity-snippet", WAF),
    ignored("nginx-status-ipv4-whitelist", "the status page has a port of its own"),
    ignored("nginx-status-ipv6-whitelist", "the status page has a port of its own"),
    own("no-auth-locations", "/.well-known/acme-challenge", "paths without `global-auth-url`"),
    own("no-tls-redirect-locations", "/.well-known/acme-challenge", "paths without a redirect to https"),
    ignored("opentelemetry-config", "the file of nginx's module"),
    ignored("opentelemetry-operation-name", "spans have the name of their location"),
    ignored("opentelemetry-trust-incoming-span", "use the annotation"),
    ignored("opentracing-location-operation-name", GONE),
    ignored("opentracing-operation-name", GONE),
    ignored("otel-max-export-batch-size", "the exporter has its own bounds"),
    ignored("otel-max-queuesize", "the exporter has its own bounds"),
    ignored("otel-sampler", "each request is recorded, or as its parent"),
    ignored("otel-sampler-parent-based", "each request is recorded, or as its parent"),
    ignored("otel-sampler-ratio", "each request is recorded, or as its parent"),
    ignored("otel-schedule-delay-millis", "the exporter has its own bounds"),
    own("otel-service-name", "nginx", ""),
    own("otlp-collector-host", "", "a name or an address"),
    own("otlp-collector-port", "4317", ""),
    ignored("plugins", LUA),
    ignored("proxy-add-original-uri-header", "`X-Original-URI` is sent to the authentication service only"),
    line("proxy-body-size", "client_max_body_size", Check::Size, "1m"),
    line("proxy-buffer-size", "proxy_buffer_size", Check::Size, "4k"),
    line("proxy-buffering", "proxy_buffering", Check::Flag, "off"),
    own("proxy-buffers-number", "4", ""),
    ignored("proxy-busy-buffers-size", "buffers are sent as soon as the client takes them"),
    line("proxy-connect-timeout", "proxy_connect_timeout", Check::Time, "5"),
    own("proxy-cookie-domain", "off", ""),
    own("proxy-cookie-path", "off", ""),
    ignored("proxy-headers-hash-bucket-size", HASH),
    ignored("proxy-headers-hash-max-size", HASH),
    line("proxy-http-version", "proxy_http_version", Check::Words, "1.1"),
    ignored("proxy-max-temp-file-size", "responses are never written to disk"),
    own("proxy-next-upstream", "error timeout", ""),
    line("proxy-next-upstream-timeout", "proxy_next_upstream_timeout", Check::Time, "0"),
    line("proxy-next-upstream-tries", "proxy_next_upstream_tries", Check::Number(0, 1000), "3"),
    ignored("proxy-protocol-header-timeout", "client-header-timeout bounds it"),
    line("proxy-read-timeout", "proxy_read_timeout", Check::Time, "60"),
    own("proxy-real-ip-cidr", "0.0.0.0/0", ""),
    ignored("proxy-redirect-from", "use the annotation"),
    ignored("proxy-redirect-to", "use the annotation"),
    line("proxy-request-buffering", "proxy_request_buffering", Check::Flag, "on"),
    line("proxy-send-timeout", "proxy_send_timeout", Check::Time, "60"),
    own("proxy-set-headers", "", "a ConfigMap with headers for services"),
    ignored("proxy-ssl-location-only", "each location has its own settings"),
    ignored("proxy-stream-next-upstream", "one try for a connection, as the stream has begun"),
    ignored("proxy-stream-next-upstream-timeout", "one try for a connection, as the stream has begun"),
    ignored("proxy-stream-next-upstream-tries", "one try for a connection, as the stream has begun"),
    own("proxy-stream-responses", "1", "of UDP services"),
    own("proxy-stream-timeout", "600s", "of TCP and UDP services"),
    line("relative-redirects", "absolute_redirect", Check::Flag, "false"),
    own("retry-non-idempotent", "false", ""),
    ignored("reuse-port", "the listeners choose themselves"),
    ignored("server-name-hash-bucket-size", "tables grow as they need"),
    ignored("server-name-hash-max-size", HASH),
    own("server-snippet", "", "checked and confined as snippets of annotations"),
    line("server-tokens", "server_tokens", Check::Flag, "false"),
    own("service-upstream", "false", "the address of Services instead of those of their Pods"),
    ignored("skip-access-log-urls", "use the annotation `enable-access-log`"),
    line("ssl-buffer-size", "ssl_buffer_size", Check::Size, "4k"),
    own("ssl-ciphers", "rustls' choice", ""),
    ignored("ssl-dh-param", FIXED),
    line("ssl-early-data", "ssl_early_data", Check::Flag, "false"),
    line("ssl-ecdh-curve", "ssl_ecdh_curve", Check::Words, "auto"),
    own("ssl-protocols", "TLSv1.2 TLSv1.3", ""),
    own("ssl-redirect", "true", ""),
    ignored("ssl-reject-handshake", "hosts that no object names get the default certificate"),
    ignored("ssl-session-cache", "sessions are resumed from memory"),
    ignored("ssl-session-cache-size", "sessions are resumed from memory"),
    ignored("ssl-session-ticket-key", "keys are made by each replica"),
    line("ssl-session-tickets", "ssl_session_tickets", Check::Flag, "false"),
    line("ssl-session-timeout", "ssl_session_timeout", Check::Time, "10m"),
    ignored("stream-access-log-path", "connections of TCP and UDP services are not logged"),
    refused("stream-snippet", "lines for all TCP and UDP services cannot be confined"),
    ignored("strict-validate-path-type", "paths are data, whatever they contain"),
    ignored("syslog-host", "logs go to standard output"),
    ignored("syslog-port", "logs go to standard output"),
    own("upstream-keepalive-connections", "320", ""),
    own("upstream-keepalive-requests", "10000", ""),
    own("upstream-keepalive-time", "1h", ""),
    own("upstream-keepalive-timeout", "60", ""),
    own("use-forwarded-headers", "false", "trusts the `X-Forwarded-*` fields of what is in front"),
    ignored("use-geoip", GEO),
    ignored("use-geoip2", GEO),
    line("use-gzip", "gzip", Check::Flag, "false"),
    line("use-http2", "http2", Check::Flag, "true"),
    ignored("use-port-in-redirects", "redirects have no port"),
    own("use-proxy-protocol", "false", ""),
    ignored("variables-hash-bucket-size", HASH),
    ignored("variables-hash-max-size", HASH),
    own("whitelist-source-range", "", "networks that are allowed where the annotation says nothing"),
    ignored("worker-cpu-affinity", "threads stay at their cores"),
    own("worker-processes", "auto", "the number of threads"),
    ignored("worker-shutdown-timeout", "the flag --worker-shutdown-timeout sets it"),
    ignored("zipkin-collector-host", TRACE),
    ignored("zipkin-collector-port", TRACE),
    ignored("zipkin-sample-rate", TRACE),
    ignored("zipkin-service-name", TRACE),
];

/// The row of a key.
pub(crate) fn find(key: &str) -> Option<&'static Row> {
    ROWS.binary_search_by(|row| row.key.cmp(key)).ok().and_then(|index| ROWS.get(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_unique() {
        let wrong = ROWS.windows(2).find(|pair| pair[0].key >= pair[1].key);
        assert!(wrong.is_none(), "{wrong:?}");
    }
}
