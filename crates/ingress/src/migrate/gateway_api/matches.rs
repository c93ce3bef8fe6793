//! Paths of an Ingress -> matches of a route, and rewrites, which depend on them.

use serde_json::{Value, json};

/// How a path is matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathMatch {
    /// `Exact`, `PathPrefix` or `RegularExpression`.
    pub(super) kind: &'static str,
    /// The path or the expression.
    pub(super) value: String,
    /// The group of the expression that holds what follows the prefix, if the expression was one.
    pub(super) rest_group: Option<char>,
}

impl PathMatch {
    /// `regex`: the Ingress has expressions, as ingress-nginx decides for a whole host.
    pub(super) fn new(path: &str, kind: &str, regex: bool, comments: &mut Vec<String>) -> Self {
        let path = if path.is_empty() { "/" } else { path };
        if kind == "Exact" {
            return Self { kind: "Exact", value: path.to_owned(), rest_group: None };
        }
        if regex && let Some((prefix, group)) = prefix_of(path) {
            return Self { kind: "PathPrefix", value: prefix, rest_group: Some(group) };
        }
        if is_plain(path) {
            if kind == "ImplementationSpecific" && path != "/" {
                comments.push(format!(
                    "{path}: nginx compares characters, so it matches {path}more too; PathPrefix compares whole elements"
                ));
            }
            return Self { kind: "PathPrefix", value: path.to_owned(), rest_group: None };
        }
        comments
            .push(format!("{path}: expressions are specific to implementations; nginx ignores upper and lower case"));
        let open = if path.ends_with('$') { "" } else { ".*" };
        let path = path.trim_start_matches('^').trim_end_matches('$');
        Self { kind: "RegularExpression", value: format!("(?i){path}{open}"), rest_group: None }
    }

    pub(super) fn object(&self) -> Value {
        json!({"type": self.kind, "value": self.value})
    }

    /// The filter for `rewrite-target`.
    pub(super) fn rewrite(&self, target: &str) -> Result<Value, String> {
        let path = match (target.split_once('$'), self.rest_group) {
            (None, _) => json!({"type": "ReplaceFullPath", "replaceFullPath": target}),
            (Some((before, group)), Some(known)) if group == known.to_string() => {
                let prefix = before.trim_end_matches('/');
                let prefix = if prefix.is_empty() { "/" } else { prefix };
                json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": prefix})
            }
            _ => {
                return Err(format!(
                    "{target}: groups of an expression have no field; a prefix or a whole path can be replaced"
                ));
            }
        };
        Ok(json!({"type": "URLRewrite", "urlRewrite": {"path": path}}))
    }
}

/// Whether the API takes it as a path.
fn is_plain(path: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-/._~!&',;=:@%".contains(c);
    path.starts_with('/') && path.chars().all(allowed) && !path.contains("//") && !path.contains("/..")
}

/// The prefix and the group of the rest for the expressions that people write for "everything below".
fn prefix_of(path: &str) -> Option<(String, char)> {
    const FORMS: [(&str, char); 6] =
        [("(/|$)(.*)", '2'), ("(/|$)(.*)$", '2'), ("/?(.*)", '1'), ("/(.*)", '1'), ("/(.*)$", '1'), ("()(.*)", '2')];
    let path = path.strip_prefix('^').unwrap_or(path);
    let (prefix, group) = FORMS.iter().find_map(|(form, group)| Some((path.strip_suffix(form)?, *group)))?;
    let prefix = if prefix.is_empty() { "/" } else { prefix };
    is_plain(prefix).then(|| (prefix.to_owned(), group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str, kind: &str, regex: bool) -> (String, Vec<String>) {
        let mut comments = Vec::new();
        let found = PathMatch::new(path, kind, regex, &mut comments);
        (format!("{} {}", found.kind, found.value), comments)
    }

    #[test]
    fn common_expressions_become_prefixes() {
        for (given, wanted) in [
            ("/api(/|$)(.*)", "PathPrefix /api"),
            ("/api/(.*)", "PathPrefix /api"),
            ("/(.*)", "PathPrefix /"),
            ("/a/?(.*)", "PathPrefix /a"),
        ] {
            assert_eq!(path(given, "ImplementationSpecific", true), (wanted.to_owned(), vec![]), "{given}");
        }
        let (found, comments) = path("/v[0-9]+/x", "ImplementationSpecific", true);
        assert_eq!((found.as_str(), comments.len()), ("RegularExpression (?i)/v[0-9]+/x.*", 1));
        assert_eq!(path("/a.b$", "ImplementationSpecific", true).0, "RegularExpression (?i)/a.b");
    }

    #[test]
    fn prefixes_of_characters_are_explained() {
        assert_eq!(path("/foo", "ImplementationSpecific", false).1.len(), 1);
        assert_eq!(path("/foo", "Prefix", false).1.len(), 0);
    }

    #[test]
    fn rewrites_replace_prefixes_or_whole_paths() {
        let mut comments = Vec::new();
        let found = PathMatch::new("/api(/|$)(.*)", "ImplementationSpecific", true, &mut comments);
        let path = |target: &str| found.rewrite(target).map(|it| it["urlRewrite"]["path"].clone());
        assert_eq!(path("/$2").unwrap(), json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}));
        assert_eq!(path("/v1/$2").unwrap(), json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}));
        assert_eq!(path("/x").unwrap(), json!({"type": "ReplaceFullPath", "replaceFullPath": "/x"}));
        assert!(path("/$1/$2").is_err());
    }
}
