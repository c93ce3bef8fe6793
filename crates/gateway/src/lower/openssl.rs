//! OpenSSL's words for protocols, ciphers, curves and commands, towards clients (`ssl_…`) and upstreams
//! (`proxy_ssl_…`). Words that rustls does not support are reported at their place.

use crate::lower::Lowering;
use conf::diagnostic::Diagnostic;
use conf::source::Span;
use conf::value::Located;
use tls::{Ciphers, Curves, Protocol, Protocols};

/// The settings of one side.
pub(super) struct OpensslWords<'a> {
    /// Prefix of the directives' names.
    pub(super) family: &'static str,
    /// The place for diagnostics about defaults.
    pub(super) span: Span,
    /// Empty for the default.
    pub(super) protocols: Vec<Located<&'a str>>,
    pub(super) ciphers: Option<Located<&'a str>>,
    pub(super) curves: Option<Located<&'a str>>,
    /// Commands, each with its value.
    pub(super) commands: Vec<[Located<&'a str>; 2]>,
}

/// The protocols, ciphers and groups that may be negotiated.
pub(super) struct Agreeable {
    pub(super) protocols: Protocols,
    pub(super) ciphers: Ciphers,
    pub(super) curves: Curves,
}

/// Protocols in their order, by the names of the commands.
const PROTOCOLS: [&str; 6] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// The supported protocols.
const SPOKEN: [&str; 2] = ["TLSv1.2", "TLSv1.3"];

/// Commands without effect: the feature that they switch does not exist here, or is always on.
const IDLE_COMMANDS: [&str; 10] = [
    "Options",
    "SignatureAlgorithms",
    "ClientSignatureAlgorithms",
    "ECDHParameters",
    "NumTickets",
    "RecordPadding",
    "VerifyMode",
    "TxCertificateCompression",
    "RxCertificateCompression",
    "DHParameters",
];

/// The words in progress.
struct Work<'a> {
    family: &'static str,
    protocols: Vec<&'a str>,
    ciphers: Ciphers,
    curves: Curves,
}

