//! Signatures of archives: minisign's, by a key that `cluster.yaml` names.

use minisign_verify::{PublicKey, Signature};

use crate::config::Signatures;
use crate::finding::Finding;

/// What is wrong with a signature.
type Wrong = Box<Finding>;

fn wrong(text: String) -> Wrong {
    Box::new(Finding::fatal("install/signature", text))
}

/// Returns the name of the key that signed an archive; nothing where it is not signed, and need not be.
///
/// # Errors
/// A signature that is missing, by nobody who is trusted, or of other bytes.
pub fn check(
    what: &str,
    bytes: &[u8],
    signature: Option<&[u8]>,
    trusted: &Signatures,
    before: Option<&str>,
) -> Result<Option<String>, Wrong> {
    let Some(signature) = signature else { return missing(what, trusted, before) };
    if trusted.keys.is_empty() {
        // Nobody can say whose it is.
        let Some(before) = before else { return Ok(None) };
        let text = format!("{what} cannot be checked: the one before was signed by {before}");
        let help = "put that key back into cluster.yaml: signatures.keys";
        return Err(Box::new(wrong(text).help(help)));
    }
    let read = std::str::from_utf8(signature).ok().and_then(|text| Signature::decode(text).ok());
    let Some(signature) = read else {
        return Err(wrong(format!("the signature of {what} is none of minisign's")));
    };
    for (name, key) in &trusted.keys {
        let Ok(key) = PublicKey::from_base64(key) else {
            let text = format!("the key `{name}` in cluster.yaml is none of minisign's");
            return Err(wrong(text));
        };
        if key.verify(bytes, &signature, false).is_ok() {
            return Ok(Some(name.clone()));
        }
    }
    let names: Vec<&str> = trusted.keys.keys().map(String::as_str).collect();
    let text = format!("the signature of {what} is by none of the keys in cluster.yaml");
    Err(Box::new(
        Finding::fatal("install/signature", text)
            .note(format!("those keys are: {}", names.join(", ")))
            .help("the archive was changed after it was signed, or somebody else signed it: ask its publisher"),
    ))
}

/// What cannot be signed, or is not: that is for the cluster to say, and for the one that was there before.
fn missing(
    what: &str,
    trusted: &Signatures,
    before: Option<&str>,
) -> Result<Option<String>, Wrong> {
    if let Some(signer) = before {
        let text = format!("{what} is not signed, and the one before was signed by {signer}");
        return Err(wrong(text));
    }
    if trusted.required() {
        let finding = wrong(format!("{what} is not signed, and cluster.yaml asks for it"));
        return Err(Box::new(finding.help(
            "its publisher signs it with minisign and puts ARCHIVE.minisig beside it; signatures.required: false does without",
        )));
    }
    Ok(None)
}
