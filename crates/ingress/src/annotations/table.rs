//! Every annotation of ingress-nginx 1.14, and what it does here. The page `docs/guide/kubernetes/annotations.md` comes
//! from this table.

/// What is done with an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It does what it does in ingress-nginx.
    Works,
    /// It has no effect, with the reason.
    Ignored(&'static str),
    /// An Ingress that has it is not served, with the reason.
    Refused(&'static str),
}

/// One annotation.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name without the prefix.
    pub name: &'static str,
    /// What is done.
    pub support: Support,
    /// It guards the paths: where its value is wrong, they answer 503.
    pub guards: bool,
    /// What it does, in a sentence; or a difference.
    pub what: &'static str,
}

const fn works(name: &'static str, what: &'static str) -> Row {
    Row { name, support: Support::Works, guards: false, what }
}

const fn guard(name: &'static str, what: &'static str) -> Row {
    Row { name, support: Support::Works, guards: true, what }
}

const fn ignored(name: &'static str, why: &'static str) -> Row {
    Row { name, support: Support::Ignored(why), guards: false, what: "" }
}

const fn refused(name: &'static str, why: &'static str) -> Row {
    Row { name, support: Support::Refused(why), guards: true, what: "" }
}

const GONE: &str = "ingress-nginx removed it";
const WAF: &str = "Holdfast has no web application firewall, and paths that ask for one must not be served without";
const POOL: &str = "connections to the service are always kept";

