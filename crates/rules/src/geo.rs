//! `geo`: a variable by the network that an address lies in. Networks and ranges alike are cut into pieces that do not
//! overlap, sorted by their first address, so that a lookup is one binary search however many there are. Built by the
//! gateway when it lowers a configuration, asked by `user_variables`.

use crate::forwarded::forwarded_address;
use crate::template::Template;
use conf::value::Cidr;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Means clients without an address, as in nginx.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

/// A compiled `geo`.
#[derive(Debug, Clone, PartialEq)]
pub struct Geo {
    /// The text that holds the address; `None` is the client's own.
    source: Option<Template>,
    default: Arc<[u8]>,
    v4: Pieces<u32>,
    v6: Pieces<u128>,
    proxies: Box<[Cidr]>,
    recursive: bool,
    volatile: bool,
}

/// The addresses of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoBlock {
    /// A network; of several the longest prefix counts.
    Network(Cidr),
    /// From the first to the last.
    Range(IpAddr, IpAddr),
}

/// Pieces of the address space: the first and the last address of each, and its value.
type Pieces<A> = Box<[(A, A, Arc<[u8]>)]>;

/// The same while it is built, by the first address.
type Cuts<A> = BTreeMap<A, (A, Arc<[u8]>)>;

impl Geo {
    /// Builds the table. A line without a value takes an earlier range away again. The error is the index of a range that
    /// overlaps an earlier one without lying inside it, which nginx refuses too.
    pub fn build(source: Option<Template>, default: &[u8], lines: &[(GeoBlock, Option<&[u8]>)]) -> Result<Self, usize> {
        let mut order: Vec<usize> = (0..lines.len()).collect();
        // A shorter prefix is cut by the longer ones inside it, so it has to be there before them.
        order.sort_by_key(|&index| match lines[index].0 {
            GeoBlock::Network(cidr) => cidr.prefix,
            GeoBlock::Range(..) => 0,
        });
        let (mut v4, mut v6) = (Cuts::new(), Cuts::new());
        for index in order {
            let (block, value) = lines[index];
            let cut = match ends(&block) {
                (IpAddr::V4(first), IpAddr::V4(last)) => put(&mut v4, first.to_bits(), last.to_bits(), value),
                (IpAddr::V6(first), IpAddr::V6(last)) => put(&mut v6, first.to_bits(), last.to_bits(), value),
                _ => false,
            };
            if !cut {
                return Err(index);
            }
        }
        Ok(Self {
            source,
            default: default.into(),
            v4: v4.into_iter().map(|(first, (last, value))| (first, last, value)).collect(),
            v6: v6.into_iter().map(|(first, (last, value))| (first, last, value)).collect(),
            proxies: Box::default(),
            recursive: false,
            volatile: false,
        })
    }

    /// `proxy` and `proxy_recursive`: the proxies from which `X-Forwarded-For` is accepted.
    #[must_use]
    pub fn behind(self, proxies: &[Cidr], recursive: bool) -> Self {
        Self { proxies: proxies.into(), recursive, ..self }
    }

    /// `volatile`: the value is looked up anew for each use.
    #[must_use]
    pub fn volatile(self, volatile: bool) -> Self {
        Self { volatile, ..self }
    }

    /// The text that holds the address; `None` is the client's own.
    pub fn source(&self) -> Option<&Template> {
        self.source.as_ref()
    }

    /// Whether the value is looked up anew for each use.
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }

    /// Whether `X-Forwarded-For` can decide the address.
    pub fn has_proxies(&self) -> bool {
        !self.proxies.is_empty()
    }

    /// The value for an address, or for the address that trusted proxies name. `None`: the client has no address, or the
    /// text is not an address.
    pub fn find(&self, address: Option<IpAddr>, forwarded_for: &[&[u8]]) -> &[u8] {
        let address = match address {
            Some(address) if self.has_proxies() => {
                forwarded_address(address, forwarded_for, &self.proxies, self.recursive)
            }
            Some(address) => address,
            None => NOWHERE,
        };
        let found = match address.to_canonical() {
            IpAddr::V4(ip) => find(&self.v4, ip.to_bits()),
            IpAddr::V6(ip) => find(&self.v6, ip.to_bits()),
        };
        found.unwrap_or(&self.default)
    }
}

