//! What is known of the response before, and while, it is sent.

use crate::downstream::reply_head::Fields;
use crate::exchange::user_id::UserIds;
use crate::filter::chain::Chain;

/// The response of an exchange.
#[derive(Default)]
pub(crate) struct Response {
    /// The status that was, or will be, sent; 0 until it is known.
    pub(crate) status: u16,
    /// The status under which an error page is sent, whatever its own.
    pub(crate) shown_status: Option<u16>,
    /// Fields of an upstream's response that go with the response that the client gets instead of it.
    pub(crate) carried: Option<Box<Fields>>,
    /// The type that the upstream gave what `X-Accel-Redirect` leads to.
    pub(crate) carried_type: Option<Box<[u8]>>,
    /// `error_page` has no more say.
    pub(crate) error_pages_done: bool,
    /// `$limit_rate`: bytes per second of the response, once it is known; 0 for no limit.
    pub(crate) limit_rate: Option<u64>,
    /// `X-Accel-Charset`
    pub(crate) said_charset: Option<Box<[u8]>>,
    /// The character set of the response that this one becomes a part of; empty where it names none.
    pub(crate) outer_charset: Option<Box<[u8]>>,
    /// The numbers of `userid`.
    pub(crate) user_ids: UserIds,
    /// It depends on what the client takes, whatever its head says.
    pub(crate) varies: bool,
    /// What the response's body goes through on its way to the client's side.
    pub(crate) filters: Chain,
}

impl Response {
    /// `$status`: while an error page is made, the status that it will be sent under.
    pub(crate) fn present_status(&self) -> u16 {
        self.shown_status.unwrap_or(self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_an_error_page_is_the_one_it_is_shown_under() {
        let mut response = Response { status: 200, ..Response::default() };
        assert_eq!(response.present_status(), 200);
        response.shown_status = Some(503);
        assert_eq!(response.present_status(), 503);
    }
}
