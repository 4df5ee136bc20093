//! What is counted since the start of whoever counts.
//!
//! A counter is described once: its name is the key in JSON, `weir_NAME_total` its metric, its doc the metric's help.

use serde::{Deserialize, Serialize};
use weir_datapath::abi::Counts;

/// Counters with their names and what they count.
pub trait Counters {
    /// Gives each as (name, what it counts, value).
    fn each(&self, give: &mut dyn FnMut(&'static str, &'static str, u64));
}

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $(#[doc = $help:literal] $field:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name { $(#[doc = $help] pub $field: u64,)* }

        impl Counters for $name {
            fn each(&self, give: &mut dyn FnMut(&'static str, &'static str, u64)) {
                $(give(stringify!($field), $help, self.$field);)*
            }
        }
    };
}

counters! {
    /// What an agent counted, in user space.
    AgentCounters {
        /// Usage reports of the rack's machines that told something new.
        reports_accepted,
        /// Usage reports not newer than what was known: replayed, doubled or overtaken.
        reports_replayed,
        /// Usage reports in the name of a machine that is not another of this rack.
        reports_unknown_machine,
        /// Usage reports made under another policy.
        reports_other_policy,
        /// Genuine datagrams and usage reports whose content contradicts the policy or itself.
        reports_malformed,
        /// Datagrams that were cut off.
        datagrams_truncated,
        /// Datagrams that are not of Weir's protocol.
        datagrams_foreign,
        /// Datagrams of another version of the protocol.
        datagrams_other_version,
        /// Datagrams whose tag does not verify.
        datagrams_forged,
        /// Genuine datagrams that are for somebody else.
        datagrams_misdirected,
        /// Datagrams that could not be sent.
        datagrams_unsent,
        /// Times that the machine went back to the static policy.
        fallbacks,
        /// Parts of reports sent to the fabric broker.
        rack_reports,
        /// Limits of the fabric that told something new.
        limits_accepted,
        /// Parts of reports to the fabric broker that had no line to go by.
        rack_reports_unsent,
        /// Limits of the fabric that were known already: relays repeat them.
        limits_known,
        /// Limits of the fabric older than what was known: replayed or overtaken.
        limits_replayed,
        /// Limits of the fabric older than their timeout.
        limits_expired,
        /// Limits of the fabric for another rack.
        limits_other_rack,
        /// Limits of the fabric made under another policy.
        limits_other_policy,
        /// Limits of the fabric whose content contradicts the policy or itself.
        limits_malformed,
        /// Times that the fabric's limits ended because nothing was heard of it.
        fabric_fallbacks,
        /// Status files that could not be written.
        statuses_unwritten,
        /// Reloads that were asked for, taken or refused.
        reloads,
    }
}

counters! {
    /// The meters' timer in the kernel.
    TimerCounters {
        /// Expiries of the meters' timer that were skipped because it was late.
        ticks_late,
        /// Changes of the kernel to the static policy because no agent was alive.
        fallbacks,
    }
}

/// The kernel's counters of the interface. Events are named and described in `bpf/tables.h` (`struct weir_counts`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelCounters {
    /// Events in the programs.
    #[serde(flatten)]
    pub events: Counts,
    /// The timer.
    #[serde(flatten)]
    pub timer: TimerCounters,
}

impl Counters for KernelCounters {
    fn each(&self, give: &mut dyn FnMut(&'static str, &'static str, u64)) {
        for (name, help, value) in self.events.each() {
            give(name, help, value);
        }
        self.timer.each(give);
    }
}

counters! {
    /// What an agent's line to the fabric broker counted.
    LineCounters {
        /// Calls that a fabric broker welcomed.
        calls,
        /// Calls that failed or broke.
        failures,
        /// Calls that were told which other broker answers.
        sent_elsewhere,
        /// Parts of reports handed to a fabric broker, those said again among them.
        reports_sent,
        /// Parts of reports that were overtaken before there was a line, or never reached it.
        reports_lost,
        /// Messages with limits that no broker makes.
        limits_malformed,
        /// Parts of limits that the agent did not take in time.
        limits_lost,
    }
}

counters! {
    /// What a fabric broker counted.
    FabricCounters {
        /// Rack reports that told something new.
        rack_reports_accepted,
        /// Rack reports not newer than what was known: replayed, doubled or overtaken.
        rack_reports_replayed,
        /// Rack reports in the name of a machine that the policy does not have.
        rack_reports_unknown_machine,
        /// Rack reports made under another policy.
        rack_reports_other_policy,
        /// Messages of leaders whose content contradicts the policy or itself.
        rack_reports_malformed,
        /// Connections without a certificate of the authority.
        handshakes_failed,
        /// Calls in the name of a machine that the caller's certificate does not name.
        calls_other_machine,
        /// Calls in the name of a machine that the policy does not have.
        calls_unknown_machine,
        /// Calls that were told which other broker answers.
        calls_sent_elsewhere,
        /// Parts of answers for machines that were not on the line.
        answers_unsent,
        /// Parts of answers for machines that did not take earlier ones.
        answers_not_taken,
        /// Answers to racks that were dropped because a period ended before they were sent.
        answers_dropped,
        /// Times that a silent rack's last word was forgotten.
        racks_forgotten,
    }
}
