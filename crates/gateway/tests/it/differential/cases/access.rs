//! `auth_basic` with its files, `auth_delay`, and both with `satisfy`.

use super::Case;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The files of the root, and the user files.
pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/a.txt", b"0123456789".to_vec()),
        ("html/page.txt", b"a page\n".to_vec()),
        ("users", include_bytes!("access-users").to_vec()),
        ("empty", Vec::new()),
    ]
}

/// Locations that ask for a password, and some that do not.
const PLACES: &[&str] = &[
    "/basic/a.txt",
    "/basic/none",
    "/off/a.txt",
    "/without-file/a.txt",
    "/without-realm/a.txt",
    "/missing/a.txt",
    "/folder/a.txt",
    "/through-file/a.txt",
    "/realm/a.txt",
    "/realm/a.txt?realm=off",
    "/realm/a.txt?realm=Off",
    "/realm/a.txt?realm=a%22b",
    "/realm-quoted/a.txt",
    "/file-by-variable/a.txt?file=users",
    "/file-by-variable/a.txt?file=none",
    "/file-by-variable/a.txt",
    "/file-in-variable/a.txt?file=s",
    "/empty-file/a.txt",
    "/inherited/a.txt",
    "/inherited/off/a.txt",
    "/inherited/other/a.txt",
    "/inherited/file/a.txt",
    "/limited/a.txt",
    "/proxied/",
    "/returned/",
    "/paged/a.txt",
    "/paged-named/a.txt",
    "/paged-200/a.txt",
    "/delayed/a.txt",
    "/delayed-any/a.txt",
    "/delayed-request/",
    "/delayed-403/a.txt",
    "/any/ad/a.txt",
    "/any/da/a.txt",
    "/any/missing/a.txt",
    "/any/missing-first/",
    "/any/folder/a.txt",
    "/any/request/",
    "/any/both/",
    "/any/both-403/",
    "/all/ad/a.txt",
    "/all/da/a.txt",
    "/all/request/",
    "/all/request-ok/",
];

/// Users of the file; the password of nearly all of them is `secret`.
const USERS: &[&str] = &[
    "plain",
    "sha",
    "ssha",
    "apr1",
    "des",
    "md5",
    "sha256",
    "sha512",
    "bcrypt",
    "bcrypta",
    "yescrypt",
    "commented",
    "twice",
    "bare",
    "star",
    "empty",
    "long",
    "spaced name",
    "colon",
    "badsalt",
    "broken",
    "brokenapr",
    "brokenssha",
    "Ümlaut",
    "crlf",
    "last",
    "nobody",
    "Plain",
    "plai",
    "plainx",
    "#",
    "# users of the differential suite",
];

/// Unusual values of `Authorization`.
const VALUES: &[&str] = &[
    "",
    "Basic",
    "Basic ",
    "Basic      cGxhaW46c2VjcmV0",
    "basic cGxhaW46c2VjcmV0",
    "BASIC cGxhaW46c2VjcmV0",
    "Basic cGxhaW46c2VjcmV0=",
    "Basic cGxhaW46c2VjcmV0====",
    "Basic cGxhaW46c2VjcmV0=x",
    "Basic cGxhaW46c2VjcmV0 ",
    "Basic cGxhaW46c2VjcmV0 x",
    "Basic cGxhaW46c2VjcmV0!",
    "Basic !",
    "Basic c",
    "Basic Og==",
    "Basic OnNlY3JldA==",
    "Basic cGxhaW4=",
    "Basic cGxhaW46",
    "Basic cGxhaW46c2VjcmV0OmV4dHJh",
    "Basic cGxhaW46c2VjcmV",
    "Basic cGxhaW46c2VjcmV1",
    "Basic_cGxhaW46c2VjcmV0",
    "Basic\tcGxhaW46c2VjcmV0",
    "Bearer cGxhaW46c2VjcmV0",
    "Basic cGxh-W46c2Vjcm_0",
];

fn ask(method: &str, target: &str, authorization: Option<&str>) -> Vec<u8> {
    let field = authorization.map(|value| format!("Authorization: {value}\r\n")).unwrap_or_default();
    format!("{method} {target} HTTP/1.1\r\nHost: auth.test\r\n{field}\r\n").into_bytes()
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let right = basic("plain", "secret");
    let wrong = basic("plain", "wrong");
    for target in PLACES {
        for method in ["GET", "HEAD", "POST"] {
            let asked = [("nobody", None), ("right", Some(&right)), ("wrong", Some(&wrong))];
            for (who, authorization) in asked {
                let bytes = ask(method, target, authorization.map(String::as_str));
                cases.push(Case::raw(format!("{method} {target} by {who}"), bytes));
            }
        }
    }
    for user in USERS {
        for password in ["secret", "Secret", "secret1", "", "se:cret"] {
            let bytes = ask("GET", "/basic/a.txt", Some(&basic(user, password)));
            cases.push(Case::raw(format!("user {user:?} with {password:?}"), bytes));
        }
    }
    for value in VALUES {
        let bytes = ask("GET", "/basic/a.txt", Some(value));
        cases.push(Case::raw(format!("authorization {value:?}"), bytes));
    }
    cases
}
