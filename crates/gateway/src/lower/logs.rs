//! Logs of a location: compiles formats and finds destinations. Each destination is listed once, even if several logs
//! name it.

use crate::base::logs::access::Buffering;
use crate::base::logs::error::ErrorTarget;
use crate::base::logs::place::{LogPlace, parent_segments, syslog_place};
use crate::lower::Lowering;
use crate::plan::logs::{AccessLogPlan, ErrorLogId, LogNamePlan, SinkId, SinkPlan};
use conf::diagnostic::Diagnostic;
use conf::model::{self, LogSettings, LogTarget};
use conf::source::Span;
use conf::value::{Part, Template};
use rules::log_format::LogFormat;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

impl Lowering<'_> {
    pub(super) fn access_logs(&mut self, settings: &LogSettings) -> Vec<AccessLogPlan> {
        let written: Vec<&model::AccessLog> = settings.access.iter().collect();
        written.into_iter().filter_map(|log| self.access_log(log, settings)).collect()
    }

    fn access_log(&mut self, log: &model::AccessLog, settings: &LogSettings) -> Option<AccessLogPlan> {
        let (place, name) = match &log.target {
            LogTarget::File(path) if path.as_text().is_none() => {
                (LogPlace::Named(settings.file_cache.into()), Some(self.log_name(path)))
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
        Some(AccessLogPlan { format, sink, name, condition })
    }

    /// The location's list of error logs, if it is not the process's own.
    pub(super) fn error_log(&mut self, settings: &LogSettings) -> Option<ErrorLogId> {
        let mut targets = Vec::new();
        for log in &settings.error {
            targets.push(ErrorTarget { place: self.log_place(&log.target, log.span)?, level: log.level.into() });
        }
        if targets.is_empty() {
            return None;
        }
        let known = &mut self.plan.error_logs;
        let place = known.iter().position(|known| *known == targets).unwrap_or_else(|| {
            known.push(targets);
            known.len() - 1
        });
        if let Some(sharing) = &mut self.sharing {
            sharing.note_error_log(place);
        }
        Some(ErrorLogId(place as u32))
    }

    /// The destination of a log without variables.
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

    fn log_name(&mut self, path: &Template) -> LogNamePlan {
        let written = path.parts.iter().map(|part| match part {
            Part::Text(text) => parent_segments(text),
            Part::Variable(_) | Part::Capture(_) => 0,
        });
        let mut prefix = self.options.prefix.as_os_str().as_bytes().to_vec();
        prefix.push(b'/');
        let parents = written.sum::<usize>() + parent_segments(&prefix);
        LogNamePlan { path: self.template(path), prefix: prefix.into(), parents }
    }

    /// The sink of a destination, shared by all logs that name it. If one of them has `buffer=`, it applies to all: a file
    /// has one buffer.
    fn sink(&mut self, place: LogPlace, buffering: Option<Buffering>, span: Span) -> SinkId {
        let known = self.plan.sinks.iter().position(|known| known.place == place);
        let index = known.unwrap_or(self.plan.sinks.len());
        match self.plan.sinks.get_mut(index) {
            Some(SinkPlan { buffering: Some(known), .. }) if buffering.is_some_and(|buffering| buffering != *known) => {
                let message = "access_log already defined with conflicting parameters";
                let hint =
                    "a file has one buffer: where `buffer=`, `flush=` or `gzip=` is written, all three are the same";
                self.found.push(Diagnostic::error(span, message).with_hint(hint));
            }
            Some(known) => known.buffering = known.buffering.or(buffering),
            None => self.plan.sinks.push(SinkPlan { place, buffering }),
        }
        if let Some(sharing) = &mut self.sharing {
            sharing.note_sink(index);
        }
        SinkId(index as u32)
    }

    /// A compiled log format; each is compiled once.
    fn format(&mut self, id: model::LogFormatId) -> Option<Arc<LogFormat>> {
        let index = id.0 as usize;
        if let Some(sharing) = &mut self.sharing {
            sharing.note_format(index);
        }
        if let Some(Some(format)) = self.formats.get(index) {
            return Some(Arc::clone(format));
        }
        let written = self.declared.log_formats.get(index)?;
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
