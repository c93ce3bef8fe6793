//! `userid`, and clients that have a cookie.

use super::Case;

const TARGETS: &[&str] = &[
    "/got",
    "/log",
    "/off",
    "/v1",
    "/named",
    "/mark",
    "/equals",
    "/attributes",
    "/strict",
    "/none",
    "/error",
    "/moved",
    "/unreset",
];

/// An id as it is sent, with marks, without padding, and beside other cookies.
const COOKIES: &[&str] = &[
    "id=fwAAAQECAwQSNFZ4AwMDAg==; other=fwAAAQECAwQSNFZ4AwMDAg==",
    "id=fwAAAQECAwQSNFZ4AwMDAgz=; other=fwAAAQECAwQSNFZ4AwMDAgx=",
    "id=fwAAAQECAwQSNFZ4AwMDAga=; other=fwAAAQECAwQSNFZ4AwMDAga=",
    "a=b; ID=fwAAAQECAwQSNFZ4AwMDAg; OTHER=fwAAAQECAwQSNFZ4AwMDAg",
    "id=fwAAAQECAwQSNFZ4AwMDAgAndMore; other=fwAAAQECAwQSNFZ4AwMDAgAndMore",
];

/// Cookies without a valid id.
const BAD: &[&str] = &["id=short", "id=!!!!!!!!!!!!!!!!!!!!!!!!", "id=AAAAAAAAAAAAAAAAAAAAAA==", "id=", "x=y"];

pub(super) fn cases() -> Vec<Case> {
    let case = |target: &str, cookie: &str| {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: userid.test\r\nCookie: {cookie}\r\n\r\n");
        Case::raw(format!("{target} with {cookie}"), bytes)
    };
    let mut cases: Vec<Case> =
        TARGETS.iter().flat_map(|target| COOKIES.iter().map(move |cookie| case(target, cookie))).collect();
    for target in ["/log", "/off"] {
        cases.extend(BAD.iter().map(|cookie| case(target, cookie)));
        cases.push(Case::simple("GET", "userid.test", target));
    }
    cases
}
