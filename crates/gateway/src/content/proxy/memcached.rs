//! `memcached_pass`: the request for one value, and its answer as a response of HTTP. Everything else is as for other
//! upstreams: peers, connections, retries, filters.

use crate::base::memory::HEAD_BYTES_USUAL;
use crate::content::proxy::Tries;
use crate::content::proxy::application::no_room;
use crate::content::proxy::response_head::HeadStep;
use crate::exchange::Exchange;
use crate::exchange::reply::Reply;
use crate::exchange::view::ExchangeView;
use crate::plan::application::MemcachedPlan;
use crate::registry::generation::BoundProxy;
use crate::upstream::side::UpstreamSide;
use cgi::memcached::{Answer, answer, request};
use http1::Method;
use std::io::Write as _;
use upstream::DiscardReason;
use upstream::retry::Failure;

impl Exchange {
    /// The answer to a request that cannot be for a value: as in nginx, only GET and HEAD can.
    pub(super) fn refuse_method(&self, plan: &BoundProxy) -> Option<Reply> {
        plan.application.as_ref()?.memcached()?;
        (!matches!(self.routing.method(), Method::Get | Method::Head)).then(|| Reply::error(405))
    }

    /// Writes the request for the value of `$memcached_key`; the error is the answer if there is no key.
    pub(super) fn write_key(&self, plan: &MemcachedPlan, buffer: Vec<u8>) -> Result<Vec<u8>, Reply> {
        let mut key = Vec::new();
        plan.key.write(&ExchangeView::of(self), &mut key);
        if key.is_empty() {
            self.error_log("the \"$memcached_key\" variable is not set");
            return Err(Reply::error(500));
        }
        Ok(request(buffer, &key))
    }

    /// Looks for the first line of an answer in everything received so far.
    pub(super) fn take_value_head(
        &mut self,
        bytes: &[u8],
        memcached: &MemcachedPlan,
        plan: &BoundProxy,
        up: &UpstreamSide,
        tries: &Tries,
    ) -> HeadStep {
        let invalid = |reason: String| HeadStep::Failed(Failure::InvalidHeader, reason, DiscardReason::ProtocolError);
        let (found, line) = match answer(bytes, self.request.upstream_head.as_bytes()) {
            Ok(Some(found)) => found,
            Ok(None) if bytes.len() >= plan.limits.head_bytes_max => {
                return invalid("upstream sent too big header".to_owned());
            }
            Ok(None) if bytes.len() > HEAD_BYTES_USUAL && self.thread.refuses_growth() => return no_room(),
            Ok(None) => {
                self.keep_answer_bytes(bytes);
                return HeadStep::Waiting;
            }
            Err(error) => return invalid(error.to_string()),
        };
        let (length, is_packed) = match found {
            Answer::Missing => (None, false),
            Answer::Value { flags: None, .. } if memcached.gzip_flag > 0 => {
                let line = bytes[..line].trim_ascii_end().escape_ascii();
                return invalid(format!("memcached sent invalid flags in response \"{line}\""));
            }
            Answer::Value { flags, length } => {
                (Some(length), flags.is_some_and(|flags| flags & memcached.gzip_flag != 0))
            }
        };
        let mut head = self.thread.take_scratch();
        self.write_value_head(&mut head, memcached, length, is_packed);
        self.upstream.is_value = length.is_some();
        let step = self.begin_cgi_response(&head, &bytes[line..], true, plan, up, tries);
        self.thread.put_scratch(head);
        step
    }

    /// The head of HTTP for a value of this length; without a value 404.
    fn write_value_head(&self, head: &mut Vec<u8>, memcached: &MemcachedPlan, length: Option<u64>, is_packed: bool) {
        // Writing to a vector cannot fail.
        let _ = match length {
            None => write!(head, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n"),
            Some(length) => write!(head, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n"),
        };
        if length.is_some() {
            let media = memcached.types.type_of(self.uri());
            for (name, value) in [(&b"Content-Type"[..], media), (b"Content-Encoding", b"gzip")] {
                if !value.is_empty() && (is_packed || name == b"Content-Type") {
                    head.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
                }
            }
        }
        head.extend_from_slice(b"\r\n");
    }
}
