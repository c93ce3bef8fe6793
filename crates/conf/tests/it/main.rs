//! The integration tests of `conf`, one module per subject.

mod check;
mod examples;
mod golden;
mod load;
mod model;
mod nginx_agrees;
mod properties;
mod reference;
mod reuse;
mod state;
mod support;
