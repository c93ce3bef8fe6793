//! How values become bytes: fields in their order, without names. Both sides know the types by the version.

use crate::wire::{Reader, put, put_count, put_number};
use std::os::unix::ffi::OsStrExt as _;
use terms::PeerAddress;

/// A value that can be written and read back.
pub(crate) trait Coded: Sized {
    fn put(&self, out: &mut Vec<u8>);
    /// `None` if the bytes are no such value.
    fn take(from: &mut Reader<'_>) -> Option<Self>;
}

/// A value as bytes.
pub(crate) fn encode(value: &impl Coded) -> Vec<u8> {
    let mut out = Vec::new();
    value.put(&mut out);
    out
}

/// A value from bytes; `None` if they are no such value, or something is behind it.
pub(crate) fn decode<T: Coded>(bytes: &[u8]) -> Option<T> {
    let mut from = Reader::new(bytes);
    let value = T::take(&mut from)?;
    from.is_at_end().then_some(value)
}

/// A struct: its fields in this order.
macro_rules! coded_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::coded::Coded for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::coded::Coded::put(&self.$field, out);)*
            }

            fn take(from: &mut $crate::wire::Reader<'_>) -> Option<Self> {
                Some(Self { $($field: $crate::coded::Coded::take(from)?),* })
            }
        }
    };
}

/// An enum without fields: a byte each.
macro_rules! coded_enum {
    ($name:ident { $($variant:ident = $code:literal),* $(,)? }) => {
        impl $crate::coded::Coded for $name {
            fn put(&self, out: &mut Vec<u8>) {
                out.push(match self { $(Self::$variant => $code),* });
            }

            fn take(from: &mut $crate::wire::Reader<'_>) -> Option<Self> {
                match from.byte()? {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {coded_enum, coded_struct};

impl Coded for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        put_number(out, *self);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        from.number()
    }
}

impl Coded for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Coded for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, self);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        from.bytes().map(<[u8]>::to_vec)
    }
}

impl Coded for String {
    fn put(&self, out: &mut Vec<u8>) {
        put(out, self.as_bytes());
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        from.string()
    }
}

impl<const N: usize> Coded for [u8; N] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        from.array()
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some(if bool::take(from)? { Some(T::take(from)?) } else { None })
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_count(out, self.len());
        for value in self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        from.list(T::take)
    }
}

/// Both directions, or both ends, of a tunnel.
impl<T: Coded> Coded for [T; 2] {
    fn put(&self, out: &mut Vec<u8>) {
        let [first, second] = self;
        first.put(out);
        second.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some([T::take(from)?, T::take(from)?])
    }
}

impl<T: Coded, U: Coded> Coded for (T, U) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some((T::take(from)?, U::take(from)?))
    }
}

impl Coded for PeerAddress {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ip(address) => {
                out.push(0);
                put(out, address.to_string().as_bytes());
            }
            Self::Unix(path) => {
                out.push(1);
                put(out, path.as_os_str().as_bytes());
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(Self::Ip(from.string()?.parse().ok()?)),
            1 => from.path().map(Self::Unix),
            _ => None,
        }
    }
}
