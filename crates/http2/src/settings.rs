//! Settings (RFC 9113 §6.5): what we announce, and what the peer has announced.

use crate::frame::{self, kind};
use crate::hpack::{TABLE_BYTES_DEFAULT, TABLE_BYTES_MAX};
use crate::reason::Reason;

/// The window of a stream and of the connection before any setting (RFC 9113 §6.9.2).
pub(crate) const WINDOW_DEFAULT: u32 = 65_535;
/// The largest window.
pub(crate) const WINDOW_MAX: u32 = 0x7FFF_FFFF;
/// The least and default value of the largest frame size.
pub(crate) const FRAME_BYTES_DEFAULT: u32 = 16_384;
/// The largest permitted frame size.
const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
/// Most settings in one frame: nine are defined.
const SETTINGS_PER_FRAME_MAX: usize = 64;

mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 1;
    pub(super) const ENABLE_PUSH: u16 = 2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(super) const MAX_FRAME_SIZE: u16 = 5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 6;
    /// RFC 8441.
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// RFC 9218 §2.1.
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Our role on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends requests.
    Client,
    /// Sends responses.
    Server,
}

/// Our side of a connection: the settings announced to the peer, and limits that are not announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Most streams that the peer may have open.
    pub streams_max: u32,
    /// Bytes of a body that the peer may send before any of it is consumed.
    pub stream_window: u32,
    /// The same for all streams together; less than 65,535 has no effect.
    pub connection_window: u32,
    /// Bytes of the table that the peer may use in our decoder.
    pub decoder_table_bytes: u32,
    /// Most bytes of our encoder's table.
    pub encoder_table_bytes: u32,
    /// Most bytes of a head, counted as in HPACK: name, value and 32 for each field.
    pub head_bytes_max: u32,
    /// Most fields of a head.
    pub fields_max: u32,
    /// Whether a client may open a tunnel by extended CONNECT (RFC 8441).
    pub extended_connect: bool,
    /// Milliseconds in which the peer must acknowledge our settings.
    pub settings_timeout_ms: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            // nginx's default.
            streams_max: 128,
            stream_window: WINDOW_DEFAULT,
            // Half of the streams with a full window each would be 4 MB: a connection gets a quarter of that.
            connection_window: 1 << 20,
            decoder_table_bytes: TABLE_BYTES_DEFAULT,
            // Responses repeat about ten fields.
            encoder_table_bytes: 1024,
            // nginx's four header buffers of 8 KB.
            head_bytes_max: 32 * 1024,
            fields_max: 1000,
            extended_connect: false,
            settings_timeout_ms: 10_000,
        }
    }
}

impl Config {
    /// The same with every value limited to its range.
    pub(crate) fn bounded(mut self) -> Self {
        self.stream_window = self.stream_window.min(WINDOW_MAX);
        self.connection_window = self.connection_window.clamp(WINDOW_DEFAULT, WINDOW_MAX);
        self.decoder_table_bytes = self.decoder_table_bytes.min(TABLE_BYTES_MAX);
        self.encoder_table_bytes = self.encoder_table_bytes.min(TABLE_BYTES_MAX);
        self
    }

    /// Appends our SETTINGS frame.
    pub(crate) fn encode(&self, role: Role, out: &mut Vec<u8>) {
        let mut payload = Vec::with_capacity(48);
        let mut put = |id: u16, value: u32| {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        };
        match role {
            Role::Client => put(id::ENABLE_PUSH, 0),
            Role::Server => {
                put(id::MAX_CONCURRENT_STREAMS, self.streams_max);
                put(id::NO_RFC7540_PRIORITIES, 1);
            }
        }
        put(id::MAX_HEADER_LIST_SIZE, self.head_bytes_max);
        if self.stream_window != WINDOW_DEFAULT {
            put(id::INITIAL_WINDOW_SIZE, self.stream_window);
        }
        if self.decoder_table_bytes != TABLE_BYTES_DEFAULT {
            put(id::HEADER_TABLE_SIZE, self.decoder_table_bytes);
        }
        if role == Role::Server && self.extended_connect {
            put(id::ENABLE_CONNECT_PROTOCOL, 1);
        }
        frame::encode(kind::SETTINGS, 0, 0, &payload, out);
    }
}

