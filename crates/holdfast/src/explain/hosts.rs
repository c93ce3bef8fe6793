//! Names of a configuration without a name server: `/etc/hosts` has some, and an address for documentation replaces
//! each other one.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The file that the system's resolver reads first.
const PATH: &str = "/etc/hosts";

/// The addresses for documentation (RFC 5737): 192.0.2.1 and those after it.
const STAND_INS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 0);
/// This many names get an address of their own; further ones share the last.
const STAND_INS_MAX: usize = 254;

/// The names of the file, and those that it has not.
#[derive(Debug, Default)]
pub(crate) struct HostsFile {
    known: Vec<(String, IpAddr)>,
    substitutes: RefCell<Vec<String>>,
}

impl HostsFile {
    /// Reads the file. One that cannot be read has no names.
    pub(crate) fn read() -> Self {
        Self::parse(&std::fs::read_to_string(PATH).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut known = vec![("localhost".to_owned(), IpAddr::from(Ipv4Addr::LOCALHOST))];
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            known.extend(words.map(|name| (name.to_ascii_lowercase(), address)));
        }
        Self { known, substitutes: RefCell::default() }
    }

    /// The addresses of a name.
    pub(crate) fn resolve(&self, name: &str, port: u16) -> Vec<SocketAddr> {
        if let Ok(address) = name.trim_matches(['[', ']']).parse::<IpAddr>() {
            return vec![SocketAddr::new(address, port)];
        }
        let name = name.to_ascii_lowercase();
        let of_name = self.known.iter().filter(|(known, _)| *known == name);
        let mut found: Vec<_> = of_name.map(|(_, address)| SocketAddr::new(*address, port)).collect();
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            let mut substitutes = self.substitutes.borrow_mut();
            let index = substitutes.iter().position(|other| *other == name).unwrap_or_else(|| {
                substitutes.push(name);
                substitutes.len() - 1
            });
            found.push(SocketAddr::new(substitute(index), port));
        }
        found
    }

    /// The names that another address replaces.
    pub(crate) fn substitutes(&self) -> Vec<(String, IpAddr)> {
        self.substitutes.borrow().iter().cloned().zip((0..).map(substitute)).collect()
    }
}

fn substitute(index: usize) -> IpAddr {
    let number = index.min(STAND_INS_MAX - 1) as u32 + 1;
    Ipv4Addr::from_bits(STAND_INS.to_bits() + number).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_missing_in_the_file_get_another_address() {
        let hosts =
            HostsFile::parse("127.0.0.1 localhost\n10.0.0.7\tapp app.internal # the application\n# x\n::1 six\n");
        let of = |name: &str| hosts.resolve(name, 80).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(of("localhost"), ["127.0.0.1:80"]);
        assert_eq!(of("App.internal"), ["10.0.0.7:80"]);
        assert_eq!(of("six"), ["[::1]:80"]);
        assert_eq!(of("192.0.2.200"), ["192.0.2.200:80"]);
        assert_eq!((of("one"), of("two"), of("one")), (of("one"), vec!["192.0.2.2:80".to_owned()], of("one")));
        assert_eq!(of("one"), ["192.0.2.1:80"]);
        let names: Vec<_> = hosts.substitutes().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["one", "two"]);
    }
}
