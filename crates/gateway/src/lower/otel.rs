//! `otel_exporter` and the tracing of locations.

use crate::lower::Lowering;
use crate::plan::otel::{ExporterPlan, TracePlan};
use conf::diagnostic::Diagnostic;
use conf::model::{Matcher, OtelExporter, OtelPropagation, OtelSettings};
use rules::template::Template;
use rules::variable::{FieldName, JwtVariable, Variable};
use std::sync::Arc;

/// Fields of requests and responses that carry credentials.
const CREDENTIALS: [&[u8]; 7] = [
    b"authorization",
    b"proxy-authorization",
    b"cookie",
    b"set-cookie",
    b"x-api-key",
    b"x-auth-token",
    b"x-holdfast-trace",
];

impl Lowering<'_> {
    /// The exporter with its resource; `None` if there is none.
    pub(super) fn otel_exporter(&mut self) -> Option<Arc<ExporterPlan>> {
        let http = self.http;
        let OtelExporter { settings, .. } = http.otel_exporter.as_ref()?;
        let endpoint = settings.endpoint.as_ref()?;
        let of_http = &http.location.otel;
        let mut resource = vec![("service.name".to_owned(), of_http.service_name.clone())];
        for (name, value) in &of_http.resource_attributes {
            // As in nginx: the last one counts, and `otel_service_name` counts more, if it was written.
            let default = &OtelSettings::default().service_name;
            match resource.iter_mut().find(|(known, _)| known == name) {
                Some(own) if name == "service.name" && own.1 != *default => {}
                Some(known) => known.1.clone_from(value),
                None => resource.push((name.clone(), value.clone())),
            }
        }
        let trusted = settings.trusted_certificate.as_ref().and_then(|file| self.named_file(&file.value, file.span));
        let batch_size = settings.batch_size as usize;
        Some(Arc::new(ExporterPlan {
            secure: endpoint.secure,
            host: endpoint.host.clone(),
            port: endpoint.port,
            path: endpoint.path.clone(),
            trusted,
            headers: settings.headers.clone(),
            interval: settings.interval,
            batch_size,
            waiting_max: batch_size * settings.batch_count as usize * usize::from(self.options.workers.max(1)),
            resource,
        }))
    }

    /// The tracing of a location; `None` if nothing of it is configured.
    pub(super) fn trace_plan(&mut self, settings: &OtelSettings) -> Option<Box<TracePlan>> {
        let OtelSettings { trace, context, span_name, span_attributes, .. } = settings;
        if trace.is_none() && *context == OtelPropagation::Ignore && span_name.is_none() && span_attributes.is_empty() {
            return None;
        }
        let mut attributes = Vec::with_capacity(span_attributes.len());
        for (name, value) in span_attributes {
            let template = self.template(value);
            self.refuse_credentials("otel_span_attr", &template, value);
            attributes.push((name.as_str().into(), template));
        }
        let name = span_name.as_ref().map(|written| {
            let template = self.template(written);
            self.refuse_credentials("otel_span_name", &template, written);
            template
        });
        Some(Box::new(TracePlan {
            on: trace.as_ref().map(|trace| self.template(trace)),
            extracts: matches!(context, OtelPropagation::Extract | OtelPropagation::Propagate),
            injects: matches!(context, OtelPropagation::Inject | OtelPropagation::Propagate),
            name,
            attributes: attributes.into(),
        }))
    }

    /// Spans are stored by others, and read by many people.
    fn refuse_credentials(&mut self, directive: &str, template: &Template, written: &conf::value::Template) {
        if let Some(variable) = template.variables().find(|variable| is_credential(variable)) {
            let message = format!("\"{directive}\" with \"{}\" would show credentials in spans", variable.shown());
            let hint = "spans are stored by the collector: leave fields with credentials, cookies and tokens out";
            self.found.push(Diagnostic::error(written.span, message).with_hint(hint));
        }
    }
}

fn is_credential(variable: &Variable) -> bool {
    let carries = |name: &FieldName| CREDENTIALS.contains(&name.dashed());
    match variable {
        Variable::Http(name) | Variable::SentHttp(name) | Variable::UpstreamHttp(name) => carries(name),
        Variable::Cookie(_) | Variable::UpstreamCookie(_) => true,
        Variable::Jwt(value) => *value == JwtVariable::Payload,
        _ => false,
    }
}

/// The name of a location as nginx has it: its prefix, its expression, or `@name`.
pub(super) fn route_of(matcher: &Matcher) -> Vec<u8> {
    match matcher {
        Matcher::Exact(name) | Matcher::Prefix(name) | Matcher::PrefixNoRegex(name) => name.clone(),
        Matcher::Regex(regex) => regex.pattern.to_vec(),
        Matcher::Named(name) => [b"@", name.as_bytes()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use crate::lower::tests::{errors, plan};

    #[test]
    fn credentials_are_refused_in_spans() {
        for value in [
            "$http_authorization",
            "x$http_cookie",
            "$cookie_sid",
            "$sent_http_set_cookie",
            "$upstream_cookie_a",
            "$jwt_payload",
        ] {
            for directive in [format!("otel_span_attr a {value};"), format!("otel_span_name {value};")] {
                let found = errors(&format!("server {{ listen 80; {directive} }}"));
                assert!(
                    found.len() == 1 && found[0].contains("would show credentials in spans"),
                    "{directive} {found:?}"
                );
            }
        }
        assert!(errors("server { listen 80; otel_span_attr a $http_user_agent; }").is_empty());
    }

    #[test]
    fn resource_has_a_service_name_and_configured_attributes() {
        let resource = |text: &str| {
            let plan =
                plan(&format!("otel_exporter {{ endpoint a:1; batch_count 3; }} {text} server {{ listen 80; }}"));
            let exporter = plan.otel_exporter.expect("there is one");
            assert_eq!(exporter.waiting_max, 512 * 3 * 2, "two workers");
            exporter.resource.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(resource(""), ["service.name=unknown_service:nginx"]);
        assert_eq!(
            resource("otel_resource_attr service.name a; otel_resource_attr b 1; otel_resource_attr b 2;"),
            ["service.name=a", "b=2"]
        );
        assert_eq!(resource("otel_service_name own; otel_resource_attr service.name a;"), ["service.name=own"]);
    }

    #[test]
    fn a_location_without_tracing_has_no_plan_for_it() {
        let plan = plan("server { listen 80; location / { } location ~ ^/x { otel_trace on; } location @n { } }");
        let routes: Vec<_> = plan
            .locations
            .iter()
            .map(|location| (location.route.escape_ascii().to_string(), location.otel.is_some()))
            .collect();
        let expected =
            [("", false), ("/", false), ("^/x", true), ("@n", false)].map(|(route, traced)| (route.to_owned(), traced));
        assert_eq!(routes, expected);
    }
}
