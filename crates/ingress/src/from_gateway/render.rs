//! A rule as locations: its filters, and one location for each backend.

use super::backends::{Backend, Backends};
use super::cors;
use super::filters::{RequestFields, configured, redirect_lines, replaces_prefix, response_lines, rewrite_lines};
use super::proxy::{self, Passing};
use super::rules::{HttpPlan, Rule};
use super::status::Fault;
use super::words::failing;
use crate::assembly::{Assembly, Matcher};
use crate::objects::routes::{BackendRef, HttpFilter, MirrorFilter};
use crate::tree::Origin;
use crate::{Name, ObjectName};
use conf::tree::Directive;

/// Below this path are the copies of requests. No client reaches it: its locations are internal.
const MIRRORS: &str = "/.holdfast/mirror";

/// Most copies of one request.
const MIRRORS_MAX: usize = 16;

/// Where a rule is written.
pub(crate) struct Site<'s> {
    pub(crate) owner: &'s ObjectName,
    pub(crate) origin: Origin,
    /// The name of its location, with `@`.
    pub(crate) name: &'s str,
    /// The prefix that matched, if a filter replaces it.
    pub(crate) prefix: Option<&'s str>,
    /// The port of the listener.
    pub(crate) port: u16,
    /// The Secret with the certificate that is shown to backends.
    pub(crate) client_certificate: Option<&'s Name>,
}

/// A location of a rule.
#[derive(Clone)]
pub(crate) struct RuleLocation {
    pub(crate) matcher: Matcher,
    pub(crate) lines: Vec<Directive>,
}

impl RuleLocation {
    fn named(name: impl Into<String>, lines: Vec<Directive>) -> Self {
        Self { matcher: Matcher::Named(name.into()), lines }
    }
}

/// Whether the locations of a rule depend on the prefix that matched.
pub(crate) fn depends_on_prefix(rule: &Rule<'_>) -> bool {
    let of_backends = rule.backends.iter().flat_map(|backend| &backend.filters);
    rule.filters.iter().chain(of_backends).any(replaces_prefix)
}

/// The locations of a rule; the first one has the rule's name. What is wrong is added to the faults of the route, and answered
/// with 500.
pub(crate) fn render(
    assembly: &mut Assembly<'_>,
    backends: Backends<'_>,
    plan: &mut HttpPlan<'_>,
    index: usize,
    site: &Site<'_>,
) -> Vec<RuleLocation> {
    let Some(Some(rule)) = plan.rules.get(index) else { return Vec::new() };
    let mut renderer = Renderer {
        assembly,
        backends,
        site,
        from: (plan.head.kind, plan.head.metadata.namespace.clone()),
        is_grpc: plan.is_grpc(),
        unresolved: Vec::new(),
        locations: Vec::new(),
    };
    let result = renderer.rule(rule);
    let Renderer { unresolved, mut locations, .. } = renderer;
    for fault in unresolved {
        plan.faults.unresolved(fault);
    }
    if let Err(fault) = result {
        plan.faults.unsupported(fault);
        plan.failed.insert(index);
        locations = vec![RuleLocation::named(site.name, failing(site.origin))];
    }
    locations
}

struct Renderer<'r, 'a> {
    assembly: &'r mut Assembly<'a>,
    backends: Backends<'r>,
    site: &'r Site<'r>,
    from: (crate::Kind, String),
    is_grpc: bool,
    unresolved: Vec<Fault>,
    locations: Vec<RuleLocation>,
}

/// What the filters of a rule and of a backend do.
struct Filtered {
    fields: RequestFields,
    lines: Vec<Directive>,
    /// Takes the place of the backends.
    redirect: Option<Vec<Directive>>,
}

