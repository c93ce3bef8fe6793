//! An `AdmissionReview` of `admission.k8s.io/v1`: read, judged, answered. Pure.
//!
//! The structs are our own: `kube`'s come with a library for patches, which a validating webhook does not need, and keep the
//! whole object as a tree of JSON, which takes many times the memory of the text.

use ingress::admission::{Judgement, Reviewed, advice};
use ingress::objects::networking::Ingress;
use ingress::objects::routes::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

/// What is read.
const API_VERSION: &str = "admission.k8s.io/v1";
/// Most warnings: the API server cuts off all of them at 4,096 bytes.
const WARNINGS_MAX: usize = 16;
/// Longest warning, in characters: the API server cuts it off after 256 when there are many.
const WARNING_CHARS_MAX: usize = 250;
/// Longest reason of a refusal, in characters: it is read in a terminal, and an object can have many wrong lines.
const REFUSAL_CHARS_MAX: usize = 4096;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<T> {
    api_version: String,
    kind: String,
    request: Request<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<T> {
    uid: String,
    kind: GroupKind,
    operation: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default = "none")]
    object: Option<T>,
    #[serde(default = "none")]
    old_object: Option<T>,
}

#[derive(Deserialize)]
struct GroupKind {
    #[serde(default)]
    group: String,
    kind: String,
}

fn none<T>() -> Option<T> {
    None
}

/// Why a review has no answer. The failure policy of the webhook decides then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The body is not a review of an object that is reviewed here.
    Wrong(String),
    /// The replica cannot judge now.
    Unavailable(&'static str),
}

/// An object that may be stored, and its present version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) new: Reviewed,
    pub(crate) old: Option<Reviewed>,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    pub(crate) is_refusal: bool,
}

/// Reads the identity of a review, and the change that it is about.
type ReadChange = fn(&[u8]) -> Result<(String, Change), Unanswered>;

/// Answers a review.
pub(crate) fn answer(
    body: &[u8],
    judge: impl FnOnce(Change) -> Result<Judgement, &'static str>,
) -> Result<Answer, Unanswered> {
    // Objects of other kinds are not looked at.
    let head = read::<IgnoredAny>(body)?;
    let (group, kind) = (&head.request.kind.group, &head.request.kind.kind);
    if head.api_version != API_VERSION || head.kind != "AdmissionReview" {
        return Err(Unanswered::Wrong(format!("not an AdmissionReview of {API_VERSION}")));
    }
    let change: ReadChange = match (group.as_str(), kind.as_str()) {
        ("networking.k8s.io" | "extensions", "Ingress") => change_of::<Ingress>,
        ("gateway.networking.k8s.io", "HTTPRoute") => change_of::<HttpRoute>,
        ("gateway.networking.k8s.io", "GRPCRoute") => change_of::<GrpcRoute>,
        ("gateway.networking.k8s.io", "TLSRoute") => change_of::<TlsRoute>,
        ("gateway.networking.k8s.io", "TCPRoute") => change_of::<TcpRoute>,
        ("gateway.networking.k8s.io", "UDPRoute") => change_of::<UdpRoute>,
        _ => {
            let found = shown(&format!("{kind}.{group}"), 100);
            return Err(Unanswered::Wrong(format!("Ingresses and routes are reviewed here, not {found}")));
        }
    };
    if !matches!(head.request.operation.as_str(), "CREATE" | "UPDATE") {
        return respond(&head.request.uid, &Judgement::default(), "");
    }
    let (uid, change) = change(body)?;
    let object = change.new.object().to_string();
    respond(&uid, &judge(change).map_err(Unanswered::Unavailable)?, &object)
}

/// [`ReadChange`] for a kind.
fn change_of<T: DeserializeOwned + Into<Reviewed>>(body: &[u8]) -> Result<(String, Change), Unanswered> {
    let Request { uid, namespace, name, object, old_object, .. } = read::<T>(body)?.request;
    let Some(object) = object else { return Err(Unanswered::Wrong("the review has no object".to_owned())) };
    let mut new: Reviewed = object.into();
    // The API server decides about the place of an object, not its text.
    let metadata = new.metadata_mut();
    metadata.namespace = namespace;
    if metadata.name.is_empty() {
        metadata.name = if name.is_empty() { "new".to_owned() } else { name };
    }
    Ok((uid, Change { new, old: old_object.map(Into::into) }))
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<Review<T>, Unanswered> {
    serde_json::from_slice(body).map_err(|error| Unanswered::Wrong(format!("not a review: {error}")))
}

fn respond(uid: &str, judgement: &Judgement, object: &str) -> Result<Answer, Unanswered> {
    let warnings = judgement.warnings.iter().take(WARNINGS_MAX);
    let warnings: Vec<String> = warnings.map(|it| shown(&it.message, WARNING_CHARS_MAX)).collect();
    let refused = &judgement.refused;
    let mut response = json!({"uid": uid, "allowed": refused.is_empty(), "warnings": warnings});
    if !refused.is_empty() {
        let lines = refused.iter().map(|it| format!("{}: {}. To mend it, {}.", it.reason, it.message, advice(it)));
        let text = format!("Holdfast would not serve {object}. {}", lines.collect::<Vec<_>>().join(" "));
        let message = shown(&text, REFUSAL_CHARS_MAX);
        response["status"] = json!({"status": "Failure", "code": 400, "reason": "BadRequest", "message": message});
    }
    let review = json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response});
    let body = serde_json::to_vec(&review).map_err(|error| Unanswered::Wrong(error.to_string()))?;
    Ok(Answer { body, is_refusal: !refused.is_empty() })
}

