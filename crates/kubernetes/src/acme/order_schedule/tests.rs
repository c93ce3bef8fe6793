//! Which order comes next: a book of wishes, driven over virtual time.

use super::*;
use ingress::{Kind, ObjectName};

const DAY: Duration = Duration::from_hours(24);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + 365 * DAY + Duration::from_secs(seconds)
}

fn wish(secret: &str, host: &str) -> CertificateWish {
    let (namespace, name) = secret.split_once('/').unwrap();
    let object = ObjectName { kind: Kind::Ingress, name: Name::new(namespace, "front") };
    CertificateWish { secret: Name::new(namespace, name), hosts: [host.to_owned()].into(), objects: vec![object] }
}

/// A certificate for 90 days from a moment on.
fn ours(start: SystemTime) -> Known {
    Known::Ours(Validity { start, end: start + 90 * DAY, suffices: true, chance: 0.0 })
}

fn issued(start: SystemTime) -> Outcome {
    let Known::Ours(found) = ours(start) else { unreachable!() };
    Outcome::Issued(found)
}

fn failed() -> Outcome {
    Outcome::Failed { reason: "the challenge was rejected".into(), patience: Duration::ZERO }
}

/// A book with Secrets that are known as said; `None`: there is none.
fn book(wishes: &[(CertificateWish, Option<Known>)]) -> Book {
    let mut book = Book::default();
    sync(&mut book, wishes);
    book
}

fn sync(book: &mut Book, wishes: &[(CertificateWish, Option<Known>)]) {
    let all: Vec<CertificateWish> = wishes.iter().map(|(wish, _)| wish.clone()).collect();
    let known = |name: &Name| wishes.iter().find(|(wish, _)| wish.secret == *name).and_then(|(_, known)| *known);
    let find = |name: &Name| {
        let known = known(name)?;
        let mut secret = Secret::default();
        secret.metadata.resource_version = format!("{known:?}");
        Some(Arc::new(secret))
    };
    book.sync(&all, find, |_, wish| known(&wish.secret).unwrap());
}

fn next(book: &mut Book, now: SystemTime) -> Option<String> {
    book.next(now).map(|job| job.secret.to_string())
}

fn reasons(book: &Book) -> Vec<&'static str> {
    book.findings().iter().map(|finding| finding.reason).collect()
}

#[test]
fn missing_certificate_is_ordered_once_and_renewed_in_time() {
    let mut book = book(&[(wish("shop/a", "a.test"), None)]);
    assert_eq!(next(&mut book, at(0)).as_deref(), Some("shop/a"));
    assert_eq!(next(&mut book, at(0)), None, "it is being ordered");
    let line = book.finish(&Name::new("shop", "a"), issued(at(0)), at(3), 0).unwrap();
    assert!(!line.0 && line.1.contains("a.test") && line.1.contains("is renewed after"), "{}", line.1);
    assert_eq!(reasons(&book), ["CertificateIssued"]);
    // The watch has not brought it yet.
    sync(&mut book, &[(wish("shop/a", "a.test"), None)]);
    assert_eq!(next(&mut book, at(4)), None);
    sync(&mut book, &[(wish("shop/a", "a.test"), Some(ours(at(0))))]);
    let due = Known::due(&ours(at(0))).unwrap();
    assert_eq!(book.look_at(due - Duration::from_secs(1)), due, "not later, although something is looked at before");
    assert_eq!(next(&mut book, at(0) + 60 * DAY - Duration::from_mins(1)), None);
    assert_eq!(next(&mut book, at(0) + 60 * DAY + Duration::from_mins(1)).as_deref(), Some("shop/a"));
}

#[test]
fn a_secret_of_another_is_left_alone_until_it_is_gone() {
    let mut book = book(&[(wish("shop/a", "a.test"), Some(Known::Foreign))]);
    assert_eq!((next(&mut book, at(0)), reasons(&book)), (None, vec!["CertificateNotOurs"]));
    sync(&mut book, &[(wish("shop/a", "a.test"), None)]);
    assert_eq!(next(&mut book, at(0)).as_deref(), Some("shop/a"));
    assert!(reasons(&book).is_empty());
}

#[test]
fn failures_back_off_and_changed_hosts_start_again() {
    let name = Name::new("shop", "a");
    let mut book = book(&[(wish("shop/a", "a.test"), None)]);
    let mut now = at(0);
    for pause_s in [60, 600, 6000, 86_400] {
        assert_eq!(next(&mut book, now).as_deref(), Some("shop/a"));
        assert!(book.finish(&name, failed(), now, 0).unwrap().0);
        assert_eq!(reasons(&book), ["CertificateFailed"]);
        assert_eq!(next(&mut book, now + Duration::from_secs(pause_s - 1)), None);
        now += Duration::from_secs(pause_s);
    }
    sync(&mut book, &[(wish("shop/a", "b.test"), None)]);
    assert_eq!(next(&mut book, now - Duration::from_mins(1)).as_deref(), Some("shop/a"));
}

