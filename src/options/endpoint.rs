//! Addresses of servers.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::registry::OptionRow;
use crate::error::{Error, Result};

/// The address of a server, checked: a scheme, a host, maybe a port and a
/// path, and nothing that could carry a secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EndpointUrl(Url);

/// Whether unencrypted connections to other machines are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plaintext {
    LoopbackOnly,
    Anywhere,
}

impl EndpointUrl {
    /// The address given for the option `row`. A host and port without a
    /// scheme are `http` on this machine and `https` elsewhere.
    pub(super) fn parse(row: &OptionRow, text: &str, plaintext: Plaintext) -> Result<Self> {
        let wrong = || row.refused(text, &row.form.allowed());
        let url = if text.contains("://") {
            Url::parse(text).map_err(|_| wrong())?
        } else {
            let guess = Url::parse(&format!("http://{text}")).map_err(|_| wrong())?;
            if is_loopback(&guess) {
                guess
            } else {
                Url::parse(&format!("https://{text}")).map_err(|_| wrong())?
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            // The value holds a password, so it is not repeated.
            return Err(Error::configuration(format!(
                "option '{}' must not contain a user name or password: use the option credentials",
                row.name
            )));
        }
        let has_host = url.host().is_some();
        if !has_host || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong());
        }
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) || plaintext == Plaintext::Anywhere => {}
            "http" => {
                return Err(row.refused(
                    text,
                    "an https:// address, because http:// sends data and credentials unencrypted; \
                     set allow_plaintext to true to accept that",
                ));
            }
            _ => return Err(wrong()),
        }
        Ok(EndpointUrl(url))
    }

    /// One of Google's addresses.
    ///
    /// # Panics
    /// When `text` is not a URL; it is a constant of this library.
    pub(crate) fn google(text: &'static str) -> Self {
        EndpointUrl(Url::parse(text).expect("the addresses of Google's services are URLs"))
    }

    /// Whether this is a local server rather than the service: on this
    /// machine, or unencrypted.
    pub fn is_local(&self) -> bool {
        self.is_plaintext() || is_loopback(&self.0)
    }

    /// Whether the connection is unencrypted.
    pub fn is_plaintext(&self) -> bool {
        self.0.scheme() == "http"
    }

    /// Scheme, host and port, without a slash at the end.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// The path, without a slash at the end; empty when there is none.
    pub fn path(&self) -> &str {
        self.0.path().trim_end_matches('/')
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path())
    }
}

impl fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EndpointUrl({self})")
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            name.eq_ignore_ascii_case("localhost") || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::registry::REST_ENDPOINT;
    use super::*;

    fn parse(text: &str) -> Result<EndpointUrl> {
        EndpointUrl::parse(&REST_ENDPOINT, text, Plaintext::LoopbackOnly)
    }

    #[test]
    fn local_addresses_may_be_plaintext() {
        for (text, printed) in [
            ("http://127.0.0.1:9050", "http://127.0.0.1:9050"),
            ("http://localhost:9050/", "http://localhost:9050"),
            ("127.0.0.1:9050", "http://127.0.0.1:9050"),
            ("localhost:9050", "http://localhost:9050"),
            ("http://[::1]:9050", "http://[::1]:9050"),
            (
                "http://127.0.0.1:9050/bigquery/v2/",
                "http://127.0.0.1:9050/bigquery/v2",
            ),
        ] {
            let endpoint = parse(text).unwrap();
            assert_eq!(endpoint.to_string(), printed);
            assert!(endpoint.is_local(), "{text}");
        }
    }

    #[test]
    fn other_machines_need_encryption() {
        let endpoint = parse("bigquery.googleapis.com").unwrap();
        assert_eq!(endpoint.to_string(), "https://bigquery.googleapis.com");
        assert!(!endpoint.is_local());
        let error = parse("http://10.0.0.7:9050").unwrap_err();
        assert!(error.message().contains("rest_endpoint"), "{error}");
        assert!(error.message().contains("allow_plaintext"), "{error}");
        let allowed =
            EndpointUrl::parse(&REST_ENDPOINT, "http://10.0.0.7:9050", Plaintext::Anywhere)
                .unwrap();
        assert!(allowed.is_local());
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for text in [
            "ftp://localhost",
            "http://",
            "://x",
            "http://h:99999",
            "http://h?x=1",
            "a b",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.message().contains("rest_endpoint"), "{text}: {error}");
        }
    }

    #[test]
    fn passwords_are_refused_and_not_repeated() {
        let error = parse("http://me:hunter2@localhost:9050").unwrap_err();
        assert!(!error.message().contains("hunter2"), "{error}");
    }
}
