//! Rule: comments, messages, documents and names of tests are in plain English. The words below made our texts hard to
//! follow: each replaces a subject, a number or a verb of the field.

use super::Finding;
use super::source::{Source, walk};
use proc_macro2::TokenTree;

/// Words to avoid, and their replacements. Lower case; matched in any case, as whole words.
const AVOID: [(&str, &str); 27] = [
    ("whoever", "name the client, process or caller"),
    ("nobody", "name what is missing: no client, no process, no request"),
    ("so many", "`this many`, or the name of the number"),
    ("by whose doing", "`the cause`"),
    ("is said", "reports, prints, logs"),
    ("are said", "report, print, log"),
    ("be said", "report, print, log"),
    ("was said", "reported, printed, sent"),
    ("were said", "reported, printed, sent"),
    ("is heard of", "is reported"),
    ("been heard of", "been reported"),
    ("is taken for", "counts as"),
    ("are taken for", "count as"),
    ("stands", "is, means, appears"),
    ("stand", "are, mean, appear"),
    ("stood", "was, meant, appeared"),
    ("told from", "distinguished from"),
    ("has nothing to do here", "has no effect here"),
    ("what is there", "name the thing"),
    ("who does not", "a client that does not"),
    ("those who", "name them: clients, operators, readers"),
    ("not heard", "sent nothing, had no effect"),
    ("has heard of", "knows"),
    ("told apart", "distinguished"),
    ("be taken for", "count as, be read as"),
    ("tell the arm from itself", "show a difference"),
    ("are the upstream's", "the upstream checks, keeps or sends them"),
];

/// The same in names of functions with three words or more, which are mostly tests.
const AVOID_IN_NAMES: [&str; 19] = [
    "_whoever_",
    "_nobody_",
    "_so_many_",
    "_is_said_",
    "_are_said_",
    "_stands_",
    "_stand_",
    "_told_from_",
    "_told_",
    "_who_",
    "_whose_",
    "_whom_",
    "_heard_",
    "_taken_for_",
    "_what_is_",
    "_what_was_",
    "_what_has_",
    "_what_no_",
    "_all_the_same_",
];

/// First words of a function's name that are figures of speech, and verbs of the field.
const AVOID_AS_VERBS: [(&str, &str); 2] = [("bury", "reap, remove, free"), ("hear", "read, receive")];

/// Most characters in the name of a function: a test's name has 3 to 8 words.
const NAME_CHARS_MAX: usize = 60;

/// Phrases in which `nobody` is the user of that name.
const THE_USER_NOBODY: [&str; 3] = ["user nobody", "user = nobody", "nobody nobody"];

/// Checks comments, strings and names of functions.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.path.ends_with("tidy/plain_words.rs") {
        // This file lists the words.
        return Vec::new();
    }
    let mut findings = in_text(&source.path, &prose_of_rust(&source.text));
    walk(source.tokens.clone(), &mut |siblings| {
        for pair in siblings.windows(2) {
            if let [TokenTree::Ident(keyword), TokenTree::Ident(name)] = pair
                && keyword == "fn"
            {
                findings.extend(in_name(&source.path, &name.to_string(), name.span().start().line));
            }
        }
    });
    findings
}

/// Checks a document.
pub(super) fn check_document(path: &str, text: &str) -> Vec<Finding> {
    in_text(path, text)
}

/// Checks the comments of a configuration or script.
pub(super) fn check_comments(path: &str, text: &str) -> Vec<Finding> {
    let comments: Vec<&str> = text.lines().map(|line| line.find('#').map_or("", |at| &line[at..])).collect();
    in_text(path, &comments.join("\n"))
}

fn in_name(path: &str, name: &str, line: usize) -> Option<Finding> {
    let bounded = format!("_{name}_");
    let has = |words: &[&'static str]| words.iter().copied().find(|word| bounded.contains(word));
    let is_long = name.matches('_').count() >= 2;
    let verb = AVOID_AS_VERBS.iter().find(|(verb, _)| name.split('_').next() == Some(verb));
    let text = if let Some(word) = has(&AVOID_IN_NAMES).filter(|_| is_long) {
        format!("`{name}`: say the behaviour without `{}`", word.trim_matches('_'))
    } else if let Some((verb, instead)) = verb {
        format!("`{name}`: not `{verb}` but {instead}")
    } else if name.len() > NAME_CHARS_MAX {
        format!(
            "`{name}` has {} characters, {NAME_CHARS_MAX} are allowed: say the behaviour in 3 to 8 words",
            name.len()
        )
    } else {
        return None;
    };
    Some(Finding { path: path.to_owned(), line, rule: "plain-words", text })
}

fn in_text(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let lower = line.to_lowercase();
        for (word, instead) in &AVOID {
            if lower.match_indices(word).any(|(at, _)| counts(&lower, at, word)) {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: index + 1,
                    rule: "plain-words",
                    text: format!("`{word}`: {instead}"),
                });
            }
        }
    }
    findings
}

