//! Facts of a handshake that rustls does not tell afterwards: how each side has signed, and the group of a TLS 1.2 session that is resumed.
//! rustls calls keys, verifiers, groups and stores within one call of a session; they leave notes here, and the session takes them after the
//! call. `pair`, `peer`, `server` and `resume` leave notes.

use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, NamedGroup, ProtocolVersion, SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::SubjectPublicKeyInfoDer;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, LazyLock};

/// Bytes of a group's number behind the state of a session.
const GROUP_BYTES: usize = 2;

/// What is known of one handshake.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Notes {
    /// The scheme of this side's signature, by its number.
    pub(crate) own_scheme: Option<u16>,
    /// The scheme of the peer's signature.
    pub(crate) peer_scheme: Option<u16>,
    /// The group of the key exchange that this session, or the one it resumes, began with over TLS 1.2.
    pub(crate) group: Option<u16>,
}

/// Most schemes of a client that count: OpenSSL knows 36.
const OFFERED_MAX: usize = 64;

thread_local! {
    /// The schemes of the client in its order. Over TLS 1.2 rustls gives a key those of the cipher suite, in another order.
    static OFFERED: RefCell<Vec<SignatureScheme>> = const { RefCell::new(Vec::new()) };
    static NOTES: Cell<Notes> = const { Cell::new(Notes { own_scheme: None, peer_scheme: None, group: None }) };
}

/// Begins a call with what is known so far.
pub(crate) fn begin(notes: Notes) {
    NOTES.set(notes);
    OFFERED.with_borrow_mut(Vec::clear);
}

/// What is known after the call.
pub(crate) fn take() -> Notes {
    NOTES.take()
}

fn note(change: impl FnOnce(&mut Notes)) {
    let mut notes = NOTES.get();
    change(&mut notes);
    NOTES.set(notes);
}

/// The client offers these schemes; a key chooses among them later in the same call.
pub(crate) fn note_offered(schemes: &[SignatureScheme]) {
    OFFERED.with_borrow_mut(|offered| {
        offered.clear();
        offered.extend(schemes.iter().take(OFFERED_MAX).copied());
    });
}

/// The peer has signed by this scheme.
pub(crate) fn note_peer(scheme: SignatureScheme) {
    note(|notes| notes.peer_scheme = Some(scheme.into()));
}

/// The state of a session with the group that it began with, 0 for none.
pub(crate) fn with_group(state: &[u8]) -> Vec<u8> {
    [state, &NOTES.get().group.unwrap_or(0).to_be_bytes()].concat()
}

/// The state without that group, which is noted.
pub(crate) fn without_group(mut state: Vec<u8>) -> Option<Vec<u8>> {
    let group = u16::from_be_bytes(*state.last_chunk::<GROUP_BYTES>()?);
    state.truncate(state.len() - GROUP_BYTES);
    note(|notes| notes.group = (group != 0).then_some(group));
    Some(state)
}

/// A key that notes how it signs.
pub(crate) fn noting(key: Arc<dyn SigningKey>) -> Arc<dyn SigningKey> {
    Arc::new(NotingKey(key))
}

#[derive(Debug)]
struct NotingKey(Arc<dyn SigningKey>);

impl SigningKey for NotingKey {
    /// As with OpenSSL the peer's order counts: rustls prefers the longest digest.
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let mut offered = offered.to_vec();
        OFFERED.with_borrow(|order| {
            offered.sort_by_key(|scheme| order.iter().position(|other| other == scheme).unwrap_or(usize::MAX));
        });
        let signer = offered.chunks(1).find_map(|one| self.0.choose_scheme(one))?;
        Some(Box::new(NotingSigner(signer)))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.0.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}

#[derive(Debug)]
struct NotingSigner(Box<dyn Signer>);

impl Signer for NotingSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        note(|notes| notes.own_scheme = Some(self.scheme().into()));
        self.0.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.0.scheme()
    }
}

/// A group that notes when a key exchange of TLS 1.2 begins: over TLS 1.3 a server has no use for [`SupportedKxGroup::start`].
#[derive(Debug)]
struct NotingGroup(&'static dyn SupportedKxGroup);

impl SupportedKxGroup for NotingGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        note(|notes| notes.group = Some(self.name().into()));
        self.0.start()
    }

    fn start_and_complete(&self, peer_pub_key: &[u8]) -> Result<CompletedKeyExchange, Error> {
        self.0.start_and_complete(peer_pub_key)
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        self.0.ffdhe_group()
    }

    fn name(&self) -> NamedGroup {
        self.0.name()
    }

    fn fips(&self) -> bool {
        self.0.fips()
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        self.0.usable_for_version(version)
    }
}

/// The provider's groups as noting ones. rustls wants them for ever; there are a few, made once.
static GROUPS: LazyLock<Vec<&'static dyn SupportedKxGroup>> = LazyLock::new(|| {
    let all = rustls::crypto::aws_lc_rs::ALL_KX_GROUPS.iter();
    all.map(|group| -> &'static dyn SupportedKxGroup { Box::leak(Box::new(NotingGroup(*group))) }).collect()
});

/// The same group, as one that notes the key exchange.
pub(crate) fn noting_group(group: &'static dyn SupportedKxGroup) -> &'static dyn SupportedKxGroup {
    GROUPS.iter().copied().find(|noting| noting.name() == group.name()).unwrap_or(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_kept_behind_a_state() {
        begin(Notes { group: Some(29), ..Notes::default() });
        let kept = with_group(b"state");
        begin(Notes::default());
        assert_eq!(without_group(kept).unwrap(), b"state");
        assert_eq!(take().group, Some(29));
        assert_eq!(without_group(with_group(b"")).unwrap(), b"");
        assert_eq!(take().group, None);
        assert_eq!(without_group(vec![7]), None);
    }

    #[test]
    fn every_group_of_the_provider_notes() {
        for group in rustls::crypto::aws_lc_rs::ALL_KX_GROUPS {
            assert!(!std::ptr::addr_eq(noting_group(*group), *group), "{:?}", group.name());
        }
    }
}
