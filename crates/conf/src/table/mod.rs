//! The directive table: the one place with all facts about each directive. The reference page
//! (docs/guide/reference.md), the checks of `-t`, suggestions and `-V` all come from it.
//!
//! It has every directive of the own modules of nginx up to 1.31.6, so that an unsupported directive is distinguished from a
//! mistyped one. `value` knows what an argument means, and other modules check whether a directive fits the rest of the
//! configuration.

mod acme;
mod auth_jwt;
mod client;
mod codings;
mod content;
mod fastcgi;
mod foreign;
mod geoip2;
mod grpc;
mod headers_more;
mod http;
mod instead;
mod limits;
mod log;
mod mail;
mod neutral;
mod otel;
mod ours;
mod process;
mod proxy;
mod proxy_cache;
mod response;
mod rewrite;
mod rows;
mod scgi;
mod spec;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod upstream;
mod uwsgi;

pub(crate) use rows::{
    GRPC_TLS as NEEDS_GRPC_TLS, HTTP2 as NEEDS_HTTP2, PROXY_TLS as NEEDS_PROXY_TLS,
    STREAM_LISTEN as NEEDS_STREAM_LISTEN, STREAM_NAMES as NEEDS_STREAM_NAMES, STREAM_TLS as NEEDS_STREAM_TLS,
    TLS as NEEDS_TLS, UWSGI_TLS as NEEDS_UWSGI_TLS,
};

pub use foreign::{FOREIGN, Foreign, foreign};
pub use instead::{instead_of, lines_instead_of};
pub use spec::{Args, Context, Contexts, Directive, Inherit, Module, Support};

use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::LazyLock;

/// The rows as written, file by file, in the order of the reference page.
const WRITTEN: &[&[Directive]] = &[
    process::ROWS,
    http::ROWS,
    client::ROWS,
    response::ROWS,
    codings::ROWS,
    rewrite::ROWS,
    log::ROWS,
    limits::ROWS,
    auth_jwt::ROWS,
    proxy::ROWS,
    upstream::ROWS,
    ours::ROWS,
    acme::ROWS,
    otel::ROWS,
    tls::ROWS,
    proxy_cache::ROWS,
    content::ROWS,
    headers_more::ROWS,
    geoip2::ROWS,
    fastcgi::ROWS,
    uwsgi::ROWS,
    scgi::ROWS,
    grpc::ROWS,
    stream::ROWS,
    mail::ROWS,
];

struct Table {
    /// Sorted by name; rows of one name are in the order of their contexts.
    rows: Vec<Directive>,
    by_name: FxHashMap<&'static str, Range<usize>>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut rows: Vec<Directive> = in_order().collect();
    rows.sort_by_key(|row| (row.name, row.contexts.0));
    let mut by_name: FxHashMap<&'static str, Range<usize>> = FxHashMap::default();
    for (index, row) in rows.iter().enumerate() {
        by_name.entry(row.name).or_insert(index..index).end = index + 1;
    }
    Table { rows, by_name }
});

/// Every row in the order in which the modules are written: ours first among equals, unsupported modules last.
pub(crate) fn in_order() -> impl Iterator<Item = Directive> {
    WRITTEN.iter().copied().flatten().copied()
}

/// Every row, sorted by name.
pub fn all() -> &'static [Directive] {
    &TABLE.rows
}

/// The rows of a name; empty if neither nginx nor holdfast has such a directive.
pub fn rows(name: &str) -> &'static [Directive] {
    TABLE.by_name.get(name).and_then(|range| TABLE.rows.get(range.clone())).unwrap_or_default()
}

/// The row of a name in a context. If there is none, [`rows`] tells the contexts in which the name is known.
pub fn find(name: &str, context: Context) -> Option<&'static Directive> {
    rows(name).iter().find(|row| row.contexts.contains(context))
}

/// Whether holdfast replaces a module of nginx, by its name, for example `ngx_http_realip_module`. Answers a
/// `load_module` line. A module with no supported directive is not covered.
pub fn covers(module: &str) -> bool {
    let is_ours = |row: &Directive| matches!(row.support, Support::Yes | Support::With(_) | Support::Accepted(_));
    all().iter().any(|row| row.module.0 == module && is_ours(row))
}
