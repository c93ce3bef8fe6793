//! The words of `fastcgi_pass`, `scgi_pass` and `uwsgi_pass` that have no counterpart in `proxy_pass`. The others are
//! those of `proxy` and `transport` with another prefix.

use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::tree::Word;
use crate::value::plain::{parse_bytes, parse_flag, parse_in_range, parse_u32};
use crate::value::{Parsed, Regex, Template, invalid_parameter};

/// One `fastcgi_param`, `scgi_param` or `uwsgi_param`.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationParam {
    /// The parameter's name.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Template,
    /// `if_not_empty`: it is left out where its value is empty.
    pub unless_empty: bool,
}

settings! {
    /// Settings for applications. All words except `param` exist for FastCGI only.
    pub struct ApplicationSettings {
        /// Parameters, in order.
        params: Vec<ApplicationParam> = Vec::new(), "fastcgi_param" => item(parse_param);
        /// File name behind a path that ends with a slash.
        index: Option<Vec<u8>> = None, "fastcgi_index" => option(parse_bytes);
        /// Splits the path into `$fastcgi_script_name` and `$fastcgi_path_info`.
        split_path_info: Option<Regex> = None, "fastcgi_split_path_info" => edit(edit_split);
        /// Whether connections are kept.
        keep_conn: bool = false, "fastcgi_keep_conn" => value(parse_flag);
        /// Texts on standard error that make a response invalid.
        catch_stderr: Vec<Vec<u8>> = Vec::new(), "fastcgi_catch_stderr" => item(parse_text);
    }
}

settings! {
    /// Words that only uwsgi has.
    pub struct UwsgiSettings {
        /// The kind of request.
        modifier1: u8 = 0, "uwsgi_modifier1" => value(parse_byte);
        /// A detail of that kind.
        modifier2: u8 = 0, "uwsgi_modifier2" => value(parse_byte);
    }
}

settings! {
    /// Words that only memcached has.
    pub struct MemcachedSettings {
        /// Bits of a value's flags that mean that it is compressed with gzip; 0 for none.
        gzip_flag: u32 = 0, "memcached_gzip_flag" => value(parse_u32);
    }
}

fn parse_byte(name: &str, word: &Word) -> Parsed<u8> {
    parse_in_range(name, word, 0, 255).map(|byte| byte as u8)
}

fn parse_param(at: &mut At<'_>) -> Parsed<ApplicationParam> {
    let (name, value) = (parse_bytes(at.name, at.word(0)?)?, Template::parse(at.name, at.word(1)?)?);
    let unless_empty = match at.words().get(2) {
        None => false,
        Some(word) if word.value == b"if_not_empty" => true,
        Some(word) => return Err(invalid_parameter(word)),
    };
    Ok(ApplicationParam { name, value, unless_empty })
}

fn parse_text(at: &mut At<'_>) -> Parsed<Vec<u8>> {
    parse_bytes(at.name, at.word(0)?)
}

/// As in nginx, the expression needs two groups or more.
fn edit_split(split: &mut Option<Regex>, at: &mut At<'_>) -> Parsed<()> {
    let word = at.word(0)?;
    let regex = at.env.regex(word, 0, false)?;
    if regex.names.len() < 3 {
        let message = format!("pattern \"{}\" must have 2 captures", word.text());
        return Err(Diagnostic::error(word.span, message).with_hint("such as `^(.+\\.php)(/.+)$`"));
    }
    *split = Some(regex);
    Ok(())
}
