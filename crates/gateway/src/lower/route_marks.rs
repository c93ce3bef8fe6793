//! Marks of routes: numbers by which a reload finds the route of a tunnel again. Two configurations give a route the same
//! mark if the server, the location, the target and the settings that matter to a tunnel are the same. A mark is made
//! from what was written: numbers of variables, and places in files, may differ between two configurations.

use crate::lower::Lowering;
use crate::lower::proxy::Pass;
use crate::plan::group::GroupUseId;
use crate::plan::proxy::ProxyPlan;
use crate::plan::stream::StreamProxyPlan;
use crate::plan::tunnel::TunnelPlan;
use conf::model::{Amount, BindAddress, JwtSettings, Listener, LocationSettings, ServerId, ServerName, StreamSettings};
use conf::value::{Part, Template};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

/// A mark in the making. The hash has fixed keys: marks of one process are compared with each other.
#[derive(Clone, Default)]
struct RouteHash(DefaultHasher);

impl RouteHash {
    fn add(&mut self, what: &(impl Hash + ?Sized)) {
        what.hash(&mut self.0);
    }

    fn template(&mut self, template: &Template) {
        self.add(&template.parts.len());
        for part in &template.parts {
            match part {
                Part::Text(text) => self.add(&(0, text)),
                Part::Variable(name) => self.add(&(1, name)),
                Part::Capture(number) => self.add(&(2, number)),
            }
        }
    }

    fn templates<'a>(&mut self, templates: impl IntoIterator<Item = &'a Template>) {
        for template in templates {
            self.add(&true);
            self.template(template);
        }
        self.add(&false);
    }

    fn amount(&mut self, amount: &Amount) {
        match amount {
            Amount::Fixed(bytes) => self.add(bytes),
            Amount::Template(template) => self.template(template),
        }
    }

    fn source(&mut self, bind: Option<&BindAddress>) {
        match bind {
            None => self.add(&0),
            Some(BindAddress::Fixed(address)) => self.add(&(1, address.to_string())),
            Some(BindAddress::Template(template)) => self.template(template),
        }
    }

    fn tunnel(&mut self, plan: &TunnelPlan) {
        self.add(&(plan.idle_max, plan.ping, plan.buffer_bytes, plan.kind));
    }

    /// Who may open a tunnel.
    fn access(&mut self, settings: &LocationSettings) {
        let response = &settings.response;
        self.add(&response.access.len());
        for rule in &response.access {
            self.add(&(rule.allow, format!("{:?}", rule.who)));
        }
        self.add(&(format!("{:?}", response.satisfy), &response.auth_request));
        self.templates(&settings.access.realm);
        self.templates(&settings.access.user_file);
        self.tokens(&settings.jwt);
    }

    fn tokens(&mut self, settings: &JwtSettings) {
        self.templates(settings.check.iter().map(|check| &check.realm));
        self.templates(settings.check.iter().filter_map(|check| check.token.as_ref()));
        self.templates(&settings.key_files);
        self.templates(&settings.key_requests);
        self.templates(settings.requires.iter().flat_map(|require| &require.values));
    }

    /// One mark for each address at which the server listens. A route stays if one of them does.
    fn finish(self, entries: &[String]) -> Arc<[u64]> {
        let mark = |entry: &String| {
            let mut mark = self.clone();
            mark.add(entry);
            mark.0.finish()
        };
        entries.iter().map(mark).collect()
    }
}

/// The addresses of a server, with its name: several servers may share an address.
pub(super) fn entries(listeners: &[Listener], server: ServerId, names: &[ServerName]) -> Vec<String> {
    let name = names.first().map_or(&b""[..], |name| &name.text).escape_ascii();
    let its = listeners.iter().filter(|listener| listener.servers.contains(&server));
    its.map(|listener| format!("{} {} {name}", listener.address, listener.options.udp)).collect()
}

