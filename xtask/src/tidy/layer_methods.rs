//! Rule: a layer of the gateway does not call upwards through a method. A higher layer may add methods to a type of a
//! lower one (`impl Exchange` in `phases`), and no import shows who calls them. A file may call only those that its own
//! layer or a lower one defines.
//!
//! The rule does not know the types of expressions. A call counts as one of the type's method if its receiver shows the
//! type (`self` in the type's own `impl`, a variable named after the type, a path such as `Exchange::name`), or if no
//! other method that the file may call has that name.

use super::Finding;
use super::layers::{layer_of, place};
use super::source::{Source, walk};
use proc_macro2::{Delimiter, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned as _;

/// The methods and calls of all files.
#[derive(Default)]
pub(super) struct Methods {
    /// The layer of each type.
    types: BTreeMap<String, usize>,
    /// Type, method, and the layer that defines it.
    inherent: Vec<(String, String, usize)>,
    /// All methods, with their layer and their type or trait.
    all: BTreeSet<(String, usize, String)>,
    calls: Vec<Call>,
}

struct Call {
    path: String,
    line: usize,
    layer: usize,
    name: String,
    receiver: Receiver,
}

enum Receiver {
    /// `self`, inside of an `impl` of this type.
    Own(String),
    /// A variable or field.
    Named(String),
    /// `Type::name`
    Type(String),
    Unknown,
}

/// The last word of a type's path.
fn type_name(of: &syn::Type) -> Option<String> {
    match of {
        syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        syn::Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

impl Methods {
    /// Notes what a file defines and calls.
    pub(super) fn note(&mut self, source: &Source) {
        let Some(layer) = layer_of(&source.path).and_then(place) else { return };
        let mut impls = Vec::new();
        for item in &source.syntax.items {
            match item {
                syn::Item::Struct(item) => self.note_type(&item.ident, layer),
                syn::Item::Enum(item) => self.note_type(&item.ident, layer),
                syn::Item::Type(item) => self.note_type(&item.ident, layer),
                syn::Item::Trait(item) => {
                    let methods = item.items.iter().filter_map(|item| match item {
                        syn::TraitItem::Fn(method) => Some(method.sig.ident.to_string()),
                        _ => None,
                    });
                    self.all.extend(methods.map(|name| (name, layer, item.ident.to_string())));
                }
                syn::Item::Impl(item) => {
                    let Some(owner) = type_name(&item.self_ty) else { continue };
                    let lines = item.span().start().line..=item.span().end().line;
                    impls.push((lines, owner.clone()));
                    for inner in &item.items {
                        let syn::ImplItem::Fn(method) = inner else { continue };
                        let name = method.sig.ident.to_string();
                        self.all.insert((name.clone(), layer, owner.clone()));
                        if item.trait_.is_none() {
                            self.inherent.push((owner.clone(), name, layer));
                        }
                    }
                }
                _ => {}
            }
        }
        let owner = |line: usize| impls.iter().find(|(lines, _)| lines.contains(&line)).map(|(_, owner)| owner.clone());
        walk(source.tokens.clone(), &mut |siblings| {
            for at in 0..siblings.len() {
                let Some((name, line, receiver)) = call_at(siblings, at, &owner) else { continue };
                self.calls.push(Call { path: source.path.clone(), line, layer, name, receiver });
            }
        });
    }

    fn note_type(&mut self, ident: &syn::Ident, layer: usize) {
        self.types.insert(ident.to_string(), layer);
    }

    /// Finds calls of methods that a higher layer defines. Higher layers have lower numbers.
    pub(super) fn check(&self) -> Vec<Finding> {
        let mut above: BTreeMap<&str, Vec<(&str, usize, usize)>> = BTreeMap::new();
        for (owner, name, layer) in &self.inherent {
            if let Some(home) = self.types.get(owner).filter(|home| *home > layer) {
                above.entry(name).or_default().push((owner, *home, *layer));
            }
        }
        let mut findings = Vec::new();
        for call in &self.calls {
            for (owner, home, layer) in above.get(&call.name[..]).into_iter().flatten() {
                // Only files between the method and its type: below the type there is no value of it.
                if !(layer + 1..=*home).contains(&call.layer) || !self.is_of(call, owner) {
                    continue;
                }
                let text = format!(
                    "`{owner}::{}` is a method of the layer `{}`: move it to `{}` or below, or call it higher up",
                    call.name,
                    super::layers::LAYERS[*layer],
                    super::layers::LAYERS[call.layer],
                );
                findings.push(Finding { path: call.path.clone(), line: call.line, rule: "layer-methods", text });
            }
        }
        findings
    }

    /// Whether a call is, or may be, one of this type's method.
    fn is_of(&self, call: &Call, owner: &str) -> bool {
        match &call.receiver {
            Receiver::Own(own) => own == owner,
            Receiver::Type(of) => of == owner,
            Receiver::Named(name) if *name == owner.to_lowercase() => true,
            Receiver::Named(_) | Receiver::Unknown => {
                let mut usable = self.all.iter().filter(|(name, layer, _)| *name == call.name && *layer >= call.layer);
                usable.next().is_none()
            }
        }
    }
}

/// The call with its `.` or `::` at this place.
fn call_at(
    siblings: &[TokenTree],
    at: usize,
    owner: &impl Fn(usize) -> Option<String>,
) -> Option<(String, usize, Receiver)> {
    let is = |at: usize, wanted: char| matches!(siblings.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == wanted);
    let before = at.checked_sub(1).and_then(|before| siblings.get(before));
    let (name_at, is_path) = match () {
        () if is(at, '.') => (at + 1, false),
        () if is(at, ':') && is(at + 1, ':') => (at + 2, true),
        () => return None,
    };
    let Some(TokenTree::Ident(name)) = siblings.get(name_at) else { return None };
    let line = name.span().start().line;
    let is_group = matches!(siblings.get(name_at + 1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
    let has_types = is(name_at + 1, ':') && is(name_at + 2, ':') && is(name_at + 3, '<');
    if is_path {
        let Some(TokenTree::Ident(of)) = before else { return None };
        let of = if of == "Self" { owner(line)? } else { of.to_string() };
        return Some((name.to_string(), line, Receiver::Type(of)));
    }
    if !is_group && !has_types {
        return None;
    }
    // `self.0.name()` and `a.b.name()` are not about `self` or `a`.
    let receiver = match before {
        Some(TokenTree::Ident(word)) if word == "self" => owner(line).map_or(Receiver::Unknown, Receiver::Own),
        Some(TokenTree::Ident(word)) => Receiver::Named(word.to_string()),
        _ => Receiver::Unknown,
    };
    Some((name.to_string(), line, receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCHANGE: (&str, &str) = ("exchange/mod.rs", "struct Exchange;\nimpl Exchange { fn uri(&self) {} }\n");
    const SETTLE: (&str, &str) = ("phases/settle.rs", "impl Exchange { fn settle(&self) { self.uri() } }\n");

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let mut methods = Methods::default();
        for (path, text) in files {
            methods.note(&Source::fixture(&format!("crates/gateway/src/{path}"), text));
        }
        let short = |path: &str| path.trim_start_matches("crates/gateway/src/").to_owned();
        methods.check().into_iter().map(|finding| (short(&finding.path), finding.line)).collect()
    }

    #[test]
    fn finds_calls_of_a_higher_layer_however_they_are_written() {
        let text = "impl Exchange {\n  fn a(&self) { self.settle() }\n  fn b(&self) { Self::settle(self) }\n}\n\
                    fn c(exchange: &Exchange, view: &View) {\n  exchange.settle();\n  Exchange::settle(exchange);\n  \
                    format!(\"{}\", view.0.settle());\n}\n";
        let lines: Vec<usize> =
            found(&[EXCHANGE, SETTLE, ("content/x.rs", text)]).iter().map(|(_, line)| *line).collect();
        assert_eq!(lines, [2, 3, 6, 7, 8]);
    }

    #[test]
    fn calls_of_the_own_layer_and_of_lower_ones_are_right() {
        let worker = ("worker/mod.rs", "fn f(exchange: &Exchange) { exchange.settle() }\n");
        let phases = ("phases/mod.rs", "impl Exchange { fn serve(&self) { self.settle() } }\n");
        assert!(found(&[EXCHANGE, SETTLE, worker, phases]).is_empty());
    }

    #[test]
    fn a_layer_below_the_type_has_no_value_of_it() {
        assert!(found(&[EXCHANGE, SETTLE, ("registry/pool.rs", "fn f(pool: &Pool) { pool.settle() }\n")]).is_empty());
    }

    #[test]
    fn another_type_may_have_a_method_of_the_same_name() {
        let h2 = ("downstream/h2/mod.rs", "struct H2;\nimpl H2 { fn settle(&self) {} }\n");
        let text = "impl Exchange { fn a(&self, stream: H2) { stream.settle() } }\n";
        assert!(found(&[EXCHANGE, SETTLE, h2, ("exchange/x.rs", text)]).is_empty());
        let own = ("exchange/x.rs", "impl Exchange { fn a(&self) { self.settle() } }\n");
        assert_eq!(found(&[EXCHANGE, SETTLE, h2, own]).len(), 1);
    }
}
