//! Values of unsupported directives that change nothing here: `msie_refresh off`, `dav_methods off`. A configuration that only
//! states what holdfast does anyway must load. Called by the checks for rows with `Support::No`, and by the reference
//! page.

use super::{Directive, Support};

/// Further values, besides the documented default, with which a directive changes nothing here.
const FURTHER: &[(&str, &[&str])] = &[
    // Error pages are never padded here.
    ("msie_padding", &["off"]),
];

impl Directive {
    /// Whether these arguments change nothing here: nginx's documented default, or another value that matches what
    /// holdfast does anyway.
    pub fn is_neutral(&self, args: &[&[u8]]) -> bool {
        if self.support != Support::No || self.args.block {
            return false;
        }
        self.neutral_values().any(|value| {
            let mut words = value.split(' ');
            let is_same = |written: &&[u8]| match words.next() {
                // nginx accepts `on` and `off` of a flag in any case, and other words only as they are.
                Some(word) if self.args.flag => written.eq_ignore_ascii_case(word.as_bytes()),
                Some(word) => *written == word.as_bytes(),
                None => false,
            };
            args.iter().all(is_same) && words.next().is_none()
        })
    }

    /// The values with which an unsupported directive changes nothing, each as its arguments.
    pub fn neutral_values(&self) -> impl Iterator<Item = &'static str> {
        let further = FURTHER.iter().find(|(name, _)| *name == self.name).map_or(&[][..], |(_, values)| values);
        self.default.into_iter().chain(further.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use crate::table::{Context, Support, find, rows};

    fn is_neutral(name: &str, args: &[&str]) -> bool {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        find(name, Context::Http).unwrap().is_neutral(&args)
    }

    #[test]
    fn the_default_is_the_state_anyway_and_nothing_else_is() {
        assert!(is_neutral("msie_refresh", &["off"]) && !is_neutral("msie_refresh", &["on"]));
        assert!(is_neutral("msie_refresh", &["OFF"]), "a flag in any case");
        assert!(!is_neutral("dav_methods", &["off", "PUT"]) && !is_neutral("dav_methods", &[]));
        assert!(!is_neutral("proxy_buffering", &["on"]), "only of what is not supported");
    }

    #[test]
    fn further_values_belong_to_unsupported_directives() {
        for (name, _) in super::FURTHER {
            assert!(rows(name).iter().all(|row| row.support == Support::No && !rows(name).is_empty()), "{name}");
        }
    }
}
