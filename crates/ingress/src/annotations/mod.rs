//! The annotations of an Ingress become a plan: lines that all its locations share, and what depends on the path.

mod access;
mod answers;
mod guard;
mod reader;
mod snippets;
pub mod table;
mod traffic;

use crate::assembly::{Assembly, Balance, Matcher, Sticky};
use crate::config_map::{Global, set};
use crate::objects::networking::Ingress;
use crate::tree::Origin;
use crate::value::Place;
use crate::{Kind, Level, Name, ObjectName};
use conf::tree::Directive;

pub(crate) use access::AUTH_PLACE;
pub(crate) use guard::guarded;
pub(crate) use reader::{Problem, Reader, flag as reader_flag};

/// How a service is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    #[default]
    Http,
    Https,
    Grpc,
    Grpcs,
    Fcgi,
}

/// When the canary takes a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Canary {
    pub(crate) weight: u32,
    pub(crate) total: u32,
    pub(crate) header: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) pattern: Option<String>,
    pub(crate) cookie: Option<String>,
}

/// What an Ingress wants.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Its paths answer 503, because something that guards them is wrong.
    pub(crate) denied: bool,
    /// Lines of each of its locations.
    pub(crate) location: Vec<Directive>,
    /// Lines of `if`, `return` and `rewrite`, in their order, before the rewrite of the path.
    pub(crate) first: Vec<Directive>,
    /// Fields of requests to the service that differ from those of all.
    pub(crate) headers: Vec<(String, String)>,
    /// Lines of the server: name of the first directive, lines. The oldest Ingress with a name has it.
    pub(crate) server: Vec<(&'static str, Vec<Directive>)>,
    /// Locations that the server needs for this Ingress.
    pub(crate) helpers: Vec<(Matcher, Vec<Directive>)>,
    /// Answers of the authentication service are cached: [`AUTH_PLACE`] is a part of their key.
    pub(crate) caches_auth: bool,
    /// Lines that hold unless the path is one without authentication.
    pub(crate) global_auth: Vec<Directive>,
    pub(crate) rewrite: Option<String>,
    pub(crate) use_regex: bool,
    pub(crate) app_root: Option<String>,
    pub(crate) is_redirect: bool,
    pub(crate) ssl_redirect: bool,
    pub(crate) force_ssl_redirect: bool,
    pub(crate) protocol: Protocol,
    pub(crate) balance: Balance,
    pub(crate) sticky: Option<Sticky>,
    pub(crate) service_upstream: bool,
    pub(crate) canary: Option<Canary>,
    pub(crate) aliases: Vec<String>,
    pub(crate) www: bool,
    pub(crate) passthrough: bool,
    pub(crate) errors: Vec<u16>,
    pub(crate) error_backend: Option<Name>,
}

/// Makes a plan.
pub(crate) struct Planner<'p, 'a> {
    pub(crate) assembly: &'p mut Assembly<'a>,
    pub(crate) reader: Reader<'p>,
    pub(crate) global: &'p Global,
    pub(crate) owner: ObjectName,
    pub(crate) origin: Origin,
    pub(crate) plan: Plan,
}

/// Reads the annotations of an Ingress.
pub(crate) fn plan(assembly: &mut Assembly<'_>, global: &Global, ingress: &Ingress) -> Plan {
    let owner = ObjectName { kind: Kind::Ingress, name: ingress.metadata.key() };
    let origin = assembly.origin(&owner);
    let place = Place { namespace: &ingress.metadata.namespace, ingress: &ingress.metadata.name };
    let prefix = assembly.settings.annotations_prefix.clone();
    let reader = Reader::new(&ingress.metadata.annotations, &prefix, place);
    let mut planner = Planner { assembly, reader, global, owner, origin, plan: Plan::default() };
    planner.canary();
    // Everything else of a canary comes from the Ingress that it is an alternative of.
    planner.balance();
    if planner.plan.canary.is_none() {
        planner.traffic();
        planner.access();
        planner.answers();
        planner.snippets();
    }
    planner.report();
    planner.plan
}

impl Planner<'_, '_> {
    /// Adds a line to each location.
    fn line<A: AsRef<[u8]>>(&mut self, name: &str, args: impl IntoIterator<Item = A>) {
        let line = self.origin.line(name, args);
        self.plan.location.push(line);
    }

    fn header(&mut self, name: &str, text: impl Into<String>) {
        set(&mut self.plan.headers, name, text.into());
    }

    /// `if (variable operator value) { lines }`
    fn condition(&self, left: &str, operator: &str, right: &str, lines: Vec<Directive>) -> Directive {
        let args = vec![
            self.origin.bare(format!("({left}")),
            self.origin.bare(operator),
            self.origin.bare(format!("{right})")),
        ];
        Directive { args, ..self.origin.block::<&str>("if", [], lines) }
    }

    /// A name for something of this Ingress: letters, digits and `_`.
    fn own_name(&self, what: &str) -> String {
        let text = format!("{} {what}", self.owner.name);
        format!("{what}_{:016x}", crate::assembly::stable_hash(text.as_bytes()))
    }

    /// The values of a `ConfigMap` of the namespace.
    fn config_map(&mut self, annotation: &str) -> Option<Vec<(String, String)>> {
        let name = self.reader.object(annotation)?;
        let Some(map) = self.assembly.cluster.config_maps.get(&name) else {
            self.reader.wrong(annotation, format!("there is no ConfigMap \"{name}\""));
            return None;
        };
        Some(map.data.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn report(&mut self) {
        for (name, why, refused) in self.reader.leftovers() {
            if refused {
                self.plan.denied = true;
                let message = format!("\"{name}\" is refused: {why}. Its paths answer 503");
                self.assembly.find(&self.owner, Level::Refused, "RefusedAnnotation", message);
            } else if table::find_any(&name).is_some() {
                let message = format!("\"{name}\" has no effect: {why}");
                self.assembly.find(&self.owner, Level::Note, "IgnoredAnnotation", message);
            } else {
                let message = format!("\"{}\": {why}", name.escape_debug());
                self.assembly.find(&self.owner, Level::Warning, "UnknownAnnotation", message);
            }
        }
        for Problem { name, message, denies } in std::mem::take(&mut self.reader.problems) {
            if denies {
                self.plan.denied = true;
                let message = format!("\"{name}\" is wrong, so its paths answer 503: {message}");
                self.assembly.find(&self.owner, Level::Refused, "WrongAnnotation", message);
            } else {
                let message = format!("\"{name}\" has no effect: {message}");
                self.assembly.find(&self.owner, Level::Warning, "WrongAnnotation", message);
            }
        }
    }
}
