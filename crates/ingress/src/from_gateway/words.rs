//! Values of objects as words of the configuration: what they contain is never a variable.

use super::status::Fault;
use crate::assembly::Assembly;
use crate::tree::Origin;
use conf::tree::Directive;

/// Names of fields that filters may not change: they frame messages, or belong to one connection.
const FRAMING: [&str; 8] =
    ["connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

impl Assembly<'_> {
    /// A text as a word in which `$` is a dollar sign.
    pub(crate) fn data(&mut self, text: &str) -> String {
        if !text.contains('$') {
            return text.to_owned();
        }
        let (variable, is_new) = self.variable("a dollar sign");
        if is_new {
            let own = self.own();
            let entry = own.line("default", ["$"]);
            self.http.push(own.block("geo", [variable.as_str()], vec![entry]));
        }
        let braced = format!("${{{}}}", variable.trim_start_matches('$'));
        text.replace('$', &braced)
    }
}

/// Checks the name of a field that a filter changes.
pub(crate) fn field_name(name: &str) -> Result<(), Fault> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#%&'+-.^_`|~".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= 256 && !name.starts_with('-') && name.bytes().all(is_token);
    if !is_name {
        return Err(Fault::new("UnsupportedValue", format!("{name:?} is not supported as the name of a field")));
    }
    if FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(Fault::new("UnsupportedValue", format!("filters may not change the field {name}")));
    }
    Ok(())
}

/// Checks a value that is sent in a field.
pub(crate) fn field_value(value: &str) -> Result<(), Fault> {
    if value.len() > 4096 || value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
        return Err(Fault::new("UnsupportedValue", "the value of a field has control characters or is too long"));
    }
    Ok(())
}

/// Checks a path that replaces one.
pub(crate) fn replacement_path(path: &str) -> Result<(), Fault> {
    let is_bad = |byte: u8| byte <= b' ' || byte == 0x7f || byte == b'?' || byte == b'#';
    if path.len() > 1024 || path.bytes().any(is_bad) || !(path.is_empty() || path.starts_with('/')) {
        return Err(Fault::new("UnsupportedValue", format!("{path:?} is not supported as a path")));
    }
    Ok(())
}

/// Checks a hostname that is sent in a field.
pub(crate) fn hostname(name: &str) -> Result<(), Fault> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(is_good) {
        return Err(Fault::new("UnsupportedValue", format!("{name:?} is not a hostname")));
    }
    Ok(())
}

/// A `Duration` of the API (`1h2m3s4ms`) in milliseconds; `None`: it is none.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let (unit, length) = if rest.starts_with("ms") {
            (1, 2)
        } else {
            match rest.as_bytes().first()? {
                b'h' => (3_600_000, 1),
                b'm' => (60_000, 1),
                b's' => (1000, 1),
                _ => return None,
            }
        };
        rest = rest.get(length..)?;
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    (!text.is_empty()).then_some(total)
}

/// `return 500` for what cannot be served.
pub(crate) fn failing(origin: Origin) -> Vec<Directive> {
    vec![origin.line("return", ["500"])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_units() {
        for (text, value) in [
            ("10s", Some(10_000)),
            ("1h2m3s4ms", Some(3_723_004)),
            ("500ms", Some(500)),
            ("0s", Some(0)),
            ("", None),
            ("10", None),
            ("s", None),
            ("99999999999999999999s", None),
            ("10d", None),
        ] {
            assert_eq!(milliseconds(text), value, "{text}");
        }
    }
}
