//! The shipped schema of scenario files equals that of the types.
//! `HOLDFAST_BLESS=1 cargo test -p load --test it scenario_schema` updates it.

use std::fs;
use std::path::Path;

#[test]
fn the_shipped_schema_of_scenarios_equals_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/scenario.json");
    let text = load::schema_text();
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        fs::write(&path, &text).expect("write the schema");
    }
    let shipped = fs::read_to_string(&path).expect("docs/schema/scenario.json");
    assert!(shipped == text, "docs/schema/scenario.json differs from the types: HOLDFAST_BLESS=1 writes it anew");
}

#[test]
fn every_key_has_a_description_and_unknown_keys_are_refused() {
    let schema = load::schema();
    let mut keys = 0;
    for shape in schema["$defs"].as_object().expect("types").values().chain([schema]) {
        let Some(properties) = shape["properties"].as_object() else { continue };
        assert_eq!(shape["additionalProperties"], false, "{shape}");
        for (key, property) in properties {
            keys += 1;
            assert!(property["description"].as_str().is_some_and(|text| text.len() > 5), "{key}: {property}");
        }
    }
    assert!(keys > 40, "{keys} keys");
}
