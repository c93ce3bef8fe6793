//! The walk over the tree. At each level it reads the settings first, in any order, and then the blocks inside. So a
//! directive after a block also applies inside the block, as in nginx.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::acme::{self, AcmeCertificate, AcmeIssuerId};
use super::auth_jwt;
use super::cache;
use super::charset;
use super::env::{Env, Family, ZoneKind};
use super::files;
use super::geoip2;
use super::limit::{self, ZoneId};
use super::listen::{self, Listen, ListenOptions, Listener, Listening};
use super::location::LocationSettings;
use super::log::{self, Escape, LogFormat, LogFormatId};
use super::map;
use super::memory::{Kept, KeptServer, Memory};
use super::otel;
use super::proxy_pass::Groups;
use super::response::HeaderInherit;
use super::server::{self, Declared, Http, NameForm, Server, ServerName, ServerSettings};
use super::settings::Touched;
use super::tls;
use super::transport::TransportSettings;
use super::upstream::Upstream;
use super::upstream_server::{Place, lower_upstream};
use super::{Events, Main, Model};
use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{SourceMap, Span};
use crate::tree::{Block, Directive, Word};
use crate::value::{Address, Host, Parsed, Template};

/// What the configuration depends on besides its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether the process may bind ports below 1024. A server without `listen` uses port 80 if so, otherwise 8000.
    pub privileged: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { privileged: true }
    }
}

/// Lowers a checked tree as for a privileged process.
///
/// Skips directives that the model does not know: the check has decided whether they are allowed.
pub fn lower(tree: &Block, sources: &SourceMap) -> (Model, Vec<Diagnostic>) {
    lower_with(tree, sources, Options::default())
}

/// Lowers a checked tree. The model is complete even if there are errors, but the caller must not use it then. Findings
/// are in the order of the text.
pub fn lower_with(tree: &Block, sources: &SourceMap, options: Options) -> (Model, Vec<Diagnostic>) {
    walk(tree, sources, options, &mut None)
}

/// The same for one of several trees that are made one after another: servers and groups of `http` that are the same as in
/// the tree before are shared with its model. The model is equal to that of [`lower_with`].
pub fn lower_reusing(
    tree: &Block,
    sources: &SourceMap,
    options: Options,
    memory: &mut Memory,
) -> (Model, Vec<Diagnostic>) {
    let mut taken = Some(std::mem::take(memory));
    let lowered = walk(tree, sources, options, &mut taken);
    *memory = taken.unwrap_or_default();
    lowered
}

fn walk(tree: &Block, sources: &SourceMap, options: Options, memory: &mut Option<Memory>) -> (Model, Vec<Diagnostic>) {
    let (env, groups) = (Env::default(), Groups::default());
    let mut walk = Walk { env, groups, out: Vec::new(), options, memory: memory.take() };
    let model = walk.model(tree);
    *memory = walk.memory;
    let mut out = walk.out;
    debug_assert!(out.iter().all(|found| found.span.file.0 as usize <= sources.iter().count()));
    out.sort_by_key(|found| (found.span.file, found.span.start));
    (model, out)
}

/// The walk with its results so far.
pub(crate) struct Walk {
    pub(crate) env: Env,
    pub(crate) groups: Groups,
    pub(crate) out: Vec<Diagnostic>,
    pub(crate) options: Options,
    /// The models before; `None` if nothing is shared with them.
    memory: Option<Memory>,
}

impl Walk {
    pub(crate) fn report<T>(&mut self, parsed: Parsed<T>) -> Option<T> {
        parsed.map_err(|error| self.out.push(error)).ok()
    }

    fn model(&mut self, tree: &Block) -> Model {
        let mut main = Arc::new(Main::default());
        let mut touched = Touched::default();
        let (mut events, mut http, mut stream) = (None, None, None);
        for directive in &tree.directives {
            match (directive.name.value.as_slice(), &directive.block) {
                (b"events", Some(block)) => events = Some(self.events(block)),
                (b"http", Some(block)) => http = Some(self.http(directive, block)),
                (b"stream", Some(block)) => stream = Some(self.stream(directive, block)),
                _ => _ = Main::apply(&mut main, &mut touched, directive, &self.env, &mut self.out),
            }
        }
        Model { main: Arc::unwrap_or_clone(main), events: events.unwrap_or_default(), http, stream }
    }

