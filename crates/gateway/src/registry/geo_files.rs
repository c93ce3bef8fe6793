//! The files of `geoip2`: looked at again after their interval, and read when they have changed. The offload pool does
//! it; requests use the old database until the new one is complete.

use crate::base::file_stamp::FileStamp;
use crate::base::logs::error::{Level, errno};
use crate::lower::geoip::read_database;
use crate::plan::geoip::GeoFilePlan;
use crate::registry::process::Registry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The file of a database.
pub(crate) struct GeoFile {
    plan: GeoFilePlan,
    /// The state of the file whose content is in use.
    stamp: Mutex<Option<FileStamp>>,
    /// When it is looked at next, in seconds since 1970; 0 before the first call of [`Self::tend`].
    due_s: AtomicU64,
    is_busy: AtomicBool,
}

impl GeoFile {
    pub(crate) fn new(plan: &GeoFilePlan) -> Arc<Self> {
        Arc::new(Self {
            stamp: Mutex::new(plan.stamp.clone()),
            plan: plan.clone(),
            due_s: AtomicU64::new(0),
            is_busy: AtomicBool::new(false),
        })
    }

    /// Starts a look that is due; returns when to ask again.
    pub(crate) fn tend(self: &Arc<Self>, registry: &'static Registry, now_s: u64) -> Duration {
        let due_s = self.due_s.load(Ordering::Relaxed);
        if due_s > now_s {
            return Duration::from_secs(due_s - now_s);
        }
        self.due_s.store(now_s + self.plan.interval.as_secs(), Ordering::Relaxed);
        if due_s > 0 && !self.is_busy.swap(true, Ordering::AcqRel) {
            let file = Arc::clone(self);
            let job = move || {
                file.look(registry, now_s);
                file.is_busy.store(false, Ordering::Release);
            };
            if registry.offload.submit(job, || ()).is_err() {
                self.is_busy.store(false, Ordering::Release);
            }
        }
        self.plan.interval
    }

    fn look(&self, registry: &Registry, now_s: u64) {
        let (path, database) = (self.plan.path.display(), &self.plan.database);
        let stamp = std::fs::metadata(&self.plan.path).map(FileStamp::from);
        database.note_check(now_s);
        let mut known = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp.as_ref().is_ok_and(|stamp| known.as_ref() == Some(stamp)) {
            return;
        }
        let replaced = stamp.and_then(|_| read_database(&self.plan.path)).map_err(|error| errno(&error));
        let replaced = replaced.and_then(|(bytes, stamp)| {
            database.replace(bytes, now_s).map_err(|error| error.to_string())?;
            Ok(stamp)
        });
        match replaced {
            Ok(stamp) => {
                *known = Some(stamp);
                registry.error_log.log(Level::Notice, &format!("the database \"{path}\" has changed and is in use"));
            }
            Err(why) => registry.error_log.log(
                Level::Error,
                &format!("cannot use the changed database \"{path}\": {why}; the old one stays in use"),
            ),
        }
    }
}
