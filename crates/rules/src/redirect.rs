//! `proxy_redirect`: rewrites Location and Refresh of upstreams, so that clients stay on the gateway. The gateway calls it
//! for each upstream response that has one of the two fields.

use crate::captures::Captures;
use crate::pattern::{MatchError, Pattern};
use crate::template::{CapturedView, Template, View};

/// What a rule looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectFrom {
    /// The beginning of the value.
    Prefix(Template),
    /// An expression; the replacement may use its groups.
    Regex(Pattern),
}

/// One `proxy_redirect FROM TO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectRule {
    /// What it looks for.
    pub from: RedirectFrom,
    /// What replaces the prefix, or the whole value that the expression matched.
    pub to: Template,
}

impl RedirectRule {
    /// `proxy_redirect default`: the URL of `proxy_pass` becomes the location. `url` is the URL as written, with its URI if
    /// it has one; a URL with variables has no default, which the configuration refuses.
    pub fn for_proxy_pass(url: &[u8], has_uri: bool, location: &[u8]) -> Self {
        let (from, to) = if has_uri { (url.to_vec(), location) } else { ([url, b"/"].concat(), &b"/"[..]) };
        Self { from: RedirectFrom::Prefix(Template::constant(&from)), to: Template::constant(to) }
    }

    /// Tries the rule on `value`, which goes to `out` with its replacement if it applies.
    fn rewrite<V: View + ?Sized>(
        &self,
        value: &[u8],
        view: &V,
        captures: &mut Captures,
        out: &mut Vec<u8>,
    ) -> Result<bool, MatchError> {
        match &self.from {
            RedirectFrom::Prefix(from) => {
                let rest = if let Some(prefix) = from.as_constant() {
                    value.strip_prefix(prefix)
                } else {
                    let mut prefix = Vec::new();
                    from.write(view, &mut prefix);
                    value.strip_prefix(&prefix[..])
                };
                let Some(rest) = rest else { return Ok(false) };
                self.to.write(view, out);
                out.extend_from_slice(rest);
            }
            RedirectFrom::Regex(pattern) => {
                if !pattern.captures(value, captures)? {
                    return Ok(false);
                }
                self.to.write(&CapturedView { view, captures, pattern }, out);
            }
        }
        Ok(true)
    }
}

/// The rules of a location, in order; the first one that applies counts. None at all is `proxy_redirect off`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redirects(pub Box<[RedirectRule]>);

impl Redirects {
    /// Appends the rewritten Location to `out`, or says that it stays as it is. `captures` is scratch for expressions, not
    /// the exchange's captures.
    pub fn rewrite_location<V: View + ?Sized>(
        &self,
        value: &[u8],
        view: &V,
        captures: &mut Captures,
        out: &mut Vec<u8>,
    ) -> Result<bool, MatchError> {
        for rule in &self.0 {
            if rule.rewrite(value, view, captures, out)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same for Refresh (`5; url=http://…`): what follows the first `url=` is rewritten.
    pub fn rewrite_refresh<V: View + ?Sized>(
        &self,
        value: &[u8],
        view: &V,
        captures: &mut Captures,
        out: &mut Vec<u8>,
    ) -> Result<bool, MatchError> {
        const URL: &[u8] = b"url=";
        let Some(at) = value.windows(URL.len()).position(|window| window.eq_ignore_ascii_case(URL)) else {
            return Ok(false);
        };
        let (head, url) = value.split_at(at + URL.len());
        let start = out.len();
        out.extend_from_slice(head);
        let rewritten = self.rewrite_location(url, view, captures, out);
        if !matches!(rewritten, Ok(true)) {
            out.truncate(start);
        }
        rewritten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::{UserVariables, Variable};

    /// `$host` is the gateway's name; nothing else is known.
    struct Gateway;

    impl View for Gateway {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
            let found = *variable == Variable::Host;
            if found {
                out.extend_from_slice(b"frontend");
            }
            found
        }
    }

    fn rewritten(redirects: &Redirects, value: &str) -> Option<String> {
        let mut out = Vec::new();
        let changed =
            redirects.rewrite_location(value.as_bytes(), &Gateway, &mut Captures::default(), &mut out).unwrap();
        changed.then(|| String::from_utf8(out).unwrap())
    }

    fn prefix(from: &str, to: &str) -> RedirectRule {
        let constant = |text: &str| Template::constant(text.as_bytes());
        RedirectRule { from: RedirectFrom::Prefix(constant(from)), to: constant(to) }
    }

    #[test]
    fn the_examples_of_the_documentation() {
        let rule = prefix("http://localhost:8000/two/", "http://frontend/one/");
        let redirects = Redirects([rule].into());
        assert_eq!(
            rewritten(&redirects, "http://localhost:8000/two/some/uri/").as_deref(),
            Some("http://frontend/one/some/uri/")
        );
        let redirects = Redirects([RedirectRule::for_proxy_pass(b"http://upstream:port/two/", true, b"/one/")].into());
        assert_eq!(rewritten(&redirects, "http://upstream:port/two/x").as_deref(), Some("/one/x"));
        assert_eq!(rewritten(&redirects, "http://upstream:port/three/x"), None);
    }

    #[test]
    fn the_default_without_a_uri_part_maps_the_whole_upstream() {
        let redirects = Redirects([RedirectRule::for_proxy_pass(b"http://backend", false, b"/name/")].into());
        assert_eq!(rewritten(&redirects, "http://backend/x?y").as_deref(), Some("/x?y"));
        assert_eq!(rewritten(&redirects, "http://backend.example/x"), None);
        assert_eq!(rewritten(&Redirects::default(), "http://backend/x"), None, "proxy_redirect off");
    }

    #[test]
    fn an_expression_replaces_the_whole_value_and_lends_its_groups() {
        let mut users = UserVariables::default();
        let pattern = Pattern::compile(b"^(http://[^:]+):\\d+(?<rest>/.+)$", false, &mut users).unwrap();
        let to = Template::variable(Variable::User(users.slot("rest").unwrap()));
        let redirects =
            Redirects([prefix("ftp:", "x"), RedirectRule { from: RedirectFrom::Regex(pattern), to }].into());
        assert_eq!(rewritten(&redirects, "http://a:81/b/c").as_deref(), Some("/b/c"));
        assert_eq!(rewritten(&redirects, "http://a/b/c"), None);
    }

    #[test]
    fn variables_are_evaluated_on_both_sides() {
        let rule = RedirectRule {
            from: RedirectFrom::Prefix(Template::variable(Variable::Host)),
            to: Template::constant(b"x"),
        };
        assert_eq!(rewritten(&Redirects([rule].into()), "frontend/1").as_deref(), Some("x/1"));
        let rule = RedirectRule { to: Template::variable(Variable::Host), ..prefix("/", "") };
        assert_eq!(rewritten(&Redirects([rule].into()), "/1").as_deref(), Some("frontend1"));
    }

    #[test]
    fn refresh_is_rewritten_behind_its_url() {
        let redirects = Redirects([prefix("http://a/", "/")].into());
        let refresh = |value: &str| {
            let mut out = Vec::new();
            let changed =
                redirects.rewrite_refresh(value.as_bytes(), &Gateway, &mut Captures::default(), &mut out).unwrap();
            (changed, String::from_utf8(out).unwrap())
        };
        assert_eq!(refresh("5; URL=http://a/b"), (true, "5; URL=/b".into()));
        assert_eq!(refresh("5; url=http://c/b"), (false, String::new()));
        assert_eq!(refresh("5"), (false, String::new()));
    }
}