/// Whether the word at this place is prose: not part of a longer word, of a name, or of code between backticks.
fn counts(line: &str, at: usize, word: &str) -> bool {
    let (before, after) = (&line[..at], &line[at + word.len()..]);
    // After an odd number of backticks, the word is inside of a pair.
    let in_code = before.matches('`').count() % 2 == 1 && after.contains('`');
    let mut follow = after.chars();
    let (next, second) = (follow.next().unwrap_or(' '), follow.next().unwrap_or(' '));
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '=' | '/');
    let is_part = before.ends_with(|c: char| joins(c) || matches!(c, '.' | '$' | '{'))
        || joins(next)
        || matches!(next, '(' | '}')
        || matches!(next, '.' | ':') && (joins(second) || second == ':');
    // A literal that consists only of this word is a name.
    let is_quoted = !word.contains(' ') && before.ends_with('"') && matches!(next, '"' | '\\');
    let is_user = THE_USER_NOBODY
        .iter()
        .any(|user| line.match_indices(user).any(|(from, _)| (from..from + user.len()).contains(&at)));
    !in_code && !is_part && !is_quoted && !is_user
}

/// The text with everything but comments and string literals replaced by spaces, line by line.
fn prose_of_rust(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(length) = string_length(rest) {
            length
        } else {
            let length = char_literal_length(rest).unwrap_or(c.len_utf8());
            prose.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
            continue;
        };
        prose.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    prose
}

/// The length of a string literal at the start of the text, raw ones included.
fn string_length(text: &str) -> Option<usize> {
    if let Some(rest) = text.strip_prefix('"') {
        let mut escaped = false;
        for (at, c) in rest.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return Some(at + 2),
                _ => {}
            }
        }
        return Some(text.len());
    }
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"')))?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let body = prefix.len() + hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// The length of a character literal, so that `'"'` begins no string; `None` for a lifetime.
fn char_literal_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('\'')?;
    let mut chars = rest.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        return rest.get(2..)?.find('\'').map(|at| at + 4);
    }
    let (at, c) = chars.next()?;
    (c == '\'').then_some(at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::fixture("a.rs", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_words_in_comments_strings_and_documents() {
        assert_eq!(lines("// Nobody reads it.\nfn f() {}\n/// It stands here.\nfn g() {}\n"), [1, 3]);
        assert_eq!(lines("fn f() { g(\"whoever asks\", r#\"so many\"#, '\"', \"is said\"); }\n"), [1, 1, 1]);
        assert_eq!(check_document("a.md", "fine\nwhat is there goes\n")[0].line, 2);
        assert_eq!(check_comments("a.toml", "whoever = 1 # by whoever\nnobody = 2\n").len(), 1);
    }

    #[test]
    fn leaves_code_names_and_the_user_alone() {
        assert_eq!(lines("fn f(stand: u8) { let nobody = stand.so_many; }\n"), [0; 0]);
        assert_eq!(
            lines(
                "// As `nobody`, and understands standards.\nfn f() { g(\"user nobody;\", \"nobody\", \"a.nobody.test\"); }\n"
            ),
            [0; 0]
        );
        assert_eq!(lines("fn f<'a>(_: &'a str) { g('\\'', '\\u{1f}', '\"'); } // fine\n"), [0; 0]);
    }

    #[test]
    fn finds_words_in_long_names_of_functions() {
        assert_eq!(lines("#[test]\nfn a_line_that_nobody_reads() {}\nfn stand() {}\nfn to_nobody() {}\n"), [2]);
    }

    #[test]
    fn finds_verbs_that_are_figures_of_speech() {
        assert_eq!(lines("fn hear() {}\nfn bury_child() {}\nfn hearing() {}\nfn reap() {}\n"), [1, 2]);
    }

    #[test]
    fn finds_names_that_are_too_long() {
        assert_eq!(lines(&format!("fn {}() {{}}\n", "a".repeat(NAME_CHARS_MAX + 1))), [1]);
        assert_eq!(lines(&format!("fn {}() {{}}\n", "a".repeat(NAME_CHARS_MAX))), [0; 0]);
    }

    #[test]
    fn keeps_line_numbers_behind_strings_of_several_lines() {
        assert_eq!(lines("const A: &str = \"one\ntwo\";\n// nobody\nconst B: u8 = 1;\n"), [3]);
    }
}
