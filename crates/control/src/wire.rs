//! The connection of a check: plain, or under TLS like the gateway's own connections to the peer. Used by `probe`.

use gateway::checks::CheckTls;
use std::io;
use tls::{RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES, Session, TlsError};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Bytes per read: a usual answer needs one read.
const READ_BYTES: usize = 4096;

pub(crate) struct Wire<S> {
    stream: S,
    tls: Option<Secure>,
}

struct Secure {
    session: Session,
    /// Decrypted bytes that were not read yet.
    plain: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn plain(stream: S) -> Self {
        Self { stream, tls: None }
    }

    /// Does the TLS handshake with a peer. The error is nginx's phrase.
    pub(crate) async fn secure(stream: S, tls: &CheckTls, peer: &str) -> Result<Self, String> {
        let name = tls.name.as_deref();
        let session = Session::client_of_peer(&tls.side, peer, name).map_err(|error| error.to_string())?;
        let mut wire = Self { stream, tls: Some(Secure { session, plain: Vec::new() }) };
        let phrase = |error: &io::Error| match error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
            Some(error) => error.upstream_phrase(name.unwrap_or_default()),
            None => format!("peer closed connection in SSL handshake ({})", gateway::errno(error)),
        };
        wire.flush().await.map_err(|error| phrase(&error))?;
        while wire.tls.as_ref().is_some_and(|tls| tls.session.is_handshaking()) {
            if wire.receive().await.map_err(|error| phrase(&error))? == 0 {
                return Err(TlsError::ClosedInHandshake.phrase());
            }
        }
        Ok(wire)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.stream.write_all(bytes).await };
        let mut record = vec![0; bytes.len().min(RECORD_BYTES_MAX) + RECORD_OVERHEAD_BYTES];
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            let sealed = tls.session.seal(rest, RECORD_BYTES_MAX, &mut record).map_err(io::Error::other)?;
            if sealed.taken == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            sent += sealed.taken;
            self.stream.write_all(record.get(..sealed.written).unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// Reads data into an empty vector; if it stays empty, the connection has ended.
    pub(crate) async fn read(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        if self.tls.is_none() {
            into.resize(READ_BYTES, 0);
            let count = self.stream.read(into).await?;
            into.truncate(count);
            return Ok(());
        }
        loop {
            if let Some(tls) = &mut self.tls {
                into.append(&mut tls.plain);
                if !into.is_empty() || tls.session.is_peer_closed() {
                    return Ok(());
                }
            }
            if self.receive().await? == 0 {
                return Ok(());
            }
        }
    }

    /// Reads and processes the next TLS data, and sends the answer. 0: the end of the socket.
    async fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = vec![0; READ_BYTES];
        let count = self.stream.read(&mut bytes).await?;
        let Some(Secure { session, plain }) = &mut self.tls else { return Ok(count) };
        let incoming = bytes.get_mut(..count).unwrap_or_default();
        let received = session.receive(incoming, &mut |part| plain.extend_from_slice(part));
        // Also after an error, because the alert tells the peer the reason.
        let flushed = self.flush().await;
        received.map_err(io::Error::other)?;
        flushed.map(|()| count)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = self.tls.as_mut().filter(|tls| tls.session.has_output()) else { return Ok(()) };
        let mut output = Vec::new();
        tls.session.take_output(&mut output);
        self.stream.write_all(&output).await
    }
}
