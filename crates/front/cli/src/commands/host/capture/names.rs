//! The names that `--anonymise` replaces, and the words that it does not.
//!
//! Problem: a field that is added to a status may hold names. Approach: the structures of statuses are destructured
//! without `..`, so that a new field has to be listed here. Counters are [`Copy`], which [`no_text`] requires.
//!
//! Worked example: the status `unheard: [milton]`, `filters_unmatched: ["pay: no pod here has namespace=shop"]` gives
//! `milton`, `pay` and `shop`.

use crate::cli::Cli;
use clap::{Command, CommandFactory as _};
use serde_json::Value;
use std::collections::BTreeSet;
use weir_capture::Item;
use weir_document::schema::schema;
use weir_pods::Records;
use weir_policy::{PodSelector, Policy};
use weir_status::{
    AgentStatus, CreditFlow, DirectionStatus, FabricLimit, FabricLink, FabricSession, FabricStatus, HostCredits,
    LevelStatus, ServiceStatus, Status, SwitchPortStatus, SwitchStatus, TenantPort, TenantQueuesStatus, TenantStatus,
};

/// Options of services whose values are names; in a list with `=` up to it.
const OPTIONS: [&str; 4] = ["--machine", "--node", "--peer", "--switch"];
/// The option of the directory of records.
const PODS: &str = "--pods";

/// Names, and the keys of labels whose values are names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The names.
    pub(super) names: Vec<String>,
    label_keys: BTreeSet<String>,
}

impl Names {
    fn add(&mut self, names: impl IntoIterator<Item = impl Into<String>>) {
        self.names.extend(names.into_iter().map(Into::into));
    }

    /// The names in the path of a service.
    fn add_path(&mut self, path: &str) {
        self.add(path.split('/'));
    }

