//! `status_page`: chooses the format and has the document made on a thread that may block. `status` renders it.

use crate::content::status;
use crate::content::status::StatusFormat;
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use http1::{FieldId, Method};
use std::sync::Arc;

impl Exchange {
    /// Whether the client is on this host, or the location has checks of its own, which the client has passed.
    fn may_see_status(&self) -> bool {
        self.location().access.is_some() || self.client().ip().is_none_or(|ip| ip.to_canonical().is_loopback())
    }

    /// The status, as the client wants it.
    pub(crate) async fn status_page(&mut self) -> Reply {
        if !self.may_see_status() {
            self.error_log("the status page is for this host: \"allow\" opens it to others");
            return Reply::error(403);
        }
        if !matches!(self.routing.method(), Method::Get | Method::Head) {
            return Reply { fields: vec![(FieldId::Allow, b"GET, HEAD".to_vec())], ..Reply::error(405) };
        }
        let accept = self.request.head.value(FieldId::Accept, &self.request.bytes);
        let Ok(format) = StatusFormat::of_request(self.uri(), self.args(), accept) else {
            return Reply {
                status: 400,
                content_type: Some(b"text/plain".as_slice().into()),
                body: ReplyBody::Bytes(b"format= is html, json, prometheus, openmetrics or protobuf\n".to_vec()),
                ..Reply::default()
            };
        };
        let (registry, generation) = (self.thread.registry, Arc::clone(&self.generation.0));
        match self.offload(move || status::render(registry, &generation, format)).await {
            Ok(document) => Reply {
                status: 200,
                // The numbers are outdated at once, so nothing may cache them.
                fields: vec![(FieldId::CacheControl, b"no-store".to_vec()), (FieldId::Vary, b"Accept".to_vec())],
                content_type: Some(format.content_type().as_bytes().into()),
                body: ReplyBody::Bytes(document),
                ..Reply::default()
            },
            Err(error) => {
                self.error_log(&format!("the status page could not be made: {error}"));
                Reply::error(503)
            }
        }
    }
}
