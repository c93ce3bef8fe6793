//! One Ingress -> its routes.

use super::annotations::Annotations;
use super::canary::Canaries;
use super::filters::{self, Filters, PERMANENT};
use super::gateways::Gateways;
use super::matches::PathMatch;
use super::{Options, Written, policies, slug};
use crate::objects::networking::{HttpIngressPath, Ingress, IngressBackend};
use crate::{Cluster, Name};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const VERSION: &str = "gateway.networking.k8s.io/v1";
/// Rules of one route, a limit of the API: more of them are divided.
const RULES_OF_ONE: usize = 16;
/// Names of objects.
const NAME_BYTES_MAX: usize = 253;
/// The longest duration that the API can write in seconds.
const SECONDS_MAX: u32 = 99_999;

/// The conversion of one Ingress.
pub(super) struct Conversion<'a> {
    name: &'a Name,
    ingress: &'a Ingress,
    cluster: &'a Cluster,
    options: &'a Options,
    annotations: Annotations<'a>,
    losses: Vec<(String, String)>,
    objects: Vec<Written>,
}

/// What all rules of an Ingress have.
struct Shared {
    filters: Filters,
    rewrite: Option<String>,
    vhost: Option<String>,
    regex: bool,
    app_root: Option<String>,
    timeouts: Option<Value>,
    session: Option<Value>,
    protocol: String,
    /// Plain HTTP is redirected.
    to_https: bool,
    comments: Vec<String>,
}

/// A reference to the port of a Service.
pub(super) fn backend(namespace: &str, backend: &IngressBackend, cluster: &Cluster) -> Result<Value, String> {
    let Some(service) = &backend.service else {
        return Err("a backend that is no Service has no equivalent".to_owned());
    };
    let named = || {
        let known = cluster.services.get(&Name::new(namespace, service.name.as_str()))?;
        known.spec.ports.iter().find(|it| it.name == service.port.name).map(|it| it.port)
    };
    let number = if service.port.number == 0 { named() } else { Some(service.port.number) };
    let number = number.ok_or_else(|| {
        format!(
            "the Service {} was not among the manifests, so the number of its port {:?} is unknown",
            service.name, service.port.name
        )
    })?;
    Ok(json!({"name": service.name, "port": number}))
}

impl<'a> Conversion<'a> {
    pub(super) fn new(name: &'a Name, ingress: &'a Ingress, cluster: &'a Cluster, options: &'a Options) -> Self {
        let annotations = Annotations::new(ingress, &options.annotations_prefix);
        Self { name, ingress, cluster, options, annotations, losses: Vec::new(), objects: Vec::new() }
    }

    /// Makes the objects.
    pub(super) fn run(
        &mut self,
        gateways: &mut Gateways<'_>,
        canaries: &mut Canaries,
        policies: &mut BTreeMap<Name, Written>,
    ) {
        let hosts = self.hosts();
        if self.annotations.is_on("ssl-passthrough") {
            for (host, paths) in &hosts {
                self.passthrough(host, paths, gateways);
            }
            return;
        }
        let shared = self.shared();
        if shared.protocol.ends_with('S') {
            for path in hosts.values().flatten() {
                if let Some(service) = &path.backend.service {
                    let service = Name::new(&*self.name.namespace, service.name.as_str());
                    policies.insert(service.clone(), policies::backend_tls(&service, &mut self.annotations));
                }
            }
        }
        for (host, paths) in &hosts {
            self.host(host, paths, hosts.len() > 1, &shared, gateways, canaries);
        }
    }

    /// The objects with what they leave out, and the same as a list.
    pub(super) fn finish(mut self) -> (Vec<Written>, Vec<(Name, String, String)>) {
        self.losses.extend(self.annotations.rest());
        let lost = self.losses.iter().map(|(what, why)| format!("no equivalent: {what}: {why}"));
        if let Some(first) = self.objects.first_mut() {
            first.comments.extend(lost);
        }
        let losses = self.losses.into_iter().map(|(what, why)| (self.name.clone(), what, why)).collect();
        (self.objects, losses)
    }

