//! The tracer that records: from the events of an exchange to the steps of an explanation.

use crate::downstream::internal::Subrequest;
use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use crate::exchange::step::{Redirect, Step};
use crate::exchange::trace::{CacheNote, Event, Tracer};
use crate::exchange::view::ExchangeView;
use crate::explain::places::{ConfigPlace, Places};
use crate::explain::upstream::{CacheAnswer, UpstreamAnswer};
use crate::explain::{ChosenBlock, Detail, ExplainedEnd, ExplainedStep, LocalAnswer, Phase, Run};
use crate::plan::access::{AccessPlan, AuthRequestPlan, BasicPlan, permits};
use crate::plan::auth_jwt::JwtPlan;
use crate::plan::limits::LimitPlan;
use crate::plan::location::{LocationId, TryFallbackPlan};
use crate::plan::program::ProgramPlan;
use crate::registry::generation::ListenerId;
use conf::source::Span;
use rules::location::Tried;
use rules::program::Did;
use rules::reply::PageTarget;
use rules::server_name::MatchedBy;
use rules::template::{Template, View as _};
use rules::variable::Variable;
use std::cell::RefCell;

/// What is known so far.
pub(super) struct Recording<'p> {
    pub(super) places: &'p Places<'p>,
    pub(super) listener: Option<String>,
    pub(super) server: Option<ChosenBlock>,
    pub(super) location: Option<ChosenBlock>,
    pub(super) steps: Vec<ExplainedStep>,
    pub(super) assumptions: Vec<String>,
    pub(super) cache: Option<CacheAnswer>,
    pub(super) upstream: Option<Box<UpstreamAnswer>>,
    /// The locations that the present search has tried.
    tried: Vec<Detail>,
    /// Why the present search found its location.
    why: &'static str,
    /// The file of the last reply.
    file: Option<String>,
    /// The `if` that looks for a file.
    looks: Option<ConfigPlace>,
}

/// A reference to it, for the phases.
#[derive(Clone, Copy)]
pub(super) struct Recorder<'r, 'p>(pub(super) &'r RefCell<Recording<'p>>);

impl Tracer for Recorder<'_, '_> {
    const OFFLINE: bool = true;

    fn note(self, exchange: &Exchange, event: Event<'_>) {
        self.0.borrow_mut().note(exchange, event);
    }

    fn tried(self, exchange: &Exchange, tried: Tried<'_>) {
        self.0.borrow_mut().tried(exchange, tried);
    }
}

impl Recorder<'_, '_> {
    /// The first step: the listening address.
    pub(super) fn begin(self, exchange: &Exchange, listener: ListenerId, others: &[String]) {
        let Some(listener) = exchange.generation.listener(listener) else { return };
        let recording = &mut *self.0.borrow_mut();
        let at = listener.span.map(|span| recording.places.at(span));
        recording.listener = Some(listener.address.to_string());
        let tls = if listener.plan.tls { ", with TLS" } else { "" };
        recording.step(Phase::Listener, format!("The request reaches {}{tls}.", listener.address), at);
        if !others.is_empty() {
            let (address, others) = (&listener.address, others.join(", "));
            recording.assume(format!("The host has the address of {address}, not of {others} (--listen names one)."));
        }
        if listener.plan.proxy_protocol {
            recording.assume("The header of the PROXY protocol names no client.");
        }
    }
}

/// Bytes as text on one line.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().flat_map(escaped).collect()
}

fn escaped(one: char) -> impl Iterator<Item = char> {
    let escape = one.is_control().then(|| one.escape_default());
    let plain = escape.is_none().then_some(one);
    escape.into_iter().flatten().chain(plain)
}

/// The value of a template.
pub(super) fn written(exchange: &Exchange, template: &Template) -> String {
    let mut value = Vec::new();
    template.write(&ExchangeView::of(exchange), &mut value);
    shown(&value)
}

/// The URI with its arguments.
fn uri(exchange: &Exchange) -> String {
    let mut uri = shown(exchange.uri());
    if let Some(args) = exchange.args() {
        uri.push('?');
        uri.push_str(&shown(args));
    }
    uri
}

