//! The proxies under comparison, each a process of its own in front of the same vendor.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};

use super::cpu::{self, Busy};
use crate::cases::free_port;
use crate::client::{Call, Ended};
use crate::clock;

/// The key that every client shows, to the gateway and to those that do not ask.
pub const KEY: &str = "sk-bench-client-0123456789abcdef";

/// How long a subject may take to start; under valgrind all takes fifty times as long.
const PATIENCE: Duration = Duration::from_mins(1);

/// Something to send requests to.
#[derive(Debug)]
pub struct Subject {
    /// Its name in the report.
    pub name: &'static str,
    /// Where it listens.
    pub addr: SocketAddr,
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    folder: PathBuf,
}

impl Process {
    /// Whether it has ended within two seconds.
    fn ends(&mut self) -> bool {
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Asked politely, a master takes its workers with it; killed, it would leave them behind.
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").arg(pid).stderr(Stdio::null()).status();
        if asked.is_err() || !self.ends() {
            for pid in cpu::family(self.child.id()) {
                let _ = Command::new("kill")
                    .args(["-KILL", &pid.to_string()])
                    .stderr(Stdio::null())
                    .status();
            }
            // It is found dead or killed; either way it is over.
            let _ = self.child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Subject {
    /// The vendor itself.
    pub fn direct(vendor: SocketAddr) -> Self {
        Self {
            name: "direct",
            addr: vendor,
            process: None,
        }
    }

    /// nginx, tuned as one would for this: kept connections both ways, bodies in memory, no
    /// buffering of answers, no log, a worker per core. `None` when it is not installed.
    ///
    /// # Errors
    ///
    /// When it is installed but does not start.
    pub async fn nginx(vendor: SocketAddr) -> anyhow::Result<Option<Self>> {
        let found = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
        let Some(program) = found.iter().map(Path::new).find(|path| path.exists()) else {
            return Ok(None);
        };
        let (folder, addr) = (folder("nginx")?, free_port()?);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let here = folder.display();
        let config = format!(
            "user root;\ndaemon off;\nworker_processes {cores};\npid {here}/pid;\nerror_log {here}/log crit;\n\
             events {{ worker_connections 8192; }}\n\
             http {{\n  access_log off;\n  tcp_nodelay on;\n  client_max_body_size 64m;\n\
             client_body_buffer_size 1m;\n  client_body_temp_path {here}/body;\n  proxy_temp_path {here}/proxy;\n\
             fastcgi_temp_path {here}/f;\n  uwsgi_temp_path {here}/u;\n  scgi_temp_path {here}/s;\n\
             keepalive_timeout 300s;\n  keepalive_requests 10000000;\n\
             upstream vendor {{ server {vendor}; keepalive 512; keepalive_requests 10000000; }}\n\
             server {{\n    listen {addr} backlog=4096;\n    location / {{\n      proxy_pass http://vendor;\n\
             proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n\
             proxy_read_timeout 300s;\n    }}\n  }}\n}}\n"
        );
        let path = folder.join("nginx.conf");
        std::fs::write(&path, config)?;
        let mut command = Command::new(program);
        command.arg("-p").arg(&folder).arg("-c").arg(&path);
        Ok(Some(start("nginx", command, folder, addr, addr).await?))
    }

    /// This program as a bare relay.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn relay(vendor: SocketAddr) -> anyhow::Result<Self> {
        let (folder, addr) = (folder("relay")?, free_port()?);
        let mut command =
            Command::new(std::env::current_exe().context("finding this program's path")?);
        command.args([
            "relay",
            "--listen",
            &addr.to_string(),
            "--upstream",
            &vendor.to_string(),
        ]);
        start("bare hyper relay", command, folder, addr, addr).await
    }

    /// The gateway with a tenant's key, records and ledger in a file, and metrics.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn gateway(binary: &Path, vendor: SocketAddr) -> anyhow::Result<Self> {
        Self::serve(Command::new(binary), vendor, "", "warn").await
    }

    /// The same with one worker and a log line for every request, its instructions counted by
    /// callgrind into `counts`.
    ///
    /// # Errors
    ///
    /// When valgrind is not installed, or the gateway does not start under it.
    pub async fn counted(binary: &Path, vendor: SocketAddr, counts: &Path) -> anyhow::Result<Self> {
        let mut out = std::ffi::OsString::from("--callgrind-out-file=");
        out.push(counts);
        let mut command = Command::new("valgrind");
        // Threads take turns: the count is then the same whichever would have run first.
        command
            .args([
                "--tool=callgrind",
                "--fair-sched=yes",
                "--separate-threads=no",
            ])
            .arg(out)
            .arg(binary);
        Self::serve(command, vendor, "workers = 1\n", "info").await
    }

    async fn serve(
        mut command: Command,
        vendor: SocketAddr,
        server: &str,
        log: &str,
    ) -> anyhow::Result<Self> {
        let (folder, addr, admin) = (folder("gateway")?, free_port()?, free_port()?);
        let digest = Sha256::digest(KEY.as_bytes());
        let hex = digest
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .concat();
        let config = format!(
            "allow_literal_secrets = true\n[server]\nlisten = \"{addr}\"\n{server}[admin]\nlisten = \"{admin}\"\n\
             [store]\npath = \"{}/bench.db\"\n[telemetry]\nlog = \"{log}\"\n\
             [prices]\nunknown_model = {{ input = \"1.00\", output = \"2.00\", per = 1_000_000 }}\n\
             [providers.v]\nkind = \"openai\"\nbase_url = \"http://{vendor}/v1\"\nkeys = [\"sk-vendor\"]\n\
             [routes.m]\ntargets = [\"v/m\"]\n\
             [tenants.t]\nkeys = [{{ name = \"k\", sha256 = \"{hex}\" }}]\n",
            folder.display()
        );
        let path = folder.join("whippletree.toml");
        std::fs::write(&path, config)?;
        command.arg("serve").arg("--config").arg(&path);
        start("whippletree", command, folder, addr, admin).await
    }

    /// Asks it to stop and waits until it has, however long that takes.
    ///
    /// # Errors
    ///
    /// When it cannot be asked, or did not end well.
    pub fn stop(mut self) -> anyhow::Result<()> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let pid = process.child.id().to_string();
        let asked = Command::new("kill").arg(pid).status()?;
        ensure!(asked.success(), "{} cannot be stopped", self.name);
        let status = process.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }

