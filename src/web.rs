//! The web, over HTTP: what `port::Web` asks for.

use async_trait::async_trait;

use crate::port::{Answer, CloudError, ErrorKind, Request, Response, Web};

/// How long an answer may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// The largest answer that is read, in bytes: an index of charts can be long, a gigabyte is none.
const LARGEST: usize = 64 * 1024 * 1024;

/// The web.
#[derive(Debug, Default)]
pub struct Http {
    client: std::sync::OnceLock<reqwest::Client>,
}

fn failed(url: &str, error: &reqwest::Error) -> CloudError {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    CloudError::new(url, ErrorKind::Unavailable, text)
}

impl Http {
    fn client(&self, url: &str) -> Answer<&reqwest::Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let agent = concat!("kaws/", env!("CARGO_PKG_VERSION"));
        let client = reqwest::Client::builder().timeout(PATIENCE).user_agent(agent).build();
        let client = client.map_err(|error| failed(url, &error))?;
        Ok(self.client.get_or_init(|| client))
    }
}

#[async_trait]
impl Web for Http {
    async fn send(&self, request: &Request) -> Answer<Response> {
        self.send_with(request, &[]).await
    }

    async fn send_with(&self, request: &Request, headers: &[(&str, String)]) -> Answer<Response> {
        let url = request.url.as_str();
        let method = request.method.parse().map_err(|_| {
            let text = format!("{} is no method", request.method);
            CloudError::new(url, ErrorKind::Refused, text)
        })?;
        let mut sent = self.client(url)?.request(method, url);
        for (name, value) in headers {
            sent = sent.header(*name, value);
        }
        if let Some(body) = &request.body {
            sent = sent.body(body.clone());
        }
        let mut answer = sent.send().await.map_err(|error| failed(url, &error))?;
        let status = answer.status().as_u16();
        let text = |value: &reqwest::header::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        let headers =
            answer.headers().iter().map(|(n, v)| (n.as_str().to_owned(), text(v))).collect();
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|error| failed(url, &error))? {
            body.extend_from_slice(&part);
            if body.len() > LARGEST {
                let text = format!("the answer is larger than {LARGEST} bytes");
                return Err(CloudError::new(url, ErrorKind::Refused, text));
            }
        }
        Ok(Response { status, headers, body })
    }
}
