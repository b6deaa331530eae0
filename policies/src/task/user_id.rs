//! The session within Claude Code's `metadata.user_id`.
//!
//! Newer versions write a JSON object as text: `{"device_id":…,"account_uuid":…,"session_id":…}`;
//! older ones `user_<hash>_account_<uuid>_session_<uuid>` (wire-facts, section I). A session id is a
//! UUID, so a value with escapes is not one and is not looked for.

/// The session that the text names.
pub(super) fn session(user_id: &str) -> Option<&str> {
    match user_id.trim_start().strip_prefix('{') {
        Some(members) => member(members, "session_id"),
        None => user_id.rsplit_once("_session_").map(|(_, session)| session),
    }
}

/// The text value of a member of the object whose members these are.
fn member<'a>(members: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = members;
    loop {
        let (name, after) = string(rest)?;
        rest = after.trim_start().strip_prefix(':')?;
        if name == wanted {
            let (value, _) = string(rest)?;
            return (!value.contains('\\')).then_some(value);
        }
        rest = skip_value(rest)?.trim_start().strip_prefix(',')?;
    }
}

/// A JSON string at the start of the text, without its quotes and unescaped nowhere, and the rest.
fn string(text: &str) -> Option<(&str, &str)> {
    let body = text.trim_start().strip_prefix('"')?;
    let mut escaped = false;
    for (i, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((body.get(..i)?, body.get(i + 1..)?)),
            _ => {}
        }
    }
    None
}

/// What follows a JSON value of any kind.
fn skip_value(text: &str) -> Option<&str> {
    let mut rest = text.trim_start();
    let mut depth = 0_u32;
    loop {
        match rest.bytes().next()? {
            b'"' => rest = string(rest)?.1,
            b'{' | b'[' => {
                depth += 1;
                rest = rest.get(1..)?;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                rest = rest.get(1..)?;
            }
            b',' if depth == 0 => return Some(rest),
            _ => {
                let mut chars = rest.chars();
                chars.next()?;
                rest = chars.as_str();
                if !rest.starts_with(['"', '{', '[', '}', ']', ',']) {
                    continue;
                }
            }
        }
        if depth == 0 && rest.trim_start().starts_with([',', '}']) {
            return Some(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_forms_are_read() {
        let json =
            r#"{"device_id":"d","account_uuid":"a","session_id":"0b0b","parent_session_id":"p"}"#;
        assert_eq!(session(json), Some("0b0b"));
        assert_eq!(session("user_ab12_account_c-d_session_e-f"), Some("e-f"));
    }

    #[test]
    fn only_a_member_of_the_object_itself_counts() {
        for (text, want) in [
            (
                r#"{ "x": {"session_id": "no"}, "session_id" : "yes" }"#,
                Some("yes"),
            ),
            (
                r#"{"a":[1,{"b":"}]"}],"n":null,"t":-1.5e3,"session_id":"yes"}"#,
                Some("yes"),
            ),
            (
                r#"{"x":"\"session_id\":\"no\"","session_id":"yes"}"#,
                Some("yes"),
            ),
            (r#"{"session_id":7}"#, None),
            (r#"{"session_id":"a\u0041"}"#, None),
            (r#"{"parent_session_id":"p"}"#, None),
            ("{}", None),
            ("{\"session_id\"", None),
            ("someone@example.org", None),
            ("", None),
        ] {
            assert_eq!(session(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,40}", tail in r#"[\{\}\[\]",:\\a1 ]{0,30}"#) {
            let _ = session(&text);
            let _ = session(&alloc::format!("{{{tail}"));
        }

        #[test]
        fn it_agrees_with_a_json_parser(
            names in proptest::collection::vec("[a-c]|session_id", 0..4),
            values in proptest::collection::vec(r#"[a-z{}\[\],":]{0,6}"#, 4),
            nested in any::<bool>(),
        ) {
            let mut object = serde_json::Map::new();
            for (name, value) in names.iter().zip(&values) {
                let value = serde_json::Value::from(value.as_str());
                let value = if nested && name != "session_id" {
                    serde_json::json!([{ "session_id": value }, 1.5, null])
                } else {
                    value
                };
                object.insert(name.clone(), value);
            }
            let want = object.get("session_id").and_then(|v| v.as_str());
            let text = serde_json::to_string_pretty(&object).unwrap_or_default();
            let want = want.filter(|w| !w.contains('"'));
            prop_assert_eq!(session(&text), want);
        }
    }
}
