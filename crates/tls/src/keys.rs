//! The keys of records, kept small while a connection waits. The provider's form of a key takes some 600 bytes in each direction, half
//! of the memory of an idle connection. Here a key is kept as it was derived, and its computing form in a table of the thread, which
//! has room for the busy connections. Ciphers, nonces and limits are rustls' and the provider's. Records are built as rustls' own
//! providers do it, and tests compare both byte by byte.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::crypto::cipher::{
    AeadKey, InboundOpaqueMessage, InboundPlainMessage, Iv, KeyBlockShape, MessageDecrypter, MessageEncrypter,
    NONCE_LEN, Nonce, OutboundOpaqueMessage, OutboundPlainMessage, PrefixedPayload, Tls12AeadAlgorithm,
    Tls13AeadAlgorithm, UnsupportedOperationError, make_tls12_aad, make_tls13_aad,
};
use rustls::{
    CipherSuite, CipherSuiteCommon, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion,
    SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite,
};
use std::cell::RefCell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys of a thread in their computing form: those of 256 connections in both directions, 330 KB.
const UNPACKED_MAX: usize = 512;
const TAG_BYTES: usize = 16;
/// Type, version and length of a record.
pub(crate) const RECORD_HEADER_BYTES: usize = 5;
/// Bytes of the nonce that each record of TLS 1.2 with AES-GCM carries (RFC 5288 §3).
const EXPLICIT_BYTES: usize = 8;
/// Bytes of the nonce that such records leave out.
const SALT_BYTES: usize = NONCE_LEN - EXPLICIT_BYTES;
/// Most plaintext of a record (RFC 5246 §6.2.1).
const PLAINTEXT_BYTES_MAX: usize = 1 << 14;

static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Where the next record of application data goes, if its sender waits for it there.
    static SINK: RefCell<Option<Sink>> = const { RefCell::new(None) };
    static UNPACKED: RefCell<Unpacked> = const { RefCell::new(Unpacked { slots: Vec::new(), next: 0 }) };
}

/// Records of application data, built where the caller wants them. rustls would build each in a buffer of its own and copy it.
struct Sink {
    records: Vec<u8>,
    count: usize,
}

/// The result of [`with_sink`].
pub(crate) struct Sunk<R> {
    /// The caller's bytes, with the new records behind them.
    pub(crate) records: Vec<u8>,
    pub(crate) count: usize,
    pub(crate) result: R,
}

/// Runs `work`. Records of application data that it encrypts are appended to `records`; rustls gets an empty one of
/// [`RECORD_HEADER_BYTES`] for each.
pub(crate) fn with_sink<R>(records: Vec<u8>, work: impl FnOnce() -> R) -> Sunk<R> {
    SINK.set(Some(Sink { records, count: 0 }));
    let result = work();
    // If `work` panics, the records are lost with its connection, and the next call sets others.
    let Sink { records, count } = SINK.take().unwrap_or(Sink { records: Vec::new(), count: 0 });
    Sunk { records, count, result }
}

/// Keys in their computing form, each with its number. The one that was put in first makes room.
struct Unpacked {
    slots: Vec<(u64, Option<LessSafeKey>)>,
    next: usize,
}

impl Unpacked {
    fn take(&mut self, slot: usize, number: u64) -> Option<LessSafeKey> {
        self.slots.get_mut(slot).filter(|(owner, _)| *owner == number)?.1.take()
    }

    /// Puts a key into its slot, or into the next one where another owns it now.
    fn put(&mut self, slot: usize, number: u64, key: LessSafeKey) -> usize {
        if let Some((owner, place)) = self.slots.get_mut(slot)
            && *owner == number
        {
            *place = Some(key);
            return slot;
        }
        if self.slots.len() < UNPACKED_MAX {
            self.slots.push((number, Some(key)));
            return self.slots.len() - 1;
        }
        let slot = self.next;
        self.next = (slot + 1) % UNPACKED_MAX;
        if let Some(place) = self.slots.get_mut(slot) {
            *place = (number, Some(key));
        }
        slot
    }
}

/// A key of one direction, as it was derived.
struct PackedKey {
    number: u64,
    /// Where the computing form was put last, in the table of some thread.
    slot: usize,
    algorithm: &'static Algorithm,
    key: AeadKey,
    iv: Iv,
}

