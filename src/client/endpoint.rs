//! How the servers of the service are addressed.

use std::fmt::Write as _;

use crate::client::retry::RetryPolicy;
use crate::error::{Error, ErrorKind};
use crate::options::EndpointUrl;

/// What requests call this library.
pub(crate) const USER_AGENT: &str = concat!("datafusion-bigquery/", env!("CARGO_PKG_VERSION"));

/// The header by which the service routes a call to the region of its
/// resource (<https://google.aip.dev/client-libraries/4222>).
pub(crate) const ROUTING_HEADER: &str = "x-goog-request-params";

/// The value of [`ROUTING_HEADER`] for one field of a request.
pub(crate) fn routing(field: &str, value: &str) -> String {
    let mut header = format!("{field}=");
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'/') {
            header.push(char::from(byte));
        } else {
            write!(header, "%{byte:02X}").expect("writing to a string succeeds");
        }
    }
    header
}

/// How single requests to the endpoint are repeated.
pub(crate) fn request_policy(endpoint: &EndpointUrl) -> RetryPolicy {
    if endpoint.is_local() {
        RetryPolicy::LOCAL_REQUEST
    } else {
        RetryPolicy::REQUEST
    }
}

/// The error for an address at which no server is.
pub(crate) fn nothing_answers(option: &str, endpoint: &EndpointUrl) -> Error {
    let advice = if endpoint.is_local() {
        "start the server there, or"
    } else {
        "check the network, or"
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("nothing answers at {endpoint}: {advice} change option '{option}'"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_headers_are_escaped() {
        assert_eq!(
            routing("read_stream", "projects/p/locations/us/streams/a b&c=ü"),
            "read_stream=projects/p/locations/us/streams/a%20b%26c%3D%C3%BC"
        );
    }
}
