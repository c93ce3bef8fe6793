//! Converts heads between the gateway's form and the engine's.

use crate::downstream::reply_head::{HeadEntry, HeadView, Mark};
use http1::FieldId;
use http2::{Fields, Priority};

/// Writes the fields of a head, and returns the priority that it asks for. Fields that HTTP/2 does not have are left
/// out.
pub(super) fn write_fields(view: HeadView<'_>, length: Option<u64>, out: &mut Fields<'_>) -> Option<Priority> {
    let HeadView { head, answer } = view;
    let mut priority = None;
    for entry in &head.fields.entries {
        match entry {
            HeadEntry::Mark(Mark::Length) => {
                if let Some(length) = length {
                    let _ = out.add_known(
                        FieldId::ContentLength,
                        b"content-length",
                        itoa::Buffer::new().format(length).as_bytes(),
                    );
                }
            }
            HeadEntry::Mark(Mark::Connection) => {}
            entry => {
                let Some((name, value)) = head.fields.parts(entry, answer) else { continue };
                let id = entry.id().unwrap_or(FieldId::Other);
                if name.eq_ignore_ascii_case(b"priority") {
                    priority = Some(Priority::parse(value));
                }
                // A field that cannot be encoded is dropped: the client could not accept it either.
                let _ = out.add_known(id, name, value);
            }
        }
    }
    priority
}
