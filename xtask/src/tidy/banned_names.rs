//! Rule: one word per thing. Names without meaning, and the words in GLOSSARY.md's "never" column, must not be defined.
//!
//! Only definitions are checked, because we do not choose the names in other crates. Some of the glossary's "never"
//! words are also plain English for another thing here (a wheel *node*, an HTTP *version*, a timer *queue*, an enum
//! *variant*). A program cannot distinguish them, so they are left to reviewers.

use super::Finding;
use super::source::Source;
use syn::visit::{self, Visit};

/// A word of the glossary's "never" column, wherever it is in a name, and the word to use.
const NEVER: [(&str, &str); 6] = [
    ("frontend", "downstream"),
    ("backend", "upstream"),
    ("inbound", "downstream"),
    ("transaction", "exchange"),
    ("cluster", "upstream group"),
    ("persistent", "keepalive"),
];

/// Where objects of Kubernetes are read: there, a backend and a cluster are what its API calls so.
const KUBERNETES: [&str; 6] = [
    "crates/ingress/",
    "crates/kubernetes/",
    "crates/holdfast/src/command/ingress.rs",
    "crates/holdfast/src/migrate/",
    "crates/holdfast/src/serve/",
    "crates/holdfast/tests/it/ingress",
];
const KUBERNETES_WORDS: [&str; 3] = ["backend", "cluster", "frontend"];

/// Words that say things are kept together, not what they are.
const EMPTY_IN_TYPES: [&str; 3] = ["manager", "helper", "helpers"];
const EMPTY_AS_MODULE_OR_TYPE: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut visitor = Definitions { path: &source.path, findings: Vec::new() };
    visitor.visit_file(&source.syntax);
    visitor.findings
}

struct Definitions<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Definitions<'_> {
    fn report(&mut self, name: &syn::Ident, text: &str) {
        let (path, line) = (self.path.to_owned(), name.span().start().line);
        self.findings.push(Finding { path, line, rule: "banned-name", text: format!("`{name}`: {text}") });
    }

    fn any(&mut self, name: &syn::Ident) {
        for word in words(&name.to_string()) {
            let is_own = KUBERNETES_WORDS.contains(&word.as_str())
                && KUBERNETES.iter().any(|beginning| self.path.starts_with(beginning));
            if let Some((_, instead)) = NEVER.iter().find(|(never, _)| word == *never && !is_own) {
                self.report(name, &format!("the glossary's word is {instead}"));
            }
        }
    }

    fn module_or_type(&mut self, name: &syn::Ident) {
        self.any(name);
        if EMPTY_AS_MODULE_OR_TYPE.contains(&name.to_string().to_ascii_lowercase().as_str()) {
            self.report(name, "name what it is for");
        }
    }

    fn type_name(&mut self, name: &syn::Ident) {
        self.module_or_type(name);
        let words = words(&name.to_string());
        if words.len() > 1 && words.iter().any(|word| EMPTY_IN_TYPES.contains(&word.as_str())) {
            self.report(name, "name what it does");
        }
        if words.len() > 1 && words.last().is_some_and(|word| word == "context") {
            self.report(name, "`Context` as a suffix hides what is inside: name that");
        }
    }
}

impl<'ast> Visit<'ast> for Definitions<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        // A test's name is a sentence, and may begin with the method GET.
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            visit::visit_block(self, &item.block);
        } else {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.any(&signature.ident);
        if signature.ident.to_string().starts_with("get_") {
            self.report(&signature.ident, "leave out `get_`, or use a verb that says what it costs");
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module_or_type(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.any(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.any(&item.ident);
        visit::visit_item_static(self, item);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.any(name);
        }
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.any(&variant.ident);
        visit::visit_variant(self, variant);
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.any(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
}

/// `pool_key`, `PoolKey` and `POOL_KEY` all consist of the words `pool` and `key`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lowercase = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lowercase) {
            words.push(String::new());
        }
        if c != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        after_lowercase = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check(&Source::fixture("a.rs", text));
        findings.iter().map(|finding| finding.text.split('`').nth(1).unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn finds_names_without_meaning() {
        assert_eq!(found("mod util;\nmod common {}\nstruct PoolManager;\nstruct Helper;\n").len(), 4);
        assert_eq!(found("enum HelperKind {}\nstruct RequestContext;\n"), ["HelperKind", "RequestContext"]);
        assert_eq!(found("impl Pool { fn get_idle(&self) {} }\ntrait T { fn get_one(); }\n"), ["get_idle", "get_one"]);
    }

    #[test]
    fn finds_never_words_in_every_kind_of_definition() {
        let text = "struct S { backend_addr: u8 }\nenum E { Frontend }\nconst CLUSTER_MAX: u8 = 1;\n\
                    fn inbound(transaction: u8) { let persistent = 1; }\n";
        assert_eq!(found(text), ["backend_addr", "Frontend", "CLUSTER_MAX", "inbound", "transaction", "persistent"]);
    }

    #[test]
    fn ignores_longer_words_and_foreign_names() {
        let text = "use other::{Helper, backend};\nuse anyhow::Context as _;\nenum Context { Http }\n\
                    fn budget(target: u8) { other::backend(); let commonly = 1; }\nfn get(&x: &u8) {}\nmod tests {}\n";
        assert_eq!(found(text), [""; 0]);
    }

    #[test]
    fn skips_names_of_tests_but_checks_their_bodies() {
        assert_eq!(found("#[test]\nfn get_is_answered_by_the_backend() { let frontend = 1; }\n"), ["frontend"]);
    }

    #[test]
    fn a_name_is_split_at_underscores_and_capitals() {
        assert_eq!(words("PoolKey"), ["pool", "key"]);
        assert_eq!(words("POOL_KEY"), ["pool", "key"]);
        assert_eq!(words("http1_parse"), ["http1", "parse"]);
    }
}
