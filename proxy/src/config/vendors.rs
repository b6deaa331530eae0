//! The vendors that a provider may be of: rows of [`DIALECTS`], as the configuration sees them.

use schemars::{Schema, SchemaGenerator, json_schema};
use whippletree_providers::openai::dialects::{DIALECTS, Dialect, dialect};
use whippletree_providers::provider;

use crate::exchange::Api;

/// The vendor of a kind.
pub fn vendor_of(kind: &str) -> Option<&'static Dialect> {
    dialect(kind)
}

/// All vendors, in the order in which `serve` without a file prefers them.
pub fn by_preference() -> impl Iterator<Item = &'static Dialect> {
    let first = |dialect: &&Dialect| dialect.kind == "openai";
    let others = DIALECTS.iter().filter(move |dialect| !first(dialect));
    DIALECTS.iter().filter(first).chain(others)
}

/// The forms of API that a vendor is known for.
pub fn apis(vendor: &Dialect) -> Vec<Api> {
    let api = |api: &provider::Api| match api {
        provider::Api::Chat => Api::Chat,
        provider::Api::Completions => Api::Completions,
        provider::Api::CountTokens => Api::CountTokens,
        provider::Api::Embeddings => Api::Embeddings,
        provider::Api::Messages => Api::Messages,
        provider::Api::Responses => Api::Responses,
    };
    vendor.apis.iter().map(api).collect()
}

/// The schema of a provider's `kind`.
pub fn kinds_schema(_: &mut SchemaGenerator) -> Schema {
    let kinds: Vec<_> = DIALECTS.iter().map(|dialect| dialect.kind).collect();
    json_schema!({ "type": "string", "enum": kinds })
}

/// Why a vendor of the documented form is refused.
pub fn why_not(kind: &str) -> Option<&'static str> {
    match kind {
        "gemini" => Some(
            "Gemini's own dialect is not available yet: \"gemini-openai\" is the one it shares with OpenAI",
        ),
        "bedrock" => Some(
            "Bedrock's own form (Converse) is not available yet: \"bedrock-openai\" is the one it shares with OpenAI",
        ),
        "vertex" => Some(
            "Vertex AI's own form is not available yet: \"vertex-openai\" is the one it shares with OpenAI",
        ),
        _ => None,
    }
}
