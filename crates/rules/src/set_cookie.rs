//! `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`: rewrites Set-Cookie of upstreams so that the cookie is
//! valid for the gateway's clients. As in nginx a rewritten field is put together anew (`; ` between attributes), and any
//! other field stays byte for byte. The gateway calls it for each Set-Cookie of a response where a rule is configured.

use crate::captures::Captures;
use crate::pattern::{MatchError, Pattern};
use crate::redirect::Redirects;
use crate::template::{CapturedView, Template, View};
use std::borrow::Cow;

/// What a rule compares a whole domain or cookie name with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CookieMatch {
    /// The text, in upper or lower case.
    Text(Template),
    /// An expression.
    Regex(Pattern),
}

/// One `proxy_cookie_domain FROM TO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainRule {
    /// The domain, without a dot before it.
    pub from: CookieMatch,
    /// What is in its place. A dot before the domain stays, but for that of an expression, which has seen it.
    pub to: Template,
}

/// One `proxy_cookie_flags COOKIE FLAG …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagRule {
    /// The cookies that get the flags.
    pub cookie: CookieMatch,
    /// Words such as `secure` or `samesite=lax`; an empty one has no effect.
    pub flags: Box<[Template]>,
}

/// The rules of a location. Of each kind the first one that applies counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CookieRules {
    /// `proxy_cookie_domain`
    pub domains: Box<[DomainRule]>,
    /// `proxy_cookie_path`, which works as `proxy_redirect` does.
    pub paths: Redirects,
    /// `proxy_cookie_flags`
    pub flags: Box<[FlagRule]>,
}

/// `Name` or `Name=value`; of the first one that is the cookie itself.
struct Attribute<'a> {
    name: Cow<'a, [u8]>,
    value: Option<Cow<'a, [u8]>>,
}

/// Whether a rule sets or removes a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

/// What a rule makes of the flags of a cookie; `None` leaves one as it is.
#[derive(Debug, Default, Clone, Copy)]
struct Flags {
    secure: Option<Switch>,
    http_only: Option<Switch>,
    same_site: Option<SameSite>,
}

/// Whether a rule sets or removes `SameSite`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SameSite {
    Value(&'static str),
    Off,
}

/// Its values, the strictest first.
const SAME_SITES: [&str; 3] = ["Strict", "Lax", "None"];

impl CookieRules {
    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.paths.0.is_empty() && self.flags.is_empty()
    }

    /// Appends a rewritten Set-Cookie to `out`, or returns that it stays as it is. `captures` is scratch for expressions, not
    /// the exchange's captures; `unknown` is called with each word that is not a flag.
    pub fn rewrite<V: View + ?Sized>(
        &self,
        value: &[u8],
        view: &V,
        captures: &mut Captures,
        unknown: &mut dyn FnMut(&[u8]),
        out: &mut Vec<u8>,
    ) -> Result<bool, MatchError> {
        let mut attributes: Vec<Attribute<'_>> = value.split(|&byte| byte == b';').map(parse_attribute).collect();
        let Some((cookie, described)) = attributes.split_first_mut() else { return Ok(false) };
        if cookie.value.is_none() {
            return Ok(false);
        }
        let mut changed = false;
        for Attribute { name, value } in described {
            let Some(value) = value else { continue };
            if name.eq_ignore_ascii_case(b"domain") {
                changed |= self.rewrite_domain(value, view, captures)?;
            } else if name.eq_ignore_ascii_case(b"path") {
                let mut path = Vec::new();
                if self.paths.rewrite_location(value, view, captures, &mut path)? {
                    *value = Cow::Owned(path);
                    changed = true;
                }
            }
        }
        if let Some(flags) = self.flags_of(&attributes[0].name, view, captures, unknown)? {
            flags.apply(&mut attributes);
            changed = true;
        }
        if changed {
            write_attributes(&attributes, out);
        }
        Ok(changed)
    }

    fn rewrite_domain<V: View + ?Sized>(
        &self,
        value: &mut Cow<'_, [u8]>,
        view: &V,
        captures: &mut Captures,
    ) -> Result<bool, MatchError> {
        for rule in &self.domains {
            let mut domain = Vec::new();
            match &rule.from {
                CookieMatch::Text(from) => {
                    let (dot, bare) = value.split_at(usize::from(value.first() == Some(&b'.')));
                    if !is_text(from, bare, view) {
                        continue;
                    }
                    domain.extend_from_slice(dot);
                    rule.to.write(view, &mut domain);
                }
                CookieMatch::Regex(pattern) => {
                    if !pattern.captures(value, captures)? {
                        continue;
                    }
                    rule.to.write(&CapturedView { view, captures, pattern }, &mut domain);
                }
            }
            *value = Cow::Owned(domain);
            return Ok(true);
        }
        Ok(false)
    }

    /// The flags from the first rule for a cookie of this name; `None` if no rule changes anything.
    fn flags_of<V: View + ?Sized>(
        &self,
        name: &[u8],
        view: &V,
        captures: &mut Captures,
        unknown: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Flags>, MatchError> {
        for rule in &self.flags {
            let (applies, pattern) = match &rule.cookie {
                CookieMatch::Text(text) => (is_text(text, name, view), None),
                CookieMatch::Regex(pattern) => (pattern.captures(name, captures)?, Some(pattern)),
            };
            if !applies {
                continue;
            }
            let (mut flags, mut any) = (Flags::default(), false);
            for template in &rule.flags {
                let mut word = Vec::new();
                match pattern {
                    Some(pattern) => template.write(&CapturedView { view, captures, pattern }, &mut word),
                    None => template.write(view, &mut word),
                }
                if word.is_empty() {
                    continue;
                }
                let known = flags.take(&word);
                any |= known;
                if !known {
                    unknown(&word);
                }
            }
            return Ok(any.then_some(flags));
        }
        Ok(None)
    }
}

