//! `whippletree lint`: what breaks the prefix cache, in files of requests.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::json;
use whippletree_policies::lint::{Severity, catalogue, rule};
use whippletree_providers::prices::PriceList;

use super::{Ending, complain, say, say_json, table};
use crate::lint::allow::Allowed;
use crate::lint::baseline::Baseline;
use crate::lint::judge::{Cause, Judged, identity, judge};
use crate::lint::render::{self, Colour};
use crate::lint::trace::{File, Request, read};
use crate::lint::{mend, sarif};

/// Finds what breaks the vendor's prompt cache, in files of requests.
///
/// Reads request bodies, traces with one request a line, and session logs of harnesses
/// (mini-SWE-agent, SWE-agent, tau-bench, pi, Claude Code, Codex). Requests of one file are taken to
/// have been sent in its order. Ends with 0 when nothing was found, with 1 when something was, and
/// with 2 when a file cannot be read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree lint trace.jsonl
  whippletree lint --format sarif --baseline lint.json traces/*.jsonl > lint.sarif
  whippletree lint --against main/request.json request.json
  whippletree lint --fix trace.jsonl
  whippletree lint --explain PS001")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(super) struct Lint {
    /// Files, in the order in which their requests were sent.
    #[arg(required_unless_present_any = ["explain", "rules"])]
    files: Vec<PathBuf>,
    /// How to print findings.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print advice too: what may cost something, or is worth knowing.
    #[arg(long)]
    advice: bool,
    /// Mend what is safe (the order of tools and of their keys, missing cache marks) in the files.
    #[arg(long)]
    fix: bool,
    /// With --fix: write mended files into this folder and leave the given ones alone.
    #[arg(long, value_name = "FOLDER", requires = "fix")]
    into: Option<PathBuf>,
    /// Findings to live with, each with a reason. Default: whippletree-lint.toml, where it exists.
    #[arg(long, value_name = "FILE")]
    allow: Option<PathBuf>,
    /// Fail only for findings that this file does not know.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write what is found now as a baseline, and end with 0.
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
    /// The same requests before a change: tells whether the change broke their prefix.
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Print the page of a rule, by code or name.
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
    /// List the rules.
    #[arg(long)]
    rules: bool,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON document.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// As a compiler would.
    Text,
}

const ALLOW_FILE: &str = "whippletree-lint.toml";

impl Lint {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        if let Some(name) = &self.explain {
            return explain(name);
        }
        if self.rules {
            return list();
        }
        let mut files = Vec::new();
        let mut requests = Vec::new();
        for path in &self.files {
            match read(path, files.len()) {
                Ok((file, found)) => {
                    files.push(file);
                    requests.extend(found);
                }
                Err(error) => {
                    complain(format_args!("error: {:#}", anyhow::Error::new(error)));
                    return Ok(Ending::Misused);
                }
            }
        }
        let prices = PriceList::builtin()?;
        let judged = match &self.against {
            None => judge(&requests, &prices),
            Some(before) => match read(before, 0) {
                Ok((_, old)) => compare(&old, &requests, &prices),
                Err(error) => {
                    complain(format_args!("error: {:#}", anyhow::Error::new(error)));
                    return Ok(Ending::Misused);
                }
            },
        };
        self.conclude(judged, &files, &requests)
    }

    fn conclude(
        &self,
        mut judged: Judged,
        files: &[File],
        requests: &[Request],
    ) -> anyhow::Result<Ending> {
        let Some((allowed, baseline)) = self.settings() else {
            return Ok(Ending::Misused);
        };
        for cause in &mut judged.causes {
            let file = name_of(files, cause);
            cause.allowed = allowed.reason(cause, &file).map(str::to_owned);
            cause.known = baseline
                .as_ref()
                .is_some_and(|baseline| baseline.knows(cause, &file));
        }
        let names: Vec<String> = judged
            .causes
            .iter()
            .map(|cause| name_of(files, cause))
            .collect();
        if let Some(path) = &self.write_baseline {
            let baseline = Baseline::of(judged.causes.iter().zip(names.iter().map(String::as_str)));
            baseline.write(path)?;
            complain(format_args!(
                "{}: {} findings known from now on",
                path.display(),
                baseline.len()
            ));
            return Ok(Ending::Done);
        }
        self.show(&judged, files)?;
        for unreadable in &judged.unreadable {
            let path = files
                .get(unreadable.file)
                .map(|file| file.path.display().to_string());
            complain(format_args!(
                "error: {}:{}: {}",
                path.unwrap_or_default(),
                unreadable.line,
                unreadable.fault
            ));
        }
        if self.fix {
            self.mend(&judged, files, requests)?;
        }
        Ok(if !judged.unreadable.is_empty() {
            Ending::Misused
        } else if judged.causes.iter().any(Cause::fails) {
            Ending::Findings
        } else {
            Ending::Done
        })
    }

    /// What is allowed and what is known; `None` after a complaint.
    fn settings(&self) -> Option<(Allowed, Option<Baseline>)> {
        let default = Path::new(ALLOW_FILE);
        let path = self
            .allow
            .as_deref()
            .or_else(|| default.exists().then_some(default));
        let allowed = match path.map(Allowed::read).transpose() {
            Ok(allowed) => allowed.unwrap_or_default(),
            Err(error) => {
                complain(format_args!("error: {:#}", anyhow::Error::new(error)));
                return None;
            }
        };
        match self.baseline.as_deref().map(Baseline::read).transpose() {
            Ok(baseline) => Some((allowed, baseline)),
            Err(error) => {
                complain(format_args!("error: {error:#}"));
                None
            }
        }
    }

    fn shown<'a>(&self, judged: &'a Judged) -> impl Iterator<Item = &'a Cause> + use<'a> {
        let advice = self.advice;
        judged
            .causes
            .iter()
            .filter(move |cause| advice || cause.finding.severity > Severity::Advice)
    }

    fn show(&self, judged: &Judged, files: &[File]) -> anyhow::Result<()> {
        let format = if self.json { Format::Json } else { self.format };
        match format {
            Format::Json => {
                let findings: Vec<_> = self
                    .shown(judged)
                    .map(|cause| {
                        let file = name_of(files, cause);
                        json!({"file": file, "id": identity(cause, &file), "cause": cause, "fails": cause.fails(),
                            "name": cause.finding.rule.name, "help": cause.finding.rule.help})
                    })
                    .collect();
                say_json(&json!({
                    "findings": findings,
                    "requests": judged.requests,
                    "conversations": judged.conversations,
                    "prompt_tokens": judged.tokens,
                    "expected_cached_tokens": judged.expected_cached,
                }))
            }
            Format::Sarif => say_json(&sarif::log(self.shown(judged), files)),
            Format::Text => {
                let terminal = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
                let colour = if terminal {
                    Colour::Styled
                } else {
                    Colour::Plain
                };
                let open = self
                    .shown(judged)
                    .filter(|cause| cause.allowed.is_none() && !cause.known);
                for cause in open {
                    say(format_args!(
                        "{}\n",
                        render::cause(cause, &name_of(files, cause), colour)
                    ))?;
                }
                say(render::summary(judged))
            }
        }
    }

    fn mend(&self, judged: &Judged, files: &[File], requests: &[Request]) -> anyhow::Result<()> {
        for (at, file) in files.iter().enumerate() {
            let repairs = mend::asked(
                judged
                    .causes
                    .iter()
                    .filter(|cause| cause.file == at && cause.fails()),
            );
            let of_file: Vec<&Request> = requests
                .iter()
                .filter(|request| request.file == at)
                .collect();
            let Some((text, count)) = mend::mend(file, &of_file, repairs) else {
                continue;
            };
            let path = match &self.into {
                None => file.path.clone(),
                Some(folder) => {
                    std::fs::create_dir_all(folder)
                        .with_context(|| format!("make {}", folder.display()))?;
                    folder.join(file.path.file_name().unwrap_or_default())
                }
            };
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            complain(format_args!("{}: mended {count} requests", path.display()));
        }
        Ok(())
    }
}

/// Each request beside the one that it was before a change.
fn compare(old: &[Request], new: &[Request], prices: &PriceList) -> Judged {
    let mut all = Judged::default();
    for (before, after) in old.iter().zip(new) {
        let pair = [before.clone(), after.clone()];
        let mut judged = judge(&pair, prices);
        judged
            .causes
            .retain(|cause| cause.finding.previous.is_some());
        for cause in &mut judged.causes {
            cause.file = after.file;
            cause.requests = vec![after.number];
        }
        all.requests += 1;
        all.conversations += 1;
        all.tokens = all.tokens.plus(judged.tokens);
        all.expected_cached = all.expected_cached.plus(judged.expected_cached);
        all.unreadable.extend(judged.unreadable);
        all.causes.extend(judged.causes);
    }
    all
}

fn name_of(files: &[File], cause: &Cause) -> String {
    files
        .get(cause.file)
        .map(|file| file.path.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn explain(name: &str) -> anyhow::Result<Ending> {
    let Some(meta) = rule(name) else {
        complain(format_args!(
            "error: no rule is called \"{name}\"; `whippletree lint --rules` lists them"
        ));
        return Ok(Ending::Misused);
    };
    say(format_args!(
        "# {} {}\n\n{}: {}.\n\nHelp: {}.\n\n{}",
        meta.code,
        meta.name,
        meta.severity.as_str(),
        meta.summary,
        meta.help,
        meta.docs
    ))?;
    Ok(Ending::Done)
}

fn list() -> anyhow::Result<Ending> {
    let header = ["code", "name", "severity", "summary"].map(str::to_owned);
    let rows: Vec<Vec<String>> = catalogue()
        .map(|meta| {
            [meta.code, meta.name, meta.severity.as_str(), meta.summary]
                .map(str::to_owned)
                .to_vec()
        })
        .collect();
    say(table::render(&header, &rows))?;
    Ok(Ending::Done)
}