    fn events(&mut self, block: &Block) -> Events {
        let mut events = Arc::new(Events::default());
        let mut touched = Touched::default();
        for directive in &block.directives {
            Events::apply(&mut events, &mut touched, directive, &self.env, &mut self.out);
        }
        Arc::unwrap_or_clone(events)
    }

    fn http(&mut self, directive: &Directive, block: &Block) -> Http {
        let mut http = Http::empty(directive.name.span);
        // The checks report a second `http` as an error. Its directives must still not refer by index to anything of
        // the first.
        self.begin_block("http");
        self.definitions(&mut http, block);
        let mut outer = LocationSettings::default();
        Arc::make_mut(&mut outer.log).access = vec![log::implied_access_log(directive.name.span)];
        let outer = Arc::new(outer);
        http.location = self.settings_of(block, &outer, true);
        self.env.http_resolver = http.location.client.resolver.is_some();
        let mut settings = self.server_settings(block, &Arc::default());
        let mut kept = self.begin_kept(block, &mut http, &mut settings);
        self.groups_and_tables(&mut http.declared, block, Place::Http, kept.as_mut());
        for (index, directive) in block.directives.iter().enumerate() {
            self.env.position = index;
            if let (b"server", Some(block)) = (directive.name.value.as_slice(), &directive.block) {
                let server = self.shared_server(directive, block, (&settings, &http.location), kept.as_mut());
                http.servers.push(server);
            }
        }
        self.unchecked_sizes(block, &http, &settings);
        http.listeners = listen::lower_listeners(&http.servers, &mut self.out);
        self.check_tls(block, &http.servers, &http.listeners);
        http.declared.upstreams = std::mem::take(&mut self.groups).upstreams;
        let is_sound = self.out.iter().all(|found| found.severity < Severity::Error);
        if let (Some(memory), Some(kept)) = (&mut self.memory, kept.filter(|_| is_sound)) {
            memory.keep(kept);
        }
        http
    }

    /// Checks TLS towards clients. The zones of one block cannot be used by the other.
    pub(crate) fn check_tls<S: Listening>(&mut self, block: &Block, servers: &[S], listeners: &[Listener]) {
        let Env { zones, foreign_zones, .. } = &self.env;
        let taken = |name: &str| zones.contains_key(name.as_bytes()) || foreign_zones.contains_key(name.as_bytes());
        tls::check_tls(block, servers, listeners, &taken, &mut self.out);
        let named = servers.iter().flat_map(tls::zones_of).map(|(zone, _)| (zone.name.clone().into_bytes(), zone.span));
        self.env.foreign_zones.extend(named);
    }

    /// Forgets the names of an earlier block: `http` and `stream` share no names.
    pub(crate) fn begin_block(&mut self, name: &'static str) {
        let regexes = std::mem::take(&mut self.env.regexes);
        let own = self.env.zones.drain().map(|(name, (_, _, span))| (name, span));
        let foreign_zones = own.chain(std::mem::take(&mut self.env.foreign_zones)).collect();
        self.env = Env { block: name, foreign_zones, regexes, ..Env::default() };
    }

    /// Groups, and the tables that define variables.
    pub(crate) fn groups_and_tables(
        &mut self,
        declared: &mut Declared,
        block: &Block,
        place: Place,
        mut kept: Option<&mut Kept>,
    ) {
        for (index, directive) in block.directives.iter().enumerate() {
            self.env.position = index;
            match directive.name.value.as_slice() {
                b"upstream" => {
                    if let Some(group) = self.shared_group(directive, place, kept.as_deref_mut()) {
                        self.groups.add(group, &mut self.out);
                    }
                }
                b"map" => {
                    let map = map::lower_map(directive, &self.env, &mut self.out);
                    declared.maps.extend(self.report(map));
                }
                b"geo" => {
                    let geo = map::lower_geo(directive, &mut self.out);
                    declared.geos.extend(self.report(geo));
                }
                b"geoip2" => {
                    let geoip = geoip2::lower_geoip2(directive, &mut self.out);
                    declared.geoips.extend(self.report(geoip));
                }
                b"geoip2_proxy" | b"geoip2_proxy_recursive" => {
                    let added = geoip2::lower_proxies(&mut declared.geoip_proxies, directive, &mut self.out);
                    self.report(added);
                }
                b"split_clients" => {
                    let split = map::lower_split(directive, &mut self.out);
                    declared.splits.extend(self.report(split));
                }
                _ => {}
            }
        }
    }

