//! How many instructions the gateway spends on a request, counted by callgrind.
//!
//! Problem: processor time on a shared machine varies by a tenth from run to run, so a slow loss of
//! speed hides in it. Idea: the number of instructions that the same binary executes for the same
//! input does not depend on how busy the machine is, so it can be compared with a recorded one to
//! within a few per cent. A gateway with one worker runs under callgrind and is sent a fixed number
//! of requests, one after the other; the same run without them is taken off, and with it the start,
//! the warming up and the end. What is counted is everything that the process does for a request:
//! the worker's part, the ledger's, the log's.
//!
//! Limits: the kernel's part, which is most of a relay's time, is not counted, and neither is
//! waiting for memory; the bench measures both. Another compiler, C library or set of processor
//! features gives other counts. [`Figures`] therefore say what they were recorded with, and bind
//! less closely elsewhere. The database commits by the clock: its share varies by a per cent or two.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use super::bodies::{self, Body};
use super::subject::{self, Subject};
use super::{completion, streams};
use crate::client::{Session, request_head};
use crate::vendor::{Options as VendorOptions, Recording, Script, Vendor};

/// Requests before the count begins, in every run.
const WARM: u64 = 40;
/// Chats and agent turns that are counted.
const REQUESTS: u64 = 512;
/// Events of the streams that are compared, each the only one of its run.
const EVENTS: (u64, u64) = (100, 1_600);
/// Between two events: long enough that callgrind is done with one before the next comes.
const EVENT_MS: u64 = 4;

/// The most that a count may be above the recorded one, in per cent.
const BOUND: u64 = 5;
/// The same where the figures were recorded with something else.
const WIDE_BOUND: u64 = 15;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Agents,
    Chats,
    Events(u64),
    Nothing,
}

/// Instructions, and what they were counted with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The compiler of the gateway, the C library, and the vector instructions that are used.
    pub counted_with: String,
    /// Of a chat of 1 KB.
    pub chat_request: u64,
    /// Of an agent's turn of 107 KB.
    pub agent_request: u64,
    /// Of one event of a stream.
    pub stream_event: u64,
}

/// A count beside the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// What was counted.
    pub name: &'static str,
    /// Now.
    pub counted: u64,
    /// Recorded.
    pub recorded: u64,
    /// The most that is allowed.
    pub most: u64,
}

impl Compared {
    /// Whether it is allowed.
    pub const fn holds(&self) -> bool {
        self.counted <= self.most
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds() { "pass" } else { "FAIL" };
        let Self {
            name,
            counted,
            recorded,
            most,
        } = self;
        write!(
            f,
            "{word}: {name}: {counted} instructions, {recorded} recorded, at most {most} allowed"
        )
    }
}

impl Figures {
    /// Counts with this gateway. What callgrind has written is kept in the folder `profiles`; `say` gets a line about each run.
    ///
    /// # Errors
    ///
    /// When valgrind is missing, the gateway does not start under it, or an answer is not whole.
    pub async fn count(
        gateway: &Path,
        profiles: Option<&Path>,
        mut say: impl FnMut(&str),
    ) -> anyhow::Result<Self> {
        let mut counts = BTreeMap::new();
        // One after the other: two at once would make each other's timers fire more often.
        for (name, work) in [
            ("nothing", Work::Nothing),
            ("chats", Work::Chats),
            ("agent turns", Work::Agents),
            ("few events", Work::Events(EVENTS.0)),
            ("many events", Work::Events(EVENTS.1)),
        ] {
            let kept =
                profiles.map(|folder| folder.join(format!("{}.out", name.replace(' ', "-"))));
            let count = run(gateway, work, kept.as_deref())
                .await
                .with_context(|| format!("counting {name}"))?;
            say(&format!("{name}: {count} instructions"));
            counts.insert(name, count);
        }
        let between = |less: &str, more: &str, number: u64| {
            let of = |name| counts.get(name).copied().unwrap_or(0);
            of(more).saturating_sub(of(less)) / number
        };
        Ok(Self {
            counted_with: counted_with(gateway)?,
            chat_request: between("nothing", "chats", REQUESTS),
            agent_request: between("nothing", "agent turns", REQUESTS),
            stream_event: between("few events", "many events", EVENTS.1 - EVENTS.0),
        })
    }

    /// Reads a file of figures.
    ///
    /// # Errors
    ///
    /// When it cannot be read or is none.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("reading {}", file.display()))
    }

    /// The file's text.
    pub fn text(&self) -> String {
        format!(
            "# Instructions of the gateway by callgrind, as `whippletree-loadtest instructions --record`\n\
             # counts them. A commit that raises one by more than {BOUND} % records it anew and says why.\n\n\
             counted_with = \"{}\"\nchat_request = {}\nagent_request = {}\nstream_event = {}\n",
            self.counted_with, self.chat_request, self.agent_request, self.stream_event
        )
    }

    /// These counts beside recorded ones.
    pub fn beside(&self, recorded: &Self) -> [Compared; 3] {
        let bound = if self.counted_with == recorded.counted_with {
            BOUND
        } else {
            WIDE_BOUND
        };
        let compared = |name, counted, recorded: u64| Compared {
            name,
            counted,
            recorded,
            most: recorded + recorded * bound / 100,
        };
        [
            compared("1 KB chat", self.chat_request, recorded.chat_request),
            compared(
                "107 KB agent turn",
                self.agent_request,
                recorded.agent_request,
            ),
            compared("streamed event", self.stream_event, recorded.stream_event),
        ]
    }
}

