//! The step `pki`: mints what is missing, and puts it where the machines that may read it do.
//!
//! Everything is minted once, as one object that only those who deploy can read (`pki/minted/`): what
//! machines read is cut out of it, so that a run that was interrupted goes on with the same keys. Public
//! facts lie beside (`pki/facts/`). Values pass through here and are never shown, logged or kept.

mod mint;
mod operator;
mod status;

pub use mint::{MintError, Said};
pub use operator::{Access, access};
pub use status::{PkiStatus, Row, pki_status};

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::Error;
use super::tree::Tree;
use crate::model::KeyKind;
use crate::pki::{File, Part, Requests, files, output, role_prefix};
use crate::port::{Cloud, When};
use mint::Pair;

/// How many uploads go on at once.
const AT_ONCE: usize = 8;

/// Outputs of stacks, by stack and name.
pub(super) type Outputs = BTreeMap<String, BTreeMap<String, String>>;

/// What was minted in one go, and only those who deploy read.
#[derive(Clone, Serialize, Deserialize)]
struct Minted {
    key: String,
    #[serde(default)]
    certificate: Option<String>,
}

fn minted_key(object: &str) -> String {
    format!("pki/minted/{object}")
}

fn facts_key(object: &str) -> String {
    format!("pki/facts/{object}.json")
}

/// Mints what is missing. Returns what was done, in words.
pub(super) async fn mint_missing(
    cloud: &dyn Cloud,
    tree: &Tree,
    outputs: &Outputs,
    now: u64,
) -> Result<String, Error> {
    let bucket = &tree.cluster.bucket;
    let there: BTreeSet<String> = cloud.list(bucket, "pki/").await?.into_iter().collect();
    let requests = &tree.pki;
    let read = BTreeMap::new();
    let uploads = Vec::new();
    let mut work = Work { cloud, bucket, requests, outputs, there, read, uploads, now, count: 0 };
    for (name, file) in files(requests) {
        work.place(&name, &file).await?;
    }
    work.issuer(&tree.cluster.issuer).await?;
    let uploads = stream::iter(std::mem::take(&mut work.uploads).into_iter().map(Ok::<_, Error>));
    uploads
        .try_for_each_concurrent(AT_ONCE, |(key, bytes)| async move {
            cloud.put(bucket, &key, bytes, When::Always).await?;
            Ok(())
        })
        .await?;
    let count = work.count;
    Ok(match count {
        0 => "nothing to mint".to_owned(),
        1 => "1 key minted".to_owned(),
        _ => format!("{count} keys minted"),
    })
}

/// One run of the step.
struct Work<'a> {
    cloud: &'a dyn Cloud,
    bucket: &'a str,
    requests: &'a Requests,
    outputs: &'a Outputs,
    there: BTreeSet<String>,
    /// What was minted, as far as it has been read in this run.
    read: BTreeMap<String, Minted>,
    /// What is cut out of it, to be written once everything is minted.
    uploads: Vec<(String, Vec<u8>)>,
    now: u64,
    count: usize,
}

