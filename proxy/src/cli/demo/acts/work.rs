//! An agent at work.

use serde_json::json;
use whippletree_policies::units::MoneySum;

use super::{agent, millis, tokens};
use crate::cli::demo::agent::{Agent, Form, Seen};
use crate::cli::demo::page::{Column, Mood, Page, Row, count};
use crate::cli::demo::stage::Stage;
use crate::exchange::{Exchange, Millis};

/// What is asked, and in which form the answers come.
const QUESTIONS: [(&str, Form); 2] = [
    ("Which stages does a request pass?", Form::Whole),
    ("And what may each of them do?", Form::Stream),
];

pub(super) async fn play(stage: &Stage, page: &mut Page) -> anyhow::Result<Agent> {
    page.act(
        "An agent at work",
        "It asks for the model \"coder\" with two questions: one in whole answers, one streaming. It \
         has two tools and a manual in its prompt, so each call sends the conversation again.",
    )?;
    let mut agent = agent(stage, "coder", "read-manual");
    let mut calls = Vec::new();
    for (question, form) in QUESTIONS {
        for seen in agent.ask(question, form).await? {
            let exchange = stage.admin().exchange(&seen.request_id).await?;
            page.fact(
                "exchange",
                json!({ "about": "work", "exchange": exchange, "client": seen }),
            )?;
            calls.push((seen, exchange));
        }
    }
    table(page, &calls)?;
    sum_up(page, &calls)?;
    Ok(agent)
}

fn table(page: &Page, calls: &[(Seen, Exchange)]) -> anyhow::Result<()> {
    let columns = [
        Column::Right("call"),
        Column::Left("form"),
        Column::Left("the model"),
        Column::Right("input"),
        Column::Right("cached"),
        Column::Right("output"),
        Column::Right("cost"),
        Column::Right("first token"),
        Column::Right("took"),
    ];
    let rows: Vec<_> = (1_u64..)
        .zip(calls)
        .map(|(number, (seen, exchange))| {
            let usage = exchange.usage.as_ref();
            let [input, output] = tokens(usage);
            let cached = usage.and_then(|usage| usage.cache_read);
            Row {
                cells: vec![
                    number.to_string(),
                    if exchange.stream { "stream" } else { "whole" }.to_owned(),
                    if seen.tools.is_empty() {
                        "answers".to_owned()
                    } else {
                        format!("calls {}", seen.tools.join(", "))
                    },
                    input,
                    cached.map_or("-".to_owned(), |tokens| count(tokens.0)),
                    output,
                    format!("${}", exchange.cost_usd),
                    exchange.ttft_ms.map_or("-".to_owned(), millis),
                    millis(exchange.duration_ms),
                ],
                mood: Mood::Plain,
            }
        })
        .collect();
    page.table(&columns, &rows)
}

fn sum_up(page: &Page, calls: &[(Seen, Exchange)]) -> anyhow::Result<()> {
    let mut cost = MoneySum::ZERO;
    let [mut read, mut cached] = [0_u64; 2];
    for (_, exchange) in calls {
        cost.add(exchange.cost_usd);
        if let Some(usage) = &exchange.usage {
            read += usage.input.0;
            cached += usage.cache_read.unwrap_or_default().0;
        }
    }
    let mut overheads: Vec<_> = calls.iter().map(|(_, e)| e.overhead_ms).collect();
    overheads.sort_unstable();
    let median = overheads.get(overheads.len() / 2).copied();
    page.text_line(&format!(
        "Together ${cost}. Of {} tokens read, {} came from the vendor's prompt cache. The \
         gateway's own share of a call: {} ms.",
        count(read),
        count(cached),
        hundredths(median.unwrap_or_default()),
    ))
}

/// Milliseconds to two places.
fn hundredths(time: Millis) -> String {
    let hundredths = time.0.saturating_add(5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
