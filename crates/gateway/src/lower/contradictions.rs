//! Limits of a group that contradict each other (founding report 4): an error if a setting has no effect, a warning if
//! it costs connections, each with the numbers.

use crate::lower::Lowering;
use conf::diagnostic::Diagnostic;
use conf::model::Upstream;
use upstream::shared::{Contradiction, GroupLimits};

impl Lowering<'_> {
    /// Reports contradictions in a group. Only written settings are compared: the default pool cannot contradict them.
    pub(super) fn check_limits(&mut self, upstream: &Upstream, limits: &GroupLimits) {
        let keepalive_span = upstream.settings.keepalive.span;
        for contradiction in limits.contradictions(self.options.workers) {
            let span = keepalive_span.unwrap_or(upstream.span);
            let message = format!("upstream \"{}\": {contradiction}", upstream.name);
            self.found.push(match contradiction {
                Contradiction::IdleAboveConnections { .. } | Contradiction::IdleBelowConnections { .. }
                    if keepalive_span.is_none() =>
                {
                    continue;
                }
                Contradiction::IdleAboveConnections { .. } | Contradiction::IdleBelowConnections { .. } => {
                    Diagnostic::warning(span, message)
                }
                Contradiction::IdlePerPeerAboveIdle { .. } => Diagnostic::error(span, message),
                Contradiction::ConnectingAboveConnections { .. } | Contradiction::NothingToWaitFor { .. } => {
                    Diagnostic::error(upstream.span, message)
                }
            });
        }
    }
}
