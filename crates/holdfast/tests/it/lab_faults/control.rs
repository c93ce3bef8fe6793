//! `--control`: each arm against itself, on real servers.

use super::Bench;
use report::Outcome;

#[test]
fn a_control_is_labelled_and_judges_an_arm_against_itself() {
    let bench = Bench::new(&super::chain("0.0", "0.0", "0.2", "").replace(
        "[[arm]]\nname = \"only\"\n",
        "[[arm]]\nname = \"only\"\n[[arm]]\nname = \"other\"\narguments = [\"-c\", \"3\"]\n\
         [[claim]]\nsays = \"three clients ask for more\"\nfigure = \"requests\"\nof = \"other\"\nagainst = \"only\"\ntimes_at_least = 1.1\n",
    ));
    let ended = bench.run(&["--control", "--arm", "only", "--rounds", "6", "--seed", "5"]);
    // With any verdicts: the questions of a control do not make a run fail.
    ended.assert_code(0);
    ended.assert_reports(&["chain: 6 rounds of 2 arms, seed 5"]);
    let record = bench.record();
    assert!(record.control && record.partial.is_none());
    let arms: Vec<&str> = record.experiment.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!((arms, record.samples.len()), (vec!["only", "only (again)"], 12));
    for sample in &record.samples {
        assert!(sample.figures["requests"] > 0.0, "{sample:?}");
    }
    let judged = lab::judge::judge(&record);
    assert_eq!(judged.len(), 1, "the other arm was not asked for");
    let verdict = &judged[0].verdict;
    assert_eq!(verdict.claim, "requests of only does not differ from itself");
    let words = match verdict.outcome {
        Outcome::Holds => "as it should be, the rounds show no difference",
        Outcome::Fails => {
            "the rounds show a difference between the arm and itself; by chance that happens in 1 of 20 controls"
        }
        Outcome::Undecided => panic!("six rounds decide: {verdict:?}"),
        Outcome::Void => "void",
    };
    assert!(verdict.reason.contains(words), "{verdict:?}");
    let said = &ended.stdout;
    assert!(
        said.contains("This is a control (A/A)") && said.contains("chain (control: each arm against itself)"),
        "{said}"
    );
    let verb = if verdict.outcome == Outcome::Void { "is void" } else { verdict.outcome.word() };
    assert!(said.contains(&format!("The comparison {verb}.")), "{said}");
    bench.assert_clean(ended.id);
}
