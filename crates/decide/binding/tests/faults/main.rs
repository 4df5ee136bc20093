//! The binder in a network that fails: messages are late, lost, repeated and overtake each other; switches apply the
//! settings of their ports one by one and lose all of them; agents stop for a while or die; machines are off or cut
//! off; binders are replaced. Whatever happens, every tenant keeps its reservation at every port ([`checker`]), and
//! when the faults end, all tenants reach the queues that were chosen for them.
//!
//! `WEIR_BINDING_SEEDS=100000 cargo test -p weir-binding --test faults --release` runs more worlds; a failure names its
//! seed, and `WEIR_BINDING_SEEDS=7..8` runs that one.

mod checker;
mod draw;
mod machines;
mod world;

use world::World;

/// Worlds of a run, by seed.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("WEIR_BINDING_SEEDS") else { return 0..3_000 };
    let number = |text: &str| text.parse().expect("WEIR_BINDING_SEEDS is a number, or two with `..` between");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&text),
    }
}

#[test]
fn reservations_hold_whatever_fails() {
    let (mut moves, mut resets, mut successors, mut failures, mut turned_back) = (0, 0, 0, 0, 0);
    for seed in seeds() {
        let mut world = World::new(seed);
        world.run();
        moves += world.moves;
        resets += world.resets;
        successors += world.successors;
        failures += world.failures;
        turned_back += world.turned_back;
    }
    // The worlds are of use only if something happens in them.
    println!(
        "{moves} moves, {resets} resets of switches, {successors} successors, {failures} failures of machines, \
         {turned_back} moves turned back"
    );
    assert!(seeds().count() < 100 || (moves > 1_000 && resets > 100 && successors > 100 && failures > 100));
    assert!(seeds().count() < 3_000 || turned_back > 10);
}
