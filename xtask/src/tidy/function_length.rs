//! Rule: a function of more than 70 lines does more than one thing. Counted from its `fn` line to its closing brace,
//! without the documentation and attributes above it.

use super::exceptions::Measure;
use super::source::Source;
use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

const LINES_MAX: usize = 70;

pub(super) fn measure(source: &Source) -> Vec<Measure> {
    let mut visitor = Functions { path: &source.path, owner: None, long: Vec::new() };
    visitor.visit_file(&source.syntax);
    visitor.long
}

struct Functions<'a> {
    path: &'a str,
    /// The type or trait of the surrounding block, so that two methods called `new` have different names.
    owner: Option<String>,
    long: Vec<Measure>,
}

impl Functions<'_> {
    fn note(&mut self, signature: &syn::Signature, end: Span) {
        let (first, last) = (signature.span().start().line, end.end().line);
        let lines = last + 1 - first;
        if lines > LINES_MAX {
            let name = signature.ident.to_string();
            let name = self.owner.as_ref().map_or_else(|| name.clone(), |owner| format!("{owner}::{name}"));
            self.long.push(Measure {
                rule: "function-length",
                path: self.path.to_owned(),
                name: Some(name),
                line: first,
                lines,
                lines_max: LINES_MAX,
            });
        }
    }

    fn inside(&mut self, owner: Option<String>, visit: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = outer;
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let owner = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.inside(owner, |visitor| visit::visit_item_impl(visitor, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.inside(Some(item.ident.to_string()), |visitor| visit::visit_item_trait(visitor, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.note(&item.sig, item.block.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note(&item.sig, item.block.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.note(&item.sig, block.span());
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("#[inline]\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    #[test]
    fn the_limit_itself_is_fine_and_one_more_is_not() {
        assert_eq!(measure(&Source::fixture("a.rs", &function(LINES_MAX))).len(), 0);
        let long = measure(&Source::fixture("a.rs", &function(LINES_MAX + 1)));
        assert_eq!(long.iter().map(|m| (m.line, m.lines)).collect::<Vec<_>>(), [(2, LINES_MAX + 1)]);
    }

    #[test]
    fn methods_are_named_with_their_type_in_modules_and_traits() {
        let text = format!(
            "impl<T> Wide<T> {{\n{f}}}\nmod inner {{\ntrait Narrow {{\n{f}}}\n}}\n",
            f = function(LINES_MAX + 5)
        );
        let names: Vec<_> = measure(&Source::fixture("a.rs", &text)).into_iter().filter_map(|m| m.name).collect();
        assert_eq!(names, ["Wide::f", "Narrow::f"]);
    }
}
