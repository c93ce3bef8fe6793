//! The pages of the guide are made from the tables.

use ingress::pages;
use std::path::Path;

#[test]
fn pages_are_those_of_the_tables() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/kubernetes");
    for (name, text) in [("annotations.md", pages::annotations()), ("config-map.md", pages::config_map())] {
        let path = guide.join(name);
        if std::env::var_os("HOLDFAST_WRITE_PAGES").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(known, text, "{name}: run the test with HOLDFAST_WRITE_PAGES=1");
    }
}
