//! Pages, at every split into pieces.

use super::*;
use proptest::prelude::*;
use std::cell::RefCell;

/// A request with a few variables.
#[derive(Default)]
struct Site {
    reports: RefCell<Vec<String>>,
    time_format: RefCell<Vec<u8>>,
}

impl Host for Site {
    fn value(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        let value = match name {
            b"uri" => "/dir/page.html",
            b"arg_a" => "<a&\"b\">",
            b"empty" => "",
            b"up" => "../x",
            _ => return false,
        };
        out.extend_from_slice(value.as_bytes());
        true
    }

    fn uri(&self) -> &[u8] {
        b"/dir/page.html"
    }

    fn set_time_format(&self, format: &[u8]) {
        *self.time_format.borrow_mut() = format.to_vec();
    }

    fn report(&self, message: &str) {
        self.reports.borrow_mut().push(message.to_owned());
    }
}

fn shown_include(include: &Include) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Include { uri, args, waits, set, stub } = include;
    let mut shown = format!("{{{}", text(uri));
    for (name, value) in [("?", args), (" set ", set), (" stub ", stub)] {
        shown.extend(value.iter().flat_map(|value| [name.to_owned(), text(value)]));
    }
    shown + if *waits { " waits}" } else { "}" }
}

/// What a page in pieces of this size comes to, and what is reported.
fn run(page: &[u8], piece: usize, silent: bool) -> (String, Vec<String>) {
    let (site, mut shared) = (Site::default(), Shared::default());
    let mut state = Page::new(PageSettings { value_bytes_max: 40, silent });
    let mut out = Vec::new();
    for mut piece in page.chunks(piece.max(1)) {
        while let Some(output) = state.next(&mut piece, &mut shared, &site) {
            match output {
                Output::Nothing => {}
                Output::Text(text) => out.extend_from_slice(text),
                Output::Made(text) => out.extend_from_slice(&text),
                Output::Include(include) => out.extend_from_slice(shown_include(&include).as_bytes()),
            }
        }
    }
    out.extend_from_slice(state.finish(&site));
    (String::from_utf8_lossy(&out).into_owned(), site.reports.into_inner())
}

/// What a page comes to; `E` in place of the text for errors. The same at every split.
#[track_caller]
fn page(text: &str) -> String {
    let whole = run(text.as_bytes(), text.len(), false);
    for piece in 1..text.len() {
        assert_eq!(run(text.as_bytes(), piece, false), whole, "in pieces of {piece}");
    }
    whole.0.replace("[an error occurred while processing the directive]", "E")
}

#[test]
fn text_without_commands_stays() {
    for text in ["", "text", "a<b", "<!-- comment -->", "<<!-<!--x#", "<!---#echo-->", "a<", "a<!--", "<!-"] {
        assert_eq!(page(text), text);
    }
}

