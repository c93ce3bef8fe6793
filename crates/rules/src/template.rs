//! A text with variables, compiled: names are resolved when the configuration is loaded, and `write` only copies bytes and
//! asks a [`View`] for values. Used for every directive that takes variables.

use crate::captures::Captures;
use crate::pattern::Pattern;
use crate::variable::{UserVariables, Variable};
use conf::diagnostic::Diagnostic;
use conf::value::template as written;

/// Where values come from. The gateway implements it on a borrowed view of the exchange, built on demand.
pub trait View {
    /// Appends the value of `variable` to `out` and says whether there is one. A value may be empty and yet be there:
    /// access logs write `-` only for what is not. Nothing is appended if there is none.
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool;
}

impl<V: View + ?Sized> View for &V {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        (**self).write(variable, out)
    }
}

/// A compiled text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Shape);

/// Most templates have no variable or are nothing but one, and those cost no loop.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Constant(Box<[u8]>),
    Single(Variable),
    Pieces(Box<[Piece]>),
}

/// A part of a template with several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Box<[u8]>),
    Variable(Variable),
}

impl Piece {
    /// The variable, if it is one.
    pub(crate) fn variable(&self) -> Option<&Variable> {
        match self {
            Self::Variable(variable) => Some(variable),
            Self::Text(_) => None,
        }
    }
}

impl Template {
    /// Compiles a template. An unknown variable is refused with nginx's phrase and a suggestion.
    pub fn compile(template: &written::Template, users: &UserVariables) -> Result<Self, Diagnostic> {
        Self::compile_pieces(template, users).map(Self::from_pieces)
    }

    /// Resolves the variables of a template, part by part.
    pub(crate) fn compile_pieces(
        template: &written::Template,
        users: &UserVariables,
    ) -> Result<Vec<Piece>, Diagnostic> {
        let mut pieces = Vec::with_capacity(template.parts.len());
        for part in &template.parts {
            pieces.push(match part {
                written::Part::Text(text) => Piece::Text(text.as_slice().into()),
                written::Part::Capture(group) => Piece::Variable(Variable::Capture(*group)),
                written::Part::Variable(name) => match Variable::resolve(name, users) {
                    Some(variable) => Piece::Variable(variable),
                    None => return Err(unknown(name, template, users)),
                },
            });
        }
        Ok(pieces)
    }

    /// A template without variables.
    pub fn constant(text: &[u8]) -> Self {
        Self(Shape::Constant(text.into()))
    }

    /// A template that is one variable.
    pub fn variable(variable: Variable) -> Self {
        Self(Shape::Single(variable))
    }

    /// The text, if it has no variable: nothing needs to be written then.
    pub fn as_constant(&self) -> Option<&[u8]> {
        match &self.0 {
            Shape::Constant(text) => Some(text),
            _ => None,
        }
    }

    /// Appends the text to `out`; nothing is appended for a variable without a value.
    #[inline]
    pub fn write<V: View + ?Sized>(&self, view: &V, out: &mut Vec<u8>) {
        match &self.0 {
            Shape::Constant(text) => out.extend_from_slice(text),
            Shape::Single(variable) => {
                view.write(variable, out);
            }
            Shape::Pieces(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.extend_from_slice(text),
                        Piece::Variable(variable) => {
                            view.write(variable, out);
                        }
                    }
                }
            }
        }
    }

    /// The variables in it, in order: for finding out what has to be kept for the access log.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        let (single, pieces): (_, &[Piece]) = match &self.0 {
            Shape::Constant(_) => (None, &[]),
            Shape::Single(variable) => (Some(variable), &[]),
            Shape::Pieces(pieces) => (None, pieces),
        };
        single.into_iter().chain(pieces.iter().filter_map(Piece::variable))
    }

    /// The first variable with a value that is `bad`, to name it when the text cannot be used. It makes the values anew, so
    /// use it only for a message that is logged.
    pub fn culprit<V: View + ?Sized>(&self, view: &V, bad: impl Fn(&[u8]) -> bool) -> Option<&Variable> {
        let mut value = Vec::new();
        self.variables().find(|variable| {
            value.clear();
            view.write(variable, &mut value);
            bad(&value)
        })
    }

    fn from_pieces(mut pieces: Vec<Piece>) -> Self {
        Self(match pieces.pop() {
            None => Shape::Constant(Box::default()),
            Some(Piece::Text(text)) if pieces.is_empty() => Shape::Constant(text),
            Some(Piece::Variable(variable)) if pieces.is_empty() => Shape::Single(variable),
            Some(last) => {
                pieces.push(last);
                Shape::Pieces(pieces.into())
            }
        })
    }
}

