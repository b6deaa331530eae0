//! What the story plays on: three scripted vendors, a gateway before them, and a directory for its
//! configuration and record that is gone afterwards.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;
use whippletree_loadtest::vendor::{Generator, Options, Recording, Script, Vendor};

use super::admin::Admin;
use crate::boot::{BootError, Whippletree};
use crate::config::load::{Source, load};
use crate::keys;

/// Where the data plane usually listens.
const USUAL_PORT: u16 = 8080;
/// Where the admin plane usually listens.
const USUAL_ADMIN_PORT: u16 = 8081;

/// The ports that were asked for; 0 is any free one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// Of the data plane.
    pub(super) data: Option<u16>,
    /// Of the admin plane.
    pub(super) admin: Option<u16>,
}

/// Everything that runs. Clear it with [`Stage::clear`]; dropping it clears it too, in silence.
#[derive(Debug)]
pub(super) struct Stage {
    /// First, so that it stops before what it stands on is gone.
    gateway: Whippletree,
    /// Serves "coder".
    pub(super) alpha: Vendor,
    /// Stands by.
    pub(super) beta: Vendor,
    /// Serves "planner", with two keys.
    pub(super) gamma: Vendor,
    directory: TempDir,
    key: SecretString,
    config_text: String,
    /// Each route's name and targets.
    routes: Vec<(String, Vec<String>)>,
    notes: Vec<String>,
}

impl Stage {
    /// Starts vendors and gateway.
    ///
    /// # Errors
    /// A directory or file cannot be made, or a port cannot be listened on.
    pub(super) async fn set_up(ports: Ports) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("whippletree-demo-")
            .tempdir()
            .with_context(|| {
                let parent = std::env::temp_dir();
                format!("cannot make a directory in {}", parent.display())
            })?;
        let [alpha, beta, gamma] = [vendor().await?, vendor().await?, vendor().await?];
        for name in ["alpha", "beta", "gamma-1", "gamma-2"] {
            write(
                &directory.path().join(format!("{name}.key")),
                &format!("sk-{name}-of-a-scripted-vendor\n"),
            )?;
        }
        let key = keys::generate();
        let path = directory.path().join("whippletree.toml");
        let text = |[data, admin]: [SocketAddr; 2]| {
            configuration(&Written {
                data,
                admin,
                ledger: &ledger(directory.path()),
                vendors: [alpha.addr(), beta.addr(), gamma.addr()],
                key: &key,
            })
        };
        let (gateway, config_text, notes) = start(ports, &path, text)?;
        let config = &gateway.live().applied().loaded.config;
        let routes = config.routes.values().map(|route| {
            let targets = route.targets.iter().map(|target| target.id.to_string());
            (route.id.to_string(), targets.collect())
        });
        let routes = routes.collect();
        Ok(Self {
            gateway,
            alpha,
            beta,
            gamma,
            directory,
            key,
            config_text,
            routes,
            notes,
        })
    }

    pub(super) const fn gateway(&self) -> &Whippletree {
        &self.gateway
    }

    pub(super) const fn data_address(&self) -> SocketAddr {
        self.gateway.data_address()
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.gateway.data_address())
    }

    pub(super) fn admin_url(&self) -> String {
        format!("http://{}", self.gateway.admin_address())
    }

    pub(super) const fn admin(&self) -> Admin {
        Admin::new(self.gateway.admin_address())
    }

    /// The virtual key that the agent shows.
    pub(super) const fn key(&self) -> &SecretString {
        &self.key
    }

    pub(super) fn config_text(&self) -> &str {
        &self.config_text
    }

    pub(super) fn ledger(&self) -> PathBuf {
        ledger(self.directory.path())
    }

    pub(super) fn routes(&self) -> &[(String, Vec<String>)] {
        &self.routes
    }

    /// What came otherwise than usual.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Stops everything and removes the directory.
    ///
    /// # Errors
    /// The directory cannot be removed.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        // Waits for its threads and the database.
        drop(self.gateway);
        for vendor in [self.alpha, self.beta, self.gamma] {
            vendor.stop().await;
        }
        let path = self.directory.path().to_owned();
        self.directory
            .close()
            .with_context(|| format!("cannot remove {}", path.display()))
    }
}

