//! The command line.
//!
//! Every command ends with 0 when it did what was asked, 1 when it found something or was refused,
//! and 2 when it was asked wrongly or the configuration is at fault. What a command found goes to
//! standard output, what went wrong to standard error.

mod admin_plane;
mod check;
mod demo;
mod explain;
mod keys;
mod lint;
mod prices;
mod serve;
mod table;
mod usage;

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::config::load::LoadError;

/// A gateway between agents and the vendors of their models.
#[derive(Debug, Parser)]
#[command(name = "whippletree", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Check),
    Demo(demo::Demo),
    Explain(explain::Explain),
    Keys(keys::Keys),
    Lint(lint::Lint),
    Prices(prices::Prices),
    Serve(serve::Serve),
    Usage(usage::Usage),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It did what was asked.
    Done,
    /// It found something, or was refused.
    Findings,
    /// It was asked wrongly, or the configuration is at fault.
    Misused,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::SUCCESS,
            Ending::Findings => Self::from(1),
            Ending::Misused => Self::from(2),
        }
    }
}

/// Runs the program and says how it ended: 0 done, 1 findings or refused, 2 wrong usage or
/// configuration.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nobody is left to tell when this cannot be printed.
            let _unheard = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let ended = match arguments.command {
        Command::Check(check) => check.run(),
        Command::Demo(demo) => demo.run(),
        Command::Explain(explain) => explain.run(),
        Command::Keys(keys) => keys.run(),
        Command::Lint(lint) => lint.run(),
        Command::Prices(prices) => prices.run(),
        Command::Serve(serve) => serve.run(),
        Command::Usage(usage) => usage.run(),
    };
    match ended {
        Ok(ending) => ending.into(),
        // `whippletree … | head` is no failure.
        Err(error) if broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("error: {error:#}"));
            let misused = error.downcast_ref::<LoadError>().is_some();
            (if misused {
                Ending::Misused
            } else {
                Ending::Findings
            })
            .into()
        }
    }
}

fn broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints a line of what was asked for.
fn say(line: impl Display) -> anyhow::Result<()> {
    writeln!(io::stdout(), "{line}")?;
    Ok(())
}

/// Prints a value as JSON.
fn say_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    say(serde_json::to_string_pretty(value)?)
}

/// Prints a line of what went wrong.
fn complain(line: impl Display) {
    // Nobody is left to tell when this cannot be printed.
    let _unheard = writeln!(io::stderr(), "{line}");
}

/// Whether what goes wrong is read by a person at a terminal.
fn complaints_in_colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

#[cfg(test)]
mod tests;
