//! The locations of one host.

use super::Served;
use super::backends::{self, Backend};
use super::hosts::{Host, Path, PathType};
use crate::annotations::{AUTH_PLACE, Canary, Plan, Protocol};
use crate::assembly::{Assembly, BackendWish, Conflict, Matcher, ServerId, Target};
use crate::config_map::{Global, set};
use crate::tree::Origin;
use crate::{Level, value};
use conf::tree::Directive;

/// Writes the locations of a host.
pub(super) fn write(
    assembly: &mut Assembly<'_>,
    global: &Global,
    served: &[Served],
    id: ServerId,
    name: &str,
    host: &Host,
    has_tls: bool,
) {
    // One Ingress with expressions makes all paths of the host expressions, as in ingress-nginx.
    let is_regex = |path: &Path| {
        let plan = &served[path.ingress].plan;
        plan.use_regex || plan.rewrite.is_some()
    };
    let regex = host.paths.iter().any(is_regex);
    let mut paths: Vec<&Path> = host.paths.iter().collect();
    // Expressions are tried in their order: the longest first. Otherwise exact paths come first: they win over the exact
    // form of a prefix.
    let weight = |path: &Path| (!regex && path.kind == PathType::Exact, path.path.len());
    paths.sort_by(|one, two| weight(two).cmp(&weight(one)).then_with(|| one.path.cmp(&two.path)));
    let mut helped = vec![false; served.len()];
    for path in paths {
        let it = &served[path.ingress];
        if !helped[path.ingress] {
            helped[path.ingress] = true;
            helpers(assembly, id, it);
        }
        let context = Context { global, served, it, path, has_tls, regex };
        if let Err(message) = context.write(assembly, id) {
            let message = format!("the path \"{}\" of host \"{name}\": {message}", path.path.escape_debug());
            assembly.find(&it.name, Level::Refused, "WrongPath", message);
        }
    }
    rest(assembly, id, host, served);
}

/// Requests that no path matches get 404, never a file.
fn rest(assembly: &mut Assembly<'_>, id: ServerId, host: &Host, served: &[Served]) {
    let root = Matcher::Prefix("/".into());
    if assembly.server_mut(id).has(&root) {
        return;
    }
    let owner = host.ingresses_first(served);
    let origin = assembly.origin(&owner);
    let line = origin.line("return", ["404"]);
    if let Ok(location) = assembly.server_mut(id).location(root, &owner, origin) {
        location.directives.push(line);
    }
}

fn helpers(assembly: &mut Assembly<'_>, id: ServerId, it: &Served) {
    let origin = assembly.origin(&it.name);
    for (matcher, lines) in &it.plan.helpers {
        if let Ok(location) = assembly.server_mut(id).location(matcher.clone(), &it.name, origin) {
            location.directives.clone_from(lines);
        }
    }
}

/// What is needed to write one path.
struct Context<'c> {
    global: &'c Global,
    served: &'c [Served],
    it: &'c Served,
    path: &'c Path,
    has_tls: bool,
    regex: bool,
}