/// Whether a template evaluates to this text; letters compare without case.
fn is_text<V: View + ?Sized>(template: &Template, text: &[u8], view: &V) -> bool {
    if let Some(constant) = template.as_constant() {
        return constant.eq_ignore_ascii_case(text);
    }
    let mut written = Vec::new();
    template.write(view, &mut written);
    written.eq_ignore_ascii_case(text)
}

impl Flags {
    /// Takes a word of the configuration on; `false`: there is no such flag.
    fn take(&mut self, word: &[u8]) -> bool {
        let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
        // Where words contradict each other, setting a flag goes before taking it away, and the strictest value first.
        if is("secure") {
            self.secure = Some(Switch::On);
        } else if is("nosecure") {
            self.secure.get_or_insert(Switch::Off);
        } else if is("httponly") {
            self.http_only = Some(Switch::On);
        } else if is("nohttponly") {
            self.http_only.get_or_insert(Switch::Off);
        } else if is("nosamesite") {
            self.same_site.get_or_insert(SameSite::Off);
        } else if let Some(value) = SAME_SITES.into_iter().find(|value| is(&format!("samesite={value}"))) {
            self.same_site = Some(SameSite::Value(stricter(self.same_site, value)));
        } else {
            return false;
        }
        true
    }

    /// Changes the attributes behind the cookie itself, and adds those that are missing.
    fn apply(mut self, attributes: &mut Vec<Attribute<'_>>) {
        let mut place = 0;
        attributes.retain_mut(|attribute| {
            place += 1;
            if place == 1 {
                return true;
            }
            let switch = |switch: &mut Option<Switch>| match *switch {
                Some(Switch::On) => {
                    *switch = None;
                    true
                }
                Some(Switch::Off) => false,
                None => true,
            };
            if attribute.name.eq_ignore_ascii_case(b"secure") {
                return switch(&mut self.secure);
            }
            if attribute.name.eq_ignore_ascii_case(b"httponly") {
                return switch(&mut self.http_only);
            }
            if !attribute.name.eq_ignore_ascii_case(b"samesite") {
                return true;
            }
            match self.same_site {
                Some(SameSite::Value(value)) => {
                    attribute.name = Cow::Borrowed(b"SameSite");
                    attribute.value = Some(Cow::Borrowed(value.as_bytes()));
                    self.same_site = None;
                    true
                }
                Some(SameSite::Off) => false,
                None => true,
            }
        });
        let added = |name: &'static [u8], value: Option<&'static str>| Attribute {
            name: Cow::Borrowed(name),
            value: value.map(|value| Cow::Borrowed(value.as_bytes())),
        };
        if self.secure == Some(Switch::On) {
            attributes.push(added(b"Secure", None));
        }
        if self.http_only == Some(Switch::On) {
            attributes.push(added(b"HttpOnly", None));
        }
        if let Some(SameSite::Value(value)) = self.same_site {
            attributes.push(added(b"SameSite", Some(value)));
        }
    }
}

fn stricter(one: Option<SameSite>, other: &'static str) -> &'static str {
    let rank = |value: &str| SAME_SITES.iter().position(|known| *known == value);
    match one {
        Some(SameSite::Value(one)) if rank(one) < rank(other) => one,
        _ => other,
    }
}

/// Spaces around names and values do not belong to them.
fn parse_attribute(part: &[u8]) -> Attribute<'_> {
    let mut halves = part.splitn(2, |&byte| byte == b'=');
    let name = trim_spaces(halves.next().unwrap_or_default());
    let value = halves.next().map(trim_spaces);
    Attribute { name: Cow::Borrowed(name), value: value.map(Cow::Borrowed) }
}

fn trim_spaces(mut bytes: &[u8]) -> &[u8] {
    while let Some(rest) = bytes.strip_prefix(b" ") {
        bytes = rest;
    }
    while let Some(rest) = bytes.strip_suffix(b" ") {
        bytes = rest;
    }
    bytes
}

