//! The tables of variable names, one for each block that has servers. `mod.rs` asks them; no other module does.

use super::{FieldName, JwtVariable, OtelVariable, Scope, Variable};

/// Every fixed variable of `http` by name, sorted by name.
const HTTP: &[(&str, Variable)] = &[
    ("args", Variable::Args),
    ("binary_remote_addr", Variable::BinaryRemoteAddr),
    ("body_bytes_sent", Variable::BodyBytesSent),
    ("brotli_ratio", Variable::BrotliRatio),
    ("bytes_sent", Variable::BytesSent),
    ("close_side", Variable::CloseSide),
    ("connection", Variable::Connection),
    ("connection_requests", Variable::ConnectionRequests),
    ("connection_time", Variable::ConnectionTime),
    ("connections_active", Variable::ConnectionsActive),
    ("connections_reading", Variable::ConnectionsReading),
    ("connections_waiting", Variable::ConnectionsWaiting),
    ("connections_writing", Variable::ConnectionsWriting),
    ("content_length", Variable::ContentLength),
    ("content_type", Variable::ContentType),
    ("date_gmt", Variable::DateGmt),
    ("date_local", Variable::DateLocal),
    ("document_root", Variable::DocumentRoot),
    ("document_uri", Variable::Uri),
    ("fastcgi_path_info", Variable::FastcgiPathInfo),
    ("fastcgi_script_name", Variable::FastcgiScriptName),
    ("gzip_ratio", Variable::GzipRatio),
    ("host", Variable::Host),
    ("hostname", Variable::Hostname),
    ("http2", Variable::Http2),
    ("https", Variable::Https),
    ("invalid_referer", Variable::InvalidReferer),
    ("is_args", Variable::IsArgs),
    ("is_request_port", Variable::IsRequestPort),
    ("jwt_payload", Variable::Jwt(JwtVariable::Payload)),
    ("limit_conn_status", Variable::LimitConnStatus),
    ("limit_rate", Variable::LimitRate),
    ("limit_req_status", Variable::LimitReqStatus),
    ("msec", Variable::Msec),
    ("nginx_version", Variable::NginxVersion),
    ("otel_parent_id", Variable::Otel(OtelVariable::ParentId)),
    ("otel_parent_sampled", Variable::Otel(OtelVariable::ParentSampled)),
    ("otel_span_id", Variable::Otel(OtelVariable::SpanId)),
    ("otel_trace_id", Variable::Otel(OtelVariable::TraceId)),
    ("pid", Variable::Pid),
    ("pipe", Variable::Pipe),
    ("pool_wait_time", Variable::PoolWaitTime),
    ("proxy_add_x_forwarded_for", Variable::ProxyAddXForwardedFor),
    ("proxy_host", Variable::ProxyHost),
    ("proxy_port", Variable::ProxyPort),
    ("proxy_protocol_addr", Variable::ProxyProtocolAddr),
    ("proxy_protocol_port", Variable::ProxyProtocolPort),
    ("proxy_protocol_server_addr", Variable::ProxyProtocolServerAddr),
    ("proxy_protocol_server_port", Variable::ProxyProtocolServerPort),
    ("query_string", Variable::Args),
    ("realip_remote_addr", Variable::RealipRemoteAddr),
    ("realip_remote_port", Variable::RealipRemotePort),
    ("realpath_root", Variable::RealpathRoot),
    ("remote_addr", Variable::RemoteAddr),
    ("remote_port", Variable::RemotePort),
    ("remote_user", Variable::RemoteUser),
    ("request", Variable::Request),
    ("request_body", Variable::RequestBody),
    ("request_body_file", Variable::RequestBodyFile),
    ("request_completion", Variable::RequestCompletion),
    ("request_filename", Variable::RequestFilename),
    ("request_id", Variable::RequestId),
    ("request_length", Variable::RequestLength),
    ("request_method", Variable::RequestMethod),
    ("request_port", Variable::RequestPort),
    ("request_time", Variable::RequestTime),
    ("request_trace", Variable::RequestTrace),
    ("request_uri", Variable::RequestUri),
    ("scheme", Variable::Scheme),
    ("secure_link", Variable::SecureLink),
    ("secure_link_expires", Variable::SecureLinkExpires),
    ("server_addr", Variable::ServerAddr),
    ("server_name", Variable::ServerName),
    ("server_port", Variable::ServerPort),
    ("server_protocol", Variable::ServerProtocol),
    ("slice_range", Variable::SliceRange),
    ("status", Variable::Status),
    ("tcpinfo_rcv_space", Variable::TcpinfoRcvSpace),
    ("tcpinfo_rtt", Variable::TcpinfoRtt),
    ("tcpinfo_rttvar", Variable::TcpinfoRttvar),
    ("tcpinfo_snd_cwnd", Variable::TcpinfoSndCwnd),
    ("time_iso8601", Variable::TimeIso8601),
    ("time_local", Variable::TimeLocal),
    ("uid_got", Variable::UidGot),
    ("uid_set", Variable::UidSet),
    ("upstream_addr", Variable::UpstreamAddr),
    ("upstream_bytes_received", Variable::UpstreamBytesReceived),
    ("upstream_bytes_sent", Variable::UpstreamBytesSent),
    ("upstream_cache_etag", Variable::UpstreamCacheEtag),
    ("upstream_cache_last_modified", Variable::UpstreamCacheLastModified),
    ("upstream_cache_status", Variable::UpstreamCacheStatus),
    ("upstream_close_reason", Variable::UpstreamCloseReason),
    ("upstream_connect_time", Variable::UpstreamConnectTime),
    ("upstream_header_time", Variable::UpstreamHeaderTime),
    ("upstream_local_addr", Variable::UpstreamLocalAddr),
    ("upstream_queue_time", Variable::UpstreamQueueTime),
    ("upstream_response_length", Variable::UpstreamResponseLength),
    ("upstream_response_time", Variable::UpstreamResponseTime),
    ("upstream_reused", Variable::UpstreamReused),
    ("upstream_status", Variable::UpstreamStatus),
    ("uri", Variable::Uri),
    ("zstd_ratio", Variable::ZstdRatio),
];

