//! Trees that are made one after another, as those of a cluster: what is the same in two of them is shared, so that the steps
//! behind can use their earlier results for it. A configuration that is read from files does not come here.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::model::memory::is_shared;
use crate::tree::{Block, Directive};

pub use crate::model::memory::Memory;

/// Most directives before with the same name, arguments and `server_name` that one is compared with.
const CANDIDATES_MAX: usize = 8;

/// Replaces servers and groups of `http` by those of an earlier tree that are equal, places included. `may_share` decides
/// about each, if what it is made of includes more than its text, such as the contents of files.
pub fn share(tree: &mut Block, before: &Block, may_share: impl Fn(&Directive) -> bool) {
    let mut known: FxHashMap<Key<'_>, Vec<&Directive>> = FxHashMap::default();
    for directive in inside_http(before) {
        known.entry(Key::of(directive)).or_default().push(directive);
    }
    for http in tree.directives.iter_mut().filter(|directive| directive.name.value == b"http") {
        let Some(block) = &mut http.block else { continue };
        for directive in Arc::make_mut(block).directives.iter_mut().filter(|directive| is_shared(directive)) {
            let mut candidates = known.get(&Key::of(directive)).into_iter().flatten().take(CANDIDATES_MAX);
            let same = candidates.find(|before| **before == directive);
            if let Some(same) = same.filter(|same| may_share(same)) {
                directive.clone_from(same);
            }
        }
    }
}

/// What a tree has besides the servers and groups of `http`, line by line.
pub fn frame(tree: &Block) -> impl Iterator<Item = &Directive> {
    let of_http = inside(tree).flat_map(|block| &block.directives).filter(|directive| !is_shared(directive));
    tree.directives.iter().filter(|directive| directive.name.value != b"http").chain(of_http)
}

/// Whether a value is in a directive or inside of its block, alone or as a part of a word.
pub fn names(directive: &Directive, value: &[u8]) -> bool {
    let is_in = |word: &crate::tree::Word| memchr::memmem::find(&word.value, value).is_some();
    let inside = || directive.block.iter().flat_map(|block| &block.directives);
    directive.args.iter().any(is_in) || inside().any(|inner| names(inner, value))
}

/// What probably distinguishes servers and groups from each other.
#[derive(PartialEq, Eq, Hash)]
struct Key<'t> {
    name: &'t [u8],
    /// That of a group.
    argument: &'t [u8],
    /// The first name of a server.
    server_name: &'t [u8],
}

impl<'t> Key<'t> {
    fn of(directive: &'t Directive) -> Self {
        let first = |directive: &'t Directive| directive.args.first().map_or(&b""[..], |word| &word.value);
        let mut lines = directive.block.iter().flat_map(|block| &block.directives);
        let named = lines.find(|line| line.name.value == b"server_name");
        Self { name: &directive.name.value, argument: first(directive), server_name: named.map_or(b"", first) }
    }
}

/// The servers and groups of `http`.
fn inside_http(tree: &Block) -> impl Iterator<Item = &Directive> {
    inside(tree).flat_map(|block| &block.directives).filter(|directive| is_shared(directive))
}

/// The bodies of `http`.
fn inside(tree: &Block) -> impl Iterator<Item = &Block> {
    let blocks = tree.directives.iter().filter(|directive| directive.name.value == b"http");
    blocks.filter_map(|http| http.block.as_deref())
}
