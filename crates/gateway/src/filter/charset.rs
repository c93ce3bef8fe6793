//! `charset`: decides which responses are converted to another character set, and edits their heads.

use crate::base::logs::error::quoted;
use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::filter::stage::{Edit, Stage, Taken, Transform};
use crate::filter::steps::{BodyFilter, Compress, FilterHost};
use crate::plan::filters::CharsetPlan;
use http1::FieldId;
use rules::charset::{Charsets, MediaType, Recoder, Recoding};
use rules::template::Template;
use std::io;

/// The inputs of the decision besides the head.
struct CharsetFacts<'a> {
    /// The location's settings; `None` if `charset` and `source_charset` are off.
    plan: Option<&'a CharsetPlan>,
    charsets: &'a Charsets,
    /// `X-Accel-Charset`
    said: Option<&'a [u8]>,
    /// The character set of the response that this one becomes a part of; empty if that names none. `None`: it is no
    /// part.
    outer: Option<&'a [u8]>,
    /// Evaluates a template.
    value: &'a dyn Fn(&Template, HeadView<'_>) -> Vec<u8>,
}

/// The decision about a response.
enum CharsetStep {
    /// Leave it unchanged.
    Leave,
    /// Name this character set in the head; empty for none.
    Name(Vec<u8>),
    /// Convert the body, and name this character set in the head.
    Recode(Vec<u8>, Recoding),
    /// Leave it unchanged and report an error: there is no conversion between the two.
    NoMap(Vec<u8>, Vec<u8>),
    /// Leave it unchanged and report an error: the upstream wants an unknown character set.
    Unknown(Vec<u8>),
}

impl CharsetFacts<'_> {
    /// Decides about a response with this head.
    fn step(&self, head: HeadView<'_>) -> CharsetStep {
        let Some(value) = head.value(FieldId::ContentType).filter(|value| !value.is_empty()) else {
            return CharsetStep::Leave;
        };
        let media = MediaType::parse(value);
        let own = media.charset.filter(|name| !name.is_empty());
        let wanted = match (self.outer, self.said) {
            (Some(outer), _) => outer.to_vec(),
            (None, Some(said)) if self.charsets.knows(said) => said.to_vec(),
            (None, Some(said)) => return CharsetStep::Unknown(said.to_vec()),
            (None, None) => self.wanted(head, &media),
        };
        if wanted.is_empty() {
            return CharsetStep::Leave;
        }
        let source = match (own, self.plan.and_then(|plan| plan.source.as_ref())) {
            (Some(own), _) => own.to_vec(),
            (None, Some(source)) => (self.value)(source, head),
            (None, None) => return self.name(head, wanted),
        };
        if source.eq_ignore_ascii_case(&wanted) {
            // As in nginx, the head keeps a name that the configuration does not know.
            return if own.is_none() || self.charsets.knows(&wanted) {
                self.name(head, wanted)
            } else {
                CharsetStep::Leave
            };
        }
        let is_encoded = head.head.fields.has_value(FieldId::ContentEncoding, head.answer);
        let are_known = self.charsets.knows(&source) && self.charsets.knows(&wanted);
        match self.charsets.recoding(&source, &wanted) {
            _ if are_known && is_encoded => CharsetStep::Leave,
            Some(recoding) => CharsetStep::Recode(wanted, recoding.clone()),
            None => CharsetStep::NoMap(source, wanted),
        }
    }

    /// The character set that the location wants; empty for none.
    fn wanted(&self, head: HeadView<'_>, media: &MediaType<'_>) -> Vec<u8> {
        let Some(plan) = self.plan else { return Vec::new() };
        let is_meant = match media.charset.filter(|name| !name.is_empty()) {
            Some(_) => plan.overrides,
            None => plan.types.covers(media.media),
        };
        match &plan.charset {
            Some(charset) if is_meant => (self.value)(charset, head),
            _ => Vec::new(),
        }
    }

    /// A redirect names none, so that no client assumes the same for the page that it leads to.
    fn name(&self, head: HeadView<'_>, wanted: Vec<u8>) -> CharsetStep {
        match (self.outer, head.head.status) {
            (Some(_), _) => CharsetStep::Leave,
            (None, 301 | 302) => CharsetStep::Name(Vec::new()),
            (None, _) => CharsetStep::Name(wanted),
        }
    }
}

