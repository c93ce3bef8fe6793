//! Pieces of text for a terminal: digits in groups of three, one character per value, foreign text without control
//! characters. For live views and plain output.

/// `1,234,567`
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One character per sample or group of samples, scaled from the lowest to the highest; a group shows its highest.
pub fn sparkline(values: &[u64], width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let (Some(least), Some(most)) = (values.iter().min(), values.iter().max()) else { return String::new() };
    let group = values.len().div_ceil(width.max(1)).max(1);
    let level = |value: u64| {
        let part = (value - least) as f64 / (most - least).max(1) as f64;
        LEVELS.get((part * 7.0).round() as usize).copied().unwrap_or('█')
    };
    values.chunks(group).filter_map(|group| group.iter().max()).map(|value| level(*value)).collect()
}

/// Text from files and programs, without characters that could control the terminal.
pub fn printable(text: &str) -> String {
    let is_shown = |letter: char| letter == '\n' || letter == '\t' || !letter.is_control();
    text.chars().map(|letter| if is_shown(letter) { letter } else { '\u{FFFD}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!((grouped(0), grouped(999), grouped(1000)), ("0".to_owned(), "999".to_owned(), "1,000".to_owned()));
    }

    #[test]
    fn a_sparkline_shows_the_highest_of_each_group() {
        assert_eq!(sparkline(&[0, 7, 14], 10), "▁▅█");
        assert_eq!(sparkline(&[0, 9, 0, 0], 2), "█▁");
        assert_eq!(sparkline(&[4, 4], 9), "▁▁");
        assert_eq!(sparkline(&[], 9), "");
    }

    #[test]
    fn replaces_control_characters_for_terminals() {
        assert_eq!(printable("a\tb\n\u{1b}[2Jc\u{7f}"), "a\tb\n\u{FFFD}[2Jc\u{FFFD}");
    }
}
