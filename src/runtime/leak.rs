//! Whether a text holds a secret's value: as it is, in Base64, in hex, percent-encoded, or escaped as in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Values that are shorter stand in too many texts by chance.
const SHORTEST: usize = 4;

/// Returns whether `bytes` hold `value` in any of these forms.
pub(super) fn holds(bytes: &[u8], value: &str) -> bool {
    if value.len() < SHORTEST {
        return false;
    }
    let has = |part: &[u8]| part.len() >= SHORTEST && bytes.windows(part.len()).any(|w| w == part);
    let lower: Vec<u8> = bytes.to_ascii_lowercase();
    let has_in_any_case = |part: &str| {
        let part = part.to_ascii_lowercase();
        lower.windows(part.len()).any(|w| w == part.as_bytes())
    };
    let hex: String = value.bytes().map(|b| format!("{b:02x}")).collect();
    let json = serde_json::to_string(value).unwrap_or_default();
    let json = json.trim_matches('"');
    has(value.as_bytes())
        || has(json.as_bytes())
        || nested(bytes, value)
        || has_in_any_case(&unicode(value))
        || has_in_any_case(&hex)
        || has_in_any_case(&percent(value, true))
        || has_in_any_case(&percent(value, false))
        || base64_forms(value).iter().any(|form| has(form.as_bytes()))
}

/// JSON in JSON, however deep: each level only puts backslashes in.
fn nested(bytes: &[u8], value: &str) -> bool {
    let plain =
        |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().filter(|byte| *byte != b'\\').collect() };
    let bytes = plain(&bytes.to_ascii_lowercase());
    [value.to_lowercase(), unicode(value)].iter().any(|form| {
        let form = plain(form.to_ascii_lowercase().as_bytes());
        form.len() >= SHORTEST && bytes.windows(form.len()).any(|window| window == form)
    })
}

/// Every character by its number, which JSON allows.
fn unicode(value: &str) -> String {
    value.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

/// Percent-encoded: all bytes, or those that are not letters and digits.
fn percent(value: &str, all: bool) -> String {
    let one = |b: u8| match b {
        b'-' | b'.' | b'_' | b'~' if !all => char::from(b).to_string(),
        _ if b.is_ascii_alphanumeric() && !all => char::from(b).to_string(),
        _ => format!("%{b:02x}"),
    };
    value.bytes().map(one).collect()
}

/// Base64 at the three places where the value can begin inside a longer text, without what its neighbours change.
fn base64_forms(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let mut text = vec![0_u8; before];
        text.extend_from_slice(value.as_bytes());
        let first = (before * 8).div_ceil(6);
        let last = text.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            forms.extend(
                encoded.get(first..last).filter(|f| f.len() >= SHORTEST).map(str::to_owned),
            );
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    const VALUE: &str = "s3cr/t \"wörd\"+x";

    #[test]
    fn every_form_is_seen() {
        let json = serde_json::to_string(VALUE).unwrap();
        let hex: String = VALUE.bytes().map(|b| format!("{b:02X}")).collect();
        for text in [
            format!("a {VALUE} b"),
            json,
            STANDARD.encode(VALUE),
            STANDARD.encode(format!("user:{VALUE}")),
            STANDARD.encode(format!("a user:{VALUE} and more")),
            URL_SAFE_NO_PAD.encode(format!("xy{VALUE}")),
            hex,
            "s3cr%2Ft%20%22w%C3%B6rd%22%2Bx".to_owned(),
            unicode(VALUE),
            serde_json::json!({"a": serde_json::json!({"b": VALUE}).to_string()}).to_string(),
        ] {
            assert!(holds(text.as_bytes(), VALUE), "{text}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_seen() {
        assert!(!holds(b"nothing of it", VALUE));
        assert!(!holds(b"abc", "abc"), "too short to tell");
    }
}
