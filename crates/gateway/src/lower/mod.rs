//! From the typed configuration to a plan: names become tables, variables become enums, settings become numbers. Runs at start
//! and at each reload, off the request path; the same for `-t` and `serve`. It has no side effects and knows nothing that
//! outlives a configuration; it asks the resolver, and reads the files that the configuration names.

pub(crate) mod acme;
pub(crate) mod contradictions;
pub(crate) mod cookies;
pub(crate) mod files;
pub(crate) mod floor;
pub(crate) mod group;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod location;
pub(crate) mod logs;
pub(crate) mod openssl;
pub(crate) mod pairs;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod rate;
pub(crate) mod real_ip;
pub(crate) mod resolver;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tls;
pub(crate) mod unused;
pub(crate) mod upstream_tls;
pub(crate) mod variable_pass;
pub(crate) mod variables;

use crate::base::logs::place::Resolve;
use crate::lower::files::KnownTypes;
use crate::lower::group::Groups;
use crate::plan::Plan;
use crate::plan::acme::AcmeIssuerPlan;
use crate::plan::files::Alias;
use crate::plan::location::LocationPlan;
use crate::plan::server::ServerPlan;
use conf::diagnostic::{Diagnostic, Severity};
use conf::model::{Http, Model, ProxySettings, Server, ServerId};
use conf::source::Span;
use rules::log_format::LogFormat;
use rules::variable::{TlsVariable, UserVariables, Variable};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Gives the bytes of a file; the path is absolute.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Where the configuration is used.
pub struct LowerOptions<'a> {
    /// Relative paths of logs and files are relative to this (`-p`).
    pub prefix: PathBuf,
    /// Number of worker threads.
    pub workers: u16,
    /// `$hostname`.
    pub hostname: String,
    /// The resolver.
    pub resolve: Resolve<'a>,
    /// Relative paths of certificates, keys and password files are relative to this: the main file's directory.
    pub conf_directory: PathBuf,
    /// Seconds since 1970, for certificates that have ended.
    pub now_s: u64,
    /// Reads a file that the configuration names: as the configuration itself is read, so that a process without the right to
    /// read a key gets it from the one that has.
    pub read: ReadFile<'a>,
}

/// A configuration that has no errors of its own.
pub struct Lowered {
    /// What it says; the registry binds it.
    pub plan: Plan,
    /// What is worth saying.
    pub warnings: Vec<Diagnostic>,
}

/// The work in progress.
struct Lowering<'a> {
    http: &'a Http,
    options: &'a LowerOptions<'a>,
    plan: Plan,
    users: UserVariables,
    formats: Vec<Option<Arc<LogFormat>>>,
    groups: Groups,
    types: Vec<KnownTypes>,
    sides: upstream_tls::Sides,
    /// The `alias` that holds here, where it was written, and what it stands for.
    alias: Option<(Span, Alias)>,
    zone_keys: limits::ZoneKeys,
    /// By `AcmeIssuerId`.
    acme_issuers: Vec<Arc<AcmeIssuerPlan>>,
    known_pairs: tls::KnownPairs,
    /// Words of a proxy where nothing is proxied.
    idle_proxies: Vec<Arc<ProxySettings>>,
    found: Vec<Diagnostic>,
}

