//! The inputs of the configuration's variables (`set`, `map`, `geo`, `split_clients`) besides other variables.

use crate::base::logs::error::Level;
use crate::exchange::Exchange;
use crate::exchange::view::ExchangeView;
use http1::FieldId;
use rules::captures::Captures;
use rules::slots::VarSlots;
use rules::user_variables::{Surroundings, Trouble};
use std::cell::RefCell;
use std::net::IpAddr;

impl Surroundings for ExchangeView<'_> {
    fn slots(&self) -> &VarSlots {
        &self.exchange.routing.slots
    }

    fn captures(&self) -> &RefCell<Captures> {
        &self.exchange.routing.captures
    }

    fn client(&self) -> Option<IpAddr> {
        self.exchange.client().ip()
    }

    fn forwarded_for<'a>(&'a self, values: &mut Vec<&'a [u8]>) {
        self.exchange.forwarded_for(values);
    }

    fn trouble(&self, trouble: Trouble<'_>) {
        self.exchange.variable_trouble(&trouble);
    }
}

impl Exchange {
    /// Collects the values of `X-Forwarded-For`.
    pub(crate) fn forwarded_for<'a>(&'a self, values: &mut Vec<&'a [u8]>) {
        let request = &self.request;
        let fields = request.head.fields.iter().filter(|field| field.id == FieldId::XForwardedFor);
        values.extend(fields.map(|field| field.value.of(&request.bytes)));
    }

    /// Logs a failure to evaluate a variable.
    pub(crate) fn variable_trouble(&self, trouble: &Trouble<'_>) {
        match trouble {
            Trouble::Uninitialized(name) if self.location().warns_uninitialized => {
                self.log_at(Level::Warn, &format!("using uninitialized \"{name}\" variable"));
            }
            Trouble::Uninitialized(_) => {}
            Trouble::Cycle(name) => {
                self.error_log(&format!("cycle while evaluating variable \"{name}\""));
            }
            Trouble::Match(error) => {
                self.error_log(&error.message);
                self.routing.undecided.note();
            }
        }
    }
}
