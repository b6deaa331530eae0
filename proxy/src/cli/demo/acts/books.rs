//! Who spent what.

use anyhow::ensure;
use serde::Deserialize;
use serde_json::json;
use whippletree_policies::units::{Money, MoneySum};
use whippletree_policies::usage::Usage;

use super::tokens;
use crate::cli::demo::page::{Column, Mood, Page, Row, count};
use crate::cli::demo::stage::Stage;

#[derive(Debug, Deserialize)]
struct Report {
    rows: Vec<Total>,
}

/// A row of the usage report.
#[derive(Debug, Deserialize)]
struct Total {
    task: Option<String>,
    model: Option<String>,
    requests: u64,
    attempts: u64,
    usage: Usage,
    cost_usd: Money,
}

pub(super) async fn play(stage: &Stage, page: &mut Page) -> anyhow::Result<()> {
    page.act(
        "Who spent what",
        "The same report that `whippletree usage` prints: by task, as the agent named its runs, and by \
         model. Failed attempts are counted, and cost what had been written.",
    )?;
    let path = "/admin/v1/usage?group_by=task,model";
    let told = stage.admin().text(path).await?;
    let Report { rows } = serde_json::from_str(&told)?;
    table(page, &rows)?;
    let mut spent = MoneySum::ZERO;
    for row in &rows {
        spent.add(row.cost_usd);
    }
    let entries = stage.admin().entries().await?;
    let mut booked = MoneySum::ZERO;
    for entry in &entries {
        booked.add(entry.cost_usd);
    }
    ensure!(
        booked == spent,
        "the ledger adds up to ${booked}, the report to ${spent}"
    );
    page.text_line(&format!(
        "Together ${spent}. The ledger's {} entries add up to the same, to the last digit.",
        entries.len()
    ))?;
    let metrics = stage.admin().text("/metrics").await?;
    let series = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .count();
    page.blank()?;
    let admin = stage.admin_url();
    page.entry("ledger", &format!("{admin}/admin/v1/ledger"))?;
    page.entry("file", &stage.ledger().display().to_string())?;
    page.entry(
        "metrics",
        &format!("{admin}/metrics ({} series)", count(series as u64)),
    )?;
    page.fact(
        "books",
        json!({
            "usage": serde_json::from_str::<serde_json::Value>(&told)?,
            "spent_usd": spent.to_string(),
            "ledger_entries": entries.len(),
            "ledger_usd": booked.to_string(),
            "metrics_series": series,
        }),
    )
}

fn table(page: &Page, rows: &[Total]) -> anyhow::Result<()> {
    let columns = [
        Column::Left("task"),
        Column::Left("model"),
        Column::Right("requests"),
        Column::Right("attempts"),
        Column::Right("input"),
        Column::Right("cached"),
        Column::Right("output"),
        Column::Right("cost"),
    ];
    let name = |name: &Option<String>| name.as_deref().unwrap_or("-").to_owned();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let [input, output] = tokens(Some(&row.usage));
            Row {
                cells: vec![
                    name(&row.task),
                    name(&row.model),
                    count(row.requests),
                    count(row.attempts),
                    input,
                    count(row.usage.cache_read.unwrap_or_default().0),
                    output,
                    format!("${}", row.cost_usd),
                ],
                mood: Mood::Plain,
            }
        })
        .collect();
    page.table(&columns, &rows)
}
