//! What is known of the response before and while it is sent.

use crate::downstream::reply_head::Fields;
use crate::exchange::including::Inclusion;
use crate::exchange::user_id::UserIds;
use crate::filter::assembly::Assembly;
use crate::filter::chain::Chain;
use std::rc::Rc;

/// The response of an exchange.
#[derive(Default)]
pub(crate) struct Response {
    /// The status that was, or will be, sent; 0 until it is known.
    pub(crate) status: u16,
    /// The status under which an error page is sent, in place of its own.
    pub(crate) shown_status: Option<u16>,
    /// Fields of an upstream's response that are kept for the response that the client gets instead.
    pub(crate) carried: Option<Box<Fields>>,
    /// The Content-Type of the response with `X-Accel-Redirect`, for the redirect's target.
    pub(crate) carried_type: Option<Box<[u8]>>,
    /// `error_page` does not apply any more.
    pub(crate) error_pages_done: bool,
    /// `$limit_rate`: bytes per second of the response, once it is decided; 0 for no limit.
    pub(crate) limit_rate: Option<u64>,
    /// `X-Accel-Charset`
    pub(crate) said_charset: Option<Box<[u8]>>,
    /// The character set of the response that this one becomes a part of; empty if that names none.
    pub(crate) outer_charset: Option<Box<[u8]>>,
    /// The page that the response is (`ssi`): its commands are executed whenever the exchange waits.
    pub(crate) assembly: Option<Rc<Assembly>>,
    /// What the pages of one client's request share, if this response is one of them or a part of one.
    pub(crate) inclusion: Option<Box<Inclusion>>,
    /// The ids of `userid`.
    pub(crate) user_ids: UserIds,
    /// The response depends on Accept-Encoding, even if its head does not show that.
    pub(crate) varies: bool,
    /// The steps of the response's body on its way to the client's side.
    pub(crate) filters: Chain,
}

impl Response {
    /// `$status`: while an error page is made, the status with which it will be sent.
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
