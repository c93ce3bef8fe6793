//! `ssi`: pages as a table. Each is sent from a file, and by an upstream in pieces.

use super::{Case, pattern};
use std::fmt::Write as _;

/// Name and text of a page.
const PAGES: &[(&str, &str)] = &[
    ("plain", "<p>one page\n"),
    ("comment", "a<!-- comment -->b<!--#-->c"),
    ("marks", "<<!<!-<!--<!---#<!--x<!--#echo var=\"uri\" -->"),
    ("end-less", "text <"),
    ("end-mark", "text <!--"),
    ("end-command", "text <!--#echo var=\"uri\""),
    ("end-broken", "text <!--#echo var=uri "),
    ("end-dashes", "text <!--#echo var=\"uri\" --"),
    // echo
    ("echo", "<!--#echo var=\"uri\" -->"),
    ("echo-upper", "<!--#echo var=\"URI\" -->"),
    ("echo-single", "<!--#echo var='uri'-->"),
    ("echo-spaces", "<!--#  echo\n\tvar = \"uri\"\r\n-->"),
    ("echo-none", "<!--#echo var=\"nothing\" -->"),
    ("echo-arg", "<!--#echo var=\"arg_a\" -->|<!--#echo var=\"args\" -->|<!--#echo var=\"arg_none\" -->"),
    ("echo-default", "<!--#echo var=\"nothing\" default=\"of $uri <b>\" -->"),
    ("echo-default-empty", "[<!--#echo var=\"nothing\" default=\"\" -->]"),
    (
        "echo-url",
        "<!--#echo var=\"q\" --><!--#set var=\"q\" value=\"a b<&>'%/?#+é~\" --><!--#echo var=\"q\" encoding=\"url\" -->",
    ),
    (
        "echo-entity",
        "<!--#set var=\"q\" value=\"<a href='x'>&amp; \\\"\" --><!--#echo var=\"q\" encoding=\"entity\" -->",
    ),
    ("echo-raw", "<!--#set var=\"q\" value=\"<b>\" --><!--#echo var=\"q\" encoding=\"none\" -->"),
    (
        "echo-sticky",
        "<!--#set var=\"q\" value=\"<b>\" --><!--#echo var=\"q\" encoding=\"none\" --><!--#echo var=\"q\" -->",
    ),
    (
        "echo-empty-encoding",
        "<!--#set var=\"e\" value=\"\" --><!--#set var=\"q\" value=\"<b>\" --><!--#echo var=\"e\" encoding=\"none\" --><!--#echo var=\"q\" -->",
    ),
    ("echo-unknown-encoding", "<!--#set var=\"q\" value=\"<b>\" --><!--#echo var=\"q\" encoding=\"base64\" -->"),
    ("echo-no-var", "<!--#echo -->"),
    ("echo-wrong", "<!--#echo var=\"uri\" vax=\"x\" -->"),
    ("echo-twice", "<!--#echo var=\"uri\" var=\"uri\" -->"),
    ("echo-map", "<!--#echo var=\"mapped\" --> <!--#echo var=\"inside\" -->"),
    (
        "echo-http",
        "<!--#echo var=\"http_x_field\" --> <!--#echo var=\"http_host\" --> <!--#echo var=\"request_method\" -->",
    ),
    ("echo-sent", "<!--#echo var=\"sent_http_content_type\" --> <!--#echo var=\"status\" -->"),
    (
        "echo-request",
        "<!--#echo var=\"request_uri\" --> <!--#echo var=\"document_uri\" --> <!--#echo var=\"server_name\" -->",
    ),
    ("echo-dollar", "<!--#echo var=\"$uri\" -->"),
    ("echo-digit", "<!--#echo var=\"1\" -->"),
    // set
    ("set", "<!--#set var=\"A\" value=\"x $uri ${arg_a}y\" --><!--#echo var=\"a\" -->"),
    ("set-escapes", r#"<!--#set var="a" value="\$uri \\ \" \' \n" --><!--#echo var="a" encoding="none" -->"#),
    ("set-again", "<!--#set var=\"a\" value=\"1\" --><!--#set var=\"a\" value=\"$a$a\" --><!--#echo var=\"a\" -->"),
    ("set-empty", "[<!--#set var=\"a\" value=\"\" --><!--#echo var=\"a\" default=\"d\" -->]"),
    ("set-hides", "<!--#set var=\"uri\" value=\"mine\" --><!--#echo var=\"uri\" -->"),
    ("set-unclosed", "<!--#set var=\"a\" value=\"${uri\" --><!--#echo var=\"a\" -->"),
    (
        "set-bad-name",
        "<!--#set var=\"a\" value=\"x$\" --><!--#set var=\"b\" value=\"$-\" --><!--#echo var=\"a\" --><!--#echo var=\"b\" -->",
    ),
    ("set-brackets", "<!--#set var=\"a\" value=\"${}\" --><!--#echo var=\"a\" -->"),
    ("set-no-value", "<!--#set var=\"a\" -->"),
    ("set-digit", "<!--#set var=\"1\" value=\"x\" --><!--#echo var=\"1\" -->"),
    // if
    ("if-true", "<!--#if expr=\"$uri\" -->yes<!--#else -->no<!--#endif -->."),
    ("if-false", "<!--#if expr=\"$nothing\" -->yes<!--#else -->no<!--#endif -->."),
    ("if-alone", "a<!--#if expr=\"$nothing\" -->b<!--#endif -->c"),
    (
        "if-elif",
        "<!--#if expr=\"$arg_a = 1\" -->1<!--#elif expr=\"$arg_a = b\" -->b<!--#elif expr=\"x\" -->x<!--#else -->e<!--#endif -->",
    ),
    ("if-else-twice", "<!--#if expr=\"x\" -->a<!--#else -->b<!--#else -->c<!--#endif -->d"),
    ("if-elif-after-else", "<!--#if expr=\"$no\" -->a<!--#else -->b<!--#elif expr=\"x\" -->c<!--#endif -->d"),
    ("if-nested", "<!--#if expr=\"x\" -->a<!--#if expr=\"y\" -->b<!--#endif -->c<!--#endif -->d"),
    ("if-nested-false", "<!--#if expr=\"$no\" -->a<!--#if expr=\"y\" -->b<!--#endif -->c<!--#endif -->d"),
    ("if-unclosed", "a<!--#if expr=\"$no\" -->b"),
    ("if-stray", "<!--#endif -->a<!--#else -->b<!--#elif expr=\"x\" -->c"),
    ("if-hidden-errors", "<!--#if expr=\"$no\" --><!--#bad --><!--#echo --><!--#echo var=x --><!--#endif -->."),
    ("if-no-expr", "<!--#if -->a<!--#endif -->b"),
    ("if-empty", "<!--#if expr=\"\" -->a<!--#endif -->b"),
    (
        "if-text",
        "<!--#if expr=\"text\" -->a<!--#endif --><!--#if expr=\"ABC = abc\" -->b<!--#endif --><!--#if expr=\"abc = ABC\" -->c<!--#endif -->",
    ),
    (
        "if-equal",
        "<!--#if expr=\"$arg_a = b\" -->a<!--#endif --><!--#if expr=\"$arg_a=b\" -->b<!--#endif --><!--#if expr=\"$arg_a   =   b\" -->c<!--#endif -->",
    ),
    ("if-unequal", "<!--#if expr=\"$arg_a != b\" -->a<!--#endif --><!--#if expr=\"$arg_a!=c\" -->b<!--#endif -->"),
    (
        "if-right-variable",
        "<!--#if expr=\"$arg_a = $arg_a\" -->a<!--#endif --><!--#if expr=\"$arg_a = ${arg_a}x\" -->b<!--#endif -->",
    ),
    ("if-right-empty", "<!--#if expr=\"$nothing = \" -->a<!--#endif --><!--#if expr=\"$nothing =\" -->b<!--#endif -->"),
    ("if-slash", "<!--#if expr=\"$arg_a = \\/b\" -->a<!--#endif --><!--#if expr=\"$arg_s = \\/x\" -->b<!--#endif -->"),
    ("if-lone-slash", "<!--#if expr=\"$arg_a = /\" -->a<!--#else -->b<!--#endif -->"),
    ("if-open-regex", "<!--#if expr=\"$arg_a = /b\" -->a<!--#endif -->"),
    ("if-bad-operator", "<!--#if expr=\"$arg_a ~ b\" -->a<!--#endif --><!--#if expr=\"$arg_a-b\" -->b<!--#endif -->"),
    ("if-bang", "<!--#if expr=\"$arg_a !\" -->a<!--#endif --><!--#if expr=\"!$arg_a\" -->b<!--#endif -->"),
    ("if-quotes", "<!--#if expr='\"b\" = \"b\"' -->a<!--#endif --><!--#if expr=\"'$arg_a' = 'b'\" -->b<!--#endif -->"),
    ("regex", "<!--#if expr=\"$uri = /p/\" -->a<!--#endif --><!--#if expr=\"$uri != /p/\" -->b<!--#endif -->"),
    (
        "regex-no",
        "<!--#if expr=\"$uri = /q+z/\" -->a<!--#else -->b<!--#endif --><!--#if expr=\"$uri != /q+z/\" -->c<!--#endif -->",
    ),
    (
        "regex-case",
        "<!--#if expr=\"$uri = /REGEX/\" -->a<!--#else -->b<!--#endif --><!--#if expr=\"$uri = /(?i)REGEX/\" -->c<!--#endif -->",
    ),
    (
        "regex-end",
        "<!--#if expr=\"$uri = /html$/\" -->a<!--#endif --><!--#if expr=\"$uri = /html\\$/\" -->b<!--#endif -->",
    ),
    (
        "regex-groups",
        "<!--#if expr=\"$uri = /^.(\\w+).([\\w-]+)/\" --><!--#echo var=\"0\" -->,<!--#echo var=\"1\" -->,<!--#echo var=\"2\" -->,<!--#echo var=\"3\" --><!--#endif -->",
    ),
    (
        "regex-named",
        "<!--#if expr=\"$uri = /^.(?P<Name>\\w+).(?<other>[\\w-]+)/\" --><!--#echo var=\"name\" -->,<!--#echo var=\"other\" --><!--#endif -->",
    ),
    (
        "regex-optional",
        "<!--#if expr=\"$uri = /(x)?(p)(y)?/\" -->[<!--#echo var=\"1\" -->,<!--#echo var=\"2\" -->,<!--#echo var=\"3\" -->]<!--#endif -->",
    ),
    (
        "regex-text",
        "<!--#if expr=\"$uri = /(p)/\" --><!--#set var=\"x\" value=\"<$1>\" --><!--#echo var=\"x\" --><!--#endif --><!--#echo var=\"1\" -->",
    ),
    ("regex-bad", "<!--#if expr=\"$uri = /(/\" -->a<!--#else -->b<!--#endif -->c"),
    ("regex-empty", "<!--#if expr=\"$uri = //\" -->a<!--#else -->b<!--#endif -->"),
    ("regex-variable", "<!--#if expr=\"$uri = /$arg_r/\" -->a<!--#else -->b<!--#endif -->"),
    // config
    ("config-errmsg", "<!--#bad --><!--#config errmsg=\"<i>oops $uri</i>\" --><!--#bad -->"),
    ("config-errmsg-empty", "<!--#config errmsg=\"\" -->[<!--#bad -->]"),
    (
        "config-timefmt",
        "<!--#config timefmt=\"%Y %% %Z\" --><!--#echo var=\"date_gmt\" --> <!--#echo var=\"DATE_LOCAL\" -->",
    ),
    (
        "config-timefmt-letters",
        "<!--#config timefmt=\"%A %a %B %b %C %d %D %e %F %G %g %j %m %n %t %U %u %V %W %w %x %y %z\" --><!--#echo var=\"date_gmt\" -->",
    ),
    ("config-timefmt-flags", "<!--#config timefmt=\"%-d %_m %5Y %^a %EY %Od %Q\" --><!--#echo var=\"date_local\" -->"),
    (
        "config-timefmt-regex",
        "<!--#if expr=\"$date_gmt = /^\\w+day, ..-\\w{3}-\\d{4} ..:..:.. GMT\\$/\" -->form<!--#endif --><!--#config timefmt=\"%s\" --><!--#if expr=\"$date_local = /^\\d{10}\\$/\" --> seconds<!--#endif -->",
    ),
    ("config-nothing", "<!--#config -->."),
    ("config-wrong", "<!--#config sizefmt=\"bytes\" -->."),
    // include
    ("include", "a<!--#include virtual=\"/f/text\" -->b"),
    ("include-two", "a<!--#include virtual=\"/f/text\" -->b<!--#include virtual=\"/f/args?x=1\" -->c"),
    ("include-relative", "a<!--#include virtual=\"plain.html\" -->b"),
    ("include-file", "a<!--#include file=\"plain.html\" -->b<!--#include file=\"/f/text\" -->c"),
    ("include-args", "<!--#include virtual=\"/f/args?a=$arg_a&b=%41\" --><!--#include virtual=\"/f/args?\" -->"),
    (
        "include-variable",
        "<!--#set var=\"x\" value=\"/f/\" --><!--#include virtual=\"${x}text\" --><!--#include virtual=\"$nothing\" --><!--#include virtual=\"${nothing}plain.html\" -->",
    ),
    ("include-encoded", "<!--#include virtual=\"/f/te%78t\" --><!--#include virtual=\"/f/args%3fx\" -->"),
    (
        "include-unsafe",
        "<!--#include virtual=\"/f/../f/text\" --><!--#include virtual=\"../f/text\" --><!--#include virtual=\"/f/%2e%2e/f/text\" -->",
    ),
    ("include-none", "a<!--#include virtual=\"/f/none\" -->b"),
    ("include-none-text", "a<!--#include virtual=\"/f/none-text\" -->b"),
    ("include-no-file", "a<!--#include virtual=\"/p/no-such.html\" -->b"),
    ("include-empty", "a<!--#include virtual=\"/f/empty\" -->b<!--#include virtual=\"/f/204\" -->c"),
    ("include-moved", "a<!--#include virtual=\"/f/moved\" -->b"),
    ("include-500", "a<!--#include virtual=\"/f/500\" -->b"),
    ("include-dead", "a<!--#include virtual=\"/f/dead\" -->b"),
    ("include-proxied", "a<!--#include virtual=\"/f/proxied\" -->b"),
    (
        "include-error-page",
        "a<!--#include virtual=\"/f/error-page\" -->b<!--#include virtual=\"/f/error-page-200\" -->c",
    ),
    ("include-internal", "a<!--#include virtual=\"/f/internal\" -->b<!--#include virtual=\"/f/denied\" -->c"),
    ("include-rewritten", "a<!--#include virtual=\"/f/rewritten\" -->b<!--#include virtual=\"/f/try\" -->c"),
    ("include-authorized", "a<!--#include virtual=\"/f/authorized\" -->b"),
    ("include-large", "a<!--#include virtual=\"/f/large\" -->b<!--#include virtual=\"/f/large\" -->c"),
    ("include-wait", "a<!--#include virtual=\"/f/sets\" wait=\"yes\" -->b<!--#echo var=\"inside\" -->"),
    (
        "include-wait-case",
        "a<!--#include virtual=\"/f/text\" wait=\"YES\" -->b<!--#include virtual=\"/f/text\" wait=\"No\" -->c",
    ),
    ("include-wait-large", "a<!--#include virtual=\"/f/large\" wait=\"yes\" -->b"),
    (
        "include-wait-wrong",
        "a<!--#include virtual=\"/f/text\" wait=\"maybe\" -->b<!--#include file=\"plain.html\" wait=\"yes\" -->c",
    ),
    ("include-both", "a<!--#include virtual=\"/f/text\" file=\"plain.html\" -->b<!--#include -->c"),
    ("include-set", "a<!--#include virtual=\"/f/text\" set=\"V\" -->b<!--#echo var=\"v\" -->c"),
    ("include-set-file", "a<!--#include file=\"plain.html\" set=\"v\" -->b<!--#echo var=\"v\" encoding=\"none\" -->c"),
    (
        "include-set-error",
        "<!--#set var=\"v\" value=\"old\" --><!--#include virtual=\"/f/none\" set=\"v\" --><!--#echo var=\"v\" -->|<!--#include virtual=\"/f/none-text\" set=\"w\" --><!--#echo var=\"w\" default=\"d\" -->|",
    ),
    (
        "include-set-error-page",
        "<!--#include virtual=\"/f/error-page\" set=\"v\" --><!--#echo var=\"v\" -->|<!--#include virtual=\"/f/error-page-200\" set=\"w\" --><!--#echo var=\"w\" -->|",
    ),
    (
        "include-set-empty",
        "<!--#set var=\"v\" value=\"old\" --><!--#include virtual=\"/f/empty\" set=\"v\" -->[<!--#echo var=\"v\" -->]",
    ),
    (
        "include-set-proxied",
        "<!--#include virtual=\"/f/proxied\" set=\"v\" --><!--#if expr=\"$v = /one/\" -->found<!--#endif -->",
    ),
    ("include-set-small", "<!--#include virtual=\"/f/small-buffer\" set=\"v\" -->[<!--#echo var=\"v\" -->]"),
    (
        "include-set-stub",
        "<!--#block name=\"b\" -->B<!--#endblock --><!--#include virtual=\"/f/text\" set=\"v\" stub=\"b\" -->",
    ),
    (
        "include-nested",
        "<!--#set var=\"v\" value=\"main\" -->a<!--#include virtual=\"/f/nested\" wait=\"yes\" -->b<!--#echo var=\"v\" -->",
    ),
    (
        "include-nested-twice",
        "a<!--#include virtual=\"/f/nested\" -->b<!--#include virtual=\"/f/nested\" -->c<!--#echo var=\"v\" -->",
    ),
    ("include-pages", "a<!--#include virtual=\"include-two.html\" -->b<!--#include virtual=\"if-elif.html?a=b\" -->c"),
    ("include-no-ssi", "a<!--#include virtual=\"/f/no-ssi\" -->b<!--#include virtual=\"/f/plain\" -->c"),
    ("include-itself", "(<!--#include virtual=\"include-itself.html\" -->)"),
    ("include-cut", "a<!--#include virtual=\"/f/cut\" -->b"),
    (
        "include-many",
        "<!--#include virtual=\"/f/text\" --><!--#include virtual=\"/f/args?1\" --><!--#include virtual=\"/f/proxied\" --><!--#include virtual=\"/f/args?2\" --><!--#include virtual=\"plain.html\" --><!--#include virtual=\"/f/none-text\" -->",
    ),
    // block, stub
    ("block", "a<!--#block name=\"b\" -->B<!--#endblock -->c"),
    ("stub", "<!--#block name=\"b\" -->[B]<!--#endblock -->a<!--#include virtual=\"/f/none\" stub=\"b\" -->c"),
    (
        "stub-empty",
        "<!--#block name=\"b\" -->[B]<!--#endblock -->a<!--#include virtual=\"/f/empty\" stub=\"b\" -->c<!--#include virtual=\"/f/204\" stub=\"b\" -->d",
    ),
    (
        "stub-unused",
        "<!--#block name=\"b\" -->[B]<!--#endblock -->a<!--#include virtual=\"/f/text\" stub=\"b\" -->c<!--#include virtual=\"/f/none-text\" stub=\"b\" -->d",
    ),
    ("stub-dead", "<!--#block name=\"b\" -->[B]<!--#endblock -->a<!--#include virtual=\"/f/dead\" stub=\"b\" -->c"),
    (
        "stub-500",
        "<!--#block name=\"b\" -->[B]<!--#endblock -->a<!--#include virtual=\"/f/500\" stub=\"b\" -->c<!--#include virtual=\"/f/moved\" stub=\"b\" -->d",
    ),
    (
        "stub-error-page",
        "<!--#block name=\"b\" -->[B]<!--#endblock -->a<!--#include virtual=\"/f/error-page\" stub=\"b\" -->c",
    ),
    (
        "stub-commands",
        "<!--#block name=\"b\" -->[<!--#echo var='uri' default=\"d\" -->]<!--#endblock -->a<!--#include virtual=\"/f/none\" stub=\"b\" -->c",
    ),
    (
        "stub-twice",
        "<!--#block name=\"b\" -->[B]<!--#endblock --><!--#include virtual=\"/f/none\" stub=\"b\" --><!--#include virtual=\"/f/500\" stub=\"b\" -->",
    ),
    ("stub-missing", "<!--#include virtual=\"/f/none\" stub=\"b\" -->"),
    (
        "stub-first",
        "<!--#block name=\"b\" -->1<!--#endblock --><!--#block name=\"b\" -->2<!--#endblock --><!--#include virtual=\"/f/none\" stub=\"b\" -->",
    ),
    ("stub-nothing", "<!--#block name=\"b\" --><!--#endblock -->a<!--#include virtual=\"/f/none\" stub=\"b\" -->c"),
    (
        "block-if",
        "<!--#block name=\"b\" --><!--#if expr=\"$uri\" -->yes<!--#else -->no<!--#endif --><!--#endblock -->a<!--#include virtual=\"/f/none\" stub=\"b\" -->c",
    ),
    ("block-unclosed", "a<!--#block name=\"b\" -->B<!--#echo var=\"uri\" -->"),
    ("block-in-false", "<!--#if expr=\"$no\" -->a<!--#block name=\"b\" -->B<!--#endblock -->c<!--#endif -->d"),
    ("block-no-name", "<!--#block -->B<!--#endblock -->c"),
    ("block-stray-end", "a<!--#endblock -->b"),
    (
        "block-bad-command",
        "<!--#block name=\"b\" -->1<!--#bad x=\"y\" -->2<!--#endblock --><!--#include virtual=\"/f/none\" stub=\"b\" -->",
    ),
    // odd syntax
    ("bad-command", "a<!--#bad -->b<!--#Echo var=\"uri\" -->c"),
    ("bad-empty", "a<!--# -->b --> c"),
    ("bad-long-command", "a<!--#abcdefghijklmnopqrstuvwxyzabcdefg -->b"),
    ("bad-command-32", "a<!--#abcdefghijklmnopqrstuvwxyzabcdef -->b"),
    ("bad-long-param", "a<!--#echo abcdefghijklmnopqrstuvwxyzabcdefg=\"x\" -->b"),
    ("bad-no-quotes", "a<!--#echo var=uri -->b"),
    ("bad-no-equal", "a<!--#echo var -->b<!--#echo var \"uri\" -->c"),
    ("bad-after-value", "a<!--#echo var=\"uri\"x -->b<!--#echo var=\"uri\"- -->c"),
    ("bad-dashes", "a<!--#echo var=\"uri\" ---> -->b<!--#echo var=\"uri\" - -> -->c"),
    ("bad-key-dash", "a<!--#echo va-->b<!--#echo va-r=\"x\" -->c"),
    ("bad-tight", "a<!--#echo var=\"uri\"-->b<!--#echo var=\"uri\"default=\"x\" -->c"),
    ("bad-nested-marks", "a<!--#echo var=\"<!--#echo var='x' -->\" -->b"),
    (
        "bad-many-params",
        "a<!--#echo var=\"uri\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" a=\"1\" -->b",
    ),
    ("bad-newlines", "a<!--#\necho\nvar\n=\n\"uri\"\n-->b"),
    ("bad-binary", "a<!--#echo var=\"\u{e9}\u{1}\" -->b\u{0}c"),
    ("shown", "shown: <!--#echo var=\"uri\" --> <!--#echo var=\"status\" -->"),
    ("posted", "<!--#include virtual=\"/f/args\" --><!--#echo var=\"request_method\" -->"),
];

/// A page with a value of this length.
fn value_page(length: usize) -> Vec<u8> {
    format!("<!--#set var=\"a\" value=\"{}\" --><!--#echo var=\"a\" -->.", "v".repeat(length)).into_bytes()
}

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    let mut files: Vec<(&'static str, Vec<u8>)> = PAGES
        .iter()
        .map(|(name, text)| (&*Box::leak(format!("site/p/{name}.html").into_boxed_str()), text.as_bytes().to_vec()))
        .collect();
    files.push(("site/large.html", pattern(300_000)));
    files.push(("site/p/large.html", [&pattern(70_000)[..], b"<!--#echo var=\"uri\" -->", &pattern(100_000)].concat()));
    files.push(("site/p/empty.html", Vec::new()));
    files.push(("site/p/page.txt", b"<!--#echo var=\"uri\" -->".to_vec()));
    files.push(("site/p/page.css", b"<!--#echo var=\"uri\" -->".to_vec()));
    files.push(("site/p/value-10.html", value_page(10)));
    files.push(("site/p/value-11.html", value_page(11)));
    files.push(("site/p/value-255.html", value_page(255)));
    files.push(("site/p/value-256.html", value_page(256)));
    files.push(("site/p/value-257.html", value_page(257)));
    files
}

/// Targets with every method and protocol version.
const HEADS: &[&str] = &[
    "/p/echo.html",
    "/p/empty.html",
    "/p/large.html",
    "/p/page.txt",
    "/p/no-such.html",
    "/raw/echo.html",
    "/silent/bad-command.html",
    "/silent/echo-no-var.html",
    "/silent/bad-no-quotes.html",
    "/plain/page.txt",
    "/plain/page.css",
    "/plain/echo.html",
    "/css/page.css",
    "/any/page.css",
    "/any/page.txt",
    "/dated/echo.html",
    "/if/echo.html",
    "/if/echo.html?a=1",
    "/chunk/large.html",
    "/gzip/include-two.html",
    "/sub/include.html",
    "/trailer/include-two.html",
    "/trailer/plain.html",
    "/charset/include-two.html",
    "/rate/include-large.html",
    "/unbuffered/p/include-two.html",
    "/added/include.html",
    "/zipped/p/include-two.html",
    "/around/echo.html",
    "/around/include.html",
    "/proxied/p/echo.html",
    "/proxied/p/page.txt",
    "/proxied/p/none.html",
    "/proxied-dated/p/echo.html",
    "/origin/page",
    "/error/x",
    "/returned?a=b",
    "/returned-404",
    "/returned-empty",
    "/moved",
    "/refused",
    "/nothing",
];

const VALUES: &[&str] = &[
    "/p/value-10.html",
    "/p/value-255.html",
    "/p/value-256.html",
    "/p/value-257.html",
    "/short/value-10.html",
    "/short/value-11.html",
    "/long/value-257.html",
];

const FIELDS: &[&str] = &[
    "Range: bytes=0-3",
    "If-None-Match: \"x\"",
    "If-Modified-Since: Thu, 01 Jan 2037 00:00:00 GMT",
    "Accept-Encoding: gzip",
    "If-Range: \"x\"\r\nRange: bytes=1-",
];

/// A page in the query of the application, in pieces.
fn in_pieces(text: &str, piece: usize) -> String {
    let mut target = format!("/app/x.html?a=b&piece={piece}&f=Content-Type:text/html&page=");
    for byte in text.bytes() {
        let _ = write!(target, "%{byte:02x}");
    }
    target
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let field = |name: String, target: &str, field: &str| {
        Case::raw(name, format!("GET {target} HTTP/1.1\r\nHost: ssi.test\r\n{field}\r\n\r\n"))
    };
    for (name, text) in PAGES {
        let target = format!("/p/{name}.html?a=b&m=a&r=p&s=/x");
        cases.push(field(format!("file: {name}"), &target, "X-Field: f"));
        if *name == "include-nested-twice" {
            // Between two pieces an included page may set the variable or not.
            continue;
        }
        let target = in_pieces(text, if name.len() % 2 == 0 { 1 } else { 7 });
        cases.push(field(format!("pieces: {name}"), &target, "X-Field: f"));
    }
    for target in HEADS {
        cases.push(Case::simple("GET", "ssi.test", target));
        cases.push(Case::simple("HEAD", "ssi.test", target));
        let old = format!("GET {target} HTTP/1.0\r\nHost: ssi.test\r\n\r\n");
        cases.push(Case::raw(format!("GET {target} by 1.0"), old));
    }
    cases.extend(VALUES.iter().map(|target| Case::simple("GET", "ssi.test", target)));
    for target in ["/p/include.html", "/dated/echo.html", "/p/page.txt", "/gzip/include.html", "/proxied/p/echo.html"] {
        cases.extend(FIELDS.iter().map(|line| field(format!("{target} with {line}"), target, line)));
    }
    let trailers = "TE: trailers";
    cases.push(field("a page with trailers".to_owned(), "/trailer/include-two.html", trailers));
    let post = b"POST /posted HTTP/1.1\r\nHost: ssi.test\r\nContent-Length: 3\r\n\r\na=b";
    cases.push(Case::raw("POST to a page", post));
    let page = in_pieces("<!--#include virtual=\"/f/echo?b=c\" -->", 5);
    let post = format!("POST {page} HTTP/1.1\r\nHost: ssi.test\r\nContent-Length: 3\r\n\r\na=b");
    cases.push(Case::raw("POST to a page with a proxied one", post));
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: ssi.test\r\n\r\n").into_bytes();
    let pipeline = [get("/p/include-two.html"), get("/p/include-wait.html"), get("/raw/echo.html")];
    cases.push(Case::pipeline("pipeline", &pipeline.each_ref().map(Vec::as_slice)));
    cases
}
