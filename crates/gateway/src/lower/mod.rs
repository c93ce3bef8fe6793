//! From the typed configuration to a generation: names become tables, variables become enums, addresses become keys of the
//! pool. Runs at start and at each reload, off the request path; the same for `-t` and `serve`.

pub(crate) mod computed;
pub(crate) mod cookies;
pub(crate) mod defined;
pub(crate) mod files;
pub(crate) mod floor;
pub(crate) mod group;
pub(crate) mod idle;
pub(crate) mod limit_zones;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod location;
pub(crate) mod logs;
pub(crate) mod program;
pub(crate) mod proxy;
pub(crate) mod rate;
pub(crate) mod real_ip;

use crate::base::logs::access::{AccessOutput, LogSink};
use crate::base::logs::error::{ErrorLog, ErrorTarget};
use crate::base::logs::place::{LogPlace, Resolve};
use crate::lower::files::KnownTypes;
use crate::lower::group::Groups;
use crate::plan::files::Alias;
use crate::plan::generation::{FloorPlan, Generation, ListenerId, ListenerPlan, LocationPlan, MovingFloor, ServerPlan};
use crate::registry::shared::Shared;
use conf::diagnostic::{Diagnostic, Severity};
use conf::model::{Http, Model, ProxySettings, Server, ServerId};
use conf::source::Span;

use logs::ErrorOutput;
use reactor::{ListenOptions, PeerAddress};
use rules::defined::Definitions;
use rules::log_format::LogFormat;
use rules::variable::{Idle, UserVariables, Variable};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use upstream::balance::{HealthRegistry, SeatLine, Sessions};

/// What outlives generations: numbers of listening addresses, logs, the health of peers and the sessions
/// bound to them, keyed by identity.
#[derive(Default)]
pub struct Registry {
    listeners: HashMap<PeerAddress, ListenerId>,
    sinks: HashMap<LogPlace, Arc<LogSink>>,
    error_logs: HashMap<Vec<ErrorTarget>, Arc<ErrorLog>>,
    health: Arc<HealthRegistry>,
    /// The sessions of `sticky learn` by zone, with the upstream that has it.
    sessions: HashMap<String, (String, Arc<Sessions>)>,
    limit_zones: limit_zones::LimitZones,
    /// The waiting lines of groups with `queue`, by the group's name.
    lines: HashMap<String, Arc<SeatLine>>,
    generations: u64,
}

/// Where the configuration is used.
pub struct LowerOptions<'a> {
    /// Relative paths of logs and files are relative to this (`-p`).
    pub prefix: PathBuf,
    /// Number of worker threads.
    pub workers: u16,
    /// The process's shared state: groups, peers and keys get their numbers in its pool.
    pub shared: &'static Shared,
    /// `$hostname`.
    pub hostname: String,
    /// The resolver.
    pub resolve: Resolve<'a>,
}

/// A socket that the configuration listens on.
#[derive(Debug, Clone)]
pub struct ListenerSpec {
    /// Its number, the same in all generations.
    pub id: ListenerId,
    /// Where it is bound.
    pub address: PeerAddress,
    /// How.
    pub options: ListenOptions,
}

/// A configuration, ready to be used.
pub struct Lowered {
    /// What the workers hold.
    pub generation: Arc<Generation>,
    /// What is listened on.
    pub listeners: Vec<ListenerSpec>,
    /// The access logs that it writes.
    pub logs: Vec<AccessOutput>,
    /// The error logs that it writes besides the process's own.
    pub error_logs: Vec<ErrorOutput>,
    /// The directories that it writes temporary files to, each once.
    pub temp_directories: Vec<PathBuf>,
    /// A `proxy_bind` is transparent, which needs `CAP_NET_RAW`.
    pub transparent: bool,
    /// What is worth saying.
    pub warnings: Vec<Diagnostic>,
}

/// The work in progress.
struct Lowering<'a> {
    http: &'a Http,
    options: &'a LowerOptions<'a>,
    registry: &'a mut Registry,
    users: UserVariables,
    formats: Vec<Option<Arc<LogFormat>>>,
    groups: Groups,
    types: Vec<KnownTypes>,
    /// The `alias` that holds here, where it was written, and what it stands for.
    alias: Option<(Span, Alias)>,
    logs: Vec<AccessOutput>,
    error_outputs: Vec<ErrorOutput>,
    locations: Vec<LocationPlan>,
    zone_keys: limit_zones::ZoneKeys,
    floors: Vec<FloorPlan>,
    moving_floors: Vec<MovingFloor>,
    /// A template asks for `$upstream_local_addr`.
    wants_upstream_local: bool,
    keeps_sent: bool,
    transparent: bool,
    /// Words of a proxy where nothing is proxied.
    idle_proxies: Vec<Arc<ProxySettings>>,
    found: Vec<Diagnostic>,
}

