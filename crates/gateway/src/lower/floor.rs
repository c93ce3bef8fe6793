//! `keepalive … floor=`: which connections are opened ahead of demand. When and by whom is `worker::warm`'s business.

use super::Lowering;
use crate::generation::FloorPlan;
use crate::group::PeerPlan;
use conf::diagnostic::Diagnostic;
use conf::model::UpstreamId;
use reactor::ConnectOptions;
use std::time::Duration;

impl Lowering<'_> {
    /// Notes the floor of a group for its peers, connected to as this proxy does it; once for each key.
    pub(super) fn note_floors(
        &mut self,
        upstream: UpstreamId,
        peers: &[PeerPlan],
        connect: &ConnectOptions,
        connect_timeout: Duration,
    ) {
        let Some(upstream) = self.http.upstreams.get(upstream.0 as usize) else { return };
        let keepalive = &upstream.settings.keepalive;
        if keepalive.floor == 0 {
            return;
        }
        let wanted = u64::from(keepalive.floor) * peers.len() as u64;
        let kept = u64::from(keepalive.idle) * if keepalive.local { 1 } else { u64::from(self.options.workers) };
        if wanted > kept && !self.floors.iter().any(|floor| peers.iter().any(|peer| peer.key == floor.key)) {
            let message = format!(
                "upstream \"{}\": floor={} for {} peers is {wanted} connections, and keepalive keeps {kept}",
                upstream.name,
                keepalive.floor,
                peers.len()
            );
            self.found.push(Diagnostic::warning(keepalive.span.unwrap_or(upstream.span), message));
        }
        for peer in peers {
            if !self.floors.iter().any(|floor| floor.key == peer.key) {
                self.floors.push(FloorPlan {
                    key: peer.key,
                    address: peer.address.clone(),
                    connect: connect.clone(),
                    connect_timeout,
                    floor: keepalive.floor,
                });
            }
        }
    }
}
