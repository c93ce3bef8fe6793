//! Builds the reference page from the directive table: all it says about a directive is in that directive's row. `cargo
//! xtask docs` writes it to docs/guide/reference.md, and a test fails if the two differ.

use crate::table::{self, Context, Directive, Inherit, Module, Support};
use std::fmt::Write as _;

/// The page's text before the first module.
const HEAD: &str = "\
<!-- Generated from the directive table in crates/conf/src/table by `cargo xtask docs`. Do not edit. -->

# Configuration reference

Holdfast reads nginx.conf as nginx 1.31.4 defines it. This page lists every directive of nginx's own modules, up to nginx 1.31.6, and says
what holdfast does with it:

| support | what it means |
|---|---|
| takes effect | the gateway acts on it |
| takes effect with something | the gateway acts on it where the configuration has that; without it, `-t` notes that it is idle |
| accepted | it is checked and has no effect here; `-t` notes why |
| accepted without effect | accepted with a note; what it would act on is not supported |
| not supported | nginx has it, holdfast does not: an error, at `-t` as at start. What to use instead follows |

A configuration that `-t` finds right starts. An inner level takes over the value of the outer one unless it sets its own;
of a **list**, the inner level takes over all entries or, with one entry of its own, none.
";

/// The reference page as Markdown.
pub fn markdown() -> String {
    let rows: Vec<Directive> = table::in_order().collect();
    let mut page = String::from(HEAD);
    page.push_str(&tally(&rows));
    for module in modules(&rows, is_ours) {
        let _ = write!(page, "\n## {}\n", title(module));
        for row in rows.iter().filter(|row| row.module == module && is_ours(row)) {
            page.push_str(&entry(row));
        }
    }
    page.push_str("\n## Known to nginx, without effect here\n");
    for module in modules(&rows, |row| !is_ours(row)) {
        let _ = write!(page, "\n### {}\n\n| directive | contexts | support |\n|---|---|---|\n", title(module));
        for row in rows.iter().filter(|row| row.module == module && !is_ours(row)) {
            let _ = writeln!(page, "{}", line(row));
        }
    }
    page.push_str(FOREIGN_HEAD);
    for foreign in table::FOREIGN {
        let names: Vec<String> = foreign.names.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(page, "| {} | {} | {} |", names.join(" "), foreign.owner, foreign.instead.replace('|', "\\|"));
    }
    page
}

/// The page's text before the directives of other modules.
const FOREIGN_HEAD: &str = "
## Known from elsewhere

What open-source nginx does not have: an error that names the owner of the directive, and what does its work here. A name that ends in `*`
means all names with that prefix. A switch with the value `off` is accepted with a note.

| directives | owner | instead |
|---|---|---|
";

/// Whether a row gets an entry of its own rather than a line in a table.
fn is_ours(row: &Directive) -> bool {
    matches!(row.support, Support::Yes | Support::With(_) | Support::Accepted(_))
}

/// The modules of the rows that `wanted` selects, in order, without repetition.
fn modules(rows: &[Directive], wanted: impl Fn(&Directive) -> bool) -> Vec<Module> {
    let mut modules = Vec::new();
    for row in rows.iter().filter(|row| wanted(row)) {
        if !modules.contains(&row.module) {
            modules.push(row.module);
        }
    }
    modules
}

/// The title of a module, with its subject if the name does not tell it.
fn title(module: Module) -> String {
    let about = match module.0 {
        "holdfast" => return "Holdfast's own directives".to_owned(),
        "ngx_core_module" => "the process",
        "ngx_event_core_module" => "connections",
        "ngx_http_core_module" => "servers, locations, files and clients",
        "ngx_http_headers_module" => "fields of responses",
        "ngx_http_rewrite_module" => "rewriting",
        "ngx_http_access_module" => "allowed and refused addresses",
        "ngx_http_realip_module" => "the client's real address",
        "ngx_http_proxy_module" => "passing requests on",
        "ngx_http_ssl_module" => "TLS towards clients",
        "ngx_http_upstream_module" => "groups of peers",
        name => return name.to_owned(),
    };
    format!("{}: {about}", module.0)
}

/// How many directives there are of each kind of support.
fn tally(rows: &[Directive]) -> String {
    let count = |wanted: fn(Support) -> bool| rows.iter().filter(|row| wanted(row.support)).count();
    format!(
        "\nOf {} directives {} take effect, {} are accepted, {} are accepted without effect and {} are not \
         supported.\n",
        rows.len(),
        count(|support| matches!(support, Support::Yes | Support::With(_))),
        count(|support| matches!(support, Support::Accepted(_))),
        count(|support| matches!(support, Support::OnlyWith(_))),
        count(|support| support == Support::No),
    )
}

/// The entry of one directive.
fn entry(row: &Directive) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n\n", row.name, row.doc);
    let _ = writeln!(text, "* syntax: `{}`", syntax(row));
    if let Some(default) = row.default.filter(|_| !row.args.block) {
        let _ = writeln!(text, "* default: `{} {default};`", row.name);
    }
    let _ = writeln!(text, "* in: {}", contexts(row));
    if let Some(inherited) = inherited(row.inherit) {
        let _ = writeln!(text, "* inherited: {inherited}");
    }
    if row.repeatable {
        let _ = writeln!(text, "* may be repeated in one block");
    }
    match row.since {
        "" => {}
        "holdfast" => text.push_str("* not in nginx\n"),
        version => {
            let _ = writeln!(text, "* since nginx {version}");
        }
    }
    let _ = writeln!(text, "* support: {}", support(row));
    if !row.example.is_empty() {
        let _ = write!(text, "\n```nginx\n{}\n```\n", row.example);
    }
    text
}

/// The line of one directive in a table.
fn line(row: &Directive) -> String {
    // A bar ends a cell even inside backquotes.
    let doc = row.doc.replace('|', "\\|");
    format!("| `{}`: {doc} | {} | {} |", row.name, contexts(row), support(row))
}

fn syntax(row: &Directive) -> String {
    let space = if row.syntax.is_empty() { "" } else { " " };
    let end = if row.args.block { " { … }" } else { ";" };
    format!("{}{space}{}{end}", row.name, row.syntax)
}

fn contexts(row: &Directive) -> String {
    if Context::ALL.into_iter().all(|context| row.contexts.contains(context)) {
        return "anywhere".to_owned();
    }
    row.contexts.iter().map(Context::describe).collect::<Vec<_>>().join(", ")
}

const fn inherited(inherit: Inherit) -> Option<&'static str> {
    match inherit {
        Inherit::No => None,
        Inherit::Value => Some("the value"),
        Inherit::ListReplaced => Some("the list as a whole"),
        Inherit::ListJoined => Some("the list, before the own one"),
    }
}

fn support(row: &Directive) -> String {
    match row.support {
        Support::Yes => "takes effect".to_owned(),
        Support::With(needed) => format!("takes effect with {needed}"),
        Support::Accepted(reason) => format!("accepted: {reason}"),
        Support::OnlyWith(needed) => format!("accepted without effect: it acts only with {needed}"),
        Support::No => {
            let values: Vec<String> =
                row.neutral_values().map(|value| format!("`{}`", value.replace('|', "\\|"))).collect();
            let except = if values.is_empty() || row.args.block {
                String::new()
            } else {
                format!(", but for {}", values.join(" and "))
            };
            format!("not supported{except}: {}", table::instead_of(row).replace('|', "\\|"))
        }
    }
}
