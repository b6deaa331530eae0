//! What a process cost, as the kernel counted it.
//!
//! `/proc/PID/task/TID/schedstat` gives a thread's time on the processor in nanoseconds. Summed
//! over all threads it is the process's, as long as none has ended in between; where one has, the
//! ticks of `/proc/PID/stat` (10 ms each) are used, which count the dead as well.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context as _;

/// A reading of one or more processes' time on processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    threads: BTreeMap<u32, u64>,
    ticks_nanos: u64,
}

impl Busy {
    /// Reads the processes' counters.
    ///
    /// # Errors
    ///
    /// When one of them is gone.
    pub fn of(pids: &[u32]) -> anyhow::Result<Self> {
        let mut busy = Self {
            threads: BTreeMap::new(),
            ticks_nanos: 0,
        };
        for pid in pids {
            let tasks = fs::read_dir(format!("/proc/{pid}/task"))
                .with_context(|| format!("process {pid}"))?;
            for task in tasks.flatten() {
                let name = task.file_name();
                let Some(thread) = name.to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                // A thread may end while it is being read: then the ticks count.
                let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
                let nanos = text
                    .split_whitespace()
                    .next()
                    .and_then(|word| word.parse().ok());
                busy.threads.insert(thread, nanos.unwrap_or(0));
            }
            busy.ticks_nanos += ticks(*pid)? * 10_000_000;
        }
        Ok(busy)
    }

    /// Nanoseconds spent since an earlier reading.
    pub fn since(&self, earlier: &Self) -> u64 {
        let total = |busy: &Self| busy.threads.values().sum::<u64>();
        let same_threads = self.threads.keys().eq(earlier.threads.keys());
        if same_threads && total(self) > 0 {
            total(self).saturating_sub(total(earlier))
        } else {
            self.ticks_nanos.saturating_sub(earlier.ticks_nanos)
        }
    }
}

/// User and system time in ticks, the ended threads' included.
fn ticks(pid: u32) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("process {pid}"))?;
    // The name may hold spaces; what follows its closing bracket does not.
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let field = |at: usize| {
        fields
            .get(at)
            .and_then(|word| word.parse::<u64>().ok())
            .unwrap_or(0)
    };
    Ok(field(11) + field(12))
}

/// A process's resident memory in bytes.
///
/// # Errors
///
/// When the process is gone.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, "VmRSS:")
}

/// The most resident memory that a process has had, in bytes.
///
/// # Errors
///
/// When the process is gone.
pub fn peak_bytes(pid: u32) -> anyhow::Result<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, name: &str) -> anyhow::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("process {pid} has no {name}"))?;
    let kib: u64 = line
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .with_context(|| format!("{name} {line}"))?;
    Ok(kib * 1024)
}

/// A process and all its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    for child in children
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
    {
        family.extend(self::family(child));
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let pid = std::process::id();
        let before = Busy::of(&[pid]).unwrap();
        let mut sum = 0_u64;
        for number in 0..20_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(number));
        }
        let spent = Busy::of(&[pid]).unwrap().since(&before);
        assert!(spent > 1_000_000, "{spent} ns for the sum {sum}");
        assert!(resident_bytes(pid).unwrap() > 1 << 20);
        assert_eq!(family(pid).first(), Some(&pid));
    }

    #[test]
    fn a_thread_that_ended_turns_the_reading_to_ticks() {
        let reading = |threads: &[(u32, u64)], ticks_nanos| Busy {
            threads: threads.iter().copied().collect(),
            ticks_nanos,
        };
        let before = reading(&[(1, 10), (2, 20)], 100);
        assert_eq!(reading(&[(1, 15), (2, 20)], 130).since(&before), 5);
        assert_eq!(reading(&[(1, 15)], 130).since(&before), 30);
    }
}
