//! Asking a gateway in operation, over its admin plane.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use clap::Args;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

/// The variable that the admin plane's token is taken from. An argument would show in the list of
/// processes.
const TOKEN: &str = "WHIPPLETREE_ADMIN_TOKEN";

/// The largest answer in bytes.
const LARGEST: usize = 256 << 20;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Which gateway is asked.
#[derive(Debug, Args)]
pub(super) struct AdminPlane {
    /// The admin plane's address. Its token, if it wants one, is taken from the environment variable
    /// `WHIPPLETREE_ADMIN_TOKEN`.
    #[arg(
        long = "admin",
        value_name = "URL",
        env = "WHIPPLETREE_ADMIN",
        default_value = "http://127.0.0.1:8081"
    )]
    url: Uri,
}

/// A problem body (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl AdminPlane {
    /// Gets a path with its query.
    pub(super) fn get(&self, path: &str, query: &[(&str, String)]) -> anyhow::Result<Bytes> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let answer = async { tokio::time::timeout(PATIENCE, self.ask(path, query)).await };
        let (status, body) = runtime
            .block_on(answer)
            .context("the admin plane does not answer")?
            .with_context(|| format!("cannot ask the admin plane at {}", self.url))?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => bail!("the admin plane refused ({status}): {}", problem.detail),
            Err(_) => bail!("the admin plane refused ({status})"),
        }
    }

    async fn ask(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let scheme = self.url.scheme_str();
        ensure!(scheme == Some("http"), "expected an http URL");
        let host = self.url.host().context("expected a host in the URL")?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, self.url.port_u16().unwrap_or(80))).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let authority = self.url.authority().map_or(host, |a| a.as_str());
        let mut request = Request::get(path_and_query(path, query)).header(header::HOST, authority);
        if let Ok(token) = std::env::var(TOKEN) {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.trim()));
        }
        let exchange = async {
            let response = sender
                .send_request(request.body(Empty::<Bytes>::new())?)
                .await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            let body = body.map_err(|error| anyhow::anyhow!(error))?.to_bytes();
            anyhow::Ok((status, body))
        };
        tokio::pin!(exchange);
        tokio::select! {
            answer = &mut exchange => answer,
            ended = connection => {
                ended?;
                exchange.await
            }
        }
    }
}

fn path_and_query(path: &str, query: &[(&str, String)]) -> String {
    let mut text = path.to_owned();
    for (index, (name, value)) in query.iter().enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~,:".contains(&byte) {
                text.push(char::from(byte));
            } else {
                use std::fmt::Write as _;
                let _infallible = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_escaped() {
        let query = [
            ("tenant", "a&b=c d".to_owned()),
            ("from", "2026-11-01T00:00:00+01:00".to_owned()),
        ];
        assert_eq!(
            path_and_query("/x", &query),
            "/x?tenant=a%26b%3Dc%20d&from=2026-11-01T00:00:00%2B01:00"
        );
    }
}
