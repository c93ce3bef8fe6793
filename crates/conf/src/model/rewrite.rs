//! Rewrite programs: `return`, `rewrite`, `set`, `break` and `if`, in the order of the text.

use std::sync::Arc;

use super::env::Env;
use super::location::{Content, LocationSettings};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::tree::{Directive, Word};
use crate::value::size::number;
use crate::value::template::one_line;
use crate::value::{Parsed, Regex, Template, invalid_parameter};

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
    /// `break`, with the place where it was written.
    Break(Span),
    /// `if`
    If(Box<If>),
}

impl Instruction {
    /// Where it was written.
    pub fn span(&self) -> Span {
        match self {
            Self::Return(Return { span, .. }) | Self::Set { span, .. } | Self::Break(span) => *span,
            Self::Rewrite(rewrite) => rewrite.span,
            Self::If(block) => block.span,
        }
    }
}

/// `return`
#[derive(Debug, Clone, PartialEq)]
pub struct Return {
    /// 0 to 999; 444 closes without a response.
    pub status: u16,
    /// What is sent.
    pub body: ReturnBody,
    /// Where it was written.
    pub span: Span,
}

/// The text of a `return`.
#[derive(Debug, Clone, PartialEq)]
pub enum ReturnBody {
    /// Nothing; the error page if the status has one.
    None,
    /// A body.
    Text(Template),
    /// A URL to go to (301, 302, 303, 307, 308).
    Redirect(Template),
}

/// What follows a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteFlag {
    /// The next instruction.
    None,
    /// A new search for a location.
    Last,
    /// The content of this location.
    Break,
    /// A redirect with this status: 301 or 302.
    Redirect(u16),
}

/// `rewrite`
#[derive(Debug, Clone, PartialEq)]
pub struct Rewrite {
    /// Compared with the normalized URI.
    pub regex: Regex,
    /// The new URI, up to the first `?` in the text.
    pub uri: Template,
    /// The new arguments, after that `?`; `None` without a `?`.
    pub args: Option<Template>,
    /// Whether the request's own arguments are appended: not if the replacement ended in `?`.
    pub append_args: bool,
    /// What follows. Without a flag, a replacement that begins with `http://`, `https://` or `$scheme` is a 302.
    pub flag: RewriteFlag,
    /// Where it was written.
    pub span: Span,
}