impl Renderer<'_, '_> {
    fn rule(&mut self, rule: &Rule<'_>) -> Result<(), Fault> {
        let site = self.site;
        // A rule whose filters are wrong must not be served without them, so they are checked first.
        let filtered = self.filter(&[rule.filters])?;
        let targets: Vec<(Option<Backend>, &BackendRef)> = rule
            .backends
            .iter()
            .map(|reference| {
                let found = self.backends.resolve((self.from.0, &self.from.1), reference);
                (found.map_err(|fault| self.unresolved.push(fault)).ok(), reference)
            })
            .collect();
        if let Some(redirect) = filtered.redirect {
            let lines = filtered.lines.into_iter().chain(redirect).collect();
            self.locations.push(RuleLocation::named(site.name, lines));
            return Ok(());
        }
        let weighted: Vec<_> = targets.iter().filter(|(_, reference)| reference.weight.unwrap_or(1) > 0).collect();
        match weighted.as_slice() {
            [] => self.locations.push(RuleLocation::named(site.name, failing(site.origin))),
            [(backend, reference)] => self.backend(rule, site.name, backend.as_ref(), reference)?,
            several => self.split(rule, several)?,
        }
        Ok(())
    }

    /// Several backends: a variable selects the location of one of them.
    fn split(&mut self, rule: &Rule<'_>, several: &[&(Option<Backend>, &BackendRef)]) -> Result<(), Fault> {
        let site = self.site;
        let name = |number: usize| format!("{}.b{number}", site.name);
        let shares: Vec<_> =
            several.iter().enumerate().map(|(at, (_, reference))| (name(at), reference.weight.unwrap_or(1))).collect();
        let variable = self.assembly.split(site.owner, &shares);
        let mut lines: Vec<_> = shares
            .iter()
            .map(|(name, _)| site.origin.line("route_to", [name.clone(), format!("{variable}={name}")]))
            .collect();
        lines.extend(failing(site.origin));
        self.locations.push(RuleLocation::named(site.name, lines));
        for (at, (backend, reference)) in several.iter().enumerate() {
            self.backend(rule, &name(at), backend.as_ref(), reference)?;
        }
        Ok(())
    }

    fn backend(
        &mut self,
        rule: &Rule<'_>,
        name: &str,
        backend: Option<&Backend>,
        reference: &BackendRef,
    ) -> Result<(), Fault> {
        let site = self.site;
        let Some(backend) = backend else {
            self.locations.push(RuleLocation::named(name, failing(site.origin)));
            return Ok(());
        };
        let Filtered { fields, mut lines, redirect } = self.filter(&[rule.filters, &reference.filters])?;
        if let Some(redirect) = redirect {
            lines.extend(redirect);
            self.locations.push(RuleLocation::named(name, lines));
            return Ok(());
        }
        self.preflight(rule, name, &mut lines)?;
        let mirrors = [rule.filters, &reference.filters].concat();
        self.mirrors(&mirrors, name, &mut lines)?;
        let passing = Passing { backend, is_grpc: self.is_grpc, rule: Some(rule), fields };
        lines.extend(proxy::lines(self.assembly, self.backends.policies, site, passing)?);
        self.locations.push(RuleLocation::named(name, lines));
        Ok(())
    }

    /// Everything but mirrors and preflight requests.
    fn filter(&mut self, lists: &[&[HttpFilter]]) -> Result<Filtered, Fault> {
        let site = self.site;
        let mut done = Filtered { fields: proxy::request_fields(self.is_grpc), lines: Vec::new(), redirect: None };
        for filter in lists.iter().copied().flatten() {
            let (assembly, origin) = (&mut *self.assembly, site.origin);
            match filter.kind.as_str() {
                "RequestHeaderModifier" => {
                    let part = configured(filter, filter.request_header_modifier.as_ref())?;
                    done.fields.change(assembly, origin, part)?;
                }
                "ResponseHeaderModifier" => {
                    let part = configured(filter, filter.response_header_modifier.as_ref())?;
                    done.lines.extend(response_lines(assembly, origin, part)?);
                }
                "RequestRedirect" => {
                    let part = configured(filter, filter.request_redirect.as_ref())?;
                    done.redirect = Some(redirect_lines(assembly, origin, part, site.prefix, site.port)?);
                }
                "URLRewrite" => {
                    let part = configured(filter, filter.url_rewrite.as_ref())?;
                    done.lines.extend(rewrite_lines(assembly, origin, part, site.prefix, &mut done.fields)?);
                }
                "CORS" => {
                    let part = configured(filter, filter.cors.as_ref())?;
                    done.lines.extend(cors::lines(assembly, origin, part)?.responses);
                }
                "RequestMirror" => {
                    // The copies are made with the location of each backend.
                    configured(filter, filter.request_mirror.as_ref())?;
                }
                "ExtensionRef" => {
                    let kind = filter.extension_ref.as_ref().and_then(|to| to.kind.as_deref()).unwrap_or_default();
                    let fault = Fault::new("InvalidKind", format!("filters of kind {kind:?} are not supported"));
                    self.unresolved.push(fault.clone());
                    return Err(Fault::new("UnsupportedValue", fault.message));
                }
                other => {
                    return Err(Fault::new("UnsupportedValue", format!("the filter {other} is not supported")));
                }
            }
        }
        Ok(done)
    }

