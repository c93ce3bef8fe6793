//! Decides for rows with `Support::With` whether the configuration has what the directive needs to take effect. Called
//! by the checks.

use crate::table::{
    NEEDS_GRPC_TLS, NEEDS_HTTP2, NEEDS_PROXY_TLS, NEEDS_STREAM_LISTEN, NEEDS_STREAM_NAMES, NEEDS_STREAM_TLS, NEEDS_TLS,
    NEEDS_UWSGI_TLS,
};
use crate::tree::{Block, Directive};

/// Whether the configuration has what a row needs. `need` is the row's text.
pub(super) fn is_met(need: &str, tree: &Block) -> bool {
    match need {
        NEEDS_TLS => has_tls_listener(tree, b"http"),
        NEEDS_STREAM_LISTEN => has_tls_listener(tree, b"stream"),
        NEEDS_PROXY_TLS => inside(tree, b"http").any(|http| has_secure(http, b"proxy_pass", b"https://")),
        NEEDS_GRPC_TLS => inside(tree, b"http").any(|http| has_secure(http, b"grpc_pass", b"grpcs://")),
        NEEDS_UWSGI_TLS => inside(tree, b"http").any(|http| has_secure(http, b"uwsgi_pass", b"suwsgi://")),
        NEEDS_HTTP2 => has_http2(tree),
        NEEDS_STREAM_NAMES => has_in_stream(tree, b"ssl_preread") || has_tls_listener(tree, b"stream"),
        NEEDS_STREAM_TLS => has_in_stream(tree, b"proxy_ssl"),
        _ => false,
    }
}

/// Whether `http` or a server in it has `http2 on`, or `listen … http2`.
fn has_http2(tree: &Block) -> bool {
    let is_on = |it: &Directive| {
        let has = |word: &[u8]| it.args.iter().any(|arg| arg.value.eq_ignore_ascii_case(word));
        (it.name.value == b"http2" && has(b"on")) || (it.name.value == b"listen" && has(b"http2"))
    };
    inside(tree, b"http").any(|http| {
        http.directives.iter().any(is_on) || inside(http, b"server").flat_map(|server| &server.directives).any(is_on)
    })
}

/// Whether `stream` or a server in it switches this flag on.
fn has_in_stream(tree: &Block, flag: &[u8]) -> bool {
    let is_on =
        |it: &Directive| it.name.value == flag && it.args.iter().any(|arg| arg.value.eq_ignore_ascii_case(b"on"));
    inside(tree, b"stream").any(|stream| {
        stream.directives.iter().any(is_on)
            || inside(stream, b"server").flat_map(|server| &server.directives).any(is_on)
    })
}

/// Whether a server in this block has `listen … ssl`.
fn has_tls_listener(tree: &Block, block: &'static [u8]) -> bool {
    let listens = inside(tree, block).flat_map(|block| inside(block, b"server")).flat_map(|server| &server.directives);
    let is_tls =
        |listen: &Directive| listen.name.value == b"listen" && listen.args.iter().any(|word| word.value == b"ssl");
    listens.into_iter().any(is_tls)
}

/// Whether a directive of this name, at any depth of the block, leads to TLS. A scheme in a variable counts too.
fn has_secure(block: &Block, name: &[u8], scheme: &[u8]) -> bool {
    let leads = |directive: &Directive| {
        let url = directive.args.first().map_or(&b""[..], |word| &word.value);
        let begins = url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        directive.name.value == name && (begins || url.starts_with(b"$"))
    };
    let mut directives = block.directives.iter();
    directives.any(|directive| {
        leads(directive) || directive.block.as_deref().is_some_and(|block| has_secure(block, name, scheme))
    })
}

/// The bodies of the blocks of a name.
fn inside<'t>(block: &'t Block, name: &'static [u8]) -> impl Iterator<Item = &'t Block> {
    let named = block.directives.iter().filter(move |directive| directive.name.value == name);
    named.filter_map(|directive| directive.block.as_deref())
}
