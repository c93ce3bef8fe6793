//! Rule: consider splitting a file of more than 600 lines. Tests count, because they belong to what they test.

use super::exceptions::Measure;
use super::source::Source;

const LINES_MAX: usize = 600;

pub(super) fn measure(source: &Source) -> Option<Measure> {
    let lines = source.text.lines().count();
    (lines > LINES_MAX).then(|| Measure {
        rule: "file-length",
        path: source.path.clone(),
        name: None,
        line: 1,
        lines,
        lines_max: LINES_MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_fine_and_one_more_is_not() {
        assert!(measure(&Source::fixture("a.rs", &"//\n".repeat(LINES_MAX))).is_none());
        let long = measure(&Source::fixture("a.rs", &"//\n".repeat(LINES_MAX + 1))).unwrap();
        assert_eq!(long.lines, LINES_MAX + 1);
    }
}
