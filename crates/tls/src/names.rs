//! Maps OpenSSL's words for protocols, ciphers and curves, as nginx.conf has them, to rustls. Each name that rustls does not support is
//! reported with a reason.

use crate::keys;
use crate::openssl_names::{cipher_name, is_cipher};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs as provider};
use rustls::{CipherSuite, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion, version};

/// A protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Protocol {
    /// OpenSSL's name, as in `$ssl_protocol`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }

    pub(crate) fn of(version: ProtocolVersion) -> Option<Self> {
        match version {
            ProtocolVersion::TLSv1_2 => Some(Self::Tls12),
            ProtocolVersion::TLSv1_3 => Some(Self::Tls13),
            _ => None,
        }
    }
}

/// The versions that may be agreed on, and the configured ones that have no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocols {
    tls12: bool,
    tls13: bool,
    /// What has no effect, each with its reason.
    pub notes: Vec<String>,
}

impl Default for Protocols {
    fn default() -> Self {
        Self { tls12: true, tls13: true, notes: Vec::new() }
    }
}

impl Protocols {
    /// One version.
    pub fn only(protocol: Protocol) -> Self {
        Self { tls12: protocol == Protocol::Tls12, tls13: protocol == Protocol::Tls13, notes: Vec::new() }
    }

    /// Reads the words of `ssl_protocols`. The error is the unknown word.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut parsed = Self { tls12: false, tls13: false, notes: Vec::new() };
        for word in words {
            match word {
                "TLSv1.2" => parsed.tls12 = true,
                "TLSv1.3" => parsed.tls13 = true,
                "SSLv2" | "SSLv3" | "TLSv1" | "TLSv1.1" => {
                    parsed.notes.push(format!("{word} has no effect: only TLSv1.2 and TLSv1.3 are spoken"));
                }
                _ => return Err(word.to_owned()),
            }
        }
        Ok(parsed)
    }

    /// The same without versions for which there is no cipher.
    #[must_use]
    pub fn with_ciphers(mut self, ciphers: &Ciphers) -> Self {
        self.tls12 &= ciphers.has_tls12();
        self.tls13 &= ciphers.has_tls13();
        self
    }

    /// Whether the version may be agreed on.
    pub fn has(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Tls12 => self.tls12,
            Protocol::Tls13 => self.tls13,
        }
    }

    /// Whether no supported version is left.
    pub fn is_empty(&self) -> bool {
        !self.tls12 && !self.tls13
    }

    pub(crate) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let of = |wanted: bool, version| wanted.then_some(version);
        of(self.tls13, &version::TLS13).into_iter().chain(of(self.tls12, &version::TLS12)).collect()
    }
}

/// A cipher suite with OpenSSL's name and the words that select it in a cipher string.
struct Suite {
    name: &'static str,
    ours: &'static SupportedCipherSuite,
    words: &'static [&'static str],
}

/// Suites of TLS 1.3, in OpenSSL's order.
static SUITES_13: [Suite; 3] = [
    Suite { name: "TLS_AES_256_GCM_SHA384", ours: &provider::cipher_suite::TLS13_AES_256_GCM_SHA384, words: &[] },
    Suite {
        name: "TLS_CHACHA20_POLY1305_SHA256",
        ours: &provider::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        words: &[],
    },
    Suite { name: "TLS_AES_128_GCM_SHA256", ours: &provider::cipher_suite::TLS13_AES_128_GCM_SHA256, words: &[] },
];

// `RSA` means RSA key exchange, and `SHA256` and `SHA384` mean ciphers with CBC, so none of these words selects a cipher of ours.
const ECDSA_256: &[&str] = &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM"];
const RSA_256: &[&str] = &["aRSA", "AES", "AES256", "AESGCM"];
const ECDSA_CHACHA: &[&str] = &["ECDSA", "aECDSA", "CHACHA20"];
const RSA_CHACHA: &[&str] = &["aRSA", "CHACHA20"];
const ECDSA_128: &[&str] = &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM"];
const RSA_128: &[&str] = &["aRSA", "AES", "AES128", "AESGCM"];

/// Words that select all suites of ours.
const EVERY: &[&str] = &["ALL", "DEFAULT", "HIGH", "FIPS", "ECDH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2"];

