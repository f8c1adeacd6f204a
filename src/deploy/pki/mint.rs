//! Minting: keys and certificates, as PEM. Nothing here touches the cloud.
//!
//! Keys are ECDSA P-256, those of service accounts RSA-2048 (what every reader of their tokens takes).
//! Authorities last ten years, and sign no other authority.

use std::net::IpAddr;

use base64::Engine as _;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, PublicKeyData as _,
    RsaKeySize, SanType,
};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::pki::{AuthorityRequest, CertificateRequest};

/// How long an authority lasts.
const AUTHORITY_DAYS: i64 = 3650;
/// Clocks differ: a certificate is valid from a little before it was made.
const BEFORE: Duration = Duration::hours(1);

/// Why something could not be minted.
#[derive(Debug, thiserror::Error)]
pub enum MintError {
    /// The library refuses.
    #[error("{0}")]
    Refused(#[from] rcgen::Error),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes")]
    Random,
    /// What was minted before cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// A private key and its certificate, as PEM.
pub(super) struct Pair {
    pub(super) key: String,
    pub(super) certificate: String,
}

fn params(common_name: &str, organizations: &[String], days: i64, now: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, organization.as_str());
    }
    name.push(DnType::CommonName, common_name);
    params.distinguished_name = name;
    let now = i64::try_from(now).ok().and_then(|t| OffsetDateTime::from_unix_timestamp(t).ok());
    let now = now.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    params.not_before = now - BEFORE;
    params.not_after = now + Duration::days(days);
    params
}

/// Mints an authority.
pub(super) fn authority(request: &AuthorityRequest, now: u64) -> Result<Pair, MintError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = params(&request.common_name, &[], AUTHORITY_DAYS, now);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?.pem();
    Ok(Pair { key: key.serialize_pem(), certificate })
}

/// Mints a certificate that `authority` signs; `sans` are names and addresses.
pub(super) fn certificate(
    request: &CertificateRequest,
    sans: &[String],
    authority: &Pair,
    now: u64,
) -> Result<Pair, MintError> {
    let signer = KeyPair::from_pem(&authority.key)?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, signer)?;
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let days = i64::from(request.days);
    let mut params = params(&request.common_name, &request.organizations, days, now);
    params.is_ca = IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let usage = |usage: &String| match usage.as_str() {
        "server" => ExtendedKeyUsagePurpose::ServerAuth,
        _ => ExtendedKeyUsagePurpose::ClientAuth,
    };
    params.extended_key_usages = request.usages.iter().map(usage).collect();
    params.subject_alt_names = sans
        .iter()
        .map(|san| {
            Ok(match san.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(san.as_str().try_into()?),
            })
        })
        .collect::<Result<_, rcgen::Error>>()?;
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok(Pair { key: key.serialize_pem(), certificate })
}

/// Mints an RSA pair; returns the private key.
pub(super) fn rsa() -> Result<String, MintError> {
    Ok(KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?.serialize_pem())
}

/// Returns the public half of a private key, as PEM.
pub(super) fn public(key: &str) -> Result<String, MintError> {
    Ok(KeyPair::from_pem(key)?.public_key_pem())
}

/// Mints 32 bytes, in Base64.
pub(super) fn secretbox() -> Result<String, MintError> {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| MintError::Random)?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

/// Mints a bootstrap token: `[a-z0-9]{6}.[a-z0-9]{16}`.
pub(super) fn token() -> Result<String, MintError> {
    const SIGNS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut text = String::new();
    while text.len() < 23 {
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| MintError::Random)?;
        for byte in bytes {
            if text.len() == 6 {
                text.push('.');
            }
            // Beyond the last multiple of 36 some signs would come up more often than others.
            if byte < 252 && text.len() < 23 {
                text.push(char::from(SIGNS[usize::from(byte) % SIGNS.len()]));
            }
        }
    }
    Ok(text)
}

