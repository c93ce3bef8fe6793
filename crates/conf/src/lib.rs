//! The configuration language: nginx.conf text becomes a lossless tree with spans (`tree`), is checked against the
//! directive table (`table`), and is lowered to a typed model (`model`). Pure: no socket and no file is opened here; the
//! loader of `include` files is passed in by the caller.

pub mod bytes;
mod check;
pub mod diagnostic;
mod lex;
pub mod load;
pub mod model;
mod parse;
pub mod reference;
pub mod reuse;
pub mod source;
pub mod table;
pub mod tree;
pub mod value;
pub mod verdict;

pub use check::{check, check_reusing};
pub use load::{Loaded, Loader, load};
