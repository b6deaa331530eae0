//! How many sockets the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the process's limit of open files as far as it may by itself, and returns what it is then;
/// `None` is no limit.
///
/// Systems set the limit that counts to 1024 for the sake of old programs, far below what they allow.
/// A stream holds two sockets, so a gateway left with that would fail at 500 streams.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if setrlimit(Resource::Nofile, raised).is_err() {
        return limit.current;
    }
    limit.maximum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_what_the_system_allows() {
        let raised = raise_open_files();
        assert_eq!(getrlimit(Resource::Nofile).current, raised);
    }
}
