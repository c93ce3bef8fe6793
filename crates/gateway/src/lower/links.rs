//! Lowers `secure_link` and `valid_referers`.

use crate::lower::Lowering;
use crate::plan::access::LinkPlan;
use conf::diagnostic::Diagnostic;
use conf::model::{RefererName, SecureLink, ValidReferers};
use rules::referer::Referers;
use rules::server_name::ServerName;

impl Lowering<'_> {
    /// As in nginx, nothing is protected if one of the two directives is missing.
    pub(super) fn link_plan(&mut self, link: &SecureLink) -> Option<Box<LinkPlan>> {
        if let Some(secret) = &link.secret {
            return Some(Box::new(LinkPlan::Secret(secret.as_slice().into())));
        }
        let value = link.value.as_ref().map(|value| self.template(value));
        let text = link.text.as_ref().map(|text| self.template(text));
        Some(Box::new(LinkPlan::Checksum { value: value?, text: text? }))
    }

    pub(super) fn referers(&mut self, written: &ValidReferers) -> Option<Box<Referers>> {
        let span = written.span?;
        let mut referers = Referers::default();
        (referers.none, referers.blocked) = (written.none, written.blocked);
        for name in &written.names {
            match name {
                RefererName::ServerNames => self.add_server_names(&mut referers),
                RefererName::Host { name, path, span } => {
                    let shown = String::from_utf8_lossy(name);
                    let is_name = name.first() != Some(&b'~');
                    let added = match ServerName::parse(name, &mut self.users).ok().filter(|_| is_name) {
                        None => Err(format!("invalid hostname or wildcard \"{shown}\"")),
                        Some(parsed) => {
                            let is_new = referers.add_name(parsed, path);
                            is_new.then_some(()).ok_or_else(|| format!("conflicting parameter \"{shown}\""))
                        }
                    };
                    if let Err(message) = added {
                        self.found.push(Diagnostic::error(*span, message));
                    }
                }
            }
        }
        if (written.none || written.blocked) && !referers.has_names() {
            let message = "the \"none\" or \"blocked\" referers are specified in the \"valid_referers\" directive \
                           without any valid referer";
            self.found.push(Diagnostic::error(span, message));
        }
        for regex in &written.patterns {
            if let Some(pattern) = self.pattern(regex) {
                referers.add_pattern(pattern);
            }
        }
        Some(Box::new(referers))
    }

    /// Adds the server's names; a name that is already in the list stays.
    fn add_server_names(&mut self, referers: &mut Referers) {
        let Some(server) = self.server_now.and_then(|id| self.server_of(id)) else { return };
        let forms: Vec<_> = server.names.iter().map(|name| name.form.clone()).collect();
        for form in forms {
            if let Ok(name) = self.server_name(&form) {
                referers.add_name(name, b"");
            }
        }
    }
}
