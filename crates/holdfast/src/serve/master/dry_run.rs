//! The changes of a reload: compares the configuration in the files with the current one. It reads neither itself.

use super::Plan;
use crate::process::ChildPlan;
use crate::report;
use crate::serve::order::Texts;
use crate::serve::sockets::socket_name;
use crate::verdict::Prepared;
use conf::model::Model;
use gateway::{BoundPlan, Level, differences};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The changes that a reload would make.
#[derive(Debug, Default)]
pub(super) struct DryRun {
    errors: Vec<String>,
    warnings: Vec<String>,
    files: Vec<String>,
    listeners: Vec<String>,
    groups: Vec<String>,
    logs: Vec<String>,
    /// Settings that a running worker process cannot apply.
    process: Vec<String>,
}

/// Compares the current configuration with the new one.
pub(super) fn compare(holds: &Plan, new: &Prepared, texts: &Texts) -> DryRun {
    let of_level = |wanted: fn(Level) -> bool| {
        let lines = report::log_lines(new).into_iter();
        lines.filter(|(level, _)| wanted(*level)).map(|(_, line)| line).collect::<Vec<_>>()
    };
    let mut found = DryRun {
        errors: of_level(|level| level >= Level::Error),
        warnings: of_level(|level| level == Level::Warn),
        files: files(&holds.texts.borrow(), texts),
        ..DryRun::default()
    };
    let (Some(process), Some(plan), true) = (&new.process, &new.plan, new.is_ok()) else {
        if found.errors.is_empty() {
            found.errors.push("the configuration is refused".to_owned());
        }
        return found;
    };
    let before = &holds.prepared;
    found.listeners = differences(&listeners(before.plan.as_ref()), &listeners(Some(plan)), "opened", "closed");
    found.groups = differences(&groups(before.model.as_ref()), &groups(new.model.as_ref()), "added", "removed");
    found.logs = differences(&logs(before), &logs(new), "opened", "closed");
    found.process = replacing(&holds.process().child, &process.child);
    found
}

impl DryRun {
    /// Whether a new worker process would replace the one that serves.
    pub(super) fn replaces_child(&self) -> bool {
        self.errors.is_empty() && !self.process.is_empty()
    }

    /// The answer as JSON. `status` is that of the serving process if it would be replaced.
    pub(super) fn into_json(self, status: Option<&Value>) -> Value {
        let count = |status: &Value, part: &str, field: &str| status[part][field].as_u64().unwrap_or_default();
        let (mut exchanges, mut tunnels) = (0, 0);
        let consequence = if self.errors.is_empty() {
            match status {
                None => "the worker process applies it in place: connections and tunnels stay".to_owned(),
                Some(status) => {
                    exchanges = count(status, "requests", "under_way");
                    tunnels = count(status, "connections", "tunnels");
                    format!(
                        "a new worker process takes over, with those of the {tunnels} tunnels that are not under TLS; the old one \
                         finishes {exchanges} requests and the other tunnels, until worker_shutdown_timeout where that is set"
                    )
                }
            }
        } else {
            "the configuration is refused, the old one stays".to_owned()
        };
        let Self { errors, warnings, files, listeners, groups, logs, process } = self;
        json!({
            "accepted": errors.is_empty(), "errors": errors, "warnings": warnings, "files": files, "listeners": listeners,
            "groups": groups, "logs": logs, "process": process, "drained_requests": exchanges, "drained_tunnels": tunnels,
            "consequence": consequence,
        })
    }
}

fn files(before: &Texts, after: &Texts) -> Vec<String> {
    let names: BTreeSet<&PathBuf> = before.paths().chain(after.paths()).collect();
    let line = |path: &PathBuf| match (before.text(path), after.text(path)) {
        (None, Some(_)) => Some(format!("{} added", path.display())),
        (Some(_), None) => Some(format!("{} no longer read", path.display())),
        (Some(before), Some(after)) if before != after => Some(format!("{} changed", path.display())),
        _ => None,
    };
    names.into_iter().filter_map(line).collect()
}

fn listeners(plan: Option<&BoundPlan>) -> BTreeMap<String, String> {
    let all = plan.iter().flat_map(|plan| &plan.listeners);
    all.map(|spec| (socket_name(&spec.address, &spec.options), format!("{:?}", spec.options))).collect()
}

/// Groups with their servers as written.
fn groups(model: Option<&Model>) -> BTreeMap<String, String> {
    let upstreams = model.and_then(|model| model.http.as_ref()).into_iter().flat_map(|http| &http.upstreams);
    let servers = |upstream: &conf::model::Upstream| {
        let texts: Vec<&str> = upstream.servers.iter().map(|server| server.address.text.as_str()).collect();
        texts.join(", ")
    };
    upstreams.map(|upstream| (upstream.name.clone(), servers(upstream))).collect()
}

fn logs(prepared: &Prepared) -> BTreeMap<String, String> {
    let accesses = prepared.plan.iter().flat_map(|plan| &plan.logs).map(|log| log.sink.place().to_string());
    let errors = prepared.process.iter().flat_map(|process| &process.error_logs);
    let errors = errors.map(|target| (target.place.to_string(), target.level.label().to_owned()));
    accesses.map(|place| (place, String::new())).chain(errors).collect()
}

/// The settings of a worker process that differ.
fn replacing(before: &ChildPlan, after: &ChildPlan) -> Vec<String> {
    let settings = [
        ("worker_processes", before.workers == after.workers),
        ("worker_groups", before.groups == after.groups),
        ("worker_cpu_affinity", before.processors == after.processors),
        ("user", before.owner == after.owner),
        ("worker_rlimit_nofile", before.descriptors == after.descriptors),
        ("env", before.env == after.env),
        ("the level of error_log", before.error_level == after.error_level),
        ("proxy_bind … transparent", before.transparent == after.transparent),
        ("a log on the standard error stream", before.uses_stderr == after.uses_stderr),
        ("working_directory", before.working_directory == after.working_directory),
    ];
    let changed = settings.into_iter().filter(|(_, same)| !same).map(|(name, _)| format!("{name} changed"));
    let changed: Vec<String> = changed.collect();
    debug_assert_eq!(changed.is_empty(), before == after, "each field of a child's plan is compared");
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_process_lists_what_it_drains() {
        let run = DryRun { process: vec!["user changed".to_owned()], ..DryRun::default() };
        assert!(run.replaces_child());
        let status = json!({"requests": {"under_way": 3}, "connections": {"tunnels": 9}});
        let answer = run.into_json(Some(&status));
        assert_eq!((&answer["drained_tunnels"], &answer["accepted"]), (&json!(9), &json!(true)));
        assert!(answer["consequence"].as_str().unwrap().contains("finishes 3 requests and the other tunnels"));
    }

    #[test]
    fn a_refused_configuration_replaces_nothing() {
        let run =
            DryRun { errors: vec!["x".to_owned()], process: vec!["user changed".to_owned()], ..DryRun::default() };
        assert!(!run.replaces_child());
        assert!(run.into_json(None)["consequence"].as_str().unwrap().contains("refused"));
    }
}
