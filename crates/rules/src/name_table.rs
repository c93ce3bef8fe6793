//! Host names by their forms: exact ones, `*.example.com` and `mail.*`, in nginx's order of preference.
//! `server_name` and `map … hostnames` share it; both handle expressions themselves.

use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// The form of a name that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameKind {
    Exact,
    /// `*.example.com`
    Below,
    /// `mail.*`
    Before,
}

/// Names with the number that each means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameTable {
    exact: FxHashMap<Box<[u8]>, u32>,
    below: FxHashMap<Box<[u8]>, u32>,
    before: FxHashMap<Box<[u8]>, u32>,
}

impl NameTable {
    /// The name itself. Says whether it was free.
    pub(crate) fn insert_exact(&mut self, name: Vec<u8>, number: u32) -> bool {
        insert(&mut self.exact, name, number)
    }

    /// Everything below the name, which is without its `*.`.
    pub(crate) fn insert_below(&mut self, name: Vec<u8>, number: u32) -> bool {
        insert(&mut self.below, name, number)
    }

    /// The name with anything behind it; it is without its `.*`.
    pub(crate) fn insert_before(&mut self, name: Vec<u8>, number: u32) -> bool {
        insert(&mut self.before, name, number)
    }

    /// The name itself and everything below it: taken or refused as a whole, so that it never half applies.
    pub(crate) fn insert_domain(&mut self, name: Vec<u8>, number: u32) -> bool {
        !self.exact.contains_key(&name[..])
            && insert(&mut self.below, name.clone(), number)
            && insert(&mut self.exact, name, number)
    }

    /// The number of a name in lower case: its own, or that of the longest form that it has.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(u32, NameKind)> {
        if let Some(&number) = self.exact.get(name) {
            return Some((number, NameKind::Exact));
        }
        let below = (!self.below.is_empty())
            .then(|| memchr::memchr_iter(b'.', name).find_map(|dot| self.below.get(&name[dot + 1..]).copied()));
        below.flatten().map(|number| (number, NameKind::Below)).or_else(|| {
            let mut dots = (!self.before.is_empty()).then(|| memchr::memrchr_iter(b'.', name)).into_iter().flatten();
            dots.find_map(|dot| self.before.get(&name[..dot]).map(|&number| (number, NameKind::Before)))
        })
    }
}

/// Inserts unless the name is taken; says whether it did.
fn insert(names: &mut FxHashMap<Box<[u8]>, u32>, name: Vec<u8>, number: u32) -> bool {
    match names.entry(name.into()) {
        Entry::Occupied(_) => false,
        Entry::Vacant(vacant) => {
            vacant.insert(number);
            true
        }
    }
}
