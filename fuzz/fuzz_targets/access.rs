//! The parsers of access control: files of users, credentials, protected links, referers. No panic; a file's lines are users,
//! comments or counted as bad; an unknown hash matches no password.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::basic_auth::Credentials;
use rules::basic_auth::password::is_password;
use rules::basic_auth::users::Users;
use rules::referer::Referers;
use rules::secure_link::{Link, rest_of_target};
use rules::server_name::ServerName;

/// Hashes of these forms take too long for a fuzz run.
const SLOW: [&[u8]; 4] = [b"$2", b"$5$", b"$6$", b"$y$"];

fuzz_target!(|input: &[u8]| {
    let lines = input.split(|&byte| byte == b'\n').count();
    let users = Users::parse(input);
    assert!(users.len() as u64 + users.bad_lines <= lines as u64);
    assert!(users.first_bad_lines.len() as u64 <= users.bad_lines);
    if let Some(credentials) = Credentials::parse(input) {
        assert!(!credentials.user().is_empty() && !credentials.user().contains(&b':'));
    }
    let (name, rest) = input.split_at(input.iter().position(|&byte| byte == b':').unwrap_or_default());
    if let Some(hash) = users.hash_of(name) {
        assert!(!hash.contains(&b':') && !hash.is_empty());
        if !SLOW.iter().any(|prefix| hash.starts_with(prefix)) {
            let _ = is_password(rest, hash);
        }
    }
    if let Some(link) = Link::parse(input) {
        let _ = (link.is_of(b"x"), link.has_ended(0));
    }
    if let Some(rest) = rest_of_target(input, b"secret") {
        assert!(input.ends_with(rest));
    }
    let mut referers = Referers::default();
    referers.add_name(ServerName::Below(b"example.com".to_vec()), b"/x");
    let _ = referers.is_valid(Some(input));
});
