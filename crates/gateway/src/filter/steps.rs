//! The registry of a location's filters besides compression: what each does to a head, and the stage for its body. To
//! add one: a variant of [`FilterPlan`], a module beside this one, and a line in each function here.

use crate::downstream::reply_head::{HeadView, ReplyHead};
use crate::filter::stage::Stage;
use crate::filter::substitute;
use crate::plan::filters::FilterPlan;
use rules::template::Template;

/// Edits a head as a filter does, and returns the stage for the body; `None` if the filter leaves the response alone.
/// `value` evaluates a template.
pub(crate) fn begin(
    plan: &FilterPlan,
    head: &mut ReplyHead,
    answer: &[u8],
    value: &dyn Fn(&Template, HeadView<'_>) -> Vec<u8>,
) -> Option<Box<dyn Stage>> {
    match plan {
        FilterPlan::Substitute(plan) => substitute::begin(plan, head, answer, value),
    }
}

/// Whether a response with this head would change its length: ranges cannot be asked for then.
pub(crate) fn would_change(plan: &FilterPlan, head: HeadView<'_>) -> bool {
    match plan {
        FilterPlan::Substitute(plan) => substitute::wants(plan, head),
    }
}
