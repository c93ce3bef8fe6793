//! Decides, once the head of a response has come, whether the response is stored, and under which key.

use crate::exchange::Exchange;
use crate::exchange::caching::Storing;
use crate::registry::generation::BoundProxy;
use cache::{Entry, Freshness, Said, allows_authorized};
use http1::FieldId;
use rules::precondition::{Validators, Verdict, evaluate, parse_date};

impl Exchange {
    /// What the response's fields say about storing it.
    pub(super) fn freshness(&self, plan: &BoundProxy) -> Option<Freshness> {
        let cache = plan.cache.as_ref()?;
        let answer = self.answer()?;
        let fields = answer.head.fields.iter().filter_map(|field| {
            let said = match field.id {
                FieldId::XAccelExpires => Said::AccelExpires,
                FieldId::CacheControl => Said::CacheControl,
                FieldId::Expires => Said::Expires,
                FieldId::SetCookie => Said::SetCookie,
                FieldId::Vary => Said::Vary,
                _ => return None,
            };
            Some((said, field.value.of(&answer.bytes)))
        });
        Some(Freshness::read(fields, cache.ignored, self.now_s(), parse_date))
    }

    /// Reads what the response says about storing; `None` if it is not stored.
    pub(crate) fn judge_cacheable(&mut self, plan: &BoundProxy) -> Option<Freshness> {
        if !self.is_cacheable() {
            return None;
        }
        let said = self.freshness(plan).filter(|said| said.allows() && self.may_keep_authorized(plan));
        // As in nginx, a response that is passed on unbuffered is not stored.
        let said = said.filter(|_| !self.flushes(plan));
        if said.is_none() {
            self.refuse_store();
        }
        if let Some(caching) = self.upstream.caching_mut() {
            caching.edits = said.is_some();
        }
        said
    }

    /// Until when a response may be stored as an error, as its fields say.
    pub(crate) fn error_valid_until(&mut self, plan: &BoundProxy) -> Option<i64> {
        let said = self.judge_cacheable(plan)?;
        Some(said.valid_until).filter(|until| *until > 0)
    }

    /// RFC 9111 section 3.5: the response to a request with `Authorization` is one user's, unless it says otherwise.
    fn may_keep_authorized(&self, plan: &BoundProxy) -> bool {
        let told = plan.cache.as_ref().is_some_and(|cache| cache.keeps_authorized);
        let is_plain = self.request.head.value(FieldId::Authorization, &self.request.bytes).is_none();
        if told || is_plain || !plan.pass_request_headers {
            return true;
        }
        self.answer().is_some_and(|answer| {
            let mut controls = answer.head.fields.iter().filter(|field| field.id == FieldId::CacheControl);
            controls.any(|field| allows_authorized(field.value.of(&answer.bytes)))
        })
    }

    /// The result of the request's conditions for a 200 that is stored or comes from the cache.
    pub(super) fn cached_verdict(&self, plan: &BoundProxy, status: u16) -> Verdict {
        let (Some(cache), Some(answer)) = (&plan.cache, self.answer()) else { return Verdict::Send };
        if status != 200 || !self.is_conditional() {
            return Verdict::Send;
        }
        let modified = answer.head.value(FieldId::LastModified, &answer.bytes).and_then(parse_date);
        let tag = answer.head.value(FieldId::ETag, &answer.bytes);
        evaluate(&self.conditions(), &Validators { modified, tag }, cache.modified_since)
    }

    /// The same for a response that is about to be passed on.
    pub(crate) fn stored_verdict(&self, plan: &BoundProxy, status: u16) -> Verdict {
        if self.edits_cached() { self.cached_verdict(plan, status) } else { Verdict::Send }
    }

    /// The final decision on storing, with what the body needs; `None`: it is not stored.
    pub(crate) fn begin_store(
        &mut self,
        plan: &BoundProxy,
        said: Option<Freshness>,
        status: u16,
    ) -> Option<Box<Storing>> {
        let (cache, said) = (plan.cache.as_ref()?, said?);
        let now_s = self.now_s();
        let valid_until = match said.valid_until {
            0 => cache.valid_s(status).map(|seconds| now_s.saturating_add(seconds)),
            until => Some(until),
        };
        let valid_until = valid_until.filter(|_| !self.any_is_true(&cache.no_cache));
        let Some(valid_until) = valid_until else {
            self.refuse_store();
            return None;
        };
        let answer = self.answer()?;
        let validates = matches!(status, 200 | 206);
        let value = |id| answer.head.value(id, &answer.bytes).filter(|_| validates);
        let modified_s = value(FieldId::LastModified).and_then(parse_date);
        let etag = value(FieldId::ETag).unwrap_or_default().to_vec();
        let caching = self.upstream.caching()?;
        let variant = (!said.vary.is_empty()).then(|| self.variant(caching.main, &said.vary));
        // As in nginx, the file that was looked up is replaced; another `Vary` makes the response the first variant.
        let key = match variant {
            Some(variant) if caching.key != caching.main && variant == caching.key => caching.key,
            _ => caching.main,
        };
        let entry = Entry {
            valid_until,
            updating_s: said.updating_s,
            error_s: said.error_s,
            date_s: now_s,
            modified_s,
            body_bytes: 0,
            etag,
            vary: said.vary,
            variant,
        };
        let caching = self.upstream.caching()?;
        let head = answer.stored();
        if !entry.fits(&caching.text, &head) {
            self.refuse_store();
            return None;
        }
        Some(Box::new(Storing::new(caching, key, entry, &head)))
    }

    /// Counts the cache status of a request, and releases the key.
    pub(crate) fn leave_cache(&mut self) {
        if let Some(caching) = self.upstream.caching_mut() {
            caching.zone.count(caching.status);
            caching.hold = None;
            caching.found = None;
        }
    }
}