    /// Checks the sizes of `http` once for the servers that inherit them unchanged.
    fn unchecked_sizes(&mut self, block: &Block, http: &Http, settings: &ServerSettings) {
        for (prefix, _, transport) in FAMILIES {
            let outer = transport(&http.location);
            if http.servers.iter().any(|server| transport(&server.location).sizes() == outer.sizes()) {
                outer.check(prefix, |name| span_of(block, name), &mut self.out);
            }
        }
        if http.servers.iter().any(|server| Arc::ptr_eq(&server.settings.head, &settings.head)) {
            check_heads(settings, block, &mut self.out);
        }
    }

    /// Log formats and zones, to which settings refer by name.
    fn definitions(&mut self, http: &mut Http, block: &Block) {
        http.declared.log_formats.push(combined(http.span));
        self.env.formats.insert(b"combined".to_vec(), (LogFormatId(0), 0));
        self.formats_and_zones(&mut http.declared, block);
        for directive in &block.directives {
            match directive.name.value.as_slice() {
                b"charset_map" => {
                    let map = charset::lower_charset_map(directive, &http.charset_maps, &mut self.out);
                    http.charset_maps.extend(self.report(map));
                }
                b"proxy_cache_path" | b"fastcgi_cache_path" | b"scgi_cache_path" | b"uwsgi_cache_path" => {
                    let Some(zone) = self.report(cache::parse_cache_path(directive)) else { continue };
                    let family = Family::of(&directive.name.value);
                    cache::define_cache(&mut self.env, &mut http.cache_zones, (zone, family), &mut self.out);
                }
                b"auth_jwt_claim_set" | b"auth_jwt_header_set" => {
                    let variable = auth_jwt::parse_jwt_variable(directive);
                    http.jwt_variables.extend(self.report(variable));
                }
                b"acme_issuer" => self.acme_issuer(http, directive),
                b"otel_exporter" if http.otel_exporter.is_none() => {
                    http.otel_exporter = otel::lower_exporter(directive, &self.env, &mut self.out);
                }
                _ => {}
            }
        }
        cache::check_paths(&http.cache_zones, &mut self.out);
    }

    /// The definitions that `http` and `stream` have in common.
    pub(crate) fn formats_and_zones(&mut self, declared: &mut Declared, block: &Block) {
        let mut spans: FxHashMap<LogFormatId, Span> = FxHashMap::default();
        for (index, directive) in block.directives.iter().enumerate() {
            match directive.name.value.as_slice() {
                b"log_format" => {
                    let Some(format) = self.report(log::parse_log_format(directive)) else { continue };
                    let id = LogFormatId(declared.log_formats.len() as u32);
                    if let Some((first, _)) = self.env.formats.get(format.name.as_bytes()) {
                        let message = format!("duplicate \"log_format\" name \"{}\"", format.name);
                        let error = Diagnostic::error(directive.args[0].span, message);
                        self.out.push(match spans.get(first) {
                            None => error.with_hint("`combined` is built in"),
                            Some(first) => error.with_related(*first, "first defined here"),
                        });
                        continue;
                    }
                    self.env.formats.insert(format.name.clone().into_bytes(), (id, index));
                    declared.log_formats.push(format);
                    spans.insert(id, directive.span);
                }
                b"limit_req_zone" => {
                    let Some(zone) = self.report(limit::parse_request_zone(directive)) else { continue };
                    let id = ZoneId(declared.request_zones.len() as u32);
                    if self.define_zone(&zone.name, ZoneKind::Requests, id, directive) {
                        declared.request_zones.push(zone);
                    }
                }
                b"limit_conn_zone" => {
                    let Some(zone) = self.report(limit::parse_connection_zone(directive)) else { continue };
                    let id = ZoneId(declared.connection_zones.len() as u32);
                    if self.define_zone(&zone.name, ZoneKind::Connections, id, directive) {
                        declared.connection_zones.push(zone);
                    }
                }
                _ => {}
            }
        }
    }