/// Evaluates templates while a head is made.
type Evaluate<'a> = dyn Fn(&Template, HeadView<'_>) -> Vec<u8> + 'a;

/// The inputs of the decision about a response of this exchange; `None` if there is nothing to decide.
fn facts<'a>(host: &'a dyn FilterHost, head: &ReplyHead, value: &'a Evaluate<'a>) -> Option<CharsetFacts<'a>> {
    let plan = host.location().charset.as_deref();
    let (said, outer) = (host.accel_charset(), host.outer_charset());
    let is_due = (plan.is_some() || said.is_some() || outer.is_some()) && head.fields.has(FieldId::ContentType);
    // A subrequest for a status alone is no part of a response.
    let is_part = outer.is_some() || !host.is_subrequest();
    (is_due && is_part).then(|| CharsetFacts { plan, charsets: host.charsets(), said, outer, value })
}

/// A media type of ours, with the character set for clients.
pub(crate) fn media_for_clients(host: &dyn FilterHost, media: &[u8]) -> Vec<u8> {
    let mut head = ReplyHead::of(200);
    head.fields.push(FieldId::ContentType, media);
    let value = |template: &Template, head: HeadView<'_>| host.value(template, head);
    let step = facts(host, &head, &value).map(|facts| facts.step(head.with(b"")));
    if let Some(CharsetStep::Name(charset) | CharsetStep::Recode(charset, _)) = step {
        name(&mut head, b"", &host.as_line(charset, "charset"));
    }
    head.fields.value(FieldId::ContentType, b"").unwrap_or_default().to_vec()
}

/// `charset`
pub(super) struct RecodeStep;

impl BodyFilter for RecodeStep {
    fn would_change(&self, host: &dyn FilterHost, head: HeadView<'_>) -> bool {
        let value = |template: &Template, head: HeadView<'_>| host.value(template, head);
        facts(host, head.head, &value).is_some_and(|facts| {
            // The type of a multipart response does not tell the type of its parts: they would not be converted.
            let client = host.gzip_client();
            let range = client.request.value(FieldId::Range, client.bytes);
            would_change(&facts, head, range.is_some_and(|range| range.contains(&b',')))
        })
    }

    fn begin(&self, host: &mut dyn FilterHost, head: &mut ReplyHead, _: Compress) -> Option<Box<dyn Stage>> {
        let host = &*host;
        let value = |template: &Template, head: HeadView<'_>| host.value(template, head);
        let step = facts(host, head, &value)?.step(head.with(host.upstream_bytes()));
        let rename = |head: &mut ReplyHead, charset: Vec<u8>| {
            let charset = host.as_line(charset, "charset");
            if !host.is_subrequest() {
                name(head, host.upstream_bytes(), &charset);
            }
        };
        match step {
            CharsetStep::Leave => None,
            CharsetStep::Name(charset) => {
                rename(head, charset);
                None
            }
            CharsetStep::Recode(charset, recoding) => {
                rename(head, charset);
                Some(begin(head, recoding))
            }
            CharsetStep::NoMap(from, to) => {
                let (from, to) = (quoted(&from), quoted(&to));
                host.report(&format!("no \"charset_map\" between the charsets \"{from}\" and \"{to}\""));
                None
            }
            CharsetStep::Unknown(charset) => {
                host.report(&format!("unknown charset \"{}\" to override", quoted(&charset)));
                None
            }
        }
    }
}

/// Whether a response with this head would change its length or, with `any`, its bytes at all.
fn would_change(facts: &CharsetFacts<'_>, head: HeadView<'_>, any: bool) -> bool {
    matches!(facts.step(head), CharsetStep::Recode(_, recoding) if any || !recoding.keeps_length())
}

/// The character set that a head names; empty for none.
pub(crate) fn named(head: HeadView<'_>) -> &[u8] {
    head.value(FieldId::ContentType).and_then(|value| MediaType::parse(value).charset).unwrap_or_default()
}

/// Writes a character set into a head; an empty name removes it.
fn name(head: &mut ReplyHead, answer: &[u8], charset: &[u8]) {
    let Some(value) = head.fields.value(FieldId::ContentType, answer) else { return };
    let media = MediaType::parse(value).media;
    let value = if charset.is_empty() { media.to_vec() } else { [media, b"; charset=", charset].concat() };
    head.fields.replace(FieldId::ContentType, &value);
}

