//! What the variables of a configuration (`set`, `map`, `geo`, `split_clients`) are made of besides other variables.

use super::ExchangeView;
use crate::error_log::Level;
use http1::FieldId;
use reactor::PeerAddress;
use rules::captures::Captures;
use rules::defined::{Surroundings, Trouble};
use rules::slots::VarSlots;
use std::cell::RefCell;
use std::net::IpAddr;

impl Surroundings for ExchangeView<'_> {
    fn slots(&self) -> &VarSlots {
        &self.exchange.slots
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.exchange.captures
    }

    fn client(&self) -> Option<IpAddr> {
        match self.exchange.client() {
            PeerAddress::Ip(address) => Some(address.ip()),
            PeerAddress::Unix(_) => None,
        }
    }

    fn forwarded_for<'a>(&'a self, values: &mut Vec<&'a [u8]>) {
        let request = &self.exchange.request;
        let fields = request.head.fields.iter().filter(|field| field.id == FieldId::XForwardedFor);
        values.extend(fields.map(|field| field.value.of(&request.bytes)));
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        match trouble {
            Trouble::Uninitialized(name) if self.exchange.location().warns_uninitialized => {
                self.exchange.log_at(Level::Warn, &format!("using uninitialized \"{name}\" variable"));
            }
            Trouble::Uninitialized(_) => {}
            Trouble::Cycle(name) => {
                self.exchange.error_log(&format!("cycle while evaluating variable \"{name}\""));
            }
            Trouble::Match(error) => self.exchange.error_log(&error.message),
        }
    }
}
