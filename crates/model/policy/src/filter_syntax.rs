//! The syntax of a filter's fields: reading them, and refusing invalid ones.
//!
//! | field | read as | refused |
//! |---|---|---|
//! | `port` | `80`, `7000-7099`, `80,443` | reversed ranges, ports above 65535 or 0 |
//! | `address` | `10.0.0.0/8`, `10.0.0.1`, `fd00::/8` | bits set behind the prefix |
//! | `interface` | a glob over at most 15 characters | `/`, blanks |
//! | `cgroup` | a glob over the paths of control groups | empty parts, `.` and `..`, `**` |
//!
//! IPv4-mapped prefixes are read as those of IPv4. Numbers have no leading zeros ([`weir_units::digits`]). `protocol`
//! and `dscp` have a name or a number of a table: [`weir_document::scalar::Scalar::Named`].
//!
//! Worked example: `10.0.0.1/8` is refused with the hint to write `10.0.0.0/8` or `10.0.0.1/32`,
//! since it may be meant either way.

use crate::cgroup::CgroupGlob;
use ipnet::IpNet;
use std::net::IpAddr;
use weir_document::quote;
use weir_document::scalar::Refusal;
use weir_units::digits::{self, Digits};

/// Reads `80`, `7000-7099` or `80,443,7000-7099`: the first and the last port of each part.
pub(crate) fn ports(text: &str) -> Result<Vec<(u16, u16)>, Refusal> {
    let parts: Vec<&str> = text.split(',').collect();
    let range = |(i, part): (usize, &&str)| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (port(text, first)?, port(text, last)?);
        if first <= last {
            return Ok((first, last));
        }
        let swapped = format!("{last}-{first}");
        let instead = [&parts[..i], &[&*swapped], &parts[i + 1..]].concat().join(",");
        Err(Refusal::instead(format!("the range of ports {} is reversed", quote(part.trim())), [instead], ""))
    };
    parts.iter().enumerate().map(range).collect()
}

/// Reads one port of `text`.
fn port(text: &str, number: &str) -> Result<u16, Refusal> {
    let hint = "write a port from 1 to 65535, a range such as `7000-7099`, or several with commas between them";
    let number = number.trim();
    match digits::whole(number) {
        Ok(port) if (1..=u128::from(u16::MAX)).contains(&port) => Ok(port as u16),
        Ok(_) | Err(Digits::TooLarge) => {
            Err(Refusal::new(format!("the port {} is not between 1 and 65535", quote(number)), hint))
        }
        Err(Digits::LeadingZero(_)) => {
            let meant = text.split(',').map(|part| without_zeros(part, '-')).collect::<Vec<_>>().join(",");
            Err(Refusal::leading_zero(text, meant))
        }
        Err(Digits::NotDigits) => Err(Refusal::new(format!("{} is not a port or a range of ports", quote(text)), hint)),
    }
}

/// A text whose numbers are separated by `mark`, without the leading zeros of all of them.
fn without_zeros(text: &str, mark: char) -> String {
    let number = |part: &str| match digits::whole(part.trim()) {
        Err(Digits::LeadingZero(meant)) => part.replacen(part.trim(), &meant, 1),
        _ => part.to_owned(),
    };
    text.split(mark).map(number).collect::<Vec<_>>().join(mark.encode_utf8(&mut [0; 4]))
}

/// Reads an address or a prefix. An IPv4-mapped one (RFC 4291 §2.5.5.2) is the one of IPv4, since that is the form of
/// addresses in packets: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
pub(crate) fn prefix(text: &str) -> Result<IpNet, Refusal> {
    let refuse = || {
        Refusal::new(
            format!("{} is not an address prefix", quote(text)),
            "write for example `10.0.0.0/8`, `10.1.2.3` or `fd00::/8`",
        )
    };
    // Not by the parser of `ipnet`, which reads `010.0.0.0/08`.
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let meant = [Some(without_zeros(address, '.')), length.map(|length| without_zeros(length, '.'))];
    let meant = meant.into_iter().flatten().collect::<Vec<_>>().join("/");
    if meant != text {
        return Err(Refusal::leading_zero(text, meant));
    }
    let address: IpAddr = address.parse().map_err(|_| refuse())?;
    let Some(length) = length else { return Ok(address.to_canonical().into()) };
    let length = digits::whole(length).ok().and_then(|length| u8::try_from(length).ok());
    let net = length.and_then(|length| IpNet::new(address, length).ok()).ok_or_else(refuse)?;
    let net = unmapped(net);
    if net != net.trunc() {
        let cause = format!("the prefix {} has bits set behind its length", quote(text));
        let instead = [net.trunc().to_string(), IpNet::from(net.addr()).to_string()];
        return Err(Refusal::instead(cause, instead, "the first is the network, the second the one address"));
    }
    Ok(net)
}