#[test]
fn echo_writes_values_in_an_encoding() {
    for (text, made) in [
        (r#"<!--#echo var="uri" -->."#, "/dir/page.html."),
        ("<!--# echo var='URI'-->", "/dir/page.html"),
        (r#"<!--#echo var="arg_a"-->"#, "&lt;a&amp;&quot;b&quot;&gt;"),
        (r#"<!--#echo var="arg_a" encoding="none"--> <!--#echo var="arg_a" -->"#, "<a&\"b\"> <a&\"b\">"),
        (r#"<!--#echo var="arg_a" encoding="url"-->"#, "%3Ca&%22b%22%3E"),
        (r#"<!--#echo var="arg_a" encoding="x"-->"#, "&lt;a&amp;&quot;b&quot;&gt;"),
        (r#"<!--#echo var="none"-->"#, "(none)"),
        (r#"<!--#echo var="none" default="$uri"-->"#, "$uri"),
        (r#"<!--#echo var="none" default=""-->."#, "."),
        (r#"<!--#echo var="empty" default="x"-->."#, "."),
        ("<!--#echo-->", "E"),
        (r#"<!--#echo var="uri" var="uri"-->"#, "E"),
        (r#"<!--#echo var="uri" x="uri"-->"#, "E"),
    ] {
        assert_eq!(page(text), made, "{text}");
    }
}

#[test]
fn set_evaluates_variables_and_backslashes() {
    for (value, made) in [
        ("x", "x"),
        ("$uri-${uri}", "/dir/page.html-/dir/page.html"),
        (r"\$uri \\ \' \n", r"$uri \ ' \n"),
        (r"\$uri $none|$empty|", r"$uri ||"),
        ("$", "E(none)"),
        ("${uri", "E(none)"),
        ("a$-b", "E(none)"),
        ("${}", "E(none)"),
    ] {
        let text = format!("<!--#set var=\"V\" value=\"{value}\"--><!--#echo var=\"v\" encoding=\"none\"-->");
        assert_eq!(page(&text), made, "{value}");
    }
}

#[test]
fn if_compares_and_matches() {
    for (expression, is_true) in [
        ("$uri", true),
        ("$none", false),
        ("$empty", false),
        ("x", true),
        ("", false),
        ("$uri = \\/dir/page.html", true),
        ("$uri=\\/dir/page.html", true),
        ("$uri != \\/dir/page.html", false),
        ("$URI = \\/dir/page.html", true),
        ("ABC = abc", true),
        ("abc = ABC", false),
        ("$uri = /page/", true),
        ("$uri != /page/", false),
        ("$uri = /^\\/dir/", true),
        ("$uri = /^page\\$/", false),
        ("$uri = $uri", true),
        ("$none =", true),
        ("$none = ", true),
        ("a = /", false),
        ("a !=/", true),
    ] {
        let text = format!("<!--#if expr=\"{expression}\"-->yes<!--#else-->no<!--#endif-->");
        assert_eq!(page(&text), if is_true { "yes" } else { "no" }, "{expression}");
    }
    for expression in ["a-b", "$uri = /dir/page.html", "$uri ~ x", "a = /b", "a = /(/", "$uri = /x$/", "!$uri", "a !"] {
        let text = format!("<!--#if expr=\"{expression}\"-->yes<!--#endif-->");
        assert_eq!(page(&text), "EyesE", "{expression}");
    }
}

#[test]
fn groups_become_variables() {
    let text = r#"<!--#if expr="$uri = /^.(?<F>\w+).(\w+)(x)?/"--><!--#echo var="f"-->,<!--#echo var="2"-->,<!--#echo var="3" default="d"-->,<!--#echo var="4"--><!--#endif-->"#;
    assert_eq!(page(text), "dir,page,d,(none)");
}

#[test]
fn branches_match_nginx() {
    for (text, made) in [
        (r#"<!--#if expr="$no"-->a<!--#elif expr="x"-->b<!--#elif expr="y"-->c<!--#else-->d<!--#endif-->e"#, "be"),
        (r#"<!--#if expr="$no"-->a<!--#else-->d<!--#endif-->"#, "d"),
        (r#"<!--#if expr="x"-->a<!--#if expr="y"-->b<!--#endif-->c<!--#endif-->d"#, "aEbcEd"),
        (r#"<!--#if expr="$no"-->a<!--#if expr="y"-->b<!--#endif-->c<!--#endif-->d"#, "cEd"),
        ("<!--#else-->a<!--#endif-->", "EaE"),
        (r#"<!--#if expr="x"-->a<!--#else-->b<!--#else-->c<!--#elif expr="x"-->d<!--#endif-->"#, "aEE"),
        (r#"<!--#if expr="$no"--><!--#bad--><!--#echo--><!--#endif-->."#, "."),
        (r#"<!--#if expr="$no"--><!--#echo x--><!--#endif-->."#, "E."),
        (r#"<!--#if expr="x"-->a"#, "a"),
    ] {
        assert_eq!(page(text), made, "{text}");
    }
}

#[test]
fn includes_have_a_target_a_stub_or_a_variable() {
    let include = |params: &str| {
        page(&format!("<!--#block name=\"b\"-->B<!--#echo var='uri'--><!--#endblock--><!--#include {params} -->"))
    };
    for (params, made) in [
        (r#"virtual="/x?a=b""#, "{/x?a=b}"),
        (r#"virtual="x/y""#, "{/dir/x/y}"),
        (r#"virtual="/%41%2f" wait="no""#, "{/A/}"),
        (r#"virtual="/x?%41" wait="YES""#, "{/x?%41 waits}"),
        (r#"file="y.txt""#, "{/dir/y.txt waits}"),
        (r#"virtual="$uri""#, "{/dir/page.html}"),
        (r#"virtual="$empty""#, "E"),
        (r#"virtual="$empty/x""#, "{/x}"),
        (r#"virtual="""#, "{/dir/}"),
        (r#"virtual="$up""#, "E"),
        (r#"virtual="/a/../b""#, "E"),
        (r#"virtual="?a""#, "{/dir/?a}"),
        (r#"virtual="/x" set="V""#, "{/x set v waits}"),
        (r#"virtual="/x" stub="b""#, "{/x stub B<!--#echo var=\"uri\" -->}"),
        (r#"virtual="/x" stub="c""#, "E"),
        (r#"virtual="/x" stub="b" set="v""#, "E"),
        (r#"virtual="/x" file="x""#, "E"),
        (r#"file="x" wait="yes""#, "E"),
        (r#"virtual="/x" wait="maybe""#, "E"),
        ("", "E"),
    ] {
        assert_eq!(include(params), made, "{params}");
    }
}

// I1 I2 I3 I5: what a page may write wrong, and the text in its place.
#[test]
fn i01_bad_commands_leave_nginx_text() {
    let long = "x".repeat(33);
    for (text, made) in [
        ("<!--#bad-->.".to_owned(), "E."),
        ("<!--#Echo var=\"uri\"-->.".to_owned(), "E."),
        ("<!--#-->.".to_owned(), ""),
        ("<!--#-->. -->.".to_owned(), "E."),
        (format!("<!--#{long}-->."), "E."),
        (format!("<!--#echo {long}=\"x\"-->."), "E."),
        (format!("<!--#echo var=\"{}\"-->.", "v".repeat(40)), "(none)."),
        (format!("<!--#echo var=\"{}\"-->.", "v".repeat(41)), "E."),
        ("<!--#echo var=uri-->.".to_owned(), "E."),
        ("<!--#echo var-->.".to_owned(), "E."),
        ("<!--#echo var \"uri\"-->.".to_owned(), "E."),
        ("<!--#echo var=\"uri\"x-->.".to_owned(), "E."),
        ("<!--#echo var=\"uri\"->-->.".to_owned(), "E."),
        ("<!--#echo var=\"uri\"--->-->.".to_owned(), "E."),
        ("<!--#echo var = \"uri\"\r\n\t-->.".to_owned(), "/dir/page.html."),
        (format!("<!--#echo var=\"uri\"{} -->.", " a=\"b\"".repeat(16)), "E."),
        ("a<!--#echo var=\"uri\"".to_owned(), "a"),
        ("a<!--#echo var=uri ".to_owned(), "a"),
    ] {
        assert_eq!(page(&text), made, "{text}");
    }
}

#[test]
fn config_sets_the_texts_and_silence_leaves_none() {
    assert_eq!(page("<!--#config errmsg=\"oops\"--><!--#bad-->"), "oops");
    assert_eq!(page("<!--#config errmsg=\"\"--><!--#bad-->"), "");
    assert_eq!(run(b"a<!--#bad-->b", 1, true).0, "ab");
    let (site, mut shared) = (Site::default(), Shared::default());
    let mut state = Page::new(PageSettings { value_bytes_max: 255, silent: false });
    while state.next(&mut &b"<!--#config timefmt=\"%s\"-->"[..], &mut shared, &site) != Some(Output::Nothing) {}
    assert_eq!(*site.time_format.borrow(), b"%s");
}

// I8: what a page can make is bounded.
#[test]
fn i08_variables_and_blocks_cannot_grow_without_end() {
    let double = "<!--#set var=\"a\" value=\"$a$a\"-->".repeat(30);
    let (text, reports) = run(format!("<!--#set var=\"a\" value=\"x\"-->{double}").as_bytes(), 100_000, false);
    assert!(text.contains("error occurred"), "{text}");
    assert!(reports.iter().all(|report| report.contains("too long")), "{reports:?}");
    let block = format!("<!--#block name=\"b\"-->{}<!--#endblock-->", "x".repeat(300_000));
    let (_, reports) = run(block.repeat(4).as_bytes(), 4096, false);
    assert!(!reports.is_empty() && reports.iter().all(|report| report == shared::FULL), "{reports:?}");
}

/// Pieces of pages, most of which mean something.
const PARTS: &[&str] = &[
    "text",
    "<",
    "<!--",
    "<!--#",
    "-->",
    " -->",
    "echo",
    "if ",
    "else",
    "endif",
    "set ",
    "block name=\"b\"",
    "endblock",
    " var=\"uri\"",
    " expr=\"$uri = /(d.r)/\"",
    " value='$1\\$'",
    "include virtual=\"x\"",
    " stub=\"b\"",
    "\"",
    "'",
    "\\",
    "-",
    "<!--#echo var=\"1\" -->",
    "<!--#endif -->",
    "<!--#if expr=\"$none\" -->",
    "<!--#endblock -->",
    "\u{e9}",
];

proptest! {
    #[test]
    fn a_page_is_the_same_at_every_split(parts in prop::collection::vec(prop::sample::select(PARTS), 0..12), piece in 1_usize..9) {
        let text = parts.concat();
        prop_assert_eq!(run(text.as_bytes(), piece, false), run(text.as_bytes(), text.len(), false));
    }
}