    /// Namespaces, names or values of labels of pods.
    fn add_of_pods<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        // Each cluster has these.
        const OF_ALL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
        self.add(names.into_iter().filter(|name| !OF_ALL.contains(name)));
    }

    fn add_selector(&mut self, selector: &PodSelector) {
        self.add_of_pods(selector.texts());
        self.label_keys.extend(selector.label_keys().map(str::to_owned));
    }

    /// Adds those of a policy.
    pub(super) fn add_policy(&mut self, policy: &Policy) {
        let network = policy.network();
        self.add(network.machines().iter().map(|machine| machine.name()));
        self.add(network.racks().iter().map(|rack| rack.name()));
        self.add(policy.graph().switches.iter().cloned());
        for service in policy.services().all() {
            self.add_path(service.path());
            service.matches().iter().filter_map(|filter| filter.pod.as_ref()).for_each(|pod| self.add_selector(pod));
        }
        for tenant in policy.tenants() {
            self.add([tenant.name.clone()]);
            self.add(tenant.groups.iter().filter_map(|group| group.name.clone()));
        }
    }

    /// Adds those of a status.
    pub(super) fn add_status(&mut self, status: &Status) {
        match status {
            Status::Agent(agent) => self.add_agent(agent),
            Status::Fabric(broker) => self.add_fabric(broker),
            Status::Switch(switch) => self.add_switch(switch),
        }
    }

    fn add_agent(&mut self, status: &AgentStatus) {
        let AgentStatus {
            version: _,
            written_ms: _,
            period_ms: _,
            uptime_ms: _,
            machine,
            rack,
            // Names of interfaces and control groups stay.
            interface: _,
            attachment: _,
            backend: _,
            backend_obstacles: _,
            mode: _,
            policy: _,
            policy_refused,
            interface_absent: _,
            not_enforced: _,
            keeps: _,
            level_obstacles: _,
            cgroups: _,
            cgroups_missed: _,
            guests: _,
            guests_missed,
            filters_unmatched,
            epoch: _,
            peers: _,
            peers_alive: _,
            unheard,
            capacity_tx_bps: _,
            capacity_rx_bps: _,
            fabric,
            drops_unattributed: _,
            services,
            levels,
            credits,
            counters,
            kernel,
        } = status;
        self.add([machine, rack]);
        self.add(unheard);
        self.add(policy_refused.iter().flat_map(|reason| quoted(reason)));
        self.add_of_pods(guests_missed.iter().flat_map(|reason| pods(reason)));
        filters_unmatched.iter().for_each(|line| self.add_unmatched(line));
        fabric.iter().for_each(|link| self.add_link(link));
        services.iter().for_each(|service| self.add_service(service));
        for LevelStatus { level: _, dscp: _, rate: _, burst_bytes: _, bound_ns: _, counters } in levels {
            no_text(counters);
        }
        credits.iter().for_each(|credits| self.add_credits(credits));
        no_text(counters);
        no_text(kernel);
    }

    /// `shop: no pod here has namespace=shop labels=app=web (and 1 more)`.
    fn add_unmatched(&mut self, line: &str) {
        let Some((service, reason)) = line.split_once(": ") else { return self.add(words(line)) };
        self.add_path(service);
        let Some(selector) = reason.strip_prefix("no pod here has ") else { return };
        let selector = selector.rsplit_once(" (and ").map_or(selector, |(selector, _)| selector);
        match selector.parse::<PodSelector>() {
            Ok(selector) => self.add_selector(&selector),
            // Of another version: each word may be a name.
            Err(_) => self.add_of_pods(words(selector)),
        }
    }

    fn add_link(&mut self, link: &FabricLink) {
        let FabricLink { leads: _, leader, shut_out: _, receives: _, session } = link;
        self.add(leader);
        if let Some(session) = session {
            // A broker is a URL or an address, also in failures.
            let FabricSession { state, broker: _, silent_ms: _, last_failure: _, certificate_ends: _, counters } =
                session;
            no_text(state);
            no_text(counters);
        }
    }

    fn add_service(&mut self, status: &ServiceStatus) {
        let ServiceStatus { service, latency, tx, rx } = status;
        self.add_path(service);
        no_text(latency);
        for direction in [tx, rx] {
            let DirectionStatus {
                usage: _,
                demand: _,
                guarantee: _,
                rack_guarantee: _,
                maximum: _,
                share: _,
                decided_by,
                limit: _,
                bytes: _,
                meter_capacity: _,
                sender_rate: _,
                packets_markable: _,
                packets_marked: _,
                feedback_sent: _,
                stranger_bytes: _,
                stranger_packets_marked: _,
                stranger_bytes_dropped: _,
                stranger_packets_dropped: _,
                // Numbers of bytes.
                remark: _,
                feedback_received: _,
                backlog_bytes: _,
                drops: _,
                offered: _,
                dropped: _,
                offered_bytes: _,
                dropped_bytes: _,
                destinations_limited: _,
            } = direction;
            // `machine m1`, `rack r1`, `max of dfs at rack`.
            let by = decided_by.as_deref().unwrap_or_default();
            self.add(by.strip_prefix("rack ").or_else(|| by.strip_prefix("machine ")));
            self.add_path(by.strip_prefix("max of ").and_then(|of| of.split(" at ").next()).unwrap_or_default());
        }
    }

    fn add_credits(&mut self, credits: &HostCredits) {
        let HostCredits {
            rate_bps: _,
            period_us: _,
            longest_us: _,
            level_billionths: _,
            rest_billionths: _,
            budget_bytes: _,
            outstanding_bytes: _,
            queued_bytes: _,
            granted_bytes: _,
            sent_bytes: _,
            expired_bytes: _,
            released_bytes: _,
            overspent_bytes: _,
            flows_sent: _,
            flows_received: _,
            prompt: _,
            allocations: _,
            allocations_unwanted: _,
            allocations_stale: _,
            returns_astray: _,
            returns_slow: _,
            flows_refused: _,
            dropped_packets: _,
            messages_forged: _,
            messages_replayed: _,
            messages_other_version: _,
            messages_foreign: _,
            messages_malformed: _,
            messages_unknown_service: _,
            messages_unsent: _,
            flows,
        } = credits;
        flows.iter().for_each(|flow| self.add_flow(flow));
    }

    fn add_flow(&mut self, flow: &CreditFlow) {
        // Source and destination are addresses; `held_by` is one of a few words.
        let CreditFlow {
            service,
            source: _,
            destination: _,
            weight_thousandths: _,
            share_bps: _,
            demand_bps: _,
            held_by: _,
        } = flow;
        self.add_path(service);
    }

    fn add_fabric(&mut self, status: &FabricStatus) {
        let FabricStatus {
            version: _,
            written_ms: _,
            period_ms: _,
            uptime_ms: _,
            // Brokers are URLs or addresses.
            name: _,
            leads: _,
            leader: _,
            policy: _,
            epoch: _,
            round: _,
            policy_refused,
            certificate_refused: _,
            certificate_ends: _,
            streams: _,
            tenant_queues,
            racks: _,
            racks_reporting: _,
            capacity_tx_bps: _,
            capacity_rx_bps: _,
            limits,
            limits_left_out: _,
            counters,
        } = status;
        self.add(policy_refused.iter().flat_map(|reason| quoted(reason)));
        tenant_queues.iter().for_each(|queues| self.add_queues(queues));
        for FabricLimit { rack, service, direction: _, demand: _, limit: _ } in limits {
            self.add([rack]);
            self.add_path(service);
        }
        no_text(counters);
    }

    fn add_queues(&mut self, queues: &TenantQueuesStatus) {
        let TenantQueuesStatus {
            subscribers: _,
            subscriptions: _,
            switch_resets: _,
            intervals: _,
            moves_begun: _,
            moves_ended: _,
            without_dscp: _,
            moves_turned_back: _,
            machines_gone: _,
            unconfirmed: _,
            move_times,
            switch_times,
            tenants,
            tenants_left_out: _,
        } = queues;
        no_text(move_times);
        no_text(switch_times);
        for tenant in tenants {
            let TenantStatus {
                tenant,
                has_queues: _,
                since_ms: _,
                dscp: _,
                moves: _,
                guarantee: _,
                used_tx: _,
                used_rx: _,
                score_bps: _,
                competes,
                competes_left_out: _,
            } = tenant;
            self.add([tenant]);
            for TenantPort { port, tenants: _, queues: _ } in competes {
                self.add(words(port));
            }
        }
    }

    fn add_switch(&mut self, status: &SwitchStatus) {
        let SwitchStatus {
            version: _,
            written_ms: _,
            period_ms: _,
            uptime_ms: _,
            name,
            policy: _,
            policy_refused,
            levels: _,
            without_agent,
            ports,
            changes_found: _,
            repaired: _,
            queue_readings_failed: _,
        } = status;
        self.add([name]);
        self.add(policy_refused.iter().flat_map(|reason| quoted(reason)));
        self.add(without_agent);
        for port in ports {
            let SwitchPortStatus {
                port,
                interface: _,
                // Differences and reasons have numbers of queues, no names.
                differs: _,
                queues: _,
                queues_unread: _,
                credits,
                credit_flows,
            } = port;
            self.add([port]);
            no_text(credits);
            credit_flows.iter().for_each(|flow| self.add_flow(flow));
        }
    }

    /// Adds the namespaces and names of the pods of this host, and the values of their labels whose keys selectors
    /// have, after those of policy and statuses. The name of a damaged file of labels has the pod's names.
    pub(super) fn add_records(&mut self, records: &Records) {
        let Records { attachments, labels, refused } = records;
        for record in attachments {
            self.add_of_pods([record.namespace.as_str(), &record.name]);
        }
        let keys = self.label_keys.clone();
        for record in labels {
            self.add_of_pods([record.namespace.as_str(), &record.name]);
            let values = record.labels.iter().filter(|(key, _)| keys.contains(*key));
            self.add_of_pods(values.map(|(_, value)| value.as_str()));
        }
        let files = refused.iter().filter_map(|(file, _)| of_file(file));
        self.add_of_pods(files.flatten());
    }

    /// Adds machines, nodes and switches in the [`options`] of services, such as `--node worker-3`.
    pub(super) fn add_options(&mut self, text: &str) {
        let values = OPTIONS.iter().flat_map(|option| values(text, option));
        self.add(values.map(|value| value.split('=').next().unwrap_or(value)));
    }
}

