//! `map`, `split_clients` and `geo`.

use super::Case;

const KEYS: &[&str] = &[
    "", "a", "A", "b", "B", "c", "d", "default", "a%20b", "xyz", "xy", "x", "Xyz", "yes", "YES", "Q", "12", "zzz", "~^",
];

const PLACES: &[&str] = &["/plain", "/after", "/before", "/own/part", "/chained", "/redirected", "/proxied/x"];

const HOSTS: &[&str] = &[
    "domain.test",
    "a.domain.test",
    "A.B.Domain.Test",
    "domain.test.",
    "a.below.test",
    "below.test",
    "a.deep.below.test",
    "deep.below.test",
    "mail.x",
    "mail.x.y",
    "mail",
    "mail.domain.test",
    "re12.x",
    "re.x",
    "domain.test:80",
];

const ADDRESSES: &[&str] = &[
    "",
    "10.0.0.0",
    "10.0.0.3",
    "10.0.0.4",
    "10.0.0.10",
    "10.0.0.15",
    "10.0.0.20",
    "10.0.0.21",
    "10.0.0.202",
    "10.0.0.204",
    "10.0.0.207",
    "10.0.0.250",
    "10.0.0.255",
    "10.0.1.0",
    "10.0.255.255",
    "10.1.0.0",
    "10.1.1.255",
    "10.1.2.0",
    "10.1.2.3",
    "10.2.3.4",
    "11.0.0.1",
    "128.0.0.1",
    "172.20.1.1",
    "192.168.0.1",
    "255.255.255.255",
    "2001:db8::1",
    "2001:db9::1",
    "::1",
    "::ffff:10.1.2.3",
    "nonsense",
    "10.1.2",
    "10.1.2.3:80",
];

const FORWARDED: &[&str] = &[
    "",
    "X-Forwarded-For: 10.1.1.1\r\n",
    "X-Forwarded-For: 192.0.2.1, 10.1.1.1\r\n",
    "X-Forwarded-For: 192.0.2.1,10.1.1.1,127.0.0.9\r\n",
    "X-Forwarded-For: 10.1.1.1 , 192.0.2.1 , \r\n",
    "X-Forwarded-For: 10.1.1.1:8080\r\n",
    "X-Forwarded-For: nonsense\r\n",
    "X-Forwarded-For: 192.0.2.1, nonsense\r\n",
    "X-Forwarded-For: 192.0.2.1, nonsense, 10.1.1.1\r\n",
    "X-Forwarded-For: 10.1.1.1, 127.0.0.1, 10.2.2.2\r\n",
    "X-Forwarded-For: [::1]:80\r\n",
    "X-Forwarded-For: \r\n",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        for key in KEYS {
            cases.push(Case::simple("GET", "plain.test", &format!("{place}?k={key}")).named("map"));
        }
        cases.push(Case::simple("GET", "plain.test", place).named("map"));
    }
    for args in ["a=1&b=2", "a=3&b=4", "b=4", "a=1", "", "a=%31&b=2"] {
        cases.push(Case::simple("GET", "plain.test", &format!("/several?{args}")).named("map of several"));
    }
    for method in ["GET", "HEAD", "POST", "OPTIONS"] {
        cases.push(Case::simple(method, "plain.test", "/safe").named("map of the method"));
    }
    cases.push(Case::simple("GET", "plain.test", "/go/on").named("volatile map"));
    cases.push(Case::simple("GET", "plain.test", "/field").named("map of a response field"));
    for host in HOSTS {
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        cases.push(Case::raw(format!("map of hostnames: {host}"), text).on(1));
    }
    cases.push(Case::raw("map of hostnames: none", "GET / HTTP/1.0\r\n\r\n").on(1));
    for key in 0..120 {
        // Lengths with all remainders, since the hash works on words.
        let key = format!("{}{key}", &"client-of-some-length"[..key % 13]);
        cases.push(Case::simple("GET", "plain.test", &format!("/split?k={key}")).named("split"));
    }
    cases.push(Case::simple("GET", "plain.test", "/split").named("split"));
    cases.push(Case::simple("GET", "plain.test", "/here").named("geo"));
    for place in ["/network", "/range"] {
        for address in ADDRESSES {
            cases.push(Case::simple("GET", "plain.test", &format!("{place}?ip={address}")).named("geo"));
        }
        cases.push(Case::simple("GET", "plain.test", place).named("geo"));
    }
    for (index, field) in FORWARDED.iter().enumerate() {
        let text = format!("GET /behind HTTP/1.1\r\nHost: plain.test\r\n{field}\r\n");
        cases.push(Case::raw(format!("geo behind proxies: {index} {field}"), text));
    }
    cases
}
