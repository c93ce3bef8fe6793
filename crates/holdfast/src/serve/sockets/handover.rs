//! Listening sockets from one program to the next, in nginx's way: open descriptors, whose numbers stand in the variable
//! `NGINX`. So this program takes over from nginx, and nginx from this one.

use super::{Bound, Sockets};
use reactor::{ListenOptions, Listener};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

/// The variable.
pub(in crate::serve) const INHERITED: &str = "NGINX";

/// Descriptors that the next program inherits, as long as this lives.
pub(in crate::serve) struct Handover {
    descriptors: Vec<OwnedFd>,
}

impl Handover {
    /// Copies that stay open when another program is started.
    pub(in crate::serve) fn of(bound: &[Bound]) -> io::Result<Self> {
        let listeners = bound.iter().flat_map(|bound| &bound.listeners);
        let copies = listeners.map(|listener| rustix::io::dup(listener.descriptor()));
        Ok(Self { descriptors: copies.collect::<Result<_, _>>()? })
    }

    /// The value of the variable: `6;7;`.
    pub(in crate::serve) fn value(&self) -> String {
        self.descriptors.iter().fold(String::new(), |mut text, descriptor| {
            let _ = write!(text, "{};", descriptor.as_raw_fd());
            text
        })
    }
}

impl Sockets {
    /// What this process was started with; what is wrong with it stands in the second part.
    pub(in crate::serve) fn inherited() -> (Self, Vec<String>) {
        let (mut sockets, mut troubles) = (Self::default(), Vec::new());
        let Some(value) = std::env::var_os(INHERITED) else { return (sockets, troubles) };
        for number in parse(&value) {
            let taken = number.and_then(|number| {
                let listener = Listener::from_number(number).map_err(|error| format!("{number}: {error}"))?;
                let address = listener.local_address().map_err(|error| format!("{number}: {error}"))?;
                Ok((address.ok_or_else(|| format!("{number} has no address"))?, Arc::new(listener)))
            });
            match taken {
                Ok((address, listener)) => match sockets.bound.iter_mut().find(|bound| bound.address == address) {
                    Some(bound) => bound.listeners.push(listener),
                    // Its real options are not known; those of the configuration are set when it is taken on.
                    None => sockets.bound.push(Bound {
                        address,
                        options: ListenOptions::default(),
                        listeners: vec![listener],
                    }),
                },
                Err(trouble) => {
                    troubles.push(format!("invalid socket in the {INHERITED} variable, ignored: {trouble}"));
                }
            }
        }
        sockets.shared = true;
        (sockets, troubles)
    }
}

fn parse(value: &OsString) -> impl Iterator<Item = Result<i32, String>> {
    let text = value.to_string_lossy().into_owned();
    let words: Vec<String> = text.split([';', ':']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    words.into_iter().map(|word| word.parse().ok().filter(|number| *number > 2).ok_or(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_nginx_writes_them() {
        let read = |text: &str| parse(&text.into()).collect::<Vec<_>>();
        assert_eq!(read("6;7;"), [Ok(6), Ok(7)]);
        assert_eq!(read("6:x;1;"), [Ok(6), Err("x".to_owned()), Err("1".to_owned())]);
        assert_eq!(read(""), []);
    }
}
