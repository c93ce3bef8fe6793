//! Changes to bodies on their way to the client, besides compression: `sub_filter`, `ssi`.

use super::gzip::{MediaTypes, edit_types};
use super::settings::{At, settings};
use crate::diagnostic::Diagnostic;
use crate::value::plain::parse_flag;
use crate::value::size::parse_size;
use crate::value::{Parsed, Template};

/// One `sub_filter`.
#[derive(Debug, Clone, PartialEq)]
pub struct Substitution {
    /// The text to search for, without regard to case.
    pub text: Template,
    /// The text that replaces it.
    pub replacement: Template,
}

settings! {
    /// Filters of a location.
    pub struct FilterSettings {
        /// Texts that are replaced.
        substitutions: Vec<Substitution> = Vec::new(), "sub_filter" => item(parse_substitution);
        /// Media types of bodies in which they are replaced.
        sub_types: MediaTypes = MediaTypes::Some(vec![b"text/html".to_vec()]), "sub_filter_types" => edit(edit_types);
        /// Whether replacing stops after as many replacements as there are texts.
        sub_once: bool = true, "sub_filter_once" => value(parse_flag);
        /// Whether `Last-Modified` stays.
        sub_last_modified: bool = false, "sub_filter_last_modified" => value(parse_flag);
        /// Whether the commands of pages are executed.
        ssi: bool = false, "ssi" => value(parse_flag);
        /// Media types of such pages.
        ssi_types: MediaTypes = MediaTypes::Some(vec![b"text/html".to_vec()]), "ssi_types" => edit(edit_types);
        /// Whether a command that fails leaves no text.
        ssi_silent_errors: bool = false, "ssi_silent_errors" => value(parse_flag);
        /// Bytes of a parameter's value.
        ssi_value_length: u64 = 256, "ssi_value_length" => value(parse_size);
        /// Whether `Last-Modified` stays.
        ssi_last_modified: bool = false, "ssi_last_modified" => value(parse_flag);
        /// Bytes of an included response that a variable gets.
        subrequest_bytes: u64 = 4 << 10, "subrequest_output_buffer_size" => value(parse_size);
    }
}

fn parse_substitution(at: &mut At<'_>) -> Parsed<Substitution> {
    let text = at.word(0)?;
    if text.value.is_empty() {
        return Err(Diagnostic::error(text.span, "empty search pattern"));
    }
    Ok(Substitution { text: Template::parse(at.name, text)?, replacement: Template::parse(at.name, at.word(1)?)? })
}
