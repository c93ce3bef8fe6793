//! The connection to NATS: its address, the credentials, TLS, and what to do if it cannot be opened.

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use std::error::Error as _;
use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::mpsc;

/// Longest file with a password, a token or a key: those of NATS have some hundred bytes.
const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// The longest pause between two attempts to connect again: a run goes on as soon as the server is back.
const AGAIN_MAX: Duration = Duration::from_millis(250);
/// Time for a connection to be established, with TLS and credentials.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that wait for the event loop: several for each of 256 agents.
const MESSAGES_MAX: usize = 4096;

/// Why the farm cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FarmError {
    /// The address or the credentials cannot be used.
    #[error("{0}")]
    Access(String),
    /// The server cannot be reached now; it may be later.
    #[error("{0}")]
    Unreachable(String),
    /// The agents that are wanted are not there.
    #[error("{0}")]
    Agents(String),
}

/// How one proves to NATS who one is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    /// A file of credentials: a JWT and its key.
    Credentials(PathBuf),
    /// A user, and the file of the password.
    Password(String, PathBuf),
    /// The file of a token.
    Token(PathBuf),
    /// The file of the seed of an `NKey`.
    Key(PathBuf),
}

/// A NATS server, and how to connect to it.
#[derive(Debug, Clone)]
pub struct Access {
    server: ServerAddr,
    secret: Option<Secret>,
    /// How the flags for it begin, for messages: `--` or `--farm-`.
    flags: &'static str,
    authorities: Option<PathBuf>,
    /// A certificate to show, and its key.
    pair: Option<(PathBuf, PathBuf)>,
}

impl Access {
    /// Checks the address, and that there are credentials if the server is on another machine. Messages name flags that begin
    /// with `flags`.
    pub fn new(url: &str, secret: Option<Secret>, flags: &'static str) -> Result<Self, FarmError> {
        let access = |text: String| FarmError::Access(text);
        let server = ServerAddr::from_str(url).map_err(|error| access(format!("{url}: {error}")))?;
        if !["nats", "tls"].contains(&server.scheme()) || server.host().is_empty() {
            return Err(access(format!("{url}: the address of NATS is nats://HOST:PORT or tls://HOST:PORT")));
        }
        if server.has_user_pass() {
            return Err(access(format!(
                "a password in the address of NATS can be read by every user of this machine: give {flags}user and \
                 {flags}password-file, or {flags}token-file"
            )));
        }
        if secret.is_none() && !is_loopback(server.host()) {
            return Err(access(format!(
                "NATS at {} is on another machine, so credentials are necessary: {}",
                server.host(),
                ways(flags)
            )));
        }
        Ok(Self { server, secret, flags, authorities: None, pair: None })
    }

    /// Takes certificates of these authorities, in place of the system's.
    #[must_use]
    pub fn with_authorities(mut self, file: Option<PathBuf>) -> Self {
        self.authorities = file;
        self
    }

    /// Shows a certificate.
    #[must_use]
    pub fn with_certificate(mut self, pair: Option<(PathBuf, PathBuf)>) -> Self {
        self.pair = pair;
        self
    }

    /// What is dangerous about it: a secret that travels without encryption.
    pub fn warning(&self) -> Option<String> {
        let readable = matches!(self.secret, Some(Secret::Password(..) | Secret::Token(_)));
        (readable && !self.server.tls_required() && !is_loopback(self.server.host())).then(|| {
            format!(
                "the password or token goes to {} without encryption unless the server demands TLS: use tls://, {flags}nkey or \
                 {flags}creds",
                self.server.host(),
                flags = self.flags
            )
        })
    }

    fn place(&self) -> String {
        format!("{}:{}", self.server.host(), self.server.port())
    }

