//! The filters of bodies, in one table: [`ORDER`]. Each decides by a head whether it takes part, edits the head, and makes
//! the stage for the body. Compression comes after all of them (`gzip.rs`): its output goes straight to the client's
//! side.

use crate::downstream::internal::Subrequest;
use crate::downstream::reply_head::{HeadView, ReplyHead};
use crate::filter::additions::{AdditionStep, RoomStep};
use crate::filter::assembly::PageStep;
use crate::filter::charset::RecodeStep;
use crate::filter::gunzip::UnpackStep;
use crate::filter::gzip::GzipClient;
use crate::filter::stage::Stage;
use crate::filter::substitute::SubstituteStep;
use crate::plan::location::LocationPlan;
use rules::charset::Charsets;
use rules::ssi::PageSettings;
use rules::template::Template;

/// All filters of bodies, in the order of their stages. To add one: its settings in `plan/filters.rs` and in
/// `LocationPlan` (`changes_bodies` names them), a module beside this one, and a line here.
const ORDER: [&dyn BodyFilter; 6] = [
    // The others read text.
    &UnpackStep,
    // The head of an extended body has no length, which the steps below look at. The bodies themselves come last: as in
    // nginx, `sub_filter` does not see them.
    &RoomStep,
    &SubstituteStep,
    &RecodeStep,
    // As in nginx, `ssi` sees the output of all above.
    &PageStep,
    &AdditionStep,
];

/// Whether a response may be compressed or unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compress {
    No,
    Yes,
    /// Received data is passed on at once.
    Flushing,
}

/// One filter of bodies.
pub(crate) trait BodyFilter: Sync {
    /// Whether it would change the length of a whole response with this head: parts of it cannot be asked for then.
    fn would_change(&self, host: &dyn FilterHost, head: HeadView<'_>) -> bool;

    /// Edits a head, and returns the stage for the body. `None`: the filter leaves the body alone, or the response has
    /// none.
    fn begin(&self, host: &mut dyn FilterHost, head: &mut ReplyHead, compress: Compress) -> Option<Box<dyn Stage>>;
}

/// What filters ask for besides a head: the exchange.
pub(crate) trait FilterHost {
    fn location(&self) -> &LocationPlan;

    /// The bytes that fields of the upstream point into.
    fn upstream_bytes(&self) -> &[u8];

    fn gzip_client(&self) -> GzipClient<'_>;

    fn is_subrequest(&self) -> bool;

    /// Whether clients see the body: of some subrequests only the status is used.
    fn shows_body(&self) -> bool;

    /// Whether a response with this head has a body on its way to the client.
    fn sends_body(&self, head: &ReplyHead) -> bool;

    fn charsets(&self) -> &Charsets;

    /// `X-Accel-Charset`
    fn accel_charset(&self) -> Option<&[u8]>;

    /// The character set of the response that this one becomes a part of; empty if that names none.
    fn outer_charset(&self) -> Option<&[u8]>;

    /// The character set for the parts of a response with this head.
    fn charset_of_parts(&self, head: &ReplyHead) -> Box<[u8]>;

