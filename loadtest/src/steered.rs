//! A vendor steered over standard input, for test suites in other languages.
//!
//! Each line is a JSON command and is answered by one JSON line: `{"script": {…}}` plays a script
//! from its first reply on, `{"requests": true}` tells all that was received. The vendor ends with
//! its input, so it cannot outlive the suite that started it.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use whippletree_loadtest::vendor::{Options, Request, Script, Vendor};

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Command {
    Requests(bool),
    Script(Box<Script>),
}

/// Plays until the input ends.
pub(crate) async fn play(options: Options) -> anyhow::Result<()> {
    let vendor = Vendor::bind(Script::default(), options).await?;
    let mut output = tokio::io::stdout();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    say(&mut output, &json!({ "listening": vendor.addr() })).await?;
    while let Some(line) = lines.next_line().await.context("reading commands")? {
        let answer = match serde_json::from_str(&line) {
            Ok(Command::Requests(true)) => {
                let requests: Vec<_> = vendor.requests().iter().map(told).collect();
                json!({ "requests": requests, "connections": vendor.connections() })
            }
            Ok(Command::Requests(false)) => json!({ "requests": [] }),
            Ok(Command::Script(script)) => match vendor.set_script(*script) {
                Ok(()) => json!({ "playing": true }),
                Err(error) => json!({ "error": error.to_string() }),
            },
            Err(error) => json!({ "error": error.to_string() }),
        };
        say(&mut output, &answer).await?;
    }
    vendor.stop().await;
    Ok(())
}

async fn say(output: &mut tokio::io::Stdout, answer: &Value) -> anyhow::Result<()> {
    output.write_all(format!("{answer}\n").as_bytes()).await?;
    Ok(output.flush().await?)
}

/// A request as a suite sees it; bytes that are no UTF-8 are replaced.
pub(crate) fn told(request: &Request) -> Value {
    json!({
        "number": request.number, "connection": request.connection, "method": request.method,
        "target": request.target, "headers": request.headers,
        "body": String::from_utf8_lossy(&request.body), "disconnected": request.disconnected.is_some(),
    })
}
