//! A whole answer or an error: whatever a vendor sends, it is classified, and no secret is passed on.

#![no_main]

use http::{HeaderMap, HeaderValue, StatusCode, header};
use libfuzzer_sys::fuzz_target;
use whippletree_policies::time::UnixTime;
use whippletree_providers::mask::mask;
use whippletree_providers::openai::dialects::DIALECTS;
use whippletree_providers::openai::response;
use whippletree_providers::provider::Api;

const NOW: UnixTime = UnixTime(1_790_000_000_000);
const STATUS: [u16; 12] = [200, 400, 401, 402, 404, 408, 413, 422, 429, 500, 503, 529];

fuzz_target!(|data: &[u8]| {
    let [how, status, hint, rest @ ..] = data else {
        return;
    };
    let (value, body) = rest.split_at(usize::from(*hint).min(rest.len()));
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(header::RETRY_AFTER, value);
    }
    let apis = [
        Api::Chat,
        Api::Completions,
        Api::Embeddings,
        Api::Responses,
        Api::Messages,
        Api::CountTokens,
    ];
    let api = apis[usize::from(how & 7) % apis.len()];
    let dialect = &DIALECTS[usize::from(how >> 3) % DIALECTS.len()];
    let status = STATUS[usize::from(*status) % STATUS.len()];
    let status = StatusCode::from_u16(status).expect("a status of the list");
    response::read(dialect, api, status, &headers, body, NOW);

    if let Ok(text) = std::str::from_utf8(body) {
        let once = mask(text).into_owned();
        assert_eq!(mask(&once), once, "masking again found more");
    }
});