    fn preflight(&mut self, rule: &Rule<'_>, name: &str, lines: &mut Vec<Directive>) -> Result<(), Fault> {
        let site = self.site;
        let Some(filter) =
            rule.filters.iter().find_map(|filter| filter.cors.as_ref().filter(|_| filter.kind == "CORS"))
        else {
            return Ok(());
        };
        let answer = cors::lines(self.assembly, site.origin, filter)?.preflight;
        let name = format!("{name}.preflight");
        let asked = "~header:access-control-request-method=.";
        let words = [name.as_str(), "method=OPTIONS", "~header:origin=.", asked];
        lines.push(site.origin.line("route_to", words));
        self.locations.push(RuleLocation::named(name, answer));
        Ok(())
    }

    fn mirrors(&mut self, filters: &[HttpFilter], name: &str, lines: &mut Vec<Directive>) -> Result<(), Fault> {
        let site = self.site;
        let mirrors = filters.iter().filter(|filter| filter.kind == "RequestMirror");
        for (number, filter) in
            mirrors.filter_map(|filter| filter.request_mirror.as_ref()).take(MIRRORS_MAX).enumerate()
        {
            let found = self.backends.resolve((self.from.0, &self.from.1), &filter.backend_ref);
            let Ok(backend) = found.map_err(|fault| self.unresolved.push(fault)) else { continue };
            let path = format!("{MIRRORS}/{}/{number}", name.trim_start_matches('@'));
            let target = format!("{name}.m{number}");
            let chance = self.chance(filter, &target)?;
            lines.push(site.origin.line("mirror", [&path]));
            let mut entry = vec![site.origin.line::<&str>("internal", [])];
            entry.push(match chance {
                Some(condition) => site.origin.line("route_to", [target.clone(), condition]),
                None => site.origin.line("route_to", [&target]),
            });
            entry.push(site.origin.line("return", ["204"]));
            self.locations.push(RuleLocation { matcher: Matcher::Exact(path), lines: entry });
            let fields = proxy::request_fields(self.is_grpc);
            let passing = Passing { backend: &backend, is_grpc: self.is_grpc, rule: None, fields };
            let passed = proxy::lines(self.assembly, self.backends.policies, site, passing)?;
            self.locations.push(RuleLocation::named(target, passed));
        }
        Ok(())
    }

    /// The condition under which a request is copied; `None`: always.
    fn chance(&mut self, filter: &MirrorFilter, name: &str) -> Result<Option<String>, Fault> {
        let (part, whole) = match (filter.percent, &filter.fraction) {
            (Some(percent), _) => (percent, 100),
            (None, Some(fraction)) => (fraction.numerator, fraction.denominator.unwrap_or(100)),
            (None, None) => return Ok(None),
        };
        if part < 0 || whole <= 0 || part > whole {
            return Err(Fault::new("UnsupportedValue", format!("{part} of {whole} requests cannot be copied")));
        }
        if part == whole {
            return Ok(None);
        }
        let hundredths = i64::from(part) * 10_000 / i64::from(whole);
        let (variable, is_new) = self.assembly.variable(&format!("{hundredths} for {name}"));
        if is_new {
            let origin = self.site.origin;
            let share = format!("{}.{:02}%", hundredths / 100, hundredths % 100);
            let chosen = (hundredths > 0).then(|| origin.line(&share, ["1"]));
            let entries = chosen.into_iter().chain([origin.line("*", ["0"])]).collect();
            let text = format!("$request_id {}", self.assembly.data(name));
            self.assembly.http.push(origin.block("split_clients", [text.as_str(), variable.as_str()], entries));
        }
        Ok(Some(format!("{variable}=1")))
    }
}
