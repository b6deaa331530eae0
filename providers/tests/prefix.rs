//! The linter over real agent conversations: silent on stable ones, right about broken ones.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test may fail by panicking, and shows its figures"
)]

#[path = "prefix/conversation.rs"]
mod conversation;
#[path = "prefix/faults.rs"]
mod faults;
#[path = "prefix/run.rs"]
mod run;

use conversation::{Conversation, Form, load};
use run::{OFFLINE, Run, loud, tell};
use serde_json::json;

const FILES: [&str; 4] = [
    "messages-mini-swe-agent.jsonl",
    "messages-pi-coding-agent.jsonl",
    "messages-swe-agent.jsonl",
    "messages-tau-bench.jsonl",
];

/// All conversations with `FULL=1`, else a few.
fn stable() -> Vec<Conversation> {
    let full = std::env::var_os("FULL").is_some();
    let (most, turns) = if full { (1000, 1000) } else { (6, 30) };
    FILES
        .iter()
        .flat_map(|file| load(file, most, turns))
        .collect()
}

/// Every warning over conversations that come one after another to one linter.
fn warnings(conversations: &[Conversation], form: Form) -> (usize, Vec<String>) {
    let mut run = Run::new(OFFLINE);
    let mut told = Vec::new();
    let mut requests = 0;
    for (at, conversation) in conversations.iter().enumerate() {
        for request in &conversation.requests {
            requests += 1;
            let observed = run.send(request, form, at as u64 * 86_400);
            told.extend(
                loud(&observed.findings)
                    .into_iter()
                    .map(|f| format!("{}: {}", conversation.name, tell(f))),
            );
        }
    }
    (requests, told)
}

fn assert_silent(conversations: &[Conversation], what: &str) {
    for form in [Form::Chat, Form::Messages] {
        let (requests, told) = warnings(conversations, form);
        println!(
            "{what}, {form:?}: {} conversations, {requests} requests, {} warnings",
            conversations.len(),
            told.len()
        );
        assert!(told.is_empty(), "{what}, {form:?}:\n{}", told.join("\n"));
    }
}

#[test]
fn plain_appends_are_silent() {
    assert_silent(&stable(), "plain appends");
}

#[test]
fn one_compaction_is_silent() {
    let mut all = stable();
    for conversation in &mut all {
        let half = conversation.requests.len() / 2;
        for request in conversation.requests.iter_mut().skip(half.max(4)) {
            let from = 1;
            let to = (half * 2).saturating_sub(3);
            if to <= from + 2 || to >= request.messages.len() {
                continue;
            }
            let summary = json!({"role": "user", "content": "Summary of what was done so far: the files were read and the fault was found."});
            request.messages.splice(from..to, [summary]);
        }
    }
    assert_silent(&all, "one compaction");
}

#[test]
fn a_constant_date_and_a_constant_id_are_silent() {
    let mut all = stable();
    for (at, conversation) in all.iter_mut().enumerate() {
        for request in &mut conversation.requests {
            let date = format!(
                "Today is 2026-11-{:02}.\nSession 0198a0e1-5e8c-7a3a-8000-{:012x}.\n",
                at % 30 + 1,
                at * 7919
            );
            match request.system.first_mut() {
                Some(system) => system.insert_str(0, &date),
                None => request.system.push(date),
            }
        }
    }
    assert_silent(&all, "a constant date and id");
}

/// How often the linter is right about one kind of fault.
#[derive(Default)]
struct Score {
    injected: usize,
    found: usize,
    missed: Vec<String>,
}

#[test]
fn injected_faults_are_found_with_the_right_rule_request_and_segment() {
    let full = std::env::var_os("FULL").is_some();
    let (most, turns) = if full { (1000, 24) } else { (2, 12) };
    let all: Vec<Conversation> = FILES
        .iter()
        .flat_map(|file| load(file, most, turns))
        .collect();
    let faults = faults::all();
    assert!(faults.len() >= 40, "{} kinds", faults.len());
    let only = std::env::var("FAULT").ok();
    let mut total = Score::default();
    let mut report = Vec::new();
    for fault in faults
        .iter()
        .filter(|fault| only.as_ref().is_none_or(|only| fault.name == only))
    {
        let mut score = Score::default();
        for conversation in all
            .iter()
            .filter(|conversation| fits(conversation, fault.needs))
        {
            for form in fault.forms {
                score_one(fault, conversation, *form, &mut score);
            }
        }
        report.push(format!(
            "{:36} {:4} of {:4}",
            fault.name, score.found, score.injected
        ));
        total.injected += score.injected;
        total.found += score.found;
        total.missed.extend(score.missed.into_iter().take(2));
    }
    println!("{}", report.join("\n"));
    println!(
        "{} kinds, {} of {} found",
        faults.len(),
        total.found,
        total.injected
    );
    for missed in &total.missed {
        println!("{missed}");
    }
    assert!(
        total.found * 100 >= total.injected * 99,
        "{} of {}",
        total.found,
        total.injected
    );
}

fn fits(conversation: &Conversation, needs: faults::Needs) -> bool {
    let Some(last) = conversation.requests.last() else {
        return false;
    };
    conversation.requests.len() >= 6
        && match needs {
            faults::Needs::Anything => true,
            faults::Needs::Tools => last.tools.len() >= 2,
            faults::Needs::Calls => {
                last.messages.iter().filter(|m| m["role"] == "tool").count() >= 4
            }
        }
}

fn score_one(fault: &faults::Fault, conversation: &Conversation, form: Form, score: &mut Score) {
    let mut broken = conversation.clone();
    let Some(injected) = (fault.inject)(&mut broken) else {
        return;
    };
    if injected.at >= broken.requests.len() {
        return;
    }
    let mut run = Run::new(OFFLINE);
    let mut told = Vec::new();
    for (at, request) in broken.requests.iter().enumerate().take(injected.at + 1) {
        let observed = run.send(request, form, 0);
        if std::env::var_os("SHOW").is_some() {
            let told: Vec<String> = observed.findings.iter().map(tell).collect();
            println!(
                "\n  {} {} goes on from {:?}, {} of {} segments known: {told:#?}",
                conversation.name,
                at + 1,
                observed.previous,
                observed.reused_segments,
                request.messages.len() + request.system.len() + request.tools.len()
            );
        }
        if at == injected.at {
            told = observed.findings;
        }
    }
    score.injected += 1;
    let right = loud(&told).into_iter().any(|finding| {
        fault.rules.contains(&finding.rule.name)
            && (injected.paths.is_empty()
                || injected
                    .paths
                    .iter()
                    .any(|path| finding.spot.path.starts_with(path.as_str())))
    });
    if right {
        score.found += 1;
    } else {
        let told: Vec<String> = told.iter().map(tell).collect();
        score.missed.push(format!(
            "{} {} {form:?} request {}: {told:?}",
            fault.name,
            conversation.name,
            injected.at + 1
        ));
    }
}
