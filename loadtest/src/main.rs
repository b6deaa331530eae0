//! `whippletree-loadtest`: the outside world as a program.
#![expect(
    clippy::print_stdout,
    reason = "a command line program talks to its user"
)]

mod steered;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use serde_json::json;
use whippletree_loadtest::bench::instructions::Figures;
use whippletree_loadtest::bench::{self, relay};
use whippletree_loadtest::cases::{self, Outcome};
use whippletree_loadtest::scenario;
use whippletree_loadtest::vendor::{Generator, Identity, Options, Script, Vendor};

#[derive(Parser)]
#[command(
    version,
    about = "Scripted vendors, failure cases and load against a gateway"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plays a script of replies, byte for byte (example: `vendor outage.toml --listen 127.0.0.1:9000`)
    Vendor {
        /// JSON or TOML, in the notation of the failure cases
        script: PathBuf,
        #[command(flatten)]
        listening: Listening,
    },
    /// Plays what its standard input says, for suites in other languages (example: `steered`)
    Steered {
        #[command(flatten)]
        listening: Listening,
    },
    /// Answers as a model would, without one (example: `generate --listen 127.0.0.1:9000`)
    Generate {
        /// Tokens per second of a stream; 0 for no pace
        #[arg(long, default_value_t = 100)]
        tokens_per_second: u32,
        /// Milliseconds before the first token
        #[arg(long, default_value_t = 50)]
        first_token_ms: u64,
        /// Tokens of an answer
        #[arg(long, default_value_t = 24)]
        output_tokens: u32,
        #[command(flatten)]
        listening: Listening,
    },
    /// Plays failure cases, each against a fresh gateway (example: `cases cases.jsonl --only K2`)
    Cases(CaseArguments),
    /// Measures the gateway beside nginx, a bare relay and none (example: `bench --seconds 5 --check`)
    Bench(BenchArguments),
    /// Counts the gateway's instructions per request and compares them with the recorded ones (example: `instructions --record`)
    Instructions {
        /// The gateway's executable; `whippletree` beside this one when absent
        #[arg(long)]
        gateway: Option<PathBuf>,
        /// The recorded figures
        #[arg(long, default_value = "loadtest/instructions.toml")]
        figures: PathBuf,
        /// Records the figures instead
        #[arg(long)]
        record: bool,
        /// Keeps what callgrind wrote in this folder, for `callgrind_annotate`
        #[arg(long)]
        profiles: Option<PathBuf>,
    },
    /// Plays scenarios and audits the books (example: `scenario loadtest/scenarios/outage.toml`)
    Scenario {
        /// Their files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The gateway's executable; `whippletree` beside this one when absent
        #[arg(long)]
        gateway: Option<PathBuf>,
        /// Instead of the scenario's own duration
        #[arg(long)]
        seconds: Option<u64>,
        /// Instead of the scenario's own number of clients
        #[arg(long)]
        clients: Option<usize>,
        /// Prints JSON lines
        #[arg(long)]
        json: bool,
    },
    /// The least that a proxy can be, as a yardstick (example: `relay --listen 127.0.0.1:9001 --upstream 127.0.0.1:9000`)
    Relay {
        /// Where it listens
        #[arg(long)]
        listen: SocketAddr,
        /// Where every request goes
        #[arg(long)]
        upstream: SocketAddr,
        /// Answers 200 to everything here
        #[arg(long)]
        health: Option<SocketAddr>,
    },
}

