//! `sub_filter`: decides in which responses texts are replaced, and edits their heads.

use crate::downstream::reply_head::{HeadView, Mark, ReplyHead};
use crate::filter::stage::{Edit, Stage, Taken, Transform};
use crate::filter::steps::{BodyFilter, Compress, FilterHost};
use crate::plan::filters::{SoughtTexts, SubstitutePlan};
use http1::FieldId;
use rules::gzip::weak_tag;
use rules::substitute::{Searcher, Substitution};
use rules::template::Template;
use std::io;
use std::sync::Arc;

/// `sub_filter`
pub(super) struct SubstituteStep;

impl BodyFilter for SubstituteStep {
    fn would_change(&self, host: &dyn FilterHost, head: HeadView<'_>) -> bool {
        host.location().substitute.as_deref().is_some_and(|plan| wants(plan, head))
    }

    fn begin(&self, host: &mut dyn FilterHost, head: &mut ReplyHead, _: Compress) -> Option<Box<dyn Stage>> {
        let plan = host.location().substitute.as_deref()?;
        begin(plan, head, host.upstream_bytes(), &|template, head| host.value(template, head))
    }
}

/// Whether texts are replaced in a response with this head.
fn wants(plan: &SubstitutePlan, head: HeadView<'_>) -> bool {
    head.head.length != Some(0) && plan.types.covers(head.value(FieldId::ContentType).unwrap_or_default())
}

/// Turns a head into that of a response with replaced texts, and returns the stage. `value` evaluates a template.
fn begin(
    plan: &SubstitutePlan,
    head: &mut ReplyHead,
    answer: &[u8],
    value: &dyn Fn(&Template, HeadView<'_>) -> Vec<u8>,
) -> Option<Box<dyn Stage>> {
    if !wants(plan, head.with(answer)) {
        return None;
    }
    let view = head.with(answer);
    let all = || plan.replacements.iter().map(|template| value(template, view));
    let (searcher, replacements) = match &plan.texts {
        SoughtTexts::Fixed(searcher) => (Arc::clone(searcher), all().collect()),
        SoughtTexts::Templates(templates) => {
            let texts = templates.iter().map(|template| value(template, view));
            // As in nginx, a text that evaluates to empty is not searched for.
            let pairs: Vec<_> = texts.zip(all()).filter(|(text, _)| !text.is_empty()).collect();
            if pairs.is_empty() {
                return None;
            }
            let texts: Vec<&[u8]> = pairs.iter().map(|(text, _)| &text[..]).collect();
            let searcher = Arc::new(Searcher::new(&texts));
            (searcher, pairs.into_iter().map(|(_, by)| by).collect())
        }
    };
    let tag = head.fields.value(FieldId::ETag, answer).and_then(weak_tag).filter(|_| plan.keeps_last_modified);
    for id in [FieldId::ContentLength, FieldId::TransferEncoding, FieldId::ETag] {
        head.fields.remove(id);
    }
    match tag {
        Some(tag) => head.fields.push(FieldId::ETag, &tag),
        None if plan.keeps_last_modified => {}
        None => head.fields.remove(FieldId::LastModified),
    }
    head.length = None;
    head.fields.move_mark_last(Mark::Length);
    Some(Box::new(Transform::new(Substitution::new(searcher, replacements, plan.once))))
}

impl Edit for Substitution {
    fn edit(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) -> io::Result<Taken> {
        let more = self.take(piece, last, out);
        Ok(Taken { count: piece.len(), more })
    }

    fn own_bytes(&self) -> usize {
        self.held_bytes()
    }
}
