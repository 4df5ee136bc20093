use super::*;
use weir_control::wire::{Key, Keys};
use weir_fabric::IdentityFiles;

const RESERVED: Bandwidth = Bandwidth::from_mbps(300);

/// The machine m1 of a policy with these services before its tenants `blue` and `red`.
fn config(services: &str) -> RuntimeConfig {
    let text = format!(
        "weir: 1\nnetwork:\n  nic: 1Gb/s\n  racks: {{ r1: {{ uplink: 1Gb/s, machines: [m1] }} }}\n  slots: 4\n  \
         switches: {{ queues: 3, scheduler: weighted }}\n{services}tenants:\n  blue: {{ vms: 2, bandwidth: 100Mb/s, \
         match: [ {{ port: 2 }} ] }}\n  red: {{ vms: 2, bandwidth: 300Mb/s, match: [ {{ port: 1 }} ] }}\n"
    );
    let policy = Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0;
    let keys = Keys::new(vec![Key::from_hex(&"5a".repeat(32)).expect("a key")]).expect("keys");
    let listen = "127.0.0.1:1".parse().expect("an address");
    RuntimeConfig { policy: Arc::new(policy), machine: MachineId(0), listen, peers: Vec::new(), keys }
}

/// Red has a reservation and a tag at m1.
fn with_red(config: &RuntimeConfig) -> Tenants {
    let policy = &config.policy;
    let mut tenants = Tenants::new();
    (tenants.names, tenants.services) = (names_of(policy), services_of(policy));
    let shares = vec![TenantAtMachine { tenant: TenantId(1), reserved: RESERVED, limited: false }];
    let tags = HostTags { tenants: vec![(service(config, "red"), 12)], values: tag_values(policy) };
    let policy = Arc::new(policy.at_machine(config.machine, &shares));
    tenants.set_in_force(Some(InForce { shares, tags, policy }));
    tenants
}

fn service(config: &RuntimeConfig, name: &str) -> ServiceId {
    config.policy.tenants().iter().find(|tenant| tenant.name == name).expect("a tenant").service
}

/// Services come before tenants, so another service moves each tenant to the place of the next one.
#[test]
fn reservations_and_tags_stay_with_their_tenants_in_another_policy() {
    let (old, new) = (config(""), config("services: { s: { match: [ { port: 3 } ] } }\n"));
    assert_ne!(service(&old, "red"), service(&new, "red"));
    let mut tenants = with_red(&old);
    let earlier = tenants.renew(&new);
    assert_eq!(tenants.reserved(), [(service(&new, "red"), RESERVED)]);
    assert_eq!(tenants.tags().expect("tags").tenants, [(service(&new, "red"), 12)]);
    let limits = tenants.limits(&new);
    assert!(limits.iter().all(|limit| limit.service == service(&new, "red")), "{limits:?}");
    assert!(!limits.is_empty());
    // The new policy is refused.
    tenants.restore(earlier);
    assert_eq!(tenants.reserved(), [(service(&old, "red"), RESERVED)]);
    assert_eq!(tenants.tags().expect("tags").tenants, [(service(&old, "red"), 12)]);
    assert_eq!(tenants.services, services_of(&old.policy));
}

#[test]
fn an_unreadable_certificate_is_an_error_before_a_change() {
    let config = config("");
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let fabric = SessionConfig {
        machine: "m1".into(),
        brokers: vec!["https://127.0.0.1:1".parse().expect("an address")],
        identity: IdentityFiles { certificate: at("m1.pem"), private_key: at("m1.key"), ca: at("ca.pem") },
        period: Duration::from_millis(400),
        timeout: Duration::from_secs(2),
        sockets: None,
    };
    let error = Tenants::new().check(&config, Some(&fabric)).expect_err("no certificate");
    assert!(error.to_string().contains("m1.pem"), "{error}");
    Tenants::new().check(&config, None).expect("no broker takes no certificate");
}

#[test]
fn a_queue_is_empty_of_earlier_packets_after_their_bytes() {
    let reading = |sent, backlog| Some((Bytes::new(sent), Bytes::new(backlog)));
    let left = Left::Unread.after(reading(1_000, 300)).expect("300 bytes are left");
    assert_eq!(left, Left::Sent { from: Bytes::new(1_000), until: Bytes::new(1_300) });
    assert_eq!(left.after(reading(1_299, 900)), Some(left));
    assert_eq!(left.after(reading(1_300, 900)), None);
    assert_eq!(left.after(reading(1_100, 0)), None);
    assert_eq!(left.after(None), Some(left));
    // A destination's class is deleted, and its 800 bytes are missing from the sum: the 200 bytes that wait have left
    // at 700.
    let again = left.after(reading(500, 200)).expect("200 bytes are left");
    assert_eq!(again.after(reading(700, 900)), None);
    // After a reading that failed, the next one that succeeds counts, also where the queue is never empty.
    let unread = Left::Unread.after(None).expect("unknown");
    assert_eq!(unread.after(reading(1_000, 300)), Some(left));
}

#[test]
fn packets_leave_at_the_lowest_reservation_of_two_settings() {
    let [a, b, c] = [0, 1, 2].map(ServiceId);
    let mbps = Bandwidth::from_mbps;
    let (before, now) = ([(a, mbps(10)), (b, mbps(30))], [(a, mbps(20)), (b, mbps(5))]);
    let of = |service| lowest([&before, &now], service);
    assert_eq!([of(a), of(b), of(c)], [mbps(10), mbps(5), Bandwidth::UNLIMITED]);
}

#[test]
fn usage_is_for_a_controller_of_the_same_policy() {
    let config = config("");
    let mut tenants = with_red(&config);
    tenants.interval = Some(Duration::from_secs(1));
    let meters = |mb: u64| {
        let bytes = PerDirection { tx: Bytes::new(mb * 1_000_000), rx: Bytes::ZERO };
        [MeterReading { service: service(&config, "red"), bytes, waits: false, network: Default::default() }]
    };
    let mut usages = |has_own_policy| {
        tenants.has_own_policy = has_own_policy;
        tenants.reported = None;
        [1, 2].map(|second| tenants.usage(Instant::from_nanos(second * 1_000_000_000), &meters(second)))
    };
    assert_eq!(usages(false), [None, None]);
    let expected = Usage { tenants: vec![TenantUsage { tenant: 1, tx_bps: 8_000_000, rx_bps: 0 }] };
    assert_eq!(usages(true), [None, Some(expected)]);
}
