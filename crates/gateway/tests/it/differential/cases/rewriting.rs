//! `rewrite`, `if`, `set`, `break` and `return` at server and location level.

use super::Case;

const FLAGS: &[&str] = &[
    "/show",
    "/show?a=b",
    "/none/x",
    "/none/x?a=b",
    "/none2/x?a=b",
    "/last/x",
    "/last/x?a=b",
    "/lastmiss/x",
    "/break/x",
    "/then-break/x",
    "/break-return",
    "/redirect/x",
    "/redirect/x?a=b",
    "/redirect/x%20y",
    "/redirect/%C3%A4",
    "/redirect/a+b",
    "/redirect/a+b%26c",
    "/redirect/a%3Fb",
    "/redirect/a%2Fb",
    "/redirect/a%25b",
    "/redirect/a&b;c",
    "/redirect/%22q%22",
    "/permanent/x?a=b",
    "/url/x",
    "/url/x?a=b",
    "/url/a%20b?c=%20d",
    "/url-last/x",
    "/url-permanent/x?a",
    "/scheme/x?a=b",
    "/args/x",
    "/args/x?a=b",
    "/args/x%26y",
    "/args/a%20b",
    "/args/a+b",
    "/args/a&b",
    "/args/%C3%A4",
    "/args2/one/two?a=b",
    "/args2/o%20e/t%20o?a=b",
    "/noargs/x?a=b",
    "/newargs/x?a=b",
    "/onlyargs/x?a=b",
    "/redirargs/x?a=b",
    "/redirargs/x%20y?a=b",
    "/redirargs/x+y",
    "/redirnoargs/x?a=b",
    "/redirvar/x?a=b",
    "/redirvar/x%20y",
    "/redirarg?v=x",
    "/redirarg?v=a%20b%2F%41",
    "/redirescaped",
    "/redirescaped?q=%41",
    "/redirnamed/x",
    "/redirnamed/x%20y",
    "/redirnamed/x%3Fy?z",
    "/named/a/b",
    "/named/a%20a/b%20b?q",
    "/argnamed/a%26b",
    "/case/x",
    "/twice/x?a",
    "/loop",
    "/grow",
    "/ten",
    "/eleven",
    "/empty/",
    "/empty/show",
    "/relative/x",
    "/query/x",
    "/toprivate",
    "/private/x",
    "/set",
    "/setargs?old=1",
    "/setargs",
    "/setargs-rewrite/x?old=1",
    "/setlater",
    "/never",
    "/never?x=1",
    "/group",
    "/group?x=abc",
    "/miss",
    "/loc/abc/d?x=1",
    "/loc/abc/d",
    "/loc/ABC/d",
    "/locmiss/x",
    "/mapped/x?m=abc",
    "/mapped/x",
    "/ret301?x=a",
    "/ret301?x=a%20b",
    "/ret301",
    "/nested/a/x",
    "/nested/c/x",
    "/try/a.txt",
    "/try/none.txt",
    "/index/",
    "/index/old/",
    "/index/old/i.html",
    "/at/x",
    "/at-url",
    "/last/a%0Ab",
    "/none//x///y",
    "/none/../none/x",
];

const SERVER: &[&str] = &[
    "/",
    "/x?stop=now",
    "/x?go=abc12",
    "/x?go=12",
    "/old/x?a=b",
    "/first/x",
    "/second/x",
    "/stop/x",
    "/away/x?a",
    "/after/x",
    "/after/x?break=1",
    "/inner/x",
    "/gone",
    "/gone?a=b",
    "/hidden",
    "/open",
    "/new/x",
    "/forbidden",
    "/nothing",
];

const CONDITIONS: &[&str] = &[
    "/empty",
    "/equal",
    "/equal-empty",
    "/equal-var",
    "/unequal",
    "/match",
    "/imatch",
    "/nomatch",
    "/inomatch",
    "/quoted",
];

const VALUES: &[&str] =
    &["", "?x", "?x=", "?x=0", "?x=00", "?x=1", "?x=one", "?x=ONE", "?x=Ab", "?x=ab&y=ab", "?x=A", "?x=%41b"];

