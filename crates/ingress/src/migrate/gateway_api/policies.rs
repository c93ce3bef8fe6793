//! TLS towards backends: a policy for each Service.

use super::Written;
use super::annotations::Annotations;
use crate::Name;
use serde_json::json;

/// A policy for a Service.
pub(super) fn backend_tls(service: &Name, annotations: &mut Annotations<'_>) -> Written {
    let own = format!("{}.{}.svc", service.name, service.namespace);
    let hostname = annotations.take("proxy-ssl-name").filter(|name| !name.contains('$')).unwrap_or(&own);
    let mut comments = Vec::new();
    if annotations.take("proxy-ssl-verify") != Some("on") {
        comments.push("nginx did not check the certificate of this Service; the Gateway API always does".to_owned());
    }
    annotations.take("proxy-ssl-server-name");
    if let Some(secret) = annotations.take("proxy-ssl-secret") {
        comments.push(format!(
            "nginx took the authority from the Secret {secret}: put its ca.crt into a ConfigMap and name that in caCertificateRefs, \
             instead of wellKnownCACertificates"
        ));
    }
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "BackendTLSPolicy",
        "metadata": {"name": &*service.name, "namespace": &*service.namespace},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": &*service.name}],
            "validation": {"wellKnownCACertificates": "System", "hostname": hostname},
        },
    });
    Written { comments, object }
}