/// Counts a whole run of a gateway that does this work.
async fn run(gateway: &Path, work: Work, kept: Option<&Path>) -> anyhow::Result<u64> {
    let options = VendorOptions {
        recording: Recording::Count,
        ..VendorOptions::default()
    };
    let vendor = Vendor::bind(completion(), options).await?;
    let folder = Folder(subject::folder("counts")?);
    let counts = folder.0.join("counts");
    let subject = Subject::counted(gateway, vendor.addr(), &counts).await?;
    let mut client = Client {
        session: Session::new(subject.addr),
        sent: 0,
    };
    client.send(&bodies::chat(), WARM).await?;
    client.send(&bodies::agent(), WARM).await?;
    match work {
        Work::Nothing => {}
        Work::Chats => client.send(&bodies::chat(), REQUESTS).await?,
        Work::Agents => client.send(&bodies::agent(), REQUESTS).await?,
        Work::Events(events) => {
            client
                .stream(&vendor, streams::script_of(events, EVENT_MS))
                .await?;
        }
    }
    subject.stop()?;
    if let Some(kept) = kept {
        std::fs::copy(&counts, kept).with_context(|| format!("writing {}", kept.display()))?;
    }
    let text = std::fs::read_to_string(&counts).context("reading callgrind's counts")?;
    total(&text).context("callgrind has counted nothing")
}

/// The sum at the end of callgrind's output.
fn total(text: &str) -> Option<u64> {
    let sums = text
        .lines()
        .filter_map(|line| line.strip_prefix("totals: "));
    sums.filter_map(|sum| sum.trim().parse::<u64>().ok())
        .reduce(|a, b| a + b)
}

struct Client {
    session: Session,
    sent: u64,
}

impl Client {
    async fn send(&mut self, body: &Body, requests: u64) -> anyhow::Result<()> {
        let authorization = format!("Bearer {}", subject::KEY);
        let headers = [("authorization", authorization.as_str())];
        let head = request_head("/v1/chat/completions", &headers, body.size());
        for _ in 0..requests {
            let mut request = head.clone().into_bytes();
            request.extend_from_slice(&body.numbered(self.sent));
            self.sent += 1;
            let answer = self.session.send_raw(&request, &mut |_| {}).await?;
            ensure!(answer.status == 200, "status {}", answer.status);
        }
        Ok(())
    }

    async fn stream(&mut self, vendor: &Vendor, script: Script) -> anyhow::Result<()> {
        vendor.set_script(script)?;
        let authorization = format!("Bearer {}", subject::KEY);
        let headers = [("authorization".to_owned(), authorization)];
        let request = streams::request(&bodies::chat(), &headers, self.sent);
        let answer = self.session.send_raw(&request, &mut |_| {}).await?;
        if !answer.body.ends_with(b"data: [DONE]\n\n") {
            bail!("the stream is not whole");
        }
        Ok(())
    }
}

/// What decides the counts beside the gateway's code and its input.
fn counted_with(gateway: &Path) -> anyhow::Result<String> {
    let binary =
        std::fs::read(gateway).with_context(|| format!("reading {}", gateway.display()))?;
    let compiler = compiler(&binary).context("the gateway does not say what compiled it")?;
    let said = std::process::Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output();
    let library = said.map_or_else(
        |_| "another C library".to_owned(),
        |said| String::from_utf8_lossy(&said.stdout).trim().to_owned(),
    );
    let features = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |feature: &str| features.split_whitespace().any(|word| word == feature);
    let vectors = if has("avx2") { "avx2" } else { "no avx2" };
    Ok(format!("{compiler}, {library}, {vectors}"))
}

/// `rustc 1.95.0`, from the note that the compiler leaves in what it links.
fn compiler(binary: &[u8]) -> Option<String> {
    const NOTE: &[u8] = b"rustc version ";
    let at = memchr::memmem::find(binary, NOTE)? + NOTE.len();
    let version = binary
        .get(at..)?
        .split(|byte| !byte.is_ascii_graphic())
        .next()?;
    Some(format!("rustc {}", std::str::from_utf8(version).ok()?))
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays behind in the folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        Figures {
            counted_with: "rustc 1.95.0, glibc 2.41, avx2".to_owned(),
            chat_request: 100_000,
            agent_request: 200_000,
            stream_event: 9_000,
        }
    }

    #[test]
    fn a_file_of_figures_reads_as_it_was_written() {
        let figures = figures();
        assert_eq!(toml::from_str::<Figures>(&figures.text()).unwrap(), figures);
    }

    #[test]
    fn one_twentieth_more_is_allowed_and_no_more() {
        let (recorded, mut now) = (figures(), figures());
        now.chat_request = 105_000;
        now.stream_event = 9_451;
        let holds = now.beside(&recorded).map(|compared| compared.holds());
        assert_eq!(holds, [true, true, false]);
    }

    #[test]
    fn another_compiler_binds_less_closely_but_binds() {
        let (recorded, mut now) = (figures(), figures());
        now.counted_with = "rustc 1.96.0, glibc 2.41, avx2".to_owned();
        now.chat_request = 114_000;
        now.agent_request = 231_000;
        let holds = now.beside(&recorded).map(|compared| compared.holds());
        assert_eq!(holds, [true, false, true]);
    }

    #[test]
    fn the_compiler_is_found_in_what_it_linked() {
        let binary = b"\x7fELF\0GCC: (Debian)\0rustc version 1.95.0 (abc 2026-04-01)\0";
        assert_eq!(compiler(binary).as_deref(), Some("rustc 1.95.0"));
        assert_eq!(compiler(b"\x7fELF"), None);
    }

    #[test]
    fn the_sums_of_all_parts_are_added() {
        assert_eq!(total("fn=main\n1 2\ntotals: 40\n\ntotals: 2\n"), Some(42));
        assert_eq!(total("events: Ir\n"), None);
    }
}
