//! A check's conversation, for all protocols. The control plane moves the bytes.

use crate::plan::check::{Asked, CheckPlan};
use crate::registry::checks::CheckResult;
use crate::registry::checks::answer::CheckAnswer;
use crate::registry::checks::grpc_answer::GrpcAnswer;

/// A check in progress that sends a request.
pub enum CheckTalk<'plan> {
    /// An HTTP/1.1 request, sent or not.
    Http(CheckAnswer<'plan>, &'plan [u8]),
    /// A gRPC call.
    Grpc(Box<GrpcAnswer<'plan>>),
}

impl<'plan> CheckTalk<'plan> {
    /// Starts a check; `None`: connecting is enough.
    pub fn begin(plan: &'plan CheckPlan) -> Option<Self> {
        match &plan.asked {
            Asked::Nothing => None,
            Asked::Http(check) => Some(Self::Http(CheckAnswer::new(check), &check.request)),
            Asked::Grpc(check) => Some(Self::Grpc(Box::new(GrpcAnswer::new(check, plan.tls.is_some())))),
        }
    }

    /// Takes the bytes to send next; empty if the peer has to answer.
    pub fn take_output(&mut self) -> Vec<u8> {
        match self {
            Self::Http(_, request) => std::mem::take(request).to_vec(),
            Self::Grpc(grpc) => grpc.take_output(),
        }
    }

    /// The present step, in the words of an error log.
    pub fn phase(&self) -> &'static str {
        match self {
            Self::Http(http, _) => http.phase(),
            Self::Grpc(grpc) => grpc.phase(),
        }
    }

    /// Takes further bytes. Returns the result as soon as there is one; the rest is then not needed.
    pub fn take(&mut self, bytes: &[u8]) -> Option<CheckResult> {
        match self {
            Self::Http(http, _) => http.take(bytes),
            Self::Grpc(grpc) => grpc.take(bytes),
        }
    }

    /// The result when the peer has closed.
    pub fn end(&self) -> CheckResult {
        match self {
            Self::Http(http, _) => http.end(),
            Self::Grpc(grpc) => grpc.end(),
        }
    }
}
