//! Logs of a location: formats, conditions, file names, and the index of the log that gets the lines.

use crate::base::logs::access::{Buffering, LineName};
use crate::base::logs::place::{LogPlace, parent_segments};
use rules::log_format::LogFormat;
use rules::template::{Template, View};
use std::sync::Arc;

/// Index of an access log in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SinkId(pub(crate) u32);

/// Index of a list of `error_log`s in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ErrorLogId(pub(crate) u32);

/// An access log: there is one for each destination, shared by all that name it.
pub(crate) struct SinkPlan {
    pub(crate) place: LogPlace,
    pub(crate) buffering: Option<Buffering>,
}

impl SinkPlan {
    /// Whether a connection closes only when its line is written. Not with `buffer=`, which holds lines back, and not for
    /// syslog.
    pub(crate) fn is_awaited(&self) -> bool {
        self.buffering.is_none() && !matches!(self.place, LogPlace::Syslog(_))
    }
}

/// One `access_log` of a location.
pub(crate) struct AccessLogPlan {
    pub(crate) format: Arc<LogFormat>,
    pub(crate) sink: SinkId,
    /// The name of the file, if it has variables.
    pub(crate) name: Option<LogNamePlan>,
    /// `if=`: no line if this evaluates to empty or `0`.
    pub(crate) condition: Option<Template>,
}

/// The name of a log file, with variables.
pub(crate) struct LogNamePlan {
    pub(crate) path: Template,
    /// Prefix for a path that turns out to be relative; ends in a slash.
    pub(crate) prefix: Box<[u8]>,
    /// Number of `..` segments that the configuration itself wrote in the path.
    pub(crate) parents: usize,
}

impl AccessLogPlan {
    /// Whether `if=` wants a line.
    pub(crate) fn wants(&self, view: &impl View) -> bool {
        self.condition.as_ref().is_none_or(|condition| {
            let mut value = Vec::new();
            condition.write(view, &mut value);
            !value.is_empty() && value != b"0"
        })
    }

    /// The file for the line of a request; `None` if the sink knows it. The error is a path that is refused: a client's
    /// value must not lead to another directory.
    pub(crate) fn line_name(
        &self,
        view: &impl View,
        root: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Option<LineName>, Vec<u8>> {
        let Some(plan) = &self.name else { return Ok(None) };
        let mut name = LineName::default();
        plan.path.write(view, &mut name.path);
        if name.path.first() != Some(&b'/') {
            name.path.splice(..0, plan.prefix.iter().copied());
        }
        if name.path.contains(&0) || parent_segments(&name.path) > plan.parents {
            return Err(name.path);
        }
        root(&mut name.root);
        Ok(Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::variable::Variable;

    /// Knows only `$host`.
    struct Host(&'static [u8]);

    impl View for Host {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
            out.extend_from_slice(if *variable == Variable::Host { self.0 } else { b"" });
            *variable == Variable::Host
        }
    }

    fn log() -> AccessLogPlan {
        AccessLogPlan {
            format: Arc::new(LogFormat::combined()),
            sink: SinkId(0),
            name: Some(LogNamePlan {
                path: Template::variable(Variable::Host),
                prefix: b"/p/".as_slice().into(),
                parents: 0,
            }),
            condition: None,
        }
    }

    #[test]
    fn log_name_is_relative_to_directory_and_root() {
        let name = log().line_name(&Host(b"a.example"), |root| root.extend_from_slice(b"/srv")).unwrap();
        assert_eq!(name, Some(LineName { path: b"/p/a.example".to_vec(), root: b"/srv".to_vec() }));
    }

    #[test]
    fn a_name_does_not_leave_its_directory() {
        let name = |host| log().line_name(&Host(host), |_| {});
        assert_eq!(name(b"../x"), Err(b"/p/../x".to_vec()));
        assert!(name(b"a\0b").is_err());
        assert!(name(b"/absolute").is_ok(), "the configuration may begin with the variable");
    }
}