impl<'p> Recording<'p> {
    pub(super) fn new(places: &'p Places<'p>) -> Self {
        Self {
            places,
            listener: None,
            server: None,
            location: None,
            steps: Vec::new(),
            assumptions: Vec::new(),
            cache: None,
            upstream: None,
            tried: Vec::new(),
            why: "",
            file: None,
            looks: None,
        }
    }

    pub(super) fn step(&mut self, phase: Phase, text: impl Into<String>, at: Option<ConfigPlace>) {
        self.steps.push(ExplainedStep { phase, text: text.into(), at, details: Vec::new() });
    }

    pub(super) fn detail(&mut self, text: impl Into<String>, at: Option<ConfigPlace>) {
        if let Some(step) = self.steps.last_mut() {
            step.details.push(Detail { text: text.into(), at });
        }
    }

    /// What the explanation takes for granted, once.
    pub(super) fn assume(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !self.assumptions.contains(&text) {
            self.assumptions.push(text);
        }
    }

    /// The directives with these names that apply at the present location.
    pub(super) fn applying(&self, exchange: &Exchange, names: &[&str]) -> Vec<ConfigPlace> {
        self.places.applying(exchange.location().span, server_span(exchange), names)
    }

    /// The first of them.
    pub(super) fn directive(&self, exchange: &Exchange, names: &[&str]) -> Option<ConfigPlace> {
        self.places.first_applying(exchange.location().span, server_span(exchange), names)
    }

    fn note(&mut self, exchange: &Exchange, event: Event<'_>) {
        match event {
            Event::Server(by) => self.server(exchange, by),
            Event::Returns => self.returns(exchange),
            Event::Search => {
                self.tried.clear();
                self.why = "";
            }
            Event::Found => self.found(exchange),
            Event::Internal => {
                let at = self.directive(exchange, &["internal"]);
                self.step(Phase::Location, "The location is internal, and a client asked for it: 404.", at);
            }
            Event::Ran(plan, number, did) => self.ran(exchange, plan, number, did),
            Event::Looked { path, found, holds } => self.tested_file(path, found, holds),
            Event::Limits(plan) => self.limits(exchange, plan),
            Event::Access(plan) => self.access(exchange, plan),
            Event::Password(plan, refused) => self.password(exchange, plan, refused),
            Event::Token(plan, refused) => self.token(exchange, plan, refused),
            Event::AuthRequest(plan) => self.auth_request(exchange, plan),
            Event::RoutedTo(route) => {
                let at = self.places.at(route.span);
                self.step(Phase::Location, format!("All conditions hold: on to {}.", shown(&route.name)), Some(at));
            }
            Event::Mirror(plan) => {
                let at = self.directive(exchange, &["mirror"]);
                let uris: Vec<_> = plan.uris.iter().map(|uri| shown(uri)).collect();
                self.step(Phase::Upstream, format!("Copies of the request go to {}.", uris.join(", ")), at);
            }
            Event::Slices(plan) => {
                let at = self.directive(exchange, &["slice"]);
                self.step(Phase::Upstream, format!("The response is fetched in slices of {} bytes.", plan.size), at);
            }
            Event::TriedFile { path, directory, found } => {
                let (kind, there) = (if directory { "directory" } else { "file" }, if found { "" } else { "not " });
                let at = self.directive(exchange, &["try_files"]);
                self.step(Phase::Files, format!("The {kind} {} is {there}there.", shown(path)), at);
            }
            Event::FellBack(fallback) => self.fell_back(exchange, fallback),
            Event::ErrorPage { status, target } => self.error_page(exchange, status, target),
            Event::Cache(used) => self.note_cache(exchange, &used),
            Event::PassUrl(url) => {
                let at = self.directive(exchange, PASS);
                let text = format!("The variables give the upstream {}.", shown(&url.host_text));
                self.step(Phase::Upstream, text, at);
            }
            Event::Upstream(plan) => self.upstream(exchange, plan),
            Event::Peer { plan, set, bound, chosen } => self.peer(exchange, plan, set, bound, chosen),
            Event::Next(step) => self.next(exchange, step),
        }
    }

