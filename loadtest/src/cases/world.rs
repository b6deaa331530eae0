//! Everything a case is played with: its vendors and a fresh gateway process.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::process::{Child, Command};

use super::config::Settings;
use crate::client::{Answer, Call};
use crate::clock;
use crate::vendor::{Options, Recording, Script, Vendor};

/// How long a gateway may take to be ready.
const START_LIMIT: Duration = Duration::from_secs(15);

/// Vendors and a gateway; gone when dropped.
#[derive(Debug)]
pub(crate) struct World {
    /// By the case's names.
    pub(crate) vendors: BTreeMap<String, Vendor>,
    /// The gateway.
    pub(crate) gateway: Gateway,
}

impl World {
    /// Starts the vendors, then a gateway that knows all of them but the traps.
    ///
    /// # Errors
    ///
    /// When a script cannot be played or the gateway does not become ready.
    pub(crate) async fn start(
        binary: &Path,
        scripts: BTreeMap<String, Script>,
        settings: &Settings,
        recording: Recording,
    ) -> anyhow::Result<Self> {
        let mut vendors = BTreeMap::new();
        let mut known = Vec::new();
        for (name, script) in scripts {
            let dialect = script
                .dialect
                .clone()
                .unwrap_or_else(|| "openai".to_owned());
            let options = Options {
                recording,
                ..Options::default()
            };
            let vendor = Vendor::bind(script, options)
                .await
                .with_context(|| format!("starting vendor {name}"))?;
            if name != "TRAP" {
                known.push((name.clone(), dialect, vendor.addr()));
            }
            vendors.insert(name, vendor);
        }
        let gateway = Gateway::start(binary, settings, &known).await?;
        Ok(Self { vendors, gateway })
    }

    /// A vendor by name.
    ///
    /// # Errors
    ///
    /// When the case has none of that name.
    pub(crate) fn vendor(&self, name: &str) -> anyhow::Result<&Vendor> {
        self.vendors
            .get(name)
            .with_context(|| format!("the case has no vendor {name}"))
    }

    /// Requests that all vendors got.
    pub(crate) fn attempts(&self) -> u64 {
        self.vendors.values().map(Vendor::request_count).sum()
    }
}

/// A gateway process with a configuration of its own.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// The data plane.
    pub(crate) addr: SocketAddr,
    /// The admin plane.
    pub(crate) admin: SocketAddr,
    child: Child,
    folder: PathBuf,
    known: Vec<(String, String, SocketAddr)>,
}

impl Gateway {
    async fn start(
        binary: &Path,
        settings: &Settings,
        known: &[(String, String, SocketAddr)],
    ) -> anyhow::Result<Self> {
        let folder = folder()?;
        let (addr, admin) = (free_port()?, free_port()?);
        let config = folder.join("whippletree.toml");
        std::fs::write(&config, settings.text(addr, admin, known)?)?;
        let log = std::fs::File::create(folder.join("log"))?;
        let child = Command::new(binary)
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        let mut gateway = Self {
            addr,
            admin,
            child,
            folder,
            known: known.to_vec(),
        };
        gateway.ready().await?;
        Ok(gateway)
    }

    async fn ready(&mut self) -> anyhow::Result<()> {
        let started = clock::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "the gateway ended at start ({status}): {}",
                    last_lines(&self.log())
                );
            }
            if self.ask("/readyz").await.status == 200 {
                return Ok(());
            }
            if clock::now().saturating_duration_since(started) > START_LIMIT {
                bail!(
                    "the gateway was not ready within {START_LIMIT:?}: {}",
                    last_lines(&self.log())
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What it wrote to its standard output and error.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Its configuration file.
    pub(crate) fn config_path(&self) -> PathBuf {
        self.folder.join("whippletree.toml")
    }

    /// Writes its configuration anew, without telling it.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn write_config(
        &self,
        settings: &Settings,
        listen: SocketAddr,
    ) -> anyhow::Result<()> {
        Ok(std::fs::write(
            self.config_path(),
            settings.text(listen, self.admin, &self.known)?,
        )?)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap_or(0)
    }

    /// Its resident memory in bytes.
    ///
    /// # Errors
    ///
    /// When the process is gone.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        crate::bench::cpu::resident_bytes(self.pid())
    }

    /// An answer of the admin plane.
    pub(crate) async fn ask(&self, path: &str) -> Answer {
        let call = Call {
            timeout: Duration::from_secs(5),
            ..Call::get(path)
        };
        call.send(self.admin).await
    }

    /// Rows of an admin list: all of `name` on the first page.
    ///
    /// # Errors
    ///
    /// When the answer is no such list.
    pub(crate) async fn rows(&self, path: &str, name: &str) -> anyhow::Result<Vec<Value>> {
        let answer = self.ask(path).await;
        let json = answer.json();
        let rows = json.get(name).and_then(Value::as_array);
        rows.cloned()
            .with_context(|| format!("GET {path} gave {} without {name}", answer.status))
    }

    /// The exchange records, newest first, once there are at least `count`.
    ///
    /// # Errors
    ///
    /// When they do not appear within five seconds.
    pub(crate) async fn exchanges(&self, count: usize) -> anyhow::Result<Vec<Value>> {
        self.until("/admin/v1/requests?limit=1000", "requests", |rows| {
            rows.len() >= count
        })
        .await
    }

    /// The ledger once `done` holds of its entries.
    ///
    /// # Errors
    ///
    /// When it does not within five seconds.
    pub(crate) async fn ledger(
        &self,
        done: impl Fn(&[Value]) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        self.until("/admin/v1/ledger?limit=1000", "entries", done)
            .await
    }

    async fn until(
        &self,
        path: &str,
        name: &str,
        done: impl Fn(&[Value]) -> bool,
    ) -> anyhow::Result<Vec<Value>> {
        let started = clock::now();
        loop {
            let rows = self.rows(path, name).await?;
            if done(&rows) {
                return Ok(rows);
            }
            if clock::now().saturating_duration_since(started) > Duration::from_secs(5) {
                bail!(
                    "GET {path} had {} {name}, none of them what was waited for",
                    rows.len()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Killing fails only where it has ended; the folder is in the system's temporary one.
        let _ = self.child.start_kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn folder() -> anyhow::Result<PathBuf> {
    let name = format!(
        "whippletree-cases-{}-{:x}",
        std::process::id(),
        rand::random::<u64>()
    );
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// A port that was free a moment ago.
///
/// # Errors
///
/// When there is none.
pub(crate) fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines
        .get(lines.len().saturating_sub(8)..)
        .unwrap_or_default()
        .join(" | ")
}
