//! The end of a proxied exchange's time: of a gRPC call, by its client (`grpc-timeout`), or of any other request, by
//! `proxy_request_timeout`. It bounds all waits and attempts until the response is complete.

use crate::content::proxy::Tried;
use crate::content::proxy::grpc::grpc_reply;
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::step::Step;
use crate::registry::generation::BoundProxy;
use http1::FieldId;
use rules::grpc::{Status, parse_timeout};
use std::time::Duration;

impl Exchange {
    /// Sets the deadline, counted from the head of the request.
    pub(super) fn begin_call(&mut self, plan: &BoundProxy) {
        let request = &self.request;
        let timeout = if plan.is_grpc {
            request.head.value(FieldId::GrpcTimeout, &request.bytes).and_then(parse_timeout)
        } else {
            plan.request_timeout
        };
        self.upstream.begin_call(timeout.map(|timeout| self.began_at.millis().after(timeout)));
    }

    /// The time that is left; `None`: there is no limit.
    pub(crate) fn call_time_left(&self) -> Option<Duration> {
        let deadline = self.upstream.call_deadline()?;
        Some(Duration::from_millis(deadline.since(self.thread.reactor.now())))
    }

    /// Whether the time is over.
    pub(super) fn is_call_over(&self) -> bool {
        self.call_time_left().is_some_and(|left| left.is_zero())
    }

    /// Ends it; later waits are for the client only. If the deadline has passed, the client gets that error, independent of the
    /// wait that it ended.
    pub(super) fn end_call(&mut self, plan: &BoundProxy, tried: Tried) -> Tried {
        let is_over = self.is_call_over();
        self.upstream.end_call();
        match tried {
            Tried::Step(Step::Reply(Reply { body: ReplyBody::ErrorPage, .. })) if is_over => {
                self.log_end_of_time(plan, "");
                let reply = if plan.is_grpc { grpc_reply(Status::DEADLINE_EXCEEDED) } else { Reply::error(504) };
                Tried::Step(Step::Reply(reply))
            }
            tried => tried,
        }
    }

    /// Logs that the time is over; `during` is what it ended.
    pub(super) fn log_end_of_time(&self, plan: &BoundProxy, during: &str) {
        if plan.is_grpc {
            self.client_log(&format!("the time of the call (grpc-timeout) is over{during}"));
        } else {
            self.error_log(&format!("the time of the request (proxy_request_timeout) is over{during}"));
        }
    }
}