    /// Connects. Connections that break later are opened again; `events` gets both.
    pub(crate) async fn connect(
        &self,
        name: String,
        events: mpsc::UnboundedSender<Event>,
    ) -> Result<Client, FarmError> {
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(CONNECT_TIMEOUT)
            .subscription_capacity(MESSAGES_MAX)
            .reconnect_delay_callback(|attempt| AGAIN_MAX.min(Duration::from_millis(20 * attempt as u64)))
            .event_callback(move |event| {
                let events = events.clone();
                async move {
                    // The receiver is gone when the farm has ended.
                    let _ = events.send(event);
                }
            });
        if self.server.tls_required() || self.authorities.is_some() || self.pair.is_some() {
            options = options.require_tls(true);
        }
        if let Some(file) = &self.authorities {
            readable(file)?;
            options = options.add_root_certificates(file.clone());
        }
        if let Some((certificate, key)) = &self.pair {
            readable(certificate)?;
            readable(key)?;
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        options = match &self.secret {
            None => options,
            Some(Secret::Password(user, file)) => options.user_and_password(user.clone(), secret_of(file)?),
            Some(Secret::Token(file)) => options.token(secret_of(file)?),
            Some(Secret::Key(file)) => options.nkey(secret_of(file)?),
            Some(Secret::Credentials(file)) => options
                // The parser wants a line end behind the last line.
                .credentials(&format!("{}\n", secret_of(file)?))
                .map_err(|error| FarmError::Access(format!("{}: no file of credentials: {error}", file.display())))?,
        };
        options.connect(self.server.clone()).await.map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &async_nats::ConnectError) -> FarmError {
        let place = self.place();
        let mut causes = String::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !causes.contains(&text) {
                let _ = write!(causes, "{}{text}", if causes.is_empty() { "" } else { ": " });
            }
            cause = error.source();
        }
        // rustls's errors come as those of the socket. A server without TLS sends what is no record of TLS.
        let is_tls = ["certificate", "tls", "TLS", "corrupt message"].iter().any(|word| causes.contains(word));
        match error.kind() {
            ConnectErrorKind::AuthorizationViolation if self.secret.is_none() => {
                FarmError::Access(format!("NATS at {place} demands credentials: {}", ways(self.flags)))
            }
            ConnectErrorKind::AuthorizationViolation => {
                FarmError::Access(format!("NATS at {place} does not accept the credentials given"))
            }
            ConnectErrorKind::Authentication => {
                let why = if causes.is_empty() { "the key is not valid" } else { causes.as_str() };
                FarmError::Access(format!("the credentials for NATS at {place} cannot be used: {why}"))
            }
            ConnectErrorKind::Tls => FarmError::Access(format!(
                "TLS with NATS at {place} failed: {}; {}ca names the authority of its certificate",
                if causes.is_empty() { error.to_string() } else { causes },
                self.flags
            )),
            ConnectErrorKind::Io if is_tls => FarmError::Access(format!(
                "TLS with NATS at {place} failed: {causes}; {}ca names the authority of its certificate",
                self.flags
            )),
            _ => FarmError::Unreachable(format!(
                "NATS at {place} cannot be reached: {}",
                if causes.is_empty() { error.to_string() } else { causes }
            )),
        }
    }
}

/// The flags of credentials.
fn ways(flags: &str) -> String {
    format!("{flags}creds, {flags}nkey, {flags}user with {flags}password-file, or {flags}token-file")
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn readable(file: &Path) -> Result<(), FarmError> {
    fs::File::open(file).map(drop).map_err(|error| FarmError::Access(format!("{}: {error}", file.display())))
}

/// The text of a file with a secret, without the line end.
fn secret_of(file: &Path) -> Result<String, FarmError> {
    use std::io::Read as _;
    let wrong = |problem: String| FarmError::Access(format!("{}: {problem}", file.display()));
    let mut text = String::new();
    let opened = fs::File::open(file).map_err(|error| wrong(error.to_string()))?;
    opened.take(SECRET_BYTES_MAX).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    let text = text.trim_end().to_owned();
    if text.is_empty() { Err(wrong("the file is empty".to_owned())) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str, secret: Option<Secret>) -> String {
        Access::new(url, secret, "--").map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn credentials_are_necessary_off_loopback() {
        for url in ["nats://127.0.0.1:4222", "nats://localhost", "tls://[::1]:4222", "127.9.9.9:1"] {
            assert_eq!(refusal(url, None), "", "{url}");
        }
        for url in ["nats://192.0.2.1:4222", "tls://nats.example", "nats://localhost.example"] {
            assert!(refusal(url, None).contains("so credentials are necessary: --creds"), "{url}");
            assert_eq!(refusal(url, Some(Secret::Token("x".into()))), "", "{url}");
        }
    }

    #[test]
    fn refuses_passwords_in_the_address_and_other_protocols() {
        assert!(refusal("nats://a:b@127.0.0.1", None).contains("--password-file"));
        for url in ["ws://127.0.0.1", "http://127.0.0.1", "nats://"] {
            assert!(!refusal(url, None).is_empty(), "{url}");
        }
    }

    #[test]
    fn warns_of_a_secret_that_travels_in_the_clear() {
        let warning = |url: &str, secret| Access::new(url, Some(secret), "--").unwrap().warning().is_some();
        let (token, key) = (Secret::Token("x".into()), Secret::Key("x".into()));
        assert!(warning("nats://192.0.2.1", token.clone()));
        assert!(!warning("tls://192.0.2.1", token.clone()) && !warning("nats://127.0.0.1", token));
        assert!(!warning("nats://192.0.2.1", key), "a signature proves a key, which stays here");
    }
}
