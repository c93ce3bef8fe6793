//! Certificates that an authority issues by ACME: issuers and orders.

use crate::plan::name::ResolverPlan;
use conf::model::{AcmeChallenge, AcmeIdentifier, AcmeProfile, CertificateKey};
use md5::{Digest as _, Md5};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

/// `acme_issuer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeIssuerPlan {
    /// Its name.
    pub name: Box<str>,
    /// The directory URL.
    pub uri: String,
    /// The account's key as PKCS #8; `None`: a new one is generated.
    pub account_key: Option<Vec<u8>>,
    /// The challenge type to answer.
    pub challenge: AcmeChallenge,
    /// URLs of contacts.
    pub contacts: Vec<String>,
    /// Identifier and MAC key of an external account that the account is bound to.
    pub external_key: Option<(String, Vec<u8>)>,
    /// The requested profile.
    pub profile: Option<AcmeProfile>,
    /// Trusted authorities for the server's own certificate, in PEM; `None`: the system's.
    pub trusted: Option<Vec<u8>>,
    /// Whether that certificate is verified.
    pub verify: bool,
    /// The directory for keys and certificates; `None`: they are not stored.
    pub state: Option<PathBuf>,
    /// Whether the terms of service are accepted.
    pub accepts_terms: bool,
    /// The resolver for the server's name; `None`: the system's.
    pub resolver: Option<Arc<ResolverPlan>>,
}

/// `acme_certificate`; servers with the same one share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcmeOrderPlan {
    /// The issuer.
    pub issuer: Arc<AcmeIssuerPlan>,
    /// The names of the certificate; at least one.
    pub identifiers: Vec<AcmeIdentifier>,
    /// Its private key.
    pub key: CertificateKey,
}

impl AcmeOrderPlan {
    /// Distinguishes it from other orders of its issuer, in logs and as a file name: the first identifier, and a hash
    /// of all identifiers and the key type.
    pub fn id(&self) -> String {
        let mut digest = Md5::new();
        for identifier in &self.identifiers {
            digest.update(identifier.to_string());
            digest.update([0]);
        }
        digest.update(format!("{:?}", self.key));
        let mut id = self.identifiers.first().map(AcmeIdentifier::to_string).unwrap_or_default();
        id.push('-');
        for byte in &digest.finalize()[..8] {
            // Writing to a String cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        id
    }

    /// The certificate's name in messages.
    pub(crate) fn shown(&self) -> String {
        format!("acme {}/{}", self.issuer.name, self.id())
    }

    /// The file with the certificate's chain and its key.
    pub fn file(&self) -> Option<PathBuf> {
        self.issuer.state.as_ref().map(|state| state.join(format!("{}.pem", self.id())))
    }
}

/// Index into `Plan::acme_orders`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcmeOrderId(pub(crate) u32);
