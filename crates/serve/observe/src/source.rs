//! The source of a status: a URL or a file.

use hyper::Uri;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The source of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `http://HOST:PORT/status`.
    Url(Uri),
    /// A status file.
    File(PathBuf),
}

/// Why a text is not a valid source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SourceError {
    /// The cause.
    pub cause: String,
    /// The correction.
    pub hint: String,
}

/// The hint of all errors.
const HINT: &str = "write http://10.0.0.1:30566/status, or the name of a status file";

impl Source {
    /// The agent at this address and port.
    pub fn at(address: std::net::SocketAddr) -> Self {
        let uri = Uri::builder().scheme("http").authority(address.to_string()).path_and_query("/status").build();
        Self::Url(uri.expect("an address is an authority"))
    }
}

impl FromStr for Source {
    type Err = SourceError;

    /// Parses a URL (`/status` is added if it has no path) or a file name.
    fn from_str(text: &str) -> Result<Self, SourceError> {
        let refuse = |cause: String| SourceError { cause, hint: HINT.to_owned() };
        let Some((scheme, _)) = text.split_once("://") else {
            return match text {
                "" => Err(refuse("the source is empty".to_owned())),
                _ => Ok(Self::File(text.into())),
            };
        };
        if scheme != "http" {
            return Err(refuse(format!("`{text}` is not an http:// URL: agents serve HTTP only")));
        }
        let mut uri: Uri = text.parse().map_err(|error| refuse(format!("`{text}` is not a URL: {error}")))?;
        if uri.host().is_none_or(str::is_empty) {
            return Err(refuse(format!("`{text}` names no host")));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(refuse(format!("`{text}` has a user name: agents have no users")));
        }
        if uri.path() == "/" {
            let mut parts = uri.into_parts();
            parts.path_and_query = Some("/status".parse().expect("a path"));
            uri = Uri::from_parts(parts).expect("only the path has changed");
        }
        Ok(Self::Url(uri))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(uri) => write!(f, "{uri}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_file_names_are_parsed() {
        for (text, shown) in [
            ("http://10.0.0.1:30566", "http://10.0.0.1:30566/status"),
            ("http://[fd00::1]:30566/", "http://[fd00::1]:30566/status"),
            ("http://m1:30566/m1/status?x=1", "http://m1:30566/m1/status?x=1"),
            ("/run/weir/m1.json", "/run/weir/m1.json"),
            ("m1", "m1"),
        ] {
            assert_eq!(text.parse::<Source>().expect(text).to_string(), shown);
        }
        let address = "[fd00::1]:30566".parse().expect("an address");
        assert_eq!(Source::at(address).to_string(), "http://[fd00::1]:30566/status");
    }

    #[test]
    fn invalid_sources_are_rejected_with_a_hint() {
        for (text, cause) in [
            ("", "the source is empty"),
            ("https://m1", "`https://m1` is not an http:// URL: agents serve HTTP only"),
            ("http://", "`http://` is not a URL: "),
            ("http://a b/", "`http://a b/` is not a URL: "),
            ("http://u:p@m1/", "`http://u:p@m1/` has a user name: agents have no users"),
        ] {
            let error = text.parse::<Source>().expect_err(text);
            assert!(error.cause.starts_with(cause), "{error}");
            assert!(error.hint.contains("http://10.0.0.1:30566/status"));
        }
    }
}
