//! Changes to responses: header fields, index files, compression. Rows only; `rows.rs` says how to read them. Called by
//! the table.

use super::rows::{COMPRESSOR, directives};

directives! {
    module "ngx_http_gzip_module";
    "gzip_vary" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.6.15", Yes =>
        "Whether compressible responses carry `Vary: Accept-Encoding`.", "gzip_vary on;";
    "gzip_http_version" (1) "1.0 | 1.1" = "1.1" in Http | Server | Location, Value, Yes =>
        "Lowest protocol version of requests whose responses are compressed.", "gzip_http_version 1.1;";
    "gzip_proxied" (1..) "off | expired | no-cache | no-store | private | no_last_modified | no_etag | auth | any ..."
        = "off"
        in Http | Server | Location, Value + REPEATABLE, Yes =>
        "Which requests that came through a proxy get compressed responses.", "gzip_proxied any;";
    "gzip_disable" (1..) "regex ..."
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.6.23", Yes =>
        "Clients, by a regular expression on `User-Agent`, whose responses are not compressed.",
        "gzip_disable \"msie6\";";
    "gzip" (flag) "on | off" = "off" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Whether responses are compressed for clients that accept it.", "gzip on;";
    "gzip_buffers" (2) "number size" = "32 4k" in Http | Server | Location, Value, Accepted(COMPRESSOR) =>
        "Number and size of buffers for compression.", "gzip_buffers 16 8k;";
    "gzip_types" (1..) "mime-type ..." = "text/html"
        in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Media types that are compressed, besides text/html.", "gzip_types text/css application/json;";
    "gzip_comp_level" (1) "level" = "1" in Http | Server | Location, Value, Yes =>
        "How hard to compress, from 1 to 9.", "gzip_comp_level 5;";
    "gzip_window" (1) "value" in Http | Server | Location, Value, Accepted(COMPRESSOR) =>
        "Window size of the compressor; not documented by nginx.", "gzip_window 32k;";
    "gzip_hash" (1) "value" in Http | Server | Location, Value, Accepted(COMPRESSOR) =>
        "Hash size of the compressor; not documented by nginx.", "gzip_hash 16k;";
    "postpone_gzipping" (1) "value" in Http | Server | Location, Value, Accepted(COMPRESSOR) =>
        "Bytes to collect before compressing; not documented by nginx.", "postpone_gzipping 0;";
    "gzip_no_buffer" (flag) "on | off" = "off" in Http | Server | Location, Value, Accepted(COMPRESSOR) =>
        "Whether compressed output is passed on unbuffered; not documented by nginx.", "gzip_no_buffer off;";
    "gzip_min_length" (1) "length" = "20" in Http | Server | Location, Value, Yes =>
        "Shortest response that is compressed.", "gzip_min_length 1k;";

    module "ngx_http_gunzip_module";
    "gunzip" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.3.6", Yes =>
        "Whether compressed responses are decompressed for clients without gzip.", "gunzip on;";
    "gunzip_buffers" (2) "number size" = "32 4k" in Http | Server | Location, Value since "1.3.6", Accepted(COMPRESSOR) =>
        "Number and size of buffers for decompression.", "gunzip_buffers 32 4k;";

    module "ngx_http_gzip_static_module";
    "gzip_static" (1) "on | off | always" = "off" in Http | Server | Location, Value since "0.6.23", Yes =>
        "Whether a ready-made `.gz` file is sent instead.", "gzip_static on;";

    module "ngx_http_headers_module";
    "expires" (1..=2) "[modified] time | epoch | max | off" = "off"
        in Http | Server | Location | IfInLocation, Value, Yes =>
        "Sets `Expires` and `Cache-Control` of responses, relative to now or to the file's time.", "expires 30d;";
    "add_header" (2..=3) "name value [always]"
        in Http | Server | Location | IfInLocation, ListReplaced + REPEATABLE since "0.3.8", Yes =>
        "Adds a field to responses with a success or redirect status, or with any status under `always`.",
        "add_header X-Frame-Options DENY always;";
    "add_trailer" (2..=3) "name value [always]"
        in Http | Server | Location | IfInLocation, ListReplaced + REPEATABLE since "1.13.2", Yes =>
        "Adds a field after the body of a chunked response.", "add_trailer X-Checksum $upstream_http_etag;";
    "add_header_inherit" (1) "on | off | merge" = "on"
        in Http | Server | Location | IfInLocation, Value since "1.29.3", Yes =>
        "Whether this level replaces the `add_header` lines of the outer level, adds to them, or takes none.",
        "add_header_inherit merge;";
    "add_trailer_inherit" (1) "on | off | merge" = "on"
        in Http | Server | Location | IfInLocation, Value since "1.29.3", Yes =>
        "Whether this level replaces the `add_trailer` lines of the outer level, adds to them, or takes none.",
        "add_trailer_inherit merge;";

    module "ngx_http_index_module";
    "index" (1..) "file ..." = "index.html" in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "The files tried, in order, for a path that ends with a slash.", "index index.html index.htm;";
}
