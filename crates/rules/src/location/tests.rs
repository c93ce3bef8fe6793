//! Conversations with `Locations`: a small configuration, then URIs and what they lead to.

use super::*;
use conf::source::FileId;

/// `location` directives with ids in their order, one on each line: `[MODIFIER] NAME`, nested ones indented by a space each.
fn specs(text: &str) -> Vec<LocationSpec> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let mut id = 0;
    let mut at = 0;
    specs_at(&lines, &mut at, &mut id, lines.first().map_or(0, |line| indent(line)))
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn specs_at(lines: &[&str], at: &mut usize, id: &mut u32, depth: usize) -> Vec<LocationSpec> {
    let mut specs = Vec::new();
    while *at < lines.len() && indent(lines[*at]) == depth {
        let args: Vec<&[u8]> = lines[*at].split_whitespace().map(str::as_bytes).collect();
        let matcher = LocationMatch::parse(&args, &mut UserVariables::default()).unwrap();
        let own = *id;
        (*at, *id) = (*at + 1, *id + 1);
        let deeper = lines.get(*at).map_or(depth, |line| indent(line));
        let nested = if deeper > depth { specs_at(lines, at, id, deeper) } else { Vec::new() };
        let span = Span { file: FileId(0), start: own, end: own };
        specs.push(LocationSpec { id: own, auto_redirect: true, matcher, nested, span });
    }
    specs
}

fn locations(text: &str) -> Locations {
    Locations::build(specs(text)).unwrap().0
}

fn errors(text: &str) -> Vec<String> {
    Locations::build(specs(text)).unwrap_err().into_iter().map(|error| error.message).collect()
}

/// `server`, the id, or `> id` for a redirect.
fn find(locations: &Locations, uri: &str) -> String {
    match locations.find(uri.as_bytes(), &mut Captures::default()).unwrap() {
        Found::Server => "server".into(),
        Found::Location { id, .. } => id.to_string(),
        Found::Redirect { id } => format!("> {id}"),
    }
}

#[test]
fn the_example_of_the_documentation() {
    let locations = locations("= /\n/\n/documents/\n^~ /images/\n~* \\.(gif|jpg|jpeg)$");
    assert_eq!(find(&locations, "/"), "0");
    assert_eq!(find(&locations, "/index.html"), "1");
    assert_eq!(find(&locations, "/documents/document.html"), "2");
    assert_eq!(find(&locations, "/images/1.gif"), "3");
    assert_eq!(find(&locations, "/documents/1.JPG"), "4");
}

#[test]
fn search_reports_the_locations_it_passes() {
    let locations = locations("/\n/a/\n ~ ^/a/1\n ~ ^/a/2\n~ 3$\n^~ /b\n= /c");
    let told = |uri: &str| {
        let told = std::cell::RefCell::new(String::new());
        let tell = |tried: Tried<'_>| {
            let text = match tried {
                Tried::Exact(id) => format!("={id} "),
                Tried::Slash(id) => format!(">{id} "),
                Tried::Prefix { id, is_final: false } => format!("{id} "),
                Tried::Prefix { id, is_final: true } => format!("^{id} "),
                Tried::Expression { id, matched, .. } => format!("~{id}{} ", if matched { '+' } else { '-' }),
            };
            told.borrow_mut().push_str(&text);
        };
        locations.find_and_tell(uri.as_bytes(), &mut Captures::default(), tell).unwrap();
        told.into_inner()
    };
    assert_eq!(told("/a/2"), "1 ~2- ~3+ ");
    assert_eq!(told("/a/3"), "1 ~2- ~3- ~4+ ");
    assert_eq!(told("/x"), "0 ~4- ");
    assert_eq!(told("/b3"), "^5 ");
    assert_eq!(told("/c"), "=6 ");
    assert_eq!(told("/a"), ">1 ");
}

#[test]
fn expressions_are_tried_in_their_order() {
    let locations = locations("~ ^/a\n~ ^/ab\n/abc");
    assert_eq!(find(&locations, "/abc"), "0");
    assert_eq!(find(&locations, "/b"), "server");
}