/// A text with options of services without its comments, in which continued lines are one.
pub(super) fn options(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| [line, "\n"]).collect::<String>().replace("\\\n", " ")
}

/// The directories of records in the [`options`] of services; relative ones are below `/`, where units run.
pub(super) fn directories(text: &str) -> impl Iterator<Item = &str> {
    values(text, PODS)
}

/// The values of an option.
fn values<'a>(text: &'a str, option: &'a str) -> impl Iterator<Item = &'a str> {
    let is_end = |letter: char| letter.is_whitespace() || "\"'`;,\\".contains(letter);
    text.split(option).skip(1).filter_map(move |behind| {
        let value = behind.strip_prefix(['=', ' ', '\t'])?.trim_start_matches([' ', '\t', '"', '\'']);
        value.split(is_end).next().filter(|value| !value.is_empty())
    })
}

/// The words of Weir and of formats, which stay: commands and options of `weir`, keys of policies, and keys of the
/// JSON files.
pub(super) fn vocabulary(items: &[Item]) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    add_command(&Cli::command(), &mut words);
    add_properties(&schema("Weir policy", &weir_policy::language::POLICY), &mut words);
    for item in items.iter().filter(|item| item.name.ends_with(".json")) {
        // What is no JSON has no keys.
        if let Some(value) = item.content.as_ref().ok().and_then(|text| serde_json::from_str(text).ok()) {
            add_keys(&value, &mut words);
        }
    }
    words
}

