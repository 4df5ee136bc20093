//! Levels planned for ten thousand hosts: a policy with `level: auto`, from its text to the bounds.
//!
//! `admit` is all of `weir plan` but the reading; `routes` is its part that depends on the size of the network. `cargo
//! bench -p weir-latency --bench levels`.

use divan::Bencher;
use weir_latency::calculus::Routes;
use weir_latency::levels::admit;
use weir_policy::Policy;

fn main() {
    divan::main();
}

/// About ten thousand hosts: a fat-tree of 34 ports, 250 racks of 40, the same with services on parts of it.
const NETWORKS: [&str; 3] = ["fat-tree", "leaf-spine", "parts"];

fn policy(network: &str) -> Policy {
    let links = "host-link: { rate: 10Gb/s }, queue: { buffer: 100MB }";
    let topology = match network {
        "fat-tree" => format!("topology: fat-tree, k: 34, {links}"),
        _ => {
            format!("topology: leaf-spine, racks: 250, hosts: 40, spines: 8, {links}, fabric-link: {{ rate: 100Gb/s }}")
        }
    };
    let parts = network == "parts";
    let services: String = (1..=5u64)
        .map(|i| {
            let machines = if parts { format!(", machines: [\"h[0-{}]\"]", 390 * i * i) } else { String::new() };
            let (worst, message) = (50 * i * i, 400 * i * i);
            format!(
                "  s{i}: {{ match: [ {{ port: {i} }} ], level: auto, latency: {{ message: {message}B, worst: \
                 {worst}ms, rate: {i}0kb/s }}{machines} }}\n"
            )
        })
        .collect();
    let text = format!("weir: 1\nnetwork: {{ {topology} }}\nservices:\n{services}");
    Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
}

#[divan::bench(args = NETWORKS, sample_count = 5)]
fn admission(bencher: Bencher<'_, '_>, network: &str) {
    let policy = policy(network);
    bencher.bench(|| admit(&policy).map(|admitted| admitted.map(|admitted| admitted.chosen)));
}

#[divan::bench(args = NETWORKS, sample_count = 5)]
fn routes(bencher: Bencher<'_, '_>, network: &str) {
    let graph = policy(network).graph();
    let senders = vec![1; graph.hosts.len()];
    bencher.bench(|| Routes::new(&graph, &senders));
}
