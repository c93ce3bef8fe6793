//! The commands: their parameters as a table, and what each does.

use super::scan::{PARAMS_MAX, Written, shown};
use super::text::{decide, evaluate};
use super::{Encoding, Host, Include, Output, Page, Shared, Within};
use crate::uri::{Escape, escape, parse_internal};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Include,
    Echo,
    Config,
    Set,
    If,
    Elif,
    Else,
    Endif,
    Block,
    Endblock,
}

/// A command.
#[derive(Debug)]
pub(super) struct Known {
    name: &'static str,
    action: Action,
    /// Its parameters, and whether each must be there.
    params: &'static [(&'static str, bool)],
    /// The part of an `if` that it must follow: `Else` is either.
    pub(super) within: Within,
    pub(super) ends_block: bool,
}

const fn known(name: &'static str, action: Action, params: &'static [(&'static str, bool)]) -> Known {
    Known { name, action, params, within: Within::Nothing, ends_block: false }
}

const COMMANDS: &[Known] = &[
    known(
        "include",
        Action::Include,
        &[("virtual", false), ("file", false), ("wait", false), ("set", false), ("stub", false)],
    ),
    known("echo", Action::Echo, &[("var", true), ("default", false), ("encoding", false)]),
    known("config", Action::Config, &[("errmsg", false), ("timefmt", false)]),
    known("set", Action::Set, &[("var", true), ("value", true)]),
    known("if", Action::If, &[("expr", true)]),
    Known { within: Within::If, ..known("elif", Action::Elif, &[("expr", true)]) },
    Known { within: Within::If, ..known("else", Action::Else, &[]) },
    Known { within: Within::Else, ..known("endif", Action::Endif, &[]) },
    known("block", Action::Block, &[("name", true)]),
    Known { ends_block: true, ..known("endblock", Action::Endblock, &[]) },
];

/// The most parameters that a command knows.
const KNOWN_PARAMS_MAX: usize = 5;

/// The values of a command's parameters, in the order of its table.
pub(super) type Values<'a> = [Option<&'a [u8]>; KNOWN_PARAMS_MAX];

/// The command with a name; case matters.
pub(super) fn find(name: &[u8]) -> Option<&'static Known> {
    COMMANDS.iter().find(|known| known.name.as_bytes() == name)
}

/// Puts the parameters of a command in the order of its table.
pub(super) fn sort<'a>(known: &Known, written: &'a Written) -> Result<Values<'a>, String> {
    let of_command = format!("in \"{}\" SSI command", known.name);
    if written.params.len() > PARAMS_MAX {
        return Err(format!("too many SSI command parameters: \"{}\"", known.name));
    }
    let mut values = Values::default();
    for param in &written.params {
        let key = shown(&param.key);
        let Some(place) = known.params.iter().position(|(name, _)| name.as_bytes() == param.key) else {
            return Err(format!("invalid parameter name: \"{key}\" {of_command}"));
        };
        if values[place].replace(&param.value).is_some() {
            return Err(format!("duplicate \"{key}\" parameter {of_command}"));
        }
    }
    let missing = known.params.iter().zip(values).find(|((_, is_needed), value)| *is_needed && value.is_none());
    match missing {
        Some(((name, _), _)) => Err(format!("mandatory \"{name}\" parameter is absent {of_command}")),
        None => Ok(values),
    }
}

