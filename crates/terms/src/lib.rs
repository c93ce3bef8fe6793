//! Values that the event loop and the pure crates share: a moment, and the address of a peer. Nothing here reads a clock or opens a
//! socket. `reactor` and `upstream` re-export them under their own names, so both use the same types.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Milliseconds of the monotonic clock, counted from the machine's start: only differences have a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// This moment and a duration later, in whole milliseconds; saturates.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        self.plus(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// The moment `duration_ms` after this one; saturates.
    #[must_use]
    pub fn plus(self, duration_ms: u64) -> Self {
        Self(self.0.saturating_add(duration_ms))
    }

    /// Milliseconds from `earlier` to `self`, 0 where `earlier` is later: threads read the clock at slightly different
    /// moments, so what another thread noted may seem to come from the future.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Microseconds of the same clock: for durations that are measured. Deadlines use [`Millis`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// The millisecond in which this moment lies.
    pub fn millis(self) -> Millis {
        Millis(self.0 / 1000)
    }

    /// Microseconds from `earlier` to `self`, 0 where `earlier` is later, as [`Millis::since`].
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A number below 2^48 in six bytes, for tables with an entry for each connection: a moment in milliseconds (8,900 years), a serial
/// number, bytes of memory. Greater numbers become [`Self::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct U48([u16; 3]);

impl U48 {
    /// The greatest.
    pub const MAX: u64 = (1 << 48) - 1;
}

impl From<u64> for U48 {
    fn from(number: u64) -> Self {
        let number = number.min(Self::MAX);
        Self([number as u16, (number >> 16) as u16, (number >> 32) as u16])
    }
}

impl From<U48> for u64 {
    fn from(U48([low, middle, high]): U48) -> Self {
        Self::from(low) | Self::from(middle) << 16 | Self::from(high) << 32
    }
}

/// Where a peer listens, or a socket is bound.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerAddress {
    /// IPv4 or IPv6, with port.
    Ip(SocketAddr),
    /// The path of a Unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(out),
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl PeerAddress {
    /// The IP address; none of a Unix socket.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate() {
        assert_eq!(Millis(5).after(Duration::from_micros(1_999)), Millis(6));
        assert_eq!(Millis(5).after(Duration::MAX), Millis(u64::MAX));
        assert_eq!((Millis(5).since(Millis(3)), Millis(3).since(Millis(5))), (2, 0));
        assert_eq!((Micros(5).since(Micros(3)), Micros(3).since(Micros(5)), Micros(1_999).millis()), (2, 0, Millis(1)));
    }

    #[test]
    fn short_numbers_keep_48_bits() {
        assert_eq!((size_of::<U48>(), align_of::<U48>()), (6, 2));
        for number in [0, 1, 0xffff, 0x1_0000, 0x1234_5678_9abc, U48::MAX] {
            assert_eq!(u64::from(U48::from(number)), number);
        }
        assert_eq!(u64::from(U48::from(U48::MAX + 1)), U48::MAX);
        assert_eq!(u64::from(U48::from(u64::MAX)), U48::MAX);
    }

    #[test]
    fn addresses_print_as_nginx_prints_them() {
        assert_eq!(PeerAddress::from(SocketAddr::from(([127, 0, 0, 1], 80))).to_string(), "127.0.0.1:80");
        let unix = PeerAddress::Unix("/run/app.sock".into());
        assert_eq!((unix.to_string(), unix.ip()), ("unix:/run/app.sock".to_owned(), None));
    }
}
