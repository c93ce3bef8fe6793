//! `rewrite`: from a URI that matches to the new one, its arguments, or a redirect. Escapes are the delicate part, and are
//! nginx's: groups of an expression have lost the client's escapes, so they get them back where they become arguments or
//! a redirect.

use super::{Machine, Rewrite, Stop, Then, matches};
use crate::pattern::MatchError;
use crate::template::{Template, View};
use crate::uri::{Escape, escape};
use crate::variable::Variable;

/// The result of a `rewrite`.
pub(super) enum Rewritten {
    /// The program goes on: the URI does not match.
    Missed,
    /// The program goes on with another URI.
    Matched,
    /// The program ends.
    Stopped(Stop),
}

impl Rewrite {
    /// Does it.
    pub(super) fn run<M: Machine>(&self, machine: &mut M, logs: bool) -> Result<Rewritten, MatchError> {
        if !matches(&self.pattern, machine.uri(), machine, logs)? {
            return Ok(Rewritten::Missed);
        }
        if let Then::Redirect(status) = self.then {
            let url = self.redirect(machine);
            if logs {
                machine.notice(&format!("rewritten redirect: \"{}\"", url.escape_ascii()));
            }
            return Ok(Rewritten::Stopped(Stop::Redirect(status, url)));
        }
        let mut uri = Vec::new();
        self.uri.write(machine, &mut uri);
        let args = self.args(machine);
        if logs {
            let args = args.as_deref().unwrap_or(machine.args());
            machine.notice(&format!("rewritten data: \"{}\", args: \"{}\"", uri.escape_ascii(), args.escape_ascii()));
        }
        if uri.is_empty() {
            return Ok(Rewritten::Stopped(Stop::Failed("the rewritten URI has a zero length".into())));
        }
        machine.rewrite(uri, args, self.then == Then::Break);
        Ok(match self.then {
            Then::Last | Then::Break => Rewritten::Stopped(Stop::End),
            Then::Next | Then::Redirect(_) => Rewritten::Matched,
        })
    }

    /// The arguments from now on; `None` leaves them.
    fn args<M: Machine>(&self, machine: &M) -> Option<Vec<u8>> {
        let own = machine.args();
        match &self.args {
            Some(template) => {
                let mut args = Vec::new();
                write_escaped(template, machine, &mut args);
                if self.append_args && !own.is_empty() {
                    args.push(b'&');
                    args.extend_from_slice(own);
                }
                Some(args)
            }
            None => (!self.append_args).then(Vec::new),
        }
    }

    /// The URL of a redirect.
    fn redirect<M: Machine>(&self, machine: &M) -> Vec<u8> {
        let mut written = Vec::new();
        write_escaped(&self.uri, machine, &mut written);
        if let Some(args) = &self.args {
            written.push(b'?');
            write_escaped(args, machine, &mut written);
        }
        let mut url = Vec::with_capacity(written.len());
        unescape_redirect(&written, &mut url);
        let own = machine.args();
        if self.append_args && !own.is_empty() {
            url.push(if self.args.is_some() { b'&' } else { b'?' });
            url.extend_from_slice(own);
        }
        url
    }
}

/// Writes a template with its groups escaped, if the client's path had escapes that they have lost.
pub(super) fn write_escaped<M: Machine>(template: &Template, machine: &M, out: &mut Vec<u8>) {
    let has_groups = template.variables().any(|variable| matches!(variable, Variable::Capture(_)));
    if has_groups && machine.was_quoted() {
        template.write(&EscapedGroups(machine), out);
    } else {
        template.write(machine, out);
    }
}

/// A view in which groups are escaped as arguments. Named ones are variables, and are not.
struct EscapedGroups<'a, M>(&'a M);

impl<M: Machine> View for EscapedGroups<'_, M> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let Variable::Capture(_) = variable else { return self.0.write(variable, out) };
        let mut group = Vec::new();
        let found = self.0.write(variable, &mut group);
        escape(&group, Escape::Args, out);
        found
    }
}

/// Takes escapes of visible characters back in the path of a URL, as nginx does before it sends a redirect; what is
/// behind a `?` stays.
fn unescape_redirect(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        match byte {
            b'?' => {
                out.push(byte);
                break;
            }
            b'%' => rest = unescape_one(rest, out),
            _ => out.push(byte),
        }
        if out.last() == Some(&b'?') {
            break;
        }
    }
    out.extend_from_slice(rest);
}

/// What is behind a `%`. Bytes that are no hexadecimal digits lose it, as they do in nginx.
fn unescape_one<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((&high, tail)) = rest.split_first() else { return rest };
    let Some(high_value) = (high as char).to_digit(16) else {
        out.push(high);
        return tail;
    };
    let Some((&low, tail)) = tail.split_first() else { return tail };
    let Some(low_value) = (low as char).to_digit(16) else { return tail };
    let byte = (high_value << 4 | low_value) as u8;
    // A `?` that was escaped with a letter (`%3F`) is visible, too.
    if byte > b'%' && byte < 0x7f {
        out.push(byte);
    } else {
        out.extend_from_slice(&[b'%', high, low]);
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::unescape_redirect;

    #[test]
    fn visible_characters_lose_their_escapes_up_to_the_arguments() {
        let unescaped = |text: &str| {
            let mut out = Vec::new();
            unescape_redirect(text.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(unescaped("/a%2Fb%41%20%25%C3%a4"), "/a/bA%20%25%C3%a4");
        assert_eq!(unescaped("/a?b%41"), "/a?b%41");
        assert_eq!(unescaped("/a%3Fb%41"), "/a?b%41");
        assert_eq!(unescaped("/a%zz%4"), "/azz");
    }
}