    fn define_zone(&mut self, name: &str, kind: ZoneKind, id: ZoneId, directive: &Directive) -> bool {
        if let Some((_, _, first)) = self.env.zones.get(name.as_bytes()) {
            let message = format!("{} \"{name}\" is already bound to a key", directive.name.text());
            self.out.push(Diagnostic::error(directive.span, message).with_related(*first, "first defined here"));
            return false;
        }
        if let Some(first) = self.env.foreign_zones.get(name.as_bytes()) {
            let message = format!("the shared memory zone \"{name}\" is already declared for a different use");
            self.out.push(Diagnostic::error(directive.span, message).with_related(*first, "first defined here"));
            return false;
        }
        self.env.zones.insert(name.as_bytes().to_vec(), (kind, id, directive.span));
        true
    }

    /// What this model keeps for the next one; `None` if nothing is shared. If nothing but servers and groups differs from
    /// the model before, its settings of `http` are used again, so that servers of both can be the same.
    fn begin_kept(&mut self, block: &Block, http: &mut Http, settings: &mut Arc<ServerSettings>) -> Option<Kept> {
        // A zone of `stream` may be in the way of one of `http`.
        let memory = self.memory.as_mut().filter(|_| self.env.foreign_zones.is_empty())?;
        let kept = memory.begin(block, self.options, (&http.frame, settings, &http.location))?;
        (http.frame, http.location) = (Arc::clone(&kept.frame), Arc::clone(&kept.location));
        *settings = Arc::clone(&kept.settings);
        Some(kept)
    }

    /// A group: that of the model before, if it is written in the same way.
    fn shared_group(&mut self, directive: &Directive, place: Place, kept: Option<&mut Kept>) -> Option<Arc<Upstream>> {
        let Some(kept) = kept else {
            return lower_upstream(directive, place, &self.env, &mut self.out).map(Arc::new);
        };
        if let Some(known) = self.memory.as_ref().and_then(|memory| memory.group(directive)) {
            kept.add_group(directive, &known);
            return Some(known);
        }
        let found = self.out.len();
        let group = Arc::new(lower_upstream(directive, place, &self.env, &mut self.out)?);
        if self.out.len() == found {
            kept.add_group(directive, &group);
        }
        Some(group)
    }

    /// A server: that of the model before, if it is written in the same way and leads to the same groups.
    fn shared_server(
        &mut self,
        directive: &Directive,
        block: &Block,
        (settings, location): (&Arc<ServerSettings>, &Arc<LocationSettings>),
        kept: Option<&mut Kept>,
    ) -> Arc<Server> {
        let Some(kept) = kept else { return Arc::new(self.server(directive, block, settings, location)) };
        if let Some(known) = self.memory.as_ref().and_then(|memory| memory.server(kept, directive)) {
            let server = Arc::clone(&known.made);
            kept.add_server(known);
            return server;
        }
        let found = self.out.len();
        self.groups.begin();
        let server = Arc::new(self.server(directive, block, settings, location));
        if let Some(groups) = self.groups.end().filter(|_| self.out.len() == found) {
            kept.add_server(KeptServer { directive: directive.clone(), made: Arc::clone(&server), groups });
        }
        server
    }

    fn server_settings(&mut self, block: &Block, outer: &Arc<ServerSettings>) -> Arc<ServerSettings> {
        let mut settings = Arc::clone(outer);
        let mut touched = Touched::default();
        for directive in &block.directives {
            ServerSettings::apply(&mut settings, &mut touched, directive, &self.env, &mut self.out);
        }
        settings
    }