/// The first and the last address of a line.
fn ends(block: &GeoBlock) -> (IpAddr, IpAddr) {
    match block {
        GeoBlock::Range(first, last) => (*first, *last),
        GeoBlock::Network(cidr) => match cidr.network {
            IpAddr::V4(ip) => {
                let rest = u32::MAX.checked_shr(u32::from(cidr.prefix)).unwrap_or(0);
                (cidr.network, IpAddr::V4((ip.to_bits() | rest).into()))
            }
            IpAddr::V6(ip) => {
                let rest = u128::MAX.checked_shr(u32::from(cidr.prefix)).unwrap_or(0);
                (cidr.network, IpAddr::V6((ip.to_bits() | rest).into()))
            }
        },
    }
}

/// The integer that stores an address.
trait Address: Copy + Ord {
    fn next(self) -> Self;
    fn previous(self) -> Self;
}

impl Address for u32 {
    fn next(self) -> Self {
        self + 1
    }

    fn previous(self) -> Self {
        self - 1
    }
}

impl Address for u128 {
    fn next(self) -> Self {
        self + 1
    }

    fn previous(self) -> Self {
        self - 1
    }
}

/// Inserts a piece, or removes the piece with exactly these ends. Without such a piece, removing does nothing.
fn put<A: Address>(cuts: &mut Cuts<A>, first: A, last: A, value: Option<&[u8]>) -> bool {
    if let Some(value) = value {
        return cut(cuts, first, last, value);
    }
    if cuts.get(&first).is_some_and(|(end, _)| *end == last) {
        cuts.remove(&first);
    }
    true
}

/// Puts a piece where nothing is, or inside a single piece, which is cut. Anything else is an overlap.
fn cut<A: Address>(cuts: &mut Cuts<A>, first: A, last: A, value: &[u8]) -> bool {
    let around = cuts.range(..=first).next_back().map(|(&start, (end, _))| (start, *end));
    match around {
        Some((start, end)) if end >= last => {
            let Some((_, outer)) = cuts.remove(&start) else { return false };
            if start < first {
                cuts.insert(start, (first.previous(), Arc::clone(&outer)));
            }
            if end > last {
                cuts.insert(last.next(), (end, outer));
            }
        }
        Some((_, end)) if end >= first => return false,
        _ if cuts.range(first..=last).next().is_some() => return false,
        _ => {}
    }
    cuts.insert(first, (last, value.into()));
    true
}

