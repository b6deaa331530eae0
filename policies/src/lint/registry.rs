//! All rules, and the only map from code to rule.

use alloc::format;
use alloc::string::String;
use core::fmt::Write as _;

use super::finding::{Family, Fix, Meta};
use super::report::Report;
use super::rules;

/// A rule: what is known of it, and what it does.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) meta: Meta,
    pub(crate) check: fn(&mut Report<'_, '_>),
}

/// In the order in which they run: a rule sees what those before it left unexplained.
pub(crate) static RULES: &[Rule] = &[
    rules::frequent_compaction::RULE,
    rules::sliding_window::RULE,
    rules::trimmed_front::RULE,
    rules::dropped_reasoning::RULE,
    rules::reencoded_image::RULE,
    rules::call_identifier::RULE,
    rules::volatile_timestamp::RULE,
    rules::volatile_date::RULE,
    rules::epoch_number::RULE,
    rules::request_identifier::RULE,
    rules::random_uuid::RULE,
    rules::temporary_path::RULE,
    rules::git_state::RULE,
    rules::working_directory::RULE,
    rules::experiment_label::RULE,
    rules::user_name::RULE,
    rules::running_counter::RULE,
    rules::process_detail::RULE,
    rules::random_identifier::RULE,
    rules::unsorted_tools::RULE,
    rules::key_order::RULE,
    rules::argument_key_order::RULE,
    rules::json_whitespace::RULE,
    rules::text_whitespace::RULE,
    rules::number_format::RULE,
    rules::unicode_form::RULE,
    rules::json_escapes::RULE,
    rules::element_order::RULE,
    rules::schema_member::RULE,
    rules::status_text_not_last::RULE,
    rules::volatile_text::RULE,
    rules::changing_tool_set::RULE,
    rules::changed_answer_schema::RULE,
    rules::changed_tool::RULE,
    rules::edited_tool_result::RULE,
    rules::reordered_messages::RULE,
    rules::inserted_message::RULE,
    rules::removed_message::RULE,
    rules::volatile_before_stable::RULE,
    rules::changed_system_prompt::RULE,
    rules::rewritten_history::RULE,
    rules::tool_result_as_user::RULE,
    rules::missing_breakpoint::RULE,
    rules::too_many_breakpoints::RULE,
    rules::lifetime_order::RULE,
    rules::prefix_below_minimum::RULE,
    rules::breakpoint_out_of_reach::RULE,
    rules::breakpoint_left_behind::RULE,
    rules::breakpoint_after_volatile_block::RULE,
    rules::lifetime_shorter_than_gap::RULE,
    rules::split_over_keys::RULE,
    rules::split_over_regions::RULE,
    rules::fallback_flapping::RULE,
    rules::model_switched::RULE,
    rules::effort_switched::RULE,
    rules::tool_choice_switched::RULE,
    rules::cache_key_divergence::RULE,
];

/// All rules, in the order of their codes.
pub fn catalogue() -> impl Iterator<Item = &'static Meta> {
    let mut all: alloc::vec::Vec<&Meta> = RULES.iter().map(|rule| &rule.meta).collect();
    all.sort_by_key(|meta| meta.code);
    all.into_iter()
}

/// The rule of that code or name.
pub fn rule(code_or_name: &str) -> Option<&'static Meta> {
    RULES
        .iter()
        .map(|rule| &rule.meta)
        .find(|meta| meta.code.eq_ignore_ascii_case(code_or_name) || meta.name == code_or_name)
}

/// Whether a finding of a rule points to where the prefix broke, and so bears the loss.
pub(crate) fn breaks(meta: &Meta) -> bool {
    match meta.family {
        Family::Volatile | Family::Serialisation | Family::History => true,
        Family::Layout => matches!(meta.name, "status-text-not-last" | "volatile-before-stable"),
        Family::Fleet => false,
    }
}

/// Whether a rule has a say about two conversations that begin alike: about what varies, and about
/// one thing spelled in two ways. Two agents may well have other tools or another system prompt.
pub(crate) fn looks_across(meta: &Meta) -> bool {
    match meta.family {
        Family::Volatile => meta.name != "volatile-text",
        Family::Serialisation => !matches!(
            meta.name,
            "schema-member" | "changing-tool-set" | "changed-tool" | "changed-answer-schema"
        ),
        Family::Fleet | Family::History | Family::Layout => false,
    }
}

/// Whether a difference between two conversations is a fault however long they last: names and
/// spellings, unlike the moment and the ids with which a conversation begins.
pub(crate) fn tells_across(meta: &Meta) -> bool {
    meta.family == Family::Serialisation || matches!(meta.name, "user-name" | "experiment-label")
}

/// The reference of all rules, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Rules\n\nGenerated from the rules' own pages; a test fails when this file is stale \
        (`UPDATE=1 cargo test -p whippletree-policies --test lint` writes it).\n\n\
        | code | name | family | severity | fix |\n|---|---|---|---|---|\n",
    );
    for meta in catalogue() {
        let fix = if meta.fix == Fix::Advice { "" } else { "yes" };
        let _ = writeln!(
            page,
            "| {} | [{}](#{}) | {} | {} | {fix} |",
            meta.code,
            meta.name,
            anchor(meta),
            family(meta.family),
            meta.severity.as_str()
        );
    }
    for meta in catalogue() {
        let _ = write!(
            page,
            "\n# {} {}\n\n{}: {}.\n\n",
            meta.code,
            meta.name,
            capital(meta.severity.as_str()),
            meta.summary
        );
        let _ = write!(page, "Help: {}.\n\n{}", meta.help, meta.docs);
    }
    page
}

fn anchor(meta: &Meta) -> String {
    format!("{}-{}", meta.code.to_ascii_lowercase(), meta.name)
}

const fn family(family: Family) -> &'static str {
    match family {
        Family::Fleet => "fleet",
        Family::History => "history",
        Family::Layout => "layout",
        Family::Serialisation => "order and serialisation",
        Family::Volatile => "volatile text",
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        format!("{}{}", first.to_ascii_uppercase(), letters.as_str())
    })
}
