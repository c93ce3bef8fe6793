//! `map`: a variable that is another text looked up in a table. nginx's order: the exact key, the longest `*.x`, the
//! longest `x.*`, expressions in their order, the default; keys compare without regard to case, and an empty text is
//! never tried on an expression. Built by the gateway when it lowers a configuration, asked by `user_variables`.

use crate::captures::Captures;
use crate::name_table::NameTable;
use crate::pattern::{MatchError, Pattern};
use crate::template::Template;
use std::borrow::Cow;

/// A key of a map, in lower case where it is no expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapKey {
    /// The whole text.
    Exact(Vec<u8>),
    /// `.example.com`: the name itself and everything below it. Without the dot.
    Domain(Vec<u8>),
    /// `*.example.com`: everything below the name. Without `*.`.
    Below(Vec<u8>),
    /// `mail.*`: the name with anything behind it. Without `.*`.
    Before(Vec<u8>),
    /// `~^/([a-z]+)/`: its groups are those of the exchange when the value is made, and afterwards.
    Regex(Pattern),
}

/// A compiled `map`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    source: Template,
    names: NameTable,
    patterns: Box<[(Pattern, u32)]>,
    /// The default, and after it one for each entry.
    values: Box<[Template]>,
    hostnames: bool,
    volatile: bool,
}

/// What a text was found to mean.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<'a> {
    /// The value, to be made when the groups of `pattern` are stored.
    pub value: &'a Template,
    /// The expression that matched, if one did.
    pub pattern: Option<&'a Pattern>,
}

impl Map {
    /// Builds the table. Of two entries with the same key the first counts; the configuration refuses such pairs.
    pub fn build(source: Template, default: Template, entries: Vec<(MapKey, Template)>) -> Self {
        let mut names = NameTable::default();
        let mut patterns = Vec::new();
        let mut values = vec![default];
        for (key, value) in entries {
            let number = values.len() as u32;
            match key {
                MapKey::Exact(text) => _ = names.insert_exact(text, number),
                MapKey::Domain(name) => _ = names.insert_domain(name, number),
                MapKey::Below(name) => _ = names.insert_below(name, number),
                MapKey::Before(name) => _ = names.insert_before(name, number),
                MapKey::Regex(pattern) => patterns.push((pattern, number)),
            }
            values.push(value);
        }
        Self { source, names, patterns: patterns.into(), values: values.into(), hostnames: false, volatile: false }
    }

    /// `hostnames`: a dot at the end of the text does not count.
    #[must_use]
    pub fn hostnames(self, hostnames: bool) -> Self {
        Self { hostnames, ..self }
    }

    /// `volatile`: the value is made anew for each use.
    #[must_use]
    pub fn volatile(self, volatile: bool) -> Self {
        Self { volatile, ..self }
    }

    /// What is looked up.
    pub fn source(&self) -> &Template {
        &self.source
    }

    /// Whether the value is made anew for each use.
    pub fn is_volatile(&self) -> bool {
        self.volatile
    }

    /// What `text` means. `captures` is overwritten if an expression matches.
    pub fn find(&self, text: &[u8], captures: &mut Captures) -> Result<Chosen<'_>, MatchError> {
        let text = text.strip_suffix(b".").filter(|_| self.hostnames).unwrap_or(text);
        let key = if text.iter().any(u8::is_ascii_uppercase) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
        if let Some((number, _)) = self.names.find(&key) {
            return Ok(self.chosen(number, None));
        }
        if !text.is_empty() {
            for (pattern, number) in &self.patterns {
                if pattern.captures(text, captures)? {
                    return Ok(self.chosen(*number, Some(pattern)));
                }
            }
        }
        Ok(self.chosen(0, None))
    }

    fn chosen<'a>(&'a self, number: u32, pattern: Option<&'a Pattern>) -> Chosen<'a> {
        Chosen { value: &self.values[number as usize], pattern }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::{UserVariables, Variable};

    fn map(entries: Vec<(MapKey, &str)>) -> Map {
        let entries = entries.into_iter().map(|(key, value)| (key, Template::constant(value.as_bytes())));
        Map::build(Template::variable(Variable::Host), Template::constant(b"default"), entries.collect())
    }

    fn found(map: &Map, text: &str) -> String {
        let chosen = map.find(text.as_bytes(), &mut Captures::default()).unwrap();
        String::from_utf8(chosen.value.as_constant().unwrap().to_vec()).unwrap()
    }

    fn pattern(source: &str, caseless: bool) -> MapKey {
        MapKey::Regex(Pattern::compile(source.as_bytes(), caseless, &mut UserVariables::default()).unwrap())
    }

    #[test]
    fn exact_keys_compare_without_case_and_come_before_expressions() {
        let map = map(vec![
            (pattern("^a", false), "expression"),
            (MapKey::Exact(b"abc".to_vec()), "exact"),
            (pattern("^B", true), "caseless"),
            (pattern("^$", false), "empty expression"),
        ]);
        for (text, value) in [
            ("abc", "exact"),
            ("ABC", "exact"),
            ("abcd", "expression"),
            ("ABCD", "default"),
            ("bcd", "caseless"),
            ("", "default"),
        ] {
            assert_eq!(found(&map, text), value, "{text}");
        }
    }

    #[test]
    fn host_names_have_forms_and_lose_their_last_dot() {
        let map = map(vec![
            (MapKey::Domain(b"example.com".to_vec()), "domain"),
            (MapKey::Below(b"deep.example.com".to_vec()), "below"),
            (MapKey::Before(b"mail".to_vec()), "before"),
            (MapKey::Exact(b"www.example.com".to_vec()), "exact"),
        ])
        .hostnames(true);
        for (text, value) in [
            ("example.com", "domain"),
            ("example.com.", "domain"),
            ("x.y.Example.com", "domain"),
            ("www.example.com", "exact"),
            ("deep.example.com", "domain"),
            ("a.deep.example.com", "below"),
            ("mail.x.y", "before"),
            ("mail.example.com", "domain"),
            ("mail", "default"),
        ] {
            assert_eq!(found(&map, text), value, "{text}");
        }
    }

    #[test]
    fn the_groups_of_the_expression_that_matched_are_there() {
        let map = map(vec![(pattern("^x(.)", false), "no"), (pattern("^y(.)", false), "yes")]);
        let mut captures = Captures::default();
        let chosen = map.find(b"yz", &mut captures).unwrap();
        assert_eq!(chosen.pattern.map(Pattern::source), Some("^y(.)"));
        assert_eq!(captures.group(1), Some(&b"z"[..]));
    }
}
