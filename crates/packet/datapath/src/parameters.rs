//! Raw values of a shaper's constants: the structures and numbers of the C code.

use crate::abi;
use weir_shaping::{ALPHA_ONE, DestinationParameters, Marks, ShaperParameters, Silence};
use weir_units::{Bandwidth, Duration};

const _: () = assert!(abi::LAW_ONE == ALPHA_ONE, "one unit of alpha in Rust and in C");

/// The law of receive meters.
pub fn receive_law(parameters: &ShaperParameters) -> abi::Law {
    law(parameters, parameters.interval, parameters.marks)
}

/// The law of interface meters.
pub(crate) fn interface_law(parameters: &ShaperParameters) -> abi::Law {
    law(parameters, parameters.interface.interval, parameters.interface.marks)
}

fn law(parameters: &ShaperParameters, interval: Duration, marks: Marks) -> abi::Law {
    let mark_bytes = match marks {
        Marks::Usage(bytes) => u32::try_from(bytes.get()).unwrap_or(u32::MAX),
        Marks::Fraction | Marks::Ignored => 0,
    };
    abi::Law {
        interval: interval.nanos(),
        alpha: parameters.alpha.raw(),
        catch_up: u32::from(parameters.catch_up),
        mark_bytes,
        marks: u32::from(marks != Marks::Ignored),
    }
}

/// The reaction of senders as the kernel's programs read it.
pub fn destination_rules(parameters: &DestinationParameters) -> abi::DestinationRules {
    abi::DestinationRules {
        hold: parameters.hold.nanos(),
        silence: parameters.silence.nanos(),
        burst_time: parameters.burst_time.nanos(),
        halved_floor: match parameters.on_silence {
            Silence::Drop => 0,
            Silence::Halve(floor) => floor.bps().max(1),
        },
        request_after: parameters.request_after.nanos(),
        // The C code cuts bursts at 256 MiB.
        burst: u32::try_from(parameters.burst.get()).unwrap_or(u32::MAX),
        reserved: 0,
    }
}

/// A finite rate for the C code, in which 0 is unlimited and the smallest is one bit/s.
pub(crate) fn limit(rate: Bandwidth) -> u64 {
    if rate.is_unlimited() { 0 } else { rate.bps().max(1) }
}

/// A rate or capacity of the C code, in which 0 is unlimited.
pub(crate) fn from_limit(bps: u64) -> Bandwidth {
    if bps == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(bps) }
}