fn write_attributes(attributes: &[Attribute<'_>], out: &mut Vec<u8>) {
    for (place, Attribute { name, value }) in attributes.iter().enumerate() {
        if place > 0 {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(name);
        if let Some(value) = value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redirect::{RedirectFrom, RedirectRule};
    use crate::variable::{UserVariables, Variable};

    /// `$host` is the gateway's name; nothing else is known.
    struct Gateway;

    impl View for Gateway {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
            let found = *variable == Variable::Host;
            if found {
                out.extend_from_slice(b"gateway.test");
            }
            found
        }
    }

    /// The rewritten field; `None` where it stays.
    fn rewritten(rules: &CookieRules, value: &str) -> Option<String> {
        let mut out = Vec::new();
        let mut unknown = |flag: &[u8]| panic!("{} is no flag", flag.escape_ascii());
        let view = &Gateway;
        let changed = rules.rewrite(value.as_bytes(), view, &mut Captures::default(), &mut unknown, &mut out).unwrap();
        changed.then(|| String::from_utf8(out).unwrap())
    }

    fn text(text: &str) -> CookieMatch {
        CookieMatch::Text(Template::constant(text.as_bytes()))
    }

    fn regex(source: &str) -> CookieMatch {
        CookieMatch::Regex(Pattern::compile(source.as_bytes(), true, &mut UserVariables::default()).unwrap())
    }

    fn domain(from: CookieMatch, to: Template) -> CookieRules {
        CookieRules { domains: [DomainRule { from, to }].into(), ..CookieRules::default() }
    }

    fn flags(cookie: CookieMatch, words: &[&str]) -> CookieRules {
        let words = words.iter().map(|word| Template::constant(word.as_bytes())).collect();
        CookieRules { flags: [FlagRule { cookie, flags: words }].into(), ..CookieRules::default() }
    }

    #[test]
    fn replaced_domain_keeps_its_dot() {
        let rules = domain(text("inside.test"), Template::variable(Variable::Host));
        for (value, expected) in [
            ("a=b; Domain=inside.test", Some("a=b; Domain=gateway.test")),
            ("a=b;domain=.INSIDE.test;Secure", Some("a=b; domain=.gateway.test; Secure")),
            ("a=b; Domain = inside.test ; Path=/", Some("a=b; Domain=gateway.test; Path=/")),
            ("a=b; Domain=sub.inside.test", None),
            ("a=b; Domain", None),
            ("a=b", None),
            ("a; Domain=inside.test", None),
            ("", None),
        ] {
            assert_eq!(rewritten(&rules, value).as_deref(), expected, "{value}");
        }
        let rules = domain(regex(r"\.(inside)\.test$"), Template::constant(b"outside.test"));
        assert_eq!(rewritten(&rules, "a=b; Domain=x.Inside.test").as_deref(), Some("a=b; Domain=outside.test"));
    }

    #[test]
    fn path_is_replaced_by_prefix_or_expression() {
        let template = |text: &str| Template::constant(text.as_bytes());
        let prefix = RedirectRule { from: RedirectFrom::Prefix(template("/app/")), to: template("/") };
        let rules = CookieRules { paths: Redirects([prefix].into()), ..CookieRules::default() };
        assert_eq!(rewritten(&rules, "a=b; Path=/app/x").as_deref(), Some("a=b; Path=/x"));
        assert_eq!(rewritten(&rules, "a=b; Path=/apple"), None);
        assert_eq!(rewritten(&rules, "path=/app/; a=b"), None, "the first one is the cookie");
        assert_eq!(rewritten(&rules, "a=b=c; Path=/app/;").as_deref(), Some("a=b=c; Path=/; "));
    }

    #[test]
    fn flags_are_added_taken_away_and_changed() {
        for (words, value, expected) in [
            (&["secure", "httponly"][..], "s=1", Some("s=1; Secure; HttpOnly")),
            (&["secure"], "s=1; secure; Path=/", Some("s=1; secure; Path=/")),
            (&["nosecure", "nohttponly"], "s=1; Secure; HttpOnly", Some("s=1")),
            (&["samesite=lax"], "s=1; samesite=None", Some("s=1; SameSite=Lax")),
            (&["samesite=STRICT"], "s=1", Some("s=1; SameSite=Strict")),
            (&["nosamesite"], "s=1; samesite=Lax; x", Some("s=1; x")),
            (&["samesite=none", "samesite=lax"], "s=1", Some("s=1; SameSite=Lax")),
            (&["nosecure", "secure"], "s=1", Some("s=1; Secure")),
            (&[""], "s=1", None),
            (&["secure"], "other=1", None),
            (&["secure"], "s", None),
        ] {
            assert_eq!(rewritten(&flags(text("S"), words), value).as_deref(), expected, "{words:?} {value}");
        }
        assert_eq!(rewritten(&flags(regex("^s"), &["secure"]), "session=1").as_deref(), Some("session=1; Secure"));
    }

    #[test]
    fn reports_an_unknown_flag() {
        let rules = flags(text("s"), &["sceure"]);
        let (mut told, mut out) = (Vec::new(), Vec::new());
        let mut unknown = |flag: &[u8]| told.push(flag.to_vec());
        let changed = rules.rewrite(b"s=1", &Gateway, &mut Captures::default(), &mut unknown, &mut out);
        assert_eq!((changed, out.len()), (Ok(false), 0));
        assert_eq!(told, [b"sceure"]);
    }
}
