//! Certificates with their keys: read and checked, at a load and whenever their files have changed.

use crate::base::logs::error::errno;
use crate::lower::ReadFile;
use crate::plan::tls::{MaterialSource, PairPlan, PairSource};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use tls::{Finding, Pair};

/// A chain of four certificates with post-quantum signatures takes some 50 KB. What is larger is another kind of file.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Which of the two words of a pair has to be mended.
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
    /// What to do.
    pub(crate) advice: String,
}

/// Reads a pair.
pub(crate) fn load_pair(source: &PairSource, read: ReadFile<'_>) -> Result<PairPlan, PairFault> {
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
    let pair = Pair::from_pem(&certificate, &key, &passwords).map_err(|finding| fault_of_finding(source, finding))?;
    let pair = pair.with_ocsp(&stapled);
    let mut hasher = DefaultHasher::new();
    (&certificate, &key, &stapled).hash(&mut hasher);
    Ok(PairPlan { source: source.clone(), pair, fingerprint: hasher.finish() })
}

/// Reads a file of TLS whole.
pub(crate) fn read_file(path: &Path, read: ReadFile<'_>) -> io::Result<Vec<u8>> {
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

/// nginx's beginning, then the system's words.
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

/// The name of a certificate or key in a message; never its contents.
pub(crate) fn shown(source: &MaterialSource) -> String {
    match source {
        MaterialSource::File(path) => format!("\"{}\"", path.display()),
        MaterialSource::Text(_) => "\"data:…\"".to_owned(),
    }
}
