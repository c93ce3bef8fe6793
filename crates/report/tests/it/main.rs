//! The integration tests of `report`, one module per subject.

mod browser;
mod render;
mod sarif_schema;
