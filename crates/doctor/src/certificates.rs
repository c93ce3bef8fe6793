//! Reads and checks the certificate files that a configuration names for its TLS listeners. Rules report the findings.

use crate::configuration::{Configuration, Found, argument};
use conf::source::Span;
use conf::tree::Directive;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use tls::{CertificateFacts, Finding, Pair};

/// A larger file is not a certificate.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate with its key.
#[derive(Debug, Clone, PartialEq)]
pub struct CertificatePair {
    /// `ssl_certificate`.
    pub span: Span,
    /// The faults found in it.
    pub findings: Vec<Finding>,
    /// The content of the certificate, if it can be read.
    pub facts: Option<CertificateFacts>,
    /// A file that this user may not read, so that a part was not checked.
    pub unread: Option<PathBuf>,
}

/// Reads the files of all certificates for TLS listeners, each once. Certificates with variables in their names are
/// skipped, because only a handshake knows them. `now` is in seconds since 1970.
pub fn read(configuration: &Configuration, now: i64) -> Vec<CertificatePair> {
    let mut pairs: Vec<CertificatePair> = Vec::new();
    for listen in secure_listeners(configuration) {
        let keys = listen.inherited_all("ssl_certificate_key");
        for (certificate, key) in listen.inherited_all("ssl_certificate").into_iter().zip(keys) {
            if pairs.iter().any(|known| known.span == certificate.span) {
                continue;
            }
            let passwords = listen.inherited("ssl_password_file");
            pairs.extend(Files { configuration, certificate, key, passwords }.look(now));
        }
    }
    pairs
}

/// The `listen` lines that speak TLS.
pub(crate) fn secure_listeners(configuration: &Configuration) -> impl Iterator<Item = Found<'_>> {
    let is_secure = |found: &Found<'_>| found.directive.args.iter().any(|word| word.value == *b"ssl");
    configuration.listens().into_iter().filter(is_secure)
}

struct Files<'a> {
    configuration: &'a Configuration,
    certificate: &'a Directive,
    key: &'a Directive,
    passwords: Option<&'a Directive>,
}

impl Files<'_> {
    fn look(&self, now: i64) -> Option<CertificatePair> {
        let (certificate, key) = (self.path(self.certificate)?, self.path(self.key)?);
        let mut pair = CertificatePair { span: self.certificate.span, findings: vec![], facts: None, unread: None };
        let missing = |path: &Path, error: &io::Error| Finding {
            severity: tls::Severity::Error,
            key: "file_unreadable",
            text: format!("\"{}\" cannot be read ({error})", path.display()),
            advice: "make the file, or name another one".to_owned(),
        };
        let chain = match read_file(&certificate) {
            Ok(chain) => chain,
            Err(error) => {
                pair.note_unread(&certificate, &error, missing);
                return Some(pair);
            }
        };
        match tls::inspect_chain(&chain, now) {
            Ok((facts, findings)) => (pair.facts, pair.findings) = (facts, findings),
            Err(finding) => pair.findings.push(finding),
        }
        match read_file(&key) {
            Err(error) => pair.note_unread(&key, &error, missing),
            Ok(key) if pair.facts.is_some() => {
                let passwords = self.passwords.and_then(|line| self.path(line));
                let passwords = passwords.and_then(|path| read_file(&path).ok()).unwrap_or_default();
                pair.findings.extend(Pair::from_pem(&chain, &key, &passwords).err());
            }
            Ok(_) => {}
        }
        Some(pair)
    }

    /// The path of a file. Relative paths are below the main file's directory. `None`: it is not a file, or its name
    /// has variables.
    fn path(&self, line: &Directive) -> Option<PathBuf> {
        let written = argument(line, 0)?;
        if written.contains('$') || ["data:", "engine:", "store:"].iter().any(|kind| written.starts_with(kind)) {
            return None;
        }
        let directory = Path::new(self.configuration.main_file()).parent().unwrap_or(Path::new(""));
        Some(directory.join(written))
    }
}

impl CertificatePair {
    fn note_unread(&mut self, path: &Path, error: &io::Error, missing: impl Fn(&Path, &io::Error) -> Finding) {
        if error.kind() == io::ErrorKind::PermissionDenied {
            self.unread = Some(path.to_path_buf());
        } else {
            self.findings.push(missing(path, error));
        }
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
