//! Writes the guide's page of all rules from the table.

use super::RULES;
use std::fmt::Write as _;

/// The page in Markdown.
pub fn markdown() -> String {
    let mut out = String::from(
        "# The doctor's rules\n\nMade from the table of rules by `cargo xtask docs`.\n\
         `*`: needs a value from you (a flag). `+`: needs a running server, or finds more with one.\n\n\
         | rule | finds |\n|---|---|\n",
    );
    for rule in RULES {
        let marks = [(rule.needs.word, " *"), (rule.needs.running, " +")];
        let marks: String = marks.iter().filter(|(holds, _)| *holds).map(|(_, mark)| *mark).collect();
        let _ = writeln!(out, "| [`{0}`](#{0}){marks} | {1} |", rule.name, rule.finds);
    }
    for rule in RULES {
        let _ = write!(out, "\n## {}\n\nFinds: {}.\n\n{}\n", rule.name, rule.finds, rule.why);
        for (title, text) in [("Example", rule.example), ("Instead", rule.instead)] {
            if !text.is_empty() {
                let _ = write!(out, "\n{title}:\n\n");
                for line in text.lines() {
                    let _ = writeln!(out, "    {line}");
                }
            }
        }
    }
    out
}
