//! The limits of a Go `http.Transport`, given on the command line: `MaxIdleConns=100,MaxIdleConnsPerHost=200`. A
//! missing one has the value of `http.DefaultTransport`, or the zero value.

/// The fields that limit connections, with Go's names and Go's meaning of zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoTransport {
    /// `MaxIdleConns`: idle connections over all hosts; 0 is no limit.
    pub idle: u64,
    /// `MaxIdleConnsPerHost`: idle connections for each host; 0 is 2, Go's `DefaultMaxIdleConnsPerHost`.
    pub idle_per_host: u64,
    /// `MaxConnsPerHost`: connections for each host, idle or not; 0 is no limit.
    pub per_host: u64,
    /// `IdleConnTimeout` in seconds; 0 is forever.
    pub idle_seconds: u64,
    /// `DisableKeepAlives`.
    pub closes: bool,
    /// How many hosts the gateway connects to; not a field of Go's.
    pub hosts: u64,
}

impl Default for GoTransport {
    /// The values of `http.DefaultTransport`, for one host.
    fn default() -> Self {
        Self { idle: 100, idle_per_host: 0, per_host: 0, idle_seconds: 90, closes: false, hosts: 1 }
    }
}

impl GoTransport {
    /// The effective `MaxIdleConnsPerHost`.
    pub fn idle_per_host_taken(&self) -> u64 {
        if self.idle_per_host == 0 { 2 } else { self.idle_per_host }
    }
}

impl std::str::FromStr for GoTransport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut transport = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').ok_or_else(|| format!("\"{item}\" is not FIELD=VALUE"))?;
            let (name, value) = (name.trim(), value.trim());
            let number = || value.parse::<u64>().map_err(|_| format!("{name}: \"{value}\" is not a whole number"));
            match name {
                "MaxIdleConns" => transport.idle = number()?,
                "MaxIdleConnsPerHost" => transport.idle_per_host = number()?,
                "MaxConnsPerHost" => transport.per_host = number()?,
                "IdleConnTimeout" => {
                    transport.idle_seconds = parse_seconds(value)
                        .ok_or_else(|| format!("{name}: \"{value}\" is not a time; write 90s or 2m"))?;
                }
                "DisableKeepAlives" => {
                    transport.closes =
                        value.parse().map_err(|_| format!("{name}: \"{value}\" is neither true nor false"))?;
                }
                "hosts" => transport.hosts = number()?.max(1),
                _ => {
                    return Err(format!(
                        "\"{name}\" is not known here: MaxIdleConns, MaxIdleConnsPerHost, MaxConnsPerHost, IdleConnTimeout, \
                         DisableKeepAlives, and hosts for the number of hosts"
                    ));
                }
            }
        }
        Ok(transport)
    }
}

/// `90`, `90s`, `2m`, `1h`.
fn parse_seconds(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) => (digits, text.chars().last()?),
        None => (text, 's'),
    };
    let factor = match unit {
        'm' => 60,
        'h' => 3600,
        _ => 1,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_gos_names_and_defaults() {
        let given: GoTransport = "MaxIdleConnsPerHost=200, IdleConnTimeout=2m".parse().expect("understood");
        assert_eq!((given.idle, given.idle_per_host, given.idle_seconds, given.hosts), (100, 200, 120, 1));
        assert_eq!(GoTransport::default().idle_per_host_taken(), 2);
        for wrong in ["MaxIdleConns", "MaxIdleConns=x", "MaxIdle=1", "DisableKeepAlives=2", "IdleConnTimeout=é"] {
            assert!(wrong.parse::<GoTransport>().is_err(), "{wrong}");
        }
    }
}
