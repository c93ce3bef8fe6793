//! The request's body: how far it was read, and what was kept of it.

use crate::base::body_file::RemovedName;
use crate::downstream::body::RequestBody;
use crate::upstream::replay_body::ReplayBody;
use http1::BodyFraming;

/// The request's body.
pub(crate) struct Intake {
    pub(crate) body: RequestBody,
    /// Kept for further attempts and proxies.
    pub(crate) replay: ReplayBody,
    /// The name of the body's file, if it has one until the end of the request.
    pub(crate) file_name: Option<Box<RemovedName>>,
    /// The body was refused: it is neither measured again nor passed on.
    pub(crate) refused: bool,
}

impl Intake {
    pub(crate) fn new(body: RequestBody) -> Self {
        Self { body, replay: ReplayBody::None, file_name: None, refused: false }
    }

    /// A body that another exchange has read.
    pub(crate) fn of_body(replay: ReplayBody) -> Self {
        let body = RequestBody::received(replay.length());
        Self { body, replay, file_name: None, refused: false }
    }

    /// Whether it can be sent again, to another peer or proxy.
    pub(crate) fn can_replay(&self) -> bool {
        self.replay.can_replay(self.body.received)
    }

    /// The announced length if it exceeds a limit; 0 is no limit. A refused body is not measured again.
    pub(crate) fn announces_more_than(&self, bytes_max: u64) -> Option<u64> {
        let BodyFraming::Length(length) = self.body.framing() else { return None };
        (bytes_max > 0 && length > bytes_max && !self.refused).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_too_large_by_what_it_announces_and_only_once() {
        let of = |framing| Intake::new(RequestBody::new(framing));
        let mut intake = of(BodyFraming::Length(11));
        assert_eq!((intake.announces_more_than(10), intake.announces_more_than(11)), (Some(11), None));
        assert_eq!(intake.announces_more_than(0), None, "no limit");
        intake.refused = true;
        assert_eq!(intake.announces_more_than(10), None);
        assert_eq!(of(BodyFraming::Chunked).announces_more_than(10), None);
    }
}