impl Lowering<'_> {
    /// What the settings permit to negotiate; `None` after an error.
    pub(super) fn agreeable(&mut self, words: &OpensslWords<'_>) -> Option<Agreeable> {
        let mut work = Work {
            family: words.family,
            protocols: words.protocols.iter().map(|word| word.value).collect(),
            ciphers: Ciphers::default(),
            curves: Curves::default(),
        };
        if work.protocols.is_empty() {
            work.protocols.extend(SPOKEN);
        }
        for word in &words.protocols {
            let notes = Protocols::parse([word.value]).map(|parsed| parsed.notes).unwrap_or_default();
            self.note_all(word.span, notes);
        }
        if let Some(written) = &words.ciphers {
            work.ciphers = Ciphers::parse(written.value);
            if !work.ciphers.is_known {
                let message = format!("SSL_CTX_set_cipher_list(\"{}\") failed: no cipher matches", written.value);
                let hint = "write OpenSSL's names with colons between, such as `ECDHE-ECDSA-AES128-GCM-SHA256`, or `HIGH:!aNULL:!MD5`";
                self.found.push(Diagnostic::error(written.span, message).with_hint(hint));
                return None;
            }
            self.note_all(written.span, std::mem::take(&mut work.ciphers.notes));
        }
        if let Some(written) = &words.curves {
            work.curves = self.parse_curves(written, &format!("\"{}_ecdh_curve\"", words.family))?;
        }
        for [name, value] in &words.commands {
            self.command(&mut work, name, value)?;
        }
        let protocols = Protocols::parse(work.protocols).unwrap_or_default();
        if protocols.is_empty() {
            let span = words.protocols.first().map_or(words.span, |word| word.span);
            let family = words.family;
            let message = format!("\"{family}_protocols\" leaves no version that is spoken");
            let hint = format!("only TLSv1.2 and TLSv1.3 are: `{family}_protocols TLSv1.2 TLSv1.3;`");
            self.found.push(Diagnostic::error(span, message).with_hint(hint));
            return None;
        }
        let protocols = self.protocols_with_ciphers(words, &protocols, &work.ciphers)?;
        Some(Agreeable { protocols, ciphers: work.ciphers, curves: work.curves })
    }

    /// A version without ciphers is not spoken.
    fn protocols_with_ciphers(
        &mut self,
        words: &OpensslWords<'_>,
        protocols: &Protocols,
        ciphers: &Ciphers,
    ) -> Option<Protocols> {
        let narrowed = protocols.clone().with_ciphers(ciphers);
        let span = words.ciphers.as_ref().map_or(words.span, |written| written.span);
        let family = words.family;
        let hint = format!(
            "`{family}_ciphers HIGH:!aNULL:!MD5;` has all of TLSv1.2, `{family}_conf_command Ciphersuites` those of TLSv1.3"
        );
        if narrowed.is_empty() {
            let message = format!("no cipher is left for \"{family}_protocols\"");
            self.found.push(Diagnostic::error(span, message).with_hint(hint));
            return None;
        }
        for version in [Protocol::Tls12, Protocol::Tls13] {
            if protocols.has(version) && !narrowed.has(version) {
                let message = format!("no cipher is left for {}, which is not spoken therefore", version.name());
                self.found.push(Diagnostic::warning(span, message).with_hint(hint.clone()));
            }
        }
        Some(narrowed)
    }

    fn parse_curves(&mut self, written: &Located<&str>, place: &str) -> Option<Curves> {
        let problem = match Curves::parse(written.value) {
            Ok(mut curves) if !curves.is_empty() => {
                self.note_all(written.span, std::mem::take(&mut curves.notes));
                return Some(curves);
            }
            Ok(_) => format!("no curve is left in {place}"),
            Err(name) => format!("unknown curve \"{name}\" in {place}"),
        };
        let hint = "`auto`, or some of X25519MLKEM768, X25519, prime256v1 and secp384r1";
        self.found.push(Diagnostic::error(written.span, problem).with_hint(hint));
        None
    }

    fn command<'a>(&mut self, work: &mut Work<'a>, name: &Located<&'a str>, value: &Located<&'a str>) -> Option<()> {
        let is = |known: &str| name.value.eq_ignore_ascii_case(known);
        if is("Ciphersuites") {
            work.ciphers = work.ciphers.clone().suites_13(value.value);
            if !work.ciphers.is_known {
                return self.refuse_command(work.family, name, value);
            }
            self.note_all(value.span, std::mem::take(&mut work.ciphers.notes));
        } else if is("CipherString") {
            work.ciphers = work.ciphers.clone().string_12(value.value);
            if !work.ciphers.is_known {
                return self.refuse_command(work.family, name, value);
            }
            self.note_all(value.span, std::mem::take(&mut work.ciphers.notes));
        } else if is("Curves") || is("Groups") {
            work.curves = self.parse_curves(value, &format!("\"{}_conf_command {}\"", work.family, name.value))?;
        } else if is("MinProtocol") || is("MaxProtocol") {
            let is_min = is("MinProtocol");
            let place = match PROTOCOLS.iter().position(|known| *known == value.value) {
                Some(place) => place,
                None if value.value == "None" && is_min => 0,
                None if value.value == "None" => PROTOCOLS.len(),
                None => return self.refuse_command(work.family, name, value),
            };
            let rank = |word: &str| PROTOCOLS.iter().position(|known| *known == word).unwrap_or_default();
            work.protocols.retain(|word| if is_min { rank(word) >= place } else { rank(word) <= place });
        } else if is("Protocol") {
            for word in value.value.split(',').map(str::trim) {
                let (is_added, word) = match word.strip_prefix('-') {
                    Some(word) => (false, word),
                    None => (true, word.strip_prefix('+').unwrap_or(word)),
                };
                let named = |known: &str| word.eq_ignore_ascii_case("ALL") || word.eq_ignore_ascii_case(known);
                if !PROTOCOLS.iter().any(|known| named(known)) {
                    return self.refuse_command(work.family, name, value);
                }
                work.protocols.retain(|known| !named(known));
                if is_added {
                    work.protocols.extend(PROTOCOLS.iter().filter(|known| named(known)));
                }
            }
        } else if IDLE_COMMANDS.iter().any(|known| is(known)) {
            let message = format!("\"{}_conf_command {}\" has no effect here", work.family, name.value);
            self.found.push(Diagnostic::note(name.span, message));
        } else {
            return self.refuse_command(work.family, name, value);
        }
        Some(())
    }

    fn refuse_command(&mut self, family: &str, name: &Located<&str>, value: &Located<&str>) -> Option<()> {
        let message = format!("SSL_CONF_cmd(\"{}\", \"{}\") failed", name.value, value.value);
        let hint = format!(
            "in `{family}_conf_command` Ciphersuites, CipherString, Curves, Groups, Protocol, MinProtocol and MaxProtocol have an effect"
        );
        self.found.push(Diagnostic::error(name.span, message).with_hint(hint));
        None
    }

    fn note_all(&mut self, span: Span, notes: Vec<String>) {
        self.found.extend(notes.into_iter().map(|note| Diagnostic::note(span, note)));
    }
}
