//! The SDK's errors, in the port's words.

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use crate::port::{CloudError, ErrorKind};

/// Codes that say that something is not there.
const NOT_FOUND: &[&str] = &[
    "ChangeSetNotFound",
    "ChangeSetNotFoundException",
    "NoSuchBucket",
    "NoSuchKey",
    "NotFound",
    "ParameterNotFound",
    "ResourceNotFoundException",
];
/// Codes that say that somebody was faster.
const CONFLICT: &[&str] = &[
    "AlreadyExistsException",
    "ConditionalRequestConflict",
    "PreconditionFailed",
    "TokenAlreadyExistsException",
];
/// Codes of missing rights.
const DENIED: &[&str] = &["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"];
/// Codes of credentials that count nowhere.
const CREDENTIALS: &[&str] = &[
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];
/// Codes of a cloud that is busy, after all retries.
const BUSY: &[&str] = &[
    "InternalError",
    "InternalFailure",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// Returns the port's error for the SDK's.
pub(super) fn failed<E>(operation: &str, error: SdkError<E, HttpResponse>) -> CloudError
where
    E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
{
    let code = error.code().unwrap_or_default().to_owned();
    let status = error.raw_response().map(|r| r.status().as_u16());
    let said = error.message().map(str::to_owned);
    let kind = match (&error, code.as_str(), status) {
        (_, code, _) if NOT_FOUND.contains(&code) => ErrorKind::NotFound,
        (_, code, _) if CONFLICT.contains(&code) => ErrorKind::Conflict,
        (_, code, _) if DENIED.contains(&code) => ErrorKind::Denied,
        (_, code, _) if CREDENTIALS.contains(&code) => ErrorKind::Credentials,
        (_, code, _) if BUSY.contains(&code) => ErrorKind::Unavailable,
        (_, "ValidationError", _) if is_missing(said.as_deref()) => ErrorKind::NotFound,
        (SdkError::ServiceError(_), _, Some(404)) => ErrorKind::NotFound,
        (SdkError::ServiceError(_), _, Some(412)) => ErrorKind::Conflict,
        (SdkError::ServiceError(_), _, Some(403)) => ErrorKind::Denied,
        (SdkError::ServiceError(_), _, Some(status)) if status < 500 => ErrorKind::Refused,
        _ => ErrorKind::Unavailable,
    };
    let causes = causes(&error);
    let kind = if causes.contains("credentials") && said.is_none() {
        ErrorKind::Credentials
    } else {
        kind
    };
    let text = match said {
        Some(said) if code.is_empty() => said,
        Some(said) => format!("{said} ({code})"),
        None if !code.is_empty() => code,
        None => causes,
    };
    CloudError::new(operation, kind, text)
}

/// CloudFormation says of a stack that is missing that the request is not valid.
fn is_missing(said: Option<&str>) -> bool {
    said.is_some_and(|text| text.contains("does not exist"))
}

/// An error that never reached AWS, down to what the system said.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}
