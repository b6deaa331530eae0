//! From what the file says to what the gateway uses.
//!
//! [`super::read`] has checked the form; here the parts are checked against each other and against
//! the machine: names that must exist, hashes that must differ, secrets that must be there. Every
//! check reports and goes on, so one run finds all faults. A part that was dropped for a fault of
//! form is not reported again where others refer to it.

mod credentials;
mod providers;
mod routes;
mod tenants;

use std::collections::BTreeMap;
use std::io;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::document::Document;
use super::fault::{Fault, Path, Severity, chain};
use super::file::{File, ServerTable, TlsTable};
use super::read;
use super::secret::SecretSource;
use super::view;
use super::{Admin, AdminToken, Config, LogFormat, Server, Store, Telemetry, Tls};
use crate::keys;
use crate::tls::{self, TlsError};

/// What of the machine a configuration may ask for.
pub struct Surroundings<'a> {
    /// Relative paths of secrets and certificates start here.
    pub directory: PathBuf,
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a file.
    pub file: &'a dyn Fn(&FilePath) -> io::Result<String>,
    /// What is wrong with a certificate and its key.
    pub certificate: &'a dyn Fn(&Tls) -> Result<(), TlsError>,
    /// What is wrong with a file of authorities.
    pub authority: &'a dyn Fn(&FilePath) -> Result<(), TlsError>,
}

impl Surroundings<'static> {
    /// The process's own, for a file in `directory`.
    pub fn of_process(directory: PathBuf) -> Self {
        Self {
            directory,
            variable: &|name| std::env::var(name).ok(),
            file: &|path| std::fs::read_to_string(path),
            certificate: &|files| tls::ServerTls::new(files.clone()).map(|_| ()),
            authority: &|path| tls::client_config(Some(path), tls::Offer::Http1).map(|_| ()),
        }
    }
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// A configuration, or all that is wrong with it.
#[derive(Debug)]
pub struct Resolved {
    /// `None` when there was an error.
    pub config: Option<Config>,
    /// The file's form with all defaults, secrets masked; see [`super::view`].
    pub view: serde_json::Value,
    /// The text and its places.
    pub document: Document,
    /// Errors and warnings, in the order of the file.
    pub faults: Vec<Fault>,
}

/// Checks the text of a file called `name` and resolves it.
pub fn resolve(name: &str, text: &str, surroundings: &Surroundings<'_>) -> Resolved {
    let read::Read {
        document,
        file,
        faults,
    } = read::read(name, text);
    let mut resolver = Resolver {
        document,
        surroundings,
        faults,
        literals: file.as_ref().is_some_and(|file| file.allow_literal_secrets),
    };
    let view = file.as_ref().map(view::of).unwrap_or_default();
    let config = file.map(|file| resolver.config(&file));
    let Resolver {
        document,
        mut faults,
        ..
    } = resolver;
    faults.sort_by_key(|fault| (fault.span.start, fault.path.clone()));
    let refused = faults.iter().any(|fault| fault.severity == Severity::Error);
    Resolved {
        config: config.filter(|_| !refused),
        view,
        document,
        faults,
    }
}

struct Resolver<'a> {
    document: Document,
    surroundings: &'a Surroundings<'a>,
    faults: Vec<Fault>,
    literals: bool,
}

