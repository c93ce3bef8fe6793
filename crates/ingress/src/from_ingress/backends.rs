//! Backends of Ingresses become targets of upstreams.

use crate::assembly::{Assembly, Place};
use crate::objects::core::{Service, ServicePort};
use crate::objects::networking::{IngressBackend, ServicePortReference};
use crate::{EndpointSource, Name, value};

/// Where requests for a backend go.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    pub(super) place: Place,
    pub(super) service: Name,
    pub(super) port: u16,
}

/// The target of a backend of an Ingress, in the Ingress's own namespace.
pub(super) fn of_ingress(
    assembly: &mut Assembly<'_>,
    namespace: &str,
    backend: &IngressBackend,
    by_service: bool,
) -> Result<Backend, String> {
    let Some(service) = &backend.service else {
        return Err("only a Service can be a backend".into());
    };
    of_service(assembly, &Name::new(namespace, service.name.as_str()), Some(&service.port), by_service, false)
}

/// The target of a port of a Service; without a port, its first one.
pub(super) fn of_service(
    assembly: &mut Assembly<'_>,
    name: &Name,
    port: Option<&ServicePortReference>,
    by_service: bool,
    udp: bool,
) -> Result<Backend, String> {
    assembly.note_service(name);
    let service = assembly.cluster.services.get(name).ok_or_else(|| format!("there is no Service \"{name}\""))?;
    if !value::is_object_name(&name.name) || !value::is_object_name(&name.namespace) || name.name.contains('.') {
        return Err("the Service has no valid name".into());
    }
    let number = number(service, port).ok_or_else(|| format!("the Service \"{name}\" has no such port"))?;
    let backend = |place| Backend { place, service: name.clone(), port: number };
    if service.spec.kind == "ExternalName" {
        let external = service.spec.external_name.trim_end_matches('.').to_ascii_lowercase();
        // An address would reach the controller itself, or a node.
        let is_name =
            value::is_host(&external) && !external.starts_with('*') && external.parse::<std::net::IpAddr>().is_err();
        if !is_name || value::is_inner(&external) {
            return Err(format!("the Service \"{name}\" has an external name that is not allowed"));
        }
        return Ok(backend(Place::External(external, number)));
    }
    if by_service && let Ok(address) = service.spec.cluster_ip.parse() {
        return Ok(backend(Place::Address(address, number)));
    }
    Ok(backend(Place::Service(EndpointSource { service: name.clone(), port: number, udp })))
}

fn number(service: &Service, port: Option<&ServicePortReference>) -> Option<u16> {
    let ports = &service.spec.ports;
    let is_wanted = |known: &&ServicePort| match port {
        None => true,
        Some(wanted) if wanted.name.is_empty() => known.port == wanted.number,
        Some(wanted) => known.name == wanted.name,
    };
    let found = ports.iter().find(is_wanted).map(|known| known.port);
    // Services with an external name often list no ports.
    let any = port.filter(|_| service.spec.kind == "ExternalName").map(|wanted| wanted.number);
    found.or(any).filter(|number| *number > 0)
}
