//! Hosts: gathered from the rules of all Ingresses, then written as servers.

use super::{Remembering, Served, backends, locations};
use crate::assembly::{Assembly, BackendWish, Conflict, Listen, Matcher, ServerId, Target};
use crate::config_map::Global;
use crate::from_gateway::Claims;
use crate::objects::networking::{HttpIngressPath, IngressBackend};
use crate::{Level, Name, ObjectName, value};
use std::collections::{BTreeMap, BTreeSet};

/// How a path is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathType {
    Exact,
    Prefix,
    Implementation,
}

/// A path of a host.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_field_names)] // the API calls it so
pub(super) struct Path {
    pub(super) path: String,
    pub(super) kind: PathType,
    /// Index of the Ingress.
    pub(super) ingress: usize,
    pub(super) backend: IngressBackend,
    /// The Ingress and the backend of its canary.
    pub(super) canary: Option<(usize, IngressBackend)>,
}

/// The certificate of a host.
#[derive(Debug, Clone, PartialEq)]
enum Tls {
    /// That of the controller.
    Default,
    /// A Secret.
    Secret(Name),
}

/// What all Ingresses say about a host.
#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) paths: Vec<Path>,
    taken: BTreeMap<(String, PathType), usize>,
    /// Ingresses that name the host, the oldest first.
    ingresses: Vec<usize>,
    /// TLS, and where its certificate is.
    tls: Option<Tls>,
}

impl Host {
    /// The oldest Ingress that names it.
    pub(super) fn ingresses_first(&self, served: &[Served]) -> ObjectName {
        served[self.ingresses[0]].name.clone()
    }

    /// The Ingresses that have a part in it, in a fixed order: an Ingress may be there several times.
    pub(super) fn ingresses_of(&self) -> impl Iterator<Item = usize> + '_ {
        let of_paths = self.paths.iter().flat_map(|path| {
            let canary = path.canary.as_ref().map(|(ingress, _)| *ingress);
            std::iter::once(path.ingress).chain(canary)
        });
        self.ingresses.iter().copied().chain(of_paths)
    }

    /// Whether it has the same paths, backends and certificate. The numbers of its Ingresses may differ.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let is_same = |(one, two): (&Path, &Path)| {
            let canaries = (one.canary.as_ref().map(|it| &it.1), two.canary.as_ref().map(|it| &it.1));
            (one.kind, &one.path, &one.backend) == (two.kind, &two.path, &two.backend) && canaries.0 == canaries.1
        };
        self.tls == other.tls
            && (self.ingresses.len(), self.paths.len()) == (other.ingresses.len(), other.paths.len())
            && self.paths.iter().zip(&other.paths).all(is_same)
    }

    /// What it has, without what is only needed to gather it.
    pub(super) fn contents(&self) -> Self {
        let Self { paths, ingresses, tls, .. } = self;
        Self { paths: paths.clone(), taken: BTreeMap::new(), ingresses: ingresses.clone(), tls: tls.clone() }
    }
}

/// Gathers the rules. Hosts are in the order of their names.
pub(super) fn gather(assembly: &mut Assembly<'_>, served: &[Served]) -> BTreeMap<String, Host> {
    let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
    for (index, it) in served.iter().enumerate() {
        if it.plan.canary.is_some() {
            continue;
        }
        for rule in &it.ingress.spec.rules {
            let host = rule.host.to_ascii_lowercase();
            if !is_allowed(assembly, it, &host) {
                continue;
            }
            let known = hosts.entry(host.clone()).or_default();
            if known.ingresses.last() != Some(&index) {
                known.ingresses.push(index);
            }
            for path in rule.http.iter().flat_map(|http| &http.paths) {
                add(assembly, known, &host, served, index, path);
            }
            if known.tls.is_none() {
                known.tls = tls(it, &host);
            }
        }
        default_backend(assembly, &mut hosts, served, index);
    }
    for (index, it) in served.iter().enumerate().filter(|(_, it)| it.plan.canary.is_some()) {
        canary(assembly, &mut hosts, index, it);
    }
    hosts
}

fn is_allowed(assembly: &mut Assembly<'_>, it: &Served, host: &str) -> bool {
    let message = if host.is_empty() && assembly.settings.disable_catch_all {
        "rules without a host are switched off".to_owned()
    } else if !host.is_empty() && !value::is_host(host) {
        format!("\"{}\" is no host", host.escape_debug())
    } else {
        return true;
    };
    assembly.find(&it.name, Level::Refused, "WrongHost", message);
    false
}

