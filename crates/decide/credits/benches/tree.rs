//! A port's flows at their numbers: a change of a demand, and the level. `cargo bench -p weir-credits --bench tree`
//! prints the memory of a flow first. Time is that of one operation.

use divan::Bencher;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_credits::{MaxMinTree, WHOLE};

/// Numbers of flows.
const FLOWS: [u32; 3] = [1_000, 10_000, 100_000];

fn main() {
    for flows in FLOWS {
        let bytes = tree(flows).memory().get();
        println!("{flows} flows: {bytes} B, {} B each", bytes / u64::from(flows));
    }
    divan::main();
}

/// Flows in a random order, with random demands around the level and weights from 1 to 8.
fn tree(flows: u32) -> MaxMinTree {
    let mut random = SmallRng::seed_from_u64(1);
    let mut tree = MaxMinTree::new(WHOLE);
    for flow in 0..flows {
        tree.set(flow, random.random_range(1..9), demand(&mut random, flows));
    }
    tree
}

/// At most four times an equal share, so that both satisfied and other flows are many.
fn demand(random: &mut SmallRng, flows: u32) -> u64 {
    random.random_range(0..4 * WHOLE / u64::from(flows))
}

/// Another weight and demand of a flow, which moves elsewhere in the order.
#[divan::bench(args = FLOWS, sample_count = 2_000, sample_size = 100)]
fn set(bencher: Bencher<'_, '_>, flows: u32) {
    let (mut tree, mut random) = (tree(flows), SmallRng::seed_from_u64(2));
    bencher.bench_local(|| {
        let flow = random.random_range(0..flows);
        tree.set(flow, random.random_range(1..9), demand(&mut random, flows));
    });
}

/// The level after a change: its descent meets the nodes of the changed flow as they are in the cache.
#[divan::bench(args = FLOWS, sample_count = 2_000, sample_size = 100)]
fn level(bencher: Bencher<'_, '_>, flows: u32) {
    let tree = tree(flows);
    bencher.bench_local(|| tree.level());
}

/// A change and a level, the work of one allocation at a port.
#[divan::bench(args = FLOWS, sample_count = 2_000, sample_size = 100)]
fn set_and_level(bencher: Bencher<'_, '_>, flows: u32) {
    let (mut tree, mut random) = (tree(flows), SmallRng::seed_from_u64(3));
    bencher.bench_local(|| {
        let flow = random.random_range(0..flows);
        tree.set(flow, random.random_range(1..9), demand(&mut random, flows));
        tree.level()
    });
}