fn ledger(directory: &Path) -> PathBuf {
    directory.join("ledger.db")
}

/// A vendor that answers as a model would.
async fn vendor() -> anyhow::Result<Vendor> {
    let script = Script::generate(Generator {
        tokens_per_second: 500,
        first_token_ms: 20,
        output_tokens: 40,
        ..Generator::default()
    });
    let options = Options {
        recording: Recording::Heads,
        ..Options::default()
    };
    Vendor::bind(script, options)
        .await
        .context("cannot start a scripted vendor")
}

/// Starts the gateway. A usual port that is taken is replaced by a free one, and that is said; a
/// port that was asked for is not.
fn start(
    ports: Ports,
    path: &Path,
    text: impl Fn([SocketAddr; 2]) -> String,
) -> anyhow::Result<(Whippletree, String, Vec<String>)> {
    let on =
        |port: Option<u16>, usual| SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(usual)));
    let mut data = on(ports.data, USUAL_PORT);
    let mut admin = on(ports.admin, USUAL_ADMIN_PORT);
    let mut notes = Vec::new();
    loop {
        let config_text = text([data, admin]);
        write(path, &config_text)?;
        let loaded = load(&Source::File(path.to_owned()))
            .context("the demo's own configuration is refused")?;
        let taken = match Whippletree::start(loaded) {
            Ok(gateway) => return Ok((gateway, config_text, notes)),
            Err(BootError::Listen { address, source }) if is_taken(&source) => address,
            Err(error) => return Err(error).context("the gateway does not start"),
        };
        let (moved, asked, plane) = if taken == data {
            (&mut data, ports.data, "gateway")
        } else {
            (&mut admin, ports.admin, "admin plane")
        };
        if asked.is_some() || taken.port() == 0 {
            anyhow::bail!("{taken} is in use; choose another port, or 0 for a free one");
        }
        notes.push(format!(
            "Port {} is in use on this machine, so the {plane} has taken a free one.",
            taken.port()
        ));
        moved.set_port(0);
    }
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// What differs from one demo's configuration to the next.
struct Written<'a> {
    data: SocketAddr,
    admin: SocketAddr,
    ledger: &'a Path,
    vendors: [SocketAddr; 3],
    key: &'a SecretString,
}

fn configuration(written: &Written<'_>) -> String {
    let Written {
        data,
        admin,
        ledger,
        vendors: [alpha, beta, gamma],
        key,
    } = written;
    let ledger = toml::Value::from(ledger.to_string_lossy().as_ref());
    let sha256 = keys::to_hex(&keys::hash(key.expose_secret()));
    format!(
        r#"[server]
listen = "{data}"

[admin]
listen = "{admin}"

[store]
path = {ledger}

# Three scripted vendors that speak OpenAI's dialect; their models have OpenAI's list prices.
[providers.alpha]
kind = "openai"
base_url = "http://{alpha}/v1"
keys = [{{ file = "alpha.key" }}]

[providers.beta]
kind = "openai"
base_url = "http://{beta}/v1"
keys = [{{ file = "beta.key" }}]

[providers.gamma]
kind = "openai"
base_url = "http://{gamma}/v1"
keys = [{{ file = "gamma-1.key" }}, {{ file = "gamma-2.key" }}]

# Agents ask for a route by its name; its targets are tried in order.
[routes.coder]
targets = ["alpha/gpt-5.6-terra", "beta/gpt-5.6-luna"]
retry = {{ base = "200ms", max_wait = "10s" }}

[routes.planner]
targets = ["gamma/gpt-5.6-sol", "beta/gpt-5.6-luna"]
retry = {{ base = "200ms", max_wait = "10s" }}

[tenants.demo]
keys = [
  {{ name = "agent", sha256 = "{sha256}" }},
]
"#
    )
}