fn add(
    assembly: &mut Assembly<'_>,
    host: &mut Host,
    name: &str,
    served: &[Served],
    index: usize,
    path: &HttpIngressPath,
) {
    let it = &served[index];
    let text = if path.path.is_empty() { "/" } else { path.path.as_str() };
    if let Err(message) = check_path(text) {
        let message = format!("the path \"{}\": {message}", text.escape_debug().take(80).collect::<String>());
        return assembly.find(&it.name, Level::Refused, "WrongPath", message);
    }
    let kind = match path.path_type.as_str() {
        "Exact" => PathType::Exact,
        "Prefix" => PathType::Prefix,
        _ => PathType::Implementation,
    };
    // Prefix and ImplementationSpecific are the same prefix.
    let key = (text.to_owned(), if kind == PathType::Exact { kind } else { PathType::Prefix });
    if let Some(first) = host.taken.get(&key) {
        let winner = &served[host.paths[*first].ingress].name;
        let message = format!("{winner} already has the path \"{text}\" of host \"{name}\"");
        return assembly.find(&it.name, Level::Refused, "Conflict", message);
    }
    host.taken.insert(key, host.paths.len());
    host.paths.push(Path { path: text.to_owned(), kind, ingress: index, backend: path.backend.clone(), canary: None });
}

fn check_path(path: &str) -> Result<(), String> {
    value::printable(path)?;
    if !path.starts_with('/') {
        return Err("does not begin with /".into());
    }
    if path.len() > value::PATH_BYTES_MAX {
        return Err(format!("longer than {} bytes", value::PATH_BYTES_MAX));
    }
    if path.starts_with("/_external-auth-") || path.starts_with("/_mirror-") {
        return Err("belongs to the controller".into());
    }
    Ok(())
}

/// The Secret of the first entry of `tls` that covers the host.
fn tls(it: &Served, host: &str) -> Option<Tls> {
    let covers = |known: &String| {
        let known = known.to_ascii_lowercase();
        known == host
            || known
                .strip_prefix("*.")
                .is_some_and(|domain| host.split_once('.').is_some_and(|(_, rest)| rest == domain))
    };
    let entry = it
        .ingress
        .spec
        .tls
        .iter()
        .find(|tls| tls.hosts.iter().any(covers))
        // An entry without hosts is for all of the Ingress.
        .or_else(|| it.ingress.spec.tls.iter().find(|tls| tls.hosts.is_empty()))?;
    let namespace = &it.name.name.namespace;
    if entry.secret_name.is_empty() {
        return Some(Tls::Default);
    }
    Some(Tls::Secret(Name::new(namespace.as_ref(), entry.secret_name.as_str())))
}

/// `spec.defaultBackend` serves the hosts of the Ingress where no path matches, and all hosts if it has no rules.
fn default_backend(assembly: &mut Assembly<'_>, hosts: &mut BTreeMap<String, Host>, served: &[Served], index: usize) {
    let it = &served[index];
    let Some(backend) = &it.ingress.spec.default_backend else { return };
    let mut names: BTreeSet<String> = it.ingress.spec.rules.iter().map(|rule| rule.host.to_ascii_lowercase()).collect();
    if names.is_empty() {
        names.insert(String::new());
    }
    let path = HttpIngressPath { path: "/".into(), path_type: "Prefix".into(), backend: backend.clone() };
    for name in names {
        if !is_allowed(assembly, it, &name) {
            continue;
        }
        let host = hosts.entry(name.clone()).or_default();
        if !host.taken.contains_key(&("/".to_owned(), PathType::Prefix)) {
            if host.ingresses.last() != Some(&index) {
                host.ingresses.push(index);
            }
            add(assembly, host, &name, served, index, &path);
        }
    }
}

fn canary(assembly: &mut Assembly<'_>, hosts: &mut BTreeMap<String, Host>, index: usize, it: &Served) {
    for rule in &it.ingress.spec.rules {
        for path in rule.http.iter().flat_map(|http| &http.paths) {
            let text = if path.path.is_empty() { "/" } else { path.path.as_str() };
            let kind = if path.path_type == "Exact" { PathType::Exact } else { PathType::Prefix };
            let host = hosts.get_mut(&rule.host.to_ascii_lowercase());
            let found = host.and_then(|host| {
                let at = *host.taken.get(&(text.to_owned(), kind))?;
                host.paths.get_mut(at)
            });
            let message = match found {
                Some(known) if known.canary.is_none() => {
                    known.canary = Some((index, path.backend.clone()));
                    continue;
                }
                Some(_) => "another canary already has",
                None => "no Ingress has",
            };
            let message =
                format!("{message} the path \"{}\" of host \"{}\"", text.escape_debug(), rule.host.escape_debug());
            assembly.find(&it.name, Level::Warning, "Canary", message);
        }
    }
}