fn add_command(command: &Command, words: &mut BTreeSet<String>) {
    words.insert(command.get_name().to_owned());
    words.extend(command.get_arguments().filter_map(|argument| argument.get_long()).map(str::to_owned));
    command.get_subcommands().for_each(|command| add_command(command, words));
}

/// The keys that a JSON Schema describes.
fn add_properties(schema: &Value, words: &mut BTreeSet<String>) {
    match schema {
        Value::Array(values) => values.iter().for_each(|value| add_properties(value, words)),
        Value::Object(values) => {
            let properties = values.get("properties").and_then(Value::as_object);
            words.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
            values.values().for_each(|value| add_properties(value, words));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn add_keys(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| add_keys(value, words)),
        Value::Object(values) => {
            words.extend(values.keys().cloned());
            values.values().for_each(|value| add_keys(value, words));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Compiles only for types that own no text.
fn no_text<T: Copy>(_: &T) {}

/// The words of a text, which may have `-` and `_`.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-' && letter != '_')
        .filter(|word| !word.is_empty())
}

/// The quoted words of a message about a file.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The pods in a message: `NAMESPACE/NAME`, or the name of a file of labels.
fn pods(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |letter: char| letter.is_whitespace() || ",;()".contains(letter);
    text.split(is_end).flat_map(|word| {
        let word = word.trim_end_matches([':', '.']);
        match (of_file(word), word.split_once('/')) {
            (Some(names), _) => names.collect::<Vec<_>>(),
            (None, Some((namespace, name))) => vec![namespace, name],
            (None, None) => Vec::new(),
        }
    })
}

/// The namespace and the name of the pod of a file of labels.
fn of_file(file: &str) -> Option<impl Iterator<Item = &str>> {
    Some(file.strip_prefix("labels-")?.strip_suffix(".json")?.split(':'))
}

#[cfg(test)]
mod tests;
