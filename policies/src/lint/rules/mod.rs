//! The rules, one a file.
//!
//! Adding one: a file here with a [`Rule`](super::registry::Rule), a line in the registry, fixtures
//! below `tests/lint/<name>/`.

pub(crate) mod argument_key_order;
pub(crate) mod breakpoint_after_volatile_block;
pub(crate) mod breakpoint_left_behind;
pub(crate) mod breakpoint_out_of_reach;
pub(crate) mod cache_key_divergence;
pub(crate) mod call_identifier;
pub(crate) mod changed_answer_schema;
pub(crate) mod changed_system_prompt;
pub(crate) mod changed_tool;
pub(crate) mod changing_tool_set;
pub(crate) mod dropped_reasoning;
pub(crate) mod edited_tool_result;
pub(crate) mod effort_switched;
pub(crate) mod element_order;
pub(crate) mod epoch_number;
pub(crate) mod experiment_label;
pub(crate) mod fallback_flapping;
pub(crate) mod frequent_compaction;
pub(crate) mod git_state;
pub(crate) mod inserted_message;
pub(crate) mod json_escapes;
pub(crate) mod json_whitespace;
pub(crate) mod key_order;
pub(crate) mod lifetime_order;
pub(crate) mod lifetime_shorter_than_gap;
pub(crate) mod missing_breakpoint;
pub(crate) mod model_switched;
pub(crate) mod number_format;
pub(crate) mod prefix_below_minimum;
pub(crate) mod process_detail;
pub(crate) mod random_identifier;
pub(crate) mod random_uuid;
pub(crate) mod reencoded_image;
pub(crate) mod removed_message;
pub(crate) mod reordered_messages;
pub(crate) mod request_identifier;
pub(crate) mod rewritten_history;
pub(crate) mod running_counter;
pub(crate) mod schema_member;
pub(crate) mod sliding_window;
pub(crate) mod split_over_keys;
pub(crate) mod split_over_regions;
pub(crate) mod status_text_not_last;
pub(crate) mod temporary_path;
pub(crate) mod text_whitespace;
pub(crate) mod too_many_breakpoints;
pub(crate) mod tool_choice_switched;
pub(crate) mod tool_result_as_user;
pub(crate) mod trimmed_front;
pub(crate) mod unicode_form;
pub(crate) mod unsorted_tools;
pub(crate) mod user_name;
pub(crate) mod volatile_before_stable;
pub(crate) mod volatile_date;
pub(crate) mod volatile_text;
pub(crate) mod volatile_timestamp;
pub(crate) mod working_directory;

use super::align::{Alignment, Edit};
use super::history::Known;
use super::prompt::{Kind, Prompt, Tier};
use super::scene::Scene;

/// Whether a request made its conversation shorter, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrinking {
    /// Older messages gave way to a summary, or many old results were cleared at once.
    Compacted,
    /// It did not.
    No,
    /// Messages at the front are gone, with nothing in their place.
    Trimmed,
}

/// How the request of a scene shrank its conversation.
pub(crate) fn shrinking_of(scene: &Scene<'_>) -> Shrinking {
    let bytes = scene
        .old
        .iter()
        .filter(|known| known.tier == Tier::Messages)
        .map(|known| u64::from(known.bytes))
        .sum();
    shrinking(scene.alignment, scene.old, scene.prompt, bytes)
}

/// How a request shrank its conversation of `bytes` bytes of messages.
pub(crate) fn shrinking(
    alignment: &Alignment,
    old: &[Known],
    prompt: &Prompt<'_>,
    bytes: u64,
) -> Shrinking {
    let front = old
        .iter()
        .position(|known| known.tier == Tier::Messages)
        .unwrap_or(0);
    let old_bytes = |range: &core::ops::Range<usize>| -> u64 {
        old.get(range.clone())
            .unwrap_or_default()
            .iter()
            .map(|known| u64::from(known.bytes))
            .sum()
    };
    let new_bytes = |range: &core::ops::Range<usize>| -> u64 {
        prompt
            .segments
            .get(range.clone())
            .unwrap_or_default()
            .iter()
            .map(super::prompt::Segment::bytes)
            .sum()
    };
    for gap in alignment
        .gaps
        .iter()
        .filter(|gap| gap.tier == Tier::Messages)
    {
        let thoughts = old
            .get(gap.old.clone())
            .is_some_and(|gone| gone.iter().all(|known| known.kind == Kind::Thinking));
        // The first message often stays, because it tells the task.
        if gap.new.is_empty() && gap.old.start <= front + 2 && !gap.old.is_empty() && !thoughts {
            return Shrinking::Trimmed;
        }
        let (before, after) = (old_bytes(&gap.old), new_bytes(&gap.new));
        let fewer = gap.old.len() >= 2 && gap.new.len() < gap.old.len() && !gap.new.is_empty();
        let much = before * 5 >= bytes || gap.old.len() * 3 >= old.len() - front;
        if fewer && after < before && much {
            return Shrinking::Compacted;
        }
    }
    if cleared(alignment, old, prompt) >= 3 {
        return Shrinking::Compacted;
    }
    Shrinking::No
}

/// Results of tools that became less than half as long.
fn cleared(alignment: &Alignment, old: &[Known], prompt: &Prompt<'_>) -> usize {
    let shorter = |edit: &&Edit| match edit {
        Edit::Replaced { old: o, new } => {
            old.get(*o)
                .zip(prompt.segments.get(*new))
                .is_some_and(|(before, after)| {
                    after.kind == Kind::ToolResult && after.bytes() * 2 < u64::from(before.bytes)
                })
        }
        Edit::Inserted { .. } | Edit::Moved { .. } | Edit::Removed { .. } => false,
    };
    alignment.edits.iter().filter(shorter).count()
}
