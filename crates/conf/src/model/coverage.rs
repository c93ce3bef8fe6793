//! Compares the model with the directive table: every directive the table calls supported is lowered, and the
//! documented defaults are the model's defaults. Tests only.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::acme::AcmeIssuerLevel;
use super::env::Env;
use super::otel::OtelExporterLevel;
use super::settings::Touched;
use super::stream::StreamSettings;
use super::upstream::UpstreamLevel;
use super::{Events, LocationSettings, Main, ServerSettings};
use crate::load::{Loader, load};
use crate::table::{self, Context, Support};
use crate::tree::Directive;

/// Directives that the walk handles itself, because they are not settings.
const WALKED: [&str; 48] = [
    "acme_certificate",
    "acme_issuer",
    "auth_jwt_claim_set",
    "auth_jwt_header_set",
    "break",
    "charset_map",
    "empty_gif",
    "events",
    "fastcgi_cache_path",
    "scgi_cache_path",
    "uwsgi_cache_path",
    "fastcgi_pass",
    "scgi_pass",
    "uwsgi_pass",
    "geo",
    "geoip2",
    "geoip2_proxy",
    "geoip2_proxy_recursive",
    "grpc_pass",
    "memcached_pass",
    "http",
    "if",
    "include",
    "limit_conn_zone",
    "limit_except",
    "limit_req_zone",
    "listen",
    "location",
    "log_format",
    "map",
    "otel_exporter",
    "pass",
    "proxy_cache_path",
    "proxy_pass",
    "return",
    "rewrite",
    "route_to",
    "server",
    "server_name",
    "set",
    "split_clients",
    "status_page",
    "stream",
    "stub_status",
    "try_files",
    "types",
    "upstream",
    "access_log",
];

/// No included file exists: each test has one text.
struct OneText(Vec<u8>);

