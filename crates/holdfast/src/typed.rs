//! Values of flags, in one syntax for all commands: `10k`, `2,000/s`, `500ms`, `64k`. `report::typed` reads the
//! numbers; this module has the types that flags need.

pub(crate) use report::typed::{bytes, count, duration, rate};

/// A count that fits 32 bits.
pub(crate) fn small(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| "less than 4,294,967,296".to_owned())
}

/// A count of things held in memory.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    usize::try_from(count(text)?).map_err(|error| error.to_string())
}

/// Whole seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let time = duration(text)?;
    if time.subsec_nanos() > 0 {
        return Err("whole seconds, such as 30s or 5m".to_owned());
    }
    Ok(time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_takes_what_its_type_holds() {
        assert_eq!((small("10k"), size("2,000"), seconds("5m")), (Ok(10_000), Ok(2000), Ok(300)));
        assert!(small("5g").is_err() && seconds("1500ms").is_err());
    }
}
