//! Further modules of `http`: content, filters, access.
//! Rows only; `rows.rs` says how to read them. Called by the table.

use super::rows::{DAV, GEOIP, HASH, IMAGE_FILTER, MP4, XSLT, directives};

directives! {
    module "ngx_http_addition_module";
    "add_before_body" (1) "uri" in Http | Server | Location, Value, Yes =>
        "Puts the response of another location before this one.", "add_before_body /head.html;";
    "add_after_body" (1) "uri" in Http | Server | Location, Value, Yes =>
        "Puts the response of another location behind this one.", "add_after_body /foot.html;";
    "addition_types" (1..) "mime-type ..." = "text/html"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.7.9", Yes =>
        "Media types to which texts are added.", "addition_types text/plain;";

    module "ngx_http_auth_basic_module";
    "auth_basic" (1) "string | off" = "off" in Http | Server | Location | LimitExcept, Value, Yes =>
        "Asks for name and password, with the given realm.", "auth_basic \"members only\";";
    "auth_basic_user_file" (1) "file" in Http | Server | Location | LimitExcept, Value, Yes =>
        "File of names and password hashes.", "auth_basic_user_file htpasswd;";

    module "ngx_http_auth_request_module";
    "auth_request" (1) "uri | off" = "off" in Http | Server | Location, Value since "1.5.4", Yes =>
        "Asks another location whether the request is allowed.", "auth_request /auth;";
    "auth_request_set" (2) "$variable value" in Http | Server | Location, ListReplaced + REPEATABLE since "1.5.4", Yes =>
        "Sets a variable from the answer of `auth_request`.", "auth_request_set $user $upstream_http_x_user;";

    module "ngx_http_autoindex_module";
    "autoindex" (flag) "on | off" = "off" in Http | Server | Location, Value, Yes =>
        "Whether a directory without an index file is listed.", "autoindex on;";
    "autoindex_format" (1) "html | xml | json | jsonp" = "html"
        in Http | Server | Location, Value since "1.7.9", Yes =>
        "Format of directory listings.", "autoindex_format html;";
    "autoindex_localtime" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.1.34", Yes =>
        "Whether directory listings show local time.", "autoindex_localtime on;";
    "autoindex_exact_size" (flag) "on | off" = "on"
        in Http | Server | Location, Value since "0.1.38", Yes =>
        "Whether directory listings show sizes in bytes.", "autoindex_exact_size on;";

    module "ngx_http_browser_module";
    "modern_browser" (1..=2) "browser version | unlisted" in Http | Server | Location, ListReplaced + REPEATABLE, No =>
        "Which browsers count as modern.";
    "ancient_browser" (1..) "string ..." in Http | Server | Location, ListReplaced + REPEATABLE, No =>
        "Which `User-Agent` texts count as ancient browsers.";
    "modern_browser_value" (1) "string" = "1" in Http | Server | Location, Value, No =>
        "Value of `$modern_browser`.", "modern_browser_value 1;";
    "ancient_browser_value" (1) "string" = "1" in Http | Server | Location, Value, No =>
        "Value of `$ancient_browser`.", "ancient_browser_value 1;";

    module "ngx_http_charset_module";
    "charset" (1) "charset | off" = "off" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Character set that clients get, named in `Content-Type`.", "charset utf-8;";
    "source_charset" (1) "charset" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Character set that a response is in.", "source_charset koi8-r;";
    "override_charset" (flag) "on | off" = "off" in Http | Server | Location | IfInLocation, Value since "0.3.39", Yes =>
        "Whether a character set named by an upstream is converted.", "override_charset on;";
    "charset_types" (1..) "mime-type ..."
        = "text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.7.9", Yes =>
        "Media types that get a character set.",
        "charset_types text/html text/xml text/plain text/vnd.wap.wml application/javascript application/rss+xml;";
    "charset_map" (block 2) "charset1 charset2" in Http, No + REPEATABLE, Yes =>
        "Conversion table between two character sets.", "charset_map koi8-r utf-8 { C1 D0B0; }";

    module "ngx_http_dav_module";
    "dav_methods" (1..) "off | method ..." = "off" in Http | Server | Location, Value + REPEATABLE, No =>
        "WebDAV methods that are allowed.", "dav_methods off;";
    "create_full_put_path" (flag) "on | off" = "off" in Http | Server | Location, Value since "0.3.40", OnlyWith(DAV) =>
        "Whether PUT creates missing directories.", "create_full_put_path on;";
    "min_delete_depth" (1) "number" = "0" in Http | Server | Location, Value since "0.6.25", OnlyWith(DAV) =>
        "Fewest path elements that DELETE needs.", "min_delete_depth 0;";
    "dav_access" (1..=3) "users:permissions ..." = "user:rw" in Http | Server | Location, Value since "0.3.56", OnlyWith(DAV) =>
        "Rights of created files and directories.", "dav_access user:rw;";

    module "ngx_http_degradation_module";
    "degradation" (1) "value" in Http, No + REPEATABLE since "0.8.25", No =>
        "Memory size from which on requests are turned away; not documented by nginx.";
    "degrade" (1) "value" in Http | Server | Location, Value, No =>
        "How requests are turned away when memory is short; not documented by nginx.";

    module "ngx_http_empty_gif_module";
    "empty_gif" (0) "" in Location, No + REPEATABLE since "0.3.10", Yes =>
        "Answers with a transparent one-pixel GIF.", "empty_gif;";

    module "ngx_http_flv_module";
    "flv" (0) "" in Location, No + REPEATABLE since "0.4.7", No =>
        "Serves FLV files with pseudo-streaming.", "flv;";

    module "ngx_http_geoip_module";
    "geoip_country" (1..=2) "file" in Http, No, No =>
        "Database for country variables.";
    "geoip_org" (1..=2) "file" in Http, No since "1.0.3", No =>
        "Database for the organization variable.";
    "geoip_city" (1..=2) "file" in Http, No, No =>
        "Database for city variables.";
    "geoip_proxy" (1) "address | CIDR" in Http, No + REPEATABLE since "1.3.0", OnlyWith(GEOIP) =>
        "Proxy whose word about the client address is believed for lookups.";
    "geoip_proxy_recursive" (flag) "on | off" = "off" in Http, No since "1.3.0", OnlyWith(GEOIP) =>
        "Whether trusted addresses are passed over in lookups.", "geoip_proxy_recursive on;";

    module "ngx_http_image_filter_module";
    "image_filter" (1..=3) "off | test | size | rotate degrees | resize width height | crop width height" = "off"
        in Location, No + REPEATABLE since "0.7.54", No =>
        "Transforms images on their way to the client.", "image_filter off;";
    "image_filter_jpeg_quality" (1) "quality" = "75"
        in Http | Server | Location, Value since "0.7.58", OnlyWith(IMAGE_FILTER) =>
        "Quality of transformed JPEG images.", "image_filter_jpeg_quality 75;";
    "image_filter_webp_quality" (1) "quality" = "80"
        in Http | Server | Location, Value since "1.11.6", OnlyWith(IMAGE_FILTER) =>
        "Quality of transformed WebP images.", "image_filter_webp_quality 80;";
    "image_filter_sharpen" (1) "percent" = "0"
        in Http | Server | Location, Value since "1.1.8", OnlyWith(IMAGE_FILTER) =>
        "How much transformed images are sharpened.", "image_filter_sharpen 0;";
    "image_filter_transparency" (flag) "on|off" = "on"
        in Http | Server | Location, Value since "0.8.16", OnlyWith(IMAGE_FILTER) =>
        "Whether transparency is kept.", "image_filter_transparency on;";
    "image_filter_interlace" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.3.15", OnlyWith(IMAGE_FILTER) =>
        "Whether transformed images are interlaced.", "image_filter_interlace on;";
    "image_filter_buffer" (1) "size" = "1M" in Http | Server | Location, Value, OnlyWith(IMAGE_FILTER) =>
        "Largest image that is transformed.", "image_filter_buffer 1M;";

    module "ngx_http_mirror_module";
    "mirror" (1) "uri | off" = "off" in Http | Server | Location, ListReplaced + REPEATABLE since "1.13.4", Yes =>
        "Sends a copy of each request to another location.", "mirror /copy;";
    "mirror_request_body" (flag) "on | off" = "on" in Http | Server | Location, Value since "1.13.4", Yes =>
        "Whether the copy carries the request body.", "mirror_request_body on;";

    module "ngx_http_mp4_module";
    "mp4" (0) "" in Location, No + REPEATABLE since "1.1.3", No =>
        "Serves MP4 files with pseudo-streaming.", "mp4;";
    "mp4_buffer_size" (1) "size" = "512K" in Http | Server | Location, Value since "1.1.3", OnlyWith(MP4) =>
        "First buffer for reading MP4 metadata.", "mp4_buffer_size 512K;";
    "mp4_max_buffer_size" (1) "size" = "10M" in Http | Server | Location, Value since "1.1.3", OnlyWith(MP4) =>
        "Largest buffer for reading MP4 metadata.", "mp4_max_buffer_size 10M;";
    "mp4_start_key_frame" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.21.4", OnlyWith(MP4) =>
        "Whether output starts at a key frame.", "mp4_start_key_frame on;";

    module "ngx_http_random_index_module";
    "random_index" (flag) "on | off" = "off" in Location, No since "0.7.15", Yes =>
        "Whether a random file of the directory is the index.", "random_index on;";

    module "ngx_http_referer_module";
    "valid_referers" (1..) "none | blocked | server_names | string ..." in Server | Location, Value + REPEATABLE, Yes =>
        "Which `Referer` values leave `$invalid_referer` empty.", "valid_referers none blocked server_names *.example.com;";
    "referer_hash_max_size" (1) "size" = "2048" in Server | Location, Value since "1.0.5", Accepted(HASH) =>
        "Largest size of the hash tables of referers.", "referer_hash_max_size 2048;";
    "referer_hash_bucket_size" (1) "size" = "64" in Server | Location, Value since "1.0.5", Accepted(HASH) =>
        "Bucket size of the hash tables of referers.", "referer_hash_bucket_size 64;";

    module "ngx_http_secure_link_module";
    "secure_link" (1) "expression" in Http | Server | Location, Value since "0.7.18", Yes =>
        "Where checksum and expiry of a protected link are found.", "secure_link $arg_md5,$arg_expires;";
    "secure_link_md5" (1) "expression" in Http | Server | Location, Value, Yes =>
        "The text whose MD5 protects a link.", "secure_link_md5 \"$secure_link_expires$uri secret\";";
    "secure_link_secret" (1) "word" in Http | Server | Location, Value, Yes =>
        "Secret word of protected links.", "secure_link_secret word;";

    module "ngx_http_slice_module";
    "slice" (1) "size" = "0" in Http | Server | Location, Value since "1.9.8", Yes =>
        "Size of the pieces in which a response is asked for, where `$slice_range` is used; 0 is all at once.", "slice 1m;";

    module "ngx_http_ssi_module";
    "ssi" (flag) "on | off" = "off" in Http | Server | Location | IfInLocation, Value, Yes =>
        "Whether server-side includes are processed.", "ssi on;";
    "ssi_silent_errors" (flag) "on | off" = "off" in Http | Server | Location, Value, Yes =>
        "Whether failed includes leave no message.", "ssi_silent_errors on;";
    "ssi_ignore_recycled_buffers" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "0.1.29", Accepted("buffers are not recycled while they are in use") =>
        "Internal to buffering; not documented by nginx.", "ssi_ignore_recycled_buffers on;";
    "ssi_min_file_chunk" (1) "size" = "1k" in Http | Server | Location, Value, Accepted("a page is sent from memory") =>
        "From which size on parts of a file are sent by `sendfile`.", "ssi_min_file_chunk 1k;";
    "ssi_value_length" (1) "length" = "256" in Http | Server | Location, Value since "0.3.16", Yes =>
        "Longest parameter value of a command of SSI.", "ssi_value_length 256;";
    "ssi_types" (1..) "mime-type ..." = "text/html"
        in Http | Server | Location, ListReplaced + REPEATABLE since "0.1.38", Yes =>
        "Media types in which includes are processed.", "ssi_types text/html;";
    "ssi_last_modified" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.5.1", Yes =>
        "Whether `Last-Modified` survives processing.", "ssi_last_modified on;";

    module "ngx_http_sub_module";
    "sub_filter" (2) "string replacement" in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Replaces a text in responses.", "sub_filter http:// https://;";
    "sub_filter_types" (1..) "mime-type ..." = "text/html"
        in Http | Server | Location, ListReplaced + REPEATABLE, Yes =>
        "Media types in which texts are replaced.", "sub_filter_types text/html;";
    "sub_filter_once" (flag) "on | off" = "on" in Http | Server | Location, Value, Yes =>
        "Whether only the first occurrence is replaced.", "sub_filter_once on;";
    "sub_filter_last_modified" (flag) "on | off" = "off"
        in Http | Server | Location, Value since "1.5.1", Yes =>
        "Whether `Last-Modified` survives replacement.", "sub_filter_last_modified on;";

    module "ngx_http_userid_module";
    "userid" (1) "on | v1 | log | off" = "off" in Http | Server | Location, Value, Yes =>
        "Whether cookies that identify clients are set.", "userid on;";
    "userid_service" (1) "number" in Http | Server | Location, Value, Yes =>
        "Service number in the cookie.", "userid_service 7;";
    "userid_name" (1) "name" = "uid" in Http | Server | Location, Value, Yes =>
        "Name of the cookie.", "userid_name uid;";
    "userid_domain" (1) "name | none" = "none" in Http | Server | Location, Value, Yes =>
        "Domain of the cookie.", "userid_domain none;";
    "userid_path" (1) "path" = "/" in Http | Server | Location, Value, Yes =>
        "Path of the cookie.", "userid_path /;";
    "userid_expires" (1) "time | max | off" = "off" in Http | Server | Location, Value, Yes =>
        "How long the cookie lasts.", "userid_expires off;";
    "userid_flags" (1..=3) "off | flag ..." = "off"
        in Http | Server | Location, Value + REPEATABLE since "1.19.3", Yes =>
        "Flags of the cookie.", "userid_flags off;";
    "userid_p3p" (1) "string | none" = "none" in Http | Server | Location, Value, Yes =>
        "Value of the `P3P` field sent with the cookie.", "userid_p3p none;";
    "userid_mark" (1) "letter | digit | = | off" = "off"
        in Http | Server | Location, Value since "0.1.44", Yes =>
        "Marker that tells when to send the cookie again.", "userid_mark off;";

    module "ngx_http_xslt_module";
    "xml_entities" (1) "path" in Http | Server | Location, Value, OnlyWith(XSLT) =>
        "File of entity definitions for XML.";
    "xslt_stylesheet" (1..) "stylesheet [parameter=value ...]" in Location, No + REPEATABLE, No =>
        "Stylesheet and its parameters.";
    "xslt_param" (2) "parameter value" in Http | Server | Location, ListReplaced + REPEATABLE since "1.1.18", OnlyWith(XSLT) =>
        "Parameter of stylesheets, as an expression.";
    "xslt_string_param" (2) "parameter value"
        in Http | Server | Location, ListReplaced + REPEATABLE since "1.1.18", OnlyWith(XSLT) =>
        "Parameter of stylesheets, as a string.";
    "xslt_types" (1..) "mime-type ..." = "text/xml" in Http | Server | Location, ListReplaced + REPEATABLE, OnlyWith(XSLT) =>
        "Media types that are transformed.", "xslt_types text/xml;";
    "xslt_last_modified" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.5.1", OnlyWith(XSLT) =>
        "Whether `Last-Modified` survives the transformation.", "xslt_last_modified on;";
    "xml_external_entities" (flag) "on | off" = "off" in Http | Server | Location, Value since "1.31.3", OnlyWith(XSLT) =>
        "Whether external entities of an XML document are loaded.", "xml_external_entities on;";

    module "ngx_http_perl_module";
    "perl_modules" (1) "path" in Http, No + REPEATABLE, No =>
        "Directory of Perl modules.";
    "perl_require" (1) "module" in Http, No + REPEATABLE, No =>
        "Perl module that is loaded at start.";
    "perl" (1) "module::function | 'sub'" in Location | LimitExcept, Value + REPEATABLE since "0.3.21", No =>
        "Perl handler of a location.";
    "perl_set" (2) "$variable module::function | 'sub'" in Http, No + REPEATABLE, No =>
        "Variable computed by a Perl handler.";

    module "ngx_http_json_module";
    "json_max_depth" (1) "number" = "32" in Http, Value since "1.31.5", No =>
        "Deepest nesting of a JSON document.";
    "json_set" (3) "$variable $source path" in Http, No + REPEATABLE since "1.31.5", No =>
        "Variable with a value of a JSON document that another variable holds.";

    module "ngx_http_js_module";
    "js_body_filter" (1..) "function | module.function [buffer_type=string | buffer]"
        in Location | IfInLocation | LimitExcept, Value since "njs", No =>
        "Handler that filters response bodies.";
    "js_content" (1..) "function | module.function" in Location | IfInLocation | LimitExcept, Value since "njs", No =>
        "Handler that answers requests.";
    "js_fetch_buffer_size" (1..) "size" = "16k" in Http | Server | Location, Value since "njs", No =>
        "Buffer of requests made by scripts.";
    "js_fetch_ciphers" (1..) "ciphers" = "HIGH:!aNULL:!MD5" in Http | Server | Location, Value since "njs", No =>
        "Cipher suites of requests made by scripts.";
    "js_fetch_max_response_buffer_size" (1..) "size" = "1m" in Http | Server | Location, Value since "njs", No =>
        "Largest response to a request made by a script.";
    "js_fetch_protocols" (1..) "[TLSv1] [TLSv1.1] [TLSv1.2] [TLSv1.3]" = "TLSv1 TLSv1.1 TLSv1.2"
        in Http | Server | Location, Value since "njs", No =>
        "TLS versions of requests made by scripts.";
    "js_fetch_timeout" (1..) "time" = "60s" in Http | Server | Location, Value since "njs", No =>
        "How long a peer of a script may be silent.";
    "js_fetch_trusted_certificate" (1..) "file" in Http | Server | Location, Value since "njs", No =>
        "Trusted authorities of requests made by scripts.";
    "js_fetch_verify" (flag) "on | off" = "on" in Http | Server | Location, Value since "njs", No =>
        "Whether scripts verify certificates.";
    "js_fetch_verify_depth" (1..) "number" = "100" in Http | Server | Location, Value since "njs", No =>
        "Longest chain of certificates for scripts.";
    "js_header_filter" (1..) "function | module.function"
        in Location | IfInLocation | LimitExcept, Value since "njs", No =>
        "Handler that filters response heads.";
    "js_import" (1..) "module.js | export_name from module.js"
        in Http | Server | Location, Value + REPEATABLE since "njs", No =>
        "Script that is loaded.";
    "js_include" (1..) "file" in Http, No since "njs", No =>
        "Obsolete: script file that is loaded.";
    "js_path" (1..) "path" in Http | Server | Location, Value + REPEATABLE since "njs", No =>
        "Directory of scripts.";
    "js_set" (1..) "$variable function | module.function"
        in Http | Server | Location, Value + REPEATABLE since "njs", No =>
        "Variable computed by a script function.";
    "js_var" (1..) "$variable [value]" in Http | Server | Location, Value + REPEATABLE since "njs", No =>
        "Declares a variable that scripts write.";
}