#[test]
fn slash_redirect_precedes_expressions_unless_the_name_exists() {
    let locations = locations("/user/\n/shop/\n= /shop\n~ ^/user");
    assert_eq!(find(&locations, "/user"), "> 0");
    assert_eq!(find(&locations, "/user/1"), "3");
    assert_eq!(find(&locations, "/shop"), "2");
    assert_eq!(find(&locations, "/sho"), "server");
}

#[test]
fn a_missing_slash_is_not_redirected_without_a_proxied_location() {
    let mut specs = specs("/\n/user/");
    specs[1].auto_redirect = false;
    let locations = Locations::build(specs).unwrap().0;
    assert_eq!(find(&locations, "/user"), "0");
}

#[test]
fn nested_locations_precede_outer_expressions() {
    let locations = locations("/a/\n /a/b/\n ~ \\.inner$\n~ \\.(inner|outer)$\n^~ /z/\n /z/y/\n ~ \\.gif$\n~ \\.gif$");
    assert_eq!(find(&locations, "/a/x"), "0");
    assert_eq!(find(&locations, "/a/b/x"), "1");
    assert_eq!(find(&locations, "/a/b/x.inner"), "2");
    assert_eq!(find(&locations, "/a/b/x.outer"), "3");
    assert_eq!(find(&locations, "/z/x.txt"), "4");
    assert_eq!(find(&locations, "/z/y/x.txt"), "5");
    assert_eq!(find(&locations, "/z/y/x.gif"), "6");
    assert_eq!(find(&locations, "/x.gif"), "7");
}

#[test]
fn a_location_inside_an_expression() {
    let locations = locations("~ ^/a/\n ~ \\.gif$\n~ ^/a/b");
    assert_eq!(find(&locations, "/a/b.gif"), "1");
    assert_eq!(find(&locations, "/a/b.txt"), "0");
}

#[test]
fn named_locations_are_found_by_name_only() {
    let locations = locations("/\n@fallback");
    assert_eq!(locations.named(b"@fallback"), Some(1));
    assert_eq!(locations.named(b"@other"), None);
    assert_eq!(find(&locations, "@fallback"), "server");
}

#[test]
fn captures_of_the_matching_expression_reach_the_caller() {
    let locations = locations("~ ^/(x)/none\n~ ^/u/(?<name>\\w+)");
    let mut captures = Captures::default();
    let found = locations.find(b"/u/anna", &mut captures).unwrap();
    assert!(matches!(found, Found::Location { id: 1, pattern: Some(pattern) } if pattern.named().len() == 1));
    assert_eq!(captures.group(1), Some(&b"anna"[..]));
}

#[test]
fn glued_modifiers_are_understood() {
    let locations = locations("=/x\n^~/y/\n~*\\.GIF$\n~^/z");
    assert_eq!(find(&locations, "/x"), "0");
    assert_eq!(find(&locations, "/y/1.gif"), "1");
    assert_eq!(find(&locations, "/1.gif"), "2");
    assert_eq!(find(&locations, "/z"), "3");
}

#[test]
fn misplaced_modifiers_have_nginx_phrases() {
    assert_eq!(errors("/a\n^~ /a"), ["duplicate location \"/a\""]);
    assert_eq!(errors("= /a\n /a/b"), ["location \"/a/b\" cannot be inside the exact location \"/a\""]);
    assert_eq!(errors("@a\n /a/b"), ["location \"/a/b\" cannot be inside the named location \"@a\""]);
    assert_eq!(errors("/a\n @b"), ["named location \"@b\" can be on the server level only"]);
    assert_eq!(errors("/a\n /b"), ["location \"/b\" is outside location \"/a\""]);
    let error = LocationMatch::parse(&[b"!", b"/"], &mut UserVariables::default()).unwrap_err();
    assert_eq!(error, "invalid location modifier \"!\"");
}

#[test]
fn an_exact_and_a_prefix_location_may_share_a_name() {
    let locations = locations("/a\n= /a");
    assert_eq!(find(&locations, "/a"), "1");
    assert_eq!(find(&locations, "/ab"), "0");
}