/// `if`
#[derive(Debug, Clone, PartialEq)]
pub struct If {
    /// The condition.
    pub condition: Condition,
    /// The program to run if the condition holds. After it, processing continues behind the block unless the program
    /// has ended.
    pub program: Program,
    /// The settings from there on: the location's, with those of the block.
    pub settings: Arc<LocationSettings>,
    /// The content from there on.
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

/// Statuses with a URL as the text of `return`.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
/// nginx takes any code of three digits.
const STATUS_MAX: u64 = 999;

fn few_arguments(directive: &Directive) -> Diagnostic {
    let message = format!("invalid number of arguments in \"{}\" directive", directive.name.text());
    Diagnostic::error(directive.name.span, message)
}

fn is_url(text: &[u8]) -> bool {
    [&b"http://"[..], b"https://", b"$scheme"].iter().any(|prefix| text.starts_with(prefix))
}

/// Reads a `return`.
pub(crate) fn parse_return(directive: &Directive, out: &mut Vec<Diagnostic>) -> Parsed<Return> {
    let first = directive.args.first().ok_or_else(|| few_arguments(directive))?;
    let span = directive.span;
    let second = directive.args.get(1);
    let Some(status) = number(&first.value).filter(|&status| status <= STATUS_MAX) else {
        if second.is_none() && is_url(&first.value) {
            let url = Template::parse_line("return", first, out)?;
            return Ok(Return { status: 302, body: ReturnBody::Redirect(url), span });
        }
        return Err(Diagnostic::error(first.span, format!("invalid return code \"{}\"", first.text()))
            .with_hint("a code, a code with a text or URL, or a URL that begins with http://, https:// or $scheme"));
    };
    let status = status as u16;
    let body = match second {
        None => ReturnBody::None,
        Some(word) if REDIRECTS.contains(&status) => ReturnBody::Redirect(Template::parse_line("return", word, out)?),
        Some(word) => ReturnBody::Text(Template::parse("return", word)?),
    };
    Ok(Return { status, body, span })
}

/// Reads a `rewrite`.
pub(crate) fn parse_rewrite(directive: &Directive, env: &Env, out: &mut Vec<Diagnostic>) -> Parsed<Rewrite> {
    let [pattern, replacement, rest @ ..] = directive.args.as_slice() else { return Err(few_arguments(directive)) };
    let regex = env.regex(pattern, 0, false)?;
    if replacement.value.is_empty() {
        return Err(Diagnostic::error(replacement.span, "empty replacement"));
    }
    let replacement = one_line("rewrite", replacement, out);
    let url = is_url(&replacement.value);
    let flag = match rest.first() {
        None => RewriteFlag::None,
        Some(word) => match word.value.as_slice() {
            b"last" => RewriteFlag::Last,
            b"break" => RewriteFlag::Break,
            b"redirect" => RewriteFlag::Redirect(302),
            b"permanent" => RewriteFlag::Redirect(301),
            _ => return Err(invalid_parameter(word).with_hint("`last`, `break`, `redirect` or `permanent`")),
        },
    };
    // A URL always redirects the client, with any flag.
    let flag = match flag {
        RewriteFlag::Redirect(status) => RewriteFlag::Redirect(status),
        _ if url => RewriteFlag::Redirect(302),
        flag => flag,
    };
    let (text, append_args) = match replacement.value.split_last() {
        Some((b'?', text)) => (text, false),
        _ => (replacement.value.as_slice(), true),
    };
    let whole =
        Template::parse("rewrite", &Word { value: text.into(), span: replacement.span, quote: replacement.quote })?;
    let (uri, args) = whole.split_at_question();
    Ok(Rewrite { regex, uri, args, append_args, flag, span: directive.span })
}

/// Reads a variable's name behind its `$`.
pub(crate) fn parse_variable(word: &Word) -> Parsed<String> {
    let name = word.value.strip_prefix(b"$").filter(|name| !name.is_empty());
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    name.map(str::to_owned).ok_or_else(|| {
        Diagnostic::error(word.span, format!("invalid variable name \"{}\"", word.text()))
            .with_hint("a variable is `$name`")
    })
}

/// Reads a `set`.
pub(crate) fn parse_set(directive: &Directive) -> Parsed<Instruction> {
    let [variable, value, ..] = directive.args.as_slice() else { return Err(few_arguments(directive)) };
    let variable = parse_variable(variable)?;
    Ok(Instruction::Set { variable, value: Template::parse("set", value)?, span: directive.span })
}

/// Reads the condition of an `if`, parentheses included.
pub(crate) fn parse_condition(directive: &Directive, env: &Env) -> Parsed<Condition> {
    let words = strip_parentheses(directive)?;
    let invalid = |word: &Word| {
        Diagnostic::error(word.span, format!("invalid condition \"{}\"", word.text()))
            .with_hint("`($variable)`, `($variable = text)`, `($variable ~ expression)` or `(-f path)`")
    };
    let Some(first) = words.first() else {
        return Err(directive.args.first().map_or_else(|| few_arguments(directive), invalid));
    };
    match (first.value.as_slice(), words.as_slice()) {
        ([b'$', _, ..], [_]) => parse_variable(first).map(Condition::True),
        ([b'$', _, ..], [_, operator, operand]) => parse_comparison(parse_variable(first)?, operator, operand, env),
        ([b'-', test], [_, path]) => parse_file_test(*test, false, path).unwrap_or_else(|| Err(invalid(first))),
        ([b'!', b'-', test], [_, path]) => parse_file_test(*test, true, path).unwrap_or_else(|| Err(invalid(first))),
        _ => Err(invalid(first)),
    }
}

fn strip_parentheses(directive: &Directive) -> Parsed<Vec<Word>> {
    let mut words = directive.args.clone();
    let (Some(first), Some(last)) = (directive.args.first(), directive.args.last()) else {
        return Err(few_arguments(directive));
    };
    let invalid = |word: &Word| {
        Diagnostic::error(word.span, format!("invalid condition \"{}\"", word.text()))
            .with_hint("a condition is in parentheses")
    };
    if !first.value.starts_with(b"(") {
        return Err(invalid(first));
    }
    if !last.value.ends_with(b")") || (words.len() == 1 && last.value.len() < 2) {
        return Err(invalid(last));
    }
    words[0].value = words[0].value[1..].into();
    if let Some(last) = words.last_mut() {
        last.value = last.value[..last.value.len() - 1].into();
    }
    if directive.args.len() > 1 && last.value.len() == 1 {
        words.pop();
    }
    if first.value.len() == 1 {
        words.remove(0);
    }
    Ok(words)
}

fn parse_comparison(variable: String, operator: &Word, operand: &Word, env: &Env) -> Parsed<Condition> {
    let (negated, sign) = match operator.value.as_slice() {
        [b'!', sign @ ..] => (true, sign),
        sign => (false, sign),
    };
    match sign {
        b"=" => Ok(Condition::Equal { variable, value: Template::parse("if", operand)?, negated }),
        b"~" => Ok(Condition::Match { variable, regex: env.regex(operand, 0, false)?, negated }),
        b"~*" => Ok(Condition::Match { variable, regex: env.regex(operand, 0, true)?, negated }),
        _ => Err(Diagnostic::error(operator.span, format!("unexpected \"{}\" in condition", operator.text()))
            .with_hint("one of `=`, `!=`, `~`, `~*`, `!~`, `!~*`")),
    }
}

fn parse_file_test(test: u8, negated: bool, path: &Word) -> Option<Parsed<Condition>> {
    let build: fn(Template, bool) -> Condition = match test {
        b'f' => |path, negated| Condition::File { path, negated },
        b'd' => |path, negated| Condition::Directory { path, negated },
        b'e' => |path, negated| Condition::Exists { path, negated },
        b'x' => |path, negated| Condition::Executable { path, negated },
        _ => return None,
    };
    Some(Template::parse("if", path).map(|path| build(path, negated)))
}
