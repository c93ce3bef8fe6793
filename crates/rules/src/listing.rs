//! `autoindex`: the listing of a directory in nginx's four formats, byte by byte as nginx writes them. The caller reads the
//! directory.

use crate::time_format::Moment;
use crate::uri::{Escape, escape};
use std::fmt::Write as _;

/// Letters of a name that HTML shows.
const NAME_LETTERS_MAX: usize = 50;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A directory: these come first.
    Directory,
    /// A regular file.
    File,
    /// Anything else.
    Other,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is, behind symbolic links.
    pub kind: EntryKind,
    /// When it was written, in seconds since 1970.
    pub modified: i64,
    /// Bytes.
    pub size: u64,
}

/// What a listing looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// For browsers.
    Html {
        /// Sizes in bytes, not rounded.
        exact_size: bool,
        /// Of local time, east of Greenwich; 0 shows UTC.
        utc_offset_minutes: i16,
        /// Clients read the listing as UTF-8, where a letter may have several bytes.
        is_utf8: bool,
    },
    /// XML.
    Xml,
    /// JSON.
    Json,
    /// JSON as the argument of a function.
    Jsonp,
}

/// The longest name of a function.
const CALLBACK_BYTES_MAX: usize = 128;

/// Whether a function may have this name.
pub fn is_callback(name: &[u8]) -> bool {
    name.len() <= CALLBACK_BYTES_MAX
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

impl Listing {
    /// The media type of the listing; `callback` is the name of the function, empty for none.
    pub fn media_type(self, callback: &[u8]) -> &'static str {
        match self {
            Self::Html { .. } => "text/html",
            Self::Xml => "text/xml; charset=utf-8",
            Self::Jsonp if !callback.is_empty() => "application/javascript",
            Self::Json | Self::Jsonp => "application/json",
        }
    }

    /// The listing of these entries, which it sorts.
    pub fn write(self, uri: &[u8], callback: &[u8], entries: &mut [Entry]) -> Vec<u8> {
        let rank = |entry: &Entry| entry.kind != EntryKind::Directory;
        entries.sort_by(|one, other| (rank(one), &one.name).cmp(&(rank(other), &other.name)));
        let mut out = Vec::with_capacity(256 + entries.len() * 128);
        match self {
            Self::Html { exact_size, utc_offset_minutes, is_utf8 } => {
                let style = HtmlStyle { exact_size, utc_offset_minutes, is_utf8 };
                write_html(uri, entries, style, &mut out);
            }
            Self::Xml => write_xml(entries, &mut out),
            Self::Jsonp if !callback.is_empty() => {
                out.extend_from_slice(b"/* callback */\r\n");
                out.extend_from_slice(callback);
                out.push(b'(');
                write_json(entries, &mut out);
                out.extend_from_slice(b");");
            }
            Self::Json | Self::Jsonp => write_json(entries, &mut out),
        }
        out
    }
}

#[derive(Clone, Copy)]
struct HtmlStyle {
    exact_size: bool,
    utc_offset_minutes: i16,
    is_utf8: bool,
}

