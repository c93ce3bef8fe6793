//! The outline of a configuration: what an operator would name of it. Two outlines show what a reload has changed.

use crate::plan::Plan;
use crate::plan::group::GroupPlan;
use crate::plan::location::{Content, LocationPlan};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Most changes that are kept.
const CHANGES_MAX: usize = 50;

/// What there is, with its settings in a few words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline(BTreeMap<String, String>);

impl Outline {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self::of_some(plan, |_, _| true, |_, _| true)
    }

    /// The outlines of two plans. Groups and servers that the plans share are left out of both or kept in both.
    pub(crate) fn of_differences(before: &Plan, now: &Plan) -> [Self; 2] {
        let is_shared = |id: u32, location: &Arc<LocationPlan>| {
            let find = |plan: &Plan| plan.locations.find(id).is_some_and(|known| Arc::ptr_eq(known, location));
            find(before) && find(now)
        };
        // Locations of the same name are one entry.
        let all = before.locations.numbered().chain(now.locations.numbered());
        let fresh = all.filter(|(id, location)| !is_shared(*id, location));
        let names: HashSet<&[u8]> = fresh.map(|(_, location)| &*location.server).collect();
        [before, now].map(|plan| {
            let has_group = |id: u32, group: &Arc<GroupPlan>| {
                let other = |plan: &Plan| plan.groups.find(id).is_some_and(|known| Arc::ptr_eq(known, group));
                !(other(before) && other(now))
            };
            Self::of_some(plan, has_group, |_, location| names.contains(&*location.server))
        })
    }

    fn of_some(
        plan: &Plan,
        has_group: impl Fn(u32, &Arc<GroupPlan>) -> bool,
        has_location: impl Fn(u32, &Arc<LocationPlan>) -> bool,
    ) -> Self {
        let mut lines = BTreeMap::new();
        for listener in &plan.listeners {
            lines.insert(format!("listen {}", listener.address), String::new());
        }
        for (_, group) in plan.groups.numbered().filter(|(id, group)| has_group(*id, group)) {
            let servers: Vec<&str> = group.servers.iter().map(|server| &*server.text).collect();
            lines.insert(format!("upstream {}", group.name), servers.join(", "));
        }
        for (_, location) in plan.locations.numbered().filter(|(id, it)| has_location(*id, it)) {
            let (server, route) = (text(&location.server), text(&location.route));
            let name = if route.is_empty() {
                format!("server {}", if server.is_empty() { "_" } else { &server })
            } else {
                format!("location {route} of {}", if server.is_empty() { "_" } else { &server })
            };
            let line: &mut String = lines.entry(name).or_default();
            if !line.is_empty() {
                line.push_str(", ");
            }
            line.push_str(&content(plan, &location.content));
        }
        for sink in &plan.sinks {
            lines.insert(format!("access_log {}", sink.place), String::new());
        }
        for target in plan.error_logs.iter().flatten() {
            lines.insert(format!("error_log {}", target.place), target.level.label().to_owned());
        }
        Self(lines)
    }

    /// What has changed since an earlier outline, a line for each.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = differences(&before.0, &self.0, "added", "removed");
        let more = changes.len().saturating_sub(CHANGES_MAX);
        if more > 0 {
            changes.truncate(CHANGES_MAX);
            changes.push(format!("{more} more changes"));
        }
        changes
    }
}

/// Entries that are in only one of two maps, and entries with different values. Each is one line, which ends with `added` or
/// `removed` (such as "opened") or names both values.
pub fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
    added: &str,
    removed: &str,
) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let line = |name: &String| match (before.get(name), after.get(name)) {
        (None, Some(_)) => Some(format!("{name} {added}")),
        (Some(_), None) => Some(format!("{name} {removed}")),
        (Some(before), Some(after)) if before != after => Some(format!("{name} changed: {before} -> {after}")),
        _ => None,
    };
    names.into_iter().filter_map(line).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How a location answers.
fn content(plan: &Plan, content: &Content) -> String {
    match content {
        Content::Proxy(id) => {
            let used = plan.proxies.find(id.0).and_then(|proxy| plan.group_uses.find(proxy.group.0));
            let group = used.and_then(|used| plan.groups.find(used.group.0));
            group.map_or_else(|| content.name().to_owned(), |group| format!("to {}", group.name))
        }
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::tests::plan;

    fn outline(http: &str) -> Outline {
        Outline::of(&plan(http))
    }

    #[test]
    fn changes_list_added_removed_and_changed_items() {
        let before = outline(
            "upstream app { server 127.0.0.1:1; } upstream old { server 127.0.0.1:9; }
             server { listen 127.0.0.1:80; server_name a; location / { proxy_pass http://app; } location /old { proxy_pass http://old; } }",
        );
        let after = outline(
            "upstream app { server 127.0.0.1:1; server 127.0.0.1:2; }
             server { listen 127.0.0.1:80; listen 127.0.0.1:81; server_name a; location / { proxy_pass http://app; } }",
        );
        assert_eq!(
            after.changes_since(&before),
            [
                "listen 127.0.0.1:81 added",
                "location /old of a removed",
                "upstream app changed: 127.0.0.1:1 -> 127.0.0.1:1, 127.0.0.1:2",
                "upstream old removed",
            ]
        );
        assert_eq!(after.changes_since(&after), [""; 0]);
    }

    #[test]
    fn differences_name_added_removed_and_changed_items() {
        let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let before = map(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = map(&[("b", "2"), ("c", "1"), ("d", "1")]);
        assert_eq!(differences(&before, &after, "opened", "closed"), ["a closed", "b changed: 1 -> 2", "d opened"]);
    }

    #[test]
    fn many_changes_are_counted() {
        let servers: Vec<String> =
            (0..80).map(|number| format!("server {{ listen 127.0.0.1:80; server_name s{number}; }}")).collect();
        let changes = outline(&servers.concat()).changes_since(&outline(""));
        assert_eq!(changes.len(), CHANGES_MAX + 1);
        assert!(changes.last().is_some_and(|last| last.ends_with("more changes")), "{changes:?}");
    }
}
