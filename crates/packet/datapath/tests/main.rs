//! Tests of the per-packet code, in one program, which is built once.

mod bpf;
mod classify;
mod common;
mod credit;
mod credit_gate;
mod credit_hosts;
mod departure;
mod ecn;
mod feedback;
mod feedback_sampler;
mod frames;
mod interface;
mod interface_meter;
mod lease;
mod machine_shaper;
mod maps_version;
mod mixed_senders;
mod own_queue;
mod policer;
mod port_bursts;
mod rate_law;
mod receive_meter;
mod receive_tick;
mod rule_sets;
mod slow_port;
mod tunnel;
