//! V1–V11: `auth_jwt` with bad tokens, bad keys, and keys that do not come. The tokens were made by `PyJWT` and jwcrypto.

use serde_json::{Value, json};
use std::path::Path;
use testkit::{Gateway, Message, Peer, until};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../../jwt/tests/vectors/pyjwt.json")).unwrap()
}

fn token(name: &str) -> String {
    vectors()["good"][name].as_str().unwrap().to_owned()
}

/// The set of keys for these tokens.
fn keys() -> String {
    json!({ "keys": vectors()["keys"] }).to_string()
}

/// A set without the key of RS256.
fn other_keys() -> String {
    let all = vectors()["keys"].as_array().unwrap().clone();
    json!({ "keys": all.into_iter().filter(|key| key["kid"] != "rsa").collect::<Vec<_>>() }).to_string()
}

/// Writes a file that was last changed a minute ago, so that it is not read again for its age.
fn write_old(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let written = file.metadata().and_then(|facts| facts.modified()).unwrap();
    file.set_modified(written - std::time::Duration::from_mins(1)).unwrap();
}

/// A gateway, and the folder with `keys.json`.
fn guarded(http: &str, location: &str, peer: &Peer) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    write_old(&folder.path().join("keys.json"), &keys());
    let text = format!(
        "error_log stderr info; events {{}} http {{ large_client_header_buffers 4 64k; {http}
            server {{ listen {{listen}}; {location} }} }}"
    )
    .replace("KEYS", &folder.path().join("keys.json").display().to_string())
    .replace("FOLDER", &folder.path().display().to_string());
    (Gateway::start(&text, &[peer.address()]), folder)
}