    fn server(
        &mut self,
        directive: &Directive,
        block: &Block,
        settings: &Arc<ServerSettings>,
        location: &Arc<LocationSettings>,
    ) -> Server {
        let span = directive.name.span;
        let outer = settings;
        let settings = self.server_settings(block, outer);
        if !Arc::ptr_eq(&outer.head, &settings.head) {
            check_heads(&settings, block, &mut self.out);
        }
        let (mut listens, mut names) = (Vec::new(), Vec::new());
        let mut asked = false;
        for directive in &block.directives {
            match directive.name.value.as_slice() {
                b"listen" => {
                    asked = true;
                    let parsed = listen::parse_listen(directive, Place::Http, &mut self.out);
                    listens.extend(self.report(parsed).into_iter().flatten());
                }
                b"server_name" => self.names(&directive.args, &mut names),
                _ => {}
            }
        }
        if !asked {
            listens.push(self.implied_listen());
        }
        if names.is_empty() {
            names.push(ServerName { form: NameForm::Exact(Vec::new()), text: Vec::new(), span: None });
        }
        let acme = self.acme_certificate(block, &names);
        let location = self.settings(block, location);
        let inside = self.inside_server(block, &location);
        Server {
            listens,
            names,
            settings,
            location,
            try_files: inside.try_files,
            content: inside.content,
            program: inside.program,
            acme,
            locations: inside.locations,
            span,
        }
    }

    pub(crate) fn names(&mut self, words: &[Word], names: &mut Vec<ServerName>) {
        for word in words {
            let parsed = server::parse_server_name(word, &self.env, &mut self.out);
            names.extend(self.report(parsed));
        }
    }

    fn acme_certificate(&mut self, block: &Block, names: &[ServerName]) -> Option<AcmeCertificate> {
        let directive = block.directives.iter().find(|directive| directive.name.value == b"acme_certificate")?;
        let find = |name: &str| self.env.acme_issuers.get(name).map(|(id, _)| *id);
        acme::lower_certificate(directive, find, names, &mut self.out)
    }

    fn acme_issuer(&mut self, http: &mut Http, directive: &Directive) {
        let Some(issuer) = acme::lower_issuer(directive, &self.env, &mut self.out) else { return };
        if let Some((_, first)) = self.env.acme_issuers.get(&issuer.name) {
            let message = format!("duplicate \"acme_issuer\" name \"{}\"", issuer.name);
            self.out
                .push(Diagnostic::error(directive.args[0].span, message).with_related(*first, "first defined here"));
            return;
        }
        let id = AcmeIssuerId(http.acme_issuers.len() as u32);
        self.env.acme_issuers.insert(issuer.name.clone(), (id, issuer.span));
        http.acme_issuers.push(issuer);
    }

    fn implied_listen(&self) -> Listen {
        let host = Host::Ip(std::net::Ipv4Addr::UNSPECIFIED.into());
        let port = if self.options.privileged { 80 } else { 8000 };
        Listen { address: Address { host, port }, default_server: false, options: ListenOptions::default(), span: None }
    }

    /// The settings of a level: those around it, changed by its own directives.
    pub(crate) fn settings(&mut self, block: &Block, outer: &Arc<LocationSettings>) -> Arc<LocationSettings> {
        self.settings_of(block, outer, false)
    }

    fn settings_of(&mut self, block: &Block, outer: &Arc<LocationSettings>, is_http: bool) -> Arc<LocationSettings> {
        let mut settings = Arc::clone(outer);
        let mut touched = Touched::default();
        for (index, directive) in block.directives.iter().enumerate() {
            if is_http {
                self.env.position = index;
            }
            if directive.name.value == b"types" {
                self.types(directive, &mut settings, &mut touched);
            } else {
                LocationSettings::apply(&mut settings, &mut touched, directive, &self.env, &mut self.out);
            }
        }
        if !touched.is_empty()
            || settings.response.add_header_inherit != HeaderInherit::On
            || settings.response.add_trailer_inherit != HeaderInherit::On
        {
            self.finish(block, is_http, outer, &mut settings, &touched);
        }
        settings
    }

    fn types(&mut self, directive: &Directive, settings: &mut Arc<LocationSettings>, touched: &mut Touched) {
        let Some(block) = &directive.block else { return };
        let mut types = files::lower_types(block, &mut self.out);
        let files = Arc::make_mut(&mut Arc::make_mut(settings).files);
        if !touched.first("files", "types") {
            let mut earlier = files.types.as_ref().clone();
            earlier.append(&mut types);
            types = earlier;
        }
        files.types = Arc::new(types);
    }

