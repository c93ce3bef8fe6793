//! Conversations about `proxy_cache`: several requests for one path, with pauses between them.

use super::Case;
use std::time::Duration;

/// Longer than one second of `proxy_cache_valid`, which counts whole seconds.
const PAUSE: Duration = Duration::from_millis(2300);

/// One step of a conversation.
pub(crate) enum Move {
    Ask(Case),
    /// A request that begins before the one ahead of it is answered.
    Beside(Case),
    Pause(Duration),
}

/// Successive requests, each on a connection of its own.
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) moves: Vec<Move>,
}

/// The same path, requested with these methods and fields; an empty entry is a pause, and a plus sign begins a request that
/// does not wait for the one ahead of it.
fn conversation(number: usize, location: &str, query: &str, asks: &[&str]) -> Conversation {
    let path = format!("/{location}/{number}?{query}");
    let moves = asks.iter().enumerate().map(|(at, ask)| {
        let is_beside = ask.starts_with('+');
        let mut lines = ask.trim_start_matches('+').split('|');
        let Some(method) = lines.next().filter(|method| !method.is_empty()) else { return Move::Pause(PAUSE) };
        let (method, more) =
            method.split_once('&').map_or((method, String::new()), |(method, more)| (method, format!("&{more}")));
        let fields: String = lines.flat_map(|line| [line, "\r\n"]).collect();
        let body = if method == "POST" { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
        let bytes = format!("{method} {path}{more} HTTP/1.1\r\nHost: cache.test\r\n{fields}{body}");
        let case = Case::raw(format!("{location} {query} {at} {ask}"), bytes);
        if is_beside { Move::Beside(case) } else { Move::Ask(case) }
    });
    Conversation { name: format!("{location} {query} {asks:?}"), moves: moves.collect() }
}

/// Response fields about caching.
const SAID: &[&str] = &[
    "",
    "f=Cache-Control:max-age=60",
    "f=Cache-Control:s-maxage=60",
    "f=Cache-Control:max-age=0,s-maxage=60",
    "f=Cache-Control:max-age=60,s-maxage=0",
    "f=Cache-Control:max-age=0",
    "f=Cache-Control:max-age=x",
    "f=Cache-Control:max-age=",
    "f=Cache-Control:MAX-AGE=60",
    "f=Cache-Control:public",
    "f=Cache-Control:public,max-age=60",
    "f=Cache-Control:private",
    "f=Cache-Control:private,max-age=60",
    "f=Cache-Control:no-cache",
    "f=Cache-Control:no-store",
    "f=Cache-Control:No-Store",
    "f=Cache-Control:must-revalidate",
    "f=Cache-Control:max-age=60&f=Cache-Control:no-cache",
    "f=Cache-Control:no-cache&f=Cache-Control:max-age=60",
    "f=Cache-Control:max-age=60%3B x",
    "f=Cache-Control:stale-while-revalidate=x",
    "f=Cache-Control:max-age=60,stale-if-error=x",
    "f=Expires:Thu, 01 Jan 2037 00:00:01 GMT",
    "f=Expires:Thu, 01 Jan 1970 00:00:01 GMT",
    "f=Expires:never",
    "f=Expires:0",
    "f=Expires:Thu, 01 Jan 2037 00:00:01 GMT&f=Cache-Control:no-cache",
    "f=Expires:Thu, 01 Jan 1970 00:00:01 GMT&f=Cache-Control:max-age=60",
    "f=Cache-Control:max-age=60&f=Expires:Thu, 01 Jan 1970 00:00:01 GMT",
    "f=Cache-Control:public&f=Expires:Thu, 01 Jan 1970 00:00:01 GMT",
    "f=X-Accel-Expires:60",
    "f=X-Accel-Expires:0",
    "f=X-Accel-Expires:-1",
    "f=X-Accel-Expires:x",
    "f=X-Accel-Expires:@4000000000",
    "f=X-Accel-Expires:@1",
    "f=X-Accel-Expires:60&f=Cache-Control:no-cache",
    "f=Cache-Control:no-cache&f=X-Accel-Expires:60",
    "f=Cache-Control:max-age=60&f=X-Accel-Expires:0",
    "f=X-Accel-Expires:60&f=Expires:0",
    "f=Set-Cookie:a=b",
    "f=Set-Cookie:a=b&f=Cache-Control:max-age=60",
    "f=Set-Cookie:a=b&f=X-Accel-Expires:60",
    "f=Vary:*",
    "f=Vary:Accept",
    "f=Pragma:no-cache",
    "f=X-Accel-Buffering:no",
    "f=X-Accel-Redirect:/page",
    "c=1",
    "u=1",
    "b=5000",
    "b=100000",
    "b=300000&c=1",
    "f=Content-Type:text/plain&f=ETag:\"e\"&f=X-Two:1&f=X-Two:2",
];

/// Conditions of a client, against `ETag: "e"` and a date of 2020.
const CONDITIONS: &[&str] = &[
    "If-None-Match: \"e\"",
    "If-None-Match: \"x\"",
    "If-None-Match: W/\"e\"",
    "If-None-Match: *",
    "If-Modified-Since: Wed, 01 Jan 2020 00:00:00 GMT",
    "If-Modified-Since: Fri, 01 Jan 2021 00:00:00 GMT",
    "If-Modified-Since: Tue, 01 Jan 2019 00:00:00 GMT",
    "If-Match: \"e\"",
    "If-Match: \"x\"",
    "If-Unmodified-Since: Tue, 01 Jan 2019 00:00:00 GMT",
    "If-Unmodified-Since: Fri, 01 Jan 2021 00:00:00 GMT",
];

/// Ranges that a client asks for.
const RANGES: &[&str] = &[
    "Range: bytes=0-9",
    "Range: bytes=5-",
    "Range: bytes=-5",
    "Range: bytes=0-4,10-14",
    "Range: bytes=9999999-",
    "Range: bytes=5-2",
    "Range: lines=1-2",
    "Range: bytes=0-9|If-Range: \"e\"",
    "Range: bytes=0-9|If-Range: \"x\"",
    "Range: bytes=0-9|If-Range: Wed, 01 Jan 2020 00:00:00 GMT",
];

const VALIDATED: &str = "f=ETag:\"e\"&f=Last-Modified:Wed, 01 Jan 2020 00:00:00 GMT&f=Content-Type:text/plain";

/// Takes a location, a query and the requests.
type Add<'a> = &'a mut dyn FnMut(&str, &str, &[&str]);

pub(crate) fn conversations() -> Vec<Conversation> {
    let mut all = Vec::new();
    let mut add = |location: &str, query: &str, asks: &[&str]| {
        // A query is sent unchanged.
        let query = query.replace(' ', "%20").replace('"', "%22");
        all.push(conversation(all.len(), location, &query, asks));
    };
    for part in [kept, words, conditions, ranges, variants, failures, ageing, families, slices] {
        part(&mut add);
    }
    all
}

/// `slice`: slices of 100 bytes.
fn slices(add: Add<'_>) {
    let said =
        "f=ETag:\"a\"&f=Accept-Ranges:bytes&f=Last-Modified:Mon, 23 Nov 2026 10:00:00 GMT&f=Content-Type:text/plain";
    let asks = [
        &["GET", "GET"][..],
        &["HEAD", "GET", "HEAD"],
        &["GET|Range: bytes=0-9", "GET|Range: bytes=120-180", "GET|Range: bytes=99-100", "GET"],
        &["GET|Range: bytes=150-", "GET|Range: bytes=-30", "GET|Range: bytes=-230", "GET|Range: bytes=249-"],
        &["GET|Range: bytes=300-", "GET|Range: bytes=250-", "GET|Range: bytes=9-2"],
        &["GET|Range: items=5-9"],
        &["GET|Range: bytes=10-20,130-140", "GET|Range: bytes=110-120, 5-6", "GET|Range: bytes=-5000"],
        &["GET|If-None-Match: \"a\"", "GET|If-None-Match: \"b\"", "GET|If-Match: \"x\"", "HEAD|If-None-Match: \"a\""],
        &["GET|If-Range: \"a\"|Range: bytes=150-160", "GET|If-Range: \"b\"|Range: bytes=150-160"],
        &["GET|If-Modified-Since: Mon, 23 Nov 2026 10:00:00 GMT", "HEAD|Range: bytes=105-106"],
    ];
    // nginx sends a wrong length if a range is asked for and ranges are off: the slice ends where its data ends.
    add("slice-no-ranges", &format!("g=1&b=250&{said}"), &["GET", "GET|Range: bytes=10-20", "HEAD"]);
    for location in ["slice", "slice-passed", "slice-zipped"] {
        for asks in asks {
            add(location, &format!("g=1&b=250&{said}"), asks);
        }
        for size in [1, 99, 100, 101, 200, 201] {
            add(location, &format!("g=1&b={size}&{said}"), &["GET", "GET|Range: bytes=100-150", "GET|Range: bytes=-1"]);
        }
        add(location, "g=1&b=250", &["GET", "GET|Range: bytes=120-180"]);
        add(location, "b=250", &["GET", "GET|Range: bytes=120-180", "HEAD"]);
        add(location, "b=250&c=1", &["GET", "GET"]);
        for status in [204, 301, 404, 500] {
            add(location, &format!("r={status}&b=20"), &["GET", "GET"]);
        }
        add(location, "g=1&b=250&f=ETag:\"a\"&f2=ETag:\"b\"", &["GET"]);
        add(location, "g=1&b=250&f=ETag:\"a\"&f2=X:y", &["GET"]);
        add(location, "g=1&b=250&r2=200", &["GET"]);
        add(location, "g=1&b=250&r2=404", &["GET"]);
        add(location, "g=1&b=250&x2=1", &["GET"]);
        for range in ["bytes 0-99/*", "bytes 0-98/250", "bytes 100-199/250", "bytes 0-99", "nonsense"] {
            add(location, &format!("g=1&b=250&p={range}"), &["GET"]);
        }
    }
    for asks in asks {
        add("slice-unused", &format!("b=250&{said}"), asks);
    }
}

/// Response fields, and statuses.
fn kept(add: Add<'_>) {
    for said in SAID {
        add("plain", said, &["GET", "GET"]);
        add("valid", said, &["GET", "GET", "HEAD"]);
    }
    for said in ["f=Cache-Control:no-store", "f=Set-Cookie:a=b", "f=X-Accel-Expires:0", "f=Expires:0", "f=Vary:*"] {
        add("ignoring", said, &["GET", "GET"]);
        add("ignoring-control", said, &["GET", "GET"]);
    }
    for status in [200, 201, 204, 206, 301, 302, 307, 400, 403, 404, 410, 500, 502, 503] {
        for location in ["valid", "usual", "listed", "plain"] {
            add(location, &format!("r={status}&f=Location:/x"), &["GET", "GET"]);
        }
    }
}

/// Methods, uses and zones.
fn words(add: Add<'_>) {
    add("post", "", &["POST", "POST", "GET"]);
    add("valid", "post", &["POST", "POST", "GET", "GET", "POST"]);
    add("valid", "head", &["HEAD", "HEAD", "GET", "HEAD"]);
    add("valid", "head&b=50000", &["HEAD", "GET"]);
    add("heads", "", &["HEAD", "HEAD", "GET", "GET", "HEAD"]);
    add("valid", "other", &["PUT", "DELETE", "OPTIONS", "GET"]);
    add("uses", "", &["GET", "GET", "GET", "GET", "HEAD"]);
    add("bypass", "", &["GET", "GET&fresh=1", "GET", "GET&fresh=0", "GET|X-Fresh: yes", "GET", "GET&fresh=&x"]);
    add("bypass", "f=Cache-Control:no-store", &["GET&fresh=1", "GET", "GET"]);
    add("nocache", "", &["GET&no=1", "GET&no=0", "GET"]);
    add("nocache", "f=X-No:1", &["GET", "GET"]);
    for zone in ["one", "two", "off", "none", "bad"] {
        add("zones", &format!("zone={zone}"), &["GET", "GET"]);
    }
    add("unbuffered", "", &["GET", "GET"]);
    add("unbuffered", "f=X-Accel-Buffering:yes", &["GET", "GET"]);
    add("off", "", &["GET", "GET"]);
    add("default-key", "", &["GET", "GET", "GET&y", "GET&y"]);
    add("hidden", "f=X-One:1&f=X-Accel-Expires:60", &["GET", "GET"]);
}

fn conditions(add: Add<'_>) {
    for condition in CONDITIONS {
        let (first, then) = (format!("GET|{condition}"), format!("HEAD|{condition}"));
        for location in ["valid", "conditions"] {
            add(location, VALIDATED, &["GET", &first, &then]);
            add(location, VALIDATED, &[&first, "GET", &first]);
        }
        add("plain", VALIDATED, &[&first, "GET"]);
        add("valid", &format!("r=404&{VALIDATED}"), &["GET", &first]);
    }
}

fn ranges(add: Add<'_>) {
    for range in RANGES {
        let ask = format!("GET|{range}");
        for location in ["valid", "forced", "one-range", "no-ranges"] {
            add(location, &format!("{VALIDATED}&f=Accept-Ranges:bytes&b=40000"), &["GET", &ask]);
            add(location, VALIDATED, &[&ask, &ask, "GET"]);
        }
        add("valid", &format!("{VALIDATED}&f=Accept-Ranges:bytes"), &[&ask, "GET", &ask]);
        add("valid", &format!("{VALIDATED}&f=Accept-Ranges:bytes&c=1"), &["GET", &ask]);
        add("plain", &format!("{VALIDATED}&f=Accept-Ranges:bytes"), &[&ask, "GET"]);
    }
    for offset in ["0-3", "9-12", "10-12", "50-60", "-3"] {
        add("offset", VALIDATED, &[&format!("GET|Range: bytes={offset}"), "GET", "GET"]);
    }
    add(
        "own-range",
        "r=206&f=Content-Range:bytes 0-3/50&f=Accept-Ranges:bytes",
        &["GET|Range: bytes=0-3", "GET|Range: bytes=0-3"],
    );
    add(
        "zipped",
        VALIDATED,
        &[
            "GET|Accept-Encoding: gzip",
            "GET|Accept-Encoding: gzip",
            "GET",
            "GET|Accept-Encoding: gzip|Range: bytes=0-3",
        ],
    );
}

fn variants(add: Add<'_>) {
    for vary in ["Accept", "accept", "Accept, X-A", "Accept-Encoding", "X-Missing", ",", "Accept,,X-A", "Accept,*"] {
        let query = format!("f=Vary:{vary}");
        add(
            "valid",
            &query,
            &["GET|Accept: a", "GET|Accept: a", "GET|Accept: b", "GET|Accept: b", "GET|Accept: a", "GET"],
        );
        add(
            "valid",
            &query,
            &["GET|Accept: a,b", "GET|Accept: a, b", "GET|Accept:  a , b ", "GET|X-A: 1", "GET|X-A: 1"],
        );
    }
    add("valid", &format!("f=Vary:{}", "A".repeat(129)), &["GET", "GET"]);
    add(
        "valid",
        "f=Vary:Accept&f2=Vary:X-A",
        &["GET|Accept: a", "GET|Accept: b", "GET|Accept: b|X-A: 1", "GET|Accept: a"],
    );
    add("valid", "f=Vary:Accept&f2=X-Y:1", &["GET|Accept: a", "GET|Accept: b", "GET|Accept: a", "GET|Accept: b"]);
}

fn failures(add: Add<'_>) {
    for status in [404, 500] {
        add("intercepting", &format!("r={status}"), &["GET", "GET"]);
        add("intercepting", &format!("r={status}&f=Cache-Control:no-store"), &["GET", "GET"]);
    }
    add("dead", "", &["GET", "GET", "GET"]);
    for (what, query) in [
        ("failing", "r2=500"),
        ("unavailable", "r2=503"),
        ("missing", "r2=404"),
        ("forbidden", "r2=403"),
        ("closing", "x2=1"),
        ("well", "f2=X-New:1"),
        ("broken", "f2=Content-Length:x"),
    ] {
        let kept = format!("{what}&f=X-First:1&{query}");
        add("stale", &kept, &["GET", "GET", "", "GET", "GET"]);
        add("stale-none", &kept, &["GET", "", "GET", "GET"]);
        let window = format!("{what}&f=Cache-Control:max-age=1,stale-if-error=60&{query}");
        add("stale-none", &window, &["GET", "", "GET", "HEAD"]);
    }
    for status in [403, 404, 429, 500, 502, 503, 504] {
        add("stale-statuses", &format!("f=X-First:1&r2={status}"), &["GET", "", "GET", "GET"]);
    }
    for location in ["stale-timeout", "stale-error", "stale-silent"] {
        add(location, "f=X-First:1&s2=1", &["GET", "", "GET", "GET"]);
        add(location, "f=Cache-Control:max-age=1,stale-if-error=60&s2=1", &["GET", "", "GET"]);
    }
}

fn ageing(add: Add<'_>) {
    add("short", "", &["GET", "GET", "", "GET", "GET"]);
    add("updating", "f=X-A:1", &["GET", "", "GET", "", "GET"]);
    add("background", "f=Cache-Control:max-age=1,stale-while-revalidate=60", &["GET", "", "GET", "", "GET"]);
    add("background", "f=X-A:1", &["GET", "", "GET"]);
    add("stale-none", "f=Cache-Control:max-age=1,stale-while-revalidate=60", &["GET", "", "GET"]);
    for said in
        [VALIDATED, "f=ETag:\"e\"", "f=Last-Modified:Wed, 01 Jan 2020 00:00:00 GMT", "f=ETag:W/\"e\"", "f=X-A:1"]
    {
        add("revalidate", &format!("v=1&{said}"), &["GET", "", "GET", "GET", "", "GET"]);
        add("revalidate", said, &["GET", "", "GET|If-None-Match: \"e\"", "GET"]);
        add("revalidate", &format!("v=1&{said}&f2=Cache-Control:max-age=60"), &["GET", "", "GET", "", "GET"]);
        add("stale-none", &format!("v=1&{said}"), &["GET", "", "GET|If-None-Match: \"e\""]);
    }
}

fn families(add: Add<'_>) {
    for family in ["fcgi", "scgi", "uwsgi"] {
        for said in [
            "",
            "f=Cache-Control:max-age=60",
            "f=Cache-Control:no-store",
            "f=Set-Cookie:a=b",
            "f=X-Accel-Expires:0",
            "f=Vary:X-Ask",
            "f=ETag:\"e\"",
            "r=404",
            "r=500",
            "size=100000",
            "f=Content-Length:5&size=5&f=Accept-Ranges:bytes",
        ] {
            add(family, said, &["GET|X-Ask: 1", "GET|X-Ask: 2", "GET|X-Ask: 3|If-None-Match: \"e\"|Range: bytes=1-2"]);
        }
        add(family, "", &["GET|X-Ask: 1|Range: bytes=1-2|If-None-Match: \"x\"", "GET|X-Ask: 2"]);
        add(family, "", &["GET|X-Ask: 1", "GET&fresh=1|X-Ask: 2", "GET&no=1|X-Ask: 3", "GET|X-Ask: 4"]);
    }
    add("locked", "", &["GET", "GET"]);
    add("locked", "f=Cache-Control:no-store", &["GET", "GET"]);
    add("valid", "t=1", &["GET", "GET"]);
    add("authorized", "f=Cache-Control:max-age=60", &["GET|Authorization: Basic eDp5", "GET"]);
}
