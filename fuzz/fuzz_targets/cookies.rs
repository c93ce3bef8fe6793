//! Cookies: no panic, what is found is part of the field, and a Set-Cookie that is rewritten keeps its cookie and gains no line. The
//! number in a cookie of `userid` survives being written again. Accept-Encoding: a quality is within its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::captures::Captures;
use rules::gzip::{QUALITY_MAX, coding_quality, gzip_quality};
use rules::pattern::Pattern;
use rules::redirect::{RedirectFrom, RedirectRule, Redirects};
use rules::set_cookie::{CookieMatch, CookieRules, DomainRule, FlagRule};
use rules::template::{Template, View};
use rules::user_id::UserId;
use rules::variable::{UserVariables, Variable, cookie, set_cookie};
use std::sync::LazyLock;

/// No variable has a value.
struct Nothing;

impl View for Nothing {
    fn write(&self, _variable: &Variable, _out: &mut Vec<u8>) -> bool {
        false
    }
}

static RULES: LazyLock<CookieRules> = LazyLock::new(|| {
    let constant = |text: &str| Template::constant(text.as_bytes());
    let pattern = |text: &str| Pattern::compile(text.as_bytes(), true, &mut UserVariables::default()).expect("valid");
    CookieRules {
        domains: [
            DomainRule { from: CookieMatch::Text(constant("a")), to: constant("b.test") },
            DomainRule { from: CookieMatch::Regex(pattern("^.*x$")), to: constant("c.test") },
        ]
        .into(),
        paths: Redirects([RedirectRule { from: RedirectFrom::Prefix(constant("/a")), to: constant("/") }].into()),
        flags: [FlagRule {
            cookie: CookieMatch::Regex(pattern("^[a-m]")),
            flags: ["secure", "nohttponly", "samesite=lax"].map(constant).into(),
        }]
        .into(),
    }
});

fuzz_target!(|input: &[u8]| {
    let name = input.get(..1).unwrap_or_default();
    for value in [cookie(input, name), set_cookie(input, name)].into_iter().flatten() {
        assert!(input.as_ptr_range().contains(&value.as_ptr()) || value.is_empty());
        assert!(!value.contains(&b';'));
    }
    if let Ok(Some(id)) = UserId::decode(input) {
        let again = UserId::decode(&id.encode(None)).ok().flatten();
        assert_eq!(again.map(|id| id.shown("uid")), Some(id.shown("uid")));
    }
    for quality in [gzip_quality(input), coding_quality(input, b"br")].into_iter().flatten() {
        assert!((1..=QUALITY_MAX).contains(&quality), "a quality of 0 refuses");
    }
    let mut out = Vec::new();
    let mut captures = Captures::default();
    let mut unknown = |_: &[u8]| panic!("all flags are known");
    let changed = RULES.rewrite(input, &Nothing, &mut captures, &mut unknown, &mut out);
    match changed {
        // An expression has limits on its work.
        Ok(false) | Err(_) => assert!(out.is_empty()),
        Ok(true) => {
            let lines = |bytes: &[u8]| bytes.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count();
            assert!(lines(&out) <= lines(input));
            assert!(out.len() <= input.len() * 2 + 64, "each attribute gains a space and, at most, what rules bring");
            let first = |bytes: &[u8]| -> Vec<u8> {
                let pair = bytes.split(|&byte| byte == b';').next().unwrap_or_default();
                pair.iter().copied().filter(|byte| *byte != b' ').collect()
            };
            assert_eq!(first(&out), first(input));
        }
    }
});