    /// The paths of each host. The default backend is a path of all hosts if there are no others.
    fn hosts(&mut self) -> BTreeMap<String, Vec<HttpIngressPath>> {
        let mut hosts: BTreeMap<String, Vec<HttpIngressPath>> = BTreeMap::new();
        for rule in &self.ingress.spec.rules {
            let paths = hosts.entry(rule.host.clone()).or_default();
            paths.extend(rule.http.iter().flat_map(|http| http.paths.iter().cloned()));
        }
        if let Some(backend) = &self.ingress.spec.default_backend {
            let all = || HttpIngressPath { path: "/".into(), path_type: "Prefix".into(), backend: backend.clone() };
            if hosts.is_empty() {
                hosts.insert(String::new(), Vec::new());
            }
            for paths in hosts.values_mut().filter(|paths| !paths.iter().any(|it| it.path == "/" || it.path.is_empty()))
            {
                paths.push(all());
            }
        }
        hosts
    }

    fn shared(&mut self) -> Shared {
        let notes = &mut self.annotations;
        let mut comments = Vec::new();
        let filters = filters::of(notes, &mut comments);
        let rewrite = notes.take("rewrite-target").map(str::to_owned);
        let regex = notes.is_on("use-regex") || rewrite.as_ref().is_some_and(|it| it.contains('$'));
        let timeouts = notes.number("proxy-read-timeout").filter(|it| (1..=SECONDS_MAX).contains(it)).map(|seconds| {
            comments.push(format!(
                "proxy-read-timeout limits the time between two reads in nginx; backendRequest limits the whole response to {seconds} s"
            ));
            json!({"backendRequest": format!("{seconds}s")})
        });
        let session = self.session(&mut comments);
        let notes = &mut self.annotations;
        let protocol = notes.take("backend-protocol").unwrap_or("HTTP").to_ascii_uppercase();
        if !["HTTP", "HTTPS", "GRPC", "GRPCS"].contains(&protocol.as_str()) {
            self.losses.push(("backend-protocol".into(), format!("{protocol} is none of the Gateway API")));
        }
        let tls = !self.ingress.spec.tls.is_empty();
        let forced = notes.is_on("force-ssl-redirect");
        if forced && !tls {
            let reason = "TLS ends before the Gateway; it cannot look at X-Forwarded-Proto".to_owned();
            self.losses.push(("force-ssl-redirect".into(), reason));
        }
        let to_https = tls && (forced || !notes.is_off("ssl-redirect"));
        let vhost = notes.take("upstream-vhost").map(str::to_owned);
        let app_root = notes.take("app-root").map(str::to_owned);
        Shared { filters, rewrite, vhost, regex, app_root, timeouts, session, protocol, to_https, comments }
    }

    fn session(&mut self, comments: &mut Vec<String>) -> Option<Value> {
        let notes = &mut self.annotations;
        let cookie = notes.take("affinity")? == "cookie";
        let name = notes.take("session-cookie-name").unwrap_or("INGRESSCOOKIE").to_owned();
        let seconds = notes.number("session-cookie-max-age").filter(|it| (1..=SECONDS_MAX).contains(it));
        for key in
            ["affinity-mode", "session-cookie-expires", "session-cookie-change-on-failure", "affinity-canary-behavior"]
        {
            notes.take(key);
        }
        if !cookie || !self.options.experimental {
            let reason = "sessionPersistence is in the experimental channel; --experimental writes it";
            self.losses.push(("affinity".into(), reason.into()));
            return None;
        }
        comments.push("sessionPersistence is a field of the experimental channel".to_owned());
        let mut session = json!({"type": "Cookie", "sessionName": name});
        if let Some(seconds) = seconds {
            session["absoluteTimeout"] = format!("{seconds}s").into();
            session["cookieConfig"] = json!({"lifetimeType": "Permanent"});
        }
        Some(session)
    }