fn write_html(uri: &[u8], entries: &[Entry], style: HtmlStyle, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
    escape_html(uri, out);
    out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
    escape_html(uri, out);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    for entry in entries {
        let is_directory = entry.kind == EntryKind::Directory;
        out.extend_from_slice(b"<a href=\"");
        escape(&entry.name, Escape::UriComponent, out);
        out.extend_from_slice(if is_directory { b"/\">" } else { b"\">" });
        write_shown_name(&entry.name, style.is_utf8, is_directory, out);
        let date = Moment::new(entry.modified + i64::from(style.utc_offset_minutes) * 60, 0).http_date();
        let (day, month, year, time) = (&date[5..7], &date[8..11], &date[12..16], &date[17..22]);
        out.extend_from_slice(&[b" ", day, b"-", month, b"-", year, b" ", time, b" "].concat());
        out.extend_from_slice(shown_size(entry, style.exact_size).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
}

/// The name, the end of the link, and blanks up to the next column.
fn write_shown_name(name: &[u8], is_utf8: bool, is_directory: bool, out: &mut Vec<u8>) {
    let text = std::str::from_utf8(name).ok().filter(|_| is_utf8);
    let mut width = text.map_or(name.len(), |text| text.chars().count());
    if width > NAME_LETTERS_MAX {
        let letters = NAME_LETTERS_MAX - 3;
        let end = text.and_then(|text| text.char_indices().nth(letters)).map_or(letters, |(end, _)| end);
        escape_html(&name[..end], out);
        out.extend_from_slice(b"..&gt;</a>");
        return;
    }
    escape_html(name, out);
    if is_directory && width < NAME_LETTERS_MAX {
        out.push(b'/');
        width += 1;
    }
    out.extend_from_slice(b"</a>");
    out.resize(out.len() + NAME_LETTERS_MAX - width, b' ');
}

fn shown_size(entry: &Entry, exact_size: bool) -> String {
    const KILO: u64 = 1 << 10;
    const MEGA: u64 = 1 << 20;
    const GIGA: u64 = 1 << 30;
    let is_directory = entry.kind == EntryKind::Directory;
    if exact_size {
        return if is_directory { format!("{:>19}", "-") } else { format!("{:>19}", entry.size) };
    }
    let rounded =
        |unit: u64, sign: char| format!("{:>6}{sign}", entry.size / unit + u64::from(entry.size % unit >= unit / 2));
    match entry.size {
        _ if is_directory => format!("{:>7}", "-"),
        GIGA.. => rounded(GIGA, 'G'),
        MEGA.. => rounded(MEGA, 'M'),
        10_000.. => rounded(KILO, 'K'),
        size => format!(" {size:>6}"),
    }
}

fn write_json(entries: &[Entry], out: &mut Vec<u8>) {
    out.push(b'[');
    for (number, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if number > 0 { b",\r\n{ \"name\":\"" } else { b"\r\n{ \"name\":\"" });
        escape_json(&entry.name, out);
        out.extend_from_slice(b"\", \"type\":\"");
        out.extend_from_slice(type_of(entry).as_bytes());
        out.extend_from_slice(b"\", \"mtime\":\"");
        out.extend_from_slice(&Moment::new(entry.modified, 0).http_date());
        out.push(b'"');
        if entry.kind == EntryKind::File {
            out.extend_from_slice(format!(", \"size\":{}", entry.size).as_bytes());
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
}

fn write_xml(entries: &[Entry], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
    for entry in entries {
        let (kind, time) = (type_of(entry), Moment::new(entry.modified, 0).iso8601());
        let time = String::from_utf8_lossy(&time[..19]);
        let mut tag = format!("<{kind} mtime=\"{time}Z\"");
        if entry.kind == EntryKind::File {
            let _ = write!(tag, " size=\"{}\"", entry.size);
        }
        out.extend_from_slice(tag.as_bytes());
        out.push(b'>');
        escape_html(&entry.name, out);
        out.extend_from_slice(format!("</{kind}>\r\n").as_bytes());
    }
    out.extend_from_slice(b"</list>\r\n");
}

fn type_of(entry: &Entry) -> &'static str {
    match entry.kind {
        EntryKind::Directory => "directory",
        EntryKind::File => "file",
        EntryKind::Other => "other",
    }
}

fn escape_html(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            _ => out.push(byte),
        }
    }
}

fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: EntryKind, size: u64) -> Entry {
        Entry { name: name.as_bytes().to_vec(), kind, modified: 23_349_600, size }
    }

    #[test]
    fn sizes_are_shown_as_nginx_rounds_them() {
        let shown = |size: u64| shown_size(&entry("x", EntryKind::File, size), false).trim().to_owned();
        for (size, text) in [
            (0, "0"),
            (9999, "9999"),
            (10_000, "10K"),
            (10_751, "10K"),
            (10_752, "11K"),
            (1_048_575, "1024K"),
            (1_048_576, "1M"),
            (1_572_864, "2M"),
            (5 << 30, "5G"),
        ] {
            assert_eq!(shown(size), text, "{size}");
        }
        assert_eq!(shown_size(&entry("x", EntryKind::File, 12), true), "                 12");
        assert_eq!(shown_size(&entry("x", EntryKind::Directory, 12), false), "      -");
    }

    #[test]
    fn directories_come_first_and_names_are_escaped() {
        let mut entries = vec![
            entry("a<b>", EntryKind::File, 3),
            entry("z", EntryKind::Directory, 0),
            entry("B\"", EntryKind::Other, 0),
        ];
        let json = String::from_utf8(Listing::Json.write(b"/", b"", &mut entries)).expect("text");
        let names: Vec<_> =
            json.split("\"name\":").skip(1).map(|rest| rest.split(',').next().expect("a name")).collect();
        assert_eq!(names, ["\"z\"", "\"B\\\"\"", "\"a<b>\""]);
        assert!(json.ends_with("\"mtime\":\"Mon, 28 Sep 1970 06:00:00 GMT\", \"size\":3 }\r\n]"), "{json}");
        let html = Listing::Html { exact_size: true, utc_offset_minutes: 60, is_utf8: false }.write(
            b"/<x>/",
            b"",
            &mut entries,
        );
        let html = String::from_utf8(html).expect("text");
        assert!(html.contains("<h1>Index of /&lt;x&gt;/</h1>"), "{html}");
        assert!(html.contains("<a href=\"a%3Cb%3E\">a&lt;b&gt;</a>"), "{html}");
        assert!(html.contains(" 28-Sep-1970 07:00 "), "{html}");
        let xml = String::from_utf8(Listing::Xml.write(b"/", b"", &mut entries)).expect("text");
        assert!(xml.contains("<file mtime=\"1970-09-28T06:00:00Z\" size=\"3\">a&lt;b&gt;</file>\r\n"), "{xml}");
        assert_eq!(Listing::Jsonp.write(b"/", b"f", &mut []), b"/* callback */\r\nf([\r\n]);");
    }
}