impl PackedKey {
    fn new(algorithm: &'static Algorithm, key: AeadKey, iv: Iv) -> Self {
        let number = LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1;
        Self { number, slot: 0, algorithm, key, iv }
    }

    /// Computes with the key. `None`: the key has the wrong length for its cipher, or the provider fails.
    fn compute<R>(&mut self, work: impl FnOnce(&LessSafeKey, &Iv) -> Option<R>) -> Option<R> {
        // A thread that ends has no table any more.
        let kept = UNPACKED.try_with(|table| table.borrow_mut().take(self.slot, self.number)).ok().flatten();
        let key = match kept {
            Some(key) => key,
            None => LessSafeKey::new(UnboundKey::new(self.algorithm, self.key.as_ref()).ok()?),
        };
        let result = work(&key, &self.iv);
        if let Ok(slot) = UNPACKED.try_with(|table| table.borrow_mut().put(self.slot, self.number, key)) {
            self.slot = slot;
        }
        result
    }
}

impl Drop for PackedKey {
    fn drop(&mut self) {
        // A copy in the table of another thread is replaced in time, or goes with its thread.
        let _ = UNPACKED.try_with(|table| table.borrow_mut().take(self.slot, self.number));
    }
}

/// How records of a version look that are encrypted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// TLS 1.3 (RFC 8446 §5.2): the type is encrypted.
    Tls13,
    /// TLS 1.2 with AES-GCM (RFC 5288): each record carries a part of its nonce.
    Gcm12,
    /// TLS 1.2 with ChaCha20-Poly1305 (RFC 7905).
    ChaCha12,
}

struct Direction {
    key: PackedKey,
    form: Form,
}

fn nonce(iv: &Iv, number: u64) -> aws_lc_rs::aead::Nonce {
    aws_lc_rs::aead::Nonce::assume_unique_for_key(Nonce::new(iv, number).0)
}

impl Direction {
    /// Appends the encrypted payload of a record.
    fn seal(&mut self, message: &OutboundPlainMessage<'_>, number: u64, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let total = self.encrypted_payload_len(message.payload.len());
        out.reserve(total);
        let form = self.form;
        self.key.compute(|key, iv| {
            let nonce = nonce(iv, number);
            let aad12 = || make_tls12_aad(number, message.typ, message.version, message.payload.len());
            let tag = match form {
                Form::Tls13 => {
                    message.payload.copy_to_vec(out);
                    out.push(u8::from(message.typ));
                    let plain = out.get_mut(start..)?;
                    key.seal_in_place_separate_tag(nonce, Aad::from(make_tls13_aad(total)), plain).ok()?
                }
                Form::ChaCha12 => {
                    message.payload.copy_to_vec(out);
                    let plain = out.get_mut(start..)?;
                    key.seal_in_place_separate_tag(nonce, Aad::from(aad12()), plain).ok()?
                }
                Form::Gcm12 => {
                    out.extend_from_slice(nonce.as_ref().get(SALT_BYTES..)?);
                    message.payload.copy_to_vec(out);
                    let plain = out.get_mut(start + EXPLICIT_BYTES..)?;
                    key.seal_in_place_separate_tag(nonce, Aad::from(aad12()), plain).ok()?
                }
            };
            out.extend_from_slice(tag.as_ref());
            Some(())
        })
    }

    /// Type and version as everybody can read them; they do not change in TLS 1.3 (RFC 8446 §5.2).
    fn visible(&self, message: &OutboundPlainMessage<'_>) -> (ContentType, ProtocolVersion) {
        match self.form {
            Form::Tls13 => (ContentType::ApplicationData, ProtocolVersion::TLSv1_2),
            Form::Gcm12 | Form::ChaCha12 => (message.typ, message.version),
        }
    }
}

