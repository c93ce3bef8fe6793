//! The directive table: what is known about each directive stands in one place. The reference page
//! (docs/guide/reference.md), the checks of `-t`, suggestions and `-V` all come from it.

mod spec;

pub use spec::{Args, Context, Contexts, Directive, Inherit, Module, Support};