    /// Its processes.
    pub fn pids(&self) -> Vec<u32> {
        self.process
            .as_ref()
            .map_or_else(Vec::new, |process| cpu::family(process.child.id()))
    }

    /// Its time on processors so far; `None` for the vendor itself.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn busy(&self) -> anyhow::Result<Option<Busy>> {
        let pids = self.pids();
        if pids.is_empty() {
            Ok(None)
        } else {
            Busy::of(&pids).map(Some)
        }
    }

    /// The resident memory of all its processes in bytes.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.pids().into_iter().map(cpu::resident_bytes).sum()
    }
}

async fn start(
    name: &'static str,
    mut command: Command,
    folder: PathBuf,
    addr: SocketAddr,
    ready: SocketAddr,
) -> anyhow::Result<Subject> {
    let log = File::create(folder.join("output"))?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .current_dir(&folder);
    let child = command
        .spawn()
        .with_context(|| format!("starting {name}"))?;
    let mut process = Process { child, folder };
    let begun = clock::now();
    while matches!(
        Call::get("/readyz").send(ready).await.ended,
        Ended::Refused | Ended::Reset
    ) {
        let waited = clock::now().saturating_duration_since(begun);
        if process.child.try_wait()?.is_some() || waited > PATIENCE {
            let said = std::fs::read_to_string(process.folder.join("output")).unwrap_or_default();
            bail!("{name} did not start: {said}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(Subject {
        name,
        addr,
        process: Some(process),
    })
}

pub(super) fn folder(name: &str) -> anyhow::Result<PathBuf> {
    let name = format!(
        "whippletree-bench-{name}-{}-{:x}",
        std::process::id(),
        rand::random::<u32>()
    );
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}
