//! `limit_rate`: how fast a response is sent to the client; `proxy_limit_rate`: how fast it is read from the upstream.
//! `rules::pace` does the arithmetic, the chain of `filter` holds bytes back, and `relay` limits its reads.

use crate::base::logs::error::quoted;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::plan::filters::SizePlan;
use crate::registry::generation::BoundProxy;
use conf::value::size::parse_size_text;
use http1::FieldId;
use rules::pace::Pace;

impl Exchange {
    /// Sets the pace of the response just before its head is sent. Once per exchange; `X-Accel-Limit-Rate` and
    /// `set $limit_rate` take precedence over the directive.
    pub(crate) fn begin_pace(&mut self) {
        // A subrequest has no client whose rate could be limited.
        if (self.response.limit_rate().is_none() && self.location().rate.is_none()) || self.is_subrequest() {
            return;
        }
        let (rate, after) = match &self.location().rate {
            Some(plan) => (self.response.limit_rate().unwrap_or_else(|| self.size(&plan.rate)), self.size(&plan.after)),
            None => (self.response.limit_rate().unwrap_or(0), 0),
        };
        self.response.limit_rate_to(rate);
        let reactor = &self.thread.reactor;
        if rate > 0 {
            self.response.filters.set_pace(Pace::new(rate, after, self.began_at.millis().0), reactor, &mut self.down);
        }
    }

    /// `X-Accel-Limit-Rate`: bytes per second; an invalid value is ignored.
    pub(crate) fn take_limit_rate(&mut self, plan: &BoundProxy) {
        if !plan.obeys_limit_rate {
            return;
        }
        let said = self.answer().filter(|answer| answer.head.seen.contains(FieldId::XAccelLimitRate));
        let said = said.and_then(|answer| answer.head.value(FieldId::XAccelLimitRate, &answer.bytes));
        let rate = said.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse().ok());
        if let Some(rate) = rate {
            self.response.limit_rate_to(rate);
        }
    }

    /// `X-Accel-Charset`: the character set for clients.
    pub(crate) fn take_charset(&mut self, plan: &BoundProxy) {
        let answer = self.answer().filter(|_| plan.obeys_charset);
        let said = answer.and_then(|answer| answer.head.value(FieldId::XAccelCharset, &answer.bytes));
        if let Some(said) = said.filter(|said| !said.is_empty()).map(Into::into) {
            self.response.set_accel_charset(said);
        }
    }

    /// The pace at which a response is read; it begins with its head.
    pub(crate) fn upstream_pace(&self, plan: &BoundProxy) -> Option<Pace> {
        let rate = self.size(plan.limit_rate.as_ref()?);
        (rate > 0).then(|| Pace::new(rate, 0, self.thread.reactor.now().0))
    }

    /// As in nginx, an invalid size counts as none, and is logged.
    fn size(&self, plan: &SizePlan) -> u64 {
        let template = match plan {
            SizePlan::Fixed(size) => return *size,
            SizePlan::Template(template) => template,
        };
        let mut text = Vec::new();
        template.write(&ExchangeView::of(self), &mut text);
        parse_size_text(&text).unwrap_or_else(|| {
            self.error_log(&format!("invalid size \"{}\"", quoted(&text)));
            0
        })
    }
}