impl Resolver<'_> {
    fn config(&mut self, file: &File) -> Config {
        let server = self.server(&file.server);
        let admin = self.admin(file);
        if clash(server.listen, admin.listen) {
            self.listeners_clash(&server, &admin);
        }
        let providers = self.providers(&file.providers);
        let relay = self.relay(file.routing.relay.as_deref(), &providers);
        let routes = self.routes(&file.routes, &providers);
        let targets = self.targets(&file.targets, &providers);
        let unknown_model = self.unknown_model(&file.prices.unknown_model);
        let tenants = self.tenants(file, &providers);
        let keys = self.keys(&file.tenants, &tenants);
        self.warn_of_closed_doors(&server, &admin, tenants.is_empty());
        let store = match file.store.path.as_str() {
            ":memory:" => Store::Memory,
            path => Store::Sqlite(PathBuf::from(path)),
        };
        let telemetry = self.telemetry(file);
        Config {
            server,
            admin,
            store,
            providers,
            routes,
            direct: file.routing.direct.then(Default::default),
            relay,
            tenants,
            keys,
            targets,
            unknown_model,
            telemetry,
            hash: keys::to_hex(&Sha256::digest(self.document.text.as_bytes())),
        }
    }

    /// Reports an error about the value at a path.
    fn value_fault(&mut self, path: &Path, message: impl Into<String>) -> &mut Fault {
        let span = self.document.value_span(path);
        self.report(Fault::new(path, span, message))
    }

    /// Reports an error about the key at a path.
    fn key_fault(&mut self, path: &Path, message: impl Into<String>) -> &mut Fault {
        let span = self.document.key_span(path);
        self.report(Fault::new(path, span, message))
    }

    fn report(&mut self, fault: Fault) -> &mut Fault {
        let last = self.faults.len();
        self.faults.push(fault);
        #[expect(clippy::indexing_slicing, reason = "an element was pushed just now")]
        &mut self.faults[last]
    }

    fn server(&mut self, table: &ServerTable) -> Server {
        let tls = table.tls.as_ref().map(|table| self.tls(table));
        let defaults = Server::default();
        Server {
            listen: table.listen.0,
            workers: table.workers.unwrap_or(defaults.workers),
            max_body: table.max_body.0.0,
            max_inflight_bytes: table.max_inflight_bytes.0.0,
            header_timeout: table.header_timeout.0,
            body_timeout: table.body_timeout.0,
            idle_timeout: table.idle_timeout.0,
            max_head: usize::try_from(table.max_head.0.0).unwrap_or(defaults.max_head),
            max_headers: table.max_headers,
            max_connections: table.max_connections,
            drain_timeout: table.drain_timeout.0,
            tls,
        }
    }

    fn tls(&mut self, table: &TlsTable) -> Tls {
        let at = Path::of(["server", "tls"]);
        let before = self.faults.len();
        let authority = table.client_ca.as_ref();
        let tls = Tls {
            cert: self.readable(&at.key("cert"), &table.cert),
            key: self.readable(&at.key("key"), &table.key),
            client_ca: authority.map(|path| self.readable(&at.key("client_ca"), path)),
        };
        let readable = self.faults.len() == before;
        if readable && let Err(error) = (self.surroundings.certificate)(&tls) {
            self.value_fault(&at.key("cert"), chain(&error));
        }
        tls
    }

    fn admin(&mut self, file: &File) -> Admin {
        let at = Path::of(["admin", "tokens"]);
        let mut tokens: Vec<AdminToken> = Vec::new();
        let mut names: BTreeMap<&str, Path> = BTreeMap::new();
        for (index, table) in file.admin.tokens.iter().enumerate() {
            let at = at.index(index);
            self.unique(&mut names, &table.name, &at.key("name"), "admin token");
            let Some(secret) = self.secret(&at.key("token"), &table.token) else {
                continue;
            };
            if secret.expose_secret().len() < keys::SHORTEST {
                let message = format!("the admin token `{}` is too short", table.name);
                let fault = self.value_fault(&at.key("token"), message);
                fault.expected = Some(format!("expected at least {} bytes", keys::SHORTEST));
            }
            tokens.push(AdminToken {
                name: table.name.clone(),
                role: table.role,
                sha256: keys::hash(secret.expose_secret()),
            });
        }
        Admin {
            listen: file.admin.listen.0,
            tokens,
        }
    }

    fn listeners_clash(&mut self, server: &Server, admin: &Admin) {
        let (data, plane) = (
            Path::of(["server", "listen"]),
            Path::of(["admin", "listen"]),
        );
        // The one that was written is the one to change.
        let (wrong, other) = match self.document.node(&plane) {
            Some(_) => (&plane, &data),
            None => (&data, &plane),
        };
        let other_span = self.document.node(other).map(|node| node.span.clone());
        let message = format!(
            "`server.listen` ({}) and `admin.listen` ({}) are the same address",
            server.listen, admin.listen
        );
        let fault = self.value_fault(wrong, message);
        fault.expected = Some("expected another port".to_owned());
        fault.related = other_span.map(|span| (span, "the other listener"));
    }

    fn warn_of_closed_doors(&mut self, server: &Server, admin: &Admin, no_tenants: bool) {
        if no_tenants && !server.listen.ip().is_loopback() {
            let at = Path::of(["server", "listen"]);
            let span = self.document.value_span(&at);
            let message = format!(
                "the data plane listens on {}, but without tenants it answers loopback clients alone",
                server.listen
            );
            let help = "add a tenant with a key: `whippletree keys new TENANT NAME` prints it";
            let fault = Fault::new(&at, span, message).help(help.to_owned());
            self.report(fault.warning());
        }
        if admin.tokens.is_empty() && !admin.listen.ip().is_loopback() {
            let at = Path::of(["admin", "listen"]);
            let span = self.document.value_span(&at);
            let message = format!(
                "the admin plane listens on {}, but without tokens it answers loopback clients alone",
                admin.listen
            );
            let help = "add one to `admin.tokens`".to_owned();
            self.report(Fault::new(&at, span, message).help(help).warning());
        }
    }

    fn telemetry(&mut self, file: &File) -> Telemetry {
        let log = file.telemetry.log.clone();
        if let Err(error) = tracing_subscriber::EnvFilter::try_new(&log) {
            let at = Path::of(["telemetry", "log"]);
            let fault = self.value_fault(&at, format!("`telemetry.log` is not a filter: {error}"));
            fault.expected = Some(
                "expected error, warn, info, debug or trace, or such as \"info,hyper=debug\""
                    .to_owned(),
            );
        }
        let at_terminal = || {
            if io::stderr().is_terminal() {
                LogFormat::Text
            } else {
                LogFormat::Json
            }
        };
        Telemetry {
            log,
            log_format: file.telemetry.log_format.unwrap_or_else(at_terminal),
        }
    }

    /// A file that must be readable, relative to the configuration's directory.
    fn readable(&mut self, at: &Path, path: &str) -> PathBuf {
        let path = self.surroundings.directory.join(path);
        if let Err(error) = (self.surroundings.file)(&path) {
            let message = format!("{}: {}", path.display(), lower(&error.to_string()));
            let fault = self.value_fault(at, message);
            fault.expected = Some("expected a file that can be read".to_owned());
        }
        path
    }

    /// A secret of any form, read from where it is; `None` when it is not there.
    fn secret_text(&mut self, at: &Path, source: &SecretSource) -> Option<SecretString> {
        let text = match source {
            SecretSource::Literal(text) => {
                if !self.literals {
                    let fault = self.value_fault(at, format!("`{at}` is a secret in plain text"));
                    fault.expected =
                        Some("expected { env = \"NAME\" } or { file = \"path\" }".to_owned());
                    fault.help = Some(
                        "to keep it in this file all the same, set `allow_literal_secrets = true` at its top"
                            .to_owned(),
                    );
                    return None;
                }
                text.0.clone()
            }
            SecretSource::Reference(reference) => {
                if let Some(name) = &reference.env {
                    let value = (self.surroundings.variable)(name);
                    if value.as_deref().is_none_or(|value| value.trim().is_empty()) {
                        let state = if value.is_some() { "empty" } else { "not set" };
                        let message = format!("the environment variable `{name}` is {state}");
                        self.value_fault(&at.key("env"), message).expected =
                            Some(format!("expected the secret of `{at}`"));
                    }
                    value?
                } else {
                    let path = self.surroundings.directory.join(reference.file.as_deref()?);
                    match (self.surroundings.file)(&path) {
                        Ok(text) => text,
                        Err(error) => {
                            let message =
                                format!("{}: {}", path.display(), lower(&error.to_string()));
                            self.value_fault(&at.key("file"), message).expected =
                                Some(format!("expected the secret of `{at}`"));
                            return None;
                        }
                    }
                }
            }
        };
        let text = text.trim();
        if text.is_empty() {
            if !matches!(source, SecretSource::Reference(r) if r.env.is_some()) {
                self.value_fault(at, format!("the secret of `{at}` is empty"));
            }
            return None;
        }
        Some(SecretString::from(text))
    }

    /// A secret that will stand in a header.
    fn secret(&mut self, at: &Path, source: &SecretSource) -> Option<SecretString> {
        let secret = self.secret_text(at, source)?;
        let text = secret.expose_secret();
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let fault = self.value_fault(at, format!("the secret of `{at}` cannot be sent"));
            fault.expected = Some("expected visible ASCII characters without spaces".to_owned());
            return None;
        }
        Some(secret)
    }

    /// Reports a name that is there already.
    fn unique<'n>(
        &mut self,
        seen: &mut BTreeMap<&'n str, Path>,
        name: &'n str,
        at: &Path,
        what: &str,
    ) {
        if let Some(first) = seen.get(name) {
            let first = self.document.value_span(first);
            let fault = self.value_fault(at, format!("two {what}s are called `{name}`"));
            fault.expected = Some("expected another name".to_owned());
            fault.related = Some((first, "the first"));
        } else {
            seen.insert(name, at.clone());
        }
    }

    /// Reports a name that others could not refer to.
    fn name(&mut self, at: &Path, name: &str, slash: Slash) {
        let printable = !name.is_empty()
            && name.len() <= 128
            && !name.chars().any(|c| c.is_control() || c.is_whitespace());
        if printable && (slash == Slash::Allowed || !name.contains('/')) {
            return;
        }
        let fault = self.key_fault(at, format!("{name:?} cannot be a name"));
        fault.expected = Some(match slash {
            Slash::Allowed => "expected 1 to 128 bytes without white space".to_owned(),
            Slash::Refused => "expected 1 to 128 bytes without white space or `/`".to_owned(),
        });
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slash {
    Allowed,
    Refused,
}

/// Whether two listeners would take the same port of the same interface.
fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() != 0
        && a.port() == b.port()
        && (a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified())
}

/// The operating system's messages begin with a capital; ours do not.
fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_lowercase().chain(chars).collect())
        .unwrap_or_default()
}

/// A value shared by all that use it.
type Shared<K, V> = BTreeMap<K, Arc<V>>;

#[cfg(test)]
mod tests;