/// The same of `stream`.
const STREAM: &[(&str, Variable)] = &[
    ("binary_remote_addr", Variable::BinaryRemoteAddr),
    ("bytes_received", Variable::BytesReceived),
    ("bytes_sent", Variable::BytesSent),
    ("close_side", Variable::CloseSide),
    ("connection", Variable::Connection),
    ("hostname", Variable::Hostname),
    ("limit_conn_status", Variable::LimitConnStatus),
    ("msec", Variable::Msec),
    ("nginx_version", Variable::NginxVersion),
    ("pid", Variable::Pid),
    ("pool_wait_time", Variable::PoolWaitTime),
    ("protocol", Variable::Protocol),
    ("proxy_protocol_addr", Variable::ProxyProtocolAddr),
    ("proxy_protocol_port", Variable::ProxyProtocolPort),
    ("proxy_protocol_server_addr", Variable::ProxyProtocolServerAddr),
    ("proxy_protocol_server_port", Variable::ProxyProtocolServerPort),
    ("realip_remote_addr", Variable::RealipRemoteAddr),
    ("realip_remote_port", Variable::RealipRemotePort),
    ("remote_addr", Variable::RemoteAddr),
    ("remote_port", Variable::RemotePort),
    ("server_addr", Variable::ServerAddr),
    ("server_name", Variable::ServerName),
    ("server_port", Variable::ServerPort),
    ("session_time", Variable::SessionTime),
    ("ssl_preread_alpn_protocols", Variable::SslPrereadAlpnProtocols),
    ("ssl_preread_protocol", Variable::SslPrereadProtocol),
    ("ssl_preread_server_name", Variable::SslPrereadServerName),
    ("status", Variable::Status),
    ("time_iso8601", Variable::TimeIso8601),
    ("time_local", Variable::TimeLocal),
    ("upstream_addr", Variable::UpstreamAddr),
    ("upstream_bytes_received", Variable::UpstreamBytesReceived),
    ("upstream_bytes_sent", Variable::UpstreamBytesSent),
    ("upstream_connect_time", Variable::UpstreamConnectTime),
    ("upstream_first_byte_time", Variable::UpstreamFirstByteTime),
    ("upstream_local_addr", Variable::UpstreamLocalAddr),
    ("upstream_session_time", Variable::UpstreamSessionTime),
];

/// Every fixed variable of a block by name, sorted by name.
pub(super) fn all(scope: Scope) -> &'static [(&'static str, Variable)] {
    match scope {
        Scope::Http => HTTP,
        Scope::Stream => STREAM,
    }
}

/// The fixed variable of a name in lower case.
pub(super) fn built_in(scope: Scope, name: &str) -> Option<Variable> {
    let table = all(scope);
    let at = table.binary_search_by_key(&name, |(known, _)| known).ok()?;
    Some(table[at].1.clone())
}

/// A prefix and what makes a variable of the rest.
type Family = (&'static str, fn(&str) -> Variable);

/// No prefix begins with another one, so the order does not matter.
const FAMILIES: &[Family] = &[
    ("arg_", |rest| Variable::Arg(rest.as_bytes().into())),
    ("cookie_", |rest| Variable::Cookie(rest.as_bytes().into())),
    ("http_", |rest| Variable::Http(FieldName::new(rest))),
    ("jwt_claim_", |rest| Variable::Jwt(JwtVariable::Claim(rest.into()))),
    ("jwt_header_", |rest| Variable::Jwt(JwtVariable::Header(rest.into()))),
    ("proxy_protocol_tlv_", |rest| Variable::ProxyProtocolTlv(rest.as_bytes().into())),
    ("sent_http_", |rest| Variable::SentHttp(FieldName::new(rest))),
    ("sent_trailer_", |rest| Variable::SentTrailer(FieldName::new(rest))),
    ("trailer_", |rest| Variable::Trailer(FieldName::new(rest))),
    ("upstream_cookie_", |rest| Variable::UpstreamCookie(rest.as_bytes().into())),
    ("upstream_http_", |rest| Variable::UpstreamHttp(FieldName::new(rest))),
    ("upstream_trailer_", |rest| Variable::UpstreamTrailer(FieldName::new(rest))),
];

/// The variable of a family (`$http_…`) of a name in lower case. As in nginx the name behind the prefix may be empty.
pub(super) fn family(scope: Scope, name: &str) -> Option<Variable> {
    let has = |prefix: &str| scope == Scope::Http || prefix == "proxy_protocol_tlv_";
    FAMILIES
        .iter()
        .filter(|(prefix, _)| has(prefix))
        .find_map(|(prefix, variable)| name.strip_prefix(prefix).map(variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_sorted_and_has_no_name_twice() {
        for scope in [Scope::Http, Scope::Stream] {
            assert!(all(scope).windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
