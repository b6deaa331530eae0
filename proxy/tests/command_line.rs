//! The program as a user runs it: what it prints, and how it ends.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program in a directory with no other environment than what is named.
fn run(directory: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_whippletree"))
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran {
        code: status.code().unwrap(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

fn directory(config: Option<&str>) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    if let Some(text) = config {
        std::fs::write(directory.path().join("whippletree.toml"), text).unwrap();
    }
    directory
}

#[test]
fn check_names_each_fault_with_file_line_and_column() {
    let here = directory(Some(
        "[providers.openai]\nkind = \"opnai\"\n[server]\nlisen = \"127.0.0.1:1\"\n",
    ));
    let ran = run(here.path(), &[], &["check"]);
    assert_eq!(ran.code, 2);
    insta::assert_snapshot!(ran.err, @r#"
    error: `providers.openai.kind` cannot be "opnai"
     --> whippletree.toml:2:8
      |
    2 | kind = "opnai"
      |        ^^^^^^^ expected one of "anthropic", "azure", "bedrock-openai", "cerebras", "deepseek", "fireworks", "gemini-openai", "groq", "huggingface", "llama.cpp", "mistral", "moonshot", "ollama", "openai", "openai-compatible", "openrouter", "perplexity", "qwen", "sglang", "together", "vertex-openai", "vllm", "xai", "zhipu"
      |
      = help: did you mean "openai"?

    error: unknown key `lisen` in `server`
     --> whippletree.toml:4:1
      |
    4 | lisen = "***********"
      | ^^^^^ expected one of body_timeout, drain_timeout, header_timeout, idle_timeout, listen, max_body, max_connections, max_head, max_headers, max_inflight_bytes, tls, workers
      |
      = help: did you mean `listen`?

    whippletree.toml: 2 errors
    "#);
    assert_eq!(ran.out, "");
}

#[test]
fn check_prints_faults_as_json() {
    let here = directory(Some("[server]\nlisen = \"127.0.0.1:1\"\n"));
    let ran = run(here.path(), &[], &["check", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (2, ""));
    let checked: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(checked["ok"], false);
    let fault = &checked["faults"][0];
    assert_eq!(fault["file"], "whippletree.toml");
    assert_eq!((&fault["line"], &fault["column"]), (&2.into(), &1.into()));
    assert_eq!(fault["path"], "server.lisen");
    assert_eq!(fault["help"], "did you mean `listen`?");
}

#[test]
fn check_accepts_what_the_gateway_would_start_with() {
    let here = directory(Some(
        "[providers.openai]\nkind = \"openai\"\nkeys = [{ env = \"KEY\" }]\n",
    ));
    let ran = run(here.path(), &[("KEY", "sk-secret")], &["check"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(
        ran.out,
        "whippletree.toml: ok, 1 provider, 0 routes, 0 tenants, 0 keys\n"
    );
    for arguments in [
        &["check", "whippletree.toml"][..],
        &["check", "--config", "whippletree.toml"],
    ] {
        assert_eq!(
            run(here.path(), &[("KEY", "sk-secret")], arguments).out,
            ran.out
        );
    }
}

#[test]
fn check_reads_the_environment_where_there_is_no_file() {
    let here = directory(None);
    let ran = run(here.path(), &[("OPENAI_API_KEY", "sk-x")], &["check"]);
    assert_eq!(
        ran.out,
        "environment: ok, 1 provider, 0 routes, 0 tenants, 0 keys\n"
    );
    let ran = run(here.path(), &[], &["check"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("OPENAI_API_KEY"), "{}", ran.err);
}

#[test]
fn the_schema_is_one() {
    let here = directory(None);
    let ran = run(here.path(), &[], &["check", "--schema"]);
    assert_eq!(ran.code, 0);
    let schema: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    assert!(schema["properties"]["providers"].is_object());
}

#[test]
fn wrong_usage_ends_with_two() {
    let here = directory(None);
    for arguments in [
        &["chekc"][..],
        &[],
        &["check", "--jsn"],
        &["keys", "new", "acme"],
    ] {
        assert_eq!(run(here.path(), &[], arguments).code, 2, "{arguments:?}");
    }
    assert_eq!(run(here.path(), &[], &["--help"]).code, 0);
    assert_eq!(
        run(here.path(), &[], &["check", "--config", "no.toml"]).code,
        2
    );
}

#[test]
fn a_new_key_is_known_once_its_line_is_in_the_file() {
    let here = directory(None);
    let ran = run(here.path(), &[], &["keys", "new", "acme", "ci", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let (key, sha256) = (
        made["key"].as_str().unwrap(),
        made["sha256"].as_str().unwrap(),
    );
    let line = format!("[tenants.acme]\nkeys = [{{ name = \"ci\", sha256 = \"{sha256}\" }}]\n");
    std::fs::write(here.path().join("whippletree.toml"), line).unwrap();
    let ran = run(here.path(), &[], &["keys", "check", key]);
    assert_eq!(ran.code, 0);
    let last = &key[key.len() - 4..];
    assert_eq!(
        ran.out,
        format!("sk-wt-…{last}: key `ci` of tenant `acme`\n")
    );

    let mut mistyped = key.to_owned();
    mistyped.pop();
    let ran = run(here.path(), &[], &["keys", "check", &mistyped]);
    assert_eq!(ran.code, 1);
    assert!(!ran.out.contains(&mistyped), "{}", ran.out);
}

#[test]
fn a_new_key_is_printed_with_the_line_that_makes_it_known() {
    let here = directory(None);
    let ran = run(here.path(), &[], &["keys", "new", "acme corp", "ci"]);
    let key = ran.out.lines().next().unwrap().to_owned();
    assert!(key.starts_with("sk-wt-"));
    let hash = ran.out.split("sha256 = \"").nth(1).unwrap()[..64].to_owned();
    let out = ran.out.replace(&key, "KEY").replace(&hash, "HASH");
    insta::assert_snapshot!(out, @r#"
    KEY

    This is the key. It is shown once and stored nowhere. To make it known, add to `keys`
    of [tenants."acme corp"] in whippletree.toml:

      { name = "ci", sha256 = "HASH" },
    "#);
}

/// Answers one request of the admin plane and returns it.
fn admin_plane(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = String::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).unwrap();
        }
        stream.write_all(answer.as_bytes()).unwrap();
        head
    });
    (url, asked)
}

#[test]
fn usage_is_a_table_of_what_the_gateway_in_operation_says() {
    let here = directory(None);
    let answer =
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ntenant,requests,cost_usd\r\nacme,12,1.5\r\n";
    let (url, asked) = admin_plane(answer);
    let ran = run(
        here.path(),
        &[("WHIPPLETREE_ADMIN_TOKEN", "a-token-of-16-bytes")],
        &[
            "usage", "--by", "tenant", "--only", "user=a b", "--admin", &url,
        ],
    );
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert_eq!(
        ran.out,
        "tenant  requests  cost_usd\nacme          12       1.5\n"
    );
    let head = asked.join().unwrap().to_ascii_lowercase();
    let path = "get /admin/v1/usage?group_by=tenant&user=a%20b&format=csv http/1.1\r\n";
    assert!(head.starts_with(path), "{head}");
    assert!(
        head.contains("authorization: bearer a-token-of-16-bytes\r\n"),
        "{head}"
    );
}

#[test]
fn a_refusal_of_the_admin_plane_ends_with_one_and_says_why() {
    let here = directory(None);
    let answer = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 36\r\n\r\n{\"detail\":\"expected a bearer token\"}";
    let (url, asked) = admin_plane(answer);
    let ran = run(here.path(), &[], &["usage", "--admin", &url]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.err,
        "error: the admin plane refused (401 Unauthorized): expected a bearer token\n"
    );
    asked.join().unwrap();
    let ran = run(
        here.path(),
        &[],
        &["usage", "--admin", "http://127.0.0.1:1"],
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("cannot ask the admin plane at http://127.0.0.1:1"),
        "{}",
        ran.err
    );
}

#[test]
fn prices_are_listed_and_checked_against_a_catalogue() {
    let here = directory(None);
    let ran = run(
        here.path(),
        &[],
        &["prices", "list", "openai/gpt-4o", "--json"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(rows[0]["price"]["input"].is_string(), "{rows}");
    let ran = run(here.path(), &[], &["prices", "list", "nobody/nothing"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));

    // In the form of LiteLLM's catalogue, with a price of our own making.
    let catalogue = r#"{"gpt-4o": {"litellm_provider": "openai", "mode": "chat",
        "input_cost_per_token": 1e-3, "output_cost_per_token": 1e-3}}"#;
    std::fs::write(here.path().join("catalogue.json"), catalogue).unwrap();
    let ran = run(here.path(), &[], &["prices", "check", "catalogue.json"]);
    assert_eq!(ran.code, 1);
    let difference = "openai/gpt-4o: input: 2.5 or 1000 dollars a million tokens\n";
    assert!(ran.out.starts_with(difference), "{}", ran.out);
    std::fs::write(here.path().join("catalogue.json"), "[1]").unwrap();
    let ran = run(here.path(), &[], &["prices", "check", "catalogue.json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("catalogue.json is neither"), "{}", ran.err);
}
