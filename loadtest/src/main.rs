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
        }
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