/// Words of OpenSSL that select none of ours.
const ELSEWHERE: &[&str] = &[
    "COMPLEMENTOFALL",
    "COMPLEMENTOFDEFAULT",
    "MEDIUM",
    "LOW",
    "eNULL",
    "NULL",
    "aNULL",
    "kRSA",
    "RSA",
    "kDHE",
    "kEDH",
    "DH",
    "DHE",
    "EDH",
    "ADH",
    "aDSS",
    "DSS",
    "AECDH",
    "TLSv1.0",
    "TLSv1",
    "SSLv3",
    "AESCCM",
    "AESCCM8",
    "ARIA",
    "ARIA128",
    "ARIA256",
    "ARIAGCM",
    "CAMELLIA",
    "CAMELLIA128",
    "CAMELLIA256",
    "CBC",
    "3DES",
    "DES",
    "RC4",
    "RC2",
    "IDEA",
    "SEED",
    "MD5",
    "SHA",
    "SHA1",
    "SHA256",
    "SHA384",
    "PSK",
    "kPSK",
    "kECDHEPSK",
    "kDHEPSK",
    "kRSAPSK",
    "aPSK",
    "SRP",
    "SUITEB128",
    "SUITEB128ONLY",
    "SUITEB192",
];

/// Suites of TLS 1.2, in OpenSSL's order.
static SUITES_12: [Suite; 6] = [
    Suite {
        name: "ECDHE-ECDSA-AES256-GCM-SHA384",
        ours: &provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        words: ECDSA_256,
    },
    Suite {
        name: "ECDHE-RSA-AES256-GCM-SHA384",
        ours: &provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        words: RSA_256,
    },
    Suite {
        name: "ECDHE-ECDSA-CHACHA20-POLY1305",
        ours: &provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        words: ECDSA_CHACHA,
    },
    Suite {
        name: "ECDHE-RSA-CHACHA20-POLY1305",
        ours: &provider::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        words: RSA_CHACHA,
    },
    Suite {
        name: "ECDHE-ECDSA-AES128-GCM-SHA256",
        ours: &provider::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        words: ECDSA_128,
    },
    Suite {
        name: "ECDHE-RSA-AES128-GCM-SHA256",
        ours: &provider::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        words: RSA_128,
    },
];

impl Suite {
    fn matches(&self, word: &str) -> bool {
        self.name == word || EVERY.contains(&word) || self.words.contains(&word)
    }
}

/// The cipher suites that may be agreed on, the preferred ones first.
#[derive(Debug, Clone, PartialEq)]
pub struct Ciphers {
    tls13: Vec<SupportedCipherSuite>,
    tls12: Vec<SupportedCipherSuite>,
    /// What cannot be had, or has no effect, each with its reason.
    pub notes: Vec<String>,
    /// OpenSSL knows something of what was written. If not, OpenSSL refuses it, too.
    pub is_known: bool,
}

impl Default for Ciphers {
    fn default() -> Self {
        let all = |suites: &[Suite]| suites.iter().map(|suite| *suite.ours).collect();
        Self { tls13: all(&SUITES_13), tls12: all(&SUITES_12), notes: Vec::new(), is_known: true }
    }
}

impl Ciphers {
    /// OpenSSL's cipher string (`ssl_ciphers`), which speaks of TLS 1.2 only: names and words with `+` between, in the order
    /// of preference, `!` and `-` to leave out, `+` to put last.
    pub fn parse(text: &str) -> Self {
        let mut parsed = Self { tls12: Vec::new(), is_known: false, ..Self::default() };
        let mut banned: Vec<CipherSuite> = Vec::new();
        let mut missing: Vec<&str> = Vec::new();
        // `DEFAULT@SECLEVEL=1` is two tokens as well.
        let text = text.replace('@', ":@");
        for token in text.split([':', ',', ' ', ';']).filter(|token| !token.is_empty()) {
            let (sign, words) = match token.as_bytes()[0] {
                sign @ (b'!' | b'-' | b'+') => (sign, &token[1..]),
                b'@' => {
                    parsed.command(token);
                    continue;
                }
                _ => (b' ', token),
            };
            let matched = || {
                let fits = |suite: &&Suite| words.split('+').all(|word| suite.matches(word));
                SUITES_12.iter().filter(fits).map(|suite| *suite.ours)
            };
            let is_one_of = |suite: &SupportedCipherSuite| matched().any(|other| other.suite() == suite.suite());
            match sign {
                b'!' => banned.extend(matched().map(|suite| suite.suite())),
                b'-' => parsed.tls12.retain(|suite| !is_one_of(suite)),
                b'+' => {
                    let (last, first): (Vec<_>, Vec<_>) = parsed.tls12.iter().copied().partition(is_one_of);
                    parsed.tls12 = first.into_iter().chain(last).collect();
                }
                _ => {
                    let is_of_openssl =
                        |word: &str| is_cipher(word) || EVERY.contains(&word) || ELSEWHERE.contains(&word);
                    let known = matched().next().is_some() || words.split('+').all(is_of_openssl);
                    parsed.is_known |= known && !words.starts_with("TLS_");
                    if matched().next().is_none() {
                        missing.push(words);
                    }
                    let new: Vec<_> = matched().filter(|suite| !parsed.tls12.contains(suite)).collect();
                    parsed.tls12.extend(new);
                }
            }
        }
        parsed.tls12.retain(|suite| !banned.contains(&suite.suite()));
        if !missing.is_empty() {
            let list = missing.join(", ");
            parsed
                .notes
                .push(format!("not available, and left out: {list}; TLS 1.2 has ECDHE with AES-GCM or ChaCha20 here"));
        }
        parsed
    }

