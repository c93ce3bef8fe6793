//! `proxy_store` and its kin.

use crate::base::logs::place::parent_segments;
use crate::lower::Lowering;
use crate::lower::proxy::Pass;
use crate::plan::store::{StorePath, StorePlan};
use conf::model::{Scheme, StoreChoice};
use conf::value::Part;
use std::os::unix::ffi::OsStrExt as _;

impl Lowering<'_> {
    /// Where a location saves its upstream's responses; `None` if it does not.
    pub(super) fn store_plan(&mut self, pass: Pass<'_>) -> Option<Box<StorePlan>> {
        if matches!(pass.scheme, Scheme::Grpc | Scheme::Grpcs) {
            return None;
        }
        let words = pass.settings.cache_of(pass.scheme);
        let path = match words.store.as_ref()? {
            StoreChoice::RequestFile => None,
            StoreChoice::Path(written) => {
                let parents = written.parts.iter().map(|part| match part {
                    Part::Text(text) => parent_segments(text),
                    Part::Variable(_) | Part::Capture(_) => 0,
                });
                let base = self.options.prefix.clone();
                let parents = parents.sum::<usize>() + parent_segments(base.as_os_str().as_bytes());
                Some(StorePath { plan: self.path_plan(written, &base), parents })
            }
        };
        Some(Box::new(StorePlan { path, mode: words.store_access }))
    }
}
