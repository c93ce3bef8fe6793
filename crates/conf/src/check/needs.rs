//! Whether a configuration has what some directives act with. Called by the checks for rows with `Support::With`.

use crate::table::NEEDS_TLS;
use crate::tree::{Block, Directive};

/// Whether what a row needs, by its text, is in the configuration.
pub(super) fn is_met(need: &str, tree: &Block) -> bool {
    need == NEEDS_TLS && has_tls_listener(tree)
}

/// Whether a server in `http` has `listen … ssl`.
fn has_tls_listener(tree: &Block) -> bool {
    let listens = inside(tree, b"http").flat_map(|http| inside(http, b"server")).flat_map(|server| &server.directives);
    let is_tls =
        |listen: &Directive| listen.name.value == b"listen" && listen.args.iter().any(|word| word.value == b"ssl");
    listens.into_iter().any(is_tls)
}

/// The bodies of the blocks of a name.
fn inside<'t>(block: &'t Block, name: &'static [u8]) -> impl Iterator<Item = &'t Block> {
    let named = block.directives.iter().filter(move |directive| directive.name.value == name);
    named.filter_map(|directive| directive.block.as_deref())
}