    /// All routes of a host.
    fn host(
        &mut self,
        host: &str,
        paths: &[HttpIngressPath],
        several: bool,
        shared: &Shared,
        gateways: &mut Gateways<'_>,
        canaries: &mut Canaries,
    ) {
        let namespace = &*self.name.namespace;
        let mut comments = vec![format!("from Ingress {}", self.name)];
        comments.extend(shared.comments.iter().cloned());
        if host.starts_with("*.") {
            comments.push(format!("{host}: one label in nginx, one or more in the Gateway API"));
        }
        let aliases = self.aliases();
        let base = if several { format!("{}-{}", self.name.name, slug(host)) } else { self.name.name.to_string() };
        let mut parents = Vec::new();
        let mut plain = Vec::new();
        for host in std::iter::once(host).chain(aliases.iter().map(String::as_str)) {
            plain.push(gateways.http(namespace, host));
            if let Some(secret) = self.secret(host) {
                parents.push(gateways.https(namespace, host, &secret));
            }
        }
        let redirects = shared.to_https && !parents.is_empty();
        if !redirects {
            parents.splice(0..0, plain.iter().cloned());
        }
        let hostnames: Vec<&str> =
            std::iter::once(host).chain(aliases.iter().map(String::as_str)).filter(|it| !it.is_empty()).collect();
        let rules = self.rules(host, paths, shared, canaries, &mut comments);
        for (kind, rules) in rules {
            for (index, rules) in rules.chunks(RULES_OF_ONE).enumerate() {
                let mut name = base.clone();
                if kind == "GRPCRoute" {
                    name.push_str("-grpc");
                }
                if index > 0 {
                    name = format!("{name}-{}", index + 1);
                }
                let object = self.route(kind, &name, &parents, &hostnames, rules);
                self.objects.push(Written { comments: std::mem::take(&mut comments), object });
            }
        }
        if redirects {
            let filter =
                json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": PERMANENT}});
            let object = self.route(
                "HTTPRoute",
                &format!("{base}-to-https"),
                &plain,
                &hostnames,
                &[json!({"filters": [filter]})],
            );
            self.objects.push(Written { comments: vec![format!("ssl-redirect of Ingress {}", self.name)], object });
        }
        self.other_www(host, &base, gateways);
    }

    fn route(&self, kind: &str, name: &str, parents: &[Value], hostnames: &[&str], rules: &[Value]) -> Value {
        let name: String = name.chars().take(NAME_BYTES_MAX).collect();
        let mut spec = json!({"parentRefs": parents, "rules": rules});
        if !hostnames.is_empty() {
            spec["hostnames"] = hostnames.into();
        }
        json!({
            "apiVersion": VERSION,
            "kind": kind,
            "metadata": {"name": name.trim_end_matches(['-', '.']), "namespace": &*self.name.namespace},
            "spec": spec,
        })
    }