    fn returns(&mut self, exchange: &Exchange) {
        let at = self.directive(exchange, &["return"]);
        let text = at.as_ref().map_or_else(|| "return".to_owned(), |at| at.text.clone());
        self.step(Phase::Rewrite, format!("{text}: answers at once."), at);
    }

    fn tested_file(&mut self, path: &[u8], found: bool, holds: bool) {
        let at = self.looks.take();
        let condition = at.as_ref().map_or("if", |at| &at.text);
        let there = if found { "is there" } else { "is not there" };
        let text = format!("{condition}: {holds}. {} {there}.", shown(path));
        self.step(Phase::Rewrite, text, at);
    }

    fn password(&mut self, exchange: &Exchange, plan: &BasicPlan, refused: Option<u16>) {
        let realm = written(exchange, &plan.realm);
        let text = match refused {
            _ if realm == "off" => "No password is asked for.".to_owned(),
            None => format!("The password for \"{realm}\" is right."),
            Some(401) => format!("A right password for \"{realm}\" is required: 401."),
            Some(status) => format!("The password for \"{realm}\" cannot be checked: {status}."),
        };
        let at = self.directive(exchange, &["auth_basic"]);
        self.step(Phase::Access, text, at);
        if let Some(users) = self.directive(exchange, &["auth_basic_user_file"]) {
            self.detail(users.text.clone(), Some(users));
        }
    }

    fn token(&mut self, exchange: &Exchange, plan: &JwtPlan, refused: Option<u16>) {
        let realm = written(exchange, &plan.realm);
        let text = match refused {
            None => format!("The token for \"{realm}\" is valid."),
            Some(status @ (401 | 403)) => format!("A valid token for \"{realm}\" is required: {status}."),
            Some(status) => format!("The token for \"{realm}\" cannot be checked: {status}."),
        };
        let at = self.directive(exchange, &["auth_jwt"]);
        self.step(Phase::Access, text, at);
        if !plan.key_requests.is_empty() && refused.is_none() {
            self.assume("The keys of auth_jwt_key_request verify the token.".to_owned());
        }
    }

    fn auth_request(&mut self, exchange: &Exchange, plan: &AuthRequestPlan) {
        let at = self.directive(exchange, &["auth_request"]);
        let to = shown(&plan.uri);
        self.step(Phase::Access, format!("A subrequest to {to} decides."), at);
        self.assume(format!("The subrequest to {to} (auth_request) is answered with 2xx."));
    }

    fn fell_back(&mut self, exchange: &Exchange, fallback: &TryFallbackPlan) {
        let to = match fallback {
            TryFallbackPlan::Status(status) => format!("the status {status}"),
            TryFallbackPlan::Named(name) => format!("the location {}", shown(name)),
            TryFallbackPlan::Uri(uri) => written(exchange, uri),
        };
        let at = self.directive(exchange, &["try_files"]);
        self.step(Phase::Files, format!("None of them is there: falls back to {to}."), at);
    }

    fn server(&mut self, exchange: &Exchange, by: MatchedBy) {
        let server = exchange.generation.server(exchange.routing.target.server());
        let host = match exchange.request.head.host {
            Some(host) => format!("\"{}\"", shown(host.name.of(&exchange.request.bytes)).to_lowercase()),
            None => "an empty host".to_owned(),
        };
        let why = match by {
            MatchedBy::Exact => format!("{host} is one of its names"),
            MatchedBy::LeadingWildcard => format!("{host} matches one of its names with a leading wildcard"),
            MatchedBy::TrailingWildcard => format!("{host} matches one of its names with a trailing wildcard"),
            MatchedBy::Expression => format!("{host} matches the regular expression of its name"),
            MatchedBy::Default => format!("no server has the name {host}: it is the default server of the address"),
        };
        let at = self.places.at(server.span);
        let name = shown(&server.name);
        let called = if name.is_empty() { "without a name".to_owned() } else { name.clone() };
        self.step(Phase::Server, format!("Server {called}: {why}."), Some(at.clone()));
        for names in self.places.applying(server.span, server.span, &["server_name"]) {
            self.detail(names.text.clone(), Some(names));
        }
        self.server = Some(ChosenBlock { name, why, at });
        if exchange.down.scheme().name() == b"https" && server.demands().is_some() {
            self.assume("The client shows the certificate that the server demands.");
        }
    }