/// Lowers a model that has no errors. Errors that only show here (unknown variables, names without an address) come back as
/// diagnostics with their place.
pub fn lower(model: &Model, options: &LowerOptions<'_>) -> Result<Lowered, Vec<Diagnostic>> {
    let plan = Plan {
        hostname: options.hostname.as_bytes().into(),
        worker_connections: model.events.settings.worker_connections as usize,
        memory_budget: model.main.settings.memory_budget,
        ..Plan::default()
    };
    // Without `http` it serves nothing.
    let Some(http) = &model.http else { return Ok(Lowered { plan, warnings: Vec::new() }) };
    let mut lowering = Lowering {
        http,
        options,
        plan,
        users: UserVariables::default(),
        formats: vec![None; http.log_formats.len()],
        groups: Groups::default(),
        types: Vec::new(),
        sides: upstream_tls::Sides::default(),
        alias: None,
        zone_keys: limits::ZoneKeys::default(),
        acme_issuers: Vec::new(),
        known_pairs: tls::KnownPairs::default(),
        idle_proxies: Vec::new(),
        found: Vec::new(),
    };
    lowering.declare_variables();
    lowering.plan.definitions = lowering.definitions();
    lowering.compile_zone_keys();
    lowering.acme_issuers = lowering.acme_issuers();
    lowering.plan.servers =
        (0..).zip(&http.servers).map(|(id, server)| lowering.server(ServerId(id), server)).collect();
    lowering.check_unused();
    lowering.plan.listeners = lowering.listeners();
    lowering.groups.secure_checks(&mut lowering.plan.groups);
    let Lowering { mut plan, found, .. } = lowering;
    if found.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(found);
    }
    // A template of any server may ask, and it is known only now.
    for tls in plan.servers.iter_mut().filter_map(|server| server.tls.as_deref_mut()) {
        tls.keep_offers = plan.wants_tls_offers;
    }
    plan.temp_directories = temp_directories(&plan.locations);
    Ok(Lowered { plan, warnings: found })
}

fn temp_directories(locations: &[LocationPlan]) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> =
        locations.iter().map(|location| location.client.body_files.directory.clone()).collect();
    directories.sort();
    directories.dedup();
    directories
}

impl Lowering<'_> {
    fn server(&mut self, id: ServerId, server: &Server) -> ServerPlan {
        let own = self.location_of_server(server);
        let specs = server.locations.iter().map(|location| self.location_spec(location)).collect();
        let locations = match rules::location::Locations::build(specs) {
            Ok((locations, warnings)) => {
                self.found.extend(warnings);
                locations
            }
            Err(errors) => {
                self.found.extend(errors);
                rules::location::Locations::default()
            }
        };
        ServerPlan {
            // `.example.com` is called `example.com`.
            name: server
                .names
                .first()
                .map_or(&b""[..], |name| name.text.strip_prefix(b".").unwrap_or(&name.text))
                .into(),
            locations,
            limits: listener::head_limits(&server.settings.head),
            merge_slashes: server.settings.head.merge_slashes,
            answer: self.program_return(&server.program, &server.location),
            program: self.program(&server.program, &server.location, None),
            tls: self.tls_plan(id, server),
            own,
        }
    }

    fn server_of(&self, id: ServerId) -> Option<&Server> {
        self.http.servers.get(id.0 as usize)
    }

    /// Notes what has to be kept, or asked of the kernel, for somebody who asks for it.
    fn note_wanted<'v>(&mut self, variables: impl Iterator<Item = &'v Variable>, span: Span) {
        for variable in variables {
            match variable {
                Variable::Idle(idle) => {
                    let is_fixed = idle.value().is_some_and(|value| !value.is_empty());
                    self.note_idle_variable(
                        idle.name(),
                        if is_fixed { "always the same" } else { "always empty" },
                        idle.needs(),
                        span,
                    );
                }
                Variable::Tls(variable) if !self.has_tls_listener() => {
                    self.note_idle_variable(variable.name(), "always empty", TlsVariable::NEEDS, span);
                }
                Variable::Tls(variable) => self.plan.wants_tls_offers |= variable.is_offer(),
                _ => {}
            }
            self.plan.keeps_sent |= matches!(variable, Variable::SentHttp(_) | Variable::SentTrailer(_));
            self.plan.wants_upstream_local |= *variable == Variable::UpstreamLocalAddr;
        }
    }

    fn has_tls_listener(&self) -> bool {
        self.http.listeners.iter().any(|listener| listener.options.ssl)
    }

    /// One note for each variable that has nothing to act on, at its first place.
    fn note_idle_variable(&mut self, name: &str, value: &str, needs: &str, span: Span) {
        let message = format!("\"${name}\" variable is {value} here");
        if !self.found.iter().any(|known| known.message == message) {
            self.found.push(Diagnostic::note(span, message).with_hint(format!("it acts only with {needs}")));
        }
    }

    fn template(&mut self, written: &conf::value::Template) -> rules::template::Template {
        match rules::template::Template::compile(written, &self.users) {
            Ok(template) => {
                self.note_wanted(template.variables(), written.span);
                template
            }
            Err(error) => {
                self.found.push(error);
                rules::template::Template::constant(b"")
            }
        }
    }
}
