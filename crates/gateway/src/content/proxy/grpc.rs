//! gRPC in a proxied exchange: a call has a deadline of its own, and its client reads the gRPC status, not the HTTP
//! status.

use crate::content::proxy::Tried;
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::step::Step;
use crate::registry::generation::BoundProxy;
use http1::{FieldId, Trailers};
use rules::grpc::{Status, parse_timeout};
use std::time::Duration;

/// Prefix of the content type of gRPC messages.
const CONTENT_TYPE: &[u8] = b"application/grpc";

impl Exchange {
    /// Sets the call's deadline, counted from its head.
    pub(super) fn begin_call(&mut self, plan: &BoundProxy) {
        let request = &self.request;
        let timeout = request.head.value(FieldId::GrpcTimeout, &request.bytes).filter(|_| plan.is_grpc);
        let deadline = timeout.and_then(parse_timeout).map(|timeout| self.began_at.millis().after(timeout));
        self.upstream.begin_call(deadline);
    }

    /// The time that the call has left; `None`: it has no limit.
    pub(crate) fn call_time_left(&self) -> Option<Duration> {
        let deadline = self.upstream.call_deadline()?;
        Some(Duration::from_millis(deadline.since(self.thread.reactor.now())))
    }

    /// Whether the time of the call is over.
    pub(super) fn is_call_over(&self) -> bool {
        self.call_time_left().is_some_and(|left| left.is_zero())
    }

    /// Ends the call; later waits are for the client only. If the deadline has passed, the client gets that error,
    /// independent of the wait that it ended.
    pub(super) fn end_call(&mut self, tried: Tried) -> Tried {
        let is_over = self.is_call_over();
        self.upstream.end_call();
        match tried {
            Tried::Step(Step::Reply(Reply { body: ReplyBody::ErrorPage, .. })) if is_over => {
                self.client_log("the time of the call (grpc-timeout) is over");
                Tried::Step(Step::Reply(grpc_reply(Status::DEADLINE_EXCEEDED)))
            }
            tried => tried,
        }
    }

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
fn grpc_reply(status: Status) -> Reply {
    let fields = vec![
        (FieldId::GrpcStatus, status.code.to_string().into_bytes()),
        (FieldId::GrpcMessage, status.message.as_bytes().to_vec()),
    ];
    Reply { status: 200, fields, content_type: Some(CONTENT_TYPE.into()), is_unmeasured: true, ..Reply::default() }
}