#[test]
fn a_new_leader_goes_on_where_the_old_one_ended() {
    let mut old = book(&[(wish("shop/a", "a.test"), None), (wish("shop/b", "b.test"), None)]);
    assert_eq!(next(&mut old, at(0)).as_deref(), Some("shop/a"));
    old.finish(&Name::new("shop", "a"), failed(), at(0), 0);
    let text = serde_json::to_string(&old.memory()).unwrap();
    let mut new = Book::recall(serde_json::from_str(&text).unwrap());
    sync(&mut new, &[(wish("shop/a", "a.test"), None), (wish("shop/b", "other.test"), None)]);
    assert_eq!(reasons(&new), ["CertificateFailed"]);
    assert_eq!(next(&mut new, at(1)).as_deref(), Some("shop/b"));
    new.finish(&Name::new("shop", "b"), issued(at(1)), at(1), 0);
    assert_eq!(next(&mut new, at(59)), None);
    assert_eq!(next(&mut new, at(60)).as_deref(), Some("shop/a"));
    new.finish(&Name::new("shop", "a"), failed(), at(60), 0);
    assert_eq!(next(&mut new, at(659)), None, "it was the second failure");
    assert!(new.budget.rest("shop", at(60).duration_since(UNIX_EPOCH).unwrap().as_secs()) < 8.0);
}

#[test]
fn a_namespace_with_many_wishes_leaves_its_turn_to_others() {
    let mut wishes: Vec<_> = (0..50).map(|number| (wish(&format!("many/{number}"), "a.test"), None)).collect();
    wishes.extend(["b", "c", "d", "e"].map(|namespace| (wish(&format!("{namespace}/x"), "b.test"), None)));
    let mut book = book(&wishes);
    let first: Vec<String> = std::iter::from_fn(|| next(&mut book, at(0))).collect();
    assert_eq!(first, ["b/x", "c/x", "d/x", "e/x"], "equal shares, then the name; four at once");
    for namespace in ["b", "c", "d", "e"] {
        book.finish(&Name::new(namespace, "x"), issued(at(0)), at(0), 0);
    }
    let mut count = 0;
    while let Some(secret) = next(&mut book, at(0)) {
        let (namespace, name) = secret.split_once('/').unwrap();
        assert_eq!(namespace, "many");
        assert_eq!(next(&mut book, at(0)), None, "one at a time");
        book.finish(&Name::new(namespace, name), failed(), at(0), 0);
        count += 1;
    }
    assert_eq!(count, 10, "the share of a namespace");
    assert!(book.look_at(at(0)) <= at(5), "a share grows again");
}

#[test]
fn unordered_certificates_cost_no_budget() {
    let mut book = book(&[(wish("shop/a", "a.test"), None)]);
    for number in 0..50_u64 {
        let outcome = if number % 2 == 0 { Outcome::Present(ours(at(0))) } else { Outcome::Postponed };
        // The watch does not bring it.
        sync(&mut book, &[(wish("shop/a", "a.test"), None)]);
        assert_eq!(next(&mut book, at(40 * number)).as_deref(), Some("shop/a"), "{number}");
        assert_eq!(book.finish(&Name::new("shop", "a"), outcome, at(40 * number), 0), None);
    }
    assert!(book.budget.rest("shop", at(2000).duration_since(UNIX_EPOCH).unwrap().as_secs()) >= 10.0);
}

#[test]
fn a_certificate_that_is_old_already_is_a_failure() {
    let mut book = book(&[(wish("shop/a", "a.test"), None)]);
    next(&mut book, at(0));
    let (is_trouble, text) = book.finish(&Name::new("shop", "a"), issued(at(0)), at(0) + 80 * DAY, 0).unwrap();
    assert!(is_trouble && text.contains("check the clocks"), "{text}");
    assert_eq!(next(&mut book, at(59) + 80 * DAY), None);
}

#[test]
fn a_wish_that_is_gone_is_forgotten_and_texts_are_bounded() {
    let mut book = book(&[(wish("shop/a", "a.test"), None)]);
    next(&mut book, at(0));
    let reason = "x\n".repeat(10_000);
    let outcome = Outcome::Failed { reason, patience: Duration::ZERO };
    book.finish(&Name::new("shop", "a"), outcome, at(0), 0);
    assert!(book.findings()[0].message.len() < 600 && serde_json::to_string(&book.memory()).unwrap().len() < 1000);
    sync(&mut book, &[]);
    assert_eq!(book.finish(&Name::new("shop", "a"), failed(), at(0), 0), None);
    assert!(book.findings().is_empty() && book.look_at(at(0)) == at(30));
}
