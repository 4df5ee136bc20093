//! The syntax of a filter's fields: reading them, and refusing invalid ones.
//!
//! | field | read as | refused |
//! |---|---|---|
//! | `protocol` | a name or a number | unknown names, numbers above 255 |
//! | `port` | `80`, `7000-7099` | reversed ranges, ports above 65535 or 0 |
//! | `address` | `10.0.0.0/8`, `10.0.0.1`, `fd00::/8` | bits set behind the prefix |
//! | `interface` | a glob over at most 15 characters | `/`, blanks |
//! | `cgroup` | a glob over the paths of control groups | empty parts, `.` and `..`, `**` |
//!
//! Worked example: `10.0.0.1/8` is refused with the hint to write `10.0.0.0/8` or `10.0.0.1/32`,
//! since it may be meant either way.

use crate::cgroup::CgroupGlob;
use crate::model::Protocol;
use ipnet::IpNet;
use std::net::IpAddr;
use weir_document::quote;
use weir_document::scalar::Refusal;

/// Reads a protocol by name or number.
pub(crate) fn protocol(text: &str) -> Result<Protocol, Refusal> {
    if let Some((_, number)) = Protocol::NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(Protocol(*number));
    }
    let number = if text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None };
    number.map(Protocol).ok_or_else(|| {
        let near = weir_document::nearest::nearest(text, Protocol::NAMES.iter().map(|(name, _)| *name));
        let guess = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        Refusal::new(
            format!("{} is not a protocol", quote(text)),
            format!("{guess}write `tcp`, `udp`, `icmp`, `icmpv6`, `sctp` or a number from 0 to 255"),
        )
    })
}

/// Reads `80` or `7000-7099`.
pub(crate) fn ports(text: &str) -> Result<(u16, u16), Refusal> {
    let hint = "write a port from 1 to 65535, or a range such as `7000-7099`";
    let port = |digits: &str| {
        let digits = digits.trim();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Refusal::new(format!("{} is not a port or a range of ports", quote(text)), hint));
        }
        match digits.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(Refusal::new(format!("the port {} is not between 1 and 65535", quote(digits)), hint)),
        }
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (port(first)?, port(last)?),
        None => (port(text)?, port(text)?),
    };
    if first > last {
        return Err(Refusal::new(
            format!("the range of ports {} is reversed", quote(text)),
            format!("write `{last}-{first}`"),
        ));
    }
    Ok((first, last))
}

/// Reads an address or a prefix.
pub(crate) fn prefix(text: &str) -> Result<IpNet, Refusal> {
    let refuse = || {
        Refusal::new(
            format!("{} is not an address prefix", quote(text)),
            "write for example `10.0.0.0/8`, `10.1.2.3` or `fd00::/8`",
        )
    };
    if !text.contains('/') {
        return text.parse::<IpAddr>().map(IpNet::from).map_err(|_| refuse());
    }
    let net: IpNet = text.parse().map_err(|_| refuse())?;
    if net != net.trunc() {
        return Err(Refusal::new(
            format!("the prefix {} has bits set behind its length", quote(text)),
            format!("write `{}` for the network or `{}` for the one address", net.trunc(), IpNet::from(net.addr())),
        ));
    }
    Ok(net)
}

/// Reads a glob over interface names. The kernel keeps 15 characters of a name.
pub(crate) fn interface(text: &str) -> Result<String, Refusal> {
    let refuse = |cause: String| {
        Err(Refusal::new(cause, "write the name of an interface such as `eth0`, or a glob such as `tap*`"))
    };
    if text.is_empty() {
        return refuse("the name of an interface is empty".to_owned());
    }
    if let Some(c) = text.chars().find(|c| !c.is_ascii_graphic() || *c == '/') {
        return refuse(format!("the interface {} has {} in it", quote(text), quote(&c.to_string())));
    }
    if text.bytes().filter(|b| *b != b'*').count() > 15 || text.len() > 64 {
        return refuse(format!("the interface {} is longer than 15 characters", quote(text)));
    }
    Ok(text.to_owned())
}

/// Reads a glob over the paths of control groups.
pub(crate) fn cgroup(text: &str) -> Result<CgroupGlob, Refusal> {
    CgroupGlob::new(text)
}

macro_rules! checks {
    ($($check:ident => $read:ident),*) => {
        $(pub(crate) fn $check(text: &str) -> Result<(), Refusal> {
            $read(text).map(drop)
        })*
    };
}
checks!(check_protocol => protocol, check_ports => ports, check_prefix => prefix,
        check_interface => interface, check_cgroup => cgroup);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields() {
        assert_eq!(ports("7000-7099"), Ok((7000, 7099)));
        assert_eq!(ports("80"), Ok((80, 80)));
        assert_eq!(protocol("tcp"), Ok(Protocol::TCP));
        assert_eq!(protocol("47"), Ok(Protocol(47)));
        assert_eq!(prefix("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        assert!(interface("tap*").is_ok() && cgroup("/a/b").is_ok() && cgroup("a/*").is_ok());
    }

    #[test]
    fn refuses_fields() {
        for (refusal, cause) in [
            (check_ports("7099-7000"), "the range of ports `7099-7000` is reversed"),
            (check_ports("65536"), "the port `65536` is not between 1 and 65535"),
            (check_ports("0"), "the port `0` is not between 1 and 65535"),
            (check_ports("80,443"), "`80,443` is not a port or a range of ports"),
            (check_ports("-1"), "`-1` is not a port or a range of ports"),
            (check_protocol("tpc"), "`tpc` is not a protocol"),
            (check_protocol("256"), "`256` is not a protocol"),
            (check_prefix("10.0.0.1/8"), "the prefix `10.0.0.1/8` has bits set behind its length"),
            (check_prefix("10.0.0.0/33"), "`10.0.0.0/33` is not an address prefix"),
            (check_interface("a b"), "the interface `a b` has ` ` in it"),
            (check_interface("0123456789abcdef"), "the interface `0123456789abcdef` is longer than 15 characters"),
            (check_cgroup("/a/**"), "`/a/**` has `**` in it"),
            (check_cgroup(""), "`` has an empty part, `.` or `..` in it"),
            (check_cgroup("/a/../b"), "`/a/../b` has an empty part, `.` or `..` in it"),
            (check_cgroup("/"), "`/` has an empty part, `.` or `..` in it"),
        ] {
            assert_eq!(refusal.unwrap_err().cause, cause);
        }
        assert_eq!(
            prefix("10.0.0.1/8").unwrap_err().hint,
            "write `10.0.0.0/8` for the network or `10.0.0.1/32` for the one address"
        );
    }
}
