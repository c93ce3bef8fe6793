//! Annotations -> filters of a rule: redirects, CORS, header fields, the name of the host.

use super::annotations::Annotations;
use serde_json::{Map, Value, json};

/// ingress-nginx redirects so that the method stays.
pub(super) const PERMANENT: u32 = 308;
/// Defaults of ingress-nginx.
const CORS_METHODS: [&str; 6] = ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
const CORS_HEADERS: [&str; 10] = [
    "DNT",
    "Keep-Alive",
    "User-Agent",
    "X-Requested-With",
    "If-Modified-Since",
    "Cache-Control",
    "Content-Type",
    "Range",
    "Authorization",
    "X-CustomHeader",
];
const CORS_SECONDS: u32 = 1_728_000;
/// Limits of the API.
const CORS_NAMES_MAX: usize = 64;

/// What changes a request or answers it.
#[derive(Default)]
pub(super) struct Filters {
    pub(super) filters: Vec<Value>,
    /// The rule answers with a redirect, and has no backends.
    pub(super) redirects: bool,
}

/// The filters of all rules of an Ingress. `comments` gets what is written otherwise than in nginx.
pub(super) fn of(annotations: &mut Annotations<'_>, comments: &mut Vec<String>) -> Filters {
    let permanent = annotations.number("permanent-redirect-code").unwrap_or(301);
    let temporal = annotations.number("temporal-redirect-code").unwrap_or(302);
    let targets = [("permanent-redirect", permanent), ("temporal-redirect", temporal)];
    for (key, status) in targets {
        let Some(url) = annotations.take(key) else { continue };
        match redirect(url, status) {
            Ok(filter) => return Filters { filters: vec![filter], redirects: true },
            Err(reason) => comments.push(format!("{key}: {reason}")),
        }
    }
    let mut filters = Vec::new();
    if annotations.is_on("enable-cors") {
        filters.push(cors(annotations));
    }
    if let Some(prefix) = annotations.take("x-forwarded-prefix") {
        filters.push(json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {
            "set": [{"name": "X-Forwarded-Prefix", "value": prefix}]}}));
    }
    Filters { filters, redirects: false }
}

/// A redirect to a URL.
pub(super) fn redirect(url: &str, status: u32) -> Result<Value, String> {
    if ![301, 302, 303, 307, 308].contains(&status) {
        return Err(format!("the status {status} has no field"));
    }
    let mut fields = Map::new();
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (host, path) = if scheme.is_empty() && rest.starts_with('/') {
        ("", Some(rest))
    } else {
        rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])))
    };
    // The request's own path and query follow by themselves.
    let (host, path) = match (host.strip_suffix("$request_uri"), path) {
        (Some(host), None) => (host, None),
        (_, Some("/$request_uri" | "$request_uri")) => (host, None),
        _ => (host, path),
    };
    let (host, port) = host.split_once(':').unwrap_or((host, ""));
    if host.contains('$') || path.is_some_and(|path| path.contains('$')) {
        return Err(format!("{url}: variables have no field"));
    }
    if !scheme.is_empty() {
        fields.insert("scheme".into(), scheme.into());
    }
    if !host.is_empty() {
        fields.insert("hostname".into(), host.into());
    }
    if let Ok(port) = port.parse::<u16>() {
        fields.insert("port".into(), port.into());
    }
    if let Some(path) = path {
        if path.contains('?') {
            return Err(format!("{url}: a query has no field"));
        }
        fields.insert("path".into(), json!({"type": "ReplaceFullPath", "replaceFullPath": path}));
    }
    fields.insert("statusCode".into(), status.into());
    Ok(json!({"type": "RequestRedirect", "requestRedirect": fields}))
}

fn cors(annotations: &mut Annotations<'_>) -> Value {
    let mut list = |key: &'static str, default: &[&str]| {
        let given = annotations.list(key);
        let words = if given.is_empty() { default.to_vec() } else { given };
        words.into_iter().take(CORS_NAMES_MAX).map(str::to_owned).collect::<Vec<_>>()
    };
    let origins = list("cors-allow-origin", &["*"]);
    let methods = list("cors-allow-methods", &CORS_METHODS);
    let headers = list("cors-allow-headers", &CORS_HEADERS);
    let exposed = list("cors-expose-headers", &[]);
    let mut cors = json!({
        "allowOrigins": origins,
        "allowMethods": methods,
        "allowHeaders": headers,
        "allowCredentials": !annotations.is_off("cors-allow-credentials"),
        "maxAge": annotations.number("cors-max-age").unwrap_or(CORS_SECONDS),
    });
    if !exposed.is_empty() {
        cors["exposeHeaders"] = exposed.into();
    }
    json!({"type": "CORS", "cors": cors})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_has_the_parts_of_its_url() {
        let fields = |url: &str| redirect(url, 301).map(|it| it["requestRedirect"].clone());
        assert_eq!(
            fields("https://a.example$request_uri").unwrap(),
            json!({"scheme": "https", "hostname": "a.example", "statusCode": 301})
        );
        assert_eq!(
            fields("http://a.example:8080/x").unwrap(),
            json!({"scheme": "http", "hostname": "a.example", "port": 8080, "statusCode": 301,
                "path": {"type": "ReplaceFullPath", "replaceFullPath": "/x"}})
        );
        assert!(fields("https://$host/x").is_err());
        assert!(fields("https://a.example/?x=1").is_err());
        assert!(redirect("https://a.example", 418).is_err());
    }
}