const TESTS: &[&str] = &["/file", "/nofile", "/dir", "/nodir", "/exists", "/noexists", "/exec", "/noexec"];

const PLACES: &[&str] = &[
    "/wp/real.txt",
    "/wp/some/post",
    "/wp/some/post?p=1",
    "/method",
    "/header",
    "/header?x=1",
    "/header-inherit?x=1",
    "/two?x=1",
    "/two?y=1",
    "/two?x=1&y=1",
    "/type",
    "/type?x=1",
    "/proxied",
    "/proxied?x=1",
    "/proxy",
    "/proxy?x=1",
    "/proxy/a%20b%2Fc?x=1",
    "/proxy-if/y?x=1",
    "/proxy-if/y",
    "/proxy-uri/y?x=1",
    "/proxy-uri/a%20b?x=1",
    "/proxy-uri-break/y?a=b",
    "/proxy-uri-break/a%20b",
    "/proxy-uri-break/a|b",
    "/proxy-break/y?a=b",
    "/proxy-break/a%20b%3Fc",
    "/proxy-break/a|b",
    "/proxy-args/y?old=1",
    "/proxy-args/a%20b?old=1",
    "/proxy-args/a|b",
    "/proxy-args-rewrite/a%20b?old=1",
    "/proxy-args-rewrite/a|b?old=1",
    "/proxy-noargs/y?old=1",
    "/proxy-header",
    "/proxy-header?x=1",
    "/proxy-var?a=b",
    "/proxy-var/a%20b",
    "/proxy-var-uri/x?a=b",
    "/proxy-var-uri",
    "/try-if",
    "/try-if?x=1",
    "/alias/a.txt",
    "/alias/a.txt?x=1",
    "/root-if",
    "/root-if?x=1",
    "/error-if?x=1",
    "/error-in?x=1",
    "/error-in",
    "/limit",
    "/limit?x=1",
    "/deny?x=1",
    "/deny-return?x=1",
    "/deny-return",
    "/slash",
    "/slash/",
    "/slash/?x=1",
    "/re/abc",
    "/re/abc?x=1",
];

/// Files in the directory of both sides.
pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    ["site/files/a.txt", "site/files/dir/x", "site/index/i.html", "site/wp/real.txt", "site/root-if", "other/root-if"]
        .map(|path| (path, path.as_bytes().to_vec()))
        .into()
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for target in FLAGS {
        cases.push(Case::simple("GET", "flags.test", target).named("flags"));
    }
    for target in ["/last/x", "/redirect/x", "/permanent/x?a", "/loop"] {
        for method in ["HEAD", "POST"] {
            cases.push(Case::simple(method, "flags.test", target).named("flags"));
        }
    }
    for target in SERVER {
        cases.push(Case::simple("GET", "server.test", target).named("server"));
    }
    cases.push(Case::simple("DELETE", "server.test", "/x").named("server"));
    for target in ["/new/x", "/old/x"] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: server.test\r\nX-Flag: red\r\n\r\n");
        cases.push(Case::raw(format!("server with a field: {target}"), text));
    }
    for place in CONDITIONS {
        for value in VALUES {
            cases.push(Case::simple("GET", "if.test", &format!("{place}{value}")).named("condition"));
        }
    }
    for place in TESTS {
        for name in ["a.txt", "dir", "none", "a.txt/x", "", "dir/"] {
            cases.push(Case::simple("GET", "if.test", &format!("{place}?x={name}")).named("file"));
        }
    }
    for place in PLACES {
        cases.push(Case::simple("GET", "if.test", place).named("if"));
    }
    for place in ["/method", "/limit", "/limit?x=1", "/proxy?x=1"] {
        let text = format!("POST {place} HTTP/1.1\r\nHost: if.test\r\nContent-Length: 5\r\n\r\nhello");
        cases.push(Case::raw(format!("if with a body: {place}"), text));
    }
    cases
}
