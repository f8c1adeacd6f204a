//! A web of a few addresses, for tests of what asks it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use kaws::port::{Answer, Request, Response, Web};

/// A request and its headers.
type Sent = (Request, Vec<(String, String)>);

/// The web: what stands at an address, and what was sent.
#[derive(Debug, Default)]
pub struct FakeWeb {
    pages: BTreeMap<String, Response>,
    sent: Mutex<Vec<Sent>>,
}

impl FakeWeb {
    /// Puts a page at an address.
    pub fn page(mut self, url: &str, status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let response = Response { status, headers, body: body.as_bytes().to_vec() };
        self.pages.insert(url.to_owned(), response);
        self
    }

    /// What was sent so far.
    pub fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }
}

#[async_trait]
impl Web for FakeWeb {
    async fn send(&self, request: &Request) -> Answer<Response> {
        self.send_with(request, &[]).await
    }

    async fn resolve(&self, _host: &str) -> Answer<Vec<std::net::IpAddr>> {
        Ok(Vec::new())
    }

    async fn send_with(&self, request: &Request, headers: &[(&str, String)]) -> Answer<Response> {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
        // Whoever says who they are gets what lies behind the door.
        let known = headers.iter().any(|(n, _)| n == "authorization");
        self.sent.lock().unwrap().push((request.clone(), headers));
        let inside = known.then(|| self.pages.get(&format!("{} known", request.url))).flatten();
        let page = inside.or_else(|| self.pages.get(&request.url)).cloned();
        let nothing = Response { status: 404, headers: BTreeMap::new(), body: Vec::new() };
        Ok(page.unwrap_or(nothing))
    }
}
