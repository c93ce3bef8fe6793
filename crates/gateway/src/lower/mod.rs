//! From the typed configuration to a plan: names become tables, variables become enums, settings become numbers. Runs
//! at start and at each reload, off the request path; the same for `-t` and `serve`. It has no side effects and knows
//! nothing that outlives a configuration; it uses the resolver and reads the files that the configuration names.

pub(crate) mod access;
pub(crate) mod acme;
pub(crate) mod application;
pub(crate) mod auth_jwt;
pub(crate) mod cache;
pub(crate) mod charset;
pub(crate) mod contradictions;
pub(crate) mod cookies;
pub(crate) mod files;
pub(crate) mod filters;
pub(crate) mod floor;
pub(crate) mod geoip;
pub(crate) mod group;
pub(crate) mod limits;
pub(crate) mod links;
pub(crate) mod listener;
pub(crate) mod location;
pub(crate) mod logs;
pub(crate) mod more_headers;
pub(crate) mod openssl;
pub(crate) mod otel;
pub(crate) mod pairs;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod rate;
pub(crate) mod real_ip;
pub(crate) mod resolver;
mod route_marks;
mod route_to;
pub(crate) mod sharing;
pub(crate) mod store;
pub(crate) mod stream;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tls;
pub(crate) mod unused;
pub(crate) mod upstream_tls;
pub(crate) mod user_id;
pub(crate) mod variable_pass;
pub(crate) mod variables;

use crate::base::logs::place::Resolve;
use crate::base::share::Share;
use crate::lower::charset::lower_charsets;
use crate::lower::files::KnownTypes;
use crate::lower::group::Groups;
pub use crate::lower::sharing::LowerMemory;
use crate::lower::sharing::SharedParts;
use crate::plan::Plan;
use crate::plan::acme::AcmeIssuerPlan;
use crate::plan::cache::CacheZonePlan;
use crate::plan::files::Alias;
use crate::plan::http2::Http2Plan;
use crate::plan::location::LocationPlan;
use crate::plan::server::ServerPlan;
use crate::plan::slots::Slots;
use crate::plan::tls::KnownPairs;
use crate::plan::tunnel::DrainPlan;
use conf::diagnostic::{Diagnostic, Severity};
use conf::model::{
    Declared, Http, Http2Settings, MainSettings, MemoryBudget, Model, ProxySettings, Resolver, Server, ServerId,
};
use conf::source::Span;
use rules::log_format::LogFormat;
use rules::variable::{Scope, TlsVariable, UserVariables, Variable};
use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// `drain_rate`: ten thousand clients that connect again in 100 s are a small load for a gateway and for the peers that
/// they come to.
const DRAIN_RATE_DEFAULT: u32 = 100;
/// `drain_timeout`: as long as a client of a broken network usually needs to answer, and a session to finish its
/// statement.
const DRAIN_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// Reads a file; the path is absolute.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// The environment of a configuration.
pub struct LowerOptions<'a> {
    /// Relative paths of logs and files are relative to this (`-p`).
    pub prefix: PathBuf,
    /// Number of worker threads of this process.
    pub workers: u16,
    /// The part of the installation that this process is.
    pub share: Share,
    /// `$hostname`.
    pub hostname: String,
    /// The resolver.
    pub resolve: Resolve<'a>,
    /// Relative paths of certificates, keys and password files are relative to this: the main file's directory.
    pub conf_directory: PathBuf,
    /// Seconds since 1970, to find expired certificates.
    pub now_s: u64,
    /// Reads a file that the configuration names in the same way as the configuration itself: a process without
    /// permission to read a key gets it from the process that has it.
    pub read: ReadFile<'a>,
    /// Certificates that were read before.
    pub known_pairs: &'a KnownPairs,
}

/// A configuration without errors.
pub struct Lowered {
    /// Its plan; the registry binds it.
    pub plan: Plan,
    /// Warnings and notes.
    pub warnings: Vec<Diagnostic>,
}

