//! Translates until the configuration language finds no error: an object that gave one is left out, alone.

use crate::assembly::Assembly;
use crate::from_gateway::Grants;
use crate::from_ingress::Memory;
use crate::tree::Origins;
use crate::{Cluster, Finding, Kind, Level, ObjectName, Settings, Translation, from_gateway, from_ingress};
use conf::diagnostic::{Diagnostic, Severity};
use conf::load::Loaded;
use conf::tree::Block;
use std::collections::{BTreeMap, BTreeSet};

/// Most rounds. Values are checked before they are written, so the first round is the last one unless a check is missing.
/// Each round leaves out all objects that were found wrong; what is still wrong after the last one is left out with all
/// Ingresses.
const ROUNDS_MAX: usize = 16;

/// Translates with objects left out, until nothing is wrong.
pub(crate) fn translate(cluster: &Cluster, settings: &Settings) -> Translation {
    let mut refused: BTreeMap<ObjectName, String> = BTreeMap::new();
    for round in 0.. {
        let names: BTreeSet<ObjectName> = refused.keys().cloned().collect();
        let mut translation = once(cluster, settings, &names);
        let wrong = errors(&mut translation);
        let before = refused.len();
        for error in wrong {
            let Some(owner) = translation.owners.get(&error.span.file) else { continue };
            refused.entry(owner.clone()).or_insert(error.message);
        }
        if refused.len() == before || round > ROUNDS_MAX {
            translation.findings.extend(refused.into_iter().map(|(object, message)| Finding {
                object,
                level: Level::Refused,
                reason: "Refused",
                message: format!("the configuration language refuses it: {message}"),
            }));
            return translation;
        }
        if round == ROUNDS_MAX {
            let all = cluster.ingresses.keys().cloned().map(|name| ObjectName { kind: Kind::Ingress, name });
            refused.extend(all.map(|object| (object, "too many objects are wrong".to_owned())));
        }
    }
    unreachable!("the loop returns")
}

/// Translates once, without looking for errors of the language.
pub(crate) fn draft(cluster: &Cluster, settings: &Settings) -> Translation {
    once(cluster, settings, &BTreeSet::new())
}

/// The same with a memory of the draft before.
pub(crate) fn draft_reusing(cluster: &Cluster, settings: &Settings, memory: &mut Memory) -> Translation {
    let refused = BTreeSet::new();
    let mut remembering = std::mem::take(memory).begin(cluster, settings);
    let mut assembly = Assembly::new(cluster, settings, &refused, remembering.take_origins());
    let mut shared = Some(remembering);
    let grants = Grants::new(&cluster.reference_grants);
    let wanted = from_gateway::plan(cluster, settings, &grants);
    from_ingress::write(&mut assembly, &wanted.claims, &mut shared);
    from_gateway::write(&mut assembly, wanted, &grants);
    let (translation, origins) = assembly.finish();
    *memory = shared.map(|remembering| remembering.end(origins)).unwrap_or_default();
    translation
}

fn once(cluster: &Cluster, settings: &Settings, refused: &BTreeSet<ObjectName>) -> Translation {
    let mut assembly = Assembly::new(cluster, settings, refused, Origins::default());
    let grants = Grants::new(&cluster.reference_grants);
    let wanted = from_gateway::plan(cluster, settings, &grants);
    from_ingress::write(&mut assembly, &wanted.claims, &mut None);
    from_gateway::write(&mut assembly, wanted, &grants);
    assembly.finish().0
}

/// The errors of a translation. Its tree is as before.
fn errors(translation: &mut Translation) -> Vec<Diagnostic> {
    let place = translation.tree.open;
    let tree = std::mem::replace(&mut translation.tree, Block { directives: Vec::new(), open: place, close: place });
    let loaded = Loaded::from_tree(tree, std::mem::take(&mut translation.sources));
    let mut found = conf::check(&loaded, conf::table::all());
    // Lowering expects a tree without errors of that kind.
    if found.iter().all(|diagnostic| diagnostic.severity < Severity::Error) {
        found = conf::model::lower(&loaded.tree, &loaded.sources).1;
    }
    translation.tree = loaded.tree;
    translation.sources = loaded.sources;
    found.retain(|diagnostic| diagnostic.severity == Severity::Error);
    found
}
