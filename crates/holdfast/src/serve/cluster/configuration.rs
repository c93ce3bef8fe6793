//! From objects to a configuration that can serve: translated, completed, checked, lowered and bound, without what is
//! wrong. An object that the data plane refuses, such as one with a broken certificate, is left out, alone.

use super::files::ClusterFiles;
use super::tree::{self, ProcessLines};
use crate::instance::Instance;
use crate::verdict::{Lasting, Prepared, prepare_loaded};
use conf::Loaded;
use conf::diagnostic::Severity;
use conf::tree::{Block, Directive};
use ingress::{Cluster, Finding, Level, ObjectName, Settings, Translation};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Most rounds: the first leaves out every object with an error that is found at once, and few errors hide others.
const ROUNDS_MAX: usize = 8;

/// What does not change while the process runs.
pub(super) struct Frame {
    pub(super) settings: Settings,
    pub(super) lines: ProcessLines,
    pub(super) instance: Instance,
    /// The certificate that was made at the start.
    pub(super) own_files: ClusterFiles,
}

/// What the present generation was made of.
#[derive(Clone, Copy)]
pub(super) struct Made<'a> {
    pub(super) tree: Option<&'a Block>,
    /// The next one is to be bound even if it is the same.
    pub(super) is_stale: bool,
    pub(super) files: &'a ClusterFiles,
    /// The files that its tree was bound with; certificates may have been replaced since.
    pub(super) bound_files: &'a ClusterFiles,
}

/// A configuration for the present objects.
pub(super) struct Candidate {
    /// Its tree is empty, as the configuration has it.
    pub(super) translation: Translation,
    pub(super) files: ClusterFiles,
    pub(super) change: Change,
}

/// How it differs from the present generation.
pub(super) enum Change {
    /// In nothing but the contents of these files.
    Files(Vec<PathBuf>),
    /// In its tree, too.
    Tree(Box<Prepared>),
}

/// Makes a configuration. `is_pair` says whether a file belongs to a certificate that can be replaced while it is used.
/// An error: what is wrong belongs to no object.
pub(super) fn make(
    mut cluster: Cluster,
    frame: &Frame,
    made: Made<'_>,
    is_pair: impl Fn(&PathBuf) -> bool,
    follow: &dyn Fn(&Translation),
    (lasting, memory): (&mut Lasting, &mut ingress::Memory),
) -> Result<Candidate, String> {
    let mut refused: BTreeMap<ObjectName, String> = BTreeMap::new();
    // The tree is checked below anyway, and is nearly always valid.
    let mut is_draft = true;
    for _ in 0..=ROUNDS_MAX {
        let mut translation = if is_draft {
            ingress::draft_reusing(&cluster, &frame.settings, memory)
        } else {
            ingress::translate(&cluster, &frame.settings)
        };
        tree::complete(&mut translation.tree, &frame.lines);
        let files = ClusterFiles::of(&cluster, &translation.files, &frame.own_files);
        files.write_for_workers(&mut translation.tree, &frame.instance.prefix)?;
        let changed = files.changed(made.files);
        share(&mut translation.tree, &files, made, lasting);
        if !made.is_stale && made.tree == Some(&translation.tree) && changed.iter().all(&is_pair) {
            add_findings(&mut translation, refused);
            return Ok(Candidate { translation, files, change: Change::Files(changed) });
        }
        follow(&translation);
        let sources = std::mem::take(&mut translation.sources);
        let empty = Block { directives: Vec::new(), open: translation.tree.open, close: translation.tree.close };
        let tree = std::mem::replace(&mut translation.tree, empty);
        let mut loaded = Loaded::from_tree(tree, sources);
        loaded.main.clone_from(&frame.instance.conf_path);
        loaded.prefix.clone_from(&frame.instance.prefix);
        let prepared = prepare_loaded(loaded, &frame.instance, &mut files.clone(), lasting);
        if prepared.is_ok() {
            add_findings(&mut translation, refused);
            return Ok(Candidate { translation, files, change: Change::Tree(Box::new(prepared)) });
        }
        // What is known now belongs to a configuration that never serves.
        lasting.forget();
        if std::mem::take(&mut is_draft) {
            continue;
        }
        let errors = prepared.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let mut is_less = false;
        let mut first = None;
        for error in errors {
            first.get_or_insert_with(|| error.message.clone());
            let Some(owner) = translation.owners.get(&error.span.file) else { continue };
            if kubernetes::remove(&mut cluster, owner.kind, &owner.name) {
                is_less = true;
                refused.insert(owner.clone(), error.message.clone());
            }
        }
        if !is_less {
            return Err(first.unwrap_or_else(|| "it is not complete".to_owned()));
        }
    }
    Err(format!("after {ROUNDS_MAX} rounds it still has errors"))
}

/// Lets a tree share servers and groups with the one that serves: those that are equal and name no file that has changed.
fn share(tree: &mut Block, files: &ClusterFiles, made: Made<'_>, lasting: &mut Lasting) {
    let Some(before) = made.tree else { return };
    let changed = files.changed(made.bound_files);
    let names_changed =
        |line: &Directive| changed.iter().any(|path| conf::reuse::names(line, path.as_os_str().as_bytes()));
    if conf::reuse::frame(tree).any(&names_changed) {
        lasting.forget();
    }
    conf::reuse::share(tree, before, |line| !names_changed(line));
}

fn add_findings(translation: &mut Translation, refused: BTreeMap<ObjectName, String>) {
    translation.findings.extend(refused.into_iter().map(|(object, message)| Finding {
        object,
        level: Level::Refused,
        reason: "Refused",
        message: format!("the data plane refuses it: {message}"),
    }));
}

/// The objects that want an address: their `listen` lines name its port.
pub(super) fn owners_of_port(tree: &Block, translation: &Translation, port: u16) -> Vec<ObjectName> {
    let mut owners = Vec::new();
    let mut blocks = vec![tree];
    while let Some(block) = blocks.pop() {
        for line in &block.directives {
            let names_port = line.name.value == b"listen"
                && line.args.first().is_some_and(|word| port_of(&word.value) == Some(port));
            if names_port && let Some(owner) = translation.owners.get(&line.span.file) {
                owners.push(owner.clone());
            }
            blocks.extend(line.block.as_deref());
        }
    }
    owners.sort();
    owners.dedup();
    owners
}

fn port_of(address: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(address).ok()?;
    text.rsplit_once(':').map_or(text, |(_, port)| port).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_addresses() {
        assert_eq!(port_of(b"80"), Some(80));
        assert_eq!(port_of(b"[::]:443"), Some(443));
        assert_eq!(port_of(b"127.0.0.1:8080"), Some(8080));
        assert_eq!(port_of(b"unix:/x"), None);
    }

    #[test]
    fn port_owner_is_the_listener() {
        let translation = ingress::translate(&Cluster::default(), &Settings::default());
        let owners = owners_of_port(&translation.tree, &translation, 80);
        assert_eq!(owners.iter().map(ToString::to_string).collect::<Vec<_>>(), ["ConfigMap defaults"]);
        assert!(owners_of_port(&translation.tree, &translation, 81).is_empty());
    }
}
