//! The shipped schema equals that of the types. `HOLDFAST_BLESS=1 cargo test -p lab --test it schema` updates it.

use std::fs;
use std::path::Path;

#[test]
fn the_shipped_schema_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema/experiment.json");
    let text = lab::schema::text();
    if std::env::var_os("HOLDFAST_BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("it has a folder")).expect("the folder of the schema");
        fs::write(&path, &text).expect("write the schema");
    }
    let shipped = fs::read_to_string(&path).expect("docs/schema/experiment.json");
    assert!(shipped == text, "docs/schema/experiment.json is not that of the types: HOLDFAST_BLESS=1 writes it anew");
}

#[test]
fn every_schema_key_is_documented_and_closed() {
    let schema = lab::schema::schema();
    let types = schema["$defs"].as_object().expect("types").values().chain([schema]);
    let mut keys = 0;
    for shape in types.flat_map(|shape| shape["oneOf"].as_array().cloned().unwrap_or_else(|| vec![shape.clone()])) {
        let Some(properties) = shape["properties"].as_object() else { continue };
        assert_eq!(shape["additionalProperties"], false, "{shape}");
        for (key, property) in properties.iter().filter(|(_, property)| property.get("const").is_none()) {
            keys += 1;
            let told = property.get("description").or(shape.get("description"));
            assert!(
                told.is_some_and(|text| text.as_str().is_some_and(|text| text.len() > 5)),
                "{key} has no description"
            );
        }
    }
    assert!(keys > 70, "{keys} keys");
}
