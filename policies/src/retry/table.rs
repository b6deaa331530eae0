//! The one table of what a failure leads to.
//!
//! A row per [`Class`]; the attempt machine, the health of targets and the client's answer all read
//! it, so they cannot disagree.

use crate::outcome::Class;

/// What a failure of a class leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// Whether the same target may be tried again.
    pub same_target: SameTarget,
    /// Whether another key of the same target may be tried, and then at once.
    pub other_key: OtherKey,
    /// Whether another target may be tried.
    pub fallback: Fallback,
    /// Whether it counts against the target's health.
    pub health: HealthEffect,
    /// What happens to the key that was used, for everybody.
    pub key: KeyEffect,
    /// What happens to the target, for everybody, beside what its breaker counts.
    pub target: TargetEffect,
}

/// Whether the same target may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameTarget {
    /// After a back-off, or after the vendor's hint.
    BackOff,
    /// After a back-off when no other target can be tried.
    LastResort,
    /// Not by this request.
    Never,
    /// Once after a back-off, then no more.
    Once,
}

/// Whether another key of the same target may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherKey {
    /// At once.
    AtOnce,
    /// It would change nothing.
    No,
}

/// Whether another target may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// If the fault is the target's alone, such as a feature it lacks.
    IfTargetAtFault,
    /// If its context window is larger.
    LargerWindow,
    /// No.
    Never,
    /// If the wait for this one is too long.
    WhenWaitTooLong,
    /// If the route says so.
    WhereRouteSays,
    /// Yes.
    Yes,
}

/// Whether a failure counts against the target's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthEffect {
    /// It says that the target works: it read the request and gave a definite answer.
    Alive,
    /// It counts against it.
    Counts,
    /// It says nothing about it.
    Nothing,
}

/// What happens to the key that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// It is left alone for a while.
    Cool,
    /// It is left alone until a person or a probe clears it.
    Open,
    /// Nothing.
    None,
}

/// What happens to the target beside what its breaker counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetEffect {
    /// Nothing.
    None,
    /// It is left alone until a person or a probe clears it.
    Open,
}

/// The row of a class.
pub const fn disposition(class: Class) -> Disposition {
    /// The vendor failed; the same again may work, and so may another.
    const TRANSIENT: Disposition = Disposition {
        same_target: SameTarget::BackOff,
        other_key: OtherKey::No,
        fallback: Fallback::Yes,
        health: HealthEffect::Counts,
        key: KeyEffect::None,
        target: TargetEffect::None,
    };
    /// The vendor gave a definite answer, and will give it again.
    const FINAL: Disposition = Disposition {
        same_target: SameTarget::Never,
        other_key: OtherKey::No,
        fallback: Fallback::Never,
        health: HealthEffect::Alive,
        key: KeyEffect::None,
        target: TargetEffect::None,
    };
    match class {
        Class::ClientGone => Disposition {
            health: HealthEffect::Nothing,
            ..FINAL
        },
        Class::ContentPolicy => Disposition {
            fallback: Fallback::WhereRouteSays,
            ..FINAL
        },
        Class::ContextOverflow => Disposition {
            fallback: Fallback::LargerWindow,
            ..FINAL
        },
        Class::InvalidRequest => Disposition {
            fallback: Fallback::IfTargetAtFault,
            ..FINAL
        },
        Class::MalformedResponse => Disposition {
            same_target: SameTarget::Once,
            ..TRANSIENT
        },
        Class::ModelUnavailable => Disposition {
            fallback: Fallback::Yes,
            target: TargetEffect::Open,
            ..FINAL
        },
        // No rule knows it, so the same again is tried once at most, and health is not judged.
        Class::Other => Disposition {
            same_target: SameTarget::Once,
            health: HealthEffect::Nothing,
            ..TRANSIENT
        },
        Class::Overloaded | Class::ServerError | Class::StreamInterrupted | Class::Transport => {
            TRANSIENT
        }
        Class::QuotaExhausted | Class::VendorAuth => Disposition {
            other_key: OtherKey::AtOnce,
            fallback: Fallback::Yes,
            key: KeyEffect::Open,
            ..FINAL
        },
        Class::RateLimited => Disposition {
            same_target: SameTarget::BackOff,
            other_key: OtherKey::AtOnce,
            fallback: Fallback::WhenWaitTooLong,
            health: HealthEffect::Alive,
            key: KeyEffect::Cool,
            target: TargetEffect::None,
        },
        // A target that has just been silent for a minute is asked again only where nobody else is.
        Class::Timeout => Disposition {
            same_target: SameTarget::LastResort,
            ..TRANSIENT
        },
    }
}