impl Context<'_> {
    fn write(&self, assembly: &mut Assembly<'_>, id: ServerId) -> Result<(), String> {
        let matchers = self.matchers()?;
        let origin = assembly.origin(&self.it.name);
        let mut lines = self.redirect_to_https(origin);
        if self.it.plan.denied {
            lines.push(origin.line("return", ["503"]));
        } else if self.it.plan.is_redirect {
            lines.extend(self.it.plan.first.clone());
        } else {
            let by_service = self.it.plan.service_upstream;
            match backends::of_ingress(assembly, &self.it.name.name.namespace, &self.path.backend, by_service) {
                Ok(backend) => self.proxied(assembly, id, origin, &backend, &mut lines),
                Err(message) => {
                    assembly.find(&self.it.name, Level::Warning, "NoService", format!("{message}; requests get 503"));
                    lines.push(origin.line("return", ["503"]));
                }
            }
        }
        for matcher in matchers {
            let text = match &matcher {
                Matcher::Prefix(path) | Matcher::Exact(path) => path.clone(),
                _ => self.path.path.clone(),
            };
            match assembly.server_mut(id).location(matcher, &self.it.name, origin) {
                Ok(location) => location.directives.clone_from(&lines),
                // `/a` as a prefix needs `= /a`, which another path may have: that one is more exact.
                Err(_) if self.path.kind == PathType::Prefix && text == self.path.path => {}
                Err(Conflict { winner, what }) => return Err(format!("{winner} already has {what}")),
            }
        }
        Ok(())
    }

    fn matchers(&self) -> Result<Vec<Matcher>, String> {
        let path = &self.path.path;
        if self.regex {
            let pattern = format!("^{path}");
            value::regex(&pattern)?;
            return Ok(vec![Matcher::CaselessRegex(pattern)]);
        }
        Ok(match self.path.kind {
            PathType::Exact => vec![Matcher::Exact(path.clone())],
            // `/a` matches `/a` and `/a/b` but not `/ab`.
            PathType::Prefix if !path.ends_with('/') => {
                vec![Matcher::Prefix(format!("{path}/")), Matcher::Exact(path.clone())]
            }
            PathType::Prefix if path.len() > 1 => {
                let bare = path.trim_end_matches('/');
                let exact = (!bare.is_empty()).then(|| Matcher::Exact(bare.to_owned()));
                std::iter::once(Matcher::Prefix(path.clone())).chain(exact).collect()
            }
            _ => vec![Matcher::Prefix(path.clone())],
        })
    }

    fn redirect_to_https(&self, origin: Origin) -> Vec<Directive> {
        let plan = &self.it.plan;
        let excepted = self.global.no_tls_redirect.iter().any(|path| self.path.path.starts_with(path.as_str()));
        if excepted || !(plan.force_ssl_redirect || plan.ssl_redirect && self.has_tls) {
            return Vec::new();
        }
        let code = self.global.redirect_code.to_string();
        let line = origin.line("return", [code.as_str(), "https://$host$request_uri"]);
        vec![condition(origin, "$pass_access_scheme", "http", vec![line])]
    }

    fn proxied(
        &self,
        assembly: &mut Assembly<'_>,
        id: ServerId,
        origin: Origin,
        backend: &Backend,
        lines: &mut Vec<Directive>,
    ) {
        let plan = &self.it.plan;
        if let (Some(root), "/") = (&plan.app_root, self.path.path.as_str()) {
            let line = origin.line("return", ["302", &format!("$pass_access_scheme://$http_host{root}")]);
            lines.push(condition(origin, "$uri", "/", vec![line]));
        }
        if plan.caches_auth {
            let place = format!("{:?} {}", self.path.kind, self.path.path);
            let place = crate::assembly::stable_hash(place.as_bytes());
            lines.push(origin.line("set", [AUTH_PLACE.to_owned(), format!("{place:016x}")]));
        }
        lines.extend(plan.first.clone());
        if let Some(target) = &plan.rewrite
            && *target != self.path.path
        {
            let pattern = if self.path.path == "/" { "(?i)/".to_owned() } else { format!("(?i){}", self.path.path) };
            lines.push(origin.line("rewrite", [pattern.as_str(), target, "break"]));
        }
        lines.extend(plan.location.clone());
        if !self.global.no_auth.iter().any(|path| self.path.path.starts_with(path.as_str())) {
            lines.extend(plan.global_auth.clone());
        }
        lines.extend(self.headers(origin));
        lines.extend(self.error_pages(assembly, id, origin, backend));
        let upstream = self.upstream(assembly, plan, backend);
        let target = self.with_canary(assembly, upstream);
        lines.push(match plan.protocol {
            Protocol::Http => origin.line("proxy_pass", [format!("http://{target}")]),
            Protocol::Https => origin.line("proxy_pass", [format!("https://{target}")]),
            Protocol::Grpc => origin.line("grpc_pass", [format!("grpc://{target}")]),
            Protocol::Grpcs => origin.line("grpc_pass", [format!("grpcs://{target}")]),
            Protocol::Fcgi => origin.line("fastcgi_pass", [target]),
        });
    }

    /// The fields of the request, if they are not those of all. A level with one field inherits none.
    fn headers(&self, origin: Origin) -> Vec<Directive> {
        let plan = &self.it.plan;
        let prefix = match plan.protocol {
            Protocol::Fcgi => return Vec::new(),
            Protocol::Grpc | Protocol::Grpcs => "grpc_set_header",
            Protocol::Http | Protocol::Https => "proxy_set_header",
        };
        if plan.headers.is_empty() {
            return Vec::new();
        }
        let mut all = self.global.request_headers.clone();
        for (name, text) in &plan.headers {
            set(&mut all, name, text.clone());
        }
        all.iter().map(|(name, text)| origin.line(prefix, [name, text])).collect()
    }

    fn upstream(&self, assembly: &mut Assembly<'_>, plan: &Plan, backend: &Backend) -> String {
        let wish = BackendWish {
            targets: vec![Target { place: backend.place.clone(), weight: 1 }],
            balance: plan.balance.clone(),
            sticky: plan.sticky.clone(),
            keepalive: self.global.keepalive.clone(),
            ..BackendWish::default()
        };
        assembly.upstream(&self.it.name, &wish)
    }

    /// The upstream, or a variable that is it or that of the canary.
    fn with_canary(&self, assembly: &mut Assembly<'_>, primary: String) -> String {
        let Some((index, backend)) = &self.path.canary else { return primary };
        let other = &self.served[*index];
        let Some(canary) = &other.plan.canary else { return primary };
        let by_service = other.plan.service_upstream;
        let backend = match backends::of_ingress(assembly, &other.name.name.namespace, backend, by_service) {
            Ok(backend) => backend,
            Err(message) => {
                assembly.find(&other.name, Level::Warning, "NoService", message);
                return primary;
            }
        };
        // A canary of another namespace would take requests of this one.
        if other.name.name.namespace != self.it.name.name.namespace {
            let message = format!("{} is of another namespace", self.it.name);
            assembly.find(&other.name, Level::Refused, "Canary", message);
            return primary;
        }
        let plan = if other.plan.sticky.is_some() { &other.plan } else { &self.it.plan };
        let second = self.upstream(assembly, plan, &backend);
        choose(assembly, other, canary, &primary, &second)
    }

    fn error_pages(
        &self,
        assembly: &mut Assembly<'_>,
        id: ServerId,
        origin: Origin,
        backend: &Backend,
    ) -> Vec<Directive> {
        let plan = &self.it.plan;
        let name = plan.error_backend.clone().or_else(|| assembly.settings.default_backend.clone());
        let Some(name) = name.filter(|_| !plan.errors.is_empty()) else { return Vec::new() };
        let errors = match backends::of_service(assembly, &name, None, plan.service_upstream, false) {
            Ok(errors) => errors,
            Err(message) => {
                assembly.find(&self.it.name, Level::Warning, "NoService", message);
                return Vec::new();
            }
        };
        let wish = BackendWish { targets: vec![Target { place: errors.place, weight: 1 }], ..BackendWish::default() };
        let upstream = assembly.upstream(&self.it.name, &wish);
        let mut out = Vec::new();
        for code in &plan.errors {
            let key = format!("{} {} {} {upstream}", self.it.name.name, backend.service, backend.port);
            let place = format!("@custom_{:016x}_{code}", crate::assembly::stable_hash(key.as_bytes()));
            out.push(origin.line("error_page", [code.to_string(), "=".into(), place.clone()]));
            let matcher = Matcher::Named(place);
            if assembly.server_mut(id).has(&matcher) {
                continue;
            }
            let lines = error_lines(origin, self, backend, *code, &upstream);
            if let Ok(location) = assembly.server_mut(id).location(matcher, &self.it.name, origin) {
                location.directives = lines;
            }
        }
        out
    }
}

