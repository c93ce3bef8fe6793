//! gRPC in a proxied exchange: its client reads the gRPC status, not the HTTP status.

use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::registry::generation::BoundProxy;
use http1::{FieldId, Trailers};
use rules::grpc::Status;

/// Prefix of the content type of gRPC messages.
const CONTENT_TYPE: &[u8] = b"application/grpc";

impl Exchange {
    /// Turns an error of the gateway into a gRPC reply; other replies, and those to other clients, stay as they are.
    pub(crate) fn as_grpc(&self, reply: Reply) -> Reply {
        if reply.status < 400 || !matches!(reply.body, ReplyBody::ErrorPage) || !self.is_call() {
            return reply;
        }
        grpc_reply(Status::of_http(reply.status))
    }

    /// Whether the request is a gRPC call, in a location with `grpc_pass`.
    fn is_call(&self) -> bool {
        let request = &self.request;
        let kind = request.head.value(FieldId::ContentType, &request.bytes).unwrap_or_default();
        let is_grpc = kind.get(..CONTENT_TYPE.len()).is_some_and(|start| start.eq_ignore_ascii_case(CONTENT_TYPE));
        let proxy = || self.generation.proxy_of(&self.location().content, self.upstream.place());
        is_grpc && proxy().is_some_and(|proxy| proxy.is_grpc)
    }

    /// The response has begun and cannot be completed: ends it with this status, if trailers were announced. `false`:
    /// they were not.
    pub(super) fn break_off_call(&mut self, plan: &BoundProxy, status: Status) -> bool {
        if !plan.is_grpc || !self.is_call() {
            return false;
        }
        if self.response.filters.send_body(&mut self.down, b"", true).is_err() || !self.down.awaits_trailers() {
            return false;
        }
        let mut trailers = Trailers::default();
        trailers.push(FieldId::GrpcStatus, b"grpc-status", status.code.to_string().as_bytes());
        trailers.push(FieldId::GrpcMessage, b"grpc-message", status.message.as_bytes());
        self.upstream.keep_trailers(trailers);
        true
    }
}

/// A response that consists of a gRPC status only.
pub(super) fn grpc_reply(status: Status) -> Reply {
    let fields = vec![
        (FieldId::GrpcStatus, status.code.to_string().into_bytes()),
        (FieldId::GrpcMessage, status.message.as_bytes().to_vec()),
    ];
    Reply { status: 200, fields, content_type: Some(CONTENT_TYPE.into()), is_unmeasured: true, ..Reply::default() }
}
