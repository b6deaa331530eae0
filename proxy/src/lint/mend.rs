//! What is safe to mend in a file, mended.
//!
//! Only bodies that stand in the file as they were sent are touched, and in them only what the
//! findings ask for. The rest of the file stays byte for byte.

use std::collections::BTreeSet;

use bytes::Bytes;
use whippletree_policies::lint::Fix;
use whippletree_providers::envelope::Envelope;
use whippletree_providers::prompt::{Form, Repairs, repair};

use super::judge::Cause;
use super::trace::{File, Request};

/// Which repairs the findings of one file ask for.
pub fn asked<'a>(causes: impl Iterator<Item = &'a Cause>) -> Repairs {
    let mut repairs = Repairs::default();
    for cause in causes {
        match cause.finding.rule.fix {
            Fix::Advice => {}
            Fix::KeyOrder => repairs.canonical_keys = true,
            Fix::Marks => repairs.cache_marks = true,
            Fix::ToolOrder => repairs.sort_tools = true,
        }
    }
    repairs
}

/// The file with its bodies repaired, and how many were; `None` where nothing is to be changed.
pub fn mend(file: &File, requests: &[&Request], repairs: Repairs) -> Option<(Vec<u8>, usize)> {
    let mut text = Vec::with_capacity(file.text.len());
    let mut at = 0;
    let mut mended = BTreeSet::new();
    let mut spans: Vec<_> = requests
        .iter()
        .filter_map(|request| Some((request.span.clone()?, request)))
        .collect();
    spans.sort_by_key(|(span, _)| span.start);
    for (span, request) in spans {
        let Ok(envelope) = Envelope::parse(Bytes::copy_from_slice(&request.body)) else {
            continue;
        };
        if let Some(body) = repair(&envelope, Form::of(&envelope), repairs) {
            text.extend_from_slice(file.text.get(at..span.start).unwrap_or_default());
            text.extend_from_slice(&body);
            at = span.end;
            mended.insert(request.number);
        }
    }
    text.extend_from_slice(file.text.get(at..).unwrap_or_default());
    (!mended.is_empty()).then_some((text, mended.len()))
}