/// The settings that the peer has announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// Most streams that we may have open.
    pub streams_max: u32,
    /// The window of a new stream, for what we send.
    pub stream_window: u32,
    /// The largest frame that we may send.
    pub frame_bytes_max: u32,
    /// Bytes of the table in the peer's decoder.
    pub table_bytes_max: u32,
    /// A hint: bytes of a head that the peer accepts.
    pub head_bytes_max: u32,
    /// Whether the peer allows extended CONNECT.
    pub extended_connect: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            streams_max: u32::MAX,
            stream_window: WINDOW_DEFAULT,
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            table_bytes_max: TABLE_BYTES_DEFAULT,
            head_bytes_max: u32::MAX,
            extended_connect: false,
        }
    }
}

impl PeerSettings {
    /// Applies the payload of a SETTINGS frame, all of it or nothing.
    pub(crate) fn take(&mut self, payload: &[u8], role: Role) -> Result<(), Reason> {
        if payload.len() > SETTINGS_PER_FRAME_MAX * 6 {
            return Err(Reason::SettingsFlood);
        }
        let (settings, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Reason::FrameLength);
        }
        let mut next = *self;
        for &[id0, id1, a, b, c, d] in settings {
            next.take_one(u16::from_be_bytes([id0, id1]), u32::from_be_bytes([a, b, c, d]), role)?;
        }
        *self = next;
        Ok(())
    }

    fn take_one(&mut self, id: u16, value: u32, role: Role) -> Result<(), Reason> {
        match id {
            id::HEADER_TABLE_SIZE => self.table_bytes_max = value,
            // A server may only send 0.
            id::ENABLE_PUSH if value > u32::from(role == Role::Server) => return Err(Reason::SettingsValue),
            id::MAX_CONCURRENT_STREAMS => self.streams_max = value,
            id::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => return Err(Reason::SettingsWindow),
            id::INITIAL_WINDOW_SIZE => self.stream_window = value,
            id::MAX_FRAME_SIZE if !(FRAME_BYTES_DEFAULT..=FRAME_BYTES_MAX).contains(&value) => {
                return Err(Reason::SettingsValue);
            }
            id::MAX_FRAME_SIZE => self.frame_bytes_max = value,
            id::MAX_HEADER_LIST_SIZE => self.head_bytes_max = value,
            id::ENABLE_CONNECT_PROTOCOL | id::NO_RFC7540_PRIORITIES if value > 1 => return Err(Reason::SettingsValue),
            // This permission cannot be revoked (RFC 8441 §3).
            id::ENABLE_CONNECT_PROTOCOL if value == 0 && self.extended_connect => return Err(Reason::SettingsValue),
            id::ENABLE_CONNECT_PROTOCOL => self.extended_connect = value == 1,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(settings: &[(u16, u32)]) -> Result<PeerSettings, Reason> {
        let pair = |&(id, value): &(u16, u32)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let payload: Vec<u8> = settings.iter().flat_map(pair).collect();
        let mut peer = PeerSettings::default();
        peer.take(&payload, Role::Server).map(|()| peer)
    }

    #[test]
    fn settings_are_taken_and_unknown_ones_are_ignored() {
        let peer = take(&[(1, 0), (2, 1), (3, 5), (4, 1), (5, 20_000), (6, 9), (8, 1), (0x0A0A, 7)]).unwrap();
        let expected = PeerSettings {
            streams_max: 5,
            stream_window: 1,
            frame_bytes_max: 20_000,
            table_bytes_max: 0,
            head_bytes_max: 9,
            extended_connect: true,
        };
        assert_eq!(peer, expected);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        assert_eq!(take(&[(2, 2)]), Err(Reason::SettingsValue));
        assert_eq!(take(&[(4, 1 << 31)]), Err(Reason::SettingsWindow));
        assert_eq!(take(&[(5, 16_383)]), Err(Reason::SettingsValue));
        assert_eq!(take(&[(5, 1 << 24)]), Err(Reason::SettingsValue));
        assert_eq!(take(&[(8, 2)]), Err(Reason::SettingsValue));
        assert_eq!(take(&[(8, 1), (8, 0)]), Err(Reason::SettingsValue));
        assert_eq!(take(&[(3, 1); 65]), Err(Reason::SettingsFlood));
        assert_eq!(PeerSettings::default().take(&[0; 7], Role::Server), Err(Reason::FrameLength));
        assert_eq!(PeerSettings::default().take(&[0, 2, 0, 0, 0, 1], Role::Client), Err(Reason::SettingsValue));
    }
}
