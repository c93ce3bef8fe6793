//! `geoip2`: the databases are those of `mmdb::places`.

use super::Case;

/// Values of `$arg_ip`.
const ADDRESSES: &[&str] = &[
    "192.0.2.1",
    "192.0.2.0",
    "192.0.2.255",
    "192.0.3.0",
    "192.0.1.255",
    "198.51.100.1",
    "198.51.100.127",
    "198.51.100.128",
    "198.51.100.255",
    "127.0.0.1",
    "127.255.255.255",
    "0.0.0.0",
    "255.255.255.255",
    "10.0.0.1",
    "::",
    "::1",
    "::192.0.2.1",
    "::ffff:192.0.2.1",
    "2001:db8::1",
    "",
    "x",
    "192.0.2",
    "192.0.2.1.1",
    "192.0.2.256",
    "192.0.2.1:80",
    "%20192.0.2.1",
];

/// Values of `X-Forwarded-For`.
const FORWARDED: &[&str] = &[
    "",
    "192.0.2.1",
    "198.51.100.1",
    "192.0.2.1, 198.51.100.1",
    "198.51.100.1, 192.0.2.1",
    "192.0.2.1, 127.0.0.5",
    "192.0.2.1, 198.51.100.200",
    "192.0.2.1,198.51.100.200, 127.0.0.1",
    "x",
    "192.0.2.1, x",
    "x, 192.0.2.1",
    "2001:db8::1",
    "::ffff:192.0.2.1",
    ",",
    "192.0.2.1,",
    "192.0.2.1:443",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let get = |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
    for address in ADDRESSES {
        for path in ["/all", "/other", "/header", "/if", "/set"] {
            let target = format!("{path}?ip={address}");
            cases.push(Case::raw(target.clone(), get(&target, "")));
        }
        let target = format!("/?ip={address}");
        cases.push(Case::raw(format!("server 1 {target}"), get(&target, "")).on(1));
    }
    for value in FORWARDED {
        for path in ["/own", "/forwarded"] {
            let bytes = get(path, &format!("X-Forwarded-For: {value}\r\n"));
            cases.push(Case::raw(format!("{path} for {value:?}"), bytes));
        }
    }
    cases.push(Case::raw("without", get("/forwarded", "")));
    let twice = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 198.51.100.1\r\n";
    cases.push(Case::raw("twice", get("/forwarded", twice)));
    cases
}
