//! What is known of the response before and while it is sent.

use crate::downstream::reply_head::Fields;
use crate::exchange::including::Inclusion;
use crate::exchange::user_id::UserIds;
use crate::filter::assembly::Assembly;
use crate::filter::chain::Chain;
use http1::FieldId;
use std::rc::Rc;

/// The response of an exchange.
#[derive(Default)]
pub(crate) struct Response {
    /// The status that was, or will be, sent; 0 until it is known.
    status: u16,
    /// The status under which an error page is sent, in place of its own.
    shown_status: Option<u16>,
    /// Fields of an upstream's response that are kept for the response that the client gets instead.
    carried: Option<Box<Fields>>,
    /// The Content-Type of the response with `X-Accel-Redirect`, for the redirect's target.
    carried_type: Option<Box<[u8]>>,
    /// `error_page` does not apply any more.
    error_pages_done: bool,
    /// `$limit_rate`: bytes per second of the response, once it is decided; 0 for no limit.
    limit_rate: Option<u64>,
    /// `X-Accel-Charset`
    accel_charset: Option<Box<[u8]>>,
    /// The character set of the response that this one becomes a part of; empty if that names none.
    outer_charset: Option<Box<[u8]>>,
    /// The page that the response is (`ssi`): its commands are executed whenever the exchange waits.
    pub(super) assembly: Option<Rc<Assembly>>,
    /// What the pages of one client's request share, if this response is one of them or a part of one.
    pub(super) inclusion: Option<Box<Inclusion>>,
    /// The ids of `userid`.
    pub(super) user_ids: UserIds,
    /// The response depends on Accept-Encoding, even if its head does not show that.
    varies: bool,
    /// The steps of the response's body on its way to the client's side.
    pub(crate) filters: Chain,
}

