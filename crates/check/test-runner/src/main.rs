//! Runs all tests of the workspace in the time that its real-time tests leave unused.
//!
//! Problem: 130 of the tests use real processes, namespaces and real time. They wait most of
//! the time, and one after the other they take twenty minutes of two idle processors. Approach:
//! each real-time test has a load, the processors that it uses on average (`tools/realtime-tests`).
//! As many run at the same time as fit a budget, the longest first, each in namespaces of its own
//! ([`sandbox`]). All other work (the rest of the build, lints, pure tests) runs at a low priority
//! beside them.
//!
//! ```text
//! cargo builds the real-time tests | they run side by side ---------------------> | N passed, N failed, N skipped
//!                                  | cargo builds the rest | lints, pure tests -> |
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | [`options`] | the command line |
//! | [`loads`] | the table of real-time tests |
//! | [`cargo`] | the builds |
//! | [`inventory`] | which tests a binary has, and how each is run |
//! | [`schedule`] | which test starts next: pure |
//! | [`sandbox`] | the namespaces of a real-time test |
//! | [`process`] | one process with its log, time limit and measured load |
//! | [`steal`] | the time that the hypervisor took from the processors |
//! | [`standstill`] | the times in which a processor ran no program |
//! | [`run`] | the loop over all of them |
//! | [`lateness`] | whether the machine is idle enough for strict bounds |
//! | [`report`] | progress, failures, the closing line |

mod busy;
mod cargo;
mod inventory;
mod lateness;
mod loads;
mod options;
mod process;
mod report;
mod run;
mod sandbox;
mod schedule;
mod standstill;
mod steal;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == busy::ARGUMENT) {
        busy::spin();
    }
    let options = match options::Options::parse(&arguments) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    match run::run(&options) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(1)
        }
    }
}
