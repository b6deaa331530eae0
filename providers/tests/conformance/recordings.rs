//! The recordings, read line by line.

use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

pub(crate) struct Recording {
    pub(crate) id: String,
    pub(crate) vendor: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) endpoint: String,
    pub(crate) streaming: bool,
    pub(crate) status: u16,
    pub(crate) request_body: Option<String>,
    pub(crate) response_headers: HeaderMap,
    pub(crate) response_body: Option<String>,
}

pub(crate) fn recordings() -> impl Iterator<Item = Recording> {
    let shared = std::env::var_os("WHIPPLETREE_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
        PathBuf::from,
    );
    let mut files: Vec<PathBuf> = std::fs::read_dir(shared.join("recordings"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    files.sort();
    files.into_iter().flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<Recording> = text
            .lines()
            .map(|line| recording(&serde_json::from_str(line).unwrap()))
            .collect();
        lines
    })
}

fn recording(value: &Value) -> Recording {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let body = |body: &str, encoding: &str| {
        let plain = value[encoding] != "base64";
        value[body].as_str().filter(|_| plain).map(str::to_owned)
    };
    Recording {
        id: text(&value["id"]),
        vendor: text(&value["vendor"]),
        host: text(&value["host"]),
        path: text(&value["path"]),
        endpoint: text(&value["tags"]["endpoint"]),
        streaming: value["tags"]["streaming"] == Value::Bool(true),
        status: u16::try_from(value["status"].as_u64().unwrap()).unwrap(),
        request_body: body("request_body", "request_encoding").filter(|body| !body.is_empty()),
        response_body: body("response_body", "encoding"),
        response_headers: headers(&value["response_headers"]),
    }
}

fn headers(value: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        if let (Ok(name), Some(Ok(value))) = (
            name.parse::<HeaderName>(),
            value.as_str().map(HeaderValue::from_str),
        ) {
            headers.append(name, value);
        }
    }
    headers
}
