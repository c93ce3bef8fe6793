//! Text into HTML and SVG. Everything that comes from outside passes through here, in elements and attributes alike.

/// The five characters that mean something become references; control characters and marks that turn the direction of text
/// become visible escapes, since HTML forbids the former and reviewers are fooled by the latter.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' => escaped.push('\n'),
            c => escaped.push_str(&crate::text::clean(c.encode_utf8(&mut [0; 4]))),
        }
    }
    escaped
}
