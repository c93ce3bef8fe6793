//! Certificates with their keys: read and checked, at a load and whenever their files have changed.

use crate::base::logs::error::errno;
use crate::lower::{Lowering, ReadFile};
use crate::plan::ocsp::StapleAsk;
use crate::plan::tls::{MaterialSource, PairPlan, PairSource};
use conf::diagnostic::Diagnostic;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Display, Path};
use std::sync::Arc;
use tls::{Finding, Pair};

/// A chain of four certificates with post-quantum signatures takes about 50 KB. A larger file is something else.
pub(crate) const FILE_BYTES_MAX: usize = 1 << 20;

/// Which of the two directives of a pair must be corrected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairWord {
    Certificate,
    Key,
}

/// Why a pair cannot be used.
#[derive(Debug)]
pub(crate) struct PairFault {
    pub(crate) word: PairWord,
    pub(crate) message: String,
    /// What the operator should do.
    pub(crate) advice: String,
}

/// Reads a pair. `known` is the result of an earlier read of the same files.
pub(crate) fn load_pair(
    source: &PairSource,
    read: ReadFile<'_>,
    known: Option<&PairPlan>,
) -> Result<PairPlan, PairFault> {
    let certificate = material(&source.certificate, PairWord::Certificate, read)?;
    let key = material(&source.key, PairWord::Key, read)?;
    let passwords = match &source.passwords {
        Some(path) => read_file(path, read).map_err(|error| fault_of_file(PairWord::Key, path, &error))?,
        None => Vec::new(),
    };
    let stapled = match &source.stapled {
        Some(path) => read_file(path, read).map_err(|error| fault_of_file(PairWord::Certificate, path, &error))?,
        None => Vec::new(),
    };
    let mut hasher = DefaultHasher::new();
    (&certificate, &key, &passwords, &stapled).hash(&mut hasher);
    let fingerprint = hasher.finish();
    if let Some(known) = known.filter(|known| known.fingerprint == fingerprint) {
        return Ok(known.clone());
    }
    if let Some(path) = source.stapled.as_ref().filter(|_| !tls::is_status_response(&stapled)) {
        let message = format!("d2i_OCSP_RESPONSE_bio(\"{}\") failed", path.display());
        let advice = "the file must have a response of OCSP in DER: openssl ocsp … -respout FILE".to_owned();
        return Err(PairFault { word: PairWord::Certificate, message, advice });
    }
    let pair = Pair::from_pem(&certificate, &key, &passwords).map_err(|finding| fault_of_finding(source, finding))?;
    let pair = pair.with_ocsp(&stapled);
    let staple = source.stapling.as_ref();
    let staple = staple.map(|plan| StapleAsk::new(shown(&source.certificate), &pair, plan).map(Arc::new));
    Ok(PairPlan { source: source.clone(), pair, fingerprint, staple })
}

impl Lowering<'_> {
    /// The bytes of a file that a directive names, relative to the main file's directory. On an error, adds the
    /// diagnostic that the closure makes of the path and the system's message.
    pub(super) fn read_named(
        &mut self,
        path: &Path,
        refused: impl FnOnce(Display<'_>, String) -> Diagnostic,
    ) -> Option<Vec<u8>> {
        let path = self.options.conf_directory.join(path);
        let read = read_file(&path, self.options.read);
        read.map_err(|error| self.found.push(refused(path.display(), errno(&error)))).ok()
    }
}

/// Reads a whole TLS file.
fn read_file(path: &Path, read: ReadFile<'_>) -> io::Result<Vec<u8>> {
    let bytes = read(path)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 1 MB"));
    }
    Ok(bytes)
}

fn material<'a>(source: &'a MaterialSource, word: PairWord, read: ReadFile<'_>) -> Result<Cow<'a, [u8]>, PairFault> {
    match source {
        MaterialSource::Text(text) => Ok(Cow::Borrowed(text)),
        MaterialSource::File(path) => {
            read_file(path, read).map(Cow::Owned).map_err(|error| fault_of_file(word, path, &error))
        }
    }
}

/// nginx's prefix, then the system's message.
fn fault_of_file(word: PairWord, path: &Path, error: &io::Error) -> PairFault {
    let what = match word {
        PairWord::Certificate => "certificate",
        PairWord::Key => "certificate key",
    };
    let message = format!("cannot load {what} \"{}\": open() failed ({})", path.display(), errno(error));
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "make the file, or name another one",
        io::ErrorKind::PermissionDenied => {
            "only root may read it: start as root, or give this user the right to read it"
        }
        _ => "it must be a file in PEM format",
    };
    PairFault { word, message, advice: advice.to_owned() }
}

fn fault_of_finding(source: &PairSource, finding: Finding) -> PairFault {
    let word = if finding.key.starts_with("key_") { PairWord::Key } else { PairWord::Certificate };
    let (certificate, key) = (shown(&source.certificate), shown(&source.key));
    let Finding { text, advice, .. } = finding;
    let message = match word {
        PairWord::Certificate => format!("cannot load certificate {certificate}: {text}"),
        PairWord::Key => format!("cannot load certificate key {key} for certificate {certificate}: {text}"),
    };
    PairFault { word, message, advice }
}

/// The name of a certificate or key in a message.
pub(crate) fn shown(source: &MaterialSource) -> String {
    format!("\"{source}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_that_are_the_same_are_not_parsed_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pem");
        let write = || {
            let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
            fs::write(&path, made.cert.pem() + &made.signing_key.serialize_pem()).unwrap();
        };
        write();
        let file = MaterialSource::File(path.clone());
        let source =
            PairSource { certificate: file.clone(), key: file, passwords: None, stapled: None, stapling: None };
        let load = |known: Option<&PairPlan>| load_pair(&source, &|path| fs::read(path), known).unwrap();
        // A newly parsed certificate has another memory address.
        let place = |plan: &PairPlan| plan.pair.certificate_der().unwrap().as_ptr();
        let first = load(None);
        assert_eq!(place(&load(Some(&first))), place(&first));
        assert_ne!(place(&load(None)), place(&first));
        write();
        let second = load(Some(&first));
        assert!(place(&second) != place(&first) && second.fingerprint != first.fingerprint);
        fs::remove_file(&path).unwrap();
        assert!(load_pair(&source, &|path| fs::read(path), Some(&first)).is_err(), "a file that is gone is missed");
    }
}
