//! What is known of the servers and groups of `http` in the tree before, for trees that are made one after another and
//! differ in few of them. A server or a group is found by the block that it was made of, which the trees share
//! ([`crate::reuse::share`]), and everything else that it depends on is compared. A configuration that is read from files
//! has no memory.
//!
//! The memory has only what the last tree has, so it does not grow with the number of trees.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::location::LocationSettings;
use super::lower::Options;
use super::server::{Server, ServerSettings};
use super::upstream::Upstream;
use crate::tree::{Block, Directive};

/// The identity of what an `http` has besides servers and groups.
#[derive(Debug, Default)]
pub struct Frame(());

/// What is known of the trees before.
#[derive(Debug, Default)]
pub struct Memory {
    /// Blocks of servers and groups in which the checks found nothing, by address.
    checked: FxHashMap<usize, Directive>,
    /// The model before.
    kept: Option<Kept>,
}

/// One model's part of the memory.
#[derive(Debug)]
pub(crate) struct Kept {
    options: Options,
    /// The lines of `http` besides servers and groups.
    lines: Vec<Directive>,
    pub(crate) frame: Arc<Frame>,
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) location: Arc<LocationSettings>,
    /// By the address of the block that it was made of, which `directive` keeps from being used again.
    servers: FxHashMap<usize, KeptServer>,
    groups: FxHashMap<usize, (Directive, Arc<Upstream>)>,
    /// The addresses of the groups.
    present: FxHashSet<usize>,
}

/// A server without findings that leads to written groups only.
#[derive(Debug, Clone)]
pub(crate) struct KeptServer {
    pub(crate) directive: Directive,
    pub(crate) made: Arc<Server>,
    /// Where its `proxy_pass` lead.
    pub(crate) groups: Vec<Arc<Upstream>>,
}

impl Memory {
    /// Whether the checks found nothing in this block before.
    pub(crate) fn is_checked(&self, directive: &Directive) -> bool {
        address(directive).and_then(|at| self.checked.get(&at)).is_some_and(|known| known == directive)
    }

    /// Replaces the list of blocks in which the checks find nothing.
    pub(crate) fn keep_checked(&mut self, checked: FxHashMap<usize, Directive>) {
        self.checked = checked;
    }

    /// Begins the part of a new model. `fresh` is what was made of its lines; it is replaced by that of the model before, if
    /// the lines are the same. `None` if a line follows a server or a group, since a line may depend on its place.
    pub(crate) fn begin(
        &mut self,
        block: &Block,
        options: Options,
        fresh: (&Arc<Frame>, &Arc<ServerSettings>, &Arc<LocationSettings>),
    ) -> Option<Kept> {
        let first = block.directives.iter().position(is_shared).unwrap_or(block.directives.len());
        let (lines, others) = block.directives.split_at(first);
        if !others.iter().all(is_shared) {
            self.kept = None;
            return None;
        }
        self.kept.take_if(|kept| kept.options != options || kept.lines != lines);
        let (frame, settings, location) = match &self.kept {
            Some(kept) => (&kept.frame, &kept.settings, &kept.location),
            None => fresh,
        };
        Some(Kept {
            options,
            lines: lines.to_vec(),
            frame: Arc::clone(frame),
            settings: Arc::clone(settings),
            location: Arc::clone(location),
            servers: FxHashMap::default(),
            groups: FxHashMap::default(),
            present: FxHashSet::default(),
        })
    }

    /// The group of the model before for this directive.
    pub(crate) fn group(&self, directive: &Directive) -> Option<Arc<Upstream>> {
        let (known, group) = self.kept.as_ref()?.groups.get(&address(directive)?)?;
        (known == directive).then(|| Arc::clone(group))
    }

    /// The server of the model before for this directive, if it leads to groups of the new one.
    pub(crate) fn server(&self, now: &Kept, directive: &Directive) -> Option<KeptServer> {
        let known = self.kept.as_ref()?.servers.get(&address(directive)?)?;
        let are_present = || known.groups.iter().all(|group| now.present.contains(&(Arc::as_ptr(group) as usize)));
        (known.directive == *directive && are_present()).then(|| known.clone())
    }

    /// Replaces the model before by this one.
    pub(crate) fn keep(&mut self, kept: Kept) {
        self.kept = Some(kept);
    }
}

impl Kept {
    pub(crate) fn add_group(&mut self, directive: &Directive, group: &Arc<Upstream>) {
        if let Some(at) = address(directive) {
            self.present.insert(Arc::as_ptr(group) as usize);
            self.groups.insert(at, (directive.clone(), Arc::clone(group)));
        }
    }

    pub(crate) fn add_server(&mut self, server: KeptServer) {
        if let Some(at) = address(&server.directive) {
            self.servers.insert(at, server);
        }
    }
}

/// Whether a directive of `http` is one of those that trees share.
pub(crate) fn is_shared(directive: &Directive) -> bool {
    matches!(directive.name.value.as_slice(), b"server" | b"upstream") && directive.block.is_some()
}

/// The address of a directive's block.
pub(crate) fn address(directive: &Directive) -> Option<usize> {
    directive.block.as_ref().map(|block| Arc::as_ptr(block) as usize)
}
