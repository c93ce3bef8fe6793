//! `geoip2`: variables from a database of addresses, which may be replaced while requests use it. Reading files is the
//! gateway's part.

use crate::forwarded::forwarded_address;
use crate::mmdb::{Mmdb, MmdbError};
use crate::template::Template;
use conf::value::Cidr;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A database, as far as it was read.
#[derive(Debug)]
pub struct GeoDatabase {
    current: RwLock<Arc<Mmdb>>,
    /// When its file was looked at, and when its content changed: seconds since 1970.
    checked_s: AtomicU64,
    changed_s: AtomicU64,
}

impl GeoDatabase {
    /// The database in these bytes.
    pub fn parse(bytes: Vec<u8>, now_s: u64) -> Result<Self, MmdbError> {
        let current = RwLock::new(Arc::new(Mmdb::parse(bytes)?));
        Ok(Self { current, checked_s: now_s.into(), changed_s: now_s.into() })
    }

    /// Replaces it; the old one stays if the bytes are no database.
    pub fn replace(&self, bytes: Vec<u8>, now_s: u64) -> Result<(), MmdbError> {
        let new = Arc::new(Mmdb::parse(bytes)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        self.changed_s.store(now_s, Ordering::Relaxed);
        Ok(())
    }

    /// Its file was looked at.
    pub fn note_check(&self, now_s: u64) {
        self.checked_s.store(now_s, Ordering::Relaxed);
    }

    fn current(&self) -> Arc<Mmdb> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a variable of `geoip2` tells.
#[derive(Debug, Clone, PartialEq)]
pub enum GeoipValue {
    /// When the database was made.
    BuildEpoch,
    /// When its file was looked at.
    LastCheck,
    /// When its content changed.
    LastChange,
    /// A value of the record of an address.
    Data {
        /// The text that holds the address; `None` is the client's own.
        source: Option<Template>,
        /// The names that lead to the value.
        path: Box<[Box<[u8]>]>,
        /// The value where the database has none.
        default: Option<Box<[u8]>>,
    },
}

/// A variable of `geoip2`.
#[derive(Debug, Clone)]
pub struct Geoip {
    database: Arc<GeoDatabase>,
    value: GeoipValue,
    /// Proxies with a trusted `X-Forwarded-For`.
    proxies: Arc<[Cidr]>,
    recursive: bool,
}

impl PartialEq for Geoip {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.database, &other.database) && self.value == other.value
    }
}

impl Geoip {
    /// A variable.
    pub fn new(database: Arc<GeoDatabase>, value: GeoipValue, proxies: Arc<[Cidr]>, recursive: bool) -> Self {
        Self { database, value, proxies, recursive }
    }

    /// The text that holds the address; `None` is the client's own.
    pub fn source(&self) -> Option<&Template> {
        match &self.value {
            GeoipValue::Data { source, .. } => source.as_ref(),
            _ => None,
        }
    }

    /// Whether `X-Forwarded-For` can decide the address.
    pub fn has_proxies(&self) -> bool {
        !self.proxies.is_empty()
    }

    /// Appends the value for an address. Whether there is one.
    pub fn write(&self, address: Option<IpAddr>, forwarded_for: &[&[u8]], out: &mut Vec<u8>) -> bool {
        let number = |number: u64, out: &mut Vec<u8>| {
            out.extend_from_slice(number.to_string().as_bytes());
            true
        };
        let (path, default, is_client) = match &self.value {
            GeoipValue::BuildEpoch => return number(self.database.current().build_epoch(), out),
            GeoipValue::LastCheck => return number(self.database.checked_s.load(Ordering::Relaxed), out),
            GeoipValue::LastChange => return number(self.database.changed_s.load(Ordering::Relaxed), out),
            GeoipValue::Data { source, path, default } => (path, default, source.is_none()),
        };
        let address = match address {
            Some(address) if is_client && self.has_proxies() => {
                Some(forwarded_address(address, forwarded_for, &self.proxies, self.recursive))
            }
            address => address,
        };
        let begin = out.len();
        if address.is_some_and(|address| self.database.current().write(address, path, out)) {
            return true;
        }
        out.truncate(begin);
        out.extend_from_slice(default.as_deref().unwrap_or_default());
        default.is_some()
    }
}
