//! Where a plugin comes from, as the user writes it.

use std::fmt;

/// A source of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder or an archive of this machine.
    Path(String),
    /// An archive of the web.
    Url(String),
    /// A revision of a git repository, and a folder in it.
    Git {
        /// The address, as git takes it.
        url: String,
        /// A branch, a tag or a commit; the default branch without it.
        revision: Option<String>,
        /// The plugin's folder; the repository's root without it.
        folder: Option<String>,
    },
    /// An object.
    S3 {
        /// The bucket.
        bucket: String,
        /// The key.
        key: String,
    },
    /// A release of `user/repo`.
    Release {
        /// USER/REPO.
        repository: String,
        /// The version; the latest without it.
        version: Option<String>,
    },
}

/// What is no source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoSource(pub String);

impl Source {
    /// Reads a source: `./folder`, `./x.tar.gz`, `https://…`, `s3://bucket/key`, `git+https://…@REV//folder`,
    /// `user/repo@1.2.0`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, NoSource> {
        let no = |why: String| Err(NoSource(why));
        if let Some(rest) = text.strip_prefix("git+") {
            return git(rest);
        }
        if let Some(rest) = text.strip_prefix("s3://") {
            return match rest.split_once('/') {
                Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                    Ok(Self::S3 { bucket: bucket.to_owned(), key: key.to_owned() })
                }
                _ => no(format!("`{text}` names no object: write s3://BUCKET/KEY")),
            };
        }
        if text.starts_with("https://") || text.starts_with("http://") {
            return web(text).map(|()| Self::Url(text.to_owned()));
        }
        if text.contains("://") {
            return no(format!(
                "`{text}` is no source: https://…, s3://…, git+https://…, git+ssh://…, git+file://… are"
            ));
        }
        if text.starts_with(['/', '.', '~']) {
            return Ok(Self::Path(text.to_owned()));
        }
        release(text).map_or_else(|| Ok(Self::Path(text.to_owned())), Ok)
    }
}

/// An address of the web: encrypted, or of this machine; and without a password, which would end up in kaws.lock.
fn web(text: &str) -> Result<(), NoSource> {
    let no = |why: &str| Err(NoSource(format!("`{}` {why}", shown(text))));
    let Ok(url) = reqwest::Url::parse(text) else { return no("is no address") };
    if !url.username().is_empty() || url.password().is_some() {
        return no("has a name or a password in it, which kaws.lock would keep");
    }
    let own = ["127.0.0.1", "localhost", "[::1]"];
    if url.scheme() == "http" && !url.host_str().is_some_and(|host| own.contains(&host)) {
        return no("is read by whoever is in between: write https://…");
    }
    Ok(())
}

/// An address without what stands before its host.
fn shown(text: &str) -> String {
    match text.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1)))
    {
        Some((scheme, rest)) => format!("{scheme}://…@{rest}"),
        None => text.to_owned(),
    }
}

fn git(text: &str) -> Result<Source, NoSource> {
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if !["https", "ssh", "file"].contains(&scheme) {
        return Err(NoSource(format!(
            "`git+{text}` is no source: write git+https://…, git+ssh://… or git+file://…"
        )));
    }
    let (rest, folder) = match rest.split_once("//") {
        Some((rest, folder)) => (rest, Some(folder.to_owned())),
        None => (rest, None),
    };
    // The `@` of a user stands before the first slash.
    let path = rest.find('/').unwrap_or(rest.len());
    let (address, revision) = match rest[path..].rsplit_once('@') {
        Some((before, revision)) => {
            (format!("{}{before}", &rest[..path]), Some(revision.to_owned()))
        }
        None => (rest.to_owned(), None),
    };
    if scheme == "https" {
        web(&format!("https://{address}"))?;
    }
    if address.split('/').next().is_some_and(|host| host.contains(':') && host.contains('@')) {
        let text = "has a password in it, which kaws.lock would keep";
        return Err(NoSource(format!("`git+{}` {text}", shown(&format!("{scheme}://{address}")))));
    }
    let plain = |text: &String| {
        !text.is_empty()
            && !text.starts_with('-')
            && !text.contains("..")
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./+".contains(&b))
    };
    if let Some(revision) = revision.as_ref().filter(|r| !plain(r)) {
        return Err(NoSource(format!("`{revision}` is no revision")));
    }
    if let Some(folder) = folder.as_ref().filter(|f| !plain(f)) {
        return Err(NoSource(format!("`{folder}` is no folder of a repository")));
    }
    Ok(Source::Git { url: format!("{scheme}://{address}"), revision, folder })
}

fn release(text: &str) -> Option<Source> {
    let (repository, version) = match text.split_once('@') {
        Some((repository, version)) => (repository, Some(version.to_owned())),
        None => (text, None),
    };
    let word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && !word.starts_with('.')
    };
    let (user, name) = repository.split_once('/')?;
    let plain = word(user) && word(name) && version.as_ref().is_none_or(|v| word(v));
    plain.then(|| Source::Release { repository: repository.to_owned(), version })
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(text) | Self::Url(text) => f.write_str(text),
            Self::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
            Self::Git { url, revision, folder } => {
                write!(f, "git+{url}")?;
                revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
                folder.iter().try_for_each(|folder| write!(f, "//{folder}"))
            }
            Self::Release { repository, version } => {
                f.write_str(repository)?;
                version.iter().try_for_each(|version| write!(f, "@{version}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_comes_back_as_it_was_written() {
        for text in [
            "./acme",
            "../x.tar.gz",
            "acme.tgz",
            "https://example.com/a.zip",
            "http://127.0.0.1:80/a.zip",
            "s3://bucket/a/b.tar.gz",
            "git+https://example.com/a/b",
            "git+https://example.com/a/b@v1//plugins/x",
            "git+ssh://git@example.com/a/b@main",
            "git+file:///srv/repo@abc123",
            "acme/motd",
            "acme/motd@1.2.0",
        ] {
            assert_eq!(Source::parse(text).unwrap().to_string(), text);
        }
        let git = Source::parse("git+ssh://git@example.com/a/b@main//x/y").unwrap();
        let Source::Git { url, revision, folder } = git else { panic!() };
        assert_eq!(url, "ssh://git@example.com/a/b");
        assert_eq!((revision.as_deref(), folder.as_deref()), (Some("main"), Some("x/y")));
    }

    #[test]
    fn what_is_no_source_is_said() {
        for (text, expected) in [
            ("http://example.com/a.zip", "in between"),
            ("ftp://example.com/a.zip", "no source"),
            ("git+http://example.com/a", "git+https"),
            ("git+https://example.com/a@--upload-pack=x", "no revision"),
            ("git+https://example.com/a//../x", "no folder"),
            ("git+ext::sh -c id", "no source"),
            ("http://127.0.0.1:80@169.254.169.254/x", "a name or a password"),
            ("https://user:word@example.com/a.zip", "a name or a password"),
            ("git+https://token@example.com/a/b@v1", "a name or a password"),
            ("git+ssh://git:word@example.com/a/b", "a password"),
            ("s3://bucket", "no object"),
        ] {
            let error = Source::parse(text).unwrap_err().0;
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