impl MessageEncrypter for Direction {
    fn encrypt(&mut self, message: OutboundPlainMessage<'_>, number: u64) -> Result<OutboundOpaqueMessage, Error> {
        let (typ, version) = self.visible(&message);
        let sink = if message.typ == ContentType::ApplicationData { SINK.take() } else { None };
        if let Some(mut sink) = sink {
            let length = self.encrypted_payload_len(message.payload.len()) as u16;
            sink.records.push(u8::from(typ));
            sink.records.extend_from_slice(&u16::from(version).to_be_bytes());
            sink.records.extend_from_slice(&length.to_be_bytes());
            let sealed = self.seal(&message, number, &mut sink.records);
            sink.count += 1;
            SINK.set(Some(sink));
            sealed.ok_or(Error::EncryptError)?;
            return Ok(OutboundOpaqueMessage::new(typ, version, PrefixedPayload::with_capacity(0)));
        }
        let mut bytes = Vec::new();
        self.seal(&message, number, &mut bytes).ok_or(Error::EncryptError)?;
        Ok(OutboundOpaqueMessage::new(typ, version, PrefixedPayload::from(bytes.as_slice())))
    }

    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        payload_len
            + TAG_BYTES
            + match self.form {
                Form::Tls13 => 1,
                Form::Gcm12 => EXPLICIT_BYTES,
                Form::ChaCha12 => 0,
            }
    }
}

impl MessageDecrypter for Direction {
    fn decrypt<'a>(
        &mut self,
        mut message: InboundOpaqueMessage<'a>,
        number: u64,
    ) -> Result<InboundPlainMessage<'a>, Error> {
        let front = if self.form == Form::Gcm12 { EXPLICIT_BYTES } else { 0 };
        let length = message.payload.len();
        let plain = length.checked_sub(front + TAG_BYTES).ok_or(Error::DecryptError)?;
        let form = self.form;
        let opened = self.key.compute(|key, iv| {
            if form == Form::Tls13 {
                let aad = Aad::from(make_tls13_aad(length));
                return key.open_in_place(nonce(iv, number), aad, &mut message.payload).ok().map(|_| ());
            }
            let aad = Aad::from(make_tls12_aad(number, message.typ, message.version, plain));
            let nonce = if form == Form::Gcm12 {
                let mut whole = [0; NONCE_LEN];
                whole.get_mut(..SALT_BYTES)?.copy_from_slice(iv.as_ref().get(..SALT_BYTES)?);
                whole.get_mut(SALT_BYTES..)?.copy_from_slice(message.payload.get(..EXPLICIT_BYTES)?);
                aws_lc_rs::aead::Nonce::assume_unique_for_key(whole)
            } else {
                nonce(iv, number)
            };
            key.open_in_place(nonce, aad, message.payload.get_mut(front..)?).ok().map(|_| ())
        });
        opened.ok_or(Error::DecryptError)?;
        if form == Form::Tls13 {
            message.payload.truncate(plain);
            return message.into_tls13_unpadded_message();
        }
        if plain > PLAINTEXT_BYTES_MAX {
            return Err(Error::PeerSentOversizedRecord);
        }
        Ok(message.into_plain_message_range(front..front + plain))
    }
}

/// A cipher of TLS 1.3 of rustls, with keys that are kept small.
struct Small13 {
    algorithm: &'static Algorithm,
    own: &'static dyn Tls13AeadAlgorithm,
}

impl Small13 {
    fn direction(&self, key: AeadKey, iv: Iv) -> Direction {
        Direction { key: PackedKey::new(self.algorithm, key, iv), form: Form::Tls13 }
    }
}

impl Tls13AeadAlgorithm for Small13 {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(self.direction(key, iv))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        Box::new(self.direction(key, iv))
    }

    fn key_len(&self) -> usize {
        self.own.key_len()
    }

    fn extract_keys(&self, key: AeadKey, iv: Iv) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.own.extract_keys(key, iv)
    }

    fn fips(&self) -> bool {
        self.own.fips()
    }
}

/// A cipher of TLS 1.2 of rustls, with keys that are kept small.
struct Small12 {
    algorithm: &'static Algorithm,
    own: &'static dyn Tls12AeadAlgorithm,
}

impl Small12 {
    /// The nonce's fixed part, and behind it what rustls gives for the part that changes: each of a fixed length.
    fn direction(&self, key: AeadKey, fixed: &[u8], explicit: &[u8]) -> Direction {
        let mut iv = [0; NONCE_LEN];
        for (into, byte) in iv.iter_mut().zip(fixed.iter().chain(explicit)) {
            *into = *byte;
        }
        let form = if self.algorithm == &CHACHA20_POLY1305 { Form::ChaCha12 } else { Form::Gcm12 };
        Direction { key: PackedKey::new(self.algorithm, key, Iv::new(iv)), form }
    }
}

