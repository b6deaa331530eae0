//! What a process cost, as the kernel counted it.
//!
//! `/proc/PID/schedstat` gives one thread's time on the processor in nanoseconds; summed over
//! `/proc/PID/task` it is the whole process's as long as no thread ends in between. The ticks of
//! `/proc/PID/stat` (10 ms) are the fallback.

use std::fs;

use anyhow::Context as _;

/// Nanoseconds that a process has spent on processors, all its living threads together.
///
/// # Errors
///
/// When the process is gone.
pub fn busy_nanos(pid: u32) -> anyhow::Result<u64> {
    let tasks =
        fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("process {pid}"))?;
    let mut total = 0;
    for task in tasks {
        let path = task?.path().join("schedstat");
        let Ok(text) = fs::read_to_string(&path) else {
            return ticks(pid);
        };
        let first = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        total += first.unwrap_or(0);
    }
    if total == 0 { ticks(pid) } else { Ok(total) }
}

/// User and system time from `/proc/PID/stat`, at a hundred ticks a second.
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
    Ok((field(11) + field(12)) * 10_000_000)
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
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("no {name}"))?;
    let kib: u64 = line
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .with_context(|| format!("{name} {line}"))?;
    Ok(kib * 1024)
}

/// All children of a process, and theirs.
pub fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
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
    fn this_process_has_cost_something() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 1 << 20);
        assert!(peak_bytes(pid).unwrap() >= resident_bytes(pid).unwrap() / 2);
        assert!(ticks(pid).is_ok());
        assert_eq!(family(pid).first(), Some(&pid));
    }
}