/// Writes all hosts. Returns the oldest Ingress of each host that is served.
pub(super) fn write(
    assembly: &mut Assembly<'_>,
    global: &Global,
    served: &[Served],
    (hosts, claims): (BTreeMap<String, Host>, &Claims),
    memory: &mut Option<Remembering>,
) -> BTreeMap<String, ObjectName> {
    let settings = assembly.settings;
    let all = [Listen { port: settings.http_port, tls: false }, Listen { port: settings.https_port, tls: true }];
    let mut written = Vec::new();
    for (name, host) in hosts {
        let Some(first) = host.ingresses.first().map(|index| &served[*index]) else { continue };
        let listens = unclaimed(assembly, claims, served, all, &name, &host);
        if listens.is_empty() {
            continue;
        }
        match assembly.server(&listens, &name, &first.name) {
            Ok(id) => {
                shared_server(assembly, global, served, id, (&name, &host), memory);
                written.push((id, name, host, listens));
            }
            Err(conflict) => assembly.report(&first.name, &conflict),
        }
    }
    fallback(assembly, claims, all);
    // Further names come after all hosts, so that a rule always wins over an alias.
    for (id, name, host, listens) in &written {
        aliases(assembly, claims, served, listens, *id, name, host);
    }
    written.into_iter().map(|(_, name, host, _)| (name, host.ingresses_first(served))).collect()
}

/// The ports at which no older object of the Gateway API has the host. The Ingresses of the host hear of the others.
fn unclaimed(
    assembly: &mut Assembly<'_>,
    claims: &Claims,
    served: &[Served],
    all: [Listen; 2],
    name: &str,
    host: &Host,
) -> Vec<Listen> {
    let created = host.ingresses.first().map_or("", |index| &served[*index].ingress.metadata.creation_timestamp);
    let winner = |listen: &Listen| claims.older(listen.port, name, created).cloned();
    for (listen, winner) in all.iter().filter_map(|listen| Some((listen, winner(listen)?))) {
        let what = format!("host \"{name}\" at port {}", listen.port);
        let conflict = Conflict { winner, what };
        for index in &host.ingresses {
            assembly.report(&served[*index].name, &conflict);
        }
    }
    all.into_iter().filter(|listen| winner(listen).is_none()).collect()
}

/// Writes a host, or its contents of the translation before.
fn shared_server(
    assembly: &mut Assembly<'_>,
    global: &Global,
    served: &[Served],
    id: ServerId,
    (name, host): (&str, &Host),
    memory: &mut Option<Remembering>,
) {
    let Some(memory) = memory else { return server(assembly, global, served, id, name, host) };
    if !memory.repeat_host(assembly, served, id, (name, host)) {
        assembly.begin_part();
        server(assembly, global, served, id, name, host);
        memory.keep_host(assembly, served, id, (name, host));
    }
}

