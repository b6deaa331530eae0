//! Percent-encoding and hexadecimal digits (RFC 3986, section 2).

/// Appends `bytes` with everything escaped but the unreserved characters and those in `keep`.
pub fn encode(bytes: &[u8], keep: &[u8], out: &mut String) {
    for byte in bytes {
        let unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        if unreserved || keep.contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push('%');
            out.extend(digits(*byte).map(|digit| digit.to_ascii_uppercase()));
        }
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| digits(*byte)).collect()
}

fn digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_unreserved_and_kept_characters_is_escaped_in_upper_case() {
        let mut out = String::new();
        encode("a-Z_0.~ /é".as_bytes(), b"/", &mut out);
        assert_eq!(out, "a-Z_0.~%20/%C3%A9");
        assert_eq!(hex(&[0, 0xab]), "00ab");
    }
}