fn find<A: Address>(pieces: &Pieces<A>, address: A) -> Option<&[u8]> {
    let behind = pieces.partition_point(|(first, ..)| *first <= address);
    let (_, last, value) = pieces.get(behind.checked_sub(1)?)?;
    (address <= *last).then_some(&**value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn networks(lines: &[(&str, &str)]) -> Geo {
        let lines: Vec<_> = lines
            .iter()
            .map(|(network, value)| {
                (GeoBlock::Network(Cidr::parse(network.as_bytes()).unwrap().0), Some(value.as_bytes()))
            })
            .collect();
        Geo::build(None, b"default", &lines).unwrap()
    }

    fn value(geo: &Geo, address: &str) -> String {
        String::from_utf8(geo.find(address.parse().ok(), &[]).to_vec()).unwrap()
    }

    #[test]
    fn the_longest_prefix_counts_in_whatever_order() {
        let geo = networks(&[
            ("10.1.2.0/24", "c"),
            ("10.0.0.0/8", "a"),
            ("10.1.0.0/16", "b"),
            ("10.1.2.3", "d"),
            ("2001:db8::/32", "six"),
            ("255.255.255.255", "nowhere"),
        ]);
        for (address, expected) in [
            ("10.2.0.0", "a"),
            ("10.1.3.255", "b"),
            ("10.1.2.4", "c"),
            ("10.1.2.3", "d"),
            ("10.255.255.255", "a"),
            ("11.0.0.0", "default"),
            ("9.255.255.255", "default"),
            ("::ffff:10.1.2.3", "d"),
            ("2001:db8:ffff::", "six"),
            ("2001:db9::", "default"),
            ("no address", "nowhere"),
        ] {
            assert_eq!(value(&geo, address), expected, "{address}");
        }
    }

    #[test]
    fn ranges_may_lie_inside_earlier_ones_and_nowhere_else() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let range = |first: &str, last: &str| GeoBlock::Range(ip(first), ip(last));
        let outer = (range("10.0.0.10", "10.0.0.30"), Some(&b"outer"[..]));
        let inner = (range("10.0.0.20", "10.0.0.25"), Some(&b"inner"[..]));
        let geo = Geo::build(None, b"", &[outer, inner]).unwrap();
        for (address, expected) in [
            ("10.0.0.9", ""),
            ("10.0.0.19", "outer"),
            ("10.0.0.20", "inner"),
            ("10.0.0.26", "outer"),
            ("10.0.0.31", ""),
        ] {
            assert_eq!(value(&geo, address), expected, "{address}");
        }
        assert_eq!(Geo::build(None, b"", &[inner, outer]), Err(1), "the larger one has to come first");
        let across = (range("10.0.0.25", "10.0.0.40"), Some(&b"across"[..]));
        assert_eq!(Geo::build(None, b"", &[outer, across]), Err(1));
        let all = (range("0.0.0.0", "255.255.255.255"), Some(&b"all"[..]));
        assert!(Geo::build(None, b"", &[all, outer, inner]).is_ok());
        // What is taken away leaves a hole, in which there is room for something else.
        let gone = (inner.0, None::<&[u8]>);
        let geo = Geo::build(None, b"", &[outer, inner, gone]).unwrap();
        assert_eq!((value(&geo, "10.0.0.20"), value(&geo, "10.0.0.19")), (String::new(), "outer".into()));
        let geo = Geo::build(None, b"", &[inner, gone, across]).unwrap();
        assert_eq!(value(&geo, "10.0.0.25"), "across");
    }

    #[test]
    fn trusted_proxies_are_looked_behind() {
        let trusted = [Cidr::parse(b"127.0.0.1").unwrap().0];
        let geo = networks(&[("10.0.0.0/8", "inside")]).behind(&trusted, false);
        let client = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(geo.find(client, &[b"10.9.9.9"]), b"inside");
        assert_eq!(geo.find(client, &[]), b"default");
        assert_eq!(geo.find("192.0.2.1".parse().ok(), &[b"10.9.9.9"]), b"default");
    }

    proptest! {
        #[test]
        fn a_lookup_agrees_with_trying_each_network(
            networks in prop::collection::vec((any::<u32>(), 0_u8..=32), 0..40),
            addresses in prop::collection::vec(any::<u32>(), 1..20),
        ) {
            let mut lines: Vec<(Cidr, String)> = Vec::new();
            for (index, (address, prefix)) in networks.iter().enumerate() {
                // Few distinct leading bits, so that networks lie inside each other.
                let text = format!("{}/{prefix}", Ipv4Addr::from(address & 0x0303_0303));
                let cidr = Cidr::parse(text.as_bytes()).unwrap().0;
                if lines.iter().all(|(known, _)| *known != cidr) {
                    lines.push((cidr, index.to_string()));
                }
            }
            let blocks: Vec<_> =
                lines.iter().map(|(cidr, value)| (GeoBlock::Network(*cidr), Some(value.as_bytes()))).collect();
            let geo = Geo::build(None, b"-", &blocks).unwrap();
            for address in addresses {
                let ip = IpAddr::V4(Ipv4Addr::from(address & 0x0303_0303));
                let longest = lines.iter().filter(|(cidr, _)| cidr.contains(ip)).max_by_key(|(cidr, _)| cidr.prefix);
                prop_assert_eq!(geo.find(Some(ip), &[]), longest.map_or(&b"-"[..], |(_, value)| value.as_bytes()));
            }
        }
    }
}
