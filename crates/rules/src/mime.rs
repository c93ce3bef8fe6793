//! Content types by file extension: the `types` block. Built by the gateway when a configuration is loaded, asked once for
//! each static file.

use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// A compiled `types` block with its `default_type`.
#[derive(Debug, Clone)]
pub struct MimeTypes {
    /// Index into `types` by extension in lower case.
    by_extension: FxHashMap<Box<[u8]>, u32>,
    types: Vec<Box<[u8]>>,
    default_type: Box<[u8]>,
}

impl MimeTypes {
    /// From pairs of extension (without a dot, any case) and type, in the order of the configuration: the last one of an
    /// extension counts, as in nginx.
    pub fn build<'a>(pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, default_type: &[u8]) -> Self {
        let mut built =
            Self { by_extension: FxHashMap::default(), types: Vec::new(), default_type: default_type.into() };
        let mut indices = FxHashMap::default();
        for (extension, name) in pairs {
            let index = *indices.entry(name).or_insert_with(|| {
                built.types.push(name.into());
                built.types.len() as u32 - 1
            });
            built.by_extension.insert(extension.to_ascii_lowercase().into(), index);
        }
        built
    }

    /// What nginx knows without any `types` block.
    pub fn built_in(default_type: &[u8]) -> Self {
        let pairs: [(&[u8], &[u8]); 3] = [(b"html", b"text/html"), (b"gif", b"image/gif"), (b"jpg", b"image/jpeg")];
        Self::build(pairs, default_type)
    }

    /// The type of a normalised URI by its extension, or `default_type`.
    pub fn type_of(&self, uri: &[u8]) -> &[u8] {
        let index = extension(uri).and_then(|extension| {
            let lower = if extension.iter().any(u8::is_ascii_uppercase) {
                Cow::Owned(extension.to_ascii_lowercase())
            } else {
                Cow::Borrowed(extension)
            };
            self.by_extension.get(&*lower)
        });
        index.and_then(|&index| self.types.get(index as usize)).unwrap_or(&self.default_type)
    }
}

/// What is behind the last dot of the last segment. A dot at the start of a segment marks a hidden file, no extension.
pub fn extension(uri: &[u8]) -> Option<&[u8]> {
    let segment = &uri[memchr::memrchr(b'/', uri).map_or(0, |slash| slash + 1)..];
    let dot = memchr::memrchr(b'.', segment)?;
    if dot == 0 { None } else { Some(&segment[dot + 1..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_follows_the_extension_in_any_case() {
        let pairs: [(&[u8], &[u8]); 3] = [(b"HTML", b"text/html"), (b"gz", b"x/y"), (b"gz", b"application/gzip")];
        let types = MimeTypes::build(pairs, b"text/plain");
        for (uri, expected) in [
            ("/index.html", "text/html"),
            ("/INDEX.Html", "text/html"),
            ("/a.tar.gz", "application/gzip"),
            ("/a.html/b", "text/plain"),
            ("/.html", "text/plain"),
            ("/a.", "text/plain"),
            ("/a.unknown", "text/plain"),
            ("/", "text/plain"),
            ("", "text/plain"),
        ] {
            assert_eq!(types.type_of(uri.as_bytes()), expected.as_bytes(), "{uri}");
        }
        assert_eq!(MimeTypes::built_in(b"x/x").type_of(b"/a.jpg"), b"image/jpeg");
    }
}