/// Text for a header and a terminal: no control characters, and not longer than this.
fn shown(text: &str, chars_max: usize) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut out: String = text.chars().take(chars_max).map(printable).collect();
    if text.chars().nth(chars_max).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ingress::{Finding, Kind, Level, Name, ObjectName};
    use serde_json::Value;

    fn review(kind: &Value, operation: &str, object: &Value) -> Vec<u8> {
        let request = json!({"uid": "u-1", "kind": kind, "operation": operation, "namespace": "shop", "name": "front",
            "object": object, "oldObject": null, "userInfo": {"username": "x"}, "dryRun": true});
        json!({"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request}).to_string().into_bytes()
    }

    fn ingress() -> Value {
        json!({"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"})
    }

    fn judgement(messages: &[&str]) -> Judgement {
        let object = ObjectName { kind: Kind::Ingress, name: Name::new("shop", "front") };
        let finding = |message: &&str| Finding {
            object: object.clone(),
            level: Level::Refused,
            reason: "WrongHost",
            message: (*message).to_owned(),
        };
        Judgement { refused: messages.iter().map(finding).collect(), warnings: Vec::new() }
    }

    fn json_of(answer: Result<Answer, Unanswered>) -> Value {
        serde_json::from_slice(&answer.expect("an answer").body).expect("JSON")
    }

    fn wrong(body: &[u8]) -> String {
        match answer(body, |_| panic!("it is not judged")) {
            Err(Unanswered::Wrong(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_good_ingress_is_allowed_with_its_uid_and_warnings() {
        let body = review(&ingress(), "CREATE", &json!({"metadata": {"namespace": "elsewhere"}, "spec": {}}));
        let answer = answer(&body, |change| {
            assert_eq!(change.new.object().to_string(), "Ingress shop/front", "the request decides about the place");
            Ok(Judgement { warnings: judgement(&["a\nb"]).refused, ..Judgement::default() })
        });
        let response = &json_of(answer)["response"];
        assert_eq!(*response, json!({"uid": "u-1", "allowed": true, "warnings": ["a b"]}));
    }

    #[test]
    fn a_refusal_names_reason_and_advice() {
        let body = review(&ingress(), "UPDATE", &json!({"metadata": {"name": "front"}}));
        let answer = json_of(answer(&body, |_| Ok(judgement(&["\"x\" is no host"]))));
        assert_eq!(answer["response"]["allowed"], false);
        let message = answer["response"]["status"]["message"].as_str().expect("text");
        assert!(
            message.starts_with("Holdfast would not serve Ingress shop/front. WrongHost: \"x\" is no host. To mend")
        );
        assert!(message.ends_with("such as www.example.com or *.example.com."), "{message}");
    }

    #[test]
    fn long_answers_are_cut_off() {
        let body = review(&ingress(), "CREATE", &json!({}));
        let long = "é".repeat(10_000);
        let mut many = judgement(&[long.as_str(); 40]);
        many.warnings.clone_from(&many.refused);
        let answer = answer(&body, |_| Ok(many)).expect("an answer");
        assert!(answer.is_refusal && answer.body.len() < 20_000, "{}", answer.body.len());
    }

    #[test]
    fn other_bodies_are_wrong() {
        assert!(wrong(b"").contains("not a review"));
        assert!(wrong(b"\xff\xfe").contains("not a review"));
        assert!(wrong(b"{}").contains("not a review"));
        assert!(wrong("[".repeat(1_000_000).as_bytes()).contains("not a review"));
        assert!(wrong(&review(&ingress(), "CREATE", &Value::Null)).contains("no object"));
        assert!(wrong(&review(&ingress(), "CREATE", &json!({"spec": {"rules": "x"}}))).contains("not a review"));
        let pod = json!({"group": "", "version": "v1", "kind": "Pod"});
        assert_eq!(wrong(&review(&pod, "CREATE", &json!({}))), "Ingresses and routes are reviewed here, not Pod.");
        let old = String::from_utf8(review(&ingress(), "CREATE", &json!({}))).expect("text");
        assert!(
            wrong(old.replace(API_VERSION, "admission.k8s.io/v1beta1").as_bytes()).contains("not an AdmissionReview")
        );
    }

    #[test]
    fn deep_nesting_is_bounded_without_stack_growth() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        let text = String::from_utf8(review(&ingress(), "CREATE", &json!({"x": "DEEP"}))).expect("text");
        let skipped = text.replace("\"DEEP\"", &deep);
        assert!(answer(skipped.as_bytes(), |_| Ok(Judgement::default())).is_ok(), "the API server has no such field");
        let text = String::from_utf8(review(&ingress(), "CREATE", &json!({"metadata": "DEEP"}))).expect("text");
        assert!(wrong(text.replace("\"DEEP\"", &deep).as_bytes()).contains("not a review"));
    }

    #[test]
    fn deletions_pass_and_an_unsynced_cluster_gives_no_answer() {
        let body = review(&ingress(), "DELETE", &Value::Null);
        assert_eq!(json_of(answer(&body, |_| panic!("it is not judged")))["response"]["allowed"], true);
        let body = review(&ingress(), "CREATE", &json!({}));
        assert_eq!(answer(&body, |_| Err("not yet")), Err(Unanswered::Unavailable("not yet")));
    }
}
