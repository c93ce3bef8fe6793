//! The certificate of `holdfast origin --tls`, from files or made for this run.

use super::Args;
use ::tls::{Pair, ServerSide};
use origin::Tls;
use reactor::PeerAddress;

/// Names in a certificate made here, besides the addresses.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub(super) fn side(args: &Args) -> Result<Tls, String> {
    let pair = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => {
            let read = |path: &std::path::Path| {
                std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
            };
            Pair::from_pem(&read(cert)?, &read(key)?, b"")
                .map_err(|finding| format!("{}: {finding}", cert.display()))?
        }
        _ => Pair::self_made(&names(args)).map_err(|error| format!("no certificate can be made: {error}"))?,
    };
    let side = ServerSide::new().pair(pair).alpn(["h2", "http/1.1"]).build();
    side.map(Tls::new).map_err(|error| format!("TLS cannot be set up: {error}"))
}

/// The names by which clients may address this origin.
fn names(args: &Args) -> Vec<String> {
    let ip = |address: &PeerAddress| match address {
        PeerAddress::Ip(address) if !address.ip().is_unspecified() => Some(address.ip().to_string()),
        _ => None,
    };
    let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
    names.extend(args.listen.iter().filter_map(ip));
    names.sort();
    names.dedup();
    names
}
