//! `limit_rate`, `limit_rate_after`, `proxy_limit_rate`.

use crate::lower::Lowering;
use crate::plan::filters::{RatePlan, SizePlan};
use conf::model::{Amount, ClientSettings, TransportSettings};

impl Lowering<'_> {
    /// The rate of a location's responses; `None` if nothing was written.
    pub(super) fn rate_plan(&mut self, client: &ClientSettings) -> Option<Box<RatePlan>> {
        let none = Amount::Fixed(0);
        if client.limit_rate == none && client.limit_rate_after == none {
            return None;
        }
        let (rate, after) = (self.size_plan(&client.limit_rate), self.size_plan(&client.limit_rate_after));
        Some(Box::new(RatePlan { rate, after }))
    }

    /// The rate at which responses are read. As in nginx, it applies only with buffering.
    pub(super) fn proxy_rate(&mut self, transport: &TransportSettings) -> Option<SizePlan> {
        if !transport.buffering || transport.limit_rate == Amount::Fixed(0) {
            return None;
        }
        Some(self.size_plan(&transport.limit_rate))
    }

    pub(super) fn size_plan(&mut self, amount: &Amount) -> SizePlan {
        match amount {
            Amount::Fixed(size) => SizePlan::Fixed(*size),
            Amount::Template(template) => SizePlan::Template(self.template(template)),
        }
    }
}
