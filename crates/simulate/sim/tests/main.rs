//! Tests of the simulator by whole networks, in one program: each program of its own would compile
//! the engine anew.

mod aggregates;
mod changes;
mod connections;
mod crowds;
mod disciplines;
mod enforcement;
mod engine;
mod expresspass;
mod hosts;
mod levels;
mod pace;
mod pace_lossless;
mod pace_networks;
mod pairs;
mod policer;
mod queueing;
mod quotas;
mod random_policies;
mod routing;
mod scenario;
mod shapers;
mod support;
mod tenants;
mod topologies;
mod transports;
