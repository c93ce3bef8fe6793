//! What a directive of `Support::OnlyWith` needs to have an effect, and whether a configuration has it. The texts are
//! those of the table, whose rows and these functions must name the same things; a test here holds them together.

use crate::tree::{Block, Directive};

/// A test whether a directive is the thing that is needed.
type Test = fn(&Directive) -> bool;

/// Each need that the table may name.
const NEEDS: [(&str, Test); 17] = [
    ("a TLS listener (`listen … ssl`)", |it| listens(it, &[b"ssl", b"quic"]) || is_on(it, b"ssl")),
    ("an upstream reached over TLS (`proxy_pass https://…`)", passes_to_tls),
    ("a response cache (`proxy_cache`)", caches),
    ("HTTP/2 (`http2 on`)", |it| listens(it, &[b"http2"]) || is_on(it, b"http2")),
    ("a QUIC listener (`listen … quic`)", |it| listens(it, &[b"quic"])),
    ("`fastcgi_pass`", |it| it.name.value == b"fastcgi_pass"),
    ("`uwsgi_pass`", |it| it.name.value == b"uwsgi_pass"),
    ("`scgi_pass`", |it| it.name.value == b"scgi_pass"),
    ("`grpc_pass`", |it| it.name.value == b"grpc_pass"),
    ("`memcached_pass`", |it| it.name.value == b"memcached_pass"),
    ("`tunnel_pass`", |it| it.name.value == b"tunnel_pass"),
    ("`autoindex on`", |it| is_on(it, b"autoindex")),
    ("`ssi on`", |it| is_on(it, b"ssi")),
    ("`sub_filter`", |it| it.name.value == b"sub_filter"),
    ("`image_filter`", |it| is_not_off(it, b"image_filter")),
    ("`mp4`", |it| it.name.value == b"mp4"),
    ("`userid on`", |it| is_not_off(it, b"userid")),
];

/// Whether the configuration has what the need names. An unknown need counts as met: then the directive is an error
/// rather than silently without effect.
pub(super) fn is_met(need: &str, tree: &Block) -> bool {
    NEEDS.iter().find(|(text, _)| *text == need).is_none_or(|(_, test)| any(tree, *test))
}

fn any(block: &Block, test: Test) -> bool {
    block.directives.iter().any(|it| test(it) || it.block.as_ref().is_some_and(|block| any(block, test)))
}

fn listens(it: &Directive, parameters: &[&[u8]]) -> bool {
    it.name.value == b"listen" && it.args.iter().any(|arg| parameters.contains(&arg.value.as_slice()))
}

fn is_on(it: &Directive, name: &[u8]) -> bool {
    it.name.value == *name && it.args.first().is_some_and(|arg| arg.value.eq_ignore_ascii_case(b"on"))
}

fn is_not_off(it: &Directive, name: &[u8]) -> bool {
    it.name.value == *name && it.args.first().is_some_and(|arg| !arg.value.eq_ignore_ascii_case(b"off"))
}

fn caches(it: &Directive) -> bool {
    let names: [&[u8]; 4] = [b"proxy_cache", b"fastcgi_cache", b"uwsgi_cache", b"scgi_cache"];
    names.iter().any(|name| is_not_off(it, name))
}

/// `$scheme` may be https; any other variable is resolved when it is used.
fn passes_to_tls(it: &Directive) -> bool {
    let is_tls = |url: &[u8]| url.starts_with(b"https://") || url.starts_with(b"$scheme");
    it.name.value == b"proxy_pass" && it.args.first().is_some_and(|arg| is_tls(&arg.value))
}
