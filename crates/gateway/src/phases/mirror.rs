//! `mirror`: sends copies of a request elsewhere; nothing waits for their results.

use crate::downstream::internal::WantedParts;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::subrequest::Errand;
use crate::plan::access::MirrorPlan;
use crate::upstream::replay_body::ReplayBody;

impl Exchange {
    /// Starts the copies. If they carry the request's body, all of it is read first.
    pub(crate) async fn mirror(&mut self, plan: &MirrorPlan) -> Result<(), Reply> {
        let body = if plan.with_body { self.read_whole_body().await? } else { ReplayBody::None };
        for uri in &plan.uris {
            let errand = Errand {
                uri: uri.to_vec(),
                method: self.routing.method(),
                wanted: WantedParts::Nothing,
                body: body.clone(),
                sets: None,
                charset: None,
                resumes: None,
                args: None,
                inclusion: None,
            };
            // Dropping the handle does not end the subrequest: nothing is wanted of it.
            drop(self.start(errand));
        }
        Ok(())
    }
}