/// Returns a key of a JSON Web Key Set for a private RSA key, as the API server names it: its id is the
/// hash of its public half.
pub(super) fn web_key(key: &str) -> Result<Value, MintError> {
    use x509_parser::prelude::FromDer as _;
    let der = KeyPair::from_pem(key)?.subject_public_key_info();
    let unreadable =
        || MintError::Unreadable("the key of service accounts is no RSA key".to_owned());
    let (_, info) =
        x509_parser::x509::SubjectPublicKeyInfo::from_der(&der).map_err(|_| unreadable())?;
    let Ok(x509_parser::public_key::PublicKey::RSA(rsa)) = info.parsed() else {
        return Err(unreadable());
    };
    let encoded = |bytes: &[u8]| {
        let first = bytes.iter().position(|b| *b != 0).unwrap_or(0);
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&bytes[first..])
    };
    let id = <sha2::Sha256 as sha2::Digest>::digest(&der);
    let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(id);
    Ok(
        json!({"alg": "RS256", "e": encoded(rsa.exponent), "kid": id, "kty": "RSA", "n": encoded(rsa.modulus),
        "use": "sig"}),
    )
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Said {
    /// Its subject: `CN=kube-apiserver`.
    pub subject: String,
    /// Its issuer.
    pub issuer: String,
    /// From when it is valid, in seconds since 1970.
    pub not_before: i64,
    /// Until when it is valid, in seconds since 1970.
    pub not_after: i64,
    /// The SHA-256 of its bytes.
    pub sha256: String,
    /// Names and addresses.
    pub sans: Vec<String>,
}

/// Reads a certificate.
pub(super) fn said(pem: &str) -> Result<Said, MintError> {
    let unreadable = |_| MintError::Unreadable("it is no certificate".to_owned());
    let (_, block) = x509_parser::pem::parse_x509_pem(pem.as_bytes())
        .map_err(|_| MintError::Unreadable("it is no PEM".to_owned()))?;
    let read = block.parse_x509().map_err(unreadable)?;
    let mut sans = Vec::new();
    if let Ok(Some(names)) = read.subject_alternative_name() {
        use x509_parser::extensions::GeneralName;
        for name in &names.value.general_names {
            match name {
                GeneralName::DNSName(name) => sans.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => sans.extend(address(bytes)),
                _ => {}
            }
        }
    }
    Ok(Said {
        subject: read.subject().to_string(),
        issuer: read.issuer().to_string(),
        not_before: read.validity().not_before.timestamp(),
        not_after: read.validity().not_after.timestamp(),
        sha256: crate::value::sha256(&block.contents),
        sans,
    })
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four).to_string());
    }
    Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000;

    #[test]
    fn a_token_has_the_form_that_kubernetes_wants() {
        for _ in 0..64 {
            let token = token().unwrap();
            let (id, secret) = token.split_once('.').unwrap();
            assert_eq!((id.len(), secret.len()), (6, 16), "{token}");
            assert!(
                token.bytes().all(|b| b == b'.' || b.is_ascii_lowercase() || b.is_ascii_digit())
            );
        }
    }

    #[test]
    fn a_certificate_says_what_was_asked_for() {
        let request = AuthorityRequest {
            common_name: "etcd-ca".to_owned(),
            key_roles: Vec::new(),
            roles: Vec::new(),
            signs: 1,
            trusted: vec![1],
        };
        let ca = authority(&request, NOW).unwrap();
        assert_eq!(said(&ca.certificate).unwrap().subject, "CN=etcd-ca");
        let request = CertificateRequest {
            authority: "etcd-ca".to_owned(),
            common_name: "etcd-0".to_owned(),
            days: 398,
            organizations: vec!["a".to_owned()],
            roles: Vec::new(),
            sans: Vec::new(),
            usages: vec!["server".to_owned(), "client".to_owned()],
            version: String::new(),
        };
        let sans = ["etcd-0.prod.internal".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let made = certificate(&request, &sans, &ca, NOW).unwrap();
        let said = said(&made.certificate).unwrap();
        assert_eq!(said.subject, "O=a, CN=etcd-0");
        assert_eq!(said.issuer, "CN=etcd-ca");
        assert_eq!(said.sans, sans);
        assert_eq!(said.not_after - said.not_before, 398 * 86_400 + 3_600);
    }

    #[test]
    fn what_encrypts_has_32_bytes() {
        let bytes = base64::engine::general_purpose::STANDARD.decode(secretbox().unwrap());
        assert_eq!(bytes.unwrap().len(), 32);
    }
}
