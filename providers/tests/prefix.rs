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
use run::{Bounds, OFFLINE, Run, loud, tell};
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

#[test]
fn what_closes_each_request_and_is_not_kept_is_silent() {
    let mut reminded = stable();
    let mut told = reminded.clone();
    for conversation in &mut reminded {
        for request in &mut conversation.requests {
            let reminder = "Remember: run the tests before you say that you are done.";
            request
                .messages
                .push(json!({"role": "user", "content": reminder}));
        }
    }
    assert_silent(&reminded, "a reminder at the end");
    for conversation in &mut told {
        for (at, request) in conversation.requests.iter_mut().enumerate() {
            let status = format!(
                "Status at step {at}: {} files open, 10:{:02} on the clock.",
                at % 3,
                at % 60
            );
            request
                .messages
                .push(json!({"role": "user", "content": status}));
        }
    }
    assert_silent(&told, "a status at the end");
}

#[test]
fn interleaved_conversations_without_ids_are_silent() {
    let all = stable();
    let longest = all
        .iter()
        .map(|conversation| conversation.requests.len())
        .max()
        .unwrap();
    for form in [Form::Chat, Form::Messages] {
        let mut run = Run::new(OFFLINE);
        let mut told = Vec::new();
        for at in 0..longest {
            for conversation in all
                .iter()
                .filter(|conversation| at < conversation.requests.len())
            {
                let observed = run.send(&conversation.requests[at], form, 0);
                told.extend(loud(&observed.findings).into_iter().map(tell));
            }
        }
        println!("interleaved, {form:?}: {} warnings", told.len());
        assert!(told.is_empty(), "{form:?}:\n{}", told.join("\n"));
    }
}

#[test]
fn other_samples_of_one_task_are_silent() {
    let mut all = stable();
    // Each conversation once more, in step with the first: the same task and first answers, then
    // other ones to which the tools say the same.
    let mut again = all.clone();
    for conversation in &mut again {
        for request in &mut conversation.requests {
            for (at, message) in request.messages.iter_mut().enumerate().skip(2) {
                if message["role"] == "assistant" && message["content"].is_string() {
                    let other = format!(
                        "Another way to step {at}: let me look at this from the other side."
                    );
                    message["content"] = other.into();
                }
            }
        }
    }
    all.append(&mut again);
    assert_silent(&all, "other samples of one task");
}

/// How often the linter is right about one kind of fault.
#[derive(Default)]
struct Score {
    injected: usize,
    found: usize,
    missed: Vec<String>,
    /// Warnings on the stable conversations that went on at the same time.
    alarms: Vec<String>,
}

#[test]
fn injected_faults_are_found_with_the_right_rule_request_and_segment() {
    let full = std::env::var_os("FULL").is_some();
    let (most, turns) = if full { (1000, 24) } else { (1, 12) };
    let all: Vec<Conversation> = FILES
        .iter()
        .flat_map(|file| load(file, most, turns))
        .collect();
    // Of each kind of agent, two that go on at the same time.
    let others: Vec<Conversation> = FILES.iter().flat_map(|file| load(file, 2, turns)).collect();
    let others: Vec<Conversation> = if full {
        others
    } else {
        others.into_iter().skip(1).step_by(4).collect()
    };
    let others = others.as_slice();
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
                score_one(fault, conversation, *form, others, &mut score);
            }
        }
        report.push(format!(
            "{:36} {:4} of {:4}",
            fault.name, score.found, score.injected
        ));
        total.injected += score.injected;
        total.found += score.found;
        total.missed.extend(score.missed.into_iter().take(2));
        total.alarms.extend(score.alarms);
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
    assert!(total.alarms.is_empty(), "{}", total.alarms.join("\n"));
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

