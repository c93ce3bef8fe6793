//! Access by JSON Web Token, in the grammar of nginx's commercial version. Rows only; `rows.rs` says how to read them.
//! Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_auth_jwt_module";
    "auth_jwt" (1..=2) "string [token=$variable] | off" = "off"
        in Http | Server | Location | LimitExcept, Value since "1.11.3", Yes =>
        "Whether requests need a JSON Web Token: the realm, and the variable that has the token (default: `Authorization: Bearer`).",
        "auth_jwt \"closed area\" token=$cookie_token;";
    "auth_jwt_claim_set" (2..) "$variable name ..." in Http, No + REPEATABLE since "1.11.10", Yes =>
        "Defines a variable with the value of a claim; further names lead into nested objects.", "auth_jwt_claim_set $city address city;";
    "auth_jwt_header_set" (2..) "$variable name ..." in Http, No + REPEATABLE since "1.11.10", Yes =>
        "Defines a variable with the value of a field of the token's header.", "auth_jwt_header_set $key_id kid;";
    "auth_jwt_key_cache" (1) "time" = "0" in Http | Server | Location, Value since "1.21.4", Yes =>
        "How long keys of a file or a subrequest are used without looking at their source again.", "auth_jwt_key_cache 10m;";
    "auth_jwt_key_file" (1) "file"
        in Http | Server | Location | LimitExcept, ListReplaced + REPEATABLE since "1.11.3", Yes =>
        "A file with a set of keys (JWKS).", "auth_jwt_key_file keys.json;";
    "auth_jwt_key_request" (1) "URI"
        in Http | Server | Location | LimitExcept, ListReplaced + REPEATABLE since "1.15.6", Yes =>
        "A subrequest whose response is a set of keys (JWKS).", "auth_jwt_key_request /_keys;";
    "auth_jwt_leeway" (1) "time" = "0s" in Http | Server | Location, Value since "1.13.10", Yes =>
        "How far clocks may differ when `exp` and `nbf` are checked.", "auth_jwt_leeway 30s;";
    "auth_jwt_type" (1) "signed | encrypted | nested" = "signed"
        in Http | Server | Location | LimitExcept, Value since "1.19.7", Yes =>
        "The kind of the token: `nested` is a signed token inside an encrypted one.", "auth_jwt_type signed;";
    "auth_jwt_require" (1..) "$value ... [error=401 | 403]"
        in Http | Server | Location | LimitExcept, ListReplaced + REPEATABLE since "1.21.2", Yes =>
        "Values that must be neither empty nor `0`, and the status if one is.", "auth_jwt_require $is_reader error=403;";
}
