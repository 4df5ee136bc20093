//! [`ShaperParameters`]: the constants of the machine shaper, and those of EyeQ.
//!
//! Parley and EyeQ, on which it is built, run the same per-packet code; all differences between
//! them are values here, each constant beside its source. "EyeQ" is its source code
//! (github.com/jvimal/eyeq, a704a2a).
//!
//! Worked example: `ShaperParameters::PARLEY` with `interval` 500 µs is what Parley's Table 3 was measured with.

use weir_policy::RECEIVE_PERCENT;
use weir_units::{Bandwidth, Bytes, Duration};

/// 1 in the representation of [`Alpha`]: a multiplication and a shift by 20 in the per-packet code.
pub const ALPHA_ONE: u32 = 1 << 20;

/// The α of the law, a meter's gain on the difference of usage and capacity, from 2^-20 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alpha(u32);

impl Alpha {
    /// One half (Parley Table 1; EyeQ's law is written for it).
    pub const HALF: Self = Self(ALPHA_ONE / 2);

    /// `thousandths` / 1000; `None` for 0 or above 1.
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths == 0 || thousandths > 1000 {
            return None;
        }
        Some(Self((thousandths as u64 * ALPHA_ONE as u64 / 1000) as u32))
    }

    /// In parts of [`ALPHA_ONE`].
    pub const fn raw(self) -> u32 {
        self.0
    }
}

/// Effect of marked packets on the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marks {
    /// None.
    Ignored,
    /// The rate falls by half the fraction that was marked, as Parley §3.2.1 prints.
    Fraction,
    /// A marked interval counts these bytes × (1 + fraction) in addition, and at most three capacities in all
    /// (EyeQ's default).
    Usage(Bytes),
}

/// Effect of missing feedback on a destination limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Silence {
    /// The limiter is removed: the receiver has no meter, or was sent nothing.
    Drop,
    /// The rate halves after each further period of silence, down to this floor.
    Halve(Bandwidth),
}

/// Reaction of senders to feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DestinationParameters {
    /// The rate of a limiter before any feedback; `None`: feedback creates the limiter.
    pub initial: Option<Bandwidth>,
    /// The time for which a new rate is held, whatever the feedback.
    pub hold: Duration,
    /// The time without feedback after which `on_silence` happens.
    pub silence: Duration,
    /// The effect of that silence.
    pub on_silence: Silence,
    /// The time without feedback after which a packet requests it; zero: never.
    pub request_after: Duration,
    /// Least burst after a pause.
    pub burst: Bytes,
    /// Burst after a pause, as time at the rate, if that is more than `burst`.
    pub burst_time: Duration,
}

/// The interface meter: all services at an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceParameters {
    /// Interval of the law.
    pub interval: Duration,
    /// Effect of marks.
    pub marks: Marks,
    /// The capacity where the policy names none, in hundredths of the link's rate.
    pub percent_of_link: u32,
    /// Whether a full interface counts marks by the marked service's usage (`datapath/interface_meter.h`); otherwise
    /// all marks count.
    pub weighs_marks: bool,
}

/// The constants of a machine shaper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShaperParameters {
    /// T: interval of a receive meter, 10 µs to 1 s. A service may have its own.
    pub interval: Duration,
    /// The α of receive meters and of the interface meter.
    pub alpha: Alpha,
    /// Effect of marks on a receive meter's rate.
    pub marks: Marks,
    /// Whether a service resumes at its capacity after a pause (`datapath/receive_meter.h`).
    pub catch_up: bool,
    /// The mean between two feedback packets of a meter, in bytes received.
    pub feedback_bytes: Bytes,
    /// The mean time after which the next packet triggers feedback, whatever its size; zero: only bytes count.
    pub feedback_interval: Duration,
    /// Whether senders that do not apply feedback are policed at a receive limit (`datapath/policer.h`).
    pub polices: bool,
    /// The interface meter.
    pub interface: InterfaceParameters,
    /// The sending side.
    pub destination: DestinationParameters,
}

impl InterfaceParameters {
    /// EyeQ's sending side: each 200 µs against 9,800 of 10,000 Mb/s. Marks do not exist there:
    /// packets have passed no switch.
    pub const EYEQ_TRANSMIT: Self =
        Self { interval: Duration::from_micros(200), marks: Marks::Ignored, percent_of_link: 98, weighs_marks: false };
}

impl ShaperParameters {
    /// Parley's.
    pub const PARLEY: Self = Self {
        // Table 1.
        interval: Duration::from_micros(200),
        // Table 1.
        alpha: Alpha::HALF,
        // §3.2.1.
        marks: Marks::Fraction,
        // Ours.
        catch_up: true,
        // §3.2.1: one in 10 kB.
        feedback_bytes: Bytes::new(10_000),
        // Ours, after EyeQ's 100 µs: R changes each interval, and advertising it each interval
        // costs 2.6 Mb/s (64 B each 200 µs).
        feedback_interval: Duration::from_micros(200),
        // Ours.
        polices: true,
        interface: InterfaceParameters {
            // EyeQ: 1,000 µs, five intervals of the receive meters, so that they settle in between.
            interval: Duration::from_micros(1000),
            // Ours: only marks of this interface's own queue.
            marks: Marks::Fraction,
            // Ours; EyeQ has 90. Usage must distinguish a full interface from one that is not: at
            // 95 it does, by 8 of the 165 packets of an interval, and services receive 5 % more.
            percent_of_link: RECEIVE_PERCENT as u32,
            weighs_marks: true,
        },
        destination: DestinationParameters {
            // §3.2.1: a sender creates a limiter when it receives feedback.
            initial: None,
            hold: Duration::ZERO,
            // EyeQ: 1 s; Parley gives no value.
            silence: Duration::from_secs(1),
            on_silence: Silence::Drop,
            // Ours: two and a half intervals. The loop is stable while feedback is delayed by at most
            // pi / 2 / alpha = 3.1 intervals.
            request_after: Duration::from_micros(500),
            // Fig 9: limiters of 64 kB. A service may have its own (§7).
            burst: Bytes::new(64_000),
            burst_time: Duration::ZERO,
        },
    };

    /// EyeQ's.
    pub const EYEQ: Self = Self {
        // At least 200 µs between two runs of the law.
        interval: Duration::from_micros(200),
        // fb * (3 * rate - rx) / (2 * rate).
        alpha: Alpha::HALF,
        // 45,000 B * (1 + fraction), in the default build.
        marks: Marks::Usage(Bytes::new(45_000)),
        // One run per window, however long it was.
        catch_up: false,
        // After 10,000 B or 100 µs.
        feedback_bytes: Bytes::new(10_000),
        feedback_interval: Duration::from_micros(100),
        polices: false,
        interface: InterfaceParameters {
            // Each 1,000 µs against 9,000 of 10,000 Mb/s.
            interval: Duration::from_micros(1000),
            marks: Marks::Ignored,
            percent_of_link: 90,
            weighs_marks: false,
        },
        destination: DestinationParameters {
            // 5,000 Mb/s.
            initial: Some(Bandwidth::from_mbps(5000)),
            // 120 µs between two changes.
            hold: Duration::from_micros(120),
            // 1 s without feedback halves, to 2 Mb/s at last.
            silence: Duration::from_secs(1),
            on_silence: Silence::Halve(Bandwidth::from_mbps(2)),
            // Never.
            request_after: Duration::ZERO,
            // max(rate * 150 µs, 64 kB).
            burst: Bytes::new(65_536),
            burst_time: Duration::from_micros(150),
        },
    };
}
