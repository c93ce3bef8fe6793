//! What a check says and hears, whichever protocol it asks in. The control plane moves the bytes.

use crate::plan::check::{Asked, CheckPlan};
use crate::registry::checks::CheckResult;
use crate::registry::checks::answer::CheckAnswer;
use crate::registry::checks::grpc_answer::GrpcAnswer;

/// A check that has something to ask, on its way.
pub enum CheckTalk<'plan> {
    /// By a request of HTTP/1.1, not sent yet or sent.
    Http(CheckAnswer<'plan>, &'plan [u8]),
    /// By a call of gRPC.
    Grpc(Box<GrpcAnswer<'plan>>),
}

impl<'plan> CheckTalk<'plan> {
    /// Begins one; `None`: connecting is enough.
    pub fn begin(plan: &'plan CheckPlan) -> Option<Self> {
        match &plan.asked {
            Asked::Nothing => None,
            Asked::Http(check) => Some(Self::Http(CheckAnswer::new(check), &check.request)),
            Asked::Grpc(check) => Some(Self::Grpc(Box::new(GrpcAnswer::new(check, plan.tls.is_some())))),
        }
    }

    /// What is to be sent next; nothing where it is the peer's turn.
    pub fn take_output(&mut self) -> Vec<u8> {
        match self {
            Self::Http(_, request) => std::mem::take(request).to_vec(),
            Self::Grpc(grpc) => grpc.take_output(),
        }
    }

    /// What is being done, in the words of an error log.
    pub fn phase(&self) -> &'static str {
        match self {
            Self::Http(http, _) => http.phase(),
            Self::Grpc(grpc) => grpc.phase(),
        }
    }

    /// Further bytes. The result, as soon as there is one: then the rest is not needed.
    pub fn take(&mut self, bytes: &[u8]) -> Option<CheckResult> {
        match self {
            Self::Http(http, _) => http.take(bytes),
            Self::Grpc(grpc) => grpc.take(bytes),
        }
    }

    /// The peer has closed.
    pub fn end(&self) -> CheckResult {
        match self {
            Self::Http(http, _) => http.end(),
            Self::Grpc(grpc) => grpc.end(),
        }
    }
}
