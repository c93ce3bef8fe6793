//! Formats times and amounts.

/// Tables and spectra are in milliseconds, as readers and tools expect.
pub(crate) const NS_PER_MS: f64 = 1e6;

/// Three digits and a unit.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        _ if ns < 1e3 => (ns, "ns"),
        _ if ns < 1e6 => (ns / 1e3, "us"),
        _ if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {unit}")
}

/// Decimal units, as for network rates.
pub(crate) fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        _ if count < 1e3 => return format!("{count:.0} B"),
        _ if count < 1e6 => (count / 1e3, "kB"),
        _ if count < 1e9 => (count / 1e6, "MB"),
        _ => (count / 1e9, "GB"),
    };
    format!("{value:.2} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_three_digits() {
        assert_eq!([1.0, 12_345.0, 999_999.0, 1.5e9].map(time), ["1.00 ns", "12.3 us", "1000 us", "1.50 s"]);
        assert_eq!([5.0, 1234.0, 5e6].map(bytes), ["5 B", "1.23 kB", "5.00 MB"]);
    }
}
