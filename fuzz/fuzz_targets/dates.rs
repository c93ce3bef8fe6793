//! Dates and conditions of a request: no panic, a date means what it says when it is written down again, and a tag matches
//! itself. The first eight bytes are the date of what is compared.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::precondition::{Conditions, ModifiedSince, Validators, Verdict, evaluate, parse_date};
use rules::time_format::Moment;

/// The last second of the year 9999: what a date of four digits can say.
const LATEST: i64 = 253_402_300_799;

fuzz_target!(|input: &[u8]| {
    let Some((modified, field)) = input.split_first_chunk::<8>() else { return };
    if let Some(time) = parse_date(field).filter(|time| *time <= LATEST) {
        assert_eq!(parse_date(&Moment::new(time, 0).http_date()), Some(time));
        let file = Validators { modified: Some(time), tag: None };
        let since = Conditions { modified_since: Some(field), ..Conditions::default() };
        assert_eq!(evaluate(&since, &file, ModifiedSince::Exact), Verdict::NotModified);
        let unmodified = Conditions { unmodified_since: Some(field), ..Conditions::default() };
        assert_eq!(evaluate(&unmodified, &file, ModifiedSince::Exact), Verdict::Send);
    }
    let file = Validators { modified: Some(i64::from_le_bytes(*modified)), tag: Some(b"\"a-1\"") };
    for mode in [ModifiedSince::Off, ModifiedSince::Exact, ModifiedSince::Before] {
        let all = Conditions {
            match_: Some(field),
            none_match: Some(field),
            modified_since: Some(field),
            unmodified_since: Some(field),
        };
        // A client that has the file, by any list of tags, does not get it again.
        assert!(evaluate(&all, &file, mode) != Verdict::NotModified || field.contains(&b'"') || field == b"*");
    }
    let mut listed = b"\"x\", ".to_vec();
    listed.extend_from_slice(b"\"a-1\"");
    let known = Conditions { none_match: Some(&listed), ..Conditions::default() };
    assert_eq!(evaluate(&known, &file, ModifiedSince::Exact), Verdict::NotModified);
});