/// The stage for a body; also edits the head, except for the name.
fn begin(head: &mut ReplyHead, recoding: Recoding) -> Box<dyn Stage> {
    if !recoding.keeps_length() {
        head.fields.remove(FieldId::ContentLength);
        head.fields.remove(FieldId::TransferEncoding);
        head.length = None;
        head.fields.move_mark_last(Mark::Length);
    }
    Box::new(Transform::new(Recoder::new(recoding)))
}

impl Edit for Recoder {
    fn edit(&mut self, piece: &[u8], _: bool, out: &mut Vec<u8>) -> io::Result<Taken> {
        self.take(piece, out);
        Ok(Taken { count: piece.len(), more: false })
    }

    fn own_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::model::MediaTypes;
    use rules::charset::MapLines;

    fn charsets() -> Charsets {
        let mut charsets = Charsets::default();
        charsets.add_map(&MapLines { from: b"koi8-r", to: b"utf-8", lines: &[(0xc1, vec![0xd0, 0xb0])] });
        charsets.add_name(b"windows-1251");
        charsets
    }

    fn plan(charset: &[u8], source: Option<&[u8]>, overrides: bool) -> CharsetPlan {
        CharsetPlan {
            charset: (!charset.is_empty()).then(|| Template::constant(charset)),
            source: source.map(Template::constant),
            overrides,
            types: MediaTypes::Some(vec![b"text/html".to_vec()]),
        }
    }

    /// The decision, as text.
    fn step(plan: Option<&CharsetPlan>, status: u16, media: &str, said: Option<&str>, outer: Option<&str>) -> String {
        let mut head = ReplyHead::of(status);
        head.fields.push(FieldId::ContentType, media.as_bytes());
        let value = |template: &Template, _: HeadView<'_>| template.as_constant().unwrap_or_default().to_vec();
        let charsets = charsets();
        let (said, outer) = (said.map(str::as_bytes), outer.map(str::as_bytes));
        let facts = CharsetFacts { plan, charsets: &charsets, said, outer, value: &value };
        let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
        match facts.step(head.with(b"")) {
            CharsetStep::Leave => "leave".to_owned(),
            CharsetStep::Name(name) => format!("name {}", text(&name)),
            CharsetStep::Recode(name, _) => format!("recode {}", text(&name)),
            CharsetStep::NoMap(from, to) => format!("no map {} {}", text(&from), text(&to)),
            CharsetStep::Unknown(name) => format!("unknown {}", text(&name)),
        }
    }

    #[test]
    fn heads_decide_what_becomes_of_a_response() {
        let utf8 = plan(b"utf-8", None, false);
        let over = plan(b"utf-8", Some(b"koi8-r"), true);
        for (plan, status, media, expected) in [
            (None, 200, "text/html", "leave"),
            (Some(&utf8), 200, "text/html", "name utf-8"),
            (Some(&utf8), 302, "text/html", "name "),
            (Some(&utf8), 200, "image/png", "leave"),
            (Some(&utf8), 200, "text/html; charset=koi8-r", "leave"),
            (Some(&over), 200, "text/html", "recode utf-8"),
            (Some(&over), 200, "image/png; charset=koi8-r", "recode utf-8"),
            (Some(&over), 200, "text/html; charset=UTF-8", "name utf-8"),
            (Some(&over), 200, "text/html; charset=windows-1251", "no map windows-1251 utf-8"),
        ] {
            assert_eq!(step(plan, status, media, None, None), expected, "{media}");
        }
        assert_eq!(step(None, 200, "a/b", Some("koi8-r"), None), "name koi8-r");
        assert_eq!(step(None, 200, "a/b", Some("klingon"), None), "unknown klingon");
        assert_eq!(step(Some(&over), 200, "a/b", None, Some("utf-8")), "recode utf-8");
        assert_eq!(step(Some(&over), 200, "a/b", None, Some("")), "leave");
    }

    #[test]
    fn a_head_gets_and_loses_the_name() {
        let mut head = ReplyHead::of(200);
        head.fields.push(FieldId::ContentType, b"text/html; charset=x");
        name(&mut head, b"", b"utf-8");
        assert_eq!(head.fields.value(FieldId::ContentType, b""), Some(&b"text/html; charset=utf-8"[..]));
        assert_eq!(named(head.with(b"")), b"utf-8");
        name(&mut head, b"", b"");
        assert_eq!(head.fields.value(FieldId::ContentType, b""), Some(&b"text/html"[..]));
    }
}
