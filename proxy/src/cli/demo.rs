//! `whippletree demo`: the product at work, without a key and without a network.
//!
//! A newcomer should see what a gateway is for before configuring one. So the demo starts scripted
//! vendors, the very gateway that `serve` starts, and an agent, and tells in six acts what happens
//! between them. Everything told is read back from the gateway's own record; the story only says
//! what was done to it. Limits: the vendors' words are filler, and all of it runs on one machine.

mod acts;
mod admin;
mod agent;
mod faults;
mod page;
mod stage;

use anyhow::Context as _;
use clap::Args;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::serve::{self, Stop};
use super::{Ending, say};
use page::Page;
use stage::{Ports, Stage};

/// Shows the gateway at work: scripted vendors, an agent, no key and no network.
///
/// The story takes a few seconds. Then the gateway stays up for your own requests until Ctrl-C. Its
/// record lies in a temporary directory, which is removed at the end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whippletree demo
  whippletree demo --once --json | jq 'select(.fact == \"exchange\").exchange.cost_usd'")]
pub(super) struct Demo {
    /// End when the story is told.
    #[arg(long)]
    once: bool,
    /// Print the story's facts as JSON, one a line.
    #[arg(long)]
    json: bool,
    /// Print the configuration that the demo runs on before its story.
    #[arg(long)]
    show_config: bool,
    /// The port of the data plane, 0 for a free one. Without it: 8080, or a free one when that is
    /// taken.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// The port of the admin plane, 0 for a free one. Without it: 8081, or a free one when that is
    /// taken.
    #[arg(long, value_name = "PORT")]
    admin_port: Option<u16>,
}

impl Demo {
    pub(super) fn run(self) -> anyhow::Result<Ending> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start")?;
        runtime.block_on(async {
            let mut stop = Stop::new().context("cannot listen for signals")?;
            let ports = Ports {
                data: self.port,
                admin: self.admin_port,
            };
            let stage = Stage::set_up(ports).await?;
            let show = async {
                self.play(&stage).await?;
                if !self.once {
                    std::future::pending::<()>().await;
                }
                anyhow::Ok(())
            };
            let played = tokio::select! {
                played = show => played,
                () = stop.asked() => Ok(()),
            };
            serve::wind_down(stage.gateway(), &mut stop).await;
            stage.clear().await?;
            played
        })?;
        Ok(Ending::Done)
    }

    async fn play(&self, stage: &Stage) -> anyhow::Result<()> {
        let mut page = if self.json {
            Page::json()
        } else {
            Page::text()
        };
        if self.show_config {
            page.verbatim(stage.config_text())?;
            page.fact("config", json!({ "toml": stage.config_text() }))?;
        }
        open(stage, &mut page)?;
        acts::play(stage, &mut page).await?;
        if self.once {
            return Ok(());
        }
        invite(stage, &mut page)
    }
}

fn open(stage: &Stage, page: &mut Page) -> anyhow::Result<()> {
    page.title("Whippletree: an agent, a gateway and three vendors, all on this machine")?;
    page.text_line(
        "The vendors are scripted and their words are filler. Token counts, prompt caching, waits and \
         times are as they happen; prices are the list prices of the models that are named.",
    )?;
    page.blank()?;
    let key = stage.key().expose_secret();
    let (base_url, admin_url) = (stage.base_url(), stage.admin_url());
    page.entry("base URL", &base_url)?;
    page.entry("key", key)?;
    page.entry("admin", &admin_url)?;
    for (route, targets) in stage.routes() {
        page.entry("model", &format!("{route:8} {}", targets.join(", else ")))?;
    }
    for note in stage.notes() {
        page.note(note)?;
    }
    page.fact(
        "started",
        json!({
            "base_url": base_url,
            "admin_url": admin_url,
            "key": key,
            "routes": stage.routes(),
            "ledger": stage.ledger(),
            "notes": stage.notes(),
        }),
    )
}

/// What a reader may do now.
fn invite(stage: &Stage, page: &mut Page) -> anyhow::Result<()> {
    page.title("Now you")?;
    let key = stage.key().expose_secret();
    let (base_url, admin_url) = (stage.base_url(), stage.admin_url());
    page.verbatim(&format!(
        "   curl {base_url}/chat/completions \\\n     \
         -H 'authorization: Bearer {key}' \\\n     \
         -H 'content-type: application/json' -H 'x-wt-task: mine' \\\n     \
         -d '{{\"model\": \"coder\", \"messages\": [{{\"role\": \"user\", \"content\": \"Hello\"}}]}}' -i\n\n   \
         whippletree usage --by task --admin {admin_url}\n\n   \
         OPENAI_BASE_URL={base_url} \\\n     \
         OPENAI_API_KEY={key} \\\n     \
         your-agent --model coder\n"
    ))?;
    page.blank()?;
    page.text_line("Everything stays up until Ctrl-C.")?;
    page.fact("up", json!({ "until": "SIGINT or SIGTERM" }))
}
