//! `whippletree usage`: what was used and what it cost.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueEnum};

use super::admin_plane::AdminPlane;
use super::{Ending, complain, say, table};
use crate::admin;
use crate::report;
use crate::report::usage::Format;
use crate::store::query::{self, Reader};

/// Shows what was used and what it cost.
///
/// Asks the gateway in operation, or reads its database file, which may be in use. Money is in US dollars at the list prices of the time of each
/// call.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree usage --by tenant,model
  whippletree usage --by user --bucket day --from 2026-11-01 --to 2026-12-01 --only tenant=acme
  whippletree usage --by target --csv > usage.csv
  whippletree usage --database /var/lib/whippletree/whippletree.db --by tenant --bucket month")]
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
    /// Read this database instead of asking the gateway.
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
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
        let bucket = self.bucket.map(|bucket| match bucket {
            Bucket::Day => "day",
            Bucket::Hour => "hour",
            Bucket::Month => "month",
        });
        let mut query = vec![("group_by", self.by.clone())];
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
        let format = if self.json { Format::Json } else { Format::Csv };
        let answer = match &self.database {
            None => {
                query.push(("format", format.as_str().to_owned()));
                self.admin.get("/admin/v1/usage", &query)?
            }
            Some(path) => read(path, &query, format)?,
        };
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

/// Reads the totals from the file, as the admin plane would answer.
fn read(path: &Path, query: &[(&str, String)], format: Format) -> anyhow::Result<Bytes> {
    let pairs = query.iter();
    let pairs = pairs.map(|(name, value)| ((*name).to_owned(), value.clone()));
    let query = admin::usage_query(pairs.collect()).map_err(anyhow::Error::msg)?;
    let reader = Reader::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let left = query::left_behind(path);
    if left > 0 {
        complain(format_args!(
            "note: a gateway has died here; {left} bytes of its last records are entered when it \
             starts again, and not in these totals"
        ));
    }
    let rows = reader.usage(&query)?;
    Ok(match format {
        Format::Csv => report::usage::csv(&query, &rows)?,
        Format::Json => report::usage::json(&query, &rows, None)?,
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::store::Store;
    use crate::store::tests::exchange;

    #[test]
    fn a_database_is_read_whether_a_gateway_has_it_open_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("whippletree.db");
        let totals = || {
            let query = [("group_by", "tenant,model".to_owned())];
            let answer = read(&path, &query, Format::Csv).unwrap();
            String::from_utf8(answer.to_vec()).unwrap()
        };
        let store = Store::open(&config::Store::Sqlite(path.clone())).unwrap();
        store.recorder().record(&exchange(1));
        store.close();
        let closed = totals();
        insta::assert_snapshot!(closed);
        let _open = Store::open(&config::Store::Sqlite(path.clone())).unwrap();
        assert_eq!(totals(), closed);
    }

    #[test]
    fn what_cannot_be_read_is_said_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("none.db");
        let error = read(&missing, &[], Format::Csv).unwrap_err().to_string();
        assert!(error.contains("none.db"), "{error}");
        assert!(!missing.exists());
        let query = [("group_by", "colour".to_owned())];
        let error = read(&missing, &query, Format::Csv).unwrap_err();
        assert!(error.to_string().starts_with("group_by: expected tenant"));
    }
}