/// The work in progress.
struct Lowering<'a> {
    /// The block being lowered.
    scope: Scope,
    /// Its groups, formats, tables and zones.
    declared: &'a Declared,
    /// The resolver of its groups.
    outer_resolver: Option<(Resolver, Duration)>,
    /// `http`; an empty one while `stream` is lowered.
    http: &'a Http,
    options: &'a LowerOptions<'a>,
    plan: Plan,
    users: UserVariables,
    formats: Vec<Option<Arc<LogFormat>>>,
    groups: Groups,
    types: Vec<KnownTypes>,
    sides: upstream_tls::Sides,
    /// The `alias` in force here: where it was written, and what it replaces.
    alias: Option<(Span, Alias)>,
    /// The block has an address with TLS.
    has_tls_listener: bool,
    /// The server of the locations being lowered.
    server_now: Option<ServerId>,
    /// Its `$server_name`.
    server_name_now: Arc<[u8]>,
    zone_keys: limits::ZoneKeys,
    /// By `AcmeIssuerId`.
    acme_issuers: Vec<Arc<AcmeIssuerPlan>>,
    read_pairs: tls::ReadPairs,
    /// Settings of proxies in locations that proxy nothing.
    idle_proxies: Vec<Arc<ProxySettings>>,
    /// A template of the content lowered last uses `$slice_range`.
    uses_slices: bool,
    /// The files of `auth_jwt_key_file` that were read; `None`: a broken one.
    key_sets: Vec<(PathBuf, Option<Arc<jwt::KeySet>>)>,
    /// The name of the location being lowered, as nginx shows it.
    route: Vec<u8>,
    /// The server being lowered: its addresses, with its name.
    entries: Vec<String>,
    /// The lines of `open_file_cache`, by the number of their cache.
    open_files: Vec<Span>,
    /// What is shared with the plan before; `None` if nothing is.
    sharing: Option<SharedParts>,
    found: Vec<Diagnostic>,
}

/// Lowers a model that has no errors. Errors found only here (unknown variables, names without an address) are returned
/// as diagnostics with their place.
pub fn lower(model: &Model, options: &LowerOptions<'_>) -> Result<Lowered, Vec<Diagnostic>> {
    lower_with(model, options, &mut None)
}

/// The same for one of several models that are made one after another: the plan has those servers and groups of the plan before
/// that were made of the same. The caller makes sure that the files that they name have the same contents.
pub fn lower_reusing(
    model: &Model,
    options: &LowerOptions<'_>,
    memory: &mut LowerMemory,
) -> Result<Lowered, Vec<Diagnostic>> {
    let mut taken = Some(std::mem::take(memory));
    let lowered = lower_with(model, options, &mut taken);
    // An error is reported once, so a server without findings may have the error of another one.
    *memory = taken.filter(|_| lowered.is_ok()).unwrap_or_default();
    lowered
}

fn lower_with(
    model: &Model,
    options: &LowerOptions<'_>,
    memory: &mut Option<LowerMemory>,
) -> Result<Lowered, Vec<Diagnostic>> {
    let plan = Plan {
        hostname: options.hostname.as_bytes().into(),
        worker_connections: options.share.connections(model.events.settings.worker_connections) as usize,
        memory_budget: model
            .main
            .settings
            .memory_budget
            .map(|budget| MemoryBudget { bytes: options.share.divide(budget.bytes), ..budget }),
        drain: drain_plan(&model.main.settings, options.share),
        ..Plan::default()
    };
    let mut lowered = Lowered { plan, warnings: Vec::new() };
    let mut errors = Vec::new();
    if let Some(http) = &model.http {
        let plan = std::mem::take(&mut lowered.plan);
        lowered.take(lower_http(http, options, plan, memory), &mut errors);
    }
    if let Some(stream) = &model.stream {
        let empty = Http::empty(stream.span);
        let plan = std::mem::take(&mut lowered.plan);
        lowered.take(stream::lower_stream(stream, &empty, options, plan), &mut errors);
    }
    if errors.is_empty() { Ok(lowered) } else { Err(errors) }
}

impl Lowered {
    /// Adds the result of one block: the plan so far, and its diagnostics.
    fn take(&mut self, (plan, found): (Plan, Vec<Diagnostic>), errors: &mut Vec<Diagnostic>) {
        self.plan = plan;
        if found.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            errors.extend(found);
        } else {
            self.warnings.extend(found);
        }
    }
}

fn lower_http(
    http: &Http,
    options: &LowerOptions<'_>,
    plan: Plan,
    memory: &mut Option<LowerMemory>,
) -> (Plan, Vec<Diagnostic>) {
    let client = &http.location.client;
    let outer_resolver = client.resolver.clone().map(|resolver| (resolver, client.resolver_timeout));
    let mut lowering = Lowering::new(Scope::Http, &http.declared, http, options, plan);
    lowering.outer_resolver = outer_resolver;
    lowering.declare_variables();
    lowering.plan.definitions = lowering.definitions();
    lowering.compile_zone_keys();
    lowering.acme_issuers = lowering.acme_issuers();
    lowering.plan.otel_exporter = lowering.otel_exporter();
    lowering.cache_zones();
    lowering.plan.charsets = lower_charsets(http);
    if let Some(memory) = memory {
        lowering.begin_sharing(memory);
    }
    lowering.plan.servers =
        http.servers.iter().enumerate().map(|(index, server)| lowering.shared_server(index, server)).collect();
    lowering.check_unused();
    lowering.plan.listeners = lowering.listeners();
    lowering.groups.secure_checks(&mut lowering.plan.groups);
    // A template of any server may use them, so this is only known now.
    let keep_offers = lowering.plan.wants_tls_offers;
    for server in &mut lowering.plan.servers {
        if let Some(tls) = Arc::get_mut(server).and_then(|server| server.tls.as_deref_mut()) {
            tls.keep_offers = keep_offers;
        }
    }
    if memory.is_some() {
        if lowering.plan.servers.iter().any(|server| server.differs_in_offers(keep_offers)) {
            *memory = Some(LowerMemory::default());
            return lower_http(http, options, lowering.plan.emptied(), memory);
        }
        *memory = Some(lowering.keep());
    }
    let Lowering { mut plan, found, users, .. } = lowering;
    if plan.locations.iter().any(|location| location.ssi.is_some()) {
        plan.page_variables = users;
    }
    plan.temp_directories = temp_directories(&plan.locations, &plan.cache_zones);
    (plan, found)
}

