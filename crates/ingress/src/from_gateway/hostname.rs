//! Hostnames of listeners and routes: which requests both want. A hostname is exact, begins with `*.`, or is empty for all.

/// The hostname that both cover; `None`: no request has both.
pub(crate) fn intersection(one: &str, other: &str) -> Option<String> {
    if covers(one, other) {
        Some(other.to_owned())
    } else if covers(other, one) {
        Some(one.to_owned())
    } else {
        None
    }
}

/// Whether every host of `narrow` is one of `wide`. `*.a.b` covers `x.a.b` and `y.x.a.b`, not `a.b`.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    if wide.is_empty() || wide == narrow {
        return true;
    }
    let Some(suffix) = wide.strip_prefix('*') else { return false };
    let name = narrow.strip_prefix('*').unwrap_or(narrow);
    // The suffix begins with its dot, and at least one label comes before it.
    name.len() > suffix.len() && name.ends_with(suffix)
}

/// How exactly a hostname names a host, for comparisons: exact names first, then longer ones.
pub(crate) fn precision(name: &str) -> (bool, usize) {
    (!name.is_empty() && !name.starts_with('*'), name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_hostname_is_the_intersection() {
        for (one, other, both) in [
            ("", "a.b", Some("a.b")),
            ("*.b", "", Some("*.b")),
            ("*.b", "a.b", Some("a.b")),
            ("*.b", "c.a.b", Some("c.a.b")),
            ("*.b", "*.a.b", Some("*.a.b")),
            ("*.b", "b", None),
            ("*.b", "xb", None),
            ("a.b", "c.b", None),
            ("a.b", "a.b", Some("a.b")),
            ("*.b", "*.b", Some("*.b")),
            ("", "", Some("")),
        ] {
            assert_eq!(intersection(one, other).as_deref(), both, "{one} and {other}");
            assert_eq!(intersection(other, one).as_deref(), both, "{other} and {one}");
        }
    }
}
