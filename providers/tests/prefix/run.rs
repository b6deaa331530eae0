//! Requests through the linter.

use std::sync::Arc;

use bytes::Bytes;
use whippletree_policies::cost::PriceCard;
pub(crate) use whippletree_policies::lint::Bounds;
use whippletree_policies::lint::{
    Call, Finding, Fingerprint, Fingerprinter, Lint, Observed, Place, Severity, caching,
};
use whippletree_policies::time::Instant;
use whippletree_policies::units::Price;
use whippletree_providers::envelope::Envelope;
use whippletree_providers::prompt::{self, Memo, read, read_again};

use super::conversation::{Form, Request};

/// Everything that one feed of requests came to.
pub(crate) struct Run {
    pub(crate) lint: Lint,
    print: Fingerprinter,
    memo: Memo,
    number: u64,
}

/// The text of all conversations is kept, as offline.
pub(crate) const OFFLINE: Bounds = Bounds {
    conversations: 4096,
    segments: 4_000_000,
    text_of_one: 1 << 30,
    text_of_all: 1 << 32,
};

impl Run {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            lint: Lint::new(bounds),
            print: Fingerprinter::new(&[7; 32]),
            memo: Memo::new(20_000),
            number: 0,
        }
    }

    pub(crate) fn send(&mut self, request: &Request, form: Form, start: u64) -> Observed {
        self.number += 1;
        let envelope = Envelope::parse(Bytes::from(request.body(form))).unwrap();
        let model = request.model(form);
        let form = match form {
            Form::Chat => prompt::Form::Chat,
            Form::Messages => prompt::Form::Messages,
        };
        let prompt = read_again(&envelope, form, model, &self.print, &mut self.memo);
        let afresh = read(&envelope, form, model, &self.print);
        assert_eq!(prompt.segments, afresh.segments, "the memo tells the same");
        assert_eq!(prompt.marks, afresh.marks);
        let caching = caching(model);
        let card = card();
        let call = Call {
            number: self.number,
            model,
            caching: &caching,
            card: Some(&card),
            task: None,
            place: Place {
                key: Some(Fingerprint(u64::from(request.key))),
                region: Some(Fingerprint(u64::from(request.region))),
                fallback: request.fallback,
            },
        };
        self.lint.observe(
            &prompt,
            &call,
            Instant((start + request.time) * 1_000_000_000),
        )
    }
}

pub(crate) fn card() -> Arc<PriceCard> {
    let mut card = PriceCard::new(Price(3_000_000), Price(15_000_000));
    card.base.cache_read = Some(Price(300_000));
    card.base.cache_write_5m = Some(Price(3_750_000));
    Arc::new(card)
}

pub(crate) fn loud(findings: &[Finding]) -> Vec<&Finding> {
    findings
        .iter()
        .filter(|finding| finding.severity >= Severity::Warning)
        .collect()
}

pub(crate) fn tell(finding: &Finding) -> String {
    let window = |window: &Option<whippletree_policies::lint::Window>| {
        window
            .as_ref()
            .map_or_else(String::new, |window| window.text.clone())
    };
    format!(
        "{} {} at {} (request {}, {:?}): {} [{} | {}] {}",
        finding.rule.code,
        finding.rule.name,
        finding.spot.path,
        finding.request,
        finding.scope,
        finding.message,
        window(&finding.before),
        window(&finding.after),
        finding.lost_tokens
    )
}
