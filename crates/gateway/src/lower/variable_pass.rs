//! `proxy_pass` with variables.

use crate::lower::Lowering;
use crate::plan::group::{GroupPlan, GroupUseId, Sharing};
use crate::plan::location::Content;
use crate::plan::proxy::PassUriPlan;
use crate::plan::upstream_tls::UpstreamTlsPlan;
use crate::plan::variable_pass::{GuestsId, GuestsPlan, KnownGroup, PassTargets, VariablePassPlan};
use conf::model::{LocationSettings, UpstreamId};
use conf::source::Span;
use conf::value::{Host, Part, Template};
use std::sync::Arc;
use std::time::Duration;
use upstream::balance::{Checked, Method};
use upstream::shared::GroupLimits;

/// The group of the pool in which all connections are that only requests have named. Who names the same address uses the
/// same connections, as far as `proxy_bind` allows.
const GUESTS: &str = "proxy_pass with variables";

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
        let plain = plain.then(|| self.pass_targets(None, span, settings, name));
        let secure = if secure {
            // `$proxy_host` is part of the URL.
            let Some(tls) = self.upstream_tls(settings, None, span) else { return Content::Nothing };
            Some(self.pass_targets(Some(&tls), span, settings, name))
        } else {
            None
        };
        let client = Arc::clone(&settings.client);
        let resolver = client.resolver.as_ref().map(|resolver| self.resolver(resolver, client.resolver_timeout));
        Content::VariablePass(Box::new(VariablePassPlan { url: self.template(url), plain, secure, resolver }))
    }

    /// Where URLs of one scheme may lead.
    fn pass_targets(
        &mut self,
        tls: Option<&UpstreamTlsPlan>,
        span: Span,
        settings: &Arc<LocationSettings>,
        name: &[u8],
    ) -> PassTargets {
        let binding = self.connect_options(settings, span);
        let shared = tls.map(UpstreamTlsPlan::shared);
        let location = self.pool_of(None, name, &binding.1);
        let sharing = Sharing { source: binding.0.source, location, tls: shared.clone() };
        let group = self.guests_group(span, sharing);
        let guests = GuestsId(self.plan.guests.len() as u32);
        self.plan.guests.push(GuestsPlan { group, span });
        let mut other = self.plan_with(group, binding.clone(), PassUriPlan::Variable, None, settings, name);
        other.tls = tls.cloned();
        let other = self.add_proxy(other);
        let mut known = Vec::new();
        for (index, upstream) in self.http.upstreams.iter().enumerate() {
            let server = upstream.servers.first().filter(|_| upstream.implicit);
            let (name_of, port) = match server.map(|server| &server.address.address) {
                None => (upstream.name.to_ascii_lowercase(), None),
                Some(address) => match &address.host {
                    Host::Name(host) => (host.clone(), Some(address.port)),
                    Host::Ip(_) | Host::Unix(_) => continue,
                },
            };
            let upstream_id = UpstreamId(index as u32);
            let location = self.pool_of(Some(upstream_id), name, &binding.1);
            let sharing = Sharing { source: binding.0.source, location, tls: shared.clone() };
            let Some(group) = self.group_use(upstream_id, sharing) else { continue };
            self.note_tls(group, false, tls);
            self.note_floors(upstream_id, group, &binding, settings, tls);
            let mut plan = self.plan_with(group, binding.clone(), PassUriPlan::Variable, port, settings, name);
            plan.host = upstream.name.as_bytes().into();
            plan.tls = tls.cloned();
            known.push(KnownGroup { name: name_of.into(), port, proxy: self.add_proxy(plan) });
        }
        PassTargets { other, known, guests }
    }

    /// The group of all peers that only requests name, as one `proxy_pass` uses it.
    fn guests_group(&mut self, span: Span, sharing: Sharing) -> GroupUseId {
        let group = self.groups.guests.unwrap_or_else(|| {
            self.add_group(GroupPlan {
                name: GUESTS.into(),
                span,
                // What nginx keeps for a group by default.
                limits: GroupLimits::keepalive(32, false, self.options.workers),
                method: Method::RoundRobin,
                hash_key: None,
                sticky: None,
                queue_length: None,
                queue_timeout: Duration::ZERO,
                check: None,
                newcomer: Checked::Healthy,
                servers: Vec::new(),
            })
        });
        self.groups.guests = Some(group);
        self.use_of(group, sharing)
    }
}

/// Whether URLs of `http` may come out of the template, and of `https`: all of them, unless it begins with one.
fn schemes(url: &Template) -> (bool, bool) {
    let begins = |prefix: &str| match url.parts.first() {
        Some(Part::Text(text)) => {
            text.get(..prefix.len()).is_some_and(|text| text.eq_ignore_ascii_case(prefix.as_bytes()))
        }
        _ => false,
    };
    (!begins("https://"), !begins("http://"))
}
