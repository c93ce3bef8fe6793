//! The outline of a configuration: what an operator would name of it. Two outlines show what a reload has changed.

use crate::plan::Plan;
use crate::plan::location::Content;
use std::collections::{BTreeMap, BTreeSet};

/// Most changes that are kept.
const CHANGES_MAX: usize = 50;

/// What there is, with its settings in a few words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outline(BTreeMap<String, String>);

impl Outline {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut lines = BTreeMap::new();
        for listener in &plan.listeners {
            lines.insert(format!("listen {}", listener.address), String::new());
        }
        for group in &plan.groups {
            let servers: Vec<&str> = group.servers.iter().map(|server| &*server.text).collect();
            lines.insert(format!("upstream {}", group.name), servers.join(", "));
        }
        for location in &plan.locations {
            let server = location.server.map(|id| &*plan.server(id).name).unwrap_or_default();
            let (server, route) = (text(server), text(&location.route));
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
            let group = plan.proxies.get(id.0 as usize).and_then(|proxy| plan.group_uses.get(proxy.group.0 as usize));
            let group = group.and_then(|used| plan.groups.get(used.group.0 as usize));
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
