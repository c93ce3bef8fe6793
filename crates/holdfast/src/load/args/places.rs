//! The flags that say where targets are.

use load::{OtherAddress, Places};
use std::path::PathBuf;

#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct PlaceFlags {
    /// Connect to this address for a name and a port in URLs, as curl; may be given several times
    #[arg(long, value_name = "HOST:PORT:ADDRESS")]
    resolve: Vec<OtherAddress>,
    /// Connect to this Unix socket instead of the hosts in URLs
    #[arg(long, value_name = "PATH", conflicts_with_all = ["resolve", "source", "self_test"])]
    unix: Option<PathBuf>,
}

impl PlaceFlags {
    pub(super) fn places(&self) -> Places {
        Places { others: self.resolve.clone(), unix: self.unix.clone() }
    }

    pub(super) fn is_unix(&self) -> bool {
        self.unix.is_some()
    }
}