/// Lowers a model that has no errors. Errors that only show here (unknown variables, names without an address) come back as
/// diagnostics with their place.
pub fn lower(model: &Model, registry: &mut Registry, options: &LowerOptions<'_>) -> Result<Lowered, Vec<Diagnostic>> {
    registry.generations += 1;
    // An operator who has changed a sysctl reloads.
    options.shared.ports.refresh();
    registry.forget_logs();
    registry.forget_limit_zones();
    let number = registry.generations;
    let worker_connections = model.events.settings.worker_connections as usize;
    let Some(http) = &model.http else { return Ok(without_http(model, number, options)) };
    let mut lowering = Lowering {
        http,
        options,
        registry,
        users: UserVariables::default(),
        formats: vec![None; http.log_formats.len()],
        groups: Groups::default(),
        types: Vec::new(),
        alias: None,
        logs: Vec::new(),
        error_outputs: Vec::new(),
        locations: Vec::new(),
        zone_keys: limit_zones::ZoneKeys::default(),
        floors: Vec::new(),
        moving_floors: Vec::new(),
        wants_upstream_local: false,
        keeps_sent: false,
        transparent: false,
        idle_proxies: Vec::new(),
        found: Vec::new(),
    };
    lowering.declare_variables();
    let definitions = lowering.definitions();
    lowering.compile_zone_keys();
    let servers: Vec<ServerPlan> = http.servers.iter().map(|server| lowering.server(server)).collect();
    lowering.check_idle();
    let (listeners, specs) = lowering.listeners();
    let checks = std::mem::take(&mut lowering.groups.checks).into();
    let Lowering {
        logs,
        error_outputs: error_logs,
        locations,
        floors,
        moving_floors,
        found,
        keeps_sent,
        wants_upstream_local,
        transparent,
        ..
    } = lowering;
    if found.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(found);
    }
    let temp_directories = temp_directories(&locations);
    let generation = Arc::new(Generation {
        number,
        listeners,
        servers,
        locations,
        definitions,
        floors,
        moving_floors,
        checks,
        hostname: options.hostname.as_bytes().into(),
        worker_connections,
        wants_upstream_local,
        keeps_sent,
        memory_budget: model.main.settings.memory_budget,
    });
    Ok(Lowered { generation, listeners: specs, logs, error_logs, temp_directories, transparent, warnings: found })
}

fn temp_directories(locations: &[LocationPlan]) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> =
        locations.iter().map(|location| location.client.body_files.directory.clone()).collect();
    directories.sort();
    directories.dedup();
    directories
}

/// A configuration that serves nothing.
fn without_http(model: &Model, number: u64, options: &LowerOptions<'_>) -> Lowered {
    let worker_connections = model.events.settings.worker_connections as usize;
    let generation = Generation {
        number,
        listeners: Vec::new(),
        servers: Vec::new(),
        locations: Vec::new(),
        definitions: Definitions::default(),
        floors: Vec::new(),
        moving_floors: Vec::new(),
        checks: Arc::default(),
        hostname: options.hostname.as_bytes().into(),
        worker_connections,
        wants_upstream_local: false,
        keeps_sent: false,
        memory_budget: model.main.settings.memory_budget,
    };
    let generation = Arc::new(generation);
    Lowered {
        generation,
        listeners: vec![],
        logs: vec![],
        error_logs: vec![],
        temp_directories: vec![],
        transparent: false,
        warnings: vec![],
    }
}

impl Lowering<'_> {
    fn server(&mut self, server: &Server) -> ServerPlan {
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
            own,
        }
    }

    fn server_of(&self, id: ServerId) -> Option<&Server> {
        self.http.servers.get(id.0 as usize)
    }

    /// Notes what has to be kept, or asked of the kernel, for somebody who asks for it.
    fn note_wanted<'v>(&mut self, variables: impl Iterator<Item = &'v Variable>, span: Span) {
        for variable in variables {
            if let Variable::Idle(idle) = variable {
                self.note_idle_variable(*idle, span);
            }
            self.keeps_sent |= matches!(variable, Variable::SentHttp(_) | Variable::SentTrailer(_));
            self.wants_upstream_local |= *variable == Variable::UpstreamLocalAddr;
        }
    }

    /// One note for each variable that has nothing to act on, at its first place.
    fn note_idle_variable(&mut self, idle: Idle, span: Span) {
        let value =
            if idle.value().is_some_and(|value| !value.is_empty()) { "always the same" } else { "always empty" };
        let message = format!("\"${}\" variable is {value} here", idle.name());
        if !self.found.iter().any(|known| known.message == message) {
            self.found.push(Diagnostic::note(span, message).with_hint(format!("it acts only with {}", idle.needs())));
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

/// Puts a plan at its listener's number; the list has gaps for the addresses of other generations.
fn place_listener(list: &mut Vec<Option<ListenerPlan>>, id: ListenerId, plan: ListenerPlan) {
    let index = id.0 as usize;
    if index >= list.len() {
        list.resize_with(index + 1, || None);
    }
    list[index] = Some(plan);
}
