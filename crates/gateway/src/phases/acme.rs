//! `http-01` challenges: our own tokens are answered before any server's locations; all other paths and tokens are
//! handled as configured. Called when the server and the path are known.

use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use http1::Method;

const CHALLENGE_PATH: &[u8] = b"/.well-known/acme-challenge/";

impl Exchange {
    /// The answer to an authority, if the path is that of a current challenge.
    pub(crate) fn acme_challenge(&self) -> Option<Reply> {
        let token = self.uri().strip_prefix(CHALLENGE_PATH)?;
        if !matches!(self.routing.method(), Method::Get | Method::Head) {
            return None;
        }
        let token = std::str::from_utf8(token).ok()?;
        let answer = self.thread.registry.acme.challenges().http(token)?;
        Some(Reply {
            status: 200,
            content_type: Some(b"text/plain".as_slice().into()),
            body: ReplyBody::Bytes(answer.as_bytes().to_vec()),
            ..Reply::default()
        })
    }
}
