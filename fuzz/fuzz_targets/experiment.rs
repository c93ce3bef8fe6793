//! Experiment files: nothing panics or hangs, what is refused says why inside the text, and what is sound can be staged in every
//! arm and is the same when it is read again from a record.
#![no_main]

use lab::plan::{Site, staged};
use lab::{Adaptation, Experiment};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|text: &str| {
    let mut beside =
        |path: &str| if path == "beside" { Ok("{{folder}}".to_owned()) } else { Err("is not there".to_owned()) };
    let loaded = match Experiment::parse(text, "fuzz.toml", &mut beside) {
        Ok(loaded) => loaded,
        Err(refused) => {
            assert!(!refused.diagnostics.is_empty());
            for diagnostic in &refused.diagnostics {
                assert!(diagnostic.span.start <= diagnostic.span.end && diagnostic.span.end as usize <= text.len());
            }
            let shown = refused.render(false);
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{shown:?}");
            return;
        }
    };
    let experiment = &loaded.experiment;
    let json = serde_json::to_string(experiment).expect("plain data");
    assert_eq!(serde_json::from_str::<Experiment>(&json).expect("own text"), *experiment);
    let control = Adaptation { quick: true, control: true, ..Adaptation::default() };
    for adapted in [Ok(experiment.clone()), experiment.adapted(&control)] {
        let adapted = adapted.expect("it names nothing that is not there");
        for arm in &adapted.arms {
            let site = Site { folder: Path::new("/s"), network: adapted.network.kind, places: &loaded.places };
            staged(&adapted, &arm.name, site).expect("it was checked");
        }
    }
});
