//! Signature Version 4: how AWS knows who sends a request.
//!
//! A request is written in one canonical form, hashed, and the hash signed with a key that holds
//! for one day, region and service. All is a pure function of the request, the keys and the time.
//!
//! Limits: the whole body is hashed before it is sent (no chunked signatures), and paths are taken
//! as they will be sent: `.` and `..` are not resolved, so a caller must send none.
//! See <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html>.

use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use whippletree_policies::time::UnixTime;

use crate::percent::{self, hex};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Who signs, and for which service where.
#[derive(Clone, Copy)]
pub struct Signer<'a> {
    /// The public half of the key.
    pub access_key_id: &'a str,
    /// The secret half.
    pub secret_access_key: &'a str,
    /// Such as `us-east-1`.
    pub region: &'a str,
    /// Such as `bedrock`.
    pub service: &'a str,
}

impl std::fmt::Debug for Signer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("region", &self.region)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// A request as far as its signature covers it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Such as `POST`.
    pub method: &'a str,
    /// As it is sent, percent-encoded.
    pub path: &'a str,
    /// Without its question mark; empty when there is none.
    pub query: &'a str,
    /// The signed headers with names in lower case; `host` and `x-amz-date` must be among them.
    pub headers: &'a [(&'a str, &'a str)],
    /// SHA-256 of the body.
    pub payload: [u8; 32],
}

/// The value of `x-amz-date` for a time: `20150830T123600Z`.
pub fn timestamp(at: UnixTime) -> String {
    Timestamp::from_millisecond(at.0)
        .unwrap_or_default()
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string()
}

/// The value of `authorization` for a request sent at that time.
pub fn authorization(signer: Signer<'_>, request: &Request<'_>, at: UnixTime) -> String {
    let time = timestamp(at);
    let date = time.get(..8).unwrap_or_default();
    let mut headers: Vec<_> = request.headers.to_vec();
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let canonical = canonical(request, &headers, &names);
    let scope = format!("{date}/{}/{}/aws4_request", signer.region, signer.service);
    let text = format!(
        "{ALGORITHM}\n{time}\n{scope}\n{}",
        hex(&Sha256::digest(canonical))
    );
    let start = format!("AWS4{}", signer.secret_access_key);
    let parts = [date, signer.region, signer.service, "aws4_request", &text];
    let signature = parts
        .iter()
        .fold(start.into_bytes(), |key, part| mac(&key, part));
    format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={}",
        signer.access_key_id,
        hex(&signature)
    )
}

fn canonical(request: &Request<'_>, headers: &[(&str, &str)], names: &str) -> String {
    let mut text = format!("{}\n", request.method);
    percent::encode(request.path.as_bytes(), b"/", &mut text);
    text.push('\n');
    text.push_str(&canonical_query(request.query));
    text.push('\n');
    for (name, value) in headers {
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        text.push_str(name);
        text.push(':');
        text.push_str(&words.join(" "));
        text.push('\n');
    }
    text.push('\n');
    text.push_str(names);
    text.push('\n');
    text.push_str(&hex(&request.payload));
    text
}

/// The parameters, each encoded, in the order of their bytes.
fn canonical_query(query: &str) -> String {
    let mut parameters: Vec<(String, String)> = query
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            (recode(name), recode(value))
        })
        .collect();
    parameters.sort_unstable();
    let joined: Vec<String> = parameters
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    joined.join("&")
}

/// A part of a query in the one encoding that is signed, whatever the one that is sent.
fn recode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = || {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        if let Some(byte) = escaped().filter(|_| *first == b'%') {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    let mut out = String::with_capacity(bytes.len());
    percent::encode(&bytes, b"", &mut out);
    out
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // HMAC takes keys of every length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys and the time of AWS's published test suite: 2015-08-30 12:36:00 UTC.
    const AT: UnixTime = UnixTime(1_440_938_160_000);
    const SIGNER: Signer<'static> = Signer {
        access_key_id: "AKIDEXAMPLE",
        secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
        region: "us-east-1",
        service: "service",
    };
    const HEADERS: &[(&str, &str)] = &[
        ("x-amz-date", "20150830T123600Z"),
        ("host", "example.amazonaws.com"),
    ];

    fn get(path: &'static str, query: &'static str) -> Request<'static> {
        Request {
            method: "GET",
            path,
            query,
            headers: HEADERS,
            payload: Sha256::digest(b"").into(),
        }
    }

    fn signature(signer: Signer<'_>, request: &Request<'_>) -> String {
        let value = authorization(signer, request, AT);
        value.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    #[test]
    fn the_published_vectors_are_met() {
        let vectors = [
            (
                get("/", ""),
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                get("/", "Param2=value2&Param1=value1"),
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
            (
                get("/ሴ", ""),
                "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
            ),
            (
                Request {
                    method: "POST",
                    ..get("/", "")
                },
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                Request {
                    method: "POST",
                    headers: &[
                        ("content-type", "application/x-www-form-urlencoded"),
                        ("host", "example.amazonaws.com"),
                        ("x-amz-date", "20150830T123600Z"),
                    ],
                    payload: Sha256::digest(b"Param1=value1").into(),
                    ..get("/", "")
                },
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ];
        for (request, expected) in vectors {
            assert_eq!(signature(SIGNER, &request), expected, "{request:?}");
        }
    }

    #[test]
    fn the_documentations_example_is_met() {
        let signer = Signer {
            service: "iam",
            ..SIGNER
        };
        let request = Request {
            headers: &[
                (
                    "content-type",
                    "application/x-www-form-urlencoded; charset=utf-8",
                ),
                ("host", "iam.amazonaws.com"),
                ("x-amz-date", "20150830T123600Z"),
            ],
            ..get("/", "Action=ListUsers&Version=2010-05-08")
        };
        assert_eq!(
            authorization(signer, &request, AT),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }

    #[test]
    fn a_signer_prints_no_key() {
        let shown = format!("{SIGNER:?}");
        assert!(
            !shown.contains("AKID") && !shown.contains("wJalr"),
            "{shown}"
        );
    }

    proptest::proptest! {
        #[test]
        fn a_query_signs_the_same_however_it_is_encoded(name in "[a-zA-Z0-9 /:+&=é%]{1,12}") {
            let mut once = String::new();
            percent::encode(name.as_bytes(), b"", &mut once);
            let lower = once.to_ascii_lowercase();
            // Escapes in lower case mean the same; letters outside them do not.
            let same_letters = name.chars().all(|c| !c.is_ascii_uppercase());
            proptest::prop_assert_eq!(recode(&once), once.clone());
            if same_letters {
                proptest::prop_assert_eq!(recode(&lower), once);
            }
        }
    }
}
