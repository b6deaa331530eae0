//! The program as an operator runs it: start, reload, move to another port, stop.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is a test"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A gateway in a process and directory of its own.
struct Gateway {
    process: Child,
    log: BufReader<ChildStderr>,
    directory: tempfile::TempDir,
    data: SocketAddr,
    admin: SocketAddr,
}

impl Gateway {
    fn start(config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("whippletree.toml"), config).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_whippletree"))
            .arg("serve")
            .current_dir(directory.path())
            .env_clear()
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let serving = line(&mut log, "serving");
        let address = |name: &str| serving[name].as_str().unwrap().parse().unwrap();
        Self {
            data: address("address"),
            admin: address("admin"),
            process,
            log,
            directory,
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("whippletree.toml")
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    fn config(&self) -> Value {
        let (status, body) = get(self.admin, "/admin/v1/config");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The status of a question for a model, by its route.
    fn model(&self, name: &str) -> u16 {
        get(self.data, &format!("/v1/models/{name}")).0
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Reads log lines up to one with this message.
fn line(log: &mut BufReader<ChildStderr>, message: &str) -> Value {
    let mut text = String::new();
    loop {
        text.clear();
        assert_ne!(log.read_line(&mut text).unwrap(), 0, "the log ended");
        let event: Value = serde_json::from_str(&text).unwrap_or_default();
        if event["message"] == message {
            return event;
        }
    }
}

fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = started() + Duration::from_secs(20);
    while !holds() {
        assert!(started() < end, "{what}");
        std::thread::yield_now();
    }
}

#[expect(clippy::disallowed_methods, reason = "bounds a wait for a condition")]
fn started() -> Instant {
    Instant::now()
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn text(port: u16, route: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [store]\npath = \":memory:\"\n[providers.local]\nkind = \"ollama\"\n\
         [routes.{route}]\ntargets = [\"local/m\"]\n"
    )
}

// After a reload new routes were shown but not served, and removed ones still answered:
// https://github.com/agentgateway/agentgateway/issues/1774
#[test]
fn a_reload_serves_what_it_shows_on_the_port_that_it_names() {
    let mut gateway = Gateway::start(&text(0, "one"));
    assert_eq!((gateway.model("one"), gateway.model("two")), (200, 404));
    assert_eq!(gateway.config()["generation"], 1);
    let old = gateway.data;

    let port = free_port();
    std::fs::write(gateway.file(), text(port, "two")).unwrap();
    until("the change is taken over", || {
        gateway.config()["generation"] == 2
    });
    gateway.data.set_port(port);
    until("the new port answers", || {
        TcpStream::connect(gateway.data).is_ok()
    });
    assert_eq!((gateway.model("two"), gateway.model("one")), (200, 404));
    assert!(gateway.config()["config"]["routes"]["two"].is_object());
    until("the old port is closed", || {
        TcpStream::connect(old).is_err()
    });
}

#[test]
fn a_refused_file_is_reported_and_sighup_tries_again() {
    let mut gateway = Gateway::start(&text(0, "one"));
    std::fs::write(gateway.file(), "nonsense").unwrap();
    until("the file is refused", || {
        !gateway.config()["last_error"].is_null()
    });
    let metrics = || get(gateway.admin, "/metrics").1;
    assert!(metrics().contains("whippletree_config_last_reload_successful 0\n"));
    assert_eq!(gateway.config()["generation"], 1);
    assert_eq!(gateway.model("one"), 200);

    std::fs::write(gateway.file(), text(0, "one")).unwrap();
    gateway.signal("HUP");
    until("the file is accepted", || {
        gateway.config()["last_error"].is_null()
    });
    until("the metric says so", || {
        metrics().contains("whippletree_config_last_reload_successful 1\n")
    });

    gateway.signal("TERM");
    line(&mut gateway.log, "stopped");
    assert_eq!(gateway.process.wait().unwrap().code(), Some(0));
}

#[test]
fn a_port_that_is_taken_ends_with_one_and_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("whippletree.toml"),
        text(address.port(), "one"),
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_whippletree"))
        .arg("serve")
        .current_dir(directory.path())
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&address.to_string()), "{error}");
}
