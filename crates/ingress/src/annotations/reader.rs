//! Reads annotations: finds them under the prefix and its aliases, and checks their values.

use super::table::{self, Support};
use crate::Name;
use crate::value::{self, Place};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// `true` or `false`, as Go reads them.
pub(crate) fn flag(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("not \"true\" or \"false\"".into()),
    }
}

/// What is wrong with an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Its name, without the prefix.
    pub(crate) name: String,
    /// Why.
    pub(crate) message: String,
    /// It guards the paths, so without it they must not be served.
    pub(crate) denies: bool,
}

/// The annotations of one object.
pub(crate) struct Reader<'a> {
    values: &'a BTreeMap<String, String>,
    prefix: &'a str,
    /// The object.
    pub(crate) place: Place<'a>,
    /// What was found wrong.
    pub(crate) problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(values: &'a BTreeMap<String, String>, prefix: &'a str, place: Place<'a>) -> Self {
        Self { values, prefix, place, problems: Vec::new() }
    }

    /// Says that a value has no effect. Where the annotation guards something, the paths are not served.
    pub(crate) fn wrong(&mut self, name: &str, message: impl Into<String>) {
        let denies = table::find(name).is_some_and(|row| row.guards);
        self.problems.push(Problem { name: name.to_owned(), message: message.into(), denies });
    }

    /// Checks the value with a function.
    pub(crate) fn checked<T>(&mut self, name: &str, check: impl FnOnce(&'a str) -> Result<T, String>) -> Option<T> {
        let text = self.text(name)?;
        check(text).map_err(|message| self.wrong(name, message)).ok()
    }

    /// The value, if it is not empty.
    pub(crate) fn text(&mut self, name: &str) -> Option<&'a str> {
        let values = self.values;
        let of = |name: &str| values.get(&format!("{}/{name}", self.prefix)).map(|value| value.trim());
        let found = of(name).filter(|value| !value.is_empty());
        let found = found.or_else(|| table::aliases(name).iter().find_map(|alias| of(alias)));
        let text = found.filter(|value| !value.is_empty())?;
        if text.len() > value::VALUE_BYTES_MAX {
            self.wrong(name, format!("longer than {} bytes", value::VALUE_BYTES_MAX));
            return None;
        }
        Some(text)
    }

    /// `true` or `false`, as Go reads them.
    pub(crate) fn flag(&mut self, name: &str) -> Option<bool> {
        self.checked(name, flag)
    }

    /// A number within limits.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<u32>) -> Option<u32> {
        self.checked(name, |text| match text.parse() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err(format!("not a number from {} to {}", range.start(), range.end())),
        })
    }

    /// Seconds, as a number or with the unit `s`; at most a year.
    pub(crate) fn seconds(&mut self, name: &str) -> Option<String> {
        self.checked(name, |text| match text.strip_suffix('s').unwrap_or(text).parse::<u32>() {
            Ok(number) if number <= 31_536_000 => Ok(format!("{number}s")),
            _ => Err("not a number of seconds".into()),
        })
    }

    /// A size.
    pub(crate) fn size(&mut self, name: &str) -> Option<String> {
        self.checked(name, value::size)
    }

    /// One of some words.
    pub(crate) fn one_of(&mut self, name: &str, words: &[&'static str]) -> Option<&'static str> {
        self.checked(name, |text| {
            let found = words.iter().find(|word| word.eq_ignore_ascii_case(text));
            found.copied().ok_or_else(|| format!("not one of: {}", words.join(", ")))
        })
    }

    /// Networks.
    pub(crate) fn networks(&mut self, name: &str) -> Option<Vec<String>> {
        self.checked(name, value::networks)
    }

    /// A text with variables of the request.
    pub(crate) fn template(&mut self, name: &str) -> Option<String> {
        let place = self.place;
        self.checked(name, |text| value::template(text, place, false))
    }

    /// A text without variables.
    pub(crate) fn literal(&mut self, name: &str) -> Option<String> {
        self.checked(name, value::literal)
    }

    /// An object of the same namespace: `name` or `namespace/name`.
    pub(crate) fn object(&mut self, name: &str) -> Option<Name> {
        let own = self.place.namespace;
        self.checked(name, |text| {
            let (namespace, object) = text.split_once('/').unwrap_or((own, text));
            if namespace != own {
                return Err(format!(
                    "names the namespace \"{}\"; only objects of its own may be named",
                    namespace.escape_debug()
                ));
            }
            if !value::is_object_name(object) {
                return Err("not the name of an object".into());
            }
            Ok(Name::new(namespace, object))
        })
    }

    /// Annotations that are not read at all: unknown ones, and those that the table has as ignored or refused.
    pub(crate) fn leftovers(&mut self) -> Vec<(String, &'static str, bool)> {
        let mut out = Vec::new();
        let names: Vec<&'a str> =
            self.values.keys().filter_map(|key| key.strip_prefix(self.prefix)?.strip_prefix('/')).collect();
        for name in names {
            let Some(row) = table::find_any(name) else {
                out.push((name.to_owned(), "it is not an annotation of ingress-nginx", false));
                continue;
            };
            let off = self.text(name).is_none_or(|text| text.eq_ignore_ascii_case("false") || text == "0");
            match row.support {
                Support::Works => {}
                Support::Ignored(why) => out.push((name.to_owned(), why, false)),
                Support::Refused(_) if off => {}
                Support::Refused(why) => out.push((name.to_owned(), why, true)),
            }
        }
        out
    }
}