fn error_lines(origin: Origin, context: &Context<'_>, backend: &Backend, code: u16, upstream: &str) -> Vec<Directive> {
    let mut headers = context.global.request_headers.clone();
    for (name, text) in [
        ("X-Code", code.to_string()),
        ("X-Format", "$http_accept".into()),
        ("X-Original-URI", "$request_uri".into()),
        ("X-Namespace", context.it.name.name.namespace.to_string()),
        ("X-Ingress-Name", context.it.name.name.name.to_string()),
        ("X-Service-Name", backend.service.name.to_string()),
        ("X-Service-Port", backend.port.to_string()),
    ] {
        set(&mut headers, name, text);
    }
    let mut lines = vec![
        origin.line("proxy_intercept_errors", ["off"]),
        origin.line("auth_request", ["off"]),
        origin.line("rewrite", ["^", "/", "break"]),
    ];
    lines.extend(headers.iter().map(|(name, text)| origin.line("proxy_set_header", [name, text])));
    lines.push(origin.line("proxy_pass", [format!("http://{upstream}")]));
    lines
}

/// A variable for the upstream: by header, then by cookie, then by weight.
fn choose(assembly: &mut Assembly<'_>, other: &Served, canary: &Canary, primary: &str, second: &str) -> String {
    let rest = canary.total.saturating_sub(canary.weight);
    let mut choice = match (canary.weight, rest) {
        (0, _) => primary.to_owned(),
        (_, 0) => second.to_owned(),
        (weight, rest) => assembly.split(&other.name, &[(second.to_owned(), weight), (primary.to_owned(), rest)]),
    };
    let origin = assembly.origin(&other.name);
    let table = |assembly: &mut Assembly<'_>, key: String, entries: Vec<(String, &str)>, choice: &mut String| {
        let (variable, is_new) = assembly.variable(&format!("canary {key} {entries:?} {choice}"));
        if is_new {
            let mut lines = vec![origin.line("default", [choice.as_str()])];
            lines.extend(entries.iter().map(|(from, to)| origin.line(from, [*to])));
            assembly.http.push(origin.block("map", [&key, &variable], lines));
        }
        *choice = variable;
    };
    let always = || vec![("always".to_owned(), second), ("never".to_owned(), primary)];
    if let Some(cookie) = &canary.cookie {
        // A name with `-` has no variable; ingress-nginx cannot read it either.
        if !cookie.contains('-') {
            table(assembly, format!("$cookie_{cookie}"), always(), &mut choice);
        }
    }
    if let Some(header) = &canary.header {
        let key = format!("$http_{}", header.to_ascii_lowercase().replace('-', "_"));
        let entries = match (&canary.value, &canary.pattern) {
            (Some(value), _) => vec![(format!("\\{value}"), second)],
            (None, Some(pattern)) => vec![(format!("~{pattern}"), second)],
            (None, None) => always(),
        };
        table(assembly, key, entries, &mut choice);
    }
    choice
}

fn condition(origin: Origin, left: &str, right: &str, lines: Vec<Directive>) -> Directive {
    let args = vec![origin.bare(format!("({left}")), origin.bare("="), origin.bare(format!("{right})"))];
    Directive { args, ..origin.block::<&str>("if", [], lines) }
}
