//! `keepalive … floor=`: which connections are opened ahead of demand. When and by whom is `worker::warm`'s business.

use crate::lower::Lowering;
use crate::plan::generation::{FloorPlan, MovingFloor, SourcePlan, WarmingPlan};
use crate::registry::group::{GroupPlan, Members};
use conf::diagnostic::Diagnostic;
use conf::model::UpstreamId;
use reactor::ConnectOptions;
use std::sync::Arc;
use std::time::Duration;

impl Lowering<'_> {
    /// Notes the floor of a group for its peers, connected to as this proxy does it; once for each key.
    pub(super) fn note_floors(
        &mut self,
        upstream: UpstreamId,
        group: &Arc<GroupPlan>,
        (connect, source): &(ConnectOptions, SourcePlan),
        connect_timeout: Duration,
    ) {
        let Some(upstream) = self.http.upstreams.get(upstream.0 as usize) else { return };
        let keepalive = &upstream.settings.keepalive;
        // A connection from a request's own source is nobody else's, so there is nothing to open ahead.
        if keepalive.floor == 0 || matches!(source, SourcePlan::Template(_)) {
            return;
        }
        let warming = WarmingPlan { connect: connect.clone(), connect_timeout, floor: keepalive.floor };
        let peers = match &group.members {
            Members::Fixed(set) => set.distinct().collect::<Vec<_>>(),
            Members::Moving(_) => {
                // How many peers there will be is not known, so that nothing can be held against the pool's size.
                if !self.moving_floors.iter().any(|floor| Arc::ptr_eq(&floor.group, group)) {
                    self.moving_floors.push(MovingFloor { group: Arc::clone(group), warming });
                }
                return;
            }
        };
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
                let (key, address) = (peer.key, peer.address.clone());
                self.floors.push(FloorPlan { key, address, warming: warming.clone() });
            }
        }
    }
}
