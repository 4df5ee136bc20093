//! Secrets in each form are removed, and what helps with a fault stays.

use super::*;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;

const KEY: &str = "3f9a1c77d0e24b5a8891aa0bcc12de34f56789ab01cd23ef4567890abcdef012";

fn redacted(text: &str) -> String {
    Redactor::of([text]).redact(text).0
}

#[test]
fn secrets_of_each_form_are_removed() {
    let key = format!("-----BEGIN {}-----\nMIGH\nAgEA\n-----END {}-----", "PRIVATE KEY", "PRIVATE KEY");
    let open = format!("journal: -----BEGIN {}-----\nMIGH\nAgEA\n", "EC PRIVATE KEY");
    for (text, expected) in [
        (KEY, "[redacted]"),
        (&key, "[redacted]"),
        (&open, "journal: [redacted]"),
        ("password=mellon77 user=x", "password=[redacted] user=x"),
        ("DB_PASSWORD='two words' next", "DB_PASSWORD='[redacted]' next"),
        (r#"{"api_key": "a\"b", "n": 1}"#, r#"{"api_key": "[redacted]", "n": 1}"#),
        (r#"{"line": "{\"token\": \"abcdef\"}"}"#, r#"{"line": "{\"token\": \"[redacted]\"}"}"#),
        ("password=\"never ends", "password=\"[redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("sent Basic dXNlcjpw to m2", "sent Basic [redacted] to m2"),
        ("token /abcdef", "token /abcdef"),
        ("token=/abcdef", "token=[redacted]"),
        ("--token: /abcdef", "--token: [redacted]"),
        ("--token=abcdef --node m1", "--token=[redacted] --node m1"),
        ("--token=Bearer /abcdef", "--token=Bearer [redacted]"),
        ("--api-token=/abcdef", "--api-token=[redacted]"),
        ("x--token=/abcdef", "x--token=[redacted]"),
        ("--password=/abcdef --secret /abcdef", "--password=[redacted] --secret [redacted]"),
        ("--token=/Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==", "--token=[redacted]"),
        ("--token abcdef --interface eth0", "--token [redacted] --interface eth0"),
        ("GET /status?token=xyz&n=1", "GET /status?token=[redacted]&n=1"),
        ("http://user:mellon77@m1:30566/status", "http://[redacted]@m1:30566/status"),
        ("fastopen: 01234567-89abcdef-01234567-89abcdef", "fastopen: [redacted]"),
        ("aa:bb:cc:dd:ee:ff:00:11:22:33:44:55:66:77:88:99", "[redacted]"),
        ("id=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==", "id=[redacted]"),
    ] {
        assert_eq!(redacted(text), expected, "{text}");
    }
}

#[test]
fn facts_of_a_host_stay() {
    for text in [
        "--key /etc/weir/key --private-key /etc/weir/fabric.key --interface eth0",
        "weir pods --node m1 --token /etc/weir/pods-token --ca /etc/weir/pods-ca.pem",
        "weir pods --node m1 --token=/etc/weir/pods-token --ca=/etc/weir/pods-ca.pem --key=/etc/weir/key",
        r#"WEIR_PODS="--node m1 --token=/etc/weir/pods-token""#,
        "--redis-password-file /etc/sonic/redis --redis-password-file=/etc/sonic/redis",
        "qdisc htb 7765: root refcnt 2 r2q 10 default 0x1 direct_packets_stat 0",
        "link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:ff",
        "inet6 2001:db8:85a3:1234:5678:8a2e:370:7334/64 scope global",
        "/sys/fs/bpf/weir/v3a1d331d2e31c3dc-4026532281-7/weir_egress",
        "policy 3a1d331d2e31c3dc, epoch 1796000000000",
        "net.ipv4.tcp_congestion_control = cubic",
        "0000ab12 00000000 00000003 00000000 00000000 00000000",
        "/usr/lib/systemd/system/systemd-networkd-wait-online.service",
        r#"{"machine": "m1", "peers": 3, "datagrams_forged": 0}"#,
    ] {
        assert_eq!(Redactor::of([text]).redact(text), (text.to_owned(), 0));
    }
}

#[test]
fn value_named_in_one_text_is_removed_from_all() {
    let hexadecimal = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let names = "password: Mellon77";
    let redactor = Redactor::of([names]);
    for form in ["Mellon77".to_owned(), STANDARD.encode("Mellon77"), hexadecimal("Mellon77")] {
        let (text, count) = redactor.redact(&format!("started with {form}, and more"));
        assert_eq!(text.replace('=', ""), "started with [redacted], and more");
        assert_eq!(count, 1);
    }
}

#[test]
fn last_line_of_wrapped_base64_is_removed() {
    let text = STANDARD.encode(KEY);
    let (first, last) = text.split_at(76);
    assert_eq!(redacted(&format!("{first}\n{last}\nend of it\n")), "[redacted]\n[redacted]\nend of it\n");
}

/// A text around a secret.
fn around() -> impl Strategy<Value = String> {
    "[ -~\n]{0,60}"
}

proptest! {
    #[test]
    fn planted_keys_are_in_no_output(
        bytes in prop::array::uniform32(any::<u8>()),
        (before, after) in (around(), around()),
    ) {
        let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for form in [key.clone(), key.to_ascii_uppercase(), STANDARD.encode(bytes), STANDARD.encode(&key)] {
            let text = format!("{before} {form} {after}");
            let (out, _) = Redactor::of([text.as_str()]).redact(&text);
            prop_assert!(!out.contains(form.trim_end_matches('=')), "{form}: {out}");
        }
    }

    #[test]
    fn redacted_text_stays_as_it_is(
        text in "[ -~\n]{0,200}",
        name in "(password|token|key)[=: ]{1,2}[A-Za-z0-9]{0,12}",
    ) {
        let once = redacted(&format!("{text}\n{name}\n"));
        prop_assert_eq!(redacted(&once), once);
    }
}
