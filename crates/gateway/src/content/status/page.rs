//! Renders the snapshot as a page for people: an answer, figures, tables. It is complete without scripts; with them it refetches itself
//! every two seconds, replaces its content, and draws the last minutes of some figures. It loads nothing from other hosts.

mod reasons;
pub(crate) mod room;
mod summary;
mod traffic;
mod upstreams;

use crate::base::durations::BOUNDS_US;
use crate::content::status::snapshot::{DurationHistogram, Snapshot};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// What goes beyond the style of all our pages.
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Style and script are allowed by their hashes, and nothing from elsewhere: what is shown may come from requests.
static HEAD: LazyLock<String> = LazyLock::new(|| {
    let style = format!("{}{STYLE}", report::html::STYLE);
    let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>holdfast</title>\n<style>{style}</style>\n</head>\n<body>\n",
        hash(&style),
        hash(SCRIPT)
    )
});

/// Renders the whole page.
pub(crate) fn render(snapshot: &Snapshot) -> String {
    let mut main = String::new();
    traffic::requests(&mut main, snapshot);
    traffic::locations(&mut main, snapshot);
    if !snapshot.groups.is_empty() {
        upstreams::groups(&mut main, snapshot);
        upstreams::peers(&mut main, snapshot);
        room::checks(&mut main, snapshot);
    }
    room::ports(&mut main, snapshot);
    room::memory(&mut main, snapshot);
    traffic::listeners(&mut main, snapshot);
    traffic::certificates(&mut main, snapshot);
    reasons::reasons(&mut main, snapshot);
    reasons::errors(&mut main, snapshot);
    reasons::configuration(&mut main, snapshot);
    let titles = main.split("<h2 id=\"").skip(1).filter_map(|part| part.split_once("</h2>"));
    let links: Vec<String> = titles
        .filter_map(|(head, _)| head.split_once("\">"))
        .map(|(id, title)| format!("<a href=\"#{id}\">{title}</a>"))
        .collect();
    let mut page = HEAD.clone();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        page,
        "<main>\n<h1>holdfast {}, {}, up {}</h1>",
        escaped(&snapshot.version),
        match snapshot.processes {
            0 | 1 => format!("process {}", std::process::id()),
            processes => format!("{processes} processes"),
        },
        duration(snapshot.uptime_s)
    );
    summary::answer(&mut page, snapshot);
    summary::cards(&mut page, snapshot);
    let _ = write!(page, "<nav aria-label=\"Sections\">{}</nav>\n{main}</main>\n", links.join(" "));
    let _ = write!(
        page,
        "<footer><button type=\"button\" hidden>Pause</button>\
         <span id=\"stale\" class=\"bad\" role=\"status\" hidden>The gateway does not answer: these figures are old.</span></footer>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    page
}

/// A table with its heading: the column titles, and rows of cells that are already HTML. Columns of numbers are on the right;
/// the first one, and those whose title begins with `<`, are texts.
fn table(page: &mut String, title: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let id = title.to_lowercase().replace(|symbol: char| !symbol.is_ascii_alphanumeric(), "-");
    let class = |place: usize| match columns.get(place) {
        Some(title) if place > 0 && !title.starts_with('<') => " class=\"n\"",
        _ => "",
    };
    let _ = write!(
        page,
        "<h2 id=\"{id}\">{title}</h2>\n<div class=\"scroll\" id=\"{id}-table\" role=\"region\" aria-labelledby=\"{id}\" tabindex=\"0\">\
         <table><thead><tr>"
    );
    for (place, column) in columns.iter().enumerate() {
        let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(place), column.trim_start_matches('<'));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for (place, cell) in row.iter().enumerate() {
            let _ = write!(page, "<td{}>{cell}</td>", class(place));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

/// A number whose last minutes the page draws beside it.
fn followed(key: &str, value: u64) -> String {
    format!("<span data-key=\"{}\" data-value=\"{value}\">{}</span>", escaped(key), count(value))
}

/// The upper bound of the bucket that contains a percentile: a histogram is no more precise.
fn quantile(times: &DurationHistogram, percent: u64) -> String {
    if times.count == 0 {
        return "-".to_owned();
    }
    let wanted = (times.count * percent).div_ceil(100);
    let bucket = times.buckets.iter().find(|bucket| bucket.count >= wanted);
    match bucket.and_then(|bucket| bucket.at_most_ms) {
        Some(bound) => format!("&le; {bound} ms"),
        None => format!("&gt; {} s", BOUNDS_US[BOUNDS_US.len() - 1] / 1_000_000),
    }
}

/// A number of bytes in a unit that fits.
fn bytes(value: u64) -> String {
    match value as f64 {
        small if small < 1000.0 => format!("{value} B"),
        thousands if thousands < 1e6 => format!("{:.1} KB", thousands / 1e3),
        millions if millions < 1e9 => format!("{:.1} MB", millions / 1e6),
        more => format!("{:.2} GB", more / 1e9),
    }
}

fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {} s", seconds % 60),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A number, with commas between thousands.
fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that should be 0.
fn alarming(value: u64) -> String {
    if value == 0 {
        "<span class=\"off\">0</span>".to_owned()
    } else {
        format!("<span class=\"bad\">{}</span>", count(value))
    }
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for symbol in text.chars() {
        match symbol {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            symbol => safe.push(symbol),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::status::snapshot::Bucket;
    use report::prometheus::NativeHistogram;

    #[test]
    fn a_percentile_is_shown_as_the_bound_of_its_bucket() {
        let of = |counts: [u64; 3]| {
            let bounds = [Some(0.1), Some(5.0), None];
            let buckets =
                bounds.into_iter().zip(counts).map(|(at_most_ms, count)| Bucket { at_most_ms, count }).collect();
            DurationHistogram { count: counts[2], sum_ms: 0.0, buckets, native: NativeHistogram::default() }
        };
        assert_eq!(quantile(&of([98, 100, 100]), 50), "&le; 0.1 ms");
        assert_eq!(quantile(&of([98, 100, 100]), 99), "&le; 5 ms");
        assert_eq!(quantile(&of([0, 0, 1]), 50), "&gt; 60 s");
        assert_eq!(quantile(&of([0, 0, 0]), 50), "-");
    }

    #[test]
    fn numbers_and_names_are_readable_and_safe() {
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!((bytes(999), bytes(1234), bytes(64 << 20)), ("999 B".into(), "1.2 KB".into(), "67.1 MB".into()));
        assert_eq!(escaped("<a href=\"x&y\">"), "&lt;a href=&quot;x&amp;y&quot;&gt;");
        assert_eq!(
            (duration(61), duration(3700), duration(90_000)),
            ("1 min 1 s".into(), "1 h 1 min".into(), "1 d 1 h".into())
        );
    }
}