    /// Checks and merges that need all directives of a level.
    fn finish(
        &mut self,
        block: &Block,
        is_http: bool,
        outer: &LocationSettings,
        settings: &mut Arc<LocationSettings>,
        touched: &Touched,
    ) {
        let is_off = |directive: &Directive| {
            directive.name.value == b"access_log" && directive.args.first().is_some_and(|word| word.value == b"off")
        };
        if touched.has("log", "access") && block.directives.iter().any(is_off) {
            Arc::make_mut(&mut Arc::make_mut(settings).log).access.clear();
        }
        if let Some(joined) = super::response::join_headers(&outer.response, &settings.response, touched) {
            Arc::make_mut(settings).response = Arc::new(joined);
        }
        if touched.has("proxy", "redirects") {
            super::proxy::check_redirects(block, &mut self.out);
        }
        if touched.has("files", "index") {
            files::check_index(block, &mut self.out);
        }
        for (prefix, group, transport) in FAMILIES {
            if !is_http && TransportSettings::sizes_touched(touched, group) {
                transport(settings).check(prefix, |name| span_of(block, name), &mut self.out);
            }
        }
        for (prefix, group, caches) in CACHES {
            let sets = ["zone", "store"].map(|field| touched.has(group, field));
            if sets != [false; 2] {
                let caches = Arc::make_mut(caches(Arc::make_mut(settings)));
                cache::settle_store(prefix, caches, sets, |name| span_of(block, name), &mut self.out);
            }
        }
    }
}

/// The cache settings of a protocol.
type Caches = fn(&mut LocationSettings) -> &mut Arc<cache::CacheSettings>;

/// The protocols whose responses can be stored: the prefix of their directives, and their group of settings.
const CACHES: [(&str, &str, Caches); 4] = [
    ("proxy_", "cache", |settings| &mut settings.cache),
    ("fastcgi_", "fastcgi_cache", |settings| &mut settings.fastcgi_cache),
    ("scgi_", "scgi_cache", |settings| &mut settings.scgi_cache),
    ("uwsgi_", "uwsgi_cache", |settings| &mut settings.uwsgi_cache),
];

/// The transport settings of a protocol.
type Transport = fn(&LocationSettings) -> &TransportSettings;

/// The protocols spoken to upstreams: the prefix of their directives, and their group of settings.
const FAMILIES: [(&str, &str, Transport); 4] = [
    ("proxy_", "transport", |settings| &settings.transport),
    ("fastcgi_", "fastcgi_transport", |settings| &settings.fastcgi_transport),
    ("scgi_", "scgi_transport", |settings| &settings.scgi_transport),
    ("uwsgi_", "uwsgi_transport", |settings| &settings.uwsgi_transport),
];

/// The place of a directive of this name in a block, or of a related one that is checked together with it.
fn span_of(block: &Block, name: &str) -> Span {
    const KIN: [&str; 5] =
        ["busy_buffers_size", "buffers", "buffer_size", "temp_file_write_size", "max_temp_file_size"];
    let prefix = name.split_inclusive('_').next().unwrap_or_default();
    let find = |name: &str| block.directives.iter().rev().find(|directive| directive.name.value == name.as_bytes());
    let found = find(name).or_else(|| KIN.iter().find_map(|kin| find(&format!("{prefix}{kin}"))));
    found.map_or(block.open, |directive| directive.span)
}

fn check_heads(settings: &ServerSettings, block: &Block, out: &mut Vec<Diagnostic>) {
    let head = &settings.head;
    if head.large_client_header_buffers.size < head.connection_pool_size {
        let message =
            "the \"large_client_header_buffers\" size must be equal to or greater than \"connection_pool_size\"";
        out.push(Diagnostic::error(span_of(block, "large_client_header_buffers"), message));
    }
}

/// The predefined format `combined`.
fn combined(span: Span) -> LogFormat {
    let text = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";
    let word = Word { value: text.into(), span, quote: crate::tree::Quote::Single };
    let template = Template::parse("log_format", &word).unwrap_or_else(|_| Template::text(b"", span));
    LogFormat { name: "combined".to_owned(), escape: Escape::Default, template }
}