    /// `ssl_conf_command Ciphersuites`: names of TLS 1.3, the preferred one first.
    pub fn suites_13(mut self, text: &str) -> Self {
        let found = |name: &&str| SUITES_13.iter().find(|suite| suite.name == *name);
        let names: Vec<&str> = text.split([':', ',', ' ']).filter(|name| !name.is_empty()).collect();
        self.tls13 = names.iter().filter_map(found).map(|suite| *suite.ours).collect();
        self.is_known = names.is_empty() || names.iter().any(|name| name.starts_with("TLS_") && is_cipher(name));
        let missing: Vec<&str> = names.into_iter().filter(|name| found(name).is_none()).collect();
        if !missing.is_empty() {
            self.notes.push(format!("not available, and left out: {}", missing.join(", ")));
        }
        self
    }

    /// `ssl_conf_command CipherString`: what [`Self::parse`] takes, with the suites of TLS 1.3 as they are.
    pub fn string_12(self, text: &str) -> Self {
        Self { tls13: self.tls13, ..Self::parse(text) }
    }

    fn command(&mut self, token: &str) {
        if token == "@STRENGTH" {
            self.tls12
                .sort_by_key(|suite| cipher_name(suite.suite().into()).is_some_and(|name| name.contains("AES128")));
        } else if token.starts_with("@SECLEVEL") {
            self.notes.push(format!("{token} has no effect: keys below 112 bits of strength are never used"));
        }
    }

    /// Whether TLS 1.2 has a cipher to agree on.
    pub fn has_tls12(&self) -> bool {
        !self.tls12.is_empty()
    }

    /// Whether TLS 1.3 has a cipher to agree on.
    pub fn has_tls13(&self) -> bool {
        !self.tls13.is_empty()
    }

    /// OpenSSL's names, those of TLS 1.3 first.
    pub fn names(&self) -> Vec<&'static str> {
        self.tls13.iter().chain(&self.tls12).filter_map(|suite| cipher_name(suite.suite().into())).collect()
    }
}

/// A group for key exchange: OpenSSL's names, the number, and rustls' implementation.
struct Curve {
    names: &'static [&'static str],
    group: &'static dyn SupportedKxGroup,
}

/// Ours, in rustls' order of preference.
static CURVES: [Curve; 4] = [
    Curve { names: &["X25519MLKEM768"], group: provider::kx_group::X25519MLKEM768 },
    Curve { names: &["X25519", "x25519"], group: provider::kx_group::X25519 },
    Curve { names: &["prime256v1", "P-256", "secp256r1"], group: provider::kx_group::SECP256R1 },
    Curve { names: &["secp384r1", "P-384"], group: provider::kx_group::SECP384R1 },
];

impl Curve {
    fn find(name: &str) -> Option<&'static Self> {
        CURVES.iter().find(|curve| curve.names.contains(&name))
    }
}

/// Curves of OpenSSL that rustls has not.
const CURVES_MISSING: &[&str] = &[
    "secp521r1",
    "P-521",
    "X448",
    "x448",
    "secp256k1",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "brainpoolP256r1tls13",
    "brainpoolP384r1tls13",
    "brainpoolP512r1tls13",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "ffdhe6144",
    "ffdhe8192",
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
    "MLKEM512",
    "MLKEM768",
    "MLKEM1024",
];

