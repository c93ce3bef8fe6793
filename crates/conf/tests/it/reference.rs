//! docs/guide/reference.md says what the directive table says.

use std::path::Path;

#[test]
fn the_reference_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/reference.md");
    let page = conf::reference::markdown();
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(page.lines()).position(|(old, new)| old != new);
    assert!(
        written == page,
        "docs/guide/reference.md is stale from line {} on: run `cargo xtask docs`",
        differs.unwrap_or(written.lines().count()) + 1
    );
}

#[test]
fn every_directive_is_on_the_page() {
    let page = conf::reference::markdown();
    for row in conf::table::all() {
        let (entry, line) = (format!("### `{}`\n", row.name), format!("| `{}`: ", row.name));
        assert!(page.contains(&entry) || page.contains(&line), "{} is missing", row.name);
    }
}
