//! Vendors that take no plain key, before local servers: tokens that are fetched and renewed,
//! requests that are signed.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::net::SocketAddr;
use std::time::Duration;

use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use whippletree::boot::Whippletree;
use whippletree::config::load::{Source, load};
use whippletree_loadtest::client::{Answer, Call};
use whippletree_loadtest::vendor::{Reply, Request, Script, Vendor};
use whippletree_policies::time::UnixTime;
use whippletree_providers::bedrock::sign;

/// A generous bound on whatever is waited for.
const SOON: Duration = Duration::from_secs(20);

struct World {
    gateway: Whippletree,
    vendor: Vendor,
    _directory: tempfile::TempDir,
}

impl World {
    /// `keys` is what stands in the provider's table behind its address; `files` lie beside it.
    async fn new(
        kind: &str,
        path: &str,
        keys: &str,
        files: &[(&str, &str)],
        replies: Vec<Reply>,
    ) -> Self {
        let vendor = Vendor::start(Script::replies(replies)).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        let file = directory.path().join("whippletree.toml");
        let config = format!(
            "allow_literal_secrets = true\n[server]\nlisten = \"127.0.0.1:0\"\nworkers = 2\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[store]\npath = \":memory:\"\n\
             [prices]\nunknown_model = {{ input = \"1\", output = \"2\" }}\n\
             [providers.v]\nkind = \"{kind}\"\nbase_url = \"http://{}{path}\"\nkeys = [{keys}]\n\
             [routes.m]\ntargets = [\"v/some/model:1\"]\nretry = {{ base = \"1ms\", cap = \"5ms\" }}\n",
            vendor.addr()
        );
        std::fs::write(&file, config).unwrap();
        let loaded = load(&Source::choose(Some(file))).unwrap();
        Self {
            gateway: Whippletree::start(loaded).unwrap(),
            vendor,
            _directory: directory,
        }
    }

    async fn ask(&self) -> Answer {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "héllo"}]});
        let call = Call::post("/v1/chat/completions", body.to_string());
        let call = call.header("authorization", "Bearer the-clients-own");
        call.send(self.gateway.data_address()).await
    }

    /// What each request to the vendor carried, in order.
    fn shown(&self) -> Vec<String> {
        let requests = self.vendor.requests();
        let header = |request: &Request| request.header("authorization").unwrap_or("-").to_owned();
        requests.iter().map(header).collect()
    }
}

fn says(text: &str) -> Reply {
    Reply::json(
        200,
        json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }),
    )
}

fn grants(token: &str, seconds: u64) -> Reply {
    Reply::json(
        200,
        json!({"access_token": token, "token_type": "Bearer", "expires_in": seconds}),
    )
}

async fn token_server(replies: Vec<Reply>) -> Vendor {
    Vendor::start(Script::replies(replies)).await.unwrap()
}

fn entra(server: SocketAddr) -> String {
    format!(
        "{{ entra = {{ tenant = \"team.example\", client_id = \"app-1\", \
         client_secret = \"s3cret&more\", authority = \"http://{server}\" }} }}"
    )
}

async fn azure(server: &Vendor, replies: Vec<Reply>) -> World {
    World::new("azure", "/openai/v1", &entra(server.addr()), &[], replies).await
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = tokio::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < SOON, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn field(body: &[u8], name: &str) -> String {
    let body = std::str::from_utf8(body).unwrap();
    let fields = body.split('&').filter_map(|field| field.split_once('='));
    let mut found = fields
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| value);
    found.next().unwrap().to_owned()
}

#[tokio::test]
async fn one_token_of_entra_serves_all_requests() {
    let server = token_server(vec![grants("t-1", 3600), grants("t-2", 3600)]).await;
    let world = azure(&server, vec![says("hi")]).await;
    for _ in 0..8 {
        let answer = world.ask().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(world.shown(), ["Bearer t-1"; 8]);
    assert!(
        world
            .vendor
            .requests()
            .iter()
            .all(|r| r.header("api-key").is_none())
    );
    let asked = server.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].target, "/team.example/oauth2/v2.0/token");
    assert_eq!(
        String::from_utf8_lossy(&asked[0].body),
        "grant_type=client_credentials&client_id=app-1&client_secret=s3cret%26more\
         &scope=https%3A%2F%2Fcognitiveservices.azure.com%2F.default"
    );
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends_without_a_request() {
    let replies = vec![grants("t-1", 2), grants("t-2", 2), grants("t-3", 3600)];
    let server = token_server(replies).await;
    let world = azure(&server, vec![says("hi")]).await;
    until("the third token is asked for", || {
        server.request_count() == 3
    })
    .await;
    until("it has come", || server.requests()[2].answered.is_some()).await;
    assert_eq!(world.ask().await.status, 200);
    assert_ne!(world.shown(), ["Bearer t-1"]);
}

