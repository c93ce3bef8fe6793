//! Parts of `multipart/form-data` on a command line, as curl's `-F` has them.

use crate::scenario::{FormContent, multipart_bytes};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// `name=text`, or `name=@file;type=image/png;filename=x.png`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FormPart {
    /// The name of the field.
    pub name: String,
    /// Its text; `None` if it has a file.
    pub text: Option<String>,
    /// Its file.
    pub file: Option<PathBuf>,
    /// The name of the file for the server; by default that of `file`.
    pub filename: Option<String>,
    /// The type of the content.
    pub content_type: Option<String>,
}

impl FormPart {
    /// A field with a text, whatever it contains.
    pub(crate) fn plain(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        Ok(Self { name: name.to_owned(), text: Some(value.to_owned()), ..Self::default() })
    }
}

impl FromStr for FormPart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Self { name, text: value, .. } = Self::plain(text)?;
        let value = value.unwrap_or_default();
        let mut part = Self { name, ..Self::default() };
        let mut pieces = value.split(';');
        let mut content = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match piece.trim().split_once('=') {
                Some(("type", kind)) => part.content_type = Some(kind.to_owned()),
                Some(("filename", name)) => part.filename = Some(name.trim_matches('"').to_owned()),
                // A semicolon of the text itself.
                _ => {
                    content.push(';');
                    content.push_str(piece);
                }
            }
        }
        match content.strip_prefix('@') {
            Some(path) => part.file = Some(PathBuf::from(path.trim_matches('"'))),
            None => part.text = Some(content),
        }
        Ok(part)
    }
}

/// The body of these parts, and its Content-Type. `read` gets the files.
pub fn form_body(
    parts: &[FormPart],
    read: impl Fn(&Path) -> Result<Vec<u8>, String>,
) -> Result<(Vec<u8>, String), String> {
    let mut contents = Vec::new();
    for part in parts {
        let name_of = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let (bytes, filename) = match &part.file {
            Some(path) => (read(path)?, part.filename.clone().or_else(|| name_of(path))),
            None => (part.text.clone().unwrap_or_default().into_bytes(), part.filename.clone()),
        };
        contents.push(FormContent {
            name: part.name.clone(),
            filename,
            content_type: part.content_type.clone(),
            bytes,
        });
    }
    Ok(multipart_bytes(contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_as_for_curl() {
        let part = |text: &str| text.parse::<FormPart>();
        let plain = FormPart { name: "a".to_owned(), text: Some("b=c;d".to_owned()), ..FormPart::default() };
        assert_eq!(part("a=b=c;d"), Ok(plain));
        let file = FormPart {
            name: "pic".to_owned(),
            file: Some("p q.png".into()),
            filename: Some("x.png".to_owned()),
            content_type: Some("image/png".to_owned()),
            ..FormPart::default()
        };
        assert_eq!(part("pic=@\"p q.png\";type=image/png;filename=\"x.png\""), Ok(file));
        assert!(part("a").is_err());
    }

    #[test]
    fn a_body_has_a_part_for_each_with_its_file() {
        let parts = ["who=me".parse().unwrap(), "pic=@in/p.png;type=image/png".parse().unwrap()];
        let read =
            |path: &Path| if path == Path::new("in/p.png") { Ok(b"\x89PNG".to_vec()) } else { Err("no".to_owned()) };
        let (body, kind) = form_body(&parts, read).unwrap();
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").unwrap();
        let expected = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"who\"\r\n\r\nme\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"pic\"; filename=\"p.png\"\r\nContent-Type: image/png\r\n\r\n"
        );
        assert_eq!(body, [expected.as_bytes(), b"\x89PNG\r\n", format!("--{boundary}--\r\n").as_bytes()].concat());
        assert!(form_body(&["a=@other".parse().unwrap()], read).is_err());
    }
}
