//! Where a configuration comes from, and loading it from there.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::diagnostics::Report;
use super::resolve::{self, Resolved, Surroundings};
use super::{Config, environment};

/// The file that is used when it lies in the working directory and no other is named.
pub const USUAL_FILE: &str = "whippletree.toml";

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The vendors' usual environment variables.
    Environment,
    /// A file.
    File(PathBuf),
}

impl Source {
    /// The named file, else `whippletree.toml` in the working directory, else the environment.
    pub fn choose(named: Option<PathBuf>) -> Self {
        match named {
            Some(path) => Self::File(path),
            None if Path::new(USUAL_FILE).exists() => Self::File(PathBuf::from(USUAL_FILE)),
            None => Self::Environment,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("environment"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// A configuration that was accepted.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Arc<Config>,
    /// Where it came from.
    pub source: Source,
    /// What is probably not meant so.
    pub warnings: Report,
    /// The file's form with all defaults, secrets masked; see [`super::view`].
    pub view: serde_json::Value,
    /// Every file that was read: the configuration itself, secrets, certificates.
    pub files: Vec<PathBuf>,
    /// SHA-256 over everything that was read, files and variables alike.
    pub fingerprint: [u8; 32],
}

/// Why no configuration could be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file says what it must not; each fault is named.
    #[error("{report}")]
    Invalid {
        /// The faults.
        report: Box<Report>,
        /// Every file that was read, or would have been were it there.
        files: Vec<PathBuf>,
    },
    /// There is no file and no vendor's variable is set.
    #[error(
        "no configuration: there is no {USUAL_FILE} here, and none of these variables is set: {}",
        environment::variables().collect::<Vec<_>>().join(", ")
    )]
    Nothing,
    /// The file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Loads and checks a configuration, with the process's own environment and files.
///
/// # Errors
/// [`LoadError`], with all faults at once.
pub fn load(source: &Source) -> Result<Loaded, LoadError> {
    let directory = match source {
        Source::Environment => PathBuf::new(),
        Source::File(path) => path.parent().map(Path::to_owned).unwrap_or_default(),
    };
    load_from(source, &Surroundings::of_process(directory))
}

/// Loads and checks a configuration.
///
/// # Errors
/// [`LoadError`], with all faults at once.
pub fn load_from(source: &Source, around: &Surroundings<'_>) -> Result<Loaded, LoadError> {
    let inputs = RefCell::new(Inputs::default());
    let variable = |name: &str| {
        let value = (around.variable)(name);
        inputs.borrow_mut().digest(name, value.as_deref());
        value
    };
    let file = |path: &Path| {
        let text = (around.file)(path);
        let mut inputs = inputs.borrow_mut();
        inputs.digest(&path.to_string_lossy(), text.as_deref().ok());
        inputs.files.push(path.to_owned());
        text
    };
    let around = &Surroundings {
        directory: around.directory.clone(),
        variable: &variable,
        file: &file,
        certificate: around.certificate,
        authority: around.authority,
    };
    let text = match source {
        Source::Environment => environment::text(around.variable).ok_or(LoadError::Nothing)?,
        Source::File(path) => (around.file)(path).map_err(|source| LoadError::Unreadable {
            path: path.clone(),
            source,
        })?,
    };
    let Resolved {
        config,
        view,
        document,
        faults,
    } = resolve::resolve(&source.to_string(), &text, around);
    let report = Report::new(document, faults);
    let inputs = inputs.take();
    match config {
        Some(config) => Ok(Loaded {
            config: Arc::new(config),
            source: source.clone(),
            warnings: report,
            view,
            fingerprint: inputs.digest.finalize().into(),
            files: inputs.files,
        }),
        None => Err(LoadError::Invalid {
            report: Box::new(report),
            files: inputs.files,
        }),
    }
}

/// What a configuration was made from.
#[derive(Default)]
struct Inputs {
    files: Vec<PathBuf>,
    digest: Sha256,
}

impl Inputs {
    fn digest(&mut self, name: &str, text: Option<&str>) {
        for part in [name, text.unwrap_or_default()] {
            self.digest.update(part.len().to_be_bytes());
            self.digest.update(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around<'a>(
        variable: &'a dyn Fn(&str) -> Option<String>,
        file: &'a dyn Fn(&Path) -> io::Result<String>,
    ) -> Surroundings<'a> {
        Surroundings {
            directory: PathBuf::new(),
            variable,
            file,
            certificate: &|_| Ok(()),
            authority: &|_| Ok(()),
        }
    }

    fn no_file(_: &Path) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    #[test]
    fn the_environment_alone_serves_direct_routes_on_loopback() {
        let variable = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-x".to_owned());
        let loaded = load_from(&Source::Environment, &around(&variable, &no_file)).unwrap();
        assert!(loaded.config.server.listen.ip().is_loopback());
        assert!(loaded.config.direct.is_some());
        assert_eq!(loaded.config.providers.len(), 1);
        assert_eq!(loaded.config.relay.as_ref().unwrap().as_str(), "openai");
        assert!(loaded.warnings.is_empty());
    }

    #[test]
    fn an_empty_environment_is_told_which_variables_help() {
        let refused = load_from(&Source::Environment, &around(&|_| None, &no_file));
        let message = refused.unwrap_err().to_string();
        assert!(message.contains(": OPENAI_API_KEY, "), "{message}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let source = Source::File(PathBuf::from("/nowhere/x.toml"));
        let refused = load_from(&source, &around(&|_| None, &no_file));
        assert_eq!(
            refused.unwrap_err().to_string(),
            "cannot read the configuration /nowhere/x.toml"
        );
    }

    #[test]
    fn a_certificate_that_does_not_fit_its_key_is_a_fault() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] =
            [(); 2].map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap());
        let write = |name: &str, text: String| {
            std::fs::write(directory.path().join(name), text).unwrap();
        };
        write("cert.pem", one.cert.pem());
        write("key.pem", other.signing_key.serialize_pem());
        write(
            "w.toml",
            "[server]\ntls = { cert = \"cert.pem\", key = \"key.pem\" }\n".into(),
        );
        let source = Source::File(directory.path().join("w.toml"));
        let refused = load(&source).unwrap_err().to_string();
        assert!(refused.contains("w.toml:2:16"), "{refused}");
        write("key.pem", one.signing_key.serialize_pem());
        assert!(load(&source).unwrap().config.server.tls.is_some());
    }
}
