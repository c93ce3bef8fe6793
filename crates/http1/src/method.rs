//! Request methods. The gateway forwards any token; it distinguishes only the methods listed here.

macro_rules! methods {
    ($( $variant:ident $name:literal )*) => {
        /// A request method; the exact bytes are in [`crate::RequestHead::method_name`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(u8)]
        pub enum Method {
            $( #[doc = concat!("`", $name, "`")] $variant, )*
            /// Another upper-case token.
            #[default]
            Other,
        }

        impl Method {
            /// The method of these bytes; methods are case-sensitive.
            #[inline]
            pub fn of_name(name: &[u8]) -> Self {
                $( if name == $name.as_bytes() { return Self::$variant; } )*
                Self::Other
            }

            /// The name; empty for [`Method::Other`].
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* Self::Other => "" }
            }
        }
    };
}

methods! {
    Get "GET" Post "POST" Head "HEAD" Put "PUT" Delete "DELETE" Options "OPTIONS" Patch "PATCH"
    Connect "CONNECT" Trace "TRACE" Propfind "PROPFIND" Proppatch "PROPPATCH" Mkcol "MKCOL" Copy "COPY" Move "MOVE"
    Lock "LOCK" Unlock "UNLOCK"
}

impl Method {
    /// Whether a request may be sent again after a failure that leaves open whether it was executed (RFC 9110 §9.2.2).
    /// As in nginx, POST, PATCH and LOCK may not; neither may an unknown method, since nothing guarantees it.
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Patch | Self::Lock | Self::Connect | Self::Other)
    }
}