    fn tried(&mut self, exchange: &Exchange, tried: Tried<'_>) {
        let place = |id: u32| self.places.at(exchange.generation.location(LocationId(id)).span);
        let (text, at) = match tried {
            Tried::Exact(id) => {
                self.why = "its exact name is the URI, which ends the search";
                ("the exact name", place(id))
            }
            Tried::Slash(id) => {
                self.why = "its name is the URI with a slash: the client is redirected there";
                ("lacks only the slash", place(id))
            }
            Tried::Prefix { id, is_final } => {
                self.why = if is_final {
                    "it is the longest prefix and has ^~, so no expression is tried"
                } else {
                    "it is the longest prefix, and no expression matches"
                };
                ("the longest prefix", place(id))
            }
            Tried::Expression { id, matched, .. } => {
                if matched {
                    self.why = "it is the first regular expression that matches";
                }
                (if matched { "matches" } else { "does not match" }, place(id))
            }
        };
        self.tried.push(Detail { text: text.to_owned(), at: Some(at) });
    }

    /// A location was found, by a search or by its name.
    fn found(&mut self, exchange: &Exchange) {
        let target = &exchange.routing.target;
        let server = exchange.generation.server(target.server());
        let location = exchange.location();
        let is_own = target.location().is_none_or(|id| id == server.own);
        let at = self.places.at(location.span);
        let uri = shown(exchange.uri());
        let why = match self.why {
            _ if is_own => "no location matches: the server's own settings apply",
            "" => "it was named",
            why => why,
        };
        let text = match &*at.text {
            _ if is_own => format!("No location matches {uri}: the server's own settings apply."),
            text if text.starts_with("limit_except") => format!("{} applies to the method: {why}.", at.text),
            _ => format!("{} takes {uri}: {why}.", at.text),
        };
        self.step(Phase::Location, text, Some(at.clone()));
        let tried = std::mem::take(&mut self.tried);
        if let Some(step) = self.steps.last_mut().filter(|_| tried.len() > 1) {
            step.details = tried;
        }
        self.location = (!is_own).then(|| ChosenBlock { name: at.text.clone(), why: why.to_owned(), at });
        self.why = "";
    }

    fn ran(&mut self, exchange: &Exchange, plan: &ProgramPlan, number: u32, did: Did<'_>) {
        let Some(span) = plan.spans.get(number as usize) else { return };
        let at = self.places.at(*span);
        let text = match did {
            Did::Set(value) => format!("{}: the value is \"{}\".", at.text, shown(value)),
            Did::Missed => format!("{}: does not match {}.", at.text, shown(exchange.uri())),
            Did::Rewrote => format!("{}: the URI is now {}.", at.text, uri(exchange)),
            Did::Redirected(status, url) => format!("{}: sends the client to {} ({status}).", at.text, shown(url)),
            Did::Returned => format!("{}: answers at once.", at.text),
            Did::Stayed => format!("{}: ends the rewrite directives.", at.text),
            Did::Tested(holds) => format!("{}: {holds}.", at.text),
            Did::Looks => {
                self.looks = Some(at);
                return;
            }
        };
        self.step(Phase::Rewrite, text, Some(at));
    }

