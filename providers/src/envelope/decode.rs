//! The few fields that decide something, decoded; one that has another type than vendors document is
//! refused, for the gateway would act on one reading and the vendor on another.

use super::{Envelope, Fault, InvalidEnvelope, Limit, Span, StreamOptions, string, string_inside};

impl Envelope {
    pub(super) fn decode(&mut self) -> Result<(), InvalidEnvelope> {
        self.model = self.typed("model", "a string", |raw| {
            string_inside(raw).map(|inside| Box::from(&*string::text(inside)))
        })?;
        self.stream = self
            .typed("stream", "true or false", boolean)?
            .unwrap_or(false);
        self.max_tokens = self.limit("max_tokens")?;
        self.max_completion_tokens = self.limit("max_completion_tokens")?;
        self.max_output_tokens = self.limit("max_output_tokens")?;
        self.n = self.limit("n")?.map(|limit| limit.value);
        if let Some(span) = self.typed_span("stream_options") {
            self.stream_options = Some(self.decode_stream_options(span)?);
        }
        Ok(())
    }

    fn decode_stream_options(&self, span: Span) -> Result<StreamOptions, InvalidEnvelope> {
        let refused = |offset: usize, field, expected| InvalidEnvelope {
            fault: Fault::Type { field, expected },
            offset,
        };
        if !span.of(&self.body).starts_with(b"{") {
            return Err(refused(span.start(), "stream_options", "an object"));
        }
        let mut include_usage = None;
        for member in self.members(span) {
            let raw = member.value.of(&self.body);
            if self.name(&member) != "include_usage" || raw == b"null" {
                continue;
            }
            let Some(asked) = boolean(raw) else {
                let offset = member.value.start();
                return Err(refused(offset, "include_usage", "true or false"));
            };
            // Parsers differ on which of two equal keys counts; the edit makes them all true.
            include_usage = Some(include_usage.unwrap_or(true) && asked);
        }
        Ok(StreamOptions {
            span,
            include_usage,
        })
    }

    /// The place of a field that is present and not null.
    fn typed_span(&self, name: &str) -> Option<Span> {
        let span = self.field(name)?.value;
        (span.of(&self.body) != b"null").then_some(span)
    }

    fn typed<T>(
        &self,
        field: &'static str,
        expected: &'static str,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, InvalidEnvelope> {
        let Some(span) = self.typed_span(field) else {
            return Ok(None);
        };
        match read(span.of(&self.body)) {
            Some(value) => Ok(Some(value)),
            None => Err(InvalidEnvelope {
                fault: Fault::Type { field, expected },
                offset: span.start(),
            }),
        }
    }

    fn limit(&self, field: &'static str) -> Result<Option<Limit>, InvalidEnvelope> {
        let value = self.typed(field, "a whole number of 0 or more", whole_number)?;
        let span = self.typed_span(field);
        Ok(value.zip(span).map(|(value, span)| Limit { value, span }))
    }
}

fn boolean(raw: &[u8]) -> Option<bool> {
    match raw {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    }
}

/// A number that is whole, however it is written: `4096`, `4096.0`, `4e3`.
fn whole_number(raw: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(raw).ok()?;
    if let Ok(value) = text.parse::<u64>() {
        return Some(value);
    }
    let value = text.parse::<f64>().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole, and between zero and 2^53, where every whole f64 is exact"
    )]
    (value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value))
        .then_some(value as u64)
}
