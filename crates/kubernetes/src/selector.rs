//! Label selectors of `--watch-namespace-selector`: `team=a,tier!=test,stage in (x, y),public,!private`. Pure.

use std::collections::BTreeMap;

/// Most requirements of a selector. It comes from the command line; more are a mistake.
const REQUIREMENTS_MAX: usize = 64;

/// A selector. An empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Parses a selector as `kubectl -l` writes it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = split(text);
        if parts.len() > REQUIREMENTS_MAX {
            return Err(format!("a selector has at most {REQUIREMENTS_MAX} requirements"));
        }
        parts.into_iter().filter(|part| !part.is_empty()).map(requirement).collect::<Result<_, _>>().map(Self)
    }

    /// Whether labels match.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
        })
    }
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn requirement(text: &str) -> Result<Requirement, String> {
    let bad = || format!("\"{text}\" is not a requirement of labels");
    let key = |key: &str| {
        let is_key = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        let key = key.trim();
        (!key.is_empty() && key.chars().all(is_key)).then(|| key.to_owned()).ok_or_else(bad)
    };
    let value = |value: &str| value.trim().to_owned();
    if let Some((name, one)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(key(name)?, vec![value(one)]));
    }
    if let Some((name, one)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(key(name)?, vec![value(one)]));
    }
    if let Some((head, list)) = text.split_once('(') {
        let values = list.strip_suffix(')').ok_or_else(bad)?.split(',').map(value).collect();
        let (name, operator) = head.trim().rsplit_once(char::is_whitespace).ok_or_else(bad)?;
        return match operator {
            "in" => Ok(Requirement::In(key(name)?, values)),
            "notin" => Ok(Requirement::NotIn(key(name)?, values)),
            _ => Err(bad()),
        };
    }
    match text.strip_prefix('!') {
        Some(name) => Ok(Requirement::Absent(key(name)?)),
        None => Ok(Requirement::Exists(key(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Selector::parse(selector).expect("a selector").matches(&labels)
    }

    #[test]
    fn selectors_match_kubectl() {
        let labels = [("team", "a"), ("tier", "live")];
        for fits in
            ["", "team=a", "team == a, tier!=test", "team in (b, a)", "tier notin (x)", "team", "!public", "x!=1"]
        {
            assert!(matches(fits, &labels), "{fits}");
        }
        for not in ["team=b", "team!=a", "team in (b,c)", "tier notin (live)", "public", "!team", "team=a,tier=test"] {
            assert!(!matches(not, &labels), "{not}");
        }
        for bad in ["team of (a)", "a b", "=", "!", "team in (a"] {
            assert!(Selector::parse(bad).is_err(), "{bad}");
        }
    }
}
