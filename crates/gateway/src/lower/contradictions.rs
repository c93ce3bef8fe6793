//! Limits of a group that do not fit together (founding fact F4): refused where a word has no effect, warned about where it
//! costs connections, each with the numbers.

use crate::lower::Lowering;
use conf::diagnostic::Diagnostic;
use conf::model::Upstream;
use upstream::shared::{Contradiction, GroupLimits};

impl Lowering<'_> {
    /// Says what does not fit together in a group. Only what was written is held against the rest: the default pool
    /// cannot contradict it.
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