#[derive(clap::Args)]
struct CaseArguments {
    /// The file of cases
    file: PathBuf,
    /// The gateway's executable; `whippletree` beside this one when absent
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Only these ids or kinds, with commas between
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How many light cases are played at once
    #[arg(long, default_value_t = 4)]
    parallel: usize,
    /// Plays the cases of features that are still to come, too
    #[arg(long)]
    all: bool,
    /// Prints JSON lines
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct BenchArguments {
    /// The gateway's executable; `whippletree` beside this one when absent
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Leaves the gateway out
    #[arg(long)]
    no_gateway: bool,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Rounds over all subjects
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Chats (1 KB) per second
    #[arg(long, default_value_t = 1000)]
    chat_rate: u32,
    /// Agent turns (107 KB) per second
    #[arg(long, default_value_t = 200)]
    agent_rate: u32,
    /// Connections of the client
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Exits with 1 when the gateway costs more than twice nginx's processor time, or weighs too much
    #[arg(long)]
    check: bool,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Listening {
    /// Address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// HTTP/2 by prior knowledge
    #[arg(long)]
    http2: bool,
    /// TLS with a fresh certificate for this name, written as PEM to the standard output
    #[arg(long, value_name = "NAME")]
    tls: Option<String>,
    /// Writes every request as a JSON line here when stopped
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match command {
            Command::Steered { listening } => {
                let options = Options {
                    listen: Some(listening.listen),
                    http2: listening.http2,
                    ..Options::default()
                };
                steered::play(options).await.map(|()| ExitCode::SUCCESS)
            }
            Command::Vendor { script, listening } => vendor(read_script(&script)?, listening).await,
            Command::Generate {
                tokens_per_second,
                first_token_ms,
                output_tokens,
                listening,
            } => {
                let rules = Generator {
                    tokens_per_second,
                    first_token_ms,
                    output_tokens,
                    ..Generator::default()
                };
                vendor(Script::generate(rules), listening).await
            }
            Command::Cases(arguments) => play_cases(arguments).await,
            Command::Scenario {
                files,
                gateway,
                seconds,
                clients,
                json,
            } => {
                let gateway = gateway_or_default(gateway)?;
                let mut code = ExitCode::SUCCESS;
                for file in files {
                    let options = scenario::Options {
                        file,
                        gateway: gateway.clone(),
                        seconds,
                        clients,
                    };
                    if !tell_scenario(&options, json).await? {
                        code = ExitCode::FAILURE;
                    }
                }
                Ok(code)
            }
            Command::Bench(arguments) => measure(arguments).await,
            Command::Instructions {
                gateway,
                figures,
                record,
                profiles,
            } => {
                let gateway = gateway_or_default(gateway)?;
                count_instructions(&gateway, &figures, record, profiles.as_deref()).await
            }
            Command::Relay {
                listen,
                upstream,
                health,
            } => {
                relay::serve(listen, upstream, health).await?;
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

/// The gateway that was named, or the one that was built together with this program.
fn gateway_or_default(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named);
    }
    let own = std::env::current_exe().context("finding this program's path")?;
    Ok(own.with_file_name("whippletree"))
}

async fn play_cases(arguments: CaseArguments) -> anyhow::Result<ExitCode> {
    let options = cases::Options {
        cases: arguments.file,
        gateway: gateway_or_default(arguments.gateway)?,
        only: arguments.only,
        parallel: arguments.parallel,
        all: arguments.all,
    };
    let json = arguments.json;
    let played = cases::play(&options, |played| {
        if json {
            println!("{}", serde_json::to_string(played).unwrap_or_default());
            return;
        }
        let (word, reasons) = match &played.outcome {
            Outcome::Passed => ("passed", Vec::new()),
            Outcome::NotYet { reason } => ("not yet", vec![reason.clone()]),
            Outcome::Failed { reasons } => ("FAILED", reasons.clone()),
        };
        println!(
            "{} {} {word} ({} ms)",
            played.id, played.kind, played.took_ms
        );
        for reason in reasons {
            println!("     {reason}");
        }
    })
    .await?;
    let count =
        |is: fn(&Outcome) -> bool| played.iter().filter(|played| is(&played.outcome)).count();
    let passed = count(|outcome| matches!(outcome, Outcome::Passed));
    let failed = count(|outcome| matches!(outcome, Outcome::Failed { .. }));
    let not_yet = count(|outcome| matches!(outcome, Outcome::NotYet { .. }));
    println!("cases: {passed} passed, {failed} failed, {not_yet} not yet");
    println!("{passed} passed, {failed} failed, {not_yet} skipped");
    Ok(if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Plays one scenario; whether everything held.
async fn tell_scenario(options: &scenario::Options, json: bool) -> anyhow::Result<bool> {
    let outcome = scenario::run(options, |line| {
        if !json {
            println!("  {line}");
        }
    })
    .await?;
    let held = outcome.faults.is_empty();
    if json {
        println!("{}", serde_json::to_string(&outcome)?);
        return Ok(held);
    }
    println!(
        "{} {}: {} requests, {} whole, {} errors, {} left, {} vendor calls, first content p50 {} ms p99 {} ms",
        if held { "passed" } else { "FAILED" },
        outcome.name,
        outcome.requests,
        outcome.whole,
        outcome.errors,
        outcome.left,
        outcome.vendor_calls,
        outcome.first_content_ms.0,
        outcome.first_content_ms.1,
    );
    for fault in &outcome.faults {
        println!("     {fault}");
    }
    Ok(held)
}

async fn measure(arguments: BenchArguments) -> anyhow::Result<ExitCode> {
    let gateway = if arguments.no_gateway {
        None
    } else {
        Some(gateway_or_default(arguments.gateway)?)
    };
    let options = bench::Options {
        gateway,
        seconds: arguments.seconds,
        rounds: arguments.rounds,
        chat_rate: arguments.chat_rate,
        agent_rate: arguments.agent_rate,
        connections: arguments.connections,
    };
    let json = arguments.json;
    let report = bench::run(&options, |line| {
        if !json {
            println!("{line}");
        }
    })
    .await?;
    let verdicts = report.verdicts();
    if json {
        println!("{}", json!({"report": report, "verdicts": verdicts}));
    } else {
        println!("\n{}", report.markdown());
    }
    let failed = arguments.check && !verdicts.iter().all(bench::Verdict::holds);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Counts instructions, and records them or compares them.
async fn count_instructions(
    gateway: &Path,
    file: &Path,
    record: bool,
    profiles: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let counted = Figures::count(gateway, profiles, |line| println!("  {line}")).await?;
    println!("counted with {}", counted.counted_with);
    if record {
        std::fs::write(file, counted.text())
            .with_context(|| format!("writing {}", file.display()))?;
    }
    let recorded = Figures::read(file)?;
    if counted.counted_with != recorded.counted_with {
        println!(
            "the figures were recorded with {}: they bind less closely",
            recorded.counted_with
        );
    }
    let compared = counted.beside(&recorded);
    for one in &compared {
        println!("{one}");
    }
    let failed = compared.iter().filter(|one| !one.holds()).count();
    println!("{} passed, {failed} failed", compared.len() - failed);
    Ok(if failed > 0 {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn read_script(path: &Path) -> anyhow::Result<Script> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("reading script {}", path.display()))?;
    let json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let script = if json {
        Script::from_json(&text)
    } else {
        Script::from_toml(&text)
    };
    script.with_context(|| format!("reading script {}", path.display()))
}

async fn vendor(script: Script, listening: Listening) -> anyhow::Result<ExitCode> {
    let tls = listening
        .tls
        .as_deref()
        .map(|name| Identity::self_signed(&[name]))
        .transpose()?;
    if let Some(identity) = &tls {
        print!("{}", identity.pem());
    }
    let options = Options {
        listen: Some(listening.listen),
        tls,
        http2: listening.http2,
        ..Options::default()
    };
    let vendor = Vendor::bind(script, options).await?;
    println!("listening on {}", vendor.addr());
    tokio::signal::ctrl_c().await?;
    println!(
        "{} requests on {} connections",
        vendor.request_count(),
        vendor.connections()
    );
    if let Some(path) = listening.record {
        let mut lines = String::new();
        for request in vendor.requests() {
            lines.push_str(&steered::told(&request).to_string());
            lines.push('\n');
        }
        std::fs::write(&path, lines).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
