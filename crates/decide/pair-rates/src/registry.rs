//! The list of systems, and the types made from it.
//!
//! A system is a module with a type that implements [`Law`]; one line in the list below adds it. A pair's state is a
//! variant of an enum: pairs are many, and of one system in a run.

use crate::law::{Division, Law, Pair, Rates};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

macro_rules! registry {
    ($($(#[$doc:meta])* $variant:ident: $law:ty = $word:literal,)*) => {
        /// A system that limits pairs of machines.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PairSystem {
            $($(#[$doc])* $variant,)*
        }

        impl PairSystem {
            /// All systems, in the order of the list.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its keyword.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
            /// [`Law::DIVISION`].
            pub const fn division(self) -> Division {
                match self { $(Self::$variant => <$law>::DIVISION,)* }
            }
            /// [`Law::LIMITS_HOSE`].
            pub const fn limits_hose(self) -> bool {
                match self { $(Self::$variant => <$law>::LIMITS_HOSE,)* }
            }
            /// [`Law::PRIORITIES`].
            pub const fn has_priorities(self) -> bool {
                match self { $(Self::$variant => <$law>::PRIORITIES,)* }
            }
            /// [`Law::SMALL_FLOW`].
            pub const fn small_flow(self) -> Bytes {
                match self { $(Self::$variant => <$law>::SMALL_FLOW,)* }
            }
            /// [`Law::BURST`].
            pub const fn burst(self) -> Bytes {
                match self { $(Self::$variant => <$law>::BURST,)* }
            }
            /// [`Law::partition_interval`].
            pub fn partition_interval(self) -> Duration {
                match self { $(Self::$variant => <$law>::partition_interval(),)* }
            }
            /// [`Law::report_interval`].
            pub fn report_interval(self) -> Duration {
                match self { $(Self::$variant => <$law>::report_interval(),)* }
            }
        }

        /// The state of a pair under one of the systems; see [`Law`] for its methods.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum PairLaw {
            $($(#[$doc])* $variant($law),)*
        }

        impl PairLaw {
            /// A pair that begins at `now`.
            pub fn new(system: PairSystem, now: Instant, pair: &Pair) -> Self {
                match system { $(PairSystem::$variant => Self::$variant(<$law>::new(now, pair)),)* }
            }
            /// [`Law::set_guarantee`].
            pub fn set_guarantee(&mut self, now: Instant, guarantee: Bandwidth) {
                match self { $(Self::$variant(law) => law.set_guarantee(now, guarantee),)* }
            }
            /// [`Law::report`].
            pub fn report(&mut self, now: Instant, marked_percent: u8) {
                match self { $(Self::$variant(law) => law.report(now, marked_percent),)* }
            }
            /// [`Law::rates`].
            pub fn rates(&self) -> Rates {
                match self { $(Self::$variant(law) => law.rates(),)* }
            }
        }
    };
}

registry! {
    /// A static reservation.
    Static: crate::static_reservation::StaticReservation = "static",
    /// ElasticSwitch with the aggressive rate allocation.
    ElasticSwitch: crate::elastic_switch::Aggressive = "elasticswitch",
    /// ElasticSwitch with the cautious rate allocation of its paper.
    CautiousElasticSwitch: crate::elastic_switch::Cautious = "cautious-elasticswitch",
    /// Trinity.
    Trinity: crate::trinity::Trinity<{ crate::trinity::SMALL_FLOW }> = "trinity",
    /// Trinity without the queue of small flows.
    OneQueueTrinity: crate::trinity::Trinity<0> = "one-queue-trinity",
    /// Seawall.
    Seawall: crate::seawall::Seawall = "seawall",
}