/// Whose shape of errors a client expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorDialect {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, Responses and the rest.
    OpenAi,
}

/// The status that a client gets in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientStatus {
    /// This one.
    Fixed(u16),
    /// None: nobody is there to read it.
    Nobody,
    /// The vendor's own, where it is of the 4xx; otherwise 400.
    Vendors,
}

/// What a client is told when `class` is the last word.
pub const fn client_status(class: Class, dialect: ErrorDialect) -> ClientStatus {
    match class {
        Class::ClientGone => ClientStatus::Nobody,
        Class::ContentPolicy | Class::InvalidRequest => ClientStatus::Vendors,
        Class::ContextOverflow => ClientStatus::Fixed(400),
        Class::RateLimited | Class::QuotaExhausted => ClientStatus::Fixed(429),
        Class::Overloaded => match dialect {
            ErrorDialect::Anthropic => ClientStatus::Fixed(529),
            ErrorDialect::OpenAi => ClientStatus::Fixed(503),
        },
        Class::Timeout => ClientStatus::Fixed(504),
        // 502, never 401 or 404: neither the client's key nor its request is at fault.
        Class::MalformedResponse
        | Class::ModelUnavailable
        | Class::Other
        | Class::ServerError
        | Class::StreamInterrupted
        | Class::Transport
        | Class::VendorAuth => ClientStatus::Fixed(502),
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    const CLASSES: [Class; 15] = [
        Class::RateLimited,
        Class::QuotaExhausted,
        Class::Overloaded,
        Class::ServerError,
        Class::Timeout,
        Class::Transport,
        Class::MalformedResponse,
        Class::StreamInterrupted,
        Class::ContextOverflow,
        Class::ContentPolicy,
        Class::InvalidRequest,
        Class::VendorAuth,
        Class::ModelUnavailable,
        Class::ClientGone,
        Class::Other,
    ];

    /// In the order of the contract (behaviour.md, section 3), to be read beside it.
    #[test]
    fn the_table_is_the_contracts() {
        let mut table = String::new();
        for class in CLASSES {
            let row = disposition(class);
            let status = client_status(class, ErrorDialect::OpenAi);
            let line = format!(
                "{:20} same {:10} key {:6} fallback {:15} {:7} {:4} {:4} {status:?}\n",
                class.as_str(),
                format!("{:?}", row.same_target),
                format!("{:?}", row.other_key),
                format!("{:?}", row.fallback),
                format!("{:?}", row.health),
                format!("{:?}", row.key),
                format!("{:?}", row.target),
            );
            table.push_str(&line);
        }
        insta::assert_snapshot!(table, @r#"
rate_limited         same BackOff    key AtOnce fallback WhenWaitTooLong Alive   Cool None Fixed(429)
quota_exhausted      same Never      key AtOnce fallback Yes             Alive   Open None Fixed(429)
overloaded           same BackOff    key No     fallback Yes             Counts  None None Fixed(503)
server_error         same BackOff    key No     fallback Yes             Counts  None None Fixed(502)
timeout              same LastResort key No     fallback Yes             Counts  None None Fixed(504)
transport            same BackOff    key No     fallback Yes             Counts  None None Fixed(502)
malformed_response   same Once       key No     fallback Yes             Counts  None None Fixed(502)
stream_interrupted   same BackOff    key No     fallback Yes             Counts  None None Fixed(502)
context_overflow     same Never      key No     fallback LargerWindow    Alive   None None Fixed(400)
content_policy       same Never      key No     fallback WhereRouteSays  Alive   None None Vendors
invalid_request      same Never      key No     fallback IfTargetAtFault Alive   None None Vendors
vendor_auth          same Never      key AtOnce fallback Yes             Alive   Open None Fixed(502)
model_unavailable    same Never      key No     fallback Yes             Alive   None Open Fixed(502)
client_gone          same Never      key No     fallback Never           Nothing None None Nobody
other                same Once       key No     fallback Yes             Nothing None None Fixed(502)
"#);
    }

    #[test]
    fn anthropics_clients_know_an_overload_by_529() {
        for class in CLASSES {
            let (ours, theirs) = (
                client_status(class, ErrorDialect::OpenAi),
                client_status(class, ErrorDialect::Anthropic),
            );
            assert_eq!(ours == theirs, class != Class::Overloaded);
        }
        let overload = client_status(Class::Overloaded, ErrorDialect::Anthropic);
        assert_eq!(overload, ClientStatus::Fixed(529));
    }
}