fn unknown(name: &str, template: &written::Template, users: &UserVariables) -> Diagnostic {
    let (message, hint) = Variable::explain_unknown(name, users);
    let diagnostic = Diagnostic::error(template.span, message);
    match hint {
        Some(hint) => diagnostic.with_hint(hint),
        None => diagnostic,
    }
}

/// A view in which the groups of one expression are before everything else: for replacements that belong to an expression
/// of their own (`proxy_redirect ~…`), whose captures are not the exchange's.
#[derive(Debug)]
pub struct CapturedView<'a, V: ?Sized> {
    /// Everything else.
    pub view: &'a V,
    /// The groups.
    pub captures: &'a Captures,
    /// The expression, for its named groups.
    pub pattern: &'a Pattern,
}

impl<V: View + ?Sized> View for CapturedView<'_, V> {
    fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
        let group = match variable {
            Variable::Capture(group) => Some(*group),
            Variable::User(slot) => {
                self.pattern.named().iter().find(|(_, named)| named == slot).map(|(group, _)| *group)
            }
            _ => None,
        };
        let Some(group) = group else { return self.view.write(variable, out) };
        match self.captures.group(usize::from(group)) {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use conf::source::{FileId, Span};
    use written::Part;

    /// Knows `$host` (found) and `$args` (found, empty).
    struct Fixed;

    impl View for Fixed {
        fn write(&self, variable: &Variable, out: &mut Vec<u8>) -> bool {
            match variable {
                Variable::Host => out.extend_from_slice(b"example.com"),
                Variable::Args => {}
                _ => return false,
            }
            true
        }
    }

    fn template(parts: Vec<Part>) -> written::Template {
        written::Template { parts, span: Span { file: FileId(0), start: 3, end: 9 } }
    }

    fn compiled(parts: Vec<Part>) -> Template {
        Template::compile(&template(parts), &UserVariables::default()).unwrap()
    }

    fn written(template: &Template) -> String {
        let mut out = b">".to_vec();
        template.write(&Fixed, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn constants_single_variables_and_mixtures() {
        assert_eq!(compiled(vec![]).as_constant(), Some(&b""[..]));
        assert_eq!(compiled(vec![Part::Text(b"x".to_vec())]).as_constant(), Some(&b"x"[..]));
        assert_eq!(written(&compiled(vec![Part::Variable("host".into())])), ">example.com");
        let parts = vec![
            Part::Text(b"//".to_vec()),
            Part::Variable("host".into()),
            Part::Capture(1),
            Part::Variable("args".into()),
            Part::Text(b"/".to_vec()),
        ];
        let mixed = compiled(parts);
        assert_eq!(written(&mixed), ">//example.com/");
        let variables: Vec<_> = mixed.variables().cloned().collect();
        assert_eq!(variables, [Variable::Host, Variable::Capture(1), Variable::Args]);
        assert_eq!(mixed.culprit(&Fixed, |value| value.contains(&b'.')), Some(&Variable::Host));
        assert_eq!(mixed.culprit(&Fixed, |value| value.contains(&b'/')), None);
    }

    #[test]
    fn an_unknown_variable_is_named_at_its_place() {
        let error = Template::compile(&template(vec![Part::Variable("hots".into())]), &UserVariables::default());
        let error = error.unwrap_err();
        assert_eq!(error.message, "unknown \"hots\" variable");
        assert_eq!((error.span.start, error.hint.as_deref()), (3, Some("did you mean `$host`?")));
    }

    #[test]
    fn local_captures_hide_those_of_the_exchange() {
        let mut users = UserVariables::default();
        let pattern = Pattern::compile(b"^(?<one>.)(.)?$", false, &mut users).unwrap();
        let mut captures = Captures::default();
        assert!(pattern.captures(b"x", &mut captures).unwrap());
        let view = CapturedView { view: &Fixed, captures: &captures, pattern: &pattern };
        let mut out = Vec::new();
        assert!(view.write(&Variable::User(users.slot("one").unwrap()), &mut out));
        assert!(view.write(&Variable::Capture(1), &mut out));
        assert!(!view.write(&Variable::Capture(2), &mut out));
        assert!(view.write(&Variable::Host, &mut out));
        assert_eq!(out, b"xxexample.com");
    }
}