impl Work<'_> {
    /// Puts one file where each role that may read it does.
    async fn place(&mut self, name: &str, file: &File) -> Result<(), Error> {
        let renewed = self.renewed(file).await?;
        for role in &file.roles {
            let key = format!("{}{}", role_prefix(role), file.object);
            if self.there.contains(&key) && !renewed {
                continue;
            }
            let bytes = self.content(name, file).await?.into_bytes();
            self.uploads.push((key.clone(), bytes));
            self.there.insert(key);
        }
        if file.roles.is_empty() && !file.generations.is_empty() {
            // Nobody's machines read it: it is minted all the same, for what it signs.
            self.content(name, file).await?;
        }
        Ok(())
    }

    /// Whether a certificate is to be another one without being asked for anew: the names that stacks gave
    /// have changed, or it is a person's, whom no machine waits for, and ends soon.
    async fn renewed(&mut self, file: &File) -> Result<bool, Error> {
        let Some(request) = self.requests.certificates.get(&file.request) else { return Ok(false) };
        let object = format!("{}.{}", file.request, request.version);
        let facts = facts_key(&object);
        let named = request.sans.iter().any(|san| output(san).is_some());
        let personal = request.roles.iter().all(|role| role == operator::ROLE);
        if file.part != Part::Certificate || !self.there.contains(&facts) || !(named || personal) {
            return Ok(false);
        }
        let wanted = self.sans(&file.request)?;
        let known = self.cloud.get(self.bucket, &facts).await?;
        let known: Option<Said> = known.and_then(|o| serde_json::from_slice(&o.bytes).ok());
        let third = i64::from(request.days) * 86_400 / 3;
        let now = i64::try_from(self.now).unwrap_or(i64::MAX);
        let good = |said: Said| said.sans == wanted && (!personal || said.not_after - now > third);
        if known.is_some_and(good) {
            return Ok(false);
        }
        let key = minted_key(&object);
        self.read.remove(&object);
        if self.there.remove(&key) {
            self.cloud.delete(self.bucket, &key, When::Always).await?;
        }
        for role in &request.roles {
            for end in ["crt", "key"] {
                self.there.remove(&format!("{}{object}.{end}", role_prefix(role)));
            }
        }
        Ok(true)
    }

    /// Returns what a file holds, minted if it has not been.
    async fn content(&mut self, name: &str, file: &File) -> Result<String, Error> {
        if self.requests.certificates.contains_key(&file.request) {
            let minted = self.certificate(&file.request).await?;
            return Ok(match file.part {
                Part::Certificate => minted.certificate.unwrap_or_default(),
                _ => minted.key,
            });
        }
        let mut whole = String::new();
        for generation in &file.generations {
            let minted = match self.requests.authorities.contains_key(&file.request) {
                true => self.authority(&file.request, *generation).await?,
                false => self.key(&file.request, *generation).await?,
            };
            let (id, secret) = minted.key.split_once('.').unwrap_or_default();
            let part = match file.part {
                Part::Certificate => minted.certificate.as_deref().unwrap_or_default(),
                Part::Key | Part::Token => &minted.key,
                Part::Id => id,
                Part::Secret => secret,
                Part::Public => &mint::public(&minted.key).map_err(|e| failed(name, e))?,
            };
            whole.push_str(part);
        }
        Ok(whole)
    }

    async fn authority(&mut self, name: &str, generation: u32) -> Result<Minted, Error> {
        let request = self.requests.authorities[name].clone();
        let now = self.now;
        self.once(&format!("{name}.{generation}"), || {
            let Pair { key, certificate } = mint::authority(&request, now)?;
            Ok(Minted { key, certificate: Some(certificate) })
        })
        .await
    }

    async fn certificate(&mut self, name: &str) -> Result<Minted, Error> {
        let request = self.requests.certificates[name].clone();
        let object = format!("{name}.{}", request.version);
        if self.there.contains(&minted_key(&object)) {
            return self.minted(&object).await;
        }
        let Some(authority) = self.requests.authorities.get(&request.authority) else {
            let reason = format!("no plugin has the authority {}", request.authority);
            return Err(failed(name, MintError::Unreadable(reason)));
        };
        let signer = self.authority(&request.authority, authority.signs).await?;
        let signer = Pair { key: signer.key, certificate: signer.certificate.unwrap_or_default() };
        let sans = self.sans(name)?;
        let now = self.now;
        self.once(&object, || {
            let Pair { key, certificate } = mint::certificate(&request, &sans, &signer, now)?;
            Ok(Minted { key, certificate: Some(certificate) })
        })
        .await
    }

    async fn key(&mut self, name: &str, generation: u32) -> Result<Minted, Error> {
        let kind = self.requests.keys[name].kind;
        self.once(&format!("{name}.{generation}"), || {
            let key = match kind {
                KeyKind::Rsa => mint::rsa()?,
                KeyKind::Secretbox => mint::secretbox()?,
                KeyKind::Token => mint::token()?,
            };
            Ok(Minted { key, certificate: None })
        })
        .await
    }

    /// Returns what was minted before, or mints it: the object is written if there is none, so that of two
    /// who do this at once both go on with the same key.
    async fn once(
        &mut self,
        object: &str,
        make: impl FnOnce() -> Result<Minted, MintError>,
    ) -> Result<Minted, Error> {
        let key = minted_key(object);
        if !self.there.contains(&key) {
            let minted = make().map_err(|error| failed(object, error))?;
            let bytes = serde_json::to_vec(&minted).expect("it is made of texts");
            match self.cloud.put(self.bucket, &key, bytes, When::Absent).await {
                Ok(_) => {
                    self.count += 1;
                    self.read.insert(object.to_owned(), minted);
                }
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
            self.there.insert(key.clone());
            self.there.remove(&facts_key(object));
        }
        self.minted(object).await
    }

    /// Reads what was minted, and writes down what is public of it.
    async fn minted(&mut self, object: &str) -> Result<Minted, Error> {
        let minted = match self.read.get(object) {
            Some(minted) => minted.clone(),
            None => self.stored(object).await?,
        };
        let facts = facts_key(object);
        if let (Some(certificate), false) = (&minted.certificate, self.there.contains(&facts)) {
            let said = mint::said(certificate).map_err(|error| failed(object, error))?;
            let bytes = serde_json::to_vec_pretty(&said).expect("it is made of texts");
            self.uploads.push((facts.clone(), bytes));
            self.there.insert(facts);
        }
        Ok(minted)
    }

    async fn stored(&mut self, object: &str) -> Result<Minted, Error> {
        let key = minted_key(object);
        let stored = self.cloud.get(self.bucket, &key).await?;
        let read = stored.and_then(|o| serde_json::from_slice::<Minted>(&o.bytes).ok());
        let unreadable =
            || MintError::Unreadable(format!("{key} in {} cannot be read", self.bucket));
        let minted = read.ok_or_else(unreadable).map_err(|error| failed(object, error))?;
        self.read.insert(object.to_owned(), minted.clone());
        Ok(minted)
    }

    /// Returns the names and addresses of a certificate, with what stacks gave.
    fn sans(&self, name: &str) -> Result<Vec<String>, Error> {
        let mut sans = Vec::new();
        for san in &self.requests.certificates[name].sans {
            let text = match (san, output(san)) {
                (Value::String(text), _) => text.clone(),
                (_, Some(named)) => {
                    let (stack, output) = named.split_once('.').unwrap_or_default();
                    let value = self.outputs.get(stack).and_then(|o| o.get(output));
                    value.cloned().ok_or_else(|| Error::NoValue {
                        stack: "pki".to_owned(),
                        parameter: format!("certificate {name}"),
                        source_name: named.to_owned(),
                    })?
                }
                _ => continue,
            };
            if !text.is_empty() && !sans.contains(&text) {
                sans.push(text);
            }
        }
        Ok(sans)
    }

    /// Publishes what AWS reads of service accounts' keys: two public documents.
    async fn issuer(&mut self, issuer: &super::tree::Issuer) -> Result<(), Error> {
        let Some(request) = self.requests.keys.get("service-accounts").cloned() else {
            return Ok(());
        };
        let mut keys = Vec::new();
        for generation in &request.trusted {
            let minted = self.key("service-accounts", *generation).await?;
            keys.push(mint::web_key(&minted.key).map_err(|e| failed("service-accounts", e))?);
        }
        let url = &issuer.url;
        let discovery = json!({
            "authorization_endpoint": "urn:kubernetes:programmatic_authorization",
            "claims_supported": ["sub", "iss"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "issuer": url,
            "jwks_uri": format!("{url}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
        });
        for (key, document) in [
            (".well-known/openid-configuration", discovery),
            ("openid/v1/jwks", json!({"keys": keys})),
        ] {
            let bytes = serde_json::to_vec(&document).expect("it is JSON");
            let known = self.cloud.get(&issuer.bucket, key).await?;
            if known.is_none_or(|object| object.bytes != bytes) {
                self.cloud.put(&issuer.bucket, key, bytes, When::Always).await?;
            }
        }
        Ok(())
    }
}

fn failed(name: &str, source: MintError) -> Error {
    Error::Mint { name: name.to_owned(), source }
}