impl Lowering<'_> {
    /// Marks a `proxy_pass`; `url` is its URL if that has variables.
    pub(super) fn mark_route(&mut self, plan: &mut ProxyPlan, pass: Pass<'_>, url: Option<&Template>) {
        let mut mark = RouteHash::default();
        mark.add(&("http", &self.route));
        self.mark_group(&mut mark, plan.group);
        mark.add(&(&plan.host, plan.port, plan.http_1_1, pass.scheme));
        match url {
            Some(url) => mark.template(url),
            None => mark.add(&plan.uri.written()),
        }
        mark.tunnel(&plan.tunnel);
        let (proxy, transport) = (pass.proxy(), pass.transport());
        mark.add(&(proxy.set_headers.len(), proxy.pass_request_headers));
        for field in &proxy.set_headers {
            mark.add(&field.name);
            mark.template(&field.value);
        }
        mark.source(transport.bind.as_ref().map(|bind| &bind.address));
        mark.add(&transport.bind_pool.iter().map(ToString::to_string).collect::<Vec<_>>());
        mark.access(pass.settings);
        plan.tunnel.marks = mark.finish(&self.entries);
    }

    /// The marks of a `proxy_pass` of `stream`; `address` is as written.
    pub(super) fn stream_marks(
        &self,
        plan: &StreamProxyPlan,
        address: &Template,
        settings: &StreamSettings,
    ) -> Arc<[u64]> {
        let mut mark = RouteHash::default();
        mark.add("stream");
        mark.template(address);
        self.mark_group(&mut mark, plan.group);
        mark.tunnel(&plan.tunnel);
        let proxy = &settings.proxy;
        mark.add(&(format!("{:?}", proxy.greeting), proxy.requests, proxy.responses));
        mark.amount(&proxy.upload_rate);
        mark.amount(&proxy.download_rate);
        mark.source(proxy.bind.as_ref().map(|bind| &bind.address));
        for rule in &settings.session.access {
            mark.add(&(rule.allow, format!("{:?}", rule.who)));
        }
        mark.finish(&self.entries)
    }

    /// The group, with the TLS of its connections.
    fn mark_group(&self, mark: &mut RouteHash, group: GroupUseId) {
        let used = self.plan.group_uses.get(group.0);
        mark.add(&(&self.plan.groups.get(used.group.0).name, &used.sharing.tls));
    }
}

#[cfg(test)]
mod tests {
    use crate::lower::tests::plan;
    use std::sync::Arc;

    const MAP: &str = "map $http_upgrade $connection_upgrade { default upgrade; '' close; }
        upstream app { server 127.0.0.1:1; server 127.0.0.1:2; }";

    fn location(words: &str) -> String {
        format!(
            "{MAP} server {{ listen 127.0.0.1:80; server_name a; location /ws {{ proxy_pass http://app;
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade; {words} }} }}"
        )
    }

    /// The marks of the first `proxy_pass`.
    fn marks(http: &str) -> Arc<[u64]> {
        Arc::clone(&plan(http).proxies.get(0).tunnel.marks)
    }

    #[test]
    fn settings_irrelevant_to_tunnels_change_no_mark() {
        let before = marks(&location(""));
        for same in [
            format!("# another first line\n map $uri $earlier {{ default 1; }} {}", location("")),
            location("").replace("server 127.0.0.1:2;", "server 127.0.0.1:2 weight=3; server 127.0.0.1:3; least_conn;"),
            location("gzip on; add_header X-A b; proxy_hide_header X-B; proxy_connect_timeout 7s; access_log off;"),
            format!("{} server {{ listen 127.0.0.1:80; server_name b; }}", location("")),
        ] {
            assert_eq!(marks(&same), before, "{same}");
        }
    }

    #[test]
    fn settings_relevant_to_tunnels_change_the_mark() {
        let before = marks(&location(""));
        for other in [
            location("proxy_read_timeout 7s;"),
            location("tunnel_ping 7s;"),
            location("proxy_set_header X-Tenant $host;"),
            location("proxy_bind 127.0.0.2;"),
            location("deny 10.0.0.0/8;"),
            location("auth_basic x; auth_basic_user_file users;"),
            location("").replace("location /ws", "location /socket"),
            location("").replace("server_name a", "server_name other"),
            location("").replace("http://app;", "http://app/base;"),
            location("").replace("upstream app", "upstream other").replace("http://app", "http://other"),
            location("").replace("127.0.0.1:80", "127.0.0.1:81"),
        ] {
            let after = marks(&other);
            assert!(before.iter().all(|mark| !after.contains(mark)), "{other}");
        }
    }

    #[test]
    fn a_route_stays_while_one_address_of_its_server_does() {
        let before = marks(&location(""));
        let more = marks(&location("").replace("listen 127.0.0.1:80;", "listen 127.0.0.1:80; listen 127.0.0.1:81;"));
        assert_eq!(more.len(), 2);
        assert!(more.contains(&before[0]));
    }
}
