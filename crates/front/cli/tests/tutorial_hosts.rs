//! The tutorials of docs/tutorials whose hosts are network namespaces.

mod common;
mod tutorial;

use common::{one_at_a_time, quick, skipped};
use std::process::Command;
use tutorial::follow;

/// The namespaces of a tutorial: deleted with their processes before it and after it, also when it fails.
struct Namespaces(&'static [&'static str]);

impl Namespaces {
    fn delete(&self) {
        for name in self.0 {
            let script = "ip netns pids $0 2>/dev/null | xargs --no-run-if-empty kill -KILL; ip netns delete $0";
            // Fails for a namespace that is absent, as all are after a tutorial that ended well.
            Command::new("bash").args(["-c", script, name]).output().expect("bash runs");
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.delete();
    }
}

#[test]
fn sharing_a_link_prints_the_output_of_its_page() {
    if skipped("the tutorial of two hosts") {
        return;
    }
    let _turn = one_at_a_time();
    let namespaces = Namespaces(&["weir-m1", "weir-m2", "weir-switch"]);
    namespaces.delete();
    // On shared processors senders have 0.6 of their rates or more (`common::SHARED_LEAST`).
    follow("share-a-link", if quick() { 2.0 } else { 1.0 });
}
