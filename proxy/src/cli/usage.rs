//! `whippletree usage`: what was used and what it cost.

use std::io::Write as _;

use clap::{Args, ValueEnum};

use super::admin_plane::AdminPlane;
use super::{Ending, say, table};

/// Shows what was used and what it cost.
///
/// Asks the gateway in operation. Money is in US dollars at the list prices of the time of each
/// call.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree usage --by tenant,model
  whippletree usage --by user --bucket day --from 2026-11-01 --to 2026-12-01 --only tenant=acme
  whippletree usage --by target --csv > usage.csv")]
pub(super) struct Usage {
    /// What to add up by: tenant, key, user, task, route, target, provider, model, api, harness or
    /// tag:NAME; several with commas.
    #[arg(long, value_name = "NAMES", default_value = "target")]
    by: String,
    /// A row for each span of time.
    #[arg(long, value_enum)]
    bucket: Option<Bucket>,
    /// From this moment on: a day, or RFC 3339.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Before this moment.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// The time zone of days and months.
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Only what matches, such as tenant=acme; may be given again.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    only: Vec<(String, String)>,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV.
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    admin: AdminPlane,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Bucket {
    Day,
    Hour,
    Month,
}

fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Usage {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let format = if self.json { "json" } else { "csv" };
        let bucket = self.bucket.map(|bucket| match bucket {
            Bucket::Day => "day",
            Bucket::Hour => "hour",
            Bucket::Month => "month",
        });
        let mut query = vec![("format", format.to_owned()), ("group_by", self.by.clone())];
        let optional = [
            ("bucket", bucket.map(str::to_owned)),
            ("from", self.from),
            ("to", self.to),
            ("time_zone", self.time_zone),
        ];
        for (name, value) in optional {
            query.extend(value.map(|value| (name, value)));
        }
        for (name, value) in &self.only {
            query.push((name, value.clone()));
        }
        let answer = self.admin.get("/admin/v1/usage", &query)?;
        if self.json || self.csv {
            std::io::stdout().write_all(&answer)?;
            if self.json {
                say("")?;
            }
            return Ok(Ending::Done);
        }
        let mut reader = csv::Reader::from_reader(answer.as_ref());
        let header: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
        let rows = reader
            .records()
            .map(|record| Ok(record?.iter().map(str::to_owned).collect()))
            .collect::<Result<Vec<Vec<String>>, csv::Error>>()?;
        say(table::render(&header, &rows))?;
        Ok(Ending::Done)
    }
}
