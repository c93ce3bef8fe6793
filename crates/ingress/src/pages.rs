//! The pages of the guide about annotations and `ConfigMap` keys, made from their tables.

use crate::annotations::table::{ROWS as ANNOTATIONS, Support};
use crate::config_map::table::{Action, ROWS as KEYS};
use std::fmt::Write as _;

const NOTE: &str = "<!-- Generated from the tables in crates/ingress. Do not edit. -->\n\n";

/// `docs/guide/kubernetes/annotations.md`
pub fn annotations() -> String {
    let mut out = format!(
        "{NOTE}# Annotations of Ingresses\n\n\
        Holdfast reads the annotations of ingress-nginx 1.14, with the prefix `nginx.ingress.kubernetes.io/`. This page lists all of them.\n\n\
        * **works**: does what it does in ingress-nginx; a difference is named.\n\
        * **ignored**: has no effect, with the reason. The Ingress gets an event.\n\
        * **refused**: an Ingress with it answers 503, with an event.\n\n\
        A *guard* decides who may reach a path. If the value of a guard is wrong, the paths of the Ingress answer 503. \
        A wrong value of another annotation has no effect. Both are reported as an event.\n\n\
        Values are data: they never become directives. Where ingress-nginx allows variables, those of the request are allowed \
        (`$host`, `$request_uri`, `$remote_addr`, `$http_…`, `$arg_…`, `$cookie_…` and their kin). Secrets and `ConfigMap`s must be in \
        the namespace of the Ingress.\n\n\
        | annotation | support | guard | what it does |\n|---|---|---|---|\n"
    );
    for row in ANNOTATIONS {
        let (support, what) = match row.support {
            Support::Works => ("works", row.what),
            Support::Ignored(why) => ("ignored", why),
            Support::Refused(why) => ("refused", why),
        };
        let guard = if row.guards { "yes" } else { "" };
        let _ = writeln!(out, "| `{}` | {support} | {guard} | {what} |", row.name);
    }
    out
}

/// `docs/guide/kubernetes/config-map.md`
pub fn config_map() -> String {
    let mut out = format!(
        "{NOTE}# Keys of the ConfigMap\n\n\
        The flag `--configmap` names a `ConfigMap` with settings for all Ingresses. Keys and defaults are those of ingress-nginx. \
        A wrong value has no effect and is reported as an event.\n\n\
        | key | support | default | what it does |\n|---|---|---|---|\n"
    );
    for row in KEYS {
        let (support, what) = match row.action {
            Action::Line(name, _) => ("works", format!("the directive `{name}`")),
            Action::Own => ("works", row.what.to_owned()),
            Action::Ignored(why) => ("ignored", why.to_owned()),
            Action::Refused(why) => ("refused", why.to_owned()),
        };
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let _ = writeln!(out, "| `{}` | {support} | {default} | {what} |", row.key);
    }
    out
}
