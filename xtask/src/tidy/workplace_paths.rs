//! Rule: no tracked file names a folder that exists only on the author's machine.

use super::Finding;

/// In two parts, so that this file does not contain them itself.
const WORKPLACES: [&str; 2] = [concat!("/wo", "rk/"), concat!("/tmp", "/wt")];

pub(super) fn check(path: &str, bytes: &[u8]) -> Vec<Finding> {
    let text = String::from_utf8_lossy(bytes);
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for workplace in WORKPLACES {
            // `docs/work/` is a folder of a project, not in the root of a machine.
            let absolute = |(at, _): (usize, &str)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if line.match_indices(workplace).any(absolute) {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: index + 1,
                    rule: "workplace-path",
                    text: format!("{workplace} exists on one machine only"),
                });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_paths_of_one_machine_in_any_file() {
        let text = format!("fine\nsee {}notes\nand {}/x\n", WORKPLACES[0], WORKPLACES[1]);
        let lines: Vec<usize> = check("README.md", text.as_bytes()).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn relative_folders_and_binary_files_are_fine() {
        let text = format!("docs{}a.md\n", WORKPLACES[0]);
        assert_eq!(check("README.md", text.as_bytes()), []);
        assert_eq!(check("logo.png", &[0x89, 0xff, 0x00, b'\n']), []);
    }
}
