//! Variables made of others: `map`, `geo`, `split_clients`.

use std::net::IpAddr;

use crate::source::Span;
use crate::value::{Cidr, Regex, Template};

/// One `map`.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// What is looked up.
    pub source: Template,
    /// The variable that it makes, without `$`.
    pub variable: String,
    /// The entries in order, without `default`. Exact strings win over `*.x`, that over `x.*`, that over expressions in
    /// their order.
    pub entries: Vec<(MapKey, Template)>,
    /// What there is otherwise; an empty string where not written.
    pub default: Template,
    /// Keys are host names: case does not count, and a mask may stand for parts.
    pub hostnames: bool,
    /// The value is never kept from one use to the next.
    pub volatile: bool,
    /// Where it was written.
    pub span: Span,
}

/// A key of a [`Map`].
#[derive(Debug, Clone, PartialEq)]
pub enum MapKey {
    /// The whole string, in lower case: nginx compares without case.
    Exact(Vec<u8>),
    /// `*.example.com` (as `example.com`): at least one further part in front.
    Suffix(Vec<u8>),
    /// `.example.com` (as `example.com`): the name itself, or with parts in front.
    NameAndSuffix(Vec<u8>),
    /// `mail.*` (as `mail`): at least one further part behind.
    Prefix(Vec<u8>),
    /// An expression; its captures are usable in the value.
    Regex(Regex),
}

/// One `geo`.
#[derive(Debug, Clone, PartialEq)]
pub struct Geo {
    /// The variable that holds the address, without `$`; `None` is the client's address.
    pub source: Option<String>,
    /// The variable that it makes, without `$`.
    pub variable: String,
    /// Values by address. The longest prefix wins; with `ranges` there is no overlap.
    pub entries: Vec<GeoEntry>,
    /// What there is otherwise.
    pub default: Vec<u8>,
    /// Whose `X-Forwarded-For` is believed.
    pub proxies: Vec<Cidr>,
    /// Whether trusted addresses inside that list are skipped.
    pub proxy_recursive: bool,
    /// The value is never kept from one use to the next.
    pub volatile: bool,
    /// Where it was written.
    pub span: Span,
}

/// One line of a [`Geo`].
#[derive(Debug, Clone, PartialEq)]
pub struct GeoEntry {
    /// Which addresses.
    pub range: GeoRange,
    /// Their value.
    pub value: Vec<u8>,
}

/// Addresses of one line of `geo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoRange {
    /// A network.
    Network(Cidr),
    /// From the first to the last, both included.
    Range(IpAddr, IpAddr),
}

/// One `split_clients`.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitClients {
    /// What is hashed (MurmurHash2).
    pub key: Template,
    /// The variable that it makes, without `$`.
    pub variable: String,
    /// The parts in order.
    pub parts: Vec<SplitPart>,
    /// Where it was written.
    pub span: Span,
}

/// One part of a [`SplitClients`].
#[derive(Debug, Clone, PartialEq)]
pub struct SplitPart {
    /// A hash below this (and not below the part before) is of this part; `None` is the rest (`*`).
    pub below: Option<u32>,
    /// Its value.
    pub value: Template,
}
