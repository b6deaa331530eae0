use std::sync::atomic::{AtomicUsize, Ordering};

use secrecy::ExposeSecret as _;

use super::*;
use crate::config::load::Source;

/// Counts what it is told.
#[derive(Default)]
struct Counter {
    taken: AtomicUsize,
    refused: AtomicUsize,
}

impl Follower for Arc<Counter> {
    fn take_over(&self, _: &Config, new: &Arc<Config>) -> anyhow::Result<()> {
        anyhow::ensure!(new.server.max_headers != 11, "the port is taken");
        self.taken.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn reloaded(&self, refused: Option<&Refused>) {
        self.refused
            .fetch_add(usize::from(refused.is_some()), Ordering::SeqCst);
    }
}

/// A configuration in a directory of its own, and who works by it.
struct Setting {
    directory: tempfile::TempDir,
    live: Arc<Live>,
    counter: Arc<Counter>,
}

const FIRST: &str = "[providers.a]\nkind = \"ollama\"\n";
const SECOND: &str = "[providers.b]\nkind = \"ollama\"\n";

impl Setting {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("whippletree.toml");
        std::fs::write(&path, text).unwrap();
        let counter = Arc::new(Counter::default());
        let live = Live::new(load(&Source::File(path)).unwrap(), Arc::clone(&counter));
        Self {
            directory,
            live: Arc::new(live),
            counter,
        }
    }

    fn write(&self, text: &str) {
        std::fs::write(self.directory.path().join("whippletree.toml"), text).unwrap();
    }

    fn provider(&self) -> String {
        let applied = self.live.applied();
        let first = applied.loaded.config.providers.keys().next();
        first.unwrap().to_string()
    }
}

#[test]
fn a_reload_puts_the_new_configuration_in_force() {
    let setting = Setting::new(FIRST);
    let before = setting.live.status();
    setting.write(SECOND);
    let reloaded = setting.live.reload(Cause::Order).unwrap();
    assert!(matches!(reloaded, Reloaded::Changed { generation: 2, .. }));
    assert_eq!(setting.provider(), "b");
    assert_eq!(setting.counter.taken.load(Ordering::SeqCst), 1);
    let after = setting.live.status();
    assert_ne!(before.hash, after.hash);
    assert_eq!(after.generation, 2);
    assert!(after.config["providers"]["b"].is_object());
}

#[test]
fn what_did_not_change_is_no_new_generation() {
    let setting = Setting::new(FIRST);
    assert_eq!(
        setting.live.reload(Cause::Signal).unwrap(),
        Reloaded::Unchanged
    );
    assert_eq!(setting.live.status().generation, 1);
    assert_eq!(setting.counter.taken.load(Ordering::SeqCst), 0);
}

// The refused file was shown as if it were in force:
// https://github.com/agentgateway/agentgateway/pull/3035
#[test]
fn a_refused_file_leaves_the_old_one_in_force_and_is_reported_until_mended() {
    let setting = Setting::new(FIRST);
    let hash = setting.live.status().hash;
    setting.write("[providers.b]\nkind = \"olama\"\n");
    let error = setting.live.reload(Cause::Change).unwrap_err();
    assert!(
        error.to_string().contains("did you mean \"ollama\"?"),
        "{error}"
    );
    let status = setting.live.status();
    assert_eq!((status.generation, &status.hash), (1, &hash));
    assert!(
        status
            .last_error
            .unwrap()
            .message
            .contains("whippletree.toml:2:8")
    );
    assert!(status.config["providers"]["a"].is_object());
    assert_eq!(setting.provider(), "a");
    assert_eq!(setting.counter.refused.load(Ordering::SeqCst), 1);

    setting.write(SECOND);
    setting.live.reload(Cause::Change).unwrap();
    assert_eq!(setting.live.status().last_error, None);
}

#[test]
fn a_reload_back_to_the_file_in_force_clears_the_error() {
    let setting = Setting::new(FIRST);
    setting.write("nonsense");
    setting.live.reload(Cause::Change).unwrap_err();
    setting.write(FIRST);
    assert_eq!(
        setting.live.reload(Cause::Change).unwrap(),
        Reloaded::Unchanged
    );
    assert_eq!(setting.live.refused(), None);
}

