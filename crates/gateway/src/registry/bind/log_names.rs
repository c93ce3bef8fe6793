//! Names of logs, by which another process finds its own log with the same destination.

use crate::base::logs::error::{ErrorLog, ErrorTarget};
use crate::registry::bind::Identities;
use std::sync::Arc;

impl Identities {
    /// The name of an error log that is not the process's own.
    pub(crate) fn name_of_error_log(&self, log: &Arc<ErrorLog>) -> Option<String> {
        let known = self.lock();
        let found = known.error_logs.iter().find(|(_, known)| Arc::ptr_eq(known, log));
        found.map(|(targets, _)| name_of(targets))
    }

    /// The error log with a name.
    pub(crate) fn error_log_named(&self, name: &str) -> Option<Arc<ErrorLog>> {
        let known = self.lock();
        let found = known.error_logs.iter().find(|(targets, _)| name_of(targets) == name);
        found.map(|(_, log)| Arc::clone(log))
    }
}

fn name_of(targets: &[ErrorTarget]) -> String {
    let names = targets
        .iter()
        .map(|target| format!("{} {}", target.level.label(), String::from_utf8_lossy(&target.place.full_name())));
    names.collect::<Vec<_>>().join("; ")
}
