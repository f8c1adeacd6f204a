//! The port to the web: an HTTP request and its answer.

use async_trait::async_trait;

use super::Answer;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`…
    pub method: String,
    /// The address.
    pub url: String,
    /// What is sent with it.
    pub body: Option<String>,
}

impl Request {
    /// Returns a plain request for what is at an address.
    #[must_use]
    pub fn get(url: &str) -> Self {
        Self { method: "GET".to_owned(), url: url.to_owned(), body: None }
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: std::collections::BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// The web.
#[async_trait]
pub trait Web: std::fmt::Debug + Send + Sync {
    /// Sends a request and returns the answer, whatever its status.
    async fn send(&self, request: &Request) -> Answer<Response>;

    /// Returns the addresses of a host, as this machine resolves it.
    async fn resolve(&self, host: &str) -> Answer<Vec<std::net::IpAddr>>;

    /// Sends a request with headers of its own.
    async fn send_with(&self, request: &Request, headers: &[(&str, String)]) -> Answer<Response>;
}
