//! `spec.tls.frontend` of a Gateway: which client certificates are accepted.

use super::secrets::{Lookup, Reasons};
use super::status::Fault;
use crate::objects::gateway::{FrontendValidation, Gateway};
use crate::translation::FileSource;

/// Which client certificates are accepted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientCheck {
    pub(crate) authorities: Vec<FileSource>,
    /// Clients without a valid certificate are let in.
    pub(crate) is_optional: bool,
}

/// The check at a port; `None`: there is none. With some references unusable it is returned with their fault; with all, the
/// fault alone.
pub(crate) fn client_check(
    gateway: &Gateway,
    port: u16,
    lookup: Lookup<'_>,
) -> Option<Result<(ClientCheck, Option<Fault>), Fault>> {
    let frontend = gateway.spec.tls.as_ref()?.frontend.as_ref()?;
    let own = frontend.per_port.iter().find(|each| each.port == port);
    let tls = own.map_or(&frontend.default, |own| &own.tls);
    Some(check(gateway, tls.validation.as_ref()?, lookup))
}

fn check(
    gateway: &Gateway,
    written: &FrontendValidation,
    lookup: Lookup<'_>,
) -> Result<(ClientCheck, Option<Fault>), Fault> {
    const REASONS: Reasons = Reasons { invalid: "InvalidCACertificateRef", kind: "InvalidCACertificateKind" };
    let from = ("Gateway", gateway.metadata.namespace.as_str());
    let (mut authorities, mut first) = (Vec::new(), None);
    for reference in &written.ca_certificate_refs {
        match lookup.authority(from, reference, REASONS) {
            Ok(source) => authorities.push(source),
            Err(fault) => {
                first.get_or_insert(fault);
            }
        }
    }
    if authorities.is_empty() {
        return Err(first.unwrap_or_else(|| Fault::new(REASONS.invalid, "there are no caCertificateRefs")));
    }
    let is_optional = written.mode.as_deref() == Some("AllowInsecureFallback");
    Ok((ClientCheck { authorities, is_optional }, first))
}