/// The groups that may be agreed on, the preferred ones first.
#[derive(Debug, Clone)]
pub struct Curves {
    groups: Vec<&'static dyn SupportedKxGroup>,
    /// What cannot be had, each with its reason.
    pub notes: Vec<String>,
}

impl Default for Curves {
    fn default() -> Self {
        Self { groups: CURVES.iter().map(|curve| curve.group).collect(), notes: Vec::new() }
    }
}

impl Curves {
    /// The list of `ssl_ecdh_curve`: names with colons between, `DEFAULT` among them and `-` to leave out, or `auto`. A name that OpenSSL has not either is an error: it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::default());
        }
        let mut parsed = Self { groups: Vec::new(), notes: Vec::new() };
        for word in text.split([':', '/']).filter(|word| !word.is_empty()) {
            if word == "DEFAULT" {
                for curve in &CURVES {
                    parsed.add(curve);
                }
                continue;
            }
            if let Some(curve) = word.strip_prefix('-').and_then(Curve::find) {
                parsed.groups.retain(|group| group.name() != curve.group.name());
                continue;
            }
            // OpenSSL 3.5 lets a name be optional, or say which keys are sent first.
            let name = word.trim_start_matches(['?', '*']);
            if let Some(curve) = Curve::find(name) {
                parsed.add(curve);
            } else if CURVES_MISSING.contains(&name) || word.starts_with('?') {
                parsed.notes.push(format!("curve {name} is not available, and left out"));
            } else {
                return Err(name.to_owned());
            }
        }
        Ok(parsed)
    }

    fn add(&mut self, curve: &Curve) {
        if self.groups.iter().all(|group| group.name() != curve.group.name()) {
            self.groups.push(curve.group);
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// The provider with these suites and groups.
pub(crate) fn provider(ciphers: &Ciphers, curves: &Curves) -> CryptoProvider {
    CryptoProvider {
        cipher_suites: ciphers.tls13.iter().chain(&ciphers.tls12).copied().map(keys::small).collect(),
        kx_groups: curves.groups.clone(),
        ..provider::default_provider()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERMEDIATE: &str = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
        ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:\
        DHE-RSA-AES256-GCM-SHA384:DHE-RSA-CHACHA20-POLY1305";

    fn names_12(text: &str) -> Vec<&'static str> {
        Ciphers::parse(text).names().split_off(3)
    }

    #[test]
    fn the_strings_of_usual_generators_are_mapped_in_their_order() {
        let mozilla = Ciphers::parse(INTERMEDIATE);
        assert_eq!(mozilla.names()[3..5], ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(mozilla.names().len(), 9);
        assert!(
            mozilla.notes[0].contains("DHE-RSA-AES128-GCM-SHA256, DHE-RSA-AES256-GCM-SHA384"),
            "{:?}",
            mozilla.notes
        );
        // nginx's own default, and Debian's.
        assert_eq!(names_12("HIGH:!aNULL:!MD5").len(), 6);
        assert_eq!(names_12("EECDH+AESGCM:EDH+AESGCM").len(), 4);
        assert_eq!(names_12("ECDHE+CHACHA20:ECDHE+AESGCM:!aRSA").len(), 3);
        assert_eq!(names_12("ALL:-AES128:+AESGCM")[0], "ECDHE-ECDSA-CHACHA20-POLY1305");
        assert!(!Ciphers::parse("AES128-SHA:DES-CBC3-SHA").has_tls12());
        assert!(Ciphers::parse("DEFAULT@SECLEVEL=1").notes.len() + Ciphers::parse("@SECLEVEL=0:ALL").notes.len() > 0);
    }

    #[test]
    fn protocols_that_are_not_spoken_are_named() {
        let parsed = Protocols::parse(["TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"]).unwrap();
        assert_eq!((parsed.versions().len(), parsed.notes.len()), (2, 2));
        assert_eq!(Protocols::parse(["TLSv1.4"]), Err("TLSv1.4".to_owned()));
        assert!(Protocols::parse(["TLSv1.1"]).unwrap().is_empty());
    }

    #[test]
    fn curves_are_known_by_all_their_names() {
        let parsed = Curves::parse("X25519:prime256v1:P-256:secp521r1").unwrap();
        assert_eq!((parsed.groups.len(), parsed.notes.len()), (2, 1));
        assert_eq!(Curves::parse("secp999").map(|_| ()), Err("secp999".to_owned()));
        assert_eq!(Curves::parse("X25519:DEFAULT:-prime256v1").map(|curves| curves.groups.len()), Ok(3));
    }
}
