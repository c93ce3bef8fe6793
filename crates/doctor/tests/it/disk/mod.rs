//! Configurations for tests: a text as if it were /etc/nginx/nginx.conf.

use doctor::Configuration;
use std::io;
use std::path::{Path, PathBuf};

struct OneText<'a>(&'a str);

impl conf::Loader for OneText<'_> {
    fn read(&mut self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn glob(&mut self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

/// The text, which must be a configuration.
pub(crate) fn parsed(text: &str) -> Configuration {
    let loaded = conf::load(Path::new("nginx.conf"), Path::new("/etc/nginx"), None, &mut OneText(text));
    assert!(loaded.is_ok(), "{text}: {:?}", loaded.diagnostics);
    Configuration::new(loaded)
}