#[tokio::test]
async fn a_token_that_the_vendor_refuses_is_not_used_again() {
    let server = token_server(vec![grants("stale", 3600), grants("fresh", 3600)]).await;
    let no = json!({"error": {"message": "token revoked", "code": "401"}});
    let world = azure(&server, vec![Reply::json(401, no), says("hi")]).await;
    assert_eq!(world.ask().await.status, 502);
    until("another token is asked for", || server.request_count() == 2).await;
    assert_eq!(world.shown(), ["Bearer stale"]);
}

#[tokio::test]
async fn without_a_token_nothing_is_sent_to_the_vendor() {
    let denied = json!({"error": "invalid_client", "error_description": "wrong s3cret&more"});
    let server = token_server(vec![Reply::json(401, denied)]).await;
    let world = azure(&server, vec![says("hi")]).await;
    let answer = world.ask().await;
    assert_eq!(answer.status, 502, "{}", answer.text());
    assert_eq!(
        answer.json()["error"]["whippletree"]["class"],
        "vendor_auth"
    );
    assert!(!answer.text().contains("s3cret"));
    assert_eq!(world.vendor.request_count(), 0);
}

#[tokio::test]
async fn a_failing_token_endpoint_is_tried_again() {
    let server = token_server(vec![
        Reply::json(503, json!({})),
        Reply::json(503, json!({})),
        grants("t", 3600),
    ])
    .await;
    let world = azure(&server, vec![says("hi")]).await;
    until("a token has come", || server.request_count() == 3).await;
    until("it is used", || server.requests()[2].answered.is_some()).await;
    let began = tokio::time::Instant::now();
    while world.ask().await.status != 200 {
        assert!(began.elapsed() < SOON, "no request succeeds");
    }
    assert_eq!(world.shown(), ["Bearer t"]);
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn a_service_account_signs_for_its_token() {
    let server = token_server(vec![grants("ya29.t", 3600)]).await;
    let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let der = key.as_der().unwrap();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let token_uri = format!("http://{}/token", server.addr());
    let account = json!({
        "type": "service_account", "client_email": "agent@team.iam.example", "private_key": pem,
        "private_key_id": "k-1", "token_uri": token_uri,
    });
    let keys = "{ google = { service_account = { file = \"account.json\" } } }";
    let path = "/v1/projects/p/locations/eu/endpoints/openapi";
    let files = [("account.json", account.to_string())];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let world = World::new("vertex-openai", path, keys, &files, vec![says("hi")]).await;
    assert_eq!(world.ask().await.status, 200);
    assert_eq!(world.shown(), ["Bearer ya29.t"]);
    assert_eq!(
        world.vendor.requests()[0].target,
        "/v1/projects/p/locations/eu/endpoints/openapi/chat/completions"
    );

    let asked = &server.requests()[0];
    assert_eq!(
        field(&asked.body, "grant_type"),
        "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
    );
    let statement = field(&asked.body, "assertion");
    let (signed, signature) = statement.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    assert_eq!(
        decoded(header),
        json!({"alg": "RS256", "typ": "JWT", "kid": "k-1"})
    );
    let claims = decoded(claims);
    assert_eq!(claims["iss"], "agent@team.iam.example");
    assert_eq!(claims["aud"], token_uri.as_str());
    assert_eq!(
        claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(),
        3600
    );
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    public.verify(signed.as_bytes(), &signature).unwrap();
}

/// The time that `x-amz-date` names.
fn time_of(date: &str) -> UnixTime {
    let date = date.replace('Z', "+0000");
    let time = jiff::Timestamp::strptime("%Y%m%dT%H%M%S%z", date).unwrap();
    UnixTime(time.as_millisecond())
}

#[tokio::test]
async fn a_request_to_aws_is_signed_as_it_is_sent() {
    let keys = "{ aws = { region = \"eu-west-3\", access_key_id = \"AKIDEXAMPLE\", \
                secret_access_key = \"wJalrXUtnFEMI\", session_token = \"tok/en==\" } }";
    let world = World::new("bedrock-openai", "/openai/v1", keys, &[], vec![says("hi")]).await;
    assert_eq!(world.ask().await.status, 200);
    let sent = &world.vendor.requests()[0];
    let header = |name: &str| sent.header(name).unwrap();
    let headers = [
        ("host", header("host")),
        ("x-amz-date", header("x-amz-date")),
        ("x-amz-security-token", "tok/en=="),
    ];
    let signer = sign::Signer {
        access_key_id: "AKIDEXAMPLE",
        secret_access_key: "wJalrXUtnFEMI",
        region: "eu-west-3",
        service: "bedrock",
    };
    let request = sign::Request {
        method: "POST",
        path: sent.path(),
        query: "",
        headers: &headers,
        payload: Sha256::digest(&sent.body).into(),
    };
    let expected = sign::authorization(signer, &request, time_of(header("x-amz-date")));
    assert_eq!(world.shown(), [expected]);
    assert_eq!(header("x-amz-security-token"), "tok/en==");
}

#[tokio::test]
async fn a_bearer_key_of_bedrock_is_sent_as_it_is() {
    let world = World::new(
        "bedrock-openai",
        "/openai/v1",
        "\"bedrock-api-key-1\"",
        &[],
        vec![says("hi")],
    )
    .await;
    assert_eq!(world.ask().await.status, 200);
    assert_eq!(world.shown(), ["Bearer bedrock-api-key-1"]);
}

fn faults(kind: &str, keys: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("w.toml");
    let text = format!(
        "allow_literal_secrets = true\n[providers.v]\nkind = \"{kind}\"\n\
         base_url = \"https://vendor.example/v1\"\nkeys = [{keys}]\n"
    );
    std::fs::write(
        directory.path().join("bad.json"),
        "{\"client_email\": \"hunter2\"}",
    )
    .unwrap();
    std::fs::write(&file, text).unwrap();
    match load(&Source::choose(Some(file))) {
        Ok(loaded) => format!("{:?}", loaded.config),
        Err(error) => error.to_string(),
    }
}

#[test]
fn mistakes_are_told_before_the_first_request() {
    let entra = "{ entra = { tenant = \"t\", client_id = \"c\", client_secret = \"hunter2\" } }";
    let wrong_kind = faults("openai", entra);
    assert!(
        wrong_kind.contains("no credential for the kind"),
        "{wrong_kind}"
    );
    let plain = entra.replace(
        "\"hunter2\"",
        "\"hunter2\", authority = \"http://login.example\"",
    );
    let plain = faults("azure", &plain);
    assert!(plain.contains("names no safe address"), "{plain}");
    let bad = faults(
        "vertex-openai",
        "{ google = { service_account = { file = \"bad.json\" } } }",
    );
    assert!(bad.contains("it has no private_key"), "{bad}");
    let two = faults("azure", "{ env = \"A\", file = \"b\" }");
    assert!(two.contains("exactly one of"), "{two}");
    assert!(
        [wrong_kind, plain, bad, two]
            .iter()
            .all(|said| !said.contains("hunter2"))
    );
}

#[test]
fn a_configuration_prints_without_secrets() {
    let entra = "{ entra = { tenant = \"t\", client_id = \"c\", client_secret = \"hunter2\" } }";
    let shown = faults("azure", entra);
    assert!(
        shown.contains("login.microsoftonline.com") && !shown.contains("hunter2"),
        "{shown}"
    );
    let aws =
        "{ aws = { region = \"r\", access_key_id = \"AKID\", secret_access_key = \"hunter2\" } }";
    let shown = faults("bedrock-openai", aws);
    assert!(
        shown.contains("AKID") && !shown.contains("hunter2"),
        "{shown}"
    );
}
