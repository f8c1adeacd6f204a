//! The client's errors, in the port's words.

use crate::port::{CloudError, ErrorKind};

/// Returns the port's error for the client's.
pub(super) fn failed(what: &str, error: &kube::Error) -> CloudError {
    let (kind, text) = match error {
        kube::Error::Api(said) => {
            let kind = match said.code {
                401 => ErrorKind::Credentials,
                403 => ErrorKind::Denied,
                404 => ErrorKind::NotFound,
                409 => ErrorKind::Conflict,
                429 | 500.. => ErrorKind::Unavailable,
                _ => ErrorKind::Refused,
            };
            (kind, said.message.clone())
        }
        other => (ErrorKind::Unavailable, innermost(other)),
    };
    CloudError::new(what, kind, text)
}

/// What went wrong at the bottom: what stands above only names types.
fn innermost(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}
