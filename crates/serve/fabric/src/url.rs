//! Where a fabric broker is: `https://HOST:PORT`.

use std::fmt;
use std::str::FromStr;
use tonic::transport::Uri;

/// The address of a fabric broker: a host, which its certificate must name, and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerUrl(String);

/// Why a text is no such address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {reason}")]
pub struct UrlError {
    /// The text.
    text: String,
    /// The cause.
    reason: &'static str,
}

impl FromStr for BrokerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let refuse = |reason| UrlError { text: text.escape_default().to_string(), reason };
        let uri: Uri = text.parse().map_err(|_| refuse("is not an address of the form https://HOST:PORT"))?;
        if uri.scheme_str() != Some("https") {
            return Err(refuse("does not begin with https://"));
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| refuse("has no host"))?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(refuse("has something after the port"));
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(refuse("has a name before the host"));
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let port = match uri.port_u16() {
            Some(0) => return Err(refuse("has port 0")),
            Some(port) => port,
            None if authority == host => crate::DEFAULT_PORT,
            None => return Err(refuse("has a port that is no port")),
        };
        Ok(Self(format!("https://{host}:{port}")))
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl BrokerUrl {
    /// The host, as a certificate names it.
    pub fn host(&self) -> &str {
        let authority = self.0.trim_start_matches("https://");
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port, not 0.
    pub fn port(&self) -> u16 {
        let port = self.0.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.expect("the text ends with a port")
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_and_nothing_else() {
        let read = |text: &str| text.parse::<BrokerUrl>().map(|url| url.to_string());
        assert_eq!(read("https://f.example.org:700"), Ok("https://f.example.org:700".to_owned()));
        assert_eq!(read("https://10.0.0.1/"), Ok("https://10.0.0.1:30567".to_owned()), "the port may be left out");
        assert_eq!(read("https://[::1]:9"), Ok("https://[::1]:9".to_owned()));
        let host = |text: &str| text.parse::<BrokerUrl>().expect("an address").host().to_owned();
        assert_eq!((host("https://[::1]:9"), host("https://f.org")), ("::1".to_owned(), "f.org".to_owned()));
        let port = |text: &str| text.parse::<BrokerUrl>().expect("an address").port();
        assert_eq!((port("https://[::1]:9"), port("https://f.org"), port("https://[::1]")), (9, 30_567, 30_567));
        for bad in [
            "",
            "f",
            "http://f:1",
            "https://",
            "https://f:1/x",
            "https://f:1?x",
            "https://u@f:1",
            "https://f:0",
            "https://f:99999",
            "https://f:",
            "ftp://f:1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
