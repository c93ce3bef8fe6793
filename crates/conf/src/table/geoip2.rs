//! The geoip2 module, which distributions carry beside nginx's own ones. Rows only; `rows.rs` says how to read them.
//! `geoip2`, and how it replaces the directives of the older module. Called by the table.

use super::rows::directives;

directives! {
    module "ngx_http_geoip2_module";
    "geoip2" (block 1) "file" in Http, No + REPEATABLE, Yes =>
        "Defines variables by what a database in MaxMind's format has for the client address.",
        "geoip2 GeoLite2-Country.mmdb { auto_reload 5m; $country default=XX country iso_code; }";
    "geoip2_proxy" (1) "address | network" in Http, No + REPEATABLE, Yes =>
        "A proxy whose `X-Forwarded-For` has the address for `geoip2`.", "geoip2_proxy 10.0.0.0/8;";
    "geoip2_proxy_recursive" (flag) "on | off" = "off" in Http, No, Yes =>
        "Whether the last address that is no proxy of `geoip2_proxy` counts, instead of the last one.",
        "geoip2_proxy_recursive on;";

    module "ngx_stream_geoip2_module";
    "geoip2" (block 1) "file" in Stream, No + REPEATABLE, Yes =>
        "Defines variables by what a database in MaxMind's format has for the client address.",
        "geoip2 GeoLite2-Country.mmdb { $country source=$proxy_protocol_addr default=XX country iso_code; }";
}

/// The `geoip2` that sets the variables of a directive for the old databases, for example those of `geoip_country`.
pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    Some(match name {
        "geoip_country" => {
            "geoip2 GeoLite2-Country.mmdb { $geoip_country_code country iso_code; $geoip_country_name country names en; }"
        }
        "geoip_city" => {
            "geoip2 GeoLite2-City.mmdb { $geoip_city_country_code country iso_code; \
            $geoip_city_country_name country names en; $geoip_city_continent_code continent code; \
            $geoip_region subdivisions 0 iso_code; $geoip_region_name subdivisions 0 names en; $geoip_city city names en; \
            $geoip_postal_code postal code; $geoip_latitude location latitude; $geoip_longitude location longitude; \
            $geoip_dma_code location metro_code; }"
        }
        "geoip_org" => "geoip2 GeoLite2-ASN.mmdb { $geoip_org autonomous_system_organization; }",
        _ => return None,
    })
}