/// An upstream that says what it was told about the user.
fn upstream() -> Peer {
    Peer::answering(|request| {
        let body = request.value("X-User").unwrap_or("nobody").to_owned();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

fn challenge(response: &Message) -> Option<&str> {
    response.value("WWW-Authenticate")
}

const PLAIN: &str = "location / { auth_jwt area; auth_jwt_key_file KEYS; proxy_set_header X-User $jwt_claim_sub; proxy_pass http://{upstream:0}; }";

#[test]
fn tokens_of_every_algorithm_are_let_in() {
    let peer = upstream();
    let (gateway, _folder) = guarded("", PLAIN, &peer);
    let mut client = gateway.client();
    for (name, token) in vectors()["good"].as_object().unwrap() {
        let response = client.get("/", &bearer(token.as_str().unwrap()));
        let user = if ["no times", "fractional exp"].contains(&name.as_str()) { "x" } else { "reader" };
        assert_eq!((response.status(), &*response.text()), (200, user), "{name}");
    }
}

#[test]
fn v01_a_bad_token_is_refused_and_not_passed_on() {
    let peer = upstream();
    let (gateway, _folder) = guarded("", PLAIN, &peer);
    let mut client = gateway.client();
    for (name, row) in vectors()["bad"].as_object().unwrap() {
        let token = row[0].as_str().unwrap();
        let response = client.get("/", &bearer(token));
        let expected =
            if token.is_empty() { "Bearer realm=\"area\"" } else { "Bearer realm=\"area\",error=\"invalid_token\"" };
        assert_eq!((response.status(), challenge(&response)), (401, Some(expected)), "{name}");
    }
    assert_eq!(peer.requests().len(), 0);
    gateway.logged("auth_jwt: the token has expired");
}

#[test]
fn refusals_and_keys_that_fail_are_counted() {
    let peer = upstream();
    let location = "location / { auth_jwt area; auth_jwt_key_file FOLDER/$arg_keys; auth_jwt_require $arg_yes;
        proxy_pass http://{upstream:0}; }
        location = /metrics { status_page; }";
    let (gateway, folder) = guarded("", location, &peer);
    std::fs::write(folder.path().join("others.json"), other_keys()).unwrap();
    let mut client = gateway.client();
    let bad = |name: &str| bearer(vectors()["bad"][name][0].as_str().unwrap());
    let good = bearer(&token("RS256"));
    for (target, fields, status) in [
        ("/?keys=keys.json&yes=1", &*good, 200),
        ("/?keys=keys.json&yes=1", "", 401),
        ("/?keys=keys.json&yes=1", "Authorization: Bearer x\r\n", 401),
        ("/?keys=keys.json&yes=1", &*bad("expired"), 401),
        ("/?keys=keys.json&yes=1", &*bad("changed payload"), 401),
        ("/?keys=others.json&yes=1", &*good, 401),
        ("/?keys=keys.json&yes=0", &*good, 401),
        ("/?keys=none&yes=1", &*good, 500),
    ] {
        assert_eq!(client.get(target, fields).status(), status, "{target} {fields}");
    }
    let metrics = gateway.client().get("/metrics?format=prometheus", "").text();
    for (name, count) in [
        ("refused_total{reason=\"missing\"}", 1),
        ("refused_total{reason=\"malformed\"}", 1),
        ("refused_total{reason=\"expired\"}", 1),
        ("refused_total{reason=\"signature\"}", 1),
        ("refused_total{reason=\"no_key\"}", 1),
        ("refused_total{reason=\"requirement\"}", 1),
        ("refused_total{reason=\"not_yet_valid\"}", 0),
        ("keys_failed_total", 1),
    ] {
        let line = format!("holdfast_jwt_{name} {count}");
        assert!(metrics.lines().any(|it| it == line), "{line} in {metrics}");
    }
}

#[test]
fn v02_a_request_without_a_token_is_challenged() {
    let peer = upstream();
    let (gateway, _folder) = guarded("", PLAIN, &peer);
    let mut client = gateway.client();
    let good = token("RS256");
    for fields in
        ["", "Authorization: Basic YTpi\r\n", "Authorization: Bearer\r\n", "Authorization: \r\n", "Cookie: token=x\r\n"]
    {
        let response = client.get("/", fields);
        assert_eq!((response.status(), challenge(&response)), (401, Some("Bearer realm=\"area\"")), "{fields}");
    }
    assert_eq!(client.get("/", &format!("Authorization: bEARER   {good} \r\n")).status(), 200, "case and spaces");
}

#[test]
fn v03_a_claim_of_a_token_that_is_not_verified_has_no_value() {
    let peer = upstream();
    let location = "satisfy any; allow all; location / { deny all; auth_jwt area; auth_jwt_key_file KEYS;
        error_page 401 = @open; }
        location @open { satisfy all; allow all; auth_jwt off; proxy_set_header X-User \"[$jwt_claim_sub]\"; proxy_pass http://{upstream:0}; }
        location /before { set $early $jwt_claim_sub; deny all; auth_jwt area; auth_jwt_key_file KEYS;
            proxy_set_header X-User \"[$early]\"; proxy_pass http://{upstream:0}; }";
    let (gateway, _folder) = guarded("", location, &peer);
    let mut client = gateway.client();
    let forged = vectors()["bad"]["changed payload"][0].as_str().unwrap().to_owned();
    assert_eq!(client.get("/", &bearer(&forged)).text(), "[]");
    assert_eq!(client.get("/before", &bearer(&token("RS256"))).text(), "[]", "the rewrite phase comes first");
}

#[test]
fn v04_changed_keys_apply_and_broken_files_are_ignored() {
    let peer = upstream();
    let (gateway, folder) = guarded("", PLAIN, &peer);
    let path = folder.path().join("keys.json");
    let good = bearer(&token("RS256"));
    let status = || gateway.client().get("/", &good).status();
    assert_eq!(status(), 200);
    std::fs::write(&path, other_keys()).unwrap();
    until("the new keys are used", || (status() == 401).then_some(()));
    std::fs::write(&path, keys()).unwrap();
    until("the earlier keys are used again", || (status() == 200).then_some(()));
    std::fs::write(&path, "{\"keys\":").unwrap();
    until("the broken file is reported", || {
        assert_eq!(status(), 200, "the keys stay");
        gateway.error_log().contains("the earlier ones stay").then_some(())
    });
    std::fs::remove_file(&path).unwrap();
    until("the missing file is reported", || {
        assert_eq!(status(), 200, "the keys stay");
        gateway.error_log().contains("No such file").then_some(())
    });
}

#[test]
fn v05_unusable_key_file_from_a_variable_is_500() {
    let peer = upstream();
    let location = "location / { auth_jwt area; auth_jwt_key_file FOLDER/$arg_keys; proxy_pass http://{upstream:0}; }";
    let (gateway, folder) = guarded("", location, &peer);
    let good = bearer(&token("RS256"));
    assert_eq!(gateway.client().get("/?keys=keys.json", &good).status(), 200);
    std::fs::write(folder.path().join("text"), "text").unwrap();
    std::fs::write(folder.path().join("empty"), "{\"keys\":[]}").unwrap();
    std::fs::write(folder.path().join("large"), vec![b' '; 600_000]).unwrap();
    for name in ["none", "text", "empty", "large", ""] {
        assert_eq!(gateway.client().get(&format!("/?keys={name}"), &good).status(), 500, "{name}");
    }
    gateway.logged("cannot be used: it is not JSON");
}

/// The location of keys asks the upstream for what a field of the client says.
const ASKED: &str = "location / { auth_jwt area; auth_jwt_key_request /keys; CACHE proxy_set_header X-User $jwt_claim_sub; proxy_pass http://{upstream:0}/user; }
    location = /keys { internal; proxy_set_header Accept-Encoding \"\"; proxy_pass http://{upstream:0}/keys/$http_x_as; }";

/// Answers `/keys/…` as its name says, and everything else with the user.
fn key_server() -> Peer {
    Peer::script(|mut talk| {
        while let Some(request) = talk.request() {
            let keys = keys();
            let response = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let answer = match request.target() {
                "/keys/good" => response(&keys),
                "/keys/chunks" => format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{keys}\r\n0\r\n\r\n",
                    keys.len()
                ),
                "/keys/other" => response(&other_keys()),
                "/keys/text" => response("text"),
                "/keys/large" => response(&" ".repeat(2_000_000)),
                "/keys/missing" => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
                "/keys/moved" => "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n".to_owned(),
                "/keys/cut" => {
                    talk.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{keys}"));
                    return;
                }
                "/keys/gone" => return,
                _ => response(request.value("X-User").unwrap_or("nobody")),
            };
            talk.send(answer);
        }
    })
}

#[test]
fn v06_keys_by_a_subrequest_that_fails_are_500() {
    let peer = key_server();
    let (gateway, _folder) = guarded("", &ASKED.replace("CACHE", ""), &peer);
    let good = bearer(&token("RS256"));
    for name in ["good", "chunks"] {
        let mut client = gateway.client();
        let response = client.get("/", &format!("{good}X-As: {name}\r\n"));
        assert_eq!((response.status(), &*response.text()), (200, "reader"), "{name}");
    }
    assert_eq!(gateway.client().get("/", &format!("{good}X-As: other\r\n")).status(), 401);
    for name in ["text", "large", "missing", "moved", "cut", "gone"] {
        assert_eq!(gateway.client().get("/", &format!("{good}X-As: {name}\r\n")).status(), 500, "{name}");
    }
    gateway.logged("(auth_jwt_key_request) cannot be used: unexpected status 404");
    assert_eq!(gateway.client().get("/keys", "").status(), 404, "internal");
}

#[test]
fn v07_the_answer_of_a_subrequest_is_kept_for_its_time() {
    let peer = key_server();
    let (gateway, _folder) = guarded("", &ASKED.replace("CACHE", "auth_jwt_key_cache 1h;"), &peer);
    let good = bearer(&token("RS256"));
    let status = |name: &str| gateway.client().get("/", &format!("{good}X-As: {name}\r\n")).status();
    assert_eq!(status("missing"), 500, "a failure is not kept");
    assert_eq!([status("good"), status("good"), status("good")], [200; 3]);
    assert_eq!(status("missing"), 200, "the upstream is not asked");
    let asked = peer.requests().iter().filter(|(_, request)| request.target().starts_with("/keys/")).count();
    assert_eq!(asked, 2);
}

#[test]
fn v08_required_values_refuse_with_their_status() {
    let peer = upstream();
    let http = "auth_jwt_claim_set $city address city; auth_jwt_claim_set $zip address zip.code; auth_jwt_claim_set $roles roles;
        auth_jwt_claim_set $none address street; auth_jwt_header_set $key_id kid;
        map $jwt_claim_sub $is_reader { default 0; reader 1; } map $jwt_claim_sub $is_writer { default 0; writer 1; }";
    let begin = "auth_jwt area; auth_jwt_key_file KEYS; proxy_set_header X-User \"$city $zip $roles $none $key_id $jwt_header_alg $jwt_claim_n $jwt_claim_admin\";
        proxy_pass http://{upstream:0};";
    let location = format!(
        "location /yes/ {{ auth_jwt_require $is_reader $city; auth_jwt_require $jwt_claim_n error=403; {begin} }}
         location /no/ {{ auth_jwt_require $is_writer; {begin} }}
         location /never/ {{ auth_jwt_require $is_reader; auth_jwt_require $is_writer error=403; {begin} }}
         location /none/ {{ auth_jwt_require $none error=403; {begin} }}"
    );
    let (gateway, _folder) = guarded(http, &location, &peer);
    let good = bearer(&token("RS256"));
    let mut client = gateway.client();
    assert_eq!(client.get("/yes/", &good).text(), "Bern 3000 a,b  rsa RS256 7 true");
    let refused = client.get("/no/", &good);
    assert_eq!((refused.status(), challenge(&refused)), (401, Some("Bearer realm=\"area\",error=\"invalid_token\"")));
    for path in ["/never/", "/none/"] {
        let refused = client.get(path, &good);
        assert_eq!((refused.status(), challenge(&refused)), (403, None), "{path}");
    }
}

#[test]
fn v09_satisfy_combines_a_token_with_the_other_checks() {
    let peer = upstream();
    let location = "auth_jwt area; auth_jwt_key_file KEYS;
        location /any/ { satisfy any; deny all; proxy_pass http://{upstream:0}; }
        location /all/ { deny all; proxy_pass http://{upstream:0}; }
        location /open/ { satisfy any; allow all; proxy_pass http://{upstream:0}; }
        location /off/ { auth_jwt off; proxy_pass http://{upstream:0}; }
        location /except/ { limit_except GET { auth_jwt writers; auth_jwt_key_file KEYS; } auth_jwt off; proxy_pass http://{upstream:0}; }";
    let (gateway, _folder) = guarded("", location, &peer);
    let good = bearer(&token("RS256"));
    let mut client = gateway.client();
    let mut status = |target: &str, fields: &str| client.get(target, fields).status();
    assert_eq!((status("/any/", &good), status("/any/", "")), (200, 401));
    assert_eq!((status("/all/", &good), status("/all/", "")), (403, 403));
    assert_eq!((status("/open/", ""), status("/off/", "")), (200, 200));
    assert_eq!(status("/except/", ""), 200);
}

#[test]
fn v10_a_token_may_come_in_a_cookie_or_an_argument() {
    let peer = upstream();
    let location = "location /cookie/ { auth_jwt area token=$cookie_t; auth_jwt_key_file KEYS; proxy_pass http://{upstream:0}; }
        location /arg/ { auth_jwt \"area $arg_where\" token=$arg_t; auth_jwt_key_file KEYS; proxy_pass http://{upstream:0}; }";
    let (gateway, _folder) = guarded("", location, &peer);
    let good = token("ES256");
    let mut client = gateway.client();
    assert_eq!(client.get("/cookie/", &format!("Cookie: a=b; t={good}\r\n")).status(), 200);
    assert_eq!(client.get("/cookie/", &bearer(&good)).status(), 401, "only there");
    assert_eq!(client.get(&format!("/arg/?t={good}"), "").status(), 200);
    let refused = client.get("/arg/?t=x&where=here", "");
    assert_eq!(challenge(&refused), Some("Bearer realm=\"area here\",error=\"invalid_token\""));
    let refused = client.get("/arg/?where=a%0d%0ab:c", "");
    assert_eq!((refused.status(), challenge(&refused)), (401, Some("Bearer realm=\"area a%0d%0ab:c\"")));
}

#[test]
fn a_subrequest_has_the_claims_of_its_request() {
    let peer = upstream();
    let location = "location / { auth_jwt area; auth_jwt_key_file KEYS; auth_request /ask; auth_request_set $user $upstream_http_x_seen;
            add_header X-Seen $user; proxy_pass http://{upstream:0}; }
        location = /ask { internal; proxy_set_header X-User $jwt_claim_sub; proxy_pass http://{upstream:0}; }";
    let (gateway, _folder) = guarded("", location, &peer);
    assert_eq!(gateway.client().get("/", &bearer(&token("EdDSA"))).status(), 200);
    let asked = peer.requests();
    assert_eq!(asked[0].1.value("X-User"), Some("reader"));
}

/// Encrypted tokens and their keys.
fn encrypted() -> Value {
    serde_json::from_str(include_str!("../../../../jwt/tests/vectors/jwcrypto.json")).unwrap()
}

const ENCRYPTED: &str = "auth_jwt area; auth_jwt_key_file FOLDER/encrypted.json; proxy_set_header X-User \"$jwt_claim_sub $jwt_header_alg\";
    location / { auth_jwt_type encrypted; proxy_pass http://{upstream:0}; }
    location /nested { auth_jwt_type nested; proxy_pass http://{upstream:0}; }
    location /signed { proxy_pass http://{upstream:0}; }";

/// A gateway for encrypted tokens.
fn guarded_by_encryption(peer: &Peer) -> (Gateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    write_old(&folder.path().join("encrypted.json"), &json!({ "keys": encrypted()["keys"] }).to_string());
    let text = format!("error_log stderr info; events {{}} http {{ server {{ listen {{listen}}; {ENCRYPTED} }} }}")
        .replace("FOLDER", &folder.path().display().to_string());
    (Gateway::start(&text, &[peer.address()]), folder)
}

#[test]
fn encrypted_and_nested_tokens_are_let_in() {
    let peer = upstream();
    let (gateway, _folder) = guarded_by_encryption(&peer);
    let mut client = gateway.client();
    let encrypted = encrypted();
    for (name, token) in encrypted["good"].as_object().unwrap() {
        let response = client.get("/", &bearer(token.as_str().unwrap()));
        assert_eq!(response.status(), 200, "{name}");
        assert!(response.text().starts_with("reader "), "{name}: {}", response.text());
    }
    for (name, token) in encrypted["nested"]["good"].as_object().unwrap() {
        let response = client.get("/nested", &bearer(token.as_str().unwrap()));
        assert_eq!((response.status(), &*response.text()), (200, "reader ES256"), "{name}");
    }
}

#[test]
fn v11_a_bad_encrypted_token_is_refused_and_not_passed_on() {
    let peer = upstream();
    let (gateway, _folder) = guarded_by_encryption(&peer);
    let mut client = gateway.client();
    let encrypted = encrypted();
    let one = encrypted["good"]["dir A256GCM"].as_str().unwrap();
    let rows = encrypted["bad"].as_object().unwrap().iter().map(|row| ("/", row));
    let nested = encrypted["nested"]["bad"].as_object().unwrap().iter().map(|row| ("/nested", row));
    for (path, (name, row)) in rows.chain(nested) {
        let token = row[0].as_str().unwrap();
        let response = client.get(path, &bearer(token));
        let expected =
            if token.is_empty() { "Bearer realm=\"area\"" } else { "Bearer realm=\"area\",error=\"invalid_token\"" };
        assert_eq!((response.status(), challenge(&response)), (401, Some(expected)), "{name}");
    }
    assert_eq!(client.get("/signed", &bearer(one)).status(), 401, "a signed one is expected");
    assert_eq!(peer.requests().len(), 0);
    gateway.logged("auth_jwt: the token cannot be decrypted");
}
