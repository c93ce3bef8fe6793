//! `geoip2`: reads the databases, and defines their variables.

use crate::base::file_stamp::FileStamp;
use crate::base::logs::error::errno;
use crate::lower::Lowering;
use crate::plan::geoip::{DATABASE_BYTES_MAX, GeoFilePlan};
use conf::diagnostic::Diagnostic;
use conf::model::{Geoip2, Geoip2Metadata, Geoip2Value, Geoip2Variable};
use conf::source::Span;
use conf::value::{Part, Template};
use rules::geoip::{GeoDatabase, Geoip, GeoipValue};
use rules::user_variables::Definition;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

impl Lowering<'_> {
    /// The variables of all databases.
    pub(super) fn geoips(&mut self) -> Vec<(Span, String, Definition)> {
        let declared = self.declared;
        let proxies: Arc<[_]> = declared.geoip_proxies.networks.as_slice().into();
        let mut made = Vec::new();
        for geoip in &declared.geoips {
            let Some(database) = self.geo_database(geoip) else { continue };
            for variable in &geoip.variables {
                let value = self.geoip_value(variable);
                let recursive = declared.geoip_proxies.recursive;
                let table = Geoip::new(Arc::clone(&database), value, Arc::clone(&proxies), recursive);
                made.push((variable.span, variable.name.clone(), Definition::Geoip(Box::new(table))));
            }
        }
        made
    }

    fn geoip_value(&mut self, variable: &Geoip2Variable) -> GeoipValue {
        match &variable.value {
            Geoip2Value::Metadata(Geoip2Metadata::BuildEpoch) => GeoipValue::BuildEpoch,
            Geoip2Value::Metadata(Geoip2Metadata::LastCheck) => GeoipValue::LastCheck,
            Geoip2Value::Metadata(Geoip2Metadata::LastChange) => GeoipValue::LastChange,
            Geoip2Value::Data { source, default, path } => GeoipValue::Data {
                source: source.as_ref().map(|name| {
                    self.template(&Template { parts: vec![Part::Variable(name.clone())], span: variable.span })
                }),
                default: default.as_deref().map(Into::into),
                path: path.iter().map(|name| name.as_slice().into()).collect(),
            },
        }
    }

    fn geo_database(&mut self, geoip: &Geoip2) -> Option<Arc<GeoDatabase>> {
        let path = self.options.conf_directory.join(OsStr::from_bytes(&geoip.file));
        let (bytes, stamp) = match read_database(&path) {
            // Only another process may read it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => match (self.options.read)(&path) {
                Ok(bytes) => (bytes, None),
                Err(error) => return self.no_database(geoip, &path, &errno(&error), READABLE),
            },
            Err(error) => return self.no_database(geoip, &path, &errno(&error), READABLE),
            Ok((bytes, stamp)) => (bytes, Some(stamp)),
        };
        match GeoDatabase::parse(bytes, self.options.now_s) {
            Ok(database) => {
                let database = Arc::new(database);
                if let Some(interval) = geoip.reload {
                    let database = Arc::clone(&database);
                    self.plan.geo_files.push(GeoFilePlan { path, database, stamp, interval });
                }
                Some(database)
            }
            Err(error) => self.no_database(geoip, &path, &error.to_string(), WHOLE),
        }
    }

    fn no_database(&mut self, geoip: &Geoip2, path: &Path, why: &str, hint: &str) -> Option<Arc<GeoDatabase>> {
        let message = format!("cannot use the database \"{}\": {why}", path.display());
        self.found.push(Diagnostic::error(geoip.file_span, message).with_hint(hint));
        None
    }
}

const READABLE: &str = "check the path, which counts from the folder of the main file, and who may read the file";
const WHOLE: &str =
    "download the file again: a database of MaxMind's format, version 2, ends in .mmdb and is not packed";

/// Reads a database, and the state of its file. Not by `LowerOptions::read`: the master keeps what that reads and passes it
/// to the child, and a database may have a gigabyte.
pub(crate) fn read_database(path: &Path) -> io::Result<(Vec<u8>, FileStamp)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.len() > DATABASE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "larger than 1 GB"));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    let stamp = FileStamp::from(metadata);
    file.take(DATABASE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((bytes, stamp))
}
