//! Binds logs: one sink for each destination, and one error log for each list of `error_log`s, which generations share.

use crate::base::logs::access::{AccessOutput, LogSink};
use crate::base::logs::error::{ErrorLog, ErrorOutput, Level};
use crate::registry::bind::Binding;
use std::sync::Arc;

impl Binding<'_> {
    pub(super) fn access_logs(&mut self) -> Vec<AccessOutput> {
        let outputs = self.plan.sinks.iter().map(|plan| {
            let sink = self.known.sinks.entry(plan.place.clone()).or_insert_with(|| {
                let bell = Arc::clone(&self.registry.log_bell);
                Arc::new(LogSink::new(plan.place.clone(), self.registry.workers(), bell))
            });
            AccessOutput { sink: Arc::clone(sink), buffering: plan.buffering }
        });
        outputs.collect()
    }

    pub(super) fn error_logs(&mut self) -> Vec<ErrorOutput> {
        let outputs = self.plan.error_logs.iter().map(|targets| {
            let log = self.known.error_logs.entry(targets.clone()).or_insert_with(|| {
                let threshold = targets.iter().map(|target| target.level).min().unwrap_or(Level::Emerg);
                let offset = self.registry.error_log().utc_offset_minutes();
                let bell = Arc::clone(&self.registry.log_bell);
                Arc::new(ErrorLog::new(threshold, offset).for_workers(self.registry.workers(), bell))
            });
            ErrorOutput { log: Arc::clone(log), targets: targets.clone() }
        });
        outputs.collect()
    }
}