impl Tls12AeadAlgorithm for Small12 {
    fn encrypter(&self, key: AeadKey, iv: &[u8], extra: &[u8]) -> Box<dyn MessageEncrypter> {
        Box::new(self.direction(key, iv, extra))
    }

    fn decrypter(&self, key: AeadKey, iv: &[u8]) -> Box<dyn MessageDecrypter> {
        Box::new(self.direction(key, iv, &[]))
    }

    fn key_block_shape(&self) -> KeyBlockShape {
        self.own.key_block_shape()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: &[u8],
        explicit: &[u8],
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.own.extract_keys(key, iv, explicit)
    }

    fn fips(&self) -> bool {
        self.own.fips()
    }
}

/// rustls' suites with keys that are kept small; made once.
static SMALL: LazyLock<Vec<SupportedCipherSuite>> =
    LazyLock::new(|| ALL_CIPHER_SUITES.iter().map(|suite| make_small(*suite)).collect());

fn algorithm(suite: CipherSuite) -> Option<&'static Algorithm> {
    Some(match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => &AES_128_GCM,
        CipherSuite::TLS13_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
        | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => &AES_256_GCM,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
        | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => &CHACHA20_POLY1305,
        _ => return None,
    })
}

fn make_small(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let Some(algorithm) = algorithm(suite.suite()) else { return suite };
    let common = |own: &CipherSuiteCommon| CipherSuiteCommon {
        suite: own.suite,
        hash_provider: own.hash_provider,
        confidentiality_limit: own.confidentiality_limit,
    };
    // rustls wants them for ever; there are nine of them, made once.
    match suite {
        SupportedCipherSuite::Tls13(own) => SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
            common: common(&own.common),
            hkdf_provider: own.hkdf_provider,
            aead_alg: Box::leak(Box::new(Small13 { algorithm, own: own.aead_alg })),
            quic: own.quic,
        }))),
        SupportedCipherSuite::Tls12(own) => SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
            common: common(&own.common),
            prf_provider: own.prf_provider,
            kx: own.kx,
            sign: own.sign,
            aead_alg: Box::leak(Box::new(Small12 { algorithm, own: own.aead_alg })),
        }))),
    }
}

/// The same suite, with keys that are kept small.
pub(crate) fn small(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    SMALL.iter().copied().find(|small| small.suite() == suite.suite()).unwrap_or(suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_thread_keys_are_bounded_and_freed() {
        let key = || PackedKey::new(&AES_256_GCM, AeadKey::from([7; 32]), Iv::new([1; 12]));
        let tag = |key: &mut PackedKey| {
            let mut bytes = [9; 30];
            let tag =
                key.compute(|key, iv| key.seal_in_place_separate_tag(nonce(iv, 5), Aad::empty(), &mut bytes).ok());
            tag.expect("it seals").as_ref().to_vec()
        };
        let held = || UNPACKED.with_borrow(|table| table.slots.iter().filter(|(_, key)| key.is_some()).count());
        let mut keys: Vec<_> = (0..UNPACKED_MAX + 10).map(|_| key()).collect();
        let first = tag(&mut key());
        assert_eq!(held(), 0, "it went with its owner");
        for _ in 0..2 {
            assert!(
                keys.iter_mut().all(|key| tag(key) == first),
                "the same key gives the same tag, kept or made again"
            );
            assert!((UNPACKED_MAX - 1..=UNPACKED_MAX).contains(&held()), "{}", held());
        }
        drop(keys);
        assert_eq!(held(), 0);
    }

    #[test]
    fn every_small_suite_keeps_its_parameters() {
        for own in ALL_CIPHER_SUITES {
            let ours = small(*own);
            assert_eq!(ours.suite(), own.suite());
            match (ours, own) {
                (SupportedCipherSuite::Tls13(ours), SupportedCipherSuite::Tls13(own)) => {
                    assert!(!std::ptr::eq(ours, *own));
                    assert_eq!(ours.common.confidentiality_limit, own.common.confidentiality_limit);
                    assert_eq!(ours.aead_alg.key_len(), own.aead_alg.key_len());
                }
                (SupportedCipherSuite::Tls12(ours), SupportedCipherSuite::Tls12(own)) => {
                    assert!(!std::ptr::eq(ours, *own));
                    assert_eq!(ours.common.confidentiality_limit, own.common.confidentiality_limit);
                }
                _ => panic!("another version"),
            }
        }
    }
}
