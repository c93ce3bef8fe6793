//! `keepalive … floor=`: which connections are opened ahead of demand. `worker::warm` decides when, and which worker
//! does it.

use crate::lower::Lowering;
use crate::lower::proxy::Pass;
use crate::plan::group::{AddressSource, FloorPlan, GroupPlan, GroupUseId, WarmingPlan};
use crate::plan::proxy::SourcePlan;
use crate::plan::upstream_tls::{NamePlan, UpstreamTlsPlan};
use conf::diagnostic::Diagnostic;
use conf::model::Upstream;
use reactor::{ConnectOptions, PeerAddress};
use std::collections::HashSet;
use std::sync::Arc;

impl Lowering<'_> {
    /// Notes the floor of a group's peers, with this proxy's connection settings; once for each use of the group.
    pub(super) fn note_floors(
        &mut self,
        upstream: &Upstream,
        group: GroupUseId,
        (connect, source): &(ConnectOptions, SourcePlan),
        pass: Pass<'_>,
        tls: Option<&UpstreamTlsPlan>,
    ) {
        let keepalive = &upstream.settings.keepalive;
        // No other request may use a connection from a request's own source, so nothing can be opened ahead.
        let is_kept = pass.settings.application_words(pass.scheme).is_none_or(|words| words.keep_conn);
        if keepalive.floor == 0 || !is_kept || matches!(source, SourcePlan::Template(_)) {
            return;
        }
        if self.plan.floors.iter().any(|floor| floor.group == group) {
            return;
        }
        if tls.is_some_and(|tls| tls.certificate.is_some() || matches!(tls.name, NamePlan::Made(_))) {
            let message =
                "\"floor\" of \"keepalive\" has no effect for a proxy whose name or certificate in TLS has variables";
            let hint = "a connection belongs to the name that it was opened for: write `proxy_ssl_name` and \
                        `proxy_ssl_certificate` without variables";
            let span = keepalive.span.unwrap_or(upstream.span);
            return self.found.push(Diagnostic::warning(span, message).with_hint(hint));
        }
        let warming = WarmingPlan {
            connect: connect.clone(),
            connect_timeout: pass.transport().connect_timeout,
            tls: tls.cloned(),
            http2: pass.speaks_http2(),
            floor: self.options.share.divide(keepalive.floor),
        };
        self.plan.floors.push(FloorPlan { group, warming });
        // The number of peers of a name is unknown, so the floor cannot be compared with the pool's size.
        let Some(peers) = fixed_peers(&self.group_of(group)) else { return };
        let wanted = u64::from(self.options.share.divide(keepalive.floor)) * peers as u64;
        let kept = u64::from(keepalive.idle) * if keepalive.local { 1 } else { u64::from(self.options.workers) };
        if wanted > kept {
            let message = format!(
                "upstream \"{}\": floor={} for {peers} peers is {wanted} connections, and keepalive keeps {kept}",
                upstream.name, keepalive.floor,
            );
            self.found.push(Diagnostic::warning(keepalive.span.unwrap_or(upstream.span), message));
        }
    }

    fn group_of(&self, used: GroupUseId) -> Arc<GroupPlan> {
        let used = self.plan.group_uses.get(used.0);
        Arc::clone(self.plan.groups.get(used.group.0))
    }
}

/// Number of peers of a group, counting equal addresses once; `None` if names determine it.
fn fixed_peers(group: &GroupPlan) -> Option<usize> {
    let mut known: HashSet<&PeerAddress> = HashSet::new();
    for server in &group.servers {
        match &server.source {
            AddressSource::Fixed(addresses) => known.extend(addresses),
            AddressSource::Name(..) => return None,
        }
    }
    Some(known.len())
}
