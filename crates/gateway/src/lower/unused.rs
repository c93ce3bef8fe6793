//! Settings that no request uses: those of `http` that no server inherits, a `log_format` that no log uses, proxy
//! settings in a location without a proxy. nginx checks their variables nevertheless, so a misspelt one is found here
//! too. The results are dropped. Called after the servers of a model are lowered.

use crate::lower::Lowering;
use conf::diagnostic::Diagnostic;
use conf::model::{BindAddress, LocationSettings, LogTarget, ProxySettings};
use rules::log_format::{LogEscape, LogFormat};
use std::sync::Arc;

impl Lowering<'_> {
    /// Checks everything that was not lowered for a location.
    pub(super) fn check_unused(&mut self) {
        let wanted = (self.plan.keeps_sent, self.plan.wants_upstream_local, self.plan.wants_tls_offers);
        let found = self.found.len();
        let http = self.http;
        for (format, compiled) in http.log_formats.iter().zip(&self.formats) {
            if compiled.is_none()
                && let Err(error) = LogFormat::compile(LogEscape::None, &format.template, &self.users)
            {
                self.found.push(error);
            }
        }
        for upstream in &http.upstreams {
            self.method(upstream);
        }
        self.check_settings(&http.location);
        for proxy in std::mem::take(&mut self.idle_proxies) {
            self.check_proxy(&proxy);
        }
        // Unused templates must not make exchanges keep anything.
        (self.plan.keeps_sent, self.plan.wants_upstream_local, self.plan.wants_tls_offers) = wanted;
        self.forget_repeated(found);
    }

    /// Notes the proxy settings of a location without a proxy.
    pub(super) fn note_idle_proxy(&mut self, settings: &LocationSettings) {
        let inherited = Arc::ptr_eq(&settings.proxy, &self.http.location.proxy);
        // Locations that share inherited settings are lowered one after the other.
        let known = self.idle_proxies.last().is_some_and(|last| Arc::ptr_eq(last, &settings.proxy));
        if !inherited && !known {
            self.idle_proxies.push(Arc::clone(&settings.proxy));
        }
    }

    fn check_settings(&mut self, settings: &LocationSettings) {
        self.root_plan(&settings.files.root);
        for name in &settings.files.index {
            self.template(name);
        }
        self.error_pages(&settings.response);
        self.added_plan(&settings.response);
        for hint in &settings.response.early_hints {
            self.template(hint);
        }
        self.access_plan(settings);
        self.link_plan(&settings.access.link);
        self.substitute_plan(&settings.filters);
        self.charset_templates(&settings.charset);
        self.more_headers_plan(&settings.more_headers);
        self.rate_plan(&settings.client);
        self.proxy_rate(&settings.transport);
        if let Some(BindAddress::Template(address)) = settings.transport.bind.as_ref().map(|bind| &bind.address) {
            self.template(address);
        }
        for log in &settings.log.access {
            if let LogTarget::File(path) = &log.target {
                self.template(path);
            }
            if let Some(condition) = &log.condition {
                self.template(condition);
            }
        }
        self.check_proxy(&settings.proxy);
    }

    fn check_proxy(&mut self, proxy: &ProxySettings) {
        // As in nginx, these are checked only if a server inherits them.
        if !self.http.servers.is_empty() {
            for field in &proxy.set_headers {
                self.template(&field.value);
            }
        }
        for template in [&proxy.set_body, &proxy.method].into_iter().flatten() {
            self.template(template);
        }
        self.redirects(None, proxy, b"");
        self.cookie_rules(proxy);
    }

    /// Drops diagnostics that repeat an earlier one.
    fn forget_repeated(&mut self, from: usize) {
        let fresh = self.found.split_off(from);
        for diagnostic in fresh {
            let is_same = |known: &Diagnostic| known.span == diagnostic.span && known.message == diagnostic.message;
            if !self.found.iter().any(is_same) {
                self.found.push(diagnostic);
            }
        }
    }
}
