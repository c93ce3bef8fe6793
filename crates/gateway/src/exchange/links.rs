//! `$secure_link`, `$secure_link_expires` and `$invalid_referer`.

use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use crate::plan::access::LinkPlan;
use http1::FieldId;
use rules::secure_link::{Link, rest_of_target};
use rules::template::View;
use rules::variable::Variable;

impl Exchange {
    /// Appends the value of one of them.
    pub(super) fn write_link(&self, variable: &Variable, view: &ExchangeView<'_>, out: &mut Vec<u8>) -> bool {
        if *variable == Variable::InvalidReferer {
            return self.write_invalid_referer(out);
        }
        // The text of a checksum may use the link's expiry, but no value may refer to itself.
        if self.routing.links_asked.get() > 1 {
            return false;
        }
        self.routing.links_asked.set(self.routing.links_asked.get() + 1);
        let found = self.write_checked(*variable == Variable::SecureLinkExpires, view, out);
        self.routing.links_asked.set(self.routing.links_asked.get() - 1);
        found
    }

    fn write_checked(&self, is_expiry: bool, view: &dyn View, out: &mut Vec<u8>) -> bool {
        let (value, text) = match self.location().link.as_deref() {
            None => return false,
            Some(LinkPlan::Secret(secret)) => {
                let rest = rest_of_target(self.request_uri(), secret);
                let rest = rest.filter(|_| !is_expiry && !secret.is_empty());
                out.extend_from_slice(rest.unwrap_or_default());
                return rest.is_some();
            }
            Some(LinkPlan::Checksum { value, text }) => (value, text),
        };
        let mut written = Vec::new();
        value.write(view, &mut written);
        let Some(link) = Link::parse(&written) else { return false };
        if is_expiry {
            out.extend_from_slice(link.expires.map(|(text, _)| text).unwrap_or_default());
            return link.expires.is_some();
        }
        let mut source = Vec::new();
        text.write(view, &mut source);
        let is_right = link.is_of(&source);
        if is_right {
            let has_ended = link.has_ended(self.thread.clock.now().as_secs() as i64);
            out.push(if has_ended { b'0' } else { b'1' });
        }
        is_right
    }

    fn write_invalid_referer(&self, out: &mut Vec<u8>) -> bool {
        let Some(referers) = self.location().referers.as_deref() else { return true };
        let referer = self.request.head.value(FieldId::Referer, &self.request.bytes);
        // An expression that exceeds its match limits matches no referer.
        if !referers.is_valid(referer).unwrap_or_default() {
            out.push(b'1');
        }
        true
    }
}
