//! The flags of a load under TLS.

use load::TlsOptions;
use load::results::read_at_most;
use std::path::{Path, PathBuf};

/// Longest PEM file: the system's list of authorities has a quarter of a megabyte.
const PEM_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "For https:// and wss:// URLs")]
pub(super) struct TlsFlags {
    /// Take any certificate
    #[arg(long)]
    insecure: bool,
    /// Certificates of authorities, as PEM, in place of the system's
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// A certificate to show, with its chain, as PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The name to ask for and to check, in place of the URL's host
    #[arg(long, value_name = "NAME")]
    sni: Option<String>,
    /// Whether sessions are resumed
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = parse_switch, action = clap::ArgAction::Set)]
    tls_resume: bool,
    /// Count handshakes: a connection for each, and no request behind it
    #[arg(long)]
    handshakes: bool,
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off".to_owned()),
    }
}

impl TlsFlags {
    /// The TLS options if some URL needs TLS; otherwise none of the flags may be given.
    pub(super) fn options(&self, is_tls: bool) -> Result<TlsOptions, String> {
        let given = [
            (self.insecure, "--insecure"),
            (self.ca.is_some(), "--ca"),
            (self.cert.is_some(), "--cert"),
            (self.sni.is_some(), "--sni"),
            (!self.tls_resume, "--tls-resume"),
            (self.handshakes, "--handshakes"),
        ];
        if let Some((_, flag)) = given.iter().find(|(given, _)| *given && !is_tls) {
            return Err(format!("{flag} is for https:// and wss:// URLs"));
        }
        let read = |path: &Path| read_at_most(path, PEM_BYTES_MAX);
        let pair = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            _ => None,
        };
        Ok(TlsOptions {
            insecure: self.insecure,
            authorities: self.ca.as_deref().map(read).transpose()?,
            pair,
            name: self.sni.clone(),
            resume: self.tls_resume,
            handshakes_only: self.handshakes,
        })
    }

    /// Whether only handshakes are counted.
    pub(super) fn handshakes_only(&self) -> bool {
        self.handshakes
    }
}