/// The rows, sorted by name.
pub const ROWS: &[Row] = &[
    works("affinity", "`cookie` keeps a client at its Pod"),
    works(
        "affinity-canary-behavior",
        "`legacy`: the choice of a canary is made for each request. `sticky` does the same here",
    ),
    works(
        "affinity-mode",
        "`balanced` and `persistent` do the same: a session stays at its Pod as long as that exists",
    ),
    works("app-root", "redirects `/` to a path"),
    works("auth-always-set-cookie", "cookies of the authentication service are sent with errors, too"),
    works("auth-cache-duration", "how long answers are cached: `200 202 10m, 401 5m`; 5 minutes for 200, 202 and 401"),
    works("auth-cache-key", "answers of the authentication service are cached by this key, for each host and path"),
    ignored("auth-keepalive", POOL),
    ignored("auth-keepalive-requests", POOL),
    ignored("auth-keepalive-share-vars", POOL),
    ignored("auth-keepalive-timeout", POOL),
    guard("auth-method", "the method of the request to the authentication service"),
    guard("auth-proxy-set-headers", "a ConfigMap of the namespace with headers for the authentication service"),
    guard("auth-realm", "the realm of the password prompt"),
    guard("auth-request-redirect", "the header `X-Auth-Request-Redirect` for the authentication service"),
    guard("auth-response-headers", "headers of the authentication service that the service gets"),
    guard("auth-secret", "a Secret of the namespace with names and passwords"),
    guard("auth-secret-type", "`auth-file` (the key `auth`) or `auth-map` (a key for each name)"),
    guard("auth-signin", "where clients without authentication are sent"),
    guard("auth-signin-redirect-param", "the name of the parameter with the original URL; `rd`"),
    guard("auth-snippet", "lines for the request to the authentication service, if snippets are allowed"),
    works("auth-tls-error-page", "where clients without a valid certificate are sent"),
    guard("auth-tls-match-cn", "`CN=regex`: the common name of the client's certificate"),
    works("auth-tls-pass-certificate-to-upstream", "the header `ssl-client-cert`"),
    guard("auth-tls-secret", "a Secret of the namespace with `ca.crt`; holds for the whole host"),
    guard("auth-tls-verify-client", "`on`, `off`, `optional`, `optional_no_ca`"),
    guard("auth-tls-verify-depth", "how long chains may be; 1"),
    guard("auth-type", "`basic`. `digest` is refused"),
    guard("auth-url", "asks a service whether a request is allowed. The host has no variables"),
    works("backend-protocol", "`HTTP`, `HTTPS`, `GRPC`, `GRPCS`, `FCGI`; `AUTO_HTTP` is `HTTP`"),
    works("canary", "the Ingress is an alternative of another one with the same host and path"),
    works("canary-by-cookie", "a cookie with `always` or `never`"),
    works("canary-by-header", "a header with `always` or `never`"),
    works("canary-by-header-pattern", "a regular expression for that header"),
    works("canary-by-header-value", "a value of that header"),
    works("canary-weight", "the share of requests"),
    works("canary-weight-total", "what the share is a part of; 100"),
    works("client-body-buffer-size", "memory for a request body"),
    guard("configuration-snippet", "lines for the locations, if snippets are allowed"),
    works("connection-proxy-header", "the header `Connection` for the service"),
    works("cors-allow-credentials", "`Access-Control-Allow-Credentials`; true"),
    works("cors-allow-headers", "`Access-Control-Allow-Headers`"),
    works("cors-allow-methods", "`Access-Control-Allow-Methods`"),
    guard("cors-allow-origin", "origins, also with `*.` before a domain"),
    works("cors-expose-headers", "`Access-Control-Expose-Headers`"),
    works("cors-max-age", "`Access-Control-Max-Age`; 1728000"),
    works(
        "custom-headers",
        "a ConfigMap of the namespace with headers for the client. The ConfigMap key `global-allowed-response-headers` lists those that are allowed",
    ),
    works("custom-http-errors", "statuses for which the default backend makes the page"),
    works("default-backend", "a Service of the namespace that makes these pages"),
    guard("denylist-source-range", "networks that get 403"),
    works("disable-proxy-intercept-errors", "pages of the service are kept in spite of `custom-http-errors`"),
    works("enable-access-log", "`false` switches the access log off"),
    works("enable-cors", "answers preflight requests and adds the headers"),
    guard("enable-global-auth", "`false`: the `global-auth-url` of the ConfigMap is not asked"),
    ignored("enable-influxdb", GONE),
    refused("enable-modsecurity", WAF),
    works("enable-opentelemetry", "spans, if the ConfigMap names a collector"),
    ignored("enable-opentracing", GONE),
    refused("enable-owasp-core-rules", WAF),
    works("enable-rewrite-log", "writes each rewrite to the error log"),
    works("fastcgi-index", "the file of a path that ends with a slash"),
    works("fastcgi-params-configmap", "a ConfigMap of the namespace with parameters"),
    works("force-ssl-redirect", "redirects to https without a certificate, too"),
    works("from-to-www-redirect", "redirects between `www.host` and `host`"),
    refused("global-rate-limit", "limits of all replicas together do not exist; use `limit-rps`"),
    ignored("global-rate-limit-ignored-cidrs", GONE),
    ignored("global-rate-limit-key", GONE),
    ignored("global-rate-limit-window", GONE),
    ignored("http2-push-preload", "no browser takes pushed responses any more"),
    ignored("influxdb-host", GONE),
    ignored("influxdb-measurement", GONE),
    ignored("influxdb-port", GONE),
    ignored("influxdb-server-name", GONE),
    guard("limit-allowlist", "networks without limits"),
    guard("limit-burst-multiplier", "how many times the rate may come at once; 5"),
    guard("limit-connections", "connections of one address"),
    works("limit-rate", "bytes a second of one response"),
    works("limit-rate-after", "the bytes before that"),
    guard("limit-rpm", "requests a minute of one address"),
    guard("limit-rps", "requests a second of one address"),
    guard("limit-whitelist", "networks without limits"),
    works("load-balance", "`round_robin`, `ewma` (least response time), `least_conn`, `ip_hash`"),
    works("mirror-host", "the Host field of copies"),
    works("mirror-request-body", "`off`: copies have no bodies"),
    works("mirror-target", "sends a copy of each request to a URL"),
    refused("modsecurity-snippet", WAF),
    ignored("modsecurity-transaction-id", "it names the transactions of a firewall that does not exist here"),
    works("opentelemetry-operation-name", "the name of spans"),
    works("opentelemetry-trust-incoming-span", "`false`: spans of clients are not continued"),
    ignored("opentracing-trust-incoming-span", GONE),
    works("permanent-redirect", "redirects with 301"),
    works("permanent-redirect-code", "another status for it"),
    works("preserve-trailing-slash", "redirects keep the path as it is, with and without"),
    works("proxy-body-size", "the largest request body"),
    works("proxy-buffer-size", "memory for a response head"),
    works("proxy-buffering", "`on` or `off`"),
    works("proxy-buffers-number", "how many buffers a response has"),
    ignored("proxy-busy-buffers-size", "buffers are sent as soon as the client takes them"),
    works("proxy-connect-timeout", "in seconds"),
    works("proxy-cookie-domain", "`off`, or a domain and its replacement"),
    works("proxy-cookie-path", "`off`, or a path and its replacement"),
    works("proxy-http-version", "`1.0` or `1.1`"),
    ignored("proxy-max-temp-file-size", "responses are never written to disk"),
    works("proxy-next-upstream", "when another Pod is tried"),
    works("proxy-next-upstream-timeout", "in seconds"),
    works("proxy-next-upstream-tries", "how many are tried"),
    works("proxy-read-timeout", "in seconds"),
    works("proxy-redirect-from", "what is replaced in `Location`"),
    works("proxy-redirect-to", "by what"),
    works("proxy-request-buffering", "`on` or `off`"),
    works("proxy-send-timeout", "in seconds"),
    guard("proxy-ssl-ciphers", "towards the service"),
    guard("proxy-ssl-name", "the name in the certificate of the service"),
    guard("proxy-ssl-protocols", "towards the service"),
    guard("proxy-ssl-secret", "a Secret of the namespace with `tls.crt`, `tls.key` and `ca.crt`"),
    works("proxy-ssl-server-name", "sends the server name"),
    guard("proxy-ssl-verify", "`on` checks the certificate of the service"),
    guard("proxy-ssl-verify-depth", "how long its chain may be"),
    works("relative-redirects", "redirects have no host"),
    works("rewrite-target", "the path for the service, with `$1` to `$9`"),
    guard("satisfy", "`any`: one of several checks is enough"),
    works("server-alias", "further hosts. Regular expressions are refused"),
    guard("server-snippet", "lines for the server, if snippets are allowed"),
    works("service-upstream", "the address of the Service instead of those of its Pods"),
    ignored("session-cookie-change-on-failure", "a session moves only when its Pod is gone"),
    ignored("session-cookie-conditional-samesite-none", "the browsers that needed it are gone"),
    works("session-cookie-domain", "of the cookie"),
    works("session-cookie-expires", "its age in seconds"),
    works("session-cookie-max-age", "its age in seconds"),
    works("session-cookie-name", "its name; `INGRESSCOOKIE`"),
    works("session-cookie-path", "its path; `/`"),
    works("session-cookie-samesite", "`None`, `Lax`, `Strict`"),
    works("session-cookie-secure", "`true`: over https only"),
    guard("ssl-ciphers", "of the host"),
    works("ssl-passthrough", "passes TLS of the host to the service, with `--enable-ssl-passthrough`"),
    guard("ssl-prefer-server-ciphers", "the order of ciphers"),
    works("ssl-redirect", "`false`: no redirect to https"),
    refused("stream-snippet", "lines for all TCP and UDP services would not be confined to the Ingress"),
    works("temporal-redirect", "redirects with 302"),
    works("temporal-redirect-code", "another status for it"),
    works("upstream-hash-by", "the text that chooses the Pod"),
    ignored("upstream-hash-by-subset", "the whole set of Pods is used"),
    ignored("upstream-hash-by-subset-size", "the whole set of Pods is used"),
    works("upstream-vhost", "the Host field for the service"),
    works("use-regex", "paths of the host are regular expressions"),
    guard("whitelist-source-range", "networks that are allowed"),
    works("x-forwarded-prefix", "the header `X-Forwarded-Prefix`"),
];

/// Other names of an annotation.
pub(crate) fn aliases(name: &str) -> &'static [&'static str] {
    match name {
        "whitelist-source-range" => &["allowlist-source-range"],
        "limit-whitelist" => &["limit-allowlist"],
        "use-regex" => &["use-regexes"],
        _ => &[],
    }
}

/// The row of a name.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    ROWS.binary_search_by(|row| row.name.cmp(name)).ok().and_then(|index| ROWS.get(index))
}

/// The row of a name or of an alias.
pub(crate) fn find_any(name: &str) -> Option<&'static Row> {
    find(name).or_else(|| ROWS.iter().find(|row| aliases(row.name).contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_unique() {
        assert!(ROWS.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(ROWS.iter().all(|row| (row.support == Support::Works) != row.what.is_empty()));
    }
}
