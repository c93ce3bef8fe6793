//! The configuration language: nginx.conf text becomes a lossless tree with spans (`tree`), is checked against the
//! directive table (`table`), and is lowered to a typed model (`model`). Pure: no socket and no file is opened here; the
//! loader of `include` files is passed in by the caller.

pub mod diagnostic;
pub mod model;
pub mod source;
pub mod table;
pub mod tree;
pub mod value;
