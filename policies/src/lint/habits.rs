//! What a conversation keeps doing: the memory that rules over a whole task need.

/// Counts over the life of one conversation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Habits {
    /// Requests so far.
    pub(crate) requests: u32,
    /// Requests whose front was trimmed.
    pub(crate) trims: u32,
    /// Requests that put a summary in place of older messages.
    pub(crate) compactions: u32,
    /// Requests from the compaction before to the latest one.
    pub(crate) since_compaction: u32,
    /// The request, by count, that was compacted last.
    pub(crate) last_compaction: u32,
    /// Requests that came after the cache had expired, though within the long lifetime.
    pub(crate) late: u32,
    /// Changes of the vendor's key.
    pub(crate) key_switches: u32,
    /// Changes of region or deployment.
    pub(crate) region_switches: u32,
    /// Changes between first choice and stand-in.
    pub(crate) fallback_switches: u32,
    /// Changes of model.
    pub(crate) model_switches: u32,
    /// Changes of reasoning effort.
    pub(crate) effort_switches: u32,
    /// The place whose text changed last, counted from the front, and how often in a row.
    pub(crate) restless: Option<(u32, u32)>,
    /// Requests that had cache marks out of reach of what was kept.
    pub(crate) unreached: u32,
    /// Requests without any cache mark, though one would have paid.
    pub(crate) unmarked: u32,
    /// The conversations that begin almost like it.
    pub(crate) family: Option<u32>,
    /// What the late requests lost, in tokens.
    pub(crate) late_tokens: u64,
}