fn score_one(
    fault: &faults::Fault,
    conversation: &Conversation,
    form: Form,
    others: &[Conversation],
    score: &mut Score,
) {
    let mut broken = conversation.clone();
    let Some(injected) = (fault.inject)(&mut broken) else {
        return;
    };
    if injected.at >= broken.requests.len() {
        return;
    }
    let bounds = if std::env::var_os("LIVE").is_some() {
        Bounds::default()
    } else {
        OFFLINE
    };
    let mut run = Run::new(bounds);
    let mut told = Vec::new();
    for (at, request) in broken.requests.iter().enumerate().take(injected.at + 1) {
        // No session id tells the conversations apart.
        for other in others
            .iter()
            .filter(|other| other.name != conversation.name)
        {
            if let Some(request) = other.requests.get(at) {
                let observed = run.send(request, form, 7);
                let alarms: Vec<String> = loud(&observed.findings).into_iter().map(tell).collect();
                score.alarms.extend(alarms);
            }
        }
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

/// What an independent reading of two bodies says of the tokens that the vendor's cache can read, at
/// four bytes a token: the common beginning of what is rendered, tools first.
fn cached(before: &conversation::Request, after: &conversation::Request) -> u64 {
    let rendered = |request: &conversation::Request| {
        let body: serde_json::Value = serde_json::from_str(&request.body(Form::Chat)).unwrap();
        let mut parts: Vec<String> = Vec::new();
        for list in ["tools", "messages"] {
            let elements = body[list].as_array().into_iter().flatten();
            parts.extend(elements.map(serde_json::Value::to_string));
        }
        parts.concat()
    };
    let (before, after) = (rendered(before), rendered(after));
    let same = before
        .bytes()
        .zip(after.bytes())
        .take_while(|(a, b)| a == b)
        .count() as u64;
    let tokens = same / 4;
    if tokens < 1024 {
        0
    } else {
        tokens - tokens % 128
    }
}

#[test]
fn the_money_lost_is_what_a_recomputation_says() {
    let mut compared = 0;
    for conversation in stable()
        .iter()
        .filter(|conversation| conversation.requests.len() >= 8)
    {
        let with_line = |text: fn(usize) -> String| {
            let mut changed = conversation.clone();
            for (at, request) in changed.requests.iter_mut().enumerate() {
                let line = format!("{}\n", text(at));
                match request.system.first_mut() {
                    Some(system) => system.insert_str(0, &line),
                    None => request.system.push(line),
                }
            }
            changed.requests
        };
        let held = with_line(|_| "Now: 2026-11-30 10:00:00".to_owned());
        let broken = with_line(|at| format!("Now: 2026-11-30 10:{:02}:00", at % 60));
        let mut run = Run::new(OFFLINE);
        for (at, request) in broken.iter().enumerate() {
            let observed = run.send(request, Form::Chat, 0);
            let Some(before) = at.checked_sub(1) else {
                continue;
            };
            let lost = cached(&held[before], &held[at]) - cached(&broken[before], request);
            let finding = loud(&observed.findings)
                .into_iter()
                .find(|finding| finding.rule.code == "PS001");
            let told = finding.unwrap().lost_tokens.0;
            // Within one hundredth, and a step of the vendor's where rounding falls otherwise.
            let off = told.abs_diff(lost);
            assert!(
                off * 100 <= lost || off <= 128,
                "{} {at}: {told} for {lost}",
                conversation.name
            );
            let pico = i64::try_from(told).unwrap() * (3_000_000 - 300_000);
            assert_eq!(
                finding
                    .unwrap()
                    .lost
                    .map_or(0, whippletree_policies::units::Money::pico),
                pico
            );
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn expected_and_reported_agree_within_a_step_on_stable_traffic() {
    let mut compared = 0;
    let mut run = Run::new(OFFLINE);
    for conversation in stable() {
        let mut before: Option<(String, u64)> = None;
        for request in &conversation.requests {
            let observed = run.send(request, Form::Chat, 0);
            // A vendor that counts a token for every 3.3 bytes, and reads what it read before.
            let body = request.body(Form::Chat);
            let whole = body.len() as u64 * 10 / 33;
            if let Some((_, tokens)) = &before {
                let reported = if *tokens < 1024 {
                    0
                } else {
                    tokens - tokens % 128
                };
                let expected = observed.expected_cached.0;
                assert!(
                    expected.abs_diff(reported) <= 128,
                    "{}: {expected} for {reported}",
                    conversation.name
                );
                compared += 1;
            }
            run.lint.settle(
                observed.ticket,
                &whippletree_policies::usage::Usage {
                    input: whippletree_policies::units::Tokens(whole),
                    ..Default::default()
                },
            );
            before = Some((body, whole));
        }
    }
    assert!(compared > 200, "{compared}");
}

/// Six conversations of one agent, each with its own line in the system prompt for all its life;
/// what is told, and whether as a warning.
fn across(
    turns: usize,
    line: impl Fn(usize) -> String,
    change: impl Fn(usize, &mut conversation::Request),
) -> Vec<(String, bool)> {
    let all = load("messages-tau-bench.jsonl", 6, turns);
    let mut told = Vec::new();
    let mut run = Run::new(OFFLINE);
    for (number, conversation) in all.iter().enumerate() {
        for request in &conversation.requests {
            let mut request = request.clone();
            request.system[0].insert_str(0, &format!("{}\n", line(number)));
            change(number, &mut request);
            let observed = run.send(&request, Form::Chat, 0);
            for finding in observed
                .findings
                .iter()
                .filter(|finding| finding.previous.is_some())
            {
                let loud = finding.severity >= whippletree_policies::lint::Severity::Warning;
                told.push((finding.rule.name.to_owned(), loud));
            }
        }
    }
    told.sort();
    told.dedup();
    told
}

#[test]
fn what_differs_only_between_conversations_is_found_between_them() {
    let names = [
        "Mira Okafor",
        "Jonas Weber",
        "Li Na",
        "Ada Quist",
        "Omar Haddad",
        "Yuki Tanaka",
    ];
    let same = |_: usize, _: &mut conversation::Request| {};
    let warned = |name: &str| vec![(name.to_owned(), true)];
    let advised = |name: &str| vec![(name.to_owned(), false)];
    assert_eq!(
        across(8, |n| format!("You help {}.", names[n]), same),
        warned("user-name")
    );
    let tenants = ["nordwind", "acme", "globex", "initech", "umbrella", "hooli"];
    assert_eq!(
        across(8, |n| format!("Tenant: {}", tenants[n]), same),
        warned("user-name")
    );
    let label = |n: usize| format!("[variant={}]", ["a1", "b2", "c3", "d4", "e5", "f6"][n]);
    assert_eq!(across(8, label, same), warned("experiment-label"));
    let rotated = |n: usize, request: &mut conversation::Request| request.tools.rotate_left(n);
    assert_eq!(
        across(8, |_| "You help.".to_owned(), rotated),
        warned("unsorted-tools")
    );
    // The moment and the id with which a conversation begins cost once, and little.
    let id = |n: usize| format!("<doc 0198a0e1-5e8c-7a3a-8000-{:012x}>", n * 7919 + 1);
    assert_eq!(across(8, id, same), advised("random-uuid"));
    let time = |n: usize| format!("Now: 2026-11-30 1{n}:00:07");
    assert_eq!(across(8, time, same), advised("volatile-timestamp"));
    // But where each conversation is one call, it costs every time.
    assert_eq!(across(1, time, same), warned("volatile-timestamp"));
    assert_eq!(
        across(8, |_| "Now: 2026-11-30 10:00:07".to_owned(), same),
        Vec::new()
    );
}