/// The prefix of IPv4 addresses for one of IPv4-mapped addresses alone; any other as it is.
fn unmapped(net: IpNet) -> IpNet {
    match (net, net.addr().to_canonical()) {
        (IpNet::V6(mapped), address @ IpAddr::V4(_)) => {
            let length = mapped.prefix_len().checked_sub(MAPPED_BITS);
            length.and_then(|length| IpNet::new(address, length).ok()).unwrap_or(net)
        }
        _ => net,
    }
}

/// The bits before the IPv4 address in an IPv4-mapped one.
const MAPPED_BITS: u8 = 96;

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
checks!(check_ports => ports, check_prefix => prefix, check_interface => interface, check_cgroup => cgroup);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields() {
        assert_eq!(ports("7000-7099"), Ok(vec![(7000, 7099)]));
        assert_eq!(ports("80"), Ok(vec![(80, 80)]));
        assert_eq!(ports("443, 80 ,7000 - 7099"), Ok(vec![(443, 443), (80, 80), (7000, 7099)]));
        assert_eq!(prefix("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        for (text, expected) in [
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:a00:1", "10.0.0.1/32"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:10.0.0.1/128", "10.0.0.1/32"),
            ("::/0", "::/0"),
            ("::ffc0:0:0/90", "::ffc0:0:0/90"),
            ("::10.0.0.1", "::a00:1/128"),
        ] {
            assert_eq!(prefix(text).unwrap().to_string(), expected, "{text}");
        }
        assert!(interface("tap*").is_ok() && cgroup("/a/b").is_ok() && cgroup("a/*").is_ok());
    }

    #[test]
    fn refuses_fields() {
        for (refusal, cause) in [
            (check_ports("7099-7000"), "the range of ports `7099-7000` is reversed"),
            (check_ports("65536"), "the port `65536` is not between 1 and 65535"),
            (check_ports("0"), "the port `0` is not between 1 and 65535"),
            (check_ports("80,"), "`80,` is not a port or a range of ports"),
            (check_ports("80,443,http"), "`80,443,http` is not a port or a range of ports"),
            (check_ports("80,65536"), "the port `65536` is not between 1 and 65535"),
            (check_ports("80,7099-7000"), "the range of ports `7099-7000` is reversed"),
            (check_ports("-1"), "`-1` is not a port or a range of ports"),
            (check_ports("010"), "`010` has a leading zero"),
            (check_ports("80-0443"), "`80-0443` has a leading zero"),
            (check_ports("00"), "`00` has a leading zero"),
            (check_prefix("10.0.0.0/08"), "`10.0.0.0/08` has a leading zero"),
            (check_prefix("fd00::/064"), "`fd00::/064` has a leading zero"),
            (check_prefix("010.0.0.0/8"), "`010.0.0.0/8` has a leading zero"),
            (check_prefix("10.0.0.01"), "`10.0.0.01` has a leading zero"),
            (check_prefix("10.0.0/8"), "`10.0.0/8` is not an address prefix"),
            (check_prefix("10.0.0.0/"), "`10.0.0.0/` is not an address prefix"),
            (check_prefix("10.0.0.0/+8"), "`10.0.0.0/+8` is not an address prefix"),
            (check_prefix("10.0.0.1/8"), "the prefix `10.0.0.1/8` has bits set behind its length"),
            (check_prefix("::ffff:10.0.0.1/104"), "the prefix `::ffff:10.0.0.1/104` has bits set behind its length"),
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
        for (refusal, instead) in [
            (check_ports("7099-7000"), &["7000-7099"][..]),
            (check_ports("080-0443"), &["80-443"]),
            (check_ports("80, 0443"), &["80, 443"]),
            (check_ports("80,7099-7000,9"), &["80,7000-7099,9"]),
            (check_prefix("::ffff:10.0.0.1/104"), &["10.0.0.0/8", "10.0.0.1/32"]),
            (check_prefix("10.0.0.1/8"), &["10.0.0.0/8", "10.0.0.1/32"]),
            (check_prefix("fd00::/064"), &["fd00::/64"]),
            (check_prefix("010.00.0.0/08"), &["10.0.0.0/8"]),
        ] {
            assert_eq!(refusal.unwrap_err().instead, instead);
        }
    }
}
