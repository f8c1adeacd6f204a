//! The bytes of a file that a plugin makes.

use serde::{Serialize, Serializer};
use serde_json::json;

/// A file's bytes. They are answered as text where they are UTF-8, and in Base64 elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content(pub Vec<u8>);

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => json!({"base64": base64(&self.0)}).serialize(serializer),
        }
    }
}

/// Here rather than a dependency: plugins are to be small.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits =
            (0..3).fold(0, |bits, i| bits << 8 | three.get(i).map_or(0, |b| usize::from(*b)));
        for i in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * i) & 63];
            text.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let vectors = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in vectors {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xef, 0xbe]), "/+++");
    }

    #[test]
    fn files_are_text_where_they_can_be() {
        assert_eq!(json!(Content("ü".into())), json!("ü"));
        assert_eq!(json!(Content(vec![0xff])), json!({"base64": "/w=="}));
    }
}
