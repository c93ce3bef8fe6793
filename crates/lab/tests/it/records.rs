//! Records are read back as they were written, written completely or not at all, and files that are
//! no records are named.

use lab::record::RecordError;
use lab::{Record, Sample};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;

use crate::recorded::{record, sample, small};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

prop_compose! {
    fn any_sample()(
        arm in "[a-z é]{1,8}",
        round: u32,
        void in proptest::option::of(".{0,12}"),
        figures in prop::collection::btree_map("[a-z._A-Z]{1,12}", prop::num::f64::NORMAL | prop::num::f64::ZERO, 0..6),
        series in prop::collection::btree_map("[a-z]{1,6}", prop::collection::vec((-10.0..1e6_f64, -1e9..1e9_f64), 0..6), 0..3),
        remarks in prop::collection::vec(".{0,20}", 0..3),
    ) -> Sample {
        Sample { arm, round, void, late: None, figures, series, remarks }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn record_survives_a_round_trip(samples in prop::collection::vec(any_sample(), 0..5), seed: u64, partial in proptest::option::of(".{0,9}"), said in ".{0,20}") {
        let folder = folder();
        let path = folder.path().join("record.json");
        let mut written = record(small(), samples);
        (written.seed, written.partial, written.command) = (seed, partial, said);
        written.write(&path).expect("there is room");
        prop_assert_eq!(Record::read(&path).expect("own text"), written);
    }
}

#[test]
fn record_replaces_the_previous_one_atomically() {
    let folder = folder();
    let path = folder.path().join("record.json");
    record(small(), vec![sample("direct", 0, "requests", 1.0)]).write(&path).expect("there is room");
    let longer = record(small(), vec![sample("direct", 0, "requests", 1.0), sample("direct", 1, "requests", 2.0)]);
    longer.write(&path).expect("there is room");
    assert_eq!(Record::read(&path).expect("own text"), longer);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let error = longer.write(&folder.path().join("none/record.json")).expect_err("no such folder");
    assert!(error.to_string().contains("none/record.json: No such file"), "{error}");
}

#[test]
fn infinite_values_count_as_not_measured() {
    let folder = folder();
    let path = folder.path().join("record.json");
    let mut odd = sample("direct", 0, "requests", f64::INFINITY);
    odd.figures.insert("cores.client".to_owned(), 0.1);
    odd.series.insert("s".to_owned(), vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)]);
    record(small(), vec![odd]).write(&path).expect("there is room");
    let read = Record::read(&path).expect("own text");
    assert_eq!(read.samples[0].figures, BTreeMap::from([("cores.client".to_owned(), 0.1)]));
    assert_eq!(read.samples[0].series["s"], [(0.0, 1.0), (2.0, 3.0)]);
}

#[test]
fn refuses_other_files_as_records() {
    let folder = folder();
    let path = folder.path().join("record.json");
    assert!(matches!(Record::read(&path), Err(RecordError::Io { .. })));
    let said = |text: &str| {
        fs::write(&path, text).expect("there is room");
        let error = Record::read(&path).expect_err("no record").to_string();
        error.replace(&path.display().to_string(), "FILE")
    };
    assert_eq!(said("{\"version\": 2}"), "FILE has version 2, and this program reads version 1");
    assert!(said("{\"version\": 1}").starts_with("FILE is no record of a run: missing field `experiment`"));
    assert!(said("hello").starts_with("FILE is no record of a run: expected value"));
    let whole = serde_json::to_string(&record(small(), Vec::new())).expect("plain data");
    assert!(said(&whole[..whole.len() / 2]).contains("no record of a run: EOF"));
}
