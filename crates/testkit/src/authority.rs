//! A certificate authority that a test makes, and the certificates that it issues.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::path::{Path, PathBuf};
use tls::{ClientSide, ClientSideBuilder, Trust};

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A chain with its key, in PEM.
#[derive(Debug, Clone)]
pub struct Issued {
    /// The certificate, and what leads to the authority.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// An authority with this name and a new key.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// An authority that this one has issued; the closure can change its certificate before it is
    /// signed.
    pub fn under(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        change(&mut params);
        Self(CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &self.0).unwrap())
    }

    /// Its private key, in PEM.
    pub fn key_pem(&self) -> String {
        self.0.key().serialize_pem()
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for these host names and addresses, with a new key.
    pub fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(names, |_| ())
    }

    /// The same; the closure can change the certificate's contents.
    pub fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, names.first().copied().unwrap_or("unnamed"));
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.0).unwrap().pem();
        Issued { chain, key: key.serialize_pem() }
    }

    /// The same; the closure can change its settings.
    pub fn client_with(&self, change: impl FnOnce(ClientSideBuilder) -> ClientSideBuilder) -> ClientSide {
        change(ClientSide::new(Trust::Authorities(self.pem().into_bytes()))).build().unwrap()
    }

    /// A client that trusts this authority alone.
    pub fn client(&self) -> ClientSide {
        self.client_with(|side| side)
    }
}

impl Issued {
    /// Writes `NAME.crt` and `NAME.key` into a folder.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (chain, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        fs::write(&chain, &self.chain).unwrap();
        fs::write(&key, &self.key).unwrap();
        (chain, key)
    }
}