    fn limits(&mut self, exchange: &Exchange, plan: &LimitPlan) {
        let requests = self.applying(exchange, &["limit_req"]);
        for (limit, at) in plan.requests.iter().zip(places(requests)) {
            let zone = exchange.generation.request_zone(limit.zone);
            let key = written(exchange, &limit.key);
            let rate = limit.rule.rate_milli as f64 / 1000.0;
            let text = if key.is_empty() {
                format!("limit_req: the key {} is empty, so the request is not counted.", zone.key_text)
            } else {
                format!(
                    "limit_req: zone {} counts {} = \"{key}\": {rate} requests/s, burst {}.",
                    zone.name, zone.key_text, limit.rule.burst
                )
            };
            self.step(Phase::Limits, text, at);
        }
        let connections = self.applying(exchange, &["limit_conn"]);
        for (limit, at) in plan.connections.iter().zip(places(connections)) {
            let zone = &exchange.generation.connection_zones[limit.zone.0 as usize];
            let key = written(exchange, &limit.key);
            let text = if key.is_empty() {
                format!("limit_conn: the key {} is empty, so the request is not counted.", zone.key_text)
            } else {
                format!(
                    "limit_conn: zone {} counts {} = \"{key}\": {} at a time.",
                    zone.name, zone.key_text, limit.most
                )
            };
            self.step(Phase::Limits, text, at);
        }
        self.assume("It is the only request: no limit is reached, and no peer is busy.");
    }

    fn access(&mut self, exchange: &Exchange, plan: &AccessPlan) {
        if plan.rules.is_empty() {
            return;
        }
        let client = exchange.client();
        let decides = plan.rules.iter().position(|rule| permits(std::slice::from_ref(rule), client).is_some());
        let places = self.applying(exchange, &["allow", "deny"]);
        let text = match decides.and_then(|index| plan.rules.get(index)) {
            None => format!("No rule is for the client {client}: it is allowed."),
            Some(rule) => {
                let verb = if rule.allow { "allowed" } else { "denied" };
                let word = decides.and_then(|index| places.get(index)).map_or("a rule", |place| &place.text);
                format!("The client {} is {verb}: {word} is the first rule for it.", client_ip(client))
            }
        };
        let at = decides.and_then(|index| places.get(index).cloned());
        self.step(Phase::Access, text, at);
    }

    fn error_page(&mut self, exchange: &Exchange, status: u16, target: &PageTarget<'_>) {
        let code = status.to_string();
        let places = self.applying(exchange, &["error_page"]);
        let at = places.into_iter().find(|place| place.text.split(' ').any(|word| word == code));
        let text = match target {
            PageTarget::Internal { uri, args } => {
                let args = args.map(|args| format!("?{}", shown(args))).unwrap_or_default();
                format!("{status} is replaced: the request goes on at {}{args}.", shown(uri))
            }
            PageTarget::Named(name) => format!("{status} is replaced: the request goes on in {}.", shown(name)),
            PageTarget::Redirect { status: sent, location } => {
                format!("{status} is replaced: the client is sent to {} ({sent}).", shown(location))
            }
        };
        self.step(Phase::ErrorPage, text, at);
    }

    fn note_cache(&mut self, exchange: &Exchange, used: &CacheNote<'_>) {
        let at = self.directive(exchange, &["proxy_cache", "fastcgi_cache", "scgi_cache", "uwsgi_cache"]);
        let known = exchange.upstream.caching();
        match used {
            CacheNote::Unused => self.step(Phase::Cache, "The cache is not used for this request.", at),
            CacheNote::Purges { zone } => {
                self.step(Phase::Cache, format!("The stored response in {zone} is removed: 204, or 404."), at);
            }
            CacheNote::Looks { bypasses } => {
                let Some(caching) = known else { return };
                let (zone, key) = (caching.zone.name.to_string(), shown(&caching.text));
                let verb = if *bypasses { "is bypassed" } else { "looks for" };
                self.step(Phase::Cache, format!("The cache {zone} {verb} the key \"{key}\"."), at);
                self.cache = Some(CacheAnswer { zone, key, bypassed: *bypasses });
                self.assume("The cache has no response for the key.");
            }
        }
    }

