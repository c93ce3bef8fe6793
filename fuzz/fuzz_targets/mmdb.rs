//! Databases of `geoip2`: no panic, whatever the file holds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::mmdb::Mmdb;
use std::net::IpAddr;

fuzz_target!(|input: (u128, bool, &[u8])| {
    let (address, is_v4, bytes) = input;
    let address = if is_v4 { IpAddr::V4((address as u32).into()) } else { IpAddr::V6(address.into()) };
    let Ok(database) = Mmdb::parse(bytes.to_vec()) else { return };
    for path in [&["country", "names", "en"][..], &["subdivisions", "1", "code"], &[]] {
        let path: Vec<Box<[u8]>> = path.iter().map(|name| name.as_bytes().into()).collect();
        database.write(address, &path, &mut Vec::new());
    }
});