    /// The rules of a host by kind of route.
    fn rules(
        &mut self,
        host: &str,
        paths: &[HttpIngressPath],
        shared: &Shared,
        canaries: &mut Canaries,
        comments: &mut Vec<String>,
    ) -> BTreeMap<&'static str, Vec<Value>> {
        let mut rules: BTreeMap<&'static str, Vec<Value>> = BTreeMap::new();
        if let Some(root) = shared.app_root.as_deref() {
            let matches = json!([{"path": {"type": "Exact", "value": "/"}}]);
            match filters::redirect(root, 302) {
                Ok(filter) => {
                    rules.entry("HTTPRoute").or_default().push(json!({"matches": matches, "filters": [filter]}));
                }
                Err(reason) => self.losses.push(("app-root".into(), reason)),
            }
        }
        for path in paths {
            let matched = PathMatch::new(&path.path, &path.path_type, shared.regex, comments);
            if shared.protocol.starts_with("GRPC") {
                if let Some(rule) = self.grpc(&matched, path, shared, comments) {
                    rules.entry("GRPCRoute").or_default().push(rule);
                    continue;
                }
                comments
                    .push(format!("{}: no path of gRPC; set appProtocol: kubernetes.io/h2c in the Service", path.path));
            }
            let Some(rule) = self.rule(&matched, path, shared) else { continue };
            let made = match canaries.take(&self.name.namespace, host, &path.path) {
                Some(canary) => canary.rules(&rule, self.cluster, comments),
                None => vec![rule],
            };
            rules.entry("HTTPRoute").or_default().extend(made);
        }
        rules
    }

    fn rule(&mut self, matched: &PathMatch, path: &HttpIngressPath, shared: &Shared) -> Option<Value> {
        let mut rule = json!({"matches": [{"path": matched.object()}]});
        let mut filters = shared.filters.filters.clone();
        if !shared.filters.redirects {
            rule["backendRefs"] = json!([self.backend(path)?]);
            let rewrite = shared.rewrite.as_deref().map(|target| matched.rewrite(target));
            let mut rewrite = match rewrite {
                Some(Err(reason)) => {
                    self.losses.push(("rewrite-target".into(), reason));
                    None
                }
                Some(Ok(filter)) => Some(filter),
                None => None,
            };
            if let Some(host) = &shared.vhost {
                let filter = rewrite.get_or_insert_with(|| json!({"type": "URLRewrite", "urlRewrite": {}}));
                filter["urlRewrite"]["hostname"] = host.as_str().into();
            }
            filters.extend(rewrite);
            if let Some(timeouts) = &shared.timeouts {
                rule["timeouts"] = timeouts.clone();
            }
            if let Some(session) = &shared.session {
                rule["sessionPersistence"] = session.clone();
            }
        }
        if !filters.is_empty() {
            rule["filters"] = filters.into();
        }
        Some(rule)
    }

    /// A rule of a `GRPCRoute`: all calls, those of a service, or one method.
    fn grpc(
        &mut self,
        matched: &PathMatch,
        path: &HttpIngressPath,
        shared: &Shared,
        comments: &mut Vec<String>,
    ) -> Option<Value> {
        let method = match (matched.kind, matched.value.trim_matches('/').split_once('/')) {
            ("PathPrefix", None) => match matched.value.trim_matches('/') {
                "" => None,
                service => Some(json!({"type": "Exact", "service": service})),
            },
            ("Exact", Some((service, method))) => Some(json!({"type": "Exact", "service": service, "method": method})),
            _ => return None,
        };
        let mut rule = json!({"backendRefs": [self.backend(path)?]});
        if let Some(method) = method {
            rule["matches"] = json!([{"method": method}]);
        }
        if shared.timeouts.is_some() || !shared.filters.filters.is_empty() {
            comments.push("a GRPCRoute has neither timeouts nor CORS".to_owned());
        }
        Some(rule)
    }

    fn backend(&mut self, path: &HttpIngressPath) -> Option<Value> {
        match backend(&self.name.namespace, &path.backend, self.cluster) {
            Ok(found) => Some(found),
            Err(reason) => {
                self.losses.push((format!("path {}", path.path), reason));
                None
            }
        }
    }

    /// The Secret of a host with TLS; empty: the default certificate.
    fn secret(&self, host: &str) -> Option<String> {
        let covers = |name: &str| {
            name == host
                || name
                    .strip_prefix('*')
                    .is_some_and(|rest| host.split_once('.').is_some_and(|(_, it)| rest[1..] == *it))
        };
        let tls = self.ingress.spec.tls.iter();
        let found = tls
            .clone()
            .find(|it| it.hosts.iter().any(|name| covers(name)))
            .or_else(|| tls.clone().find(|it| it.hosts.is_empty()));
        found.map(|it| it.secret_name.clone())
    }

    fn aliases(&mut self) -> Vec<String> {
        let (expressions, names): (Vec<_>, Vec<_>) =
            self.annotations.list("server-alias").into_iter().partition(|name| name.contains(['~', '^', '$', '(']));
        if !expressions.is_empty() {
            self.losses.push(("server-alias".into(), "expressions for hosts have no field".into()));
        }
        names.into_iter().map(str::to_owned).collect()
    }

    /// `from-to-www-redirect`: the other name of the host.
    fn other_www(&mut self, host: &str, base: &str, gateways: &mut Gateways<'_>) {
        if host.is_empty() || host.starts_with('*') || !self.annotations.is_on("from-to-www-redirect") {
            return;
        }
        let other = host.strip_prefix("www.").map_or_else(|| format!("www.{host}"), str::to_owned);
        let namespace = &*self.name.namespace;
        let mut parents = vec![gateways.http(namespace, &other)];
        if let Some(secret) = self.secret(host) {
            parents.push(gateways.https(namespace, &other, &secret));
        }
        let filter = json!({"type": "RequestRedirect", "requestRedirect": {"hostname": host, "statusCode": PERMANENT}});
        let rule = json!({"filters": [filter]});
        let object = self.route("HTTPRoute", &format!("{base}-www"), &parents, &[other.as_str()], &[rule]);
        self.objects.push(Written { comments: vec![format!("from-to-www-redirect of Ingress {}", self.name)], object });
    }

    /// `ssl-passthrough`: a `TLSRoute`.
    fn passthrough(&mut self, host: &str, paths: &[HttpIngressPath], gateways: &mut Gateways<'_>) {
        let Some(path) = paths.first() else { return };
        if host.is_empty() {
            self.losses.push(("ssl-passthrough".into(), "a TLSRoute needs a host".into()));
            return;
        }
        let Some(backend) = self.backend(path) else { return };
        let parents = [gateways.passthrough(&self.name.namespace, host)];
        let name = format!("{}-{}", self.name.name, slug(host));
        let object = self.route("TLSRoute", &name, &parents, &[host], &[json!({"backendRefs": [backend]})]);
        self.objects.push(Written { comments: vec![format!("from Ingress {}", self.name)], object });
    }
}
