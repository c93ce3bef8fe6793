//! `backendRefs`: which port of which Service a route means, and how it is spoken to.

use super::backend_tls::Policies;
use super::grants::Grants;
use super::status::Fault;
use crate::objects::routes::BackendRef;
use crate::{Cluster, Kind, Name};

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Backend {
    pub(crate) service: Name,
    pub(crate) port: u16,
    /// `appProtocol`: HTTP/2 without TLS.
    pub(crate) is_h2c: bool,
    /// The policy for TLS towards it.
    pub(crate) tls: Option<Name>,
}

/// What backends are looked up in.
#[derive(Clone, Copy)]
pub(crate) struct Backends<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) grants: &'a Grants<'a>,
    pub(crate) policies: &'a Policies<'a>,
}

impl Backends<'_> {
    /// The backend that a route of this kind and namespace names.
    pub(crate) fn resolve(&self, from: (Kind, &str), reference: &BackendRef) -> Result<Backend, Fault> {
        let group = reference.group.as_deref().unwrap_or_default();
        let kind = reference.kind.as_deref().unwrap_or("Service");
        if (group, kind) != ("", "Service") {
            return Err(Fault::new("InvalidKind", format!("{kind} \"{}\" is not a Service", reference.name)));
        }
        let namespace = reference.namespace.as_deref().unwrap_or(from.1);
        let name = Name::new(namespace, reference.name.as_str());
        if !self.grants.allow((from.0.word(), from.1), ("", "Service", namespace), &reference.name) {
            let message = format!("no ReferenceGrant in {namespace} allows Service {name}");
            return Err(Fault::new("RefNotPermitted", message));
        }
        let Some(service) = self.cluster.services.get(&name) else {
            return Err(Fault::new("BackendNotFound", format!("there is no Service {name}")));
        };
        let is_udp = from.0 == Kind::UdpRoute;
        let Some(number) = reference.port else {
            return Err(Fault::new("BackendNotFound", format!("the reference to Service {name} has no port")));
        };
        let mut same_number = service.spec.ports.iter().filter(|port| port.port == number).peekable();
        if same_number.peek().is_none() {
            return Err(Fault::new("BackendNotFound", format!("Service {name} has no port {number}")));
        }
        let Some(port) = same_number.find(|port| (port.protocol == "UDP") == is_udp) else {
            let wanted = if is_udp { "UDP" } else { "TCP" };
            let message = format!("port {number} of Service {name} is not a {wanted} port");
            return Err(Fault::new("UnsupportedProtocol", message));
        };
        Ok(Backend {
            port: number,
            is_h2c: port.app_protocol.as_deref() == Some("kubernetes.io/h2c"),
            tls: if is_udp { None } else { self.policies.of(&name, &port.name).cloned() },
            service: name,
        })
    }
}
