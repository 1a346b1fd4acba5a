//! NET.* functions over addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::scalar::{Definition, row};
use super::value::{Answer, Value, fail};

fn packed(address: IpAddr) -> Value<'static> {
    match address {
        IpAddr::V4(a) => Value::binary(a.octets().to_vec()),
        IpAddr::V6(a) => Value::binary(a.octets().to_vec()),
    }
}

fn unpacked(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(b) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::V4(Ipv4Addr::from(b)));
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|b| IpAddr::V6(Ipv6Addr::from(b)))
}

fn net_mask(a: &[Value<'_>]) -> Answer {
    let (bytes, prefix) = (a[0].int()?, a[1].int()?);
    if !matches!(bytes, 4 | 16) {
        return fail("The first argument of NET.IP_NET_MASK() must be either 4 or 16");
    }
    if !(0..=bytes * 8).contains(&prefix) {
        return fail(format!(
            "The second argument of NET.IP_NET_MASK() must be in the range [0, {}]",
            bytes * 8
        ));
    }
    Ok(Value::binary(
        (0..bytes)
            .map(|i| match prefix - i * 8 {
                bits if bits >= 8 => 0xff,
                bits if bits <= 0 => 0,
                bits => (0xff00u16 >> bits) as u8,
            })
            .collect::<Vec<u8>>(),
    ))
}

fn truncate(a: &[Value<'_>]) -> Answer {
    let (address, prefix) = (a[0].bytes()?, a[1].int()?);
    if !matches!(address.len(), 4 | 16) {
        return fail("The first argument of NET.IP_TRUNC() must have 4 or 16 bytes");
    }
    let mask = net_mask(&[Value::Int64(address.len() as i64), Value::Int64(prefix)])?;
    Ok(Value::binary(
        address
            .iter()
            .zip(mask.bytes()?)
            .map(|(a, m)| a & m)
            .collect::<Vec<u8>>(),
    ))
}

/// The host of a URL, as it stands there.
fn host(url: &str) -> Option<&str> {
    let url = url.trim_matches(|c: char| c.is_ascii_whitespace());
    let rest = match url.find("//") {
        Some(0) => &url[2..],
        Some(at) if url[..at].ends_with(':') => &url[at + 2..],
        _ => match url.split_once(':') {
            // `mailto:a@b` and the like have no authority.
            Some((scheme, after))
                if !after.starts_with(|c: char| c.is_ascii_digit()) && !scheme.contains('.') =>
            {
                return None;
            }
            _ => url,
        },
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, h)| h);
    let host = if host.starts_with('[') {
        let end = host.find(']')?;
        &host[..=end]
    } else {
        host.split(':').next().unwrap_or_default()
    };
    let host = host.trim_end_matches('.');
    (!host.is_empty() && !host.contains(char::is_whitespace)).then_some(host)
}

/// The functions of this family.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        row("net.ip_from_string", &["STRING -> BYTES"], |a| {
            let text = a[0].str()?;
            match text.parse() {
                Ok(address) => Ok(packed(address)),
                Err(_) => fail(format!("Invalid IP address: {text}")),
            }
        }),
        row("net.safe_ip_from_string", &["STRING -> BYTES"], |a| {
            Ok(a[0].str()?.parse().map_or(Value::Null, packed))
        }),
        row("net.ip_to_string", &["BYTES -> STRING"], |a| {
            let bytes = a[0].bytes()?;
            match unpacked(bytes) {
                Some(address) => Ok(Value::text(address.to_string())),
                None => fail(format!(
                    "NET.IP_TO_STRING needs 4 or 16 bytes and was given {}",
                    bytes.len()
                )),
            }
        }),
        row("net.ip_net_mask", &["INT64, INT64 -> BYTES"], net_mask),
        row("net.ip_trunc", &["BYTES, INT64 -> BYTES"], truncate),
        row("net.ipv4_from_int64", &["INT64 -> BYTES"], |a| {
            let n = a[0].int()?;
            match (u32::try_from(n), i32::try_from(n)) {
                (Ok(n), _) => Ok(Value::binary(n.to_be_bytes().to_vec())),
                (_, Ok(n)) => Ok(Value::binary(n.to_be_bytes().to_vec())),
                _ => fail(format!(
                    "NET.IPV4_FROM_INT64() encountered an out-of-range value: {n}"
                )),
            }
        }),
        row(
            "net.ipv4_to_int64",
            &["BYTES -> INT64"],
            |a| match <[u8; 4]>::try_from(a[0].bytes()?) {
                Ok(b) => Ok(Value::Int64(i64::from(u32::from_be_bytes(b)))),
                Err(_) => fail("NET.IPV4_TO_INT64() requires 4-byte IPv4 address"),
            },
        ),
        row("net.host", &["STRING -> STRING"], |a| {
            Ok(host(a[0].str()?).map_or(Value::Null, Value::text))
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_hosts() {
        let mask = |n, p| net_mask(&[Value::Int64(n), Value::Int64(p)]);
        assert_eq!(
            mask(4, 20).unwrap(),
            Value::binary(vec![0xff, 0xff, 0xf0, 0])
        );
        assert!(mask(4, 33).is_err());
        assert_eq!(
            host("http://user:pw@www.Google.co.uk:80/a?b"),
            Some("www.Google.co.uk")
        );
        assert_eq!(host("//a.b/c"), Some("a.b"));
        assert_eq!(host("www.example.com/x"), Some("www.example.com"));
        assert_eq!(host("mailto:a@b.c"), None);
        assert_eq!(host("  "), None);
    }
}
