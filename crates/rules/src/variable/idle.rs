//! Variables of nginx's modules that have no effect here, such as HTTP/3. Many log formats use them, so they are known
//! names: each has the value that nginx gives it on a plain HTTP request without the module's directives, and the
//! lowering notes its use. Only `names` asks the table.

/// One of them, by its place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle(u8);

/// Names that depend on the same feature.
struct Group {
    needs: &'static str,
    /// `None`: nginx has no value, and writes `-` into an access log.
    value: Option<&'static str>,
    names: &'static [&'static str],
}

const GROUPS: &[Group] = &[
    Group {
        needs: "Encrypted Client Hello, which is not spoken",
        value: None,
        names: &["ssl_ech_outer_server_name", "ssl_ech_status"],
    },
    Group { needs: "a QUIC listener (`listen … quic`)", value: Some(""), names: &["http3"] },
    Group { needs: "`slice`", value: None, names: &["slice_range"] },
    Group { needs: "`set $uid_reset`", value: Some(""), names: &["uid_reset"] },
    // Without a list of modern browsers nginx takes every browser for an ancient one.
    Group { needs: "`modern_browser`", value: Some("1"), names: &["ancient_browser"] },
    Group { needs: "`modern_browser`", value: Some(""), names: &["modern_browser"] },
    Group { needs: "a look at `User-Agent` that nothing here takes", value: Some(""), names: &["msie"] },
    Group {
        needs: "`geoip_country`, `geoip_city` or `geoip_org`",
        value: None,
        names: &[
            "geoip_area_code",
            "geoip_city",
            "geoip_city_continent_code",
            "geoip_city_country_code",
            "geoip_city_country_code3",
            "geoip_city_country_name",
            "geoip_country_code",
            "geoip_country_code3",
            "geoip_country_name",
            "geoip_dma_code",
            "geoip_latitude",
            "geoip_longitude",
            "geoip_org",
            "geoip_postal_code",
            "geoip_region",
            "geoip_region_name",
        ],
    },
];

fn entries() -> impl Iterator<Item = (&'static str, &'static Group)> {
    GROUPS.iter().flat_map(|group| group.names.iter().map(move |name| (*name, group)))
}

impl Idle {
    /// The variable of a name in lower case.
    pub(super) fn find(name: &str) -> Option<Self> {
        entries().position(|(known, _)| known == name).map(|at| Self(at as u8))
    }

    /// Every name, for suggestions.
    pub(super) fn names<'a>() -> impl Iterator<Item = &'a str> {
        entries().map(|(name, _)| -> &'a str { name })
    }

    fn entry(self) -> (&'static str, &'static Group) {
        entries().nth(usize::from(self.0)).unwrap_or(("", &GROUPS[0]))
    }

    /// Its name, without `$`.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// What the variable depends on.
    pub fn needs(self) -> &'static str {
        self.entry().1.needs
    }

    /// Its value; `None` if it has none.
    pub fn value(self) -> Option<&'static [u8]> {
        self.entry().1.value.map(str::as_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_name_once() {
        assert!(u8::try_from(entries().count()).is_ok());
        for (at, (name, group)) in entries().enumerate() {
            let idle = Idle::find(name).unwrap();
            assert_eq!(usize::from(idle.0), at, "{name} appears twice");
            assert_eq!((idle.name(), idle.needs()), (name, group.needs));
        }
        assert_eq!(Idle::find("ssl_made_up"), None);
    }

    #[test]
    fn values_are_nginx_ones_on_plain_http() {
        assert_eq!(Idle::find("ssl_ech_status").unwrap().value(), None);
        assert_eq!(Idle::find("http3").unwrap().value(), Some(&b""[..]));
        assert_eq!(Idle::find("ancient_browser").unwrap().value(), Some(&b"1"[..]));
    }
}
