//! `proxy_store`: decides, once the head of a response has come, whether it is saved as a file, and under which path.

use crate::base::logs::error::{Level, quoted};
use crate::base::saved_file::SavedName;
use crate::content::proxy::Tries;
use crate::exchange::Exchange;
use crate::exchange::saving::Saving;
use crate::exchange::view::ExchangeView;
use crate::plan::store::StorePlan;
use crate::registry::generation::BoundProxy;
use http1::FieldId;
use rules::precondition::parse_date;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

impl Exchange {
    /// The file for a response with this status; `None`: it is not saved. As in nginx, a response that is passed on
    /// unbuffered is not saved. Nor is one without a body because the upstream was asked by HEAD.
    pub(super) fn begin_saving(&self, plan: &BoundProxy, status: u16, tries: &Tries) -> Option<Box<Saving>> {
        let store = plan.store.as_ref()?;
        if status != 200 || tries.asks_for_head || self.flushes(plan) {
            return None;
        }
        let path = self.saved_path(store)?;
        let answer = self.answer()?;
        let modified = answer.head.value(FieldId::LastModified, &answer.bytes).and_then(parse_date);
        Some(Box::new(Saving::new(SavedName {
            path: OsString::from_vec(path).into(),
            mode: store.mode,
            modified_s: modified.and_then(|seconds| u64::try_from(seconds).ok()),
        })))
    }

    /// The path of the file; `None` if there is none, or if it leaves its directory.
    fn saved_path(&self, store: &StorePlan) -> Option<Vec<u8>> {
        let mut path = Vec::new();
        let holds = match &store.path {
            None => {
                self.check_alias().ok()?;
                let root = &self.location().root;
                root.write_path(&ExchangeView::of(self), self.uri(), self.routing.target.is_below_alias(), &mut path);
                root.holds(&path)
            }
            Some(written) => {
                written.plan.path.write(&ExchangeView::of(self), &mut path);
                // As in nginx, an empty value switches saving off for a request.
                if path.is_empty() {
                    return None;
                }
                path.clear();
                written.plan.write(&ExchangeView::of(self), &mut path);
                written.holds(&path)
            }
        };
        let refused = match path.last() {
            _ if !holds => "leaves its directory",
            Some(b'/') | None => "is the name of a directory",
            _ => return Some(path),
        };
        self.log_at(Level::Crit, &format!("\"{}\" {refused}: the response is not saved", quoted(&path)));
        None
    }
}
