//! The brotli and zstd modules, which distributions carry beside nginx's own ones. Rows only; `rows.rs` says how to read
//! them. Called by the table.

use super::rows::{COMPRESSOR, directives};

directives! {
    module "ngx_http_brotli_filter_module";
    "brotli" (flag) "on | off" = "off" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Whether responses are compressed with brotli for clients that accept it.", "brotli on;";
    "brotli_types" (1..) "mime-type ..." = "text/html"
        in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Media types that are compressed with brotli, besides text/html.", "brotli_types text/css application/json;";
    "brotli_buffers" (2) "number size" = "32 4k" in Http | Server | Location, Value, Accepted(COMPRESSOR) =>
        "Number and size of buffers for compression with brotli.", "brotli_buffers 16 8k;";
    "brotli_comp_level" (1) "level" = "6" in Http | Server | Location, Value, Yes =>
        "How hard to compress with brotli, from 0 to 11; levels above 6 count as 6.", "brotli_comp_level 4;";
    "brotli_window" (1) "size" = "512k" in Http | Server | Location, Value, Yes =>
        "Window of the brotli encoder; sizes above 512k count as 512k.", "brotli_window 128k;";
    "brotli_min_length" (1) "length" = "20" in Http | Server | Location, Value, Yes =>
        "Shortest response that is compressed with brotli.", "brotli_min_length 1k;";

    module "ngx_http_brotli_static_module";
    "brotli_static" (1) "on | off | always" = "off" in Http | Server | Location, Value, Yes =>
        "Whether a ready-made `.br` file is sent instead.", "brotli_static on;";

    module "ngx_http_zstd_filter_module";
    "zstd" (flag) "on | off" = "off" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Whether responses are compressed with zstd for clients that accept it.", "zstd on;";
    "zstd_types" (1..) "mime-type ..." = "text/html"
        in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Media types that are compressed with zstd, besides text/html.", "zstd_types text/css application/json;";
    "zstd_buffers" (2) "number size" = "32 4k" in Http | Server | Location, Value, Accepted(COMPRESSOR) =>
        "Number and size of buffers for compression with zstd.", "zstd_buffers 16 8k;";
    "zstd_comp_level" (1) "level" = "1" in Http | Server | Location, Value, Yes =>
        "How hard to compress with zstd, from 1 to 22; levels above 6 count as 6.", "zstd_comp_level 3;";
    "zstd_min_length" (1) "length" = "20" in Http | Server | Location, Value, Yes =>
        "Shortest response that is compressed with zstd.", "zstd_min_length 1k;";
    "zstd_dict_file" (1) "file" in Http, Value, No =>
        "A dictionary that the encoder and all clients share.";

    module "ngx_http_zstd_static_module";
    "zstd_static" (1) "on | off | always" = "off" in Http | Server | Location, Value, Yes =>
        "Whether a ready-made `.zst` file is sent instead.", "zstd_static on;";
}
