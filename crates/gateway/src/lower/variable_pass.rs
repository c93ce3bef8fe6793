//! `proxy_pass` with variables.

use crate::lower::Lowering;
use crate::lower::proxy::Pass;
use crate::plan::group::{GroupPlan, GroupUseId, Sharing};
use crate::plan::location::Content;
use crate::plan::proxy::PassUriPlan;
use crate::plan::upstream_tls::UpstreamTlsPlan;
use crate::plan::variable_pass::{GuestsId, GuestsPlan, KnownGroup, PassTargets, VariablePassPlan};
use conf::model::{LocationSettings, Scheme};
use conf::source::Span;
use conf::value::{Host, Part, Template};
use std::sync::Arc;
use upstream::shared::GroupLimits;

/// The pool group of all connections to peers that only requests name. Locations that lead to the same address share
/// its connections, as far as `proxy_bind` allows.
const GUESTS: &str = "proxy_pass with variables";

/// Schemes at the start of a template that are not HTTP.
const OTHERS: [Scheme; 6] = [Scheme::Suwsgi, Scheme::Fastcgi, Scheme::Scgi, Scheme::Uwsgi, Scheme::Grpc, Scheme::Grpcs];

impl Lowering<'_> {
    /// `proxy_pass` with variables.
    pub(super) fn variable_pass(
        &mut self,
        url: &Template,
        span: Span,
        settings: &Arc<LocationSettings>,
        name: &[u8],
    ) -> Content {
        let (plain, secure) = schemes(url);
        let scheme = OTHERS.into_iter().find(|scheme| begins(url, scheme.as_str())).unwrap_or(Scheme::Http);
        let words = Pass { settings, name, scheme };
        let plain = plain.then(|| self.pass_targets(None, span, words, url));
        let secure = if secure {
            // `$proxy_host` is part of the URL.
            let scheme = match scheme.family() {
                "grpc" => Scheme::Grpcs,
                "uwsgi" => Scheme::Suwsgi,
                _ => Scheme::Https,
            };
            let words = Pass { scheme, ..words };
            let Some(tls) = self.upstream_tls(words, None, span) else { return Content::Nothing };
            Some(self.pass_targets(Some(&tls), span, words, url))
        } else {
            None
        };
        let client = Arc::clone(&settings.client);
        let resolver = client.resolver.as_ref().map(|resolver| self.resolver(resolver, client.resolver_timeout));
        Content::VariablePass(Box::new(VariablePassPlan { url: self.template(url), plain, secure, resolver }))
    }

    /// The targets for URLs with one scheme.
    fn pass_targets(
        &mut self,
        tls: Option<&UpstreamTlsPlan>,
        span: Span,
        words: Pass<'_>,
        url: &Template,
    ) -> PassTargets {
        let binding = self.connect_options(words, span);
        let shared = tls.map(UpstreamTlsPlan::shared);
        let location = self.pool_of(None, words, &binding.1);
        let sharing = Sharing { source: binding.0.source, location, tls: shared.clone() };
        let group = self.guests_group(span, sharing);
        let guests = GuestsId(self.plan.guests.len() as u32);
        self.plan.guests.push(GuestsPlan { group, span });
        let mut other = self.plan_with(group, binding.clone(), PassUriPlan::Variable, None, words);
        other.tls = tls.cloned();
        self.mark_route(&mut other, words, Some(url));
        let other = self.add_proxy(other);
        let mut known = Vec::new();
        for upstream in &self.declared.upstreams {
            let server = upstream.servers.first().filter(|_| upstream.implicit);
            let (name_of, port) = match server.map(|server| &server.address.address) {
                None => (upstream.name.to_ascii_lowercase(), None),
                Some(address) => match &address.host {
                    Host::Name(host) => (host.clone(), Some(address.port)),
                    Host::Ip(_) | Host::Unix(_) => continue,
                },
            };
            let location = self.pool_of(Some(upstream), words, &binding.1);
            let sharing = Sharing { source: binding.0.source, location, tls: shared.clone() };
            let Some(group) = self.group_use(upstream, sharing) else { continue };
            self.note_tls(group, false, tls);
            self.note_floors(upstream, group, &binding, words, tls);
            let mut plan = self.plan_with(group, binding.clone(), PassUriPlan::Variable, port, words);
            plan.host = upstream.name.as_bytes().into();
            plan.tls = tls.cloned();
            self.mark_route(&mut plan, words, Some(url));
            known.push(KnownGroup { name: name_of.into(), port, proxy: self.add_proxy(plan) });
        }
        PassTargets { other, known, guests }
    }

    /// The group of all peers that only requests name, as one `proxy_pass` uses it.
    fn guests_group(&mut self, span: Span, sharing: Sharing) -> GroupUseId {
        let group = self.groups.guests.unwrap_or_else(|| {
            // nginx's default keepalive for a group.
            let limits = GroupLimits::keepalive(32, false, self.options.workers);
            self.add_group(GroupPlan::without_servers(GUESTS, span, limits))
        });
        self.groups.guests = Some(group);
        self.use_of(group, sharing)
    }
}

/// Whether the template can produce plain URLs (of `http`, `grpc`, or an application), and whether it can produce
/// `https` URLs. Both are possible unless the template begins with a scheme.
fn schemes(url: &Template) -> (bool, bool) {
    match OTHERS.into_iter().find(|scheme| begins(url, scheme.as_str())) {
        // The scheme may have been added before a variable that contains one, too.
        Some(Scheme::Grpc | Scheme::Uwsgi) => return (true, true),
        Some(Scheme::Grpcs | Scheme::Suwsgi) => return (false, true),
        Some(_) => return (true, false),
        None => {}
    }
    (!begins(url, "https"), !begins(url, "http"))
}

/// Whether a URL begins with this scheme.
fn begins(url: &Template, scheme: &str) -> bool {
    let Some(Part::Text(text)) = url.parts.first() else { return false };
    let Some((found, rest)) = text.split_at_checked(scheme.len()) else { return false };
    found.eq_ignore_ascii_case(scheme.as_bytes()) && rest.starts_with(b"://")
}
