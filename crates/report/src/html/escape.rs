//! Escapes text for HTML and SVG. All text from outside passes through here, for elements and for attributes.

/// Replaces the five special characters by references. Control characters and marks of text direction become visible
/// escapes, because HTML forbids the former and the latter can mislead reviewers.
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
