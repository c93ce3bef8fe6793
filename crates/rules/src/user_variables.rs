//! The variables that a configuration defines, and how their values are made: `set`, named groups, `map`, `geo`,
//! `split_clients`. The exchange asks through [`Surroundings`], which a view over it implements.

use crate::captures::Captures;
use crate::geo::Geo;
use crate::geoip::Geoip;
use crate::map::Map;
use crate::pattern::MatchError;
use crate::slots::{Asked, VarSlots};
use crate::split::Split;
use crate::template::{Template, View};
use crate::variable::{Slot, UserVariables, Variable};
use std::cell::RefCell;
use std::net::IpAddr;

/// How a variable gets its value where nothing has assigned one.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Definition {
    /// A named group of an expression: it has none.
    #[default]
    Group,
    /// `set`: it is empty, which is worth a warning.
    Set,
    /// `set` of a variable that has a meaning of its own: that.
    BuiltIn(Variable),
    /// `map`
    Map(Box<Map>),
    /// `geo`
    Geo(Box<Geo>),
    /// `geoip2`
    Geoip(Box<Geoip>),
    /// `split_clients`
    Split(Box<Split>),
}

/// What values are made of besides templates.
pub trait Surroundings: View {
    /// The values of the exchange.
    fn slots(&self) -> &VarSlots;
    /// What the last expression captured.
    fn captures(&self) -> &RefCell<Captures>;
    /// The client's address; none on a Unix socket.
    fn client(&self) -> Option<IpAddr>;
    /// Appends the values of `X-Forwarded-For`, in their order.
    fn forwarded_for<'a>(&'a self, fields: &mut Vec<&'a [u8]>);
    /// Something that the error log should have.
    fn trouble(&self, trouble: Trouble<'_>);
}

/// What went wrong while a value was made; it is empty then.
#[derive(Debug)]
pub enum Trouble<'a> {
    /// A variable was used before `set` gave it a value.
    Uninitialized(&'a str),
    /// A variable is made of itself, or of too many others.
    Cycle(&'a str),
    /// An expression failed: what the value is, is not known, and nothing may be decided by it.
    Match(MatchError),
}

/// All definitions of a configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Definitions {
    /// By slot.
    list: Box<[Definition]>,
    /// By slot, in lower case.
    names: Box<[Box<str>]>,
}

impl Definitions {
    /// Puts each definition at its slot; of several for one slot the last counts, but a table always wins over `set`, as in
    /// nginx.
    pub fn build(users: &UserVariables, definitions: Vec<(Slot, Definition)>) -> Self {
        let mut list = vec![Definition::Group; users.len()];
        for (slot, definition) in definitions {
            let Some(place) = list.get_mut(usize::from(slot.0)) else { continue };
            let weak = matches!(definition, Definition::Set | Definition::BuiltIn(_) | Definition::Group);
            if !weak || *place == Definition::Group {
                *place = definition;
            }
        }
        let names = (0..users.len()).map(|index| users.name(Slot(index as u16)).unwrap_or_default().into());
        Self { list: list.into(), names: names.collect() }
    }

    /// Appends the value of a variable and says whether there is one.
    pub fn write<S: Surroundings + ?Sized>(&self, slot: Slot, around: &S, out: &mut Vec<u8>) -> bool {
        match around.slots().read(slot, out) {
            Asked::Written => return true,
            Asked::Cycle => {
                around.trouble(Trouble::Cycle(self.name(slot)));
                return false;
            }
            Asked::Unset => {}
        }
        match self.list.get(usize::from(slot.0)) {
            None | Some(Definition::Group) => false,
            Some(Definition::BuiltIn(variable)) => around.write(variable, out),
            Some(Definition::Set) => {
                around.trouble(Trouble::Uninitialized(self.name(slot)));
                around.slots().set(slot, b"");
                true
            }
            Some(made) => self.make(slot, made, around, out),
        }
    }

    /// Makes a value from its table, and keeps it unless it is volatile.
    fn make<S: Surroundings + ?Sized>(&self, slot: Slot, made: &Definition, around: &S, out: &mut Vec<u8>) -> bool {
        if !around.slots().begin(slot) {
            around.trouble(Trouble::Cycle(self.name(slot)));
            return false;
        }
        let start = out.len();
        let mut is_found = true;
        let volatile = match made {
            Definition::Map(map) => {
                write_map(map, around, out);
                map.is_volatile()
            }
            Definition::Geo(geo) => {
                write_geo(geo, around, out);
                geo.is_volatile()
            }
            Definition::Geoip(geoip) => {
                is_found = write_geoip(geoip, around, out);
                // Only a value is kept.
                !is_found
            }
            Definition::Split(split) => {
                let mut key = Vec::new();
                split.key().write(around, &mut key);
                out.extend_from_slice(split.find(&key));
                false
            }
            Definition::Group | Definition::Set | Definition::BuiltIn(_) => false,
        };
        around.slots().end(slot, (!volatile).then_some(&out[start..]));
        is_found
    }

    /// A variable's name with `$`, for messages.
    pub fn shown(&self, variable: &Variable) -> String {
        match variable {
            Variable::User(slot) => format!("${}", self.name(*slot)),
            other => other.shown(),
        }
    }

    fn name(&self, slot: Slot) -> &str {
        self.names.get(usize::from(slot.0)).map_or("", |name| name)
    }
}

fn write_map<S: Surroundings + ?Sized>(map: &Map, around: &S, out: &mut Vec<u8>) {
    let mut key = Vec::new();
    map.source().write(around, &mut key);
    let mut captures = Captures::default();
    match map.find(&key, &mut captures) {
        Ok(chosen) => {
            if let Some(pattern) = chosen.pattern {
                around.slots().store_groups(pattern, &captures);
                around.captures().replace(captures);
            }
            chosen.value.write(around, out);
        }
        // The value is unknown, and the default may be the value that grants access.
        Err(error) => around.trouble(Trouble::Match(error)),
    }
}

/// The address in a text, or the client's own.
fn address_of<S: Surroundings + ?Sized>(source: Option<&Template>, around: &S) -> Option<IpAddr> {
    let Some(source) = source else { return around.client() };
    let mut text = Vec::new();
    source.write(around, &mut text);
    std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok())
}

fn write_geoip<S: Surroundings + ?Sized>(geoip: &Geoip, around: &S, out: &mut Vec<u8>) -> bool {
    let address = address_of(geoip.source(), around);
    let mut fields = Vec::new();
    if geoip.has_proxies() {
        around.forwarded_for(&mut fields);
    }
    geoip.write(address, &fields, out)
}

fn write_geo<S: Surroundings + ?Sized>(geo: &Geo, around: &S, out: &mut Vec<u8>) {
    let address = address_of(geo.source(), around);
    let mut fields = Vec::new();
    if geo.has_proxies() {
        around.forwarded_for(&mut fields);
    }
    out.extend_from_slice(geo.find(address, &fields));
}

#[cfg(test)]
mod tests;
