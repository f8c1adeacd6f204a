//! The web, over HTTP: what `port::Web` asks for.

use async_trait::async_trait;

use crate::port::{Answer, CloudError, ErrorKind, Request, Response, Web};

/// How long an answer may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
/// The largest answer that is read, in bytes: an index of charts can be long, a gigabyte is none.
const LARGEST: usize = 64 * 1024 * 1024;
/// How long to wait before what only reads is asked again. A mirror under load breaks off one connection in many.
const PAUSES: [std::time::Duration; 2] =
    [std::time::Duration::from_millis(500), std::time::Duration::from_secs(2)];
/// What a server answers that can do it in a moment.
const LATER: [u16; 4] = [429, 502, 503, 504];

/// How long a download may take.
const LONG: std::time::Duration = std::time::Duration::from_mins(10);

/// The web.
#[derive(Debug)]
pub struct Http {
    client: std::sync::OnceLock<reqwest::Client>,
    patience: std::time::Duration,
    largest: usize,
}

impl Default for Http {
    fn default() -> Self {
        Self { client: std::sync::OnceLock::new(), patience: PATIENCE, largest: LARGEST }
    }
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

/// Where answers may lead on to: nowhere that is not encrypted, from where it was.
fn onward() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let was = attempt.previous().last().is_some_and(|url| url.scheme() == "https");
        if attempt.previous().len() > 10 {
            attempt.error("it leads on and on")
        } else if was && attempt.url().scheme() != "https" {
            attempt.error("it leads to where nothing is encrypted")
        } else {
            attempt.follow()
        }
    })
}

impl Http {
    /// Returns the web for downloads, which take their time.
    #[must_use]
    pub fn patient() -> Self {
        Self { patience: LONG, largest: 4 * LARGEST, ..Self::default() }
    }

    fn client(&self, url: &str) -> Answer<&reqwest::Client> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let agent = concat!("kaws/", env!("CARGO_PKG_VERSION"));
        let client = reqwest::Client::builder()
            .timeout(self.patience)
            .user_agent(agent)
            .redirect(onward())
            .build();
        let client = client.map_err(|error| failed(url, &error))?;
        Ok(self.client.get_or_init(|| client))
    }

    async fn once(&self, request: &Request, headers: &[(&str, String)]) -> Answer<Response> {
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
            if body.len() > self.largest {
                let text = format!("the answer is larger than {} bytes", self.largest);
                return Err(CloudError::new(url, ErrorKind::Refused, text));
            }
        }
        Ok(Response { status, headers, body })
    }
}

#[async_trait]
impl Web for Http {
    async fn send(&self, request: &Request) -> Answer<Response> {
        self.send_with(request, &[]).await
    }

    async fn resolve(&self, host: &str) -> Answer<Vec<std::net::IpAddr>> {
        let failed = |e: std::io::Error| CloudError::new(host, ErrorKind::NotFound, e.to_string());
        let found = tokio::net::lookup_host((host, 443)).await.map_err(failed)?;
        Ok(found.map(|address| address.ip()).collect())
    }

    async fn send_with(&self, request: &Request, headers: &[(&str, String)]) -> Answer<Response> {
        let again = if request.method == "GET" { &PAUSES[..] } else { &[] };
        for pause in again {
            match self.once(request, headers).await {
                Ok(answer) if LATER.contains(&answer.status) => {}
                Err(error) if error.kind == ErrorKind::Unavailable => {}
                settled => return settled,
            }
            tokio::time::sleep(*pause).await;
        }
        self.once(request, headers).await
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// Answers one connection after the other; an empty answer breaks off. Returns the address.
    fn server(answers: Vec<&'static str>) -> (String, std::thread::JoinHandle<usize>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            for answer in answers {
                let (mut connection, _) = listener.accept().unwrap();
                let _ = connection.read(&mut [0; 4096]).unwrap();
                connection.write_all(answer.as_bytes()).unwrap();
                count += 1;
            }
            count
        });
        (address, thread)
    }

    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    const GOOD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ngood";

    #[tokio::test]
    async fn what_only_reads_is_asked_again() {
        let (address, served) = server(vec!["", BUSY, GOOD]);
        let answer = Http::default().send(&Request::get(&address)).await.unwrap();
        assert_eq!((answer.status, answer.body), (200, b"good".to_vec()));
        assert_eq!(served.join().unwrap(), 3);
    }

    #[tokio::test]
    async fn what_writes_is_asked_once() {
        let (address, served) = server(vec![BUSY]);
        let request = Request { method: "POST".to_owned(), ..Request::get(&address) };
        assert_eq!(Http::default().send(&request).await.unwrap().status, 503);
        assert_eq!(served.join().unwrap(), 1);
    }
}