impl Page {
    pub(super) fn execute(
        &mut self,
        known: &Known,
        values: &Values<'_>,
        shared: &mut Shared,
        host: &impl Host,
    ) -> Result<Output<'static>, String> {
        let [first, second, ..] = *values;
        let (main, other) = (first.unwrap_or_default(), second.unwrap_or_default());
        match known.action {
            Action::Include => return include(values, shared, host).map(|made| Output::Include(Box::new(made))),
            Action::Echo => return Ok(self.echo(values, shared, host)),
            Action::Config => {
                if let Some(format) = second {
                    host.set_time_format(format);
                }
                if let Some(text) = first {
                    self.error_text = text.to_vec();
                }
            }
            Action::Set => {
                let value = evaluate(other, None, shared, host)?;
                shared.set(&main.to_ascii_lowercase(), &value)?;
            }
            Action::If if self.within != Within::Nothing => {
                return Err("the \"if\" command inside the \"if\" command".to_owned());
            }
            Action::If | Action::Elif if self.is_chosen => self.is_shown = false,
            Action::If | Action::Elif => {
                self.is_shown = decide(main, shared, host)?;
                self.is_chosen = self.is_shown;
                self.within = Within::If;
            }
            Action::Else => {
                self.is_shown = !self.is_chosen;
                self.within = Within::Else;
            }
            Action::Endif => {
                (self.is_shown, self.is_chosen) = (true, false);
                self.within = Within::Nothing;
            }
            Action::Block => {
                shared.begin_block(main)?;
                (self.is_shown, self.is_in_block) = (false, true);
            }
            Action::Endblock => (self.is_shown, self.is_in_block) = (true, false),
        }
        Ok(Output::Nothing)
    }

    fn echo(
        &mut self,
        [name, default, encoding, ..]: &Values<'_>,
        shared: &Shared,
        host: &impl Host,
    ) -> Output<'static> {
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let mut value = Vec::new();
        let is_there = match shared.value(&name) {
            Some(known) => {
                value.extend_from_slice(known);
                true
            }
            None => host.value(&name, &mut value),
        };
        if !is_there {
            value.extend_from_slice(default.unwrap_or(b"(none)"));
        }
        if value.is_empty() {
            return Output::Nothing;
        }
        match encoding {
            None => {}
            Some(b"none") => self.encoding = Encoding::Nothing,
            Some(b"url") => self.encoding = Encoding::Url,
            Some(b"entity") => self.encoding = Encoding::Entity,
            Some(other) => {
                // As in nginx, the value appears all the same.
                host.report(&format!("unknown encoding \"{}\" in the \"echo\" command", shown(other)));
            }
        }
        Output::Made(match self.encoding {
            Encoding::Nothing => value,
            Encoding::Url => {
                let mut out = Vec::with_capacity(value.len());
                escape(&value, Escape::Html, &mut out);
                out
            }
            Encoding::Entity => entities(&value),
        })
    }
}

/// Text for HTML.
fn entities(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(*byte),
        }
    }
    out
}

fn include(
    [uri, file, wait, set, stub]: &Values<'_>,
    shared: &mut Shared,
    host: &impl Host,
) -> Result<Include, String> {
    let written = match (uri, file) {
        (Some(uri), Some(file)) => {
            let (uri, file) = (shown(uri), shown(file));
            return Err(format!("inclusion may be either virtual=\"{uri}\" or file=\"{file}\""));
        }
        (None, None) => return Err("no parameter in \"include\" SSI command".to_owned()),
        (Some(written), None) | (None, Some(written)) => *written,
    };
    if set.is_some() && stub.is_some() {
        return Err("\"set\" and \"stub\" cannot be used together in \"include\" SSI command".to_owned());
    }
    let is_waited_for = match wait {
        Some(_) if uri.is_none() => return Err(format!("\"wait\" cannot be used with file=\"{}\"", shown(written))),
        Some(word) if word.eq_ignore_ascii_case(b"yes") => true,
        Some(word) if word.eq_ignore_ascii_case(b"no") => false,
        Some(word) => return Err(format!("invalid value \"{}\" in the \"wait\" parameter", shown(word))),
        // As in nginx, a page waits for a file.
        None => uri.is_none(),
    };
    let target = evaluate(written, Some(host.uri()), shared, host)?;
    let Some((path, args)) = parse_internal(&target) else {
        return Err(format!("unsafe URI \"{}\" was detected", shown(&target)));
    };
    let args = args.map(<[u8]>::to_vec);
    let stub = match stub {
        None => None,
        Some(name) => {
            let Some(text) = shared.block(name) else {
                return Err(format!("\"stub\"=\"{}\" for \"include\" not found", shown(name)));
            };
            Some(text.to_vec())
        }
    };
    let set = set.map(<[u8]>::to_ascii_lowercase);
    if let Some(name) = &set {
        shared.declare(name)?;
    }
    Ok(Include { uri: path, args, waits: is_waited_for || set.is_some(), set, stub })
}
