//! Why a body is refused.

/// Why a body was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} (at byte {offset})")]
pub struct InvalidEnvelope {
    /// What is wrong.
    pub fault: Fault,
    /// Where, in bytes from the start of the body.
    pub offset: usize,
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The body ends inside a value.
    #[error("the body ends before the json does")]
    Cut,
    /// More than [`MAX_DEPTH`](super::MAX_DEPTH) levels.
    #[error("the body nests deeper than 128 levels")]
    Depth,
    /// The second of two top-level fields of one name.
    #[error("the body has two top-level fields of the same name")]
    Duplicate,
    /// Valid JSON, but not an object.
    #[error("the body is not a json object")]
    NotAnObject,
    /// Not JSON.
    #[error("the body is not valid json")]
    Syntax,
    /// Something follows the object.
    #[error("something follows the json object")]
    Trailing,
    /// 4 GiB or more.
    #[error("the body is 4 gib or longer")]
    TooLong,
    /// A field that decides something has another type than the vendors document.
    #[error("field \"{field}\" is not {expected}")]
    Type {
        /// The field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Not UTF-8.
    #[error("the body is not valid utf-8")]
    Utf8,
}
