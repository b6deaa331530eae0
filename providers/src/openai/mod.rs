//! OpenAI's dialect, spoken by most vendors.
//!
//! [`dialects`] lists who speaks it and where they differ; [`request`] makes a body fit for one of
//! them, [`response`] and [`stream`] read their answers and [`failure`] their errors.

pub mod dialects;
pub mod failure;
pub mod request;
pub mod response;
pub mod stream;
mod usage;

use http::{HeaderMap, StatusCode};
use whippletree_policies::time::UnixTime;

use self::dialects::Dialect;
use crate::decoder::{Answer, StreamDecoder};
use crate::envelope::{Edits, Envelope, OutputLimit};
use crate::failure::Failure;
use crate::provider::{Api, Auth, Decode, Encode, Endpoint, UsageChunk};

impl Endpoint for Dialect {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn base_url(&self) -> Option<&'static str> {
        self.base_url
    }

    fn key_env(&self) -> Option<&'static str> {
        self.key_env
    }

    fn apis(&self) -> &'static [Api] {
        self.apis
    }

    fn auth(&self) -> Auth {
        self.auth
    }

    fn url(&self, base_url: &str, api: Api, model: &str) -> String {
        Dialect::url(self, base_url, api, model)
    }
}

impl Encode for Dialect {
    fn prepare(&self, api: Api, envelope: &Envelope, model: &str, edits: &mut Edits) -> UsageChunk {
        request::prepare(self, api, envelope, model, edits)
    }

    fn output_limit(&self, api: Api) -> OutputLimit {
        match api {
            Api::Chat => self.output_limit,
            Api::Responses => OutputLimit::MaxOutputTokens,
            Api::Completions | Api::CountTokens | Api::Embeddings | Api::Messages => {
                OutputLimit::MaxTokens
            }
        }
    }
}

impl Decode for Dialect {
    fn stream_decoder(&self, api: Api) -> Option<Box<dyn StreamDecoder>> {
        stream::decoder(self, api)
    }

    fn answer(
        &self,
        api: Api,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: UnixTime,
    ) -> Answer {
        response::read(self, api, status, headers, body, now)
    }

    fn failure(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: UnixTime,
    ) -> Failure {
        failure::classify(self, status, headers, body, now)
    }
}