impl Loader for OneText {
    fn read(&mut self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.clone())
    }

    fn glob(&mut self, _mask: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

fn parse(text: &str) -> Directive {
    let loaded = load(Path::new("/c"), Path::new("/"), None, &mut OneText(text.into()));
    assert!(loaded.diagnostics.is_empty(), "{text}: {:?}", loaded.diagnostics);
    loaded.tree.directives[0].clone()
}

fn is_ours(support: Support) -> bool {
    matches!(support, Support::Yes | Support::With(_) | Support::Accepted(_))
}

#[test]
fn every_promised_word_is_lowered() {
    let mut missing = Vec::new();
    for row in table::all().iter().filter(|row| is_ours(row.support)) {
        let name = row.name.as_bytes();
        let in_any = |contexts: &[Context]| contexts.iter().any(|context| row.contexts.contains(*context));
        let known = WALKED.contains(&row.name)
            || (in_any(&[Context::Main]) && Main::knows(name))
            || (in_any(&[Context::Events]) && Events::knows(name))
            || (in_any(&[Context::AcmeIssuer]) && AcmeIssuerLevel::knows(name))
            || (in_any(&[Context::OtelExporter]) && OtelExporterLevel::knows(name))
            || (in_any(&[Context::Upstream, Context::StreamUpstream]) && UpstreamLevel::knows(name))
            || (in_any(&[Context::Stream, Context::StreamServer]) && StreamSettings::knows(name))
            || (in_any(&[Context::Http, Context::Server]) && ServerSettings::knows(name))
            || (in_any(&[Context::Http, Context::Server, Context::Location]) && LocationSettings::knows(name));
        if !known {
            missing.push(row.name);
        }
    }
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn documented_defaults_are_the_models() {
    /// Rows for which writing the default differs from leaving the directive out, each with the reason.
    const UNWRITTEN: [(&str, &str); 46] = [
        ("addition_types", "text/html is always in it, with a warning where written"),
        ("brotli_types", "text/html is always in it, with a warning where written"),
        ("charset_types", "text/html is always in it, with a warning where written"),
        ("client_body_buffer_size", "two sizes by platform"),
        ("connection_pool_size", "two sizes by platform"),
        ("drain_rate", "written, it also applies when the process ends"),
        ("drain_timeout", "written, tunnels are also drained when the process ends"),
        ("env", "kept anyway"),
        ("error_log", "an empty list means the default"),
        ("fastcgi_buffer_size", "two sizes by platform"),
        ("fastcgi_buffers", "two sizes by platform"),
        ("fastcgi_busy_buffers_size", "two sizes by platform"),
        ("fastcgi_temp_file_write_size", "two sizes by platform"),
        ("fastcgi_temp_path", "the group begins with that of `proxy_temp_path`, and no file is written"),
        ("grpc_buffer_size", "two sizes by platform"),
        ("grpc_set_header", "`:authority` is added where the list lacks Host"),
        ("gzip_types", "text/html is always in it, with a warning where written"),
        ("memcached_buffer_size", "two sizes by platform"),
        ("map_hash_bucket_size", "three sizes by platform"),
        ("pid", "the built-in path belongs to the process"),
        ("proxy_buffer_size", "two sizes by platform"),
        ("proxy_buffers", "two sizes by platform"),
        ("proxy_busy_buffers_size", "two sizes by platform"),
        ("proxy_cache_key", "it is close to what nginx documents: the URL that the upstream gets"),
        ("proxy_set_header", "Host is added where the list lacks it"),
        ("proxy_ssl_name", "the name is made where the URL of `proxy_pass` is known"),
        ("proxy_temp_file_write_size", "two sizes by platform"),
        ("scgi_buffer_size", "two sizes by platform"),
        ("scgi_buffers", "two sizes by platform"),
        ("scgi_busy_buffers_size", "two sizes by platform"),
        ("scgi_temp_file_write_size", "two sizes by platform"),
        ("uwsgi_buffer_size", "two sizes by platform"),
        ("uwsgi_buffers", "two sizes by platform"),
        ("uwsgi_busy_buffers_size", "two sizes by platform"),
        ("uwsgi_temp_file_write_size", "two sizes by platform"),
        ("scgi_temp_path", "the group begins with that of `proxy_temp_path`, and no file is written"),
        ("uwsgi_temp_path", "the group begins with that of `proxy_temp_path`, and no file is written"),
        ("server_names_hash_bucket_size", "three sizes by platform"),
        ("ssi_types", "text/html is always in it, with a warning where written"),
        ("subrequest_output_buffer_size", "two sizes by platform"),
        ("sub_filter_types", "text/html is always in it, with a warning where written"),
        ("ssl_ciphers", "`None` means the default"),
        ("ssl_ecdh_curve", "`None` means the default"),
        ("ssl_protocols", "an empty list means the default"),
        ("user", "the group of a user that was not written is looked up"),
        ("zstd_types", "text/html is always in it, with a warning where written"),
    ];
    let mut wrong = BTreeMap::new();
    for row in table::all().iter().filter(|row| is_ours(row.support)) {
        let Some(default) = row.default else { continue };
        if UNWRITTEN.iter().any(|(name, _)| *name == row.name) || WALKED.contains(&row.name) {
            continue;
        }
        let directive = parse(&format!("{} {default};", row.name));
        if let Some(difference) = difference(row.contexts, &directive) {
            wrong.insert(row.name, difference);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What changes when the default is written explicitly; nothing should.
fn difference(contexts: table::Contexts, directive: &Directive) -> Option<String> {
    let env = Env::default();
    let (mut out, mut touched) = (Vec::new(), Touched::default());
    macro_rules! compare {
        ($level:ty) => {{
            let mut level: Arc<$level> = Arc::default();
            <$level>::apply(&mut level, &mut touched, directive, &env, &mut out);
            let (written, default) =
                (without_spans(&format!("{level:#?}")), without_spans(&format!("{:#?}", <$level>::default())));
            let lines = written.lines().zip(default.lines()).filter(|(written, default)| written != default);
            let changed: Vec<_> = lines.map(|(written, default)| format!("{written} instead of {default}")).collect();
            (!changed.is_empty() || written.len() != default.len()).then(|| changed.join("; "))
        }};
    }
    let name = directive.name.value.as_slice();
    let found = if contexts.contains(Context::Main) && Main::knows(name) {
        compare!(Main)
    } else if contexts.contains(Context::Events) {
        compare!(Events)
    } else if contexts.contains(Context::AcmeIssuer) {
        compare!(AcmeIssuerLevel)
    } else if contexts.contains(Context::OtelExporter) {
        compare!(OtelExporterLevel)
    } else if contexts.contains(Context::Upstream) && UpstreamLevel::knows(name) {
        compare!(UpstreamLevel)
    } else if contexts.contains(Context::Stream) && StreamSettings::knows(name) {
        compare!(StreamSettings)
    } else if ServerSettings::knows(name) {
        compare!(ServerSettings)
    } else {
        compare!(LocationSettings)
    };
    if out.is_empty() { found } else { Some(format!("{out:?}")) }
}

/// Removes spans: a default has none, so both forms compare equal without them.
fn without_spans(text: &str) -> String {
    let mut kept = String::new();
    let mut skip: Option<usize> = None;
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        if let Some(until) = skip {
            if depth <= until {
                skip = None;
            }
            continue;
        }
        if line.trim_start().starts_with("span:") {
            skip = line.ends_with(['{', '(']).then_some(depth);
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}
