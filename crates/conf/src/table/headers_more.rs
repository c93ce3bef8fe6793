//! The headers-more module, which distributions carry beside nginx's own ones.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_headers_more_filter_module";
    "more_set_headers" (1..) "[-t 'mime-type ...'] [-s 'status ...'] [-a] 'name: value' ..."
        in Http | Server | Location | IfInLocation, ListJoined + REPEATABLE, Yes =>
        "Sets fields of responses; those of outer levels stay.", "more_set_headers -s 404 'X-Why: not found';";
    "more_clear_headers" (1..) "[-t 'mime-type ...'] [-s 'status ...'] name | beginning* ..."
        in Http | Server | Location | IfInLocation, ListJoined + REPEATABLE, Yes =>
        "Takes fields out of responses.", "more_clear_headers Server X-Hidden-*;";
    "more_set_input_headers" (1..) "[-t 'mime-type ...'] [-r] 'name: value' ..."
        in Http | Server | Location | IfInLocation, ListJoined + REPEATABLE, Yes =>
        "Sets fields of requests before they are passed on.", "more_set_input_headers 'X-From: $remote_addr';";
    "more_clear_input_headers" (1..) "[-t 'mime-type ...'] name | beginning* ..."
        in Http | Server | Location | IfInLocation, ListJoined + REPEATABLE, Yes =>
        "Takes fields out of requests before they are passed on.", "more_clear_input_headers Accept-Encoding;";
}