#[test]
fn a_configuration_that_cannot_be_taken_over_is_refused() {
    let setting = Setting::new(FIRST);
    setting.write(&format!("[server]\nmax_headers = 11\n{SECOND}"));
    setting.live.reload(Cause::Order).unwrap_err();
    assert_eq!(setting.provider(), "a");
    let refused = setting.live.refused().unwrap();
    assert_eq!(
        refused.message,
        "the new configuration cannot be taken over: the port is taken"
    );
}

#[test]
fn what_waits_for_a_restart_is_named() {
    let setting = Setting::new(FIRST);
    setting.write(&format!(
        "[store]\npath = \":memory:\"\n[server]\nlisten = \"127.0.0.1:0\"\n{FIRST}"
    ));
    let reloaded = setting.live.reload(Cause::Order).unwrap();
    let Reloaded::Changed { at_restart, .. } = reloaded else {
        panic!("{reloaded:?}");
    };
    assert_eq!(at_restart, ["store.path"]);
    assert_eq!(setting.live.status().waiting_for_restart, ["store.path"]);
}

#[test]
fn a_changed_secret_is_a_new_generation() {
    let setting = Setting::new(FIRST);
    let secret = setting.directory.path().join("secret");
    std::fs::write(&secret, "first-secret\n").unwrap();
    setting.write(&format!("{FIRST}keys = [{{ file = \"secret\" }}]\n"));
    setting.live.reload(Cause::Order).unwrap();
    std::fs::write(&secret, "second-secret\n").unwrap();
    assert!(setting.live.applied().loaded.files.contains(&secret));
    let reloaded = setting.live.reload(Cause::Order).unwrap();
    assert!(matches!(reloaded, Reloaded::Changed { generation: 3, .. }));
    let applied = setting.live.applied();
    let provider = applied.loaded.config.providers.values().next().unwrap();
    let key = provider.keys[0].as_key().unwrap();
    assert_eq!(key.expose_secret(), "second-secret");
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    let limit = Duration::from_secs(20);
    assert!(tokio::time::timeout(limit, wait).await.is_ok(), "{what}");
}

#[tokio::test]
async fn a_changed_file_is_taken_over_by_itself() {
    let setting = Setting::new(FIRST);
    let watch = tokio::spawn(Arc::clone(&setting.live).watch());
    setting.write(SECOND);
    until("the change is seen", || setting.provider() == "b").await;
    watch.abort();
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_turned_to_another_directory_is_a_change() {
    // As Kubernetes mounts a ConfigMap: `whippletree.toml -> ..data/whippletree.toml`, and `..data`
    // is turned from one directory to the next.
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (version, text) in [("..1", FIRST), ("..2", SECOND)] {
        std::fs::create_dir(at(version)).unwrap();
        std::fs::write(at(version).join("whippletree.toml"), text).unwrap();
    }
    symlink("..1", at("..data")).unwrap();
    symlink("..data/whippletree.toml", at("whippletree.toml")).unwrap();
    let loaded = load(&Source::File(at("whippletree.toml"))).unwrap();
    let live = Arc::new(Live::new(loaded, Arc::new(Counter::default())));
    let watch = tokio::spawn(Arc::clone(&live).watch());
    symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    until("the swap is seen", || live.status().generation == 2).await;
    watch.abort();
}

#[tokio::test]
async fn a_secret_that_arrives_late_mends_a_refused_configuration() {
    let setting = Setting::new(FIRST);
    let watch = tokio::spawn(Arc::clone(&setting.live).watch());
    setting.write(&format!("{SECOND}keys = [{{ file = \"secret\" }}]\n"));
    until("the file is refused", || setting.live.refused().is_some()).await;
    std::fs::write(setting.directory.path().join("secret"), "a-secret\n").unwrap();
    until("the file is accepted", || setting.provider() == "b").await;
    watch.abort();
}
