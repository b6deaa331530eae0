//! `whippletree lint` as a user runs it.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn lint(here: &Path, arguments: &[&str]) -> Ran {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_whippletree"))
        .arg("lint")
        .args(arguments)
        .current_dir(here)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran {
        code: status.code().unwrap(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

fn here(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn shared() -> PathBuf {
    std::env::var_os("WHIPPLETREE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
        PathBuf::from,
    )
}

fn said(arguments: &[&str], here: &Path) -> Value {
    let ran = lint(here, arguments);
    serde_json::from_str(&ran.out).unwrap()
}

/// A trace of two calls whose tools changed places.
const MOVED: &str = concat!(
    r#"{"model":"gpt-5","tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"list"}}],"messages":[{"role":"user","content":"hi"}]}"#,
    "\n",
    r#"{"model":"gpt-5","tools":[{"type":"function","function":{"name":"list"}},{"type":"function","function":{"name":"read"}}],"messages":[{"role":"user","content":"hi"}]}"#,
    "\n"
);

#[test]
fn a_moved_tool_is_shown_as_a_compiler_would_and_ends_with_1() {
    let here = here(&[("trace.jsonl", MOVED)]);
    let ran = lint(here.path(), &["trace.jsonl"]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(ran.out, @r#"
    warning[PS020]: the same tools come in another order
     --> trace.jsonl:2: call 2, tools[0]
      |
    2 | {"type":"function","function":{"name":"list"}}
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ call 2: one tool moved; `list` stands first of those out of place
      |
      = help: sort the tools by name, or keep the order in which they were first sent; see `whippletree lint --explain PS020`

    1 warning in 2 requests, 1 conversation; 0 % of 60 tokens should come from the cache
    "#);
    assert_eq!(ran.err, "");
}

#[test]
fn stable_requests_end_with_0_and_wrong_files_with_2() {
    let one = MOVED.lines().next().unwrap();
    let here = here(&[
        ("stable.jsonl", &format!("{one}\n{one}\n")),
        ("broken.jsonl", "{\"model\":\n"),
        ("other.json", "{\"name\": \"x\"}"),
    ]);
    let ran = lint(here.path(), &["stable.jsonl"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(
        ran.out.starts_with("no findings in 2 requests"),
        "{}",
        ran.out
    );
    for (file, told) in [
        ("broken.jsonl", "broken.jsonl:1"),
        ("other.json", "expected a request body"),
        ("none.json", "read none.json"),
    ] {
        let ran = lint(here.path(), &[file]);
        assert_eq!(ran.code, 2, "{file}");
        assert!(ran.err.contains(told), "{file}: {}", ran.err);
    }
    assert_eq!(lint(here.path(), &[]).code, 2);
    assert_eq!(lint(here.path(), &["--explain", "PS999"]).code, 2);
}

#[test]
fn fix_sorts_tools_in_place_or_into_a_folder_and_leaves_the_rest() {
    let around = format!(
        "{{\"note\": 1.50, \"request\": {}}}\n{{\"note\": 2, \"request\": {}}}\n",
        MOVED.lines().next().unwrap(),
        MOVED.lines().nth(1).unwrap()
    );
    let here = here(&[("trace.jsonl", &around)]);
    let ran = lint(here.path(), &["--fix", "--into", "mended", "trace.jsonl"]);
    assert_eq!(ran.code, 1);
    let read = |name: &str| std::fs::read_to_string(here.path().join(name)).unwrap();
    assert_eq!(read("trace.jsonl"), around);
    let mended = read("mended/trace.jsonl");
    assert!(mended.starts_with("{\"note\": 1.50, \"request\": "));
    let bodies: Vec<Value> = mended
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(bodies[0]["request"], bodies[1]["request"]);
    assert_eq!(lint(here.path(), &["mended/trace.jsonl"]).code, 0);
    assert_eq!(lint(here.path(), &["--fix", "trace.jsonl"]).code, 1);
    assert_eq!(read("trace.jsonl"), mended);
}

#[test]
fn an_allowed_finding_needs_a_reason_and_does_not_fail() {
    let here = here(&[
        ("trace.jsonl", MOVED),
        (
            "whippletree-lint.toml",
            "[[allow]]\nrule = \"unsorted-tools\"\nreason = \"the server is being replaced\"\n",
        ),
        (
            "bare.toml",
            "[[allow]]\nrule = \"unsorted-tools\"\nreason = \" \"\n",
        ),
        (
            "wrong.toml",
            "[[allow]]\nrule = \"unsorted-tool\"\nreason = \"x\"\n",
        ),
        (
            "elsewhere.toml",
            "[[allow]]\nrule = \"PS020\"\nfile = \"other\"\nreason = \"x\"\n",
        ),
    ]);
    assert_eq!(lint(here.path(), &["trace.jsonl"]).code, 0);
    let told = said(&["trace.jsonl", "--json"], here.path());
    assert_eq!(
        told["findings"][0]["cause"]["allowed"],
        "the server is being replaced"
    );
    let ran = lint(here.path(), &["--allow", "bare.toml", "trace.jsonl"]);
    assert!(
        ran.code == 2 && ran.err.contains("needs a reason"),
        "{}",
        ran.err
    );
    let ran = lint(here.path(), &["--allow", "wrong.toml", "trace.jsonl"]);
    assert!(
        ran.code == 2 && ran.err.contains("no rule is called"),
        "{}",
        ran.err
    );
    assert_eq!(
        lint(here.path(), &["--allow", "elsewhere.toml", "trace.jsonl"]).code,
        1
    );
}

#[test]
fn a_baseline_lets_old_findings_pass_and_new_ones_fail() {
    let here = here(&[("trace.jsonl", MOVED)]);
    assert_eq!(
        lint(
            here.path(),
            &["--write-baseline", "known.json", "trace.jsonl"]
        )
        .code,
        0
    );
    let ran = lint(here.path(), &["--baseline", "known.json", "trace.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.out);
    let (first, second) = MOVED.split_once('\n').unwrap();
    let second = second.replace("\"name\":\"list\"}", "\"name\":\"list\",\"strict\":true}");
    let worse = format!("{first}\n{second}");
    std::fs::write(here.path().join("trace.jsonl"), worse).unwrap();
    let ran = lint(here.path(), &["--baseline", "known.json", "trace.jsonl"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
}

#[test]
fn against_tells_whether_a_change_broke_the_prefix() {
    let before = r#"{"model":"gpt-5","messages":[{"role":"system","content":"You are a careful assistant who reads before it writes."},{"role":"user","content":"hi"}]}"#;
    let after = before.replace("careful", "very careful");
    let longer = before.replace(
        "]}",
        r#",{"role":"assistant","content":"Hello."},{"role":"user","content":"Go on."}]}"#,
    );
    let here = here(&[
        ("before.json", before),
        ("after.json", &after),
        ("longer.json", &longer),
    ]);
    let ran = lint(here.path(), &["--against", "before.json", "after.json"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.contains("messages[0].content, byte 10"),
        "{}",
        ran.out
    );
    assert_eq!(
        lint(here.path(), &["--against", "before.json", "before.json"]).code,
        0
    );
    assert_eq!(
        lint(here.path(), &["--against", "before.json", "longer.json"]).code,
        0
    );
}

#[test]
fn sarif_names_rules_places_and_fingerprints() {
    let here = here(&[("trace.jsonl", MOVED)]);
    let log = said(&["--format", "sarif", "trace.jsonl"], here.path());
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert!(run["tool"]["driver"]["rules"].as_array().unwrap().len() >= 30);
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "PS020");
    assert_eq!(result["level"], "warning");
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "trace.jsonl");
    assert_eq!(place["region"]["startLine"], 2);
    let offset = usize::try_from(place["region"]["byteOffset"].as_u64().unwrap()).unwrap();
    assert!(MOVED[offset..].starts_with(r#"{"type":"function","function":{"name":"list"}}"#));
    assert_eq!(
        result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"],
        "tools[0]"
    );
    assert!(result["partialFingerprints"]["cause/v1"].is_string());
}

#[test]
fn session_logs_of_harnesses_are_read() {
    let claude_code = concat!(
        r#"{"type":"user","sessionId":"s","timestamp":"2026-11-30T10:00:00Z","message":{"role":"user","content":"hi"}}"#,
        "\n",
        r#"{"type":"assistant","sessionId":"s","timestamp":"2026-11-30T10:00:05Z","message":{"role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"Hello."}]}}"#,
        "\n",
        r#"{"type":"user","sessionId":"s","timestamp":"2026-11-30T10:00:09Z","message":{"role":"user","content":"go on"}}"#,
        "\n",
        r#"{"type":"assistant","sessionId":"s","timestamp":"2026-11-30T10:00:12Z","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}"#,
        "\n",
    );
    let codex = concat!(
        r#"{"type":"session_meta","payload":{"id":"x"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{}","call_id":"c"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"ok"}}"#,
        "\n",
        r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}}"#,
        "\n",
    );
    let pi = concat!(
        r#"{"type":"session","id":"p","timestamp":"2026-11-30T10:00:00Z","cwd":"/work"}"#,
        "\n",
        r#"{"type":"message","timestamp":"2026-11-30T10:00:01Z","message":{"role":"user","content":[{"type":"text","text":"hi"}]}}"#,
        "\n",
        r#"{"type":"message","timestamp":"2026-11-30T10:00:03Z","message":{"role":"assistant","content":[{"type":"text","text":"Hello."}]}}"#,
        "\n",
    );
    let swe_agent = r#"{"environment":"x","trajectory":[],"history":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"},{"role":"user","content":"o"},{"role":"assistant","content":"b"}]}"#;
    let tau = r#"[{"task_id":1,"traj":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"}]}]"#;
    let mini = r#"{"trajectory_format":"mini-swe-agent-1","info":{},"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"}]}"#;
    for (name, text, requests) in [
        ("claude.jsonl", claude_code, 2),
        ("codex.jsonl", codex, 2),
        ("pi.jsonl", pi, 1),
        ("run.traj", swe_agent, 2),
        ("tau.json", tau, 1),
        ("mini.traj.json", mini, 1),
    ] {
        let here = here(&[(name, text)]);
        let told = said(&[name, "--json"], here.path());
        assert_eq!(told["requests"], requests, "{name}: {told}");
    }
}

#[test]
fn rules_are_listed_and_explained() {
    let here = here(&[]);
    let ran = lint(here.path(), &["--rules"]);
    assert!(ran.code == 0 && ran.out.contains("PS001") && ran.out.contains("volatile-timestamp"));
    let ran = lint(here.path(), &["--explain", "volatile-timestamp"]);
    assert!(ran.code == 0 && ran.out.contains("## Why it costs"));
}

/// The reported faults that a linter must name; see `cases.jsonl` for the threads.
#[test]
fn reported_faults_of_the_prefix_are_named() {
    let text = std::fs::read_to_string(shared().join("cases/cases.jsonl")).unwrap();
    let words: Vec<String> = (0..1200).map(|n| format!("word{n}")).collect();
    let fill = |text: String| text.replace("{{stable filler, 2000 tokens}}", &words.join(" "));
    let case = |id: &str| -> Value {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{{\"id\": \"{id}\"")))
            .unwrap();
        serde_json::from_str(line).unwrap()
    };
    let sequence = |id: &str| -> String {
        let case = case(id);
        let bodies = case["input"]["client"]["sequence_bodies"]
            .as_array()
            .unwrap();
        let lines: Vec<String> = bodies.iter().map(Value::to_string).collect();
        fill(lines.join("\n"))
    };
    let judged = |trace: String| {
        let here = here(&[("trace.jsonl", &trace)]);
        said(&["trace.jsonl", "--json"], here.path())
    };
    let told = judged(sequence("C135"));
    let cause = &told["findings"][0]["cause"];
    assert_eq!(cause["finding"]["rule"], "PS001");
    assert_eq!(cause["finding"]["spot"]["path"], "messages[0].content");
    assert_eq!(cause["finding"]["spot"]["offset"], 33);

    let told = judged(sequence("C138"));
    assert_eq!(told["findings"][0]["cause"]["finding"]["rule"], "PS020");
    assert_eq!(
        told["findings"][0]["cause"]["finding"]["spot"]["path"],
        "tools[0]"
    );

    let told = judged(sequence("C153"));
    let cause = &told["findings"][0]["cause"];
    assert_eq!(
        (&cause["finding"]["rule"], &cause["requests"]),
        (&json!("PS086"), &json!([2]))
    );
    assert_eq!(told["findings"].as_array().unwrap().len(), 1);

    let client = case("C139")["input"]["client"].clone();
    let at = client["b_at"].as_array().unwrap();
    let body = |number: u32| {
        let name = if at.contains(&json!(number)) {
            "raw_body_b"
        } else {
            "raw_body_a"
        };
        client[name].as_str().unwrap()
    };
    let trace = (1..=100).map(body).collect::<Vec<_>>().join("\n");
    let told = judged(trace);
    let cause = &told["findings"][0]["cause"];
    assert_eq!(cause["finding"]["rule"], "PS021");
    assert_eq!(
        cause["finding"]["spot"]["path"],
        "tools[0].function.parameters"
    );

    let client = case("C136")["input"]["client"].clone();
    let body = |number: u32| {
        let name = if number < 30 {
            "body_template"
        } else {
            "body_template_after"
        };
        let time = format!(
            "2026-11-30T10:{:02}:{:02}.{:03}Z",
            number / 6,
            number * 7 % 60,
            number * 11
        );
        fill(client[name].to_string()).replace("{ISO-ms}", &time)
    };
    let trace = (0..60).map(body).collect::<Vec<_>>().join("\n");
    let told = judged(trace);
    assert_eq!(told["findings"].as_array().unwrap().len(), 1);
    let cause = &told["findings"][0]["cause"];
    assert_eq!(cause["finding"]["rule"], "PS001");
    assert_eq!(cause["requests"].as_array().unwrap().len(), 30);
}
