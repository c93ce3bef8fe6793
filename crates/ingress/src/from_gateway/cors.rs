//! The filter `CORS`: answers preflight requests, and adds fields to responses.

use super::matches::quoted;
use super::status::Fault;
use super::words::{field_name, field_value};
use crate::assembly::Assembly;
use crate::objects::routes::CorsFilter;
use crate::tree::Origin;
use conf::tree::Directive;

/// Seconds that browsers keep an answer unless the filter says otherwise: the default of the specification.
const MAX_AGE: i64 = 5;

/// Lines of a location with this filter.
pub(crate) struct CorsLines {
    /// For responses of backends.
    pub(crate) responses: Vec<Directive>,
    /// For answers to preflight requests.
    pub(crate) preflight: Vec<Directive>,
}

/// Makes the lines.
pub(crate) fn lines(assembly: &mut Assembly<'_>, origin: Origin, filter: &CorsFilter) -> Result<CorsLines, Fault> {
    for name in filter.allow_headers.iter().chain(&filter.expose_headers).filter(|name| *name != "*") {
        field_name(name)?;
    }
    let has_credentials = filter.allow_credentials.unwrap_or(false);
    let origin_value = allowed_origin(assembly, origin, filter, has_credentials)?;
    let allowed = |assembly: &mut Assembly<'_>, value: &str| only_if(assembly, origin, &origin_value, value);
    let field = |name: &str, value: &str| origin.line("more_set_headers", [format!("{name}: {value}")]);
    let mut responses = vec![field("Access-Control-Allow-Origin", &origin_value)];
    let mut vary = field("Vary", "Origin");
    vary.args.insert(0, origin.bare("-a"));
    responses.push(vary);
    let credentials = if has_credentials { allowed(assembly, "true") } else { String::new() };
    responses.push(field("Access-Control-Allow-Credentials", &credentials));
    let exposed = list(&filter.expose_headers, has_credentials, "*");
    let exposed = if exposed.is_empty() { exposed } else { allowed(assembly, &exposed) };
    // Browsers do not look at it in answers to preflight requests, but the conformance tests do.
    responses.push(field("Access-Control-Expose-Headers", &exposed));
    let mut preflight = responses.clone();
    let methods = list(&filter.allow_methods, has_credentials, "$http_access_control_request_method");
    let headers = list(&filter.allow_headers, has_credentials, "$http_access_control_request_headers");
    let age = filter.max_age.unwrap_or(MAX_AGE).max(0).to_string();
    for (name, value) in [("Methods", methods), ("Headers", headers)] {
        field_value(&value)?;
        if !value.is_empty() {
            let value = allowed(assembly, &value);
            preflight.push(field(&format!("Access-Control-Allow-{name}"), &value));
        }
    }
    let age = allowed(assembly, &age);
    preflight.push(field("Access-Control-Max-Age", &age));
    preflight.push(origin.line("return", ["204"]));
    Ok(CorsLines { responses, preflight })
}

/// A list in one field. A browser does not take `*` for all if cookies are allowed, so it gets what it asked for.
fn list(names: &[String], has_credentials: bool, asked: &str) -> String {
    let has_all = names.iter().any(|name| name == "*");
    if has_all && has_credentials {
        asked.to_owned()
    } else if has_all {
        "*".to_owned()
    } else {
        names.join(", ")
    }
}

/// A variable with the value if the origin is allowed.
fn only_if(assembly: &mut Assembly<'_>, origin: Origin, allowed: &str, value: &str) -> String {
    let (variable, is_new) = assembly.variable(&format!("{value} if {allowed}"));
    if is_new {
        let entries = vec![origin.line("", [""]), origin.line("default", [value])];
        assembly.http.push(origin.block("map", [allowed, variable.as_str()], entries));
    }
    variable
}

/// A variable with the value of `Access-Control-Allow-Origin`; empty for other origins.
fn allowed_origin(
    assembly: &mut Assembly<'_>,
    origin: Origin,
    filter: &CorsFilter,
    has_credentials: bool,
) -> Result<String, Fault> {
    let mut patterns = Vec::new();
    for allowed in &filter.allow_origins {
        field_value(allowed)?;
        if allowed == "*" {
            patterns.push("~.".to_owned());
        } else {
            let parts: Vec<_> = allowed.split('*').map(quoted).collect();
            patterns.push(format!("~^{}$", parts.join("[^/:]+")));
        }
    }
    let is_open = !has_credentials && filter.allow_origins.iter().any(|allowed| allowed == "*");
    let (variable, is_new) = assembly.variable(&format!("origin {patterns:?} {is_open}"));
    if is_new {
        let value = if is_open { "*" } else { "$http_origin" };
        let mut entries = vec![origin.line("default", [""])];
        entries.extend(patterns.iter().map(|pattern| origin.line(pattern, [value])));
        assembly.http.push(origin.block("map", ["$http_origin", variable.as_str()], entries));
    }
    Ok(variable)
}