    /// Evaluates a template while a head is made.
    fn value(&self, template: &Template, head: HeadView<'_>) -> Vec<u8>;

    /// A value as one line; `directive` is named if it was more.
    fn as_line(&self, value: Vec<u8>, directive: &str) -> Vec<u8>;

    /// Reports an error of the configuration or the response.
    fn report(&self, message: &str);

    /// Starts a subrequest for a body in this character set.
    fn start_body(&self, uri: Vec<u8>, charset: Box<[u8]>) -> Subrequest;

    /// Begins a page (`ssi`). The exchange executes its commands.
    fn begin_page(&mut self, settings: PageSettings, head: &ReplyHead) -> Box<dyn Stage>;
}

/// Applies the filters to a head, and returns the stages for the body.
pub(crate) fn begin(host: &mut dyn FilterHost, head: &mut ReplyHead, compress: Compress) -> Vec<Box<dyn Stage>> {
    ORDER.iter().filter_map(|filter| filter.begin(host, head, compress)).collect()
}

/// Whether a filter would change the length of a whole response with this head.
pub(crate) fn would_change(host: &dyn FilterHost, head: HeadView<'_>) -> bool {
    ORDER.iter().any(|filter| filter.would_change(host, head))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::tests::plan;
    use crate::plan::Plan;
    use http1::{FieldId, Limits, RequestHead};

    /// A host without an exchange: settings, a request, and the errors that were reported.
    struct Alone {
        plan: Plan,
        request: RequestHead,
        bytes: &'static [u8],
        sends: bool,
    }

    impl Alone {
        /// With these settings in its only location, and a request with these fields.
        fn new(settings: &str, bytes: &'static [u8]) -> Self {
            let mut request = RequestHead::default();
            http1::request::parse(bytes, &Limits::default(), &mut request).unwrap();
            let maps = "charset_map koi8-r utf-8 { C1 D0B0; }";
            let plan = plan(&format!("{maps} server {{ listen 127.0.0.1:80; location / {{ {settings} }} }}"));
            Self { plan, request, bytes, sends: true }
        }

        /// The stages for a body of 100 bytes in this type and coding, by their names, and whether the length is known.
        fn stages(&mut self, media: &[u8], coding: &[u8], compress: Compress) -> (Vec<&'static str>, bool) {
            let mut head = head(media, coding);
            let stages = begin(self, &mut head, compress);
            let names = stages.iter().map(|stage| {
                let shown = format!("{stage:?}");
                let known = ["Gunzip", "Substitution", "Recoder", "Page"];
                known.into_iter().find(|name| shown.contains(name)).expect("a known stage")
            });
            (names.collect(), head.length.is_some())
        }
    }

    fn head(media: &[u8], coding: &[u8]) -> ReplyHead {
        let mut head = ReplyHead::whole(100);
        head.fields.push(FieldId::ContentType, media);
        if !coding.is_empty() {
            head.fields.push(FieldId::ContentEncoding, coding);
        }
        head
    }

    impl FilterHost for Alone {
        fn location(&self) -> &LocationPlan {
            self.plan.locations.iter().find(|location| *location.name == *b"/").expect("the location")
        }

        fn upstream_bytes(&self) -> &[u8] {
            b""
        }

        fn gzip_client(&self) -> GzipClient<'_> {
            GzipClient { request: &self.request, bytes: self.bytes, now: 0, is_inside: false }
        }

        fn is_subrequest(&self) -> bool {
            false
        }

        fn shows_body(&self) -> bool {
            true
        }

        fn sends_body(&self, _: &ReplyHead) -> bool {
            self.sends
        }

        fn charsets(&self) -> &Charsets {
            &self.plan.charsets
        }

        fn accel_charset(&self) -> Option<&[u8]> {
            None
        }

        fn outer_charset(&self) -> Option<&[u8]> {
            None
        }

        fn charset_of_parts(&self, _: &ReplyHead) -> Box<[u8]> {
            Box::default()
        }

        fn value(&self, template: &Template, _: HeadView<'_>) -> Vec<u8> {
            template.as_constant().unwrap_or_default().to_vec()
        }

        fn as_line(&self, value: Vec<u8>, _: &str) -> Vec<u8> {
            value
        }

        fn report(&self, message: &str) {
            panic!("{message}");
        }

        fn start_body(&self, uri: Vec<u8>, _: Box<[u8]>) -> Subrequest {
            panic!("a subrequest for {}", uri.escape_ascii());
        }

        fn begin_page(&mut self, settings: PageSettings, _: &ReplyHead) -> Box<dyn Stage> {
            let page = crate::filter::assembly::Assembly::new(settings, Box::default(), Box::default());
            Box::new(std::rc::Rc::new(page))
        }
    }

    const PLAIN: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const ALL: &str = "gunzip on; sub_filter a b; charset utf-8; source_charset koi8-r; ssi on;";

    #[test]
    fn all_filters_run_in_the_order_of_the_table() {
        let mut alone = Alone::new(ALL, PLAIN);
        let (names, has_length) = alone.stages(b"text/html", b"", Compress::Yes);
        assert_eq!((&names[..], has_length), (&["Substitution", "Recoder", "Page"][..], false));
        // A coded body is not converted by `charset`, as in nginx, unless it is unpacked before.
        let (names, _) = alone.stages(b"text/html", b"gzip", Compress::Yes);
        assert_eq!(names, ["Gunzip", "Substitution", "Recoder", "Page"]);
        let (names, _) = alone.stages(b"text/html", b"gzip", Compress::No);
        assert_eq!(names, ["Substitution", "Page"]);
    }

    #[test]
    fn other_types_and_settings_leave_a_response_alone() {
        assert_eq!(Alone::new(ALL, PLAIN).stages(b"image/png", b"", Compress::Yes), (vec![], true));
        assert_eq!(Alone::new("", PLAIN).stages(b"text/html", b"gzip", Compress::Yes), (vec![], true));
    }

    #[test]
    fn a_head_is_edited_even_if_no_body_follows() {
        let mut alone = Alone::new("ssi on;", PLAIN);
        alone.sends = false;
        assert_eq!(alone.stages(b"text/html", b"", Compress::Yes), (vec![], false));
    }

    #[test]
    fn parts_of_a_response_that_changes_cannot_be_asked_for() {
        for (settings, coding, expected) in [
            ("", &b""[..], false),
            ("sub_filter a b;", b"", true),
            ("ssi on;", b"", true),
            ("gunzip on;", b"gzip", true),
            ("gunzip on;", b"", false),
            ("charset utf-8; source_charset koi8-r;", b"", true),
            ("charset utf-8;", b"", false),
        ] {
            let head = head(b"text/html", coding);
            assert_eq!(would_change(&Alone::new(settings, PLAIN), head.with(b"")), expected, "{settings}");
        }
    }
}
