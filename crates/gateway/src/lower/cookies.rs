//! Lowers `proxy_cookie_domain`, `proxy_cookie_path` and `proxy_cookie_flags` to the rules of `rules`.

use crate::lower::Lowering;
use conf::model::{CookiePattern, ProxySettings};
use rules::redirect::{RedirectFrom, RedirectRule, Redirects};
use rules::set_cookie::{CookieMatch, CookieRules, DomainRule, FlagRule};

impl Lowering<'_> {
    /// `None` if Set-Cookie is not rewritten.
    pub(super) fn cookie_rules(&mut self, proxy: &ProxySettings) -> Option<Box<CookieRules>> {
        let mut rules = (Vec::new(), Vec::new(), Vec::new());
        for rewrite in &proxy.cookie_domains {
            let Some(from) = self.cookie_match(&rewrite.from) else { continue };
            rules.0.push(DomainRule { from, to: self.template(&rewrite.to) });
        }
        for rewrite in &proxy.cookie_paths {
            let from = match &rewrite.from {
                CookiePattern::Text(text) => RedirectFrom::Prefix(self.template(text)),
                CookiePattern::Regex(regex) => match self.pattern(regex) {
                    Some(pattern) => RedirectFrom::Regex(pattern),
                    None => continue,
                },
            };
            rules.1.push(RedirectRule { from, to: self.template(&rewrite.to) });
        }
        for written in &proxy.cookie_flags {
            let Some(cookie) = self.cookie_match(&written.cookie) else { continue };
            let flags = written.flags.iter().map(|flag| self.template(flag)).collect();
            rules.2.push(FlagRule { cookie, flags });
        }
        let (domains, paths, flags) = rules;
        let rules = CookieRules { domains: domains.into(), paths: Redirects(paths.into()), flags: flags.into() };
        (!rules.is_empty()).then(|| Box::new(rules))
    }

    fn cookie_match(&mut self, written: &CookiePattern) -> Option<CookieMatch> {
        Some(match written {
            CookiePattern::Text(text) => CookieMatch::Text(self.template(text)),
            CookiePattern::Regex(regex) => CookieMatch::Regex(self.pattern(regex)?),
        })
    }
}
