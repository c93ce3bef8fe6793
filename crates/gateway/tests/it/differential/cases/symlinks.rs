//! `disable_symlinks`: links at the end of a path and before it, with and without a folder that is trusted.

use super::Case;

pub(super) fn files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("html/real.txt", b"real".to_vec()),
        ("html/real.txt.gz -> real.txt", Vec::new()),
        ("html/folder/file.txt", b"file".to_vec()),
        ("html/folder/index.html", b"index".to_vec()),
        ("html/folder/alias.txt -> file.txt", Vec::new()),
        ("html/alias.txt -> real.txt", Vec::new()),
        ("html/stranger.txt -> real.txt", b"1".to_vec()),
        ("html/linked -> folder", Vec::new()),
        ("html/strange -> folder", b"1".to_vec()),
        ("html/dangling -> none", Vec::new()),
        ("html/circle -> circle", Vec::new()),
        ("html/indexed/index.html -> ../real.txt", Vec::new()),
        ("html/try/real.txt", b"tried".to_vec()),
        ("html/try/alias.txt -> real.txt", Vec::new()),
        ("html/try/linked -> ../folder", Vec::new()),
        ("html/redirected/x", Vec::new()),
    ]
}

const PLACES: &[&str] = &[
    "on",
    "on-slash",
    "owner",
    "deep",
    "file",
    "other",
    "empty",
    "whole",
    "root",
    "off",
    "cached",
    "cached/on",
    "static",
    "listed",
];

const PATHS: &[&str] = &[
    "real.txt",
    "alias.txt",
    "stranger.txt",
    "folder",
    "folder/",
    "folder/file.txt",
    "folder//file.txt",
    "folder/alias.txt",
    "linked",
    "linked/",
    "linked/file.txt",
    "linked/alias.txt",
    "strange/file.txt",
    "dangling",
    "dangling/x",
    "circle",
    "circle/x",
    "indexed/",
    "none",
    "none/none",
    "real.txt/x",
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for place in PLACES {
        for path in PATHS {
            cases.push(Case::simple("GET", "links.test", &format!("/{place}/{path}")));
        }
    }
    for path in PATHS {
        cases.push(Case::simple("GET", "links.test", &format!("/tested/?path={path}")));
    }
    for path in ["real.txt", "alias.txt", "linked/", "linked", "linked/file.txt", "none"] {
        cases.push(Case::simple("GET", "links.test", &format!("/try/{path}")));
    }
    cases.push(Case::simple("GET", "links.test", "/redirected/"));
    cases
}
