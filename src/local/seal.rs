//! Encryption of what is secret among the local cloud's objects, so that a folder which is copied, searched
//! or backed up shows no key. AES-256-GCM, with a key in the folder that only its owner can read: it keeps
//! nobody out who has the folder and looks for the key.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::store::Store;
use crate::port::{Answer, CloudError, ErrorKind};

/// The file of the key.
const KEY: &str = "key";

/// Whether an object is kept encrypted: secrets and private keys are, public facts are not.
pub(super) fn is_secret(key: &str) -> bool {
    key.starts_with("secrets/") || (key.starts_with("pki/") && !key.starts_with("pki/facts/"))
}

fn failed<T>(text: &str) -> Answer<T> {
    Err(CloudError::new("the local cloud", ErrorKind::Unavailable, text))
}

fn random<const N: usize>() -> Answer<[u8; N]> {
    let mut bytes = [0; N];
    match aws_lc_rs::rand::fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => failed("the system gives no random bytes"),
    }
}

/// Returns the folder's key, made if there is none.
fn key(store: &Store, make: bool) -> Answer<LessSafeKey> {
    let bytes = match store.bytes(KEY)? {
        Some(bytes) => bytes,
        None if make => {
            let bytes: [u8; 32] = random()?;
            store.put_private(KEY, &bytes)?;
            bytes.to_vec()
        }
        None => return failed("its key is missing: delete the folder .kaws/local and begin anew"),
    };
    match UnboundKey::new(&AES_256_GCM, &bytes) {
        Ok(key) => Ok(LessSafeKey::new(key)),
        Err(_) => failed("its key is none: delete the folder .kaws/local and begin anew"),
    }
}

/// Encrypts an object's bytes; its name is bound to them.
pub(super) fn seal(store: &Store, name: &str, bytes: &[u8]) -> Answer<Vec<u8>> {
    let nonce: [u8; NONCE_LEN] = random()?;
    let mut text = bytes.to_vec();
    let tag = key(store, true)?.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(name.as_bytes()),
        &mut text,
    );
    if tag.is_err() {
        return failed("an object could not be encrypted");
    }
    Ok([&nonce[..], &text].concat())
}

/// Decrypts an object's bytes.
pub(super) fn open(store: &Store, name: &str, sealed: &[u8]) -> Answer<Vec<u8>> {
    let Some((nonce, text)) = sealed.split_first_chunk::<NONCE_LEN>() else {
        return failed("an object is cut off");
    };
    let mut text = text.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    match key(store, false)?.open_in_place(nonce, Aad::from(name.as_bytes()), &mut text) {
        Ok(plain) => Ok(plain.to_vec()),
        Err(_) => failed("an object is not what was written, or of another folder's key"),
    }
}