impl Response {
    /// The status that was, or will be, sent; 0 until it is known.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn set_status(&mut self, status: u16) {
        self.status = status;
    }

    /// `$status`: while an error page is made, the status with which it will be sent.
    pub(crate) fn present_status(&self) -> u16 {
        self.status_for(self.status)
    }

    /// The status for a response with this one: that of the error it is the page of, if it is one.
    pub(crate) fn status_for(&self, own: u16) -> u16 {
        self.shown_status.unwrap_or(own)
    }

    /// The status that the next response is shown under; `None`: its own.
    pub(crate) fn shown_status(&self) -> Option<u16> {
        self.shown_status
    }

    /// The next response is shown under this status; `None`: under its own.
    pub(crate) fn show_under(&mut self, status: Option<u16>) {
        self.shown_status = status;
    }

    /// The response is a part of the whole, unless it is shown under a status already.
    pub(crate) fn show_as_part(&mut self) {
        self.shown_status.get_or_insert(206);
    }

    /// The next error is answered by the built-in page.
    pub(crate) fn end_error_pages(&mut self) {
        self.error_pages_done = true;
    }

    /// Whether the next error may have a page of the configuration.
    pub(crate) fn allows_error_page(&self) -> bool {
        !self.error_pages_done
    }

    /// Whether errors of an error page have pages, too.
    pub(crate) fn allow_error_pages(&mut self, allowed: bool) {
        self.error_pages_done = !allowed;
    }

    /// Keeps a field for the response that the client gets instead of this one.
    pub(crate) fn carry(&mut self, name: &[u8], value: &[u8]) {
        self.carried.get_or_insert_default().push_named(name, value);
    }

    /// The same for a field that there is once.
    pub(crate) fn carry_only(&mut self, id: FieldId, value: &[u8]) {
        let carried = self.carried.get_or_insert_default();
        carried.remove(id);
        carried.push(id, value);
    }

    /// Drops the kept fields of a name.
    pub(crate) fn drop_carried(&mut self, id: FieldId) {
        if let Some(carried) = &mut self.carried {
            carried.remove(id);
        }
    }

    /// Drops all kept fields.
    pub(crate) fn drop_all_carried(&mut self) {
        self.carried = None;
    }

    /// Name and value of the kept fields.
    pub(crate) fn carried(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.carried.iter().flat_map(|carried| carried.iter(b""))
    }

    /// Keeps a media type for the target of `X-Accel-Redirect`.
    pub(crate) fn carry_type(&mut self, media: Option<Box<[u8]>>) {
        self.carried_type = media;
    }

    pub(crate) fn carried_type(&self) -> Option<&[u8]> {
        self.carried_type.as_deref()
    }

    /// `$limit_rate`: bytes per second, once it is decided; 0 for no limit.
    pub(crate) fn limit_rate(&self) -> Option<u64> {
        self.limit_rate
    }

    pub(crate) fn limit_rate_to(&mut self, rate: u64) {
        self.limit_rate = Some(rate);
    }

    /// `X-Accel-Charset`
    pub(crate) fn accel_charset(&self) -> Option<&[u8]> {
        self.accel_charset.as_deref()
    }

    pub(crate) fn set_accel_charset(&mut self, charset: Box<[u8]>) {
        self.accel_charset = Some(charset);
    }

    /// The character set of the response that this one becomes a part of; empty if that names none.
    pub(crate) fn outer_charset(&self) -> Option<&[u8]> {
        self.outer_charset.as_deref()
    }

    /// It becomes a part of a response in this character set; `None`: it is no part.
    pub(crate) fn become_part(&mut self, charset: Option<Box<[u8]>>) {
        self.outer_charset = charset;
    }

    /// Notes that the response depends on Accept-Encoding.
    pub(crate) fn note_variant(&mut self) {
        self.varies = true;
    }

    /// Whether that was noted, once.
    pub(crate) fn take_variant(&mut self) -> bool {
        std::mem::take(&mut self.varies)
    }

    /// Drops the filters of a response that was begun but not sent.
    pub(crate) fn forget_filters(&mut self) {
        self.filters.set_packer(None);
        self.filters.set_stages(Vec::new());
        self.assembly = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_an_error_page_is_the_one_it_is_shown_under() {
        let mut response = Response::default();
        response.set_status(200);
        assert_eq!((response.status(), response.present_status()), (200, 200));
        response.show_under(Some(503));
        assert_eq!((response.status(), response.present_status(), response.status_for(404)), (200, 503, 503));
        response.show_as_part();
        assert_eq!(response.shown_status(), Some(503), "the page of an error is no part");
        response.show_under(None);
        response.show_as_part();
        assert_eq!((response.shown_status(), response.status_for(200)), (Some(206), 206));
    }

    #[test]
    fn error_pages_end_and_begin_again() {
        let mut response = Response::default();
        assert!(response.allows_error_page());
        response.end_error_pages();
        assert!(!response.allows_error_page());
        response.allow_error_pages(true);
        assert!(response.allows_error_page());
        response.allow_error_pages(false);
        assert!(!response.allows_error_page());
    }

    #[test]
    fn carried_fields_are_added_replaced_and_dropped() {
        fn shown(response: &Response) -> String {
            let line = |(name, value): (&[u8], &[u8])| format!("{}={};", name.escape_ascii(), value.escape_ascii());
            response.carried().map(line).collect()
        }
        let mut response = Response::default();
        response.drop_carried(FieldId::Location);
        assert_eq!(shown(&response), "");
        response.carry(b"X-A", b"1");
        response.carry(b"X-A", b"2");
        response.carry_only(FieldId::Location, b"/a");
        response.carry_only(FieldId::Location, b"/b");
        assert_eq!(shown(&response), "X-A=1;X-A=2;Location=/b;");
        response.drop_carried(FieldId::Location);
        assert_eq!(shown(&response), "X-A=1;X-A=2;");
        response.drop_all_carried();
        assert_eq!(shown(&response), "");
        response.carry_type(Some(b"text/css".as_slice().into()));
        assert_eq!(response.carried_type(), Some(&b"text/css"[..]));
        response.carry_type(None);
        assert_eq!(response.carried_type(), None);
    }

    #[test]
    fn rate_character_sets_and_variant_are_as_noted() {
        let mut response = Response::default();
        assert_eq!((response.limit_rate(), response.accel_charset(), response.outer_charset()), (None, None, None));
        response.limit_rate_to(0);
        response.set_accel_charset(b"utf-8".as_slice().into());
        response.become_part(Some(Box::default()));
        assert_eq!(response.limit_rate(), Some(0));
        assert_eq!((response.accel_charset(), response.outer_charset()), (Some(&b"utf-8"[..]), Some(&b""[..])));
        assert!(!response.take_variant());
        response.note_variant();
        assert!(response.take_variant() && !response.take_variant());
    }
}
