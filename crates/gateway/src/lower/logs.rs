//! Logs of a location: formats are compiled, places found, and each place gets the one sink that everybody who names it
//! shares.

use crate::base::logs::access::{AccessLog, AccessOutput, Buffering, LogSink, NamePlan};
use crate::base::logs::error::{ErrorLog, ErrorTarget};
use crate::base::logs::place::{LogPlace, parent_segments, syslog_place};
use crate::lower::{Lowering, Registry};
use conf::diagnostic::Diagnostic;
use conf::model::{self, LocationSettings, LogTarget};
use conf::source::Span;
use conf::value::{Part, Template};
use rules::log_format::LogFormat;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

/// The lines of a list of `error_log`s, and where they are written.
#[derive(Debug, Clone)]
pub struct ErrorOutput {
    /// Where the lines are collected.
    pub log: Arc<ErrorLog>,
    /// Where each goes that is grave enough.
    pub targets: Vec<ErrorTarget>,
}

impl Registry {
    /// Lets go of logs that nobody but this registry holds: earlier configurations had them.
    pub(super) fn forget_logs(&mut self) {
        self.sinks.retain(|_, sink| Arc::strong_count(sink) > 1);
        self.error_logs.retain(|_, log| Arc::strong_count(log) > 1);
    }
}

impl Lowering<'_> {
    pub(super) fn access_logs(&mut self, settings: &LocationSettings) -> Vec<AccessLog> {
        let written: Vec<&model::AccessLog> = settings.log.access.iter().collect();
        written.into_iter().filter_map(|log| self.access_log(log, settings)).collect()
    }

    fn access_log(&mut self, log: &model::AccessLog, settings: &LocationSettings) -> Option<AccessLog> {
        let (place, name) = match &log.target {
            LogTarget::File(path) if path.as_text().is_none() => {
                (LogPlace::Named(settings.log.file_cache.into()), Some(self.log_name(path)))
            }
            target => (self.log_place(target, log.span)?, None),
        };
        let condition = log.condition.as_ref().map(|condition| self.template(condition));
        let format = self.format(log.format)?;
        let buffering = log.buffer.map(|bytes| Buffering {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            flush: log.flush,
            gzip: log.gzip,
        });
        let sink = self.sink(place, buffering, log.span);
        let awaited = buffering.is_none() && !matches!(sink.place(), LogPlace::Syslog(_));
        Some(AccessLog { format, sink, name, condition, awaited })
    }

    /// The list of the level, where it is not the process's own.
    pub(super) fn error_log(&mut self, settings: &LocationSettings) -> Option<Arc<ErrorLog>> {
        let mut targets = Vec::new();
        for log in &settings.log.error {
            targets.push(ErrorTarget { place: self.log_place(&log.target, log.span)?, level: log.level.into() });
        }
        let threshold = targets.iter().map(|target| target.level).min()?;
        let known = self.registry.error_logs.entry(targets.clone()).or_insert_with(|| {
            let bell = Arc::clone(&self.options.shared.log_bell);
            let offset = self.options.shared.error_log().utc_offset_minutes();
            Arc::new(ErrorLog::new(threshold, offset).for_workers(self.options.workers.into(), bell))
        });
        let log = Arc::clone(known);
        if !self.error_outputs.iter().any(|output| Arc::ptr_eq(&output.log, &log)) {
            self.error_outputs.push(ErrorOutput { log: Arc::clone(&log), targets });
        }
        Some(log)
    }

    /// Where a log without variables goes.
    fn log_place(&mut self, target: &LogTarget, span: Span) -> Option<LogPlace> {
        match target {
            LogTarget::File(path) => {
                let path = OsStr::from_bytes(path.as_text().unwrap_or_default());
                Some(LogPlace::File(self.options.prefix.join(path)))
            }
            LogTarget::Stderr => Some(LogPlace::Stderr),
            LogTarget::Syslog(written) => {
                match syslog_place(written, &self.options.hostname, self.options.resolve, span) {
                    Ok(place) => Some(LogPlace::Syslog(place)),
                    Err(error) => {
                        self.found.push(error);
                        None
                    }
                }
            }
        }
    }

    fn log_name(&mut self, path: &Template) -> NamePlan {
        let written = path.parts.iter().map(|part| match part {
            Part::Text(text) => parent_segments(text),
            Part::Variable(_) | Part::Capture(_) => 0,
        });
        let mut prefix = self.options.prefix.as_os_str().as_bytes().to_vec();
        prefix.push(b'/');
        let parents = written.sum::<usize>() + parent_segments(&prefix);
        NamePlan { path: self.template(path), prefix: prefix.into(), parents }
    }

    /// The sink of a place, shared by everybody who names it.
    fn sink(&mut self, place: LogPlace, buffering: Option<Buffering>, span: Span) -> Arc<LogSink> {
        let workers = usize::from(self.options.workers);
        let bell = Arc::clone(&self.options.shared.log_bell);
        let sinks = &mut self.registry.sinks;
        let sink = sinks.entry(place.clone()).or_insert_with(|| Arc::new(LogSink::new(place, workers, bell)));
        let sink = Arc::clone(sink);
        match self.logs.iter().find(|known| Arc::ptr_eq(&known.sink, &sink)) {
            Some(known) if known.buffering != buffering => {
                let message = "access_log already defined with conflicting parameters";
                let hint = "a file has one buffer: `buffer=`, `flush=` and `gzip=` are the same wherever it is named";
                self.found.push(Diagnostic::error(span, message).with_hint(hint));
            }
            Some(_) => {}
            None => self.logs.push(AccessOutput { sink: Arc::clone(&sink), buffering }),
        }
        sink
    }

    /// A compiled log format; each is compiled once.
    fn format(&mut self, id: model::LogFormatId) -> Option<Arc<LogFormat>> {
        let index = id.0 as usize;
        if let Some(Some(format)) = self.formats.get(index) {
            return Some(Arc::clone(format));
        }
        let written = self.http.log_formats.get(index)?;
        let escape = match written.escape {
            model::Escape::Default => rules::log_format::LogEscape::Default,
            model::Escape::Json => rules::log_format::LogEscape::Json,
            model::Escape::None => rules::log_format::LogEscape::None,
        };
        match LogFormat::compile(escape, &written.template, &self.users) {
            Ok(format) => {
                self.note_wanted(format.variables(), written.template.span);
                let format = Arc::new(format);
                self.formats[index] = Some(Arc::clone(&format));
                Some(format)
            }
            Err(error) => {
                self.found.push(error);
                None
            }
        }
    }
}