    fn next(&mut self, exchange: &Exchange, step: &Step) {
        match step {
            Step::Redirect(Redirect::Uri { uri, args }) => {
                let args = args.as_ref().map(|args| format!("?{}", shown(args))).unwrap_or_default();
                let text = format!("Internal redirect to {}{args}.", shown(uri));
                self.step(Phase::Redirect, text, None);
            }
            Step::Redirect(Redirect::Named(name)) => {
                self.step(Phase::Redirect, format!("Internal redirect to {}.", shown(name)), None);
            }
            Step::Moved => {
                self.step(Phase::Redirect, format!("A location is sought for {}.", uri(exchange)), None);
            }
            Step::Reply(reply) => self.reply(exchange, reply),
            Step::Rules | Step::Content | Step::Resume | Step::Served(_) => {}
        }
    }

    fn reply(&mut self, exchange: &Exchange, reply: &Reply) {
        let status = reply.status;
        self.file = None;
        let text = match &reply.body {
            ReplyBody::File(_) => {
                let mut path = Vec::new();
                ExchangeView::of(exchange).write(&Variable::RequestFilename, &mut path);
                let path = shown(&path);
                let text = format!("{status} with the file {path}.");
                self.file = Some(path);
                text
            }
            ReplyBody::ErrorPage => format!("{status}."),
            ReplyBody::Empty => format!("{status} without a body."),
            ReplyBody::Bytes(bytes) => format!("{status} with {} bytes.", bytes.len()),
            ReplyBody::ToNobody => format!("No answer: {status} in the access log."),
        };
        let at = matches!(reply.body, ReplyBody::File(_)).then(|| self.directive(exchange, &["root", "alias"]));
        self.step(Phase::Answer, text, at.flatten());
    }

    /// The end.
    pub(super) fn outcome(&mut self, exchange: &Exchange, response: &Subrequest, ended: Run) -> ExplainedEnd {
        if let Some(upstream) = self.upstream.take() {
            return ExplainedEnd::Upstream(upstream);
        }
        if let Some(sent) = response.take_head() {
            let fields = sent.head.fields.iter(b"");
            let headers = fields.map(|(name, value)| (shown(name), shown(value))).collect();
            let file = self.file.take();
            let body = if file.is_some() { None } else { text(&response.take_body()) };
            return ExplainedEnd::Answer(LocalAnswer { status: sent.head.status, headers, file, body });
        }
        match exchange.response.status() {
            _ if ended == Run::TooLong => {
                ExplainedEnd::Unknown { reason: "a file or a password took too long".to_owned() }
            }
            _ if ended == Run::Subrequest => {
                ExplainedEnd::Unknown { reason: "a subrequest makes a part of it".to_owned() }
            }
            0 => ExplainedEnd::Unknown { reason: "it depends on what the cache has stored".to_owned() },
            status => ExplainedEnd::Closed { status },
        }
    }
}

/// The beginning of a body, if that is text.
fn text(body: &[u8]) -> Option<String> {
    let start = &body[..body.len().min(super::BODY_BYTES_MAX)];
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        // The cut may have divided a character.
        Err(error) if start.len() < body.len() && start.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_text = !text.is_empty() && !text.chars().any(|one| one.is_control() && !one.is_ascii_whitespace());
    is_text.then(|| text.to_owned())
}

/// The directives that pass requests on.
pub(super) const PASS: &[&str] = &["proxy_pass", "grpc_pass", "fastcgi_pass", "scgi_pass", "uwsgi_pass"];

fn server_span(exchange: &Exchange) -> Span {
    exchange.generation.server(exchange.routing.target.server()).span
}

/// The places, and none for whatever follows them.
fn places(places: Vec<ConfigPlace>) -> impl Iterator<Item = Option<ConfigPlace>> {
    places.into_iter().map(Some).chain(std::iter::repeat(None))
}

pub(super) fn client_ip(client: &reactor::PeerAddress) -> String {
    client.ip().map_or_else(|| client.to_string(), |ip| ip.to_string())
}
