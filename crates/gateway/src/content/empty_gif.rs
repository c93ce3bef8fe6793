//! `empty_gif`: one transparent pixel.

use crate::exchange::Exchange;
use crate::exchange::reply::{Reply, ReplyBody};
use http1::{FieldId, Method};
use rules::time_format::Moment;

/// One transparent pixel as `GIF89a`: the header, a palette of white and black, the extension that makes the first colour transparent,
/// and the image.
const PIXEL: [u8; 43] = [
    b'G', b'I', b'F', b'8', b'9', b'a', 1, 0, 1, 0, 0x80, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x21, 0xf9, 4, 1, 0, 0, 1,
    0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x4c, 1, 0, 0x3b,
];

/// The date that nginx gives it: 28 September 1970, its author's birthday.
const MODIFIED_S: i64 = 23_349_600;

impl Exchange {
    /// The pixel, for GET and HEAD.
    pub(crate) fn empty_gif(&mut self) -> Reply {
        if !matches!(self.routing.method(), Method::Get | Method::Head) {
            return Reply::error(405);
        }
        let modified = (FieldId::LastModified, Moment::new(MODIFIED_S, 0).http_date().to_vec());
        self.under_conditions_of(
            Reply {
                status: 200,
                fields: vec![modified],
                content_type: Some(b"image/gif".as_slice().into()),
                body: ReplyBody::Bytes(PIXEL.to_vec()),
                ..Reply::default()
            },
            Some(MODIFIED_S),
        )
    }
}
