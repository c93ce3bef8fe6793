//! Rewrite programs: `return`, `rewrite`, `set`, `break` and `if`, in the order in which they were written.

use std::sync::Arc;

use super::location::{Content, LocationSettings};
use crate::source::Span;
use crate::value::{Regex, Template};

/// Instructions in order.
pub type Program = Vec<Instruction>;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Instruction {
    /// `return`
    Return(Return),
    /// `rewrite`
    Rewrite(Box<Rewrite>),
    /// `set`
    Set {
        /// The variable's name, without `$`.
        variable: String,
        /// Its value.
        value: Template,
        /// Where it was written.
        span: Span,
    },
    /// `break`
    Break,
    /// `if`
    If(Box<If>),
}

/// `return`
#[derive(Debug, Clone, PartialEq)]
pub struct Return {
    /// 0 to 999; 444 closes without a response.
    pub status: u16,
    /// What is said.
    pub body: ReturnBody,
    /// Where it was written.
    pub span: Span,
}

/// The text of a `return`.
#[derive(Debug, Clone, PartialEq)]
pub enum ReturnBody {
    /// Nothing: an error page, where the status has one.
    None,
    /// A body.
    Text(Template),
    /// A URL to go to (301, 302, 303, 307, 308).
    Redirect(Template),
}

/// How a rewrite goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteFlag {
    /// With the next instruction.
    None,
    /// With a new search for a location.
    Last,
    /// With the content of this location.
    Break,
    /// With a redirect of this status: 301 or 302.
    Redirect(u16),
}

/// `rewrite`
#[derive(Debug, Clone, PartialEq)]
pub struct Rewrite {
    /// Compared with the normalized URI.
    pub regex: Regex,
    /// The new URI, up to the first `?` that was written.
    pub uri: Template,
    /// New arguments, which stood behind that `?`; `None` where there was none.
    pub args: Option<Template>,
    /// Whether the request's own arguments are put behind them: not if the replacement ended in `?`.
    pub append_args: bool,
    /// How it goes on. A replacement that begins with `http://`, `https://` or `$scheme` is a 302 without any flag.
    pub flag: RewriteFlag,
    /// Where it was written.
    pub span: Span,
}

/// `if`
#[derive(Debug, Clone, PartialEq)]
pub struct If {
    /// When.
    pub condition: Condition,
    /// What is done then; it goes on behind the block unless something in it ended the program.
    pub program: Program,
    /// What holds from then on: the location's settings with those of the block.
    pub settings: Arc<LocationSettings>,
    /// The content from then on.
    pub content: Option<Content>,
    /// Where it was written.
    pub span: Span,
}

/// A condition of `if`.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// The variable is neither empty nor `0`.
    True(String),
    /// The variable equals the string, or not.
    Equal {
        /// The variable's name.
        variable: String,
        /// What it is compared with.
        value: Template,
        /// `!=`
        negated: bool,
    },
    /// The variable matches the expression, or not.
    Match {
        /// The variable's name.
        variable: String,
        /// The expression.
        regex: Regex,
        /// `!~`, `!~*`
        negated: bool,
    },
    /// The path is a file (`-f`), or not.
    File {
        /// The path.
        path: Template,
        /// `!-f`
        negated: bool,
    },
    /// The path is a directory (`-d`), or not.
    Directory {
        /// The path.
        path: Template,
        /// `!-d`
        negated: bool,
    },
    /// The path exists (`-e`), or not.
    Exists {
        /// The path.
        path: Template,
        /// `!-e`
        negated: bool,
    },
    /// The path is executable (`-x`), or not.
    Executable {
        /// The path.
        path: Template,
        /// `!-x`
        negated: bool,
    },
}