fn server(assembly: &mut Assembly<'_>, global: &Global, served: &[Served], id: ServerId, name: &str, host: &Host) {
    if let Some(Tls::Secret(secret)) = &host.tls {
        if let Some(paths) = assembly.certificate(secret) {
            assembly.server_mut(id).certificate = Some(paths);
        } else {
            let message =
                format!("the Secret \"{secret}\" has no tls.crt and tls.key; the default certificate is used");
            let owner = served[host.ingresses[0]].name.clone();
            assembly.find(&owner, Level::Warning, "NoCertificate", message);
        }
    }
    let has_tls = host.tls.is_some();
    if has_tls && global.hsts {
        let origin = assembly.own();
        let line = origin.line("add_header", ["Strict-Transport-Security", "$hf_hsts", "always"]);
        assembly.server_mut(id).directives.push(line);
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for index in &host.ingresses {
        for (what, lines) in &served[*index].plan.server {
            if seen.insert(what) {
                assembly.server_mut(id).directives.extend(lines.clone());
            } else {
                let message = format!("an older Ingress already sets \"{what}\" for host \"{name}\"");
                assembly.find(&served[*index].name, Level::Warning, "Conflict", message);
            }
        }
    }
    locations::write(assembly, global, served, id, name, host, has_tls);
    passthrough(assembly, served, name, host);
}

fn passthrough(assembly: &mut Assembly<'_>, served: &[Served], name: &str, host: &Host) {
    let Some(path) = host.paths.iter().find(|path| path.path == "/" && served[path.ingress].plan.passthrough) else {
        return;
    };
    // Names of all hosts are in one table, and an object of the Gateway API may have the port.
    assembly.entangle();
    let port = assembly.settings.https_port;
    if !assembly.has_host(port, name) {
        return;
    }
    let it = &served[path.ingress];
    if !assembly.settings.ssl_passthrough || name.is_empty() {
        let message = "\"ssl-passthrough\" needs a host, and the flag --enable-ssl-passthrough";
        return assembly.find(&it.name, Level::Warning, "WrongAnnotation", message);
    }
    let target = match backends::of_ingress(assembly, &it.name.name.namespace, &path.backend, it.plan.service_upstream)
    {
        Ok(backend) => Target { place: backend.place, weight: 1 },
        Err(message) => return assembly.find(&it.name, Level::Warning, "NoService", message),
    };
    let wish = BackendWish { targets: vec![target], stream: true, ..BackendWish::default() };
    let upstream = assembly.upstream(&it.name, &wish);
    if let Err(conflict) = assembly.pass_through(&it.name, port, name, &upstream) {
        assembly.report(&it.name, &conflict);
    }
}

/// `--default-backend-service` answers for hosts that no Ingress names.
fn fallback(assembly: &mut Assembly<'_>, claims: &Claims, all: [Listen; 2]) {
    let Some(name) = &assembly.settings.default_backend else { return };
    let owner = assembly.own_name();
    let is_free = |listen: &Listen| !assembly.has_host(listen.port, "") && !claims.has(listen.port, "");
    let listens: Vec<Listen> = all.into_iter().filter(is_free).collect();
    if listens.is_empty() {
        return;
    }
    let backend = match backends::of_service(assembly, name, None, false, false) {
        Ok(backend) => backend,
        Err(message) => return assembly.find(&owner, Level::Warning, "NoService", message),
    };
    let wish = BackendWish { targets: vec![Target { place: backend.place, weight: 1 }], ..BackendWish::default() };
    let upstream = assembly.upstream(&owner, &wish);
    let origin = assembly.own();
    if let Ok(id) = assembly.server(&listens, "", &owner)
        && let Ok(location) = assembly.server_mut(id).location(Matcher::Prefix("/".into()), &owner, origin)
    {
        location.directives.push(origin.line("proxy_pass", [format!("http://{upstream}")]));
    }
}

fn aliases(
    assembly: &mut Assembly<'_>,
    claims: &Claims,
    served: &[Served],
    listens: &[Listen],
    id: ServerId,
    name: &str,
    host: &Host,
) {
    let is_claimed = |name: &str| listens.iter().any(|listen| claims.has(listen.port, &name.to_ascii_lowercase()));
    for index in &host.ingresses {
        let it = &served[*index];
        for alias in &it.plan.aliases {
            if is_claimed(alias) {
                let message = format!("\"server-alias\": a Gateway or a route already has host \"{alias}\"");
                assembly.find(&it.name, Level::Warning, "Conflict", message);
            } else if let Err(conflict) = assembly.alias(id, alias) {
                let message = format!("\"server-alias\": {} already has {}", conflict.winner, conflict.what);
                assembly.find(&it.name, Level::Warning, "Conflict", message);
            }
        }
        if !it.plan.www || name.is_empty() || name.starts_with("*.") {
            continue;
        }
        let other = name.strip_prefix("www.").map_or_else(|| format!("www.{name}"), str::to_owned);
        let is_taken = listens.iter().any(|listen| assembly.has_host(listen.port, &other)) || is_claimed(&other);
        if is_taken || !value::is_host(&other) {
            continue;
        }
        let certificate = assembly.server_mut(id).certificate.clone();
        let origin = assembly.origin(&it.name);
        if let Ok(other) = assembly.server(listens, &other, &it.name) {
            let draft = assembly.server_mut(other);
            draft.certificate = certificate;
            draft.directives.push(origin.line("return", ["308", &format!("$pass_access_scheme://{name}$request_uri")]));
        }
    }
}
