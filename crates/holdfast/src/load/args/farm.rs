//! The flags of a load that a farm runs.

use ::farm::{Access, Name, Secret};
use std::path::PathBuf;

/// The farm that is meant where none is named.
pub(in crate::load) const FARM: &str = "default";

#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "On other machines")]
pub(in crate::load) struct FarmFlags {
    /// Run the load on the agents (`holdfast load agent`) that are connected to this NATS server
    #[arg(
        long,
        value_name = "URL",
        conflicts_with_all = ["script", "processes", "self_test", "unix", "source"]
    )]
    pub(in crate::load) farm: Option<String>,
    /// The name of the farm
    #[arg(long, value_name = "NAME", requires = "farm", default_value = FARM)]
    pub(in crate::load) farm_name: Name,
    /// Number of agents to wait for, at most half a minute; by default the load takes all that are there after a second
    #[arg(long, value_name = "N", requires = "farm", value_parser = crate::typed::size)]
    pub(in crate::load) agents: Option<usize>,
    /// Give the share of an agent that is lost to another one
    #[arg(long, requires = "farm", conflicts_with = "requests")]
    pub(in crate::load) take_over: bool,
    /// Credentials for NATS: a file with a JWT and its key
    #[arg(long, value_name = "FILE", requires = "farm", conflicts_with_all = ["farm_nkey", "farm_user", "farm_token_file"])]
    farm_creds: Option<PathBuf>,
    /// Credentials for NATS: the file of an `NKey`'s seed
    #[arg(long, value_name = "FILE", requires = "farm", conflicts_with_all = ["farm_user", "farm_token_file"])]
    farm_nkey: Option<PathBuf>,
    /// Credentials for NATS: a user
    #[arg(long, value_name = "NAME", requires_all = ["farm", "farm_password_file"], conflicts_with = "farm_token_file")]
    farm_user: Option<String>,
    /// Credentials for NATS: the file of the user's password
    #[arg(long, value_name = "FILE", requires = "farm_user")]
    farm_password_file: Option<PathBuf>,
    /// Credentials for NATS: the file of a token
    #[arg(long, value_name = "FILE", requires = "farm")]
    farm_token_file: Option<PathBuf>,
    /// Certificates of authorities for NATS under TLS, as PEM, in place of the system's
    #[arg(long, value_name = "FILE", requires = "farm")]
    farm_ca: Option<PathBuf>,
    /// A certificate to show to NATS, as PEM
    #[arg(long, value_name = "FILE", requires_all = ["farm", "farm_key"])]
    farm_cert: Option<PathBuf>,
    /// Private key of the certificate for NATS, as PEM
    #[arg(long, value_name = "FILE", requires = "farm_cert")]
    farm_key: Option<PathBuf>,
}

impl FarmFlags {
    /// The access to NATS, if a farm is given.
    pub(in crate::load) fn access(&self) -> Result<Option<Access>, String> {
        let Some(url) = &self.farm else { return Ok(None) };
        let secret = secret(
            self.farm_creds.as_ref(),
            self.farm_nkey.as_ref(),
            self.farm_user.as_ref().zip(self.farm_password_file.as_ref()),
            self.farm_token_file.as_ref(),
        );
        let access = Access::new(url, secret, "--farm-").map_err(|error| error.to_string())?;
        let pair = self.farm_cert.clone().zip(self.farm_key.clone());
        Ok(Some(access.with_authorities(self.farm_ca.clone()).with_certificate(pair)))
    }
}

/// The flags for NATS of `agent` and `farm-status`.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "NATS")]
pub(in crate::load) struct NatsFlags {
    /// The NATS server, as `nats://HOST:PORT` or `tls://HOST:PORT`
    #[arg(value_name = "URL")]
    url: String,
    /// The name of the farm
    #[arg(long, value_name = "NAME", default_value = FARM)]
    pub(in crate::load) farm_name: Name,
    /// Credentials: a file with a JWT and its key
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nkey", "user", "token_file"])]
    creds: Option<PathBuf>,
    /// Credentials: the file of an `NKey`'s seed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["user", "token_file"])]
    nkey: Option<PathBuf>,
    /// Credentials: a user
    #[arg(long, value_name = "NAME", requires = "password_file", conflicts_with = "token_file")]
    user: Option<String>,
    /// Credentials: the file of the user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    password_file: Option<PathBuf>,
    /// Credentials: the file of a token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates of authorities, as PEM, in place of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A certificate to show, as PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl NatsFlags {
    pub(in crate::load) fn access(&self) -> Result<Access, String> {
        let secret = secret(
            self.creds.as_ref(),
            self.nkey.as_ref(),
            self.user.as_ref().zip(self.password_file.as_ref()),
            self.token_file.as_ref(),
        );
        let access = Access::new(&self.url, secret, "--").map_err(|error| error.to_string())?;
        let pair = self.cert.clone().zip(self.key.clone());
        Ok(access.with_authorities(self.ca.clone()).with_certificate(pair))
    }
}

/// The credentials that are given; clap lets only one of them through.
fn secret(
    creds: Option<&PathBuf>,
    nkey: Option<&PathBuf>,
    user: Option<(&String, &PathBuf)>,
    token: Option<&PathBuf>,
) -> Option<Secret> {
    let creds = creds.cloned().map(Secret::Credentials);
    let user = user.map(|(user, file)| Secret::Password(user.clone(), file.clone()));
    creds.or(nkey.cloned().map(Secret::Key)).or(user).or(token.cloned().map(Secret::Token))
}
