//! One case being played, and what was found.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::case::{Case, padded};
use super::check;
use super::config::Settings;
use super::world::World;
use crate::client::{Answer, Call};
use crate::vendor::{Recording, Script};

/// A case with the gateway it is played against.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) case: &'a Case,
    binary: &'a Path,
    faults: Vec<String>,
    checks: usize,
}

impl<'a> Run<'a> {
    pub(super) fn new(case: &'a Case, binary: &'a Path) -> Self {
        Self {
            case,
            binary,
            faults: Vec::new(),
            checks: 0,
        }
    }

    /// What did not hold; an error when nothing was checked at all.
    pub(super) fn end(mut self) -> Vec<String> {
        if self.checks == 0 && self.faults.is_empty() {
            self.faults.push("not checked: nothing was".to_owned());
        }
        self.faults
    }

    /// Notes whether something holds.
    pub(super) fn expect(&mut self, holds: bool, what: impl Display) {
        self.checks += 1;
        if !holds {
            self.faults.push(what.to_string());
        }
    }

    /// Notes whether a number lies between two others.
    pub(super) fn expect_within<T: PartialOrd + Display + Copy>(
        &mut self,
        what: &str,
        got: T,
        least: T,
        most: T,
    ) {
        let holds = least <= got && got <= most;
        self.expect(holds, format!("{what} is {got}, {least} to {most} wanted"));
    }

    pub(super) fn fault(&mut self, what: impl Display) {
        self.faults.push(what.to_string());
    }

    /// Puts the name of a variant before the faults found while it was played.
    pub(super) fn label(&mut self, from: usize, variant: &str) {
        for fault in self.faults.iter_mut().skip(from) {
            *fault = format!("[{variant}] {fault}");
        }
    }

    /// How many faults there are so far.
    pub(super) fn count(&self) -> usize {
        self.faults.len()
    }

    /// The case's vendors and configuration.
    pub(super) async fn world(&self) -> anyhow::Result<World> {
        self.world_of(self.case.scripts()?, |_| {}).await
    }

    /// The case's configuration with changes, and these vendors.
    pub(super) async fn world_of(
        &self,
        scripts: BTreeMap<String, Script>,
        change: impl FnOnce(&mut Settings),
    ) -> anyhow::Result<World> {
        self.world_recording(scripts, Recording::Full, change).await
    }

    /// The same for load, where requests are not worth their memory.
    pub(super) async fn world_recording(
        &self,
        scripts: BTreeMap<String, Script>,
        recording: Recording,
        change: impl FnOnce(&mut Settings),
    ) -> anyhow::Result<World> {
        let mut settings = Settings::of(self.case)?;
        change(&mut settings);
        World::start(self.binary, scripts, &settings, recording).await
    }

    /// Plays the input as it stands and checks every assertion but those that `claimed` names.
    pub(super) async fn play(&mut self, claimed: &[&str]) -> anyhow::Result<()> {
        let world = self.world().await?;
        let sent = self.case.call().body;
        let answers = self.send_all(&world).await;
        for (name, wanted) in &self.case.input.rest {
            if name.starts_with("assert_") && !claimed.contains(&name.as_str()) {
                self.checks += 1;
                let faults = check::assertion(name, wanted, &world, &sent, &answers).await;
                self.faults.extend(faults);
            }
        }
        Ok(())
    }

    /// Sends the case's request with the modifiers that need no code.
    async fn send_all(&mut self, world: &World) -> Vec<Answer> {
        let client = &self.case.input.client;
        for name in client.rest.keys() {
            self.faults.push(format!("not checked: client.{name}"));
        }
        let mut call = self.case.call();
        call.leave_after = client.disconnect_after_ms.map(Duration::from_millis);
        call.leave_after_events = client.disconnect_after_events;
        if let Some(bytes) = client.body_size_mib.map(mib) {
            call.body = padded(bytes).into();
        }
        let mut answers = Vec::new();
        // A case that lists what each request costs has as many of them.
        let costs = self.case.input.rest.get("assert_ledger");
        let listed = costs.and_then(|ledger| ledger.get("nano_usd")?.as_array());
        let requests = client.sequence.or(listed.map(Vec::len));
        for _ in 0..requests.unwrap_or(1) {
            answers.extend(send(&call, world.gateway.addr, client.parallel.unwrap_or(1)).await);
        }
        answers
    }
}

/// Sends a request so many times at once.
pub(super) async fn send(call: &Call, addr: std::net::SocketAddr, parallel: usize) -> Vec<Answer> {
    if parallel == 1 {
        return vec![call.send(addr).await];
    }
    let call = Arc::new(call.clone());
    send_each((0..parallel).map(|_| Arc::clone(&call)), addr).await
}

/// Sends requests at once.
pub(super) async fn send_each(
    calls: impl IntoIterator<Item = Arc<Call>>,
    addr: std::net::SocketAddr,
) -> Vec<Answer> {
    let mut sending = JoinSet::new();
    for call in calls {
        sending.spawn(async move { call.send(addr).await });
    }
    sending.join_all().await
}

/// Mebibytes in bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of a test's bodies"
)]
pub(super) fn mib(size: f64) -> usize {
    (size * 1024.0 * 1024.0) as usize
}
