//! Counters since the start of a program.
//!
//! A counter is described once: its name is the key in JSON, `weir_NAME_total` its metric, its doc
//! the metric's help.

use serde::{Deserialize, Serialize};

/// Counters with their names and descriptions.
pub trait Counters {
    /// Calls `give` for each counter with (name, description, value).
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
    /// Counters of an agent, in user space.
    AgentCounters {
        /// Usage reports of the rack's machines that were newer than the last one.
        reports_accepted,
        /// Usage reports of the same epoch not newer than the last one of their machine: replayed, doubled or late.
        reports_replayed,
        /// Usage reports of an older epoch than the last one of their machine: it went down, or they are replayed.
        reports_older_epoch,
        /// Usage reports in the name of a machine that is not another one of this rack.
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
        /// Genuine datagrams for another receiver.
        datagrams_misdirected,
        /// Datagrams that could not be sent.
        datagrams_unsent,
        /// Times that the machine went back to the static policy.
        fallbacks,
        /// Parts of reports sent to the fabric broker.
        rack_reports,
        /// Parts of replies to limits that the fabric broker proposed.
        rack_replies,
        /// Limits of the fabric that were newer than those in force.
        limits_accepted,
        /// Parts of reports to the fabric broker that could not be sent, since no session is configured.
        rack_reports_unsent,
        /// Limits of the fabric that were in force already: relays repeat them.
        limits_known,
        /// Limits of the fabric older than those in force: replayed or overtaken.
        limits_replayed,
        /// Limits of an older epoch than the last ones, from the fabric broker itself: its epoch went down.
        limits_older_epoch,
        /// Limits of the fabric older than their timeout.
        limits_expired,
        /// Limits of the fabric for another rack.
        limits_other_rack,
        /// Limits of the fabric made under another policy.
        limits_other_policy,
        /// Limits of the fabric whose content contradicts the policy or itself.
        limits_malformed,
        /// Times that the fabric's limits ended because none arrived within the timeout.
        fabric_fallbacks,
        /// Notices to the rack of whether this machine is shut out of the fabric broker.
        shut_out_notices,
        /// Notices of the rack's machines not newer than known ones: replayed, doubled or overtaken.
        shut_out_notices_replayed,
        /// Notices to machines of the rack and to the fabric broker of the newest epochs that they had.
        epoch_notices_sent,
        /// Times that this machine continued above a higher epoch that others had of it.
        epochs_raised,
        /// Intervals for which the kernel did not return the counters of the qdisc in time.
        readings_late,
        /// Status files that could not be written.
        statuses_unwritten,
        /// Reloads, taken or refused.
        reloads,
    }
}

counters! {
    /// Events in the kernel's programs: `struct weir_counts` of `datapath/host/tables.h`.
    EventCounters {
        /// Feedback that could not be built or sent.
        feedback_failed,
        /// Feedback that was applied.
        feedback_accepted,
        /// Feedback whose tag no key verifies.
        feedback_forged,
        /// Feedback not newer than the last: replayed, duplicated or reordered.
        feedback_replayed,
        /// Feedback about packets of no service of this host.
        feedback_unclassified,
        /// Feedback of a destination that got no entry because the table was full.
        destinations_full,
        /// Control datagrams of another version of the protocol.
        other_version,
        /// Datagrams to the control port that are not of the protocol.
        foreign,
        /// Brokers' datagrams to an address that is not the agent's.
        misdirected,
        /// Brokers' datagrams from a host outside the rack.
        unknown_peer,
        /// Brokers' datagrams beyond the rate of one machine.
        peer_rate_exceeded,
        /// Tenants' packets in the form of control traffic or to a fabric broker, dropped.
        spoofed,
        /// Packets dropped because their departure was beyond the horizon (`edt`).
        beyond_horizon,
        /// Feedback requests beyond the limit of one tick, without feedback.
        requests_limited,
        /// Buffers of no latency level with more segments than `levels.segments`: bounds do not hold beside them.
        long_buffers,
        /// Packets without a known socket on this host, while filters name control groups.
        cgroups_unknown,
        /// Buffers that carried the DSCP value of another tenant or of credits, re-marked.
        tags_claimed,
        /// Packets of services with credits that were dropped because no gate was free.
        credit_gates_full,
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

/// The kernel's counters of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelCounters {
    /// Events in the programs.
    #[serde(flatten)]
    pub events: EventCounters,
    /// The timer.
    #[serde(flatten)]
    pub timer: TimerCounters,
}

impl Counters for KernelCounters {
    fn each(&self, give: &mut dyn FnMut(&'static str, &'static str, u64)) {
        self.events.each(give);
        self.timer.each(give);
    }
}

counters! {
    /// Counters of an agent's session with the fabric broker.
    SessionCounters {
        /// Streams that a fabric broker accepted.
        streams,
        /// Streams that failed or broke.
        failures,
        /// Streams that were redirected to the leading broker.
        redirected,
        /// Parts of reports sent to a fabric broker, repetitions included.
        reports_sent,
        /// Parts of reports that newer ones replaced before they were sent, or that never reached the session.
        reports_lost,
        /// Messages with limits that no broker makes.
        limits_malformed,
        /// Parts of limits that the agent did not take in time.
        limits_lost,
    }
}

counters! {
    /// Counters of a fabric broker.
    FabricCounters {
        /// Rack reports newer than the last one of their rack.
        rack_reports_accepted,
        /// Rack reports of the same epoch not newer than the last one of their machine: replayed, doubled or late.
        rack_reports_replayed,
        /// Rack reports of an older epoch than the last one of their machine: its epoch went down.
        rack_reports_older_epoch,
        /// Rack reports in the name of a machine that the policy does not have.
        rack_reports_unknown_machine,
        /// Rack reports made under another policy.
        rack_reports_other_policy,
        /// Messages of rack leaders whose content contradicts the policy or itself.
        rack_reports_malformed,
        /// Connections without a certificate of the CA.
        handshakes_failed,
        /// Connections that newer ones replaced before their handshake was complete.
        handshakes_replaced,
        /// Streams in the name of a machine that the client's certificate does not name.
        streams_other_machine,
        /// Streams in the name of a machine that the policy does not have.
        streams_unknown_machine,
        /// Streams that were redirected to the leading broker.
        streams_redirected,
        /// Parts of limits for machines without a stream.
        limits_unsent,
        /// Parts of limits for machines that did not take earlier ones.
        limits_not_taken,
        /// Limits of racks that were dropped because a period ended before they were sent.
        limits_dropped,
        /// Times that the last report of a silent rack was forgotten.
        racks_forgotten,
        /// Parts of replies to proposed limits.
        replies,
        /// Replies to proposed limits that did not arrive in time.
        replies_missed,
        /// Notices to machines of the newest epochs that they had.
        epoch_notices_sent,
        /// Times that this broker continued above a higher epoch that machines had of it.
        epochs_raised,
    }
}