/// `drain_rate` and `drain_timeout`. Tunnels that a reload changes are drained by default; those of a process that ends
/// only if one of the two is written, because otherwise they may last until they end.
fn drain_plan(settings: &MainSettings, share: Share) -> DrainPlan {
    let rate = NonZeroU32::new(share.divide(settings.drain_rate.unwrap_or(DRAIN_RATE_DEFAULT)));
    DrainPlan {
        rate,
        timeout: settings.drain_timeout.unwrap_or(DRAIN_TIMEOUT_DEFAULT),
        at_quit: rate.is_some() && (settings.drain_rate.is_some() || settings.drain_timeout.is_some()),
    }
}

fn http2_plan(settings: &Http2Settings) -> Http2Plan {
    Http2Plan {
        enabled: settings.enabled,
        streams_max: settings.max_concurrent_streams,
        preread_bytes: settings.body_preread_size,
    }
}

fn temp_directories(locations: &Slots<LocationPlan>, caches: &[CacheZonePlan]) -> Vec<PathBuf> {
    let of_locations = locations.iter().map(|location| &location.client.body_files.directory);
    let directories: BTreeSet<&PathBuf> = of_locations.chain(caches.iter().map(|zone| &zone.directory)).collect();
    directories.into_iter().cloned().collect()
}

/// `$server_name`: that of `.example.com` is `example.com`.
fn server_name(server: &Server) -> Arc<[u8]> {
    server.names.first().map_or(&b""[..], |name| name.text.strip_prefix(b".").unwrap_or(&name.text)).into()
}

impl<'a> Lowering<'a> {
    fn new(scope: Scope, declared: &'a Declared, http: &'a Http, options: &'a LowerOptions<'a>, plan: Plan) -> Self {
        Self {
            scope,
            declared,
            outer_resolver: None,
            http,
            options,
            plan,
            users: UserVariables::of(scope),
            formats: vec![None; declared.log_formats.len()],
            groups: Groups::default(),
            types: Vec::new(),
            sides: upstream_tls::Sides::default(),
            alias: None,
            has_tls_listener: http.listeners.iter().any(|listener| listener.options.ssl),
            server_now: None,
            server_name_now: Arc::default(),
            zone_keys: limits::ZoneKeys::default(),
            acme_issuers: Vec::new(),
            read_pairs: tls::ReadPairs::default(),
            idle_proxies: Vec::new(),
            uses_slices: false,
            key_sets: Vec::new(),
            route: Vec::new(),
            entries: Vec::new(),
            open_files: Vec::new(),
            sharing: None,
            found: Vec::new(),
        }
    }
}

impl Lowering<'_> {
    fn server(&mut self, id: ServerId, server: &Server) -> ServerPlan {
        self.server_now = Some(id);
        self.server_name_now = server_name(server);
        self.entries = route_marks::entries(&self.http.listeners, id, &server.names);
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
            name: Arc::clone(&self.server_name_now),
            span: server.span,
            locations,
            limits: listener::head_limits(&server.settings.head),
            merge_slashes: server.settings.head.merge_slashes,
            answer: self.program_return(&server.program, &server.location),
            program: self.program(&server.program, &server.location, None),
            tls: self.tls_plan(id, server),
            bare_demands: self.bare_demands(id, server),
            http2: http2_plan(&server.settings.http2),
            own,
        }
    }

    fn server_of(&self, id: ServerId) -> Option<&Server> {
        self.http.servers.get(id.0 as usize).map(|server| &**server)
    }

    /// Notes that a variable is used for which exchanges must keep something, or ask the kernel.
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
                Variable::Tls(variable) if !self.has_tls_listener => {
                    self.note_idle_variable(variable.name(), "always empty", TlsVariable::NEEDS, span);
                }
                Variable::Tls(variable) => self.plan.wants_tls_offers |= variable.is_offer(),
                _ => {}
            }
            self.plan.keeps_sent |= matches!(variable, Variable::SentHttp(_) | Variable::SentTrailer(_));
            self.uses_slices |= *variable == Variable::SliceRange;
            self.plan.wants_upstream_local |= *variable == Variable::UpstreamLocalAddr;
        }
    }

    /// Adds one note for each variable that has no effect, at its first place.
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
