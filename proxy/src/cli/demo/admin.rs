//! Reading back what the gateway put on record.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use whippletree_loadtest::client::{Call, Ended};

use crate::exchange::Exchange;

/// How long a record is waited for. A call that its client left is settled when the gateway notices.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for.
const POLL: Duration = Duration::from_millis(5);

/// The admin plane of the demo's gateway.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admin {
    address: SocketAddr,
}

impl Admin {
    pub(super) const fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// The record of a request.
    ///
    /// # Errors
    /// It does not appear in time, or cannot be read.
    pub(super) async fn exchange(&self, request_id: &str) -> anyhow::Result<Exchange> {
        let path = format!("/admin/v1/requests/{request_id}");
        let look = async {
            loop {
                let (status, body) = self.ask(&path).await?;
                match status {
                    200 => return read(&path, &body),
                    404 => tokio::time::sleep(POLL).await,
                    status => bail!("{path} answers {status}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, look)
            .await
            .with_context(|| format!("the record of request {request_id} does not appear"))?
    }

    /// A page of the admin plane, as JSON.
    ///
    /// # Errors
    /// It is refused, or of another form.
    pub(super) async fn json<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        read(path, &self.text(path).await?)
    }

    /// A page of the admin plane.
    ///
    /// # Errors
    /// It is refused.
    pub(super) async fn text(&self, path: &str) -> anyhow::Result<String> {
        match self.ask(path).await? {
            (200, body) => Ok(body),
            (status, _) => bail!("{path} answers {status}"),
        }
    }

    /// Every item of a list, page by page.
    ///
    /// # Errors
    /// As [`Admin::json`].
    pub(super) async fn entries(&self) -> anyhow::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut cursor = String::new();
        loop {
            let page: Entries = self
                .json(&format!("/admin/v1/ledger?limit=1000{cursor}"))
                .await?;
            entries.extend(page.entries);
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(entries),
            }
        }
    }

    async fn ask(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let call = Call::get(path).header("host", &self.address.to_string());
        let answer = call.send(self.address).await;
        if answer.status == 0 || answer.ended != Ended::Clean {
            bail!("the admin plane does not answer {path}");
        }
        Ok((answer.status, answer.text()))
    }
}

/// An entry of the ledger, as far as it is told.
#[derive(Debug, Deserialize)]
pub(super) struct Entry {
    pub(super) cost_usd: whippletree_policies::units::Money,
}

#[derive(Debug, Deserialize)]
struct Entries {
    entries: Vec<Entry>,
    next_cursor: Option<String>,
}

fn read<T: DeserializeOwned>(path: &str, body: &str) -> anyhow::Result<T> {
    serde_json::from_str(body).with_context(|| format!("cannot read {path}"))
}
