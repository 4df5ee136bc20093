//! The watched statuses and their history as JSON, and the page.
//!
//! | path | gives |
//! |---|---|
//! | `/` | the page |
//! | `/api/network` | racks, machines, services and capacities: the part of a policy that does not change |
//! | `/api/now?direction=tx` | the newest values of all machines and services in one direction |
//! | `/api/history?direction=tx&span=300&rack=r1` | usage over time, by service, summed over a rack's machines |
//! | `…&machine=m1` | the same of one machine |
//! | `…&machine=m1&service=dfs` | usage, limit and the deciding constraint |
//! | `/api/machine?machine=m1` | a machine's status as it arrived, and what holds its flows with credits |
//!
//! Rates are bit/s; `null` is no limit, an unlimited demand, or unknown usage. `decided_by` is an
//! index in `constraints`, counted from 1; 0 is unknown. A lost fabric broker has `null` for all
//! but its name and the time of its loss. Names that the policy does not have give status 404,
//! parameters of another kind 400.

use crate::SharedStatus;
use crate::credits;
use crate::history::{Ring, Sample};
use crate::network_status::{NetworkStatus, agent};
use crate::page;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_observe::Liveness;
use weir_observe::publish::HEADERS;
use weir_status::{DirectionStatus, FabricLimit, FabricStatus, TenantPort, TenantQueuesStatus, TenantStatus};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId};

pub(crate) fn router(shared: SharedStatus) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/api/network", get(network))
        .route("/api/now", get(now))
        .route("/api/history", get(history))
        .route("/api/machine", get(machine))
        .with_state(shared)
}

async fn index() -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, page::security_policy()),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (HEADERS, headers, page::html()).into_response()
}

fn found(value: Value) -> Response {
    (HEADERS, Json(value)).into_response()
}

/// Why a request has no result.
struct Refusal(StatusCode, &'static str);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, HEADERS, Json(json!({ "error": self.1 }))).into_response()
    }
}

const fn unknown(what: &'static str) -> Refusal {
    Refusal(StatusCode::NOT_FOUND, what)
}

/// Bit/s; `null` if unlimited.
fn bps(rate: Bandwidth) -> Value {
    if rate.is_unlimited() { Value::Null } else { rate.bps().into() }
}

fn both(of: impl Fn(Direction) -> Bandwidth) -> Value {
    json!({ "tx": bps(of(Direction::Tx)), "rx": bps(of(Direction::Rx)) })
}

async fn network(State(shared): State<SharedStatus>) -> Response {
    found(shared.with(|seen| {
        let policy = &seen.policy;
        let network = policy.network();
        let machine = |id: &MachineId| {
            let capacity = both(|direction| policy.machine_capacity(*id, direction));
            json!({ "name": network.machine(*id).name(), "capacity": capacity })
        };
        let racks = network.racks().iter().map(|rack| {
            // Machines are in the order of ids: the first machine of a rack gives the rack's id.
            let id = rack.machines().first().map(|machine| network.machine(*machine).rack());
            let capacity = id.map(|id| both(|direction| policy.rack_capacity(id, direction)));
            let machines: Vec<_> = rack.machines().iter().map(machine).collect();
            json!({ "name": rack.name(), "capacity": capacity, "machines": machines })
        });
        let services = policy.services().leaves().map(|(_, service)| {
            let guarantee = |point| both(move |direction| service.share(point, direction).min);
            json!({ "name": service.path(), "rack_guarantee": guarantee(ContentionPoint::Rack) })
        });
        json!({
            "policy": seen.fingerprint,
            "racks": racks.collect::<Vec<_>>(),
            "services": services.collect::<Vec<_>>(),
        })
    }))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    direction: Option<String>,
    span: Option<u64>,
    rack: Option<String>,
    machine: Option<String>,
    service: Option<String>,
}

impl Parameters {
    fn direction(&self) -> Result<Direction, Refusal> {
        let text = self.direction.as_deref().unwrap_or("tx");
        let found = Direction::ALL.into_iter().find(|direction| direction.name() == text);
        found.ok_or(Refusal(StatusCode::BAD_REQUEST, "direction is tx or rx"))
    }
    fn ring(&self) -> Result<Ring, Refusal> {
        match self.span {
            None | Some(300) => Ok(Ring::Fine),
            Some(3600) => Ok(Ring::Coarse),
            Some(_) => Err(Refusal(StatusCode::BAD_REQUEST, "span is 300 or 3600 seconds")),
        }
    }
    /// The indices of the machine or of the rack's machines, at least one.
    fn machines(&self, seen: &NetworkStatus) -> Result<Vec<usize>, Refusal> {
        let network = seen.policy.network();
        let found: Vec<usize> = match (&self.rack, &self.machine, &self.service) {
            (_, Some(name), _) => network.machine_named(name).map(MachineId::index).into_iter().collect(),
            (Some(name), None, None) => {
                let rack = network.rack_named(name);
                rack.map_or(&[][..], |rack| network.rack(rack).machines())
                    .iter()
                    .map(|machine| machine.index())
                    .collect()
            }
            _ => return Err(Refusal(StatusCode::BAD_REQUEST, "name a rack, a machine, or a machine and a service")),
        };
        if found.is_empty() { Err(unknown("the policy has no such rack or machine")) } else { Ok(found) }
    }
}

async fn now(State(shared): State<SharedStatus>, Query(parameters): Query<Parameters>) -> Result<Response, Refusal> {
    let direction = parameters.direction()?;
    Ok(found(shared.with(|seen| {
        let machines: Vec<Value> =
            (0..seen.policy.network().machines().len()).map(|machine| machine_now(seen, machine, direction)).collect();
        let fabric: Vec<Value> =
            seen.fabric().map(|(liveness, status)| broker_now(seen, liveness, status, direction)).collect();
        let obstacles = seen.obstacles_to_bounds();
        let shown = obstacles.iter().take(OBSTACLES).map(|cause| cause.chars().take(REASON).collect::<String>());
        json!({
            "clock": seen.clock(),
            "bounds_not_in_force": { "causes": shown.collect::<Vec<_>>(), "count": obstacles.len() },
            "constraints": seen.constraints(),
            "left_out": seen.left_out(),
            "machines": machines,
            "fabric": fabric,
            "credits": credits::now(seen),
        })
    })))
}

/// A fabric broker now. Of a lost one only the loss is shown: another one may lead since, with
/// other limits.
fn broker_now(seen: &NetworkStatus, liveness: &Liveness, status: Option<&FabricStatus>, direction: Direction) -> Value {
    let lost = liveness.lost.as_ref().map(|lost| json!({ "for_s": seen.lost_for(lost.since), "why": lost.why }));
    let status = status.filter(|_| lost.is_none());
    let limits = status.map(|status| {
        let is_shown = |of: &&FabricLimit| of.direction == direction.name() && seen.has(&of.rack, &of.service);
        let here = status.limits.iter().filter(is_shown);
        let limit = |of: &FabricLimit| {
            json!({ "rack": of.rack, "service": of.service, "limit": bps(of.limit), "demand": bps(of.demand) })
        };
        here.map(limit).collect::<Vec<_>>()
    });
    json!({
        "name": liveness.name(),
        "lost": lost,
        "leads": status.map(|status| status.leads),
        "racks": status.map(|status| status.racks),
        "racks_reporting": status.map(|status| status.racks_reporting),
        "same_policy": status.map(|status| status.policy == seen.fingerprint),
        "limits": limits,
        "limits_left_out": status.map(|status| status.limits_left_out),
        "tenants": status.and_then(|status| Some(tenants_now(status.tenant_queues.as_ref()?, status.written_ms))),
    })
}

/// The most tenants that the page shows.
const TENANTS: usize = 200;

/// Tenants and their queues: those of highest score, and the number of all.
fn tenants_now(queues: &TenantQueuesStatus, written_ms: u64) -> Value {
    let mut shown: Vec<&TenantStatus> = queues.tenants.iter().collect();
    shown.sort_by_key(|tenant| std::cmp::Reverse(tenant.score_bps));
    shown.truncate(TENANTS);
    let port = |port: &TenantPort| json!({ "port": port.port, "tenants": port.tenants, "queues": port.queues });
    let tenant = |tenant: &TenantStatus| {
        json!({
            "name": tenant.tenant,
            "own": tenant.has_queues,
            "for_s": tenant.since_ms.map(|since| written_ms.saturating_sub(since) as f64 / 1e3),
            "dscp": tenant.dscp,
            "moves": tenant.moves,
            "guarantee": bps(tenant.guarantee),
            "tx": bps(tenant.used_tx),
            "rx": bps(tenant.used_rx),
            "score": tenant.score_bps,
            "competes": tenant.competes.iter().map(port).collect::<Vec<_>>(),
            "competes_left_out": tenant.competes_left_out,
        })
    };
    json!({
        "count": queues.tenants.len() as u64 + queues.tenants_left_out,
        "shown": shown.into_iter().map(tenant).collect::<Vec<_>>(),
    })
}

/// The most causes of bounds that are not in force that the page shows.
const OBSTACLES: usize = 3;

/// The most characters of a machine's reason that the page shows.
const REASON: usize = 200;

/// A machine now. Its services are lists, by the indices of `/api/network`, of usage, guarantee,
/// limit, demand, share and deciding constraint: there may be thousands.
fn machine_now(seen: &mut NetworkStatus, machine: usize, direction: Direction) -> Value {
    let Some(liveness) = seen.machine(machine) else { return json!({ "polled": false }) };
    let lost = liveness.lost.clone();
    let status = liveness.status.clone();
    let lost = lost.map(|lost| json!({ "for_s": seen.lost_for(lost.since), "why": lost.why }));
    let Some(weir_status::Status::Agent(agent)) = status.as_deref() else {
        return json!({ "polled": true, "lost": lost });
    };
    let mut services = vec![Value::Null; seen.services.len()];
    for service in &agent.services {
        if let Some(index) = seen.service_index(&service.service) {
            let status = service.direction(direction);
            let decided_by = status.decided_by.as_deref().map_or(0, |by| seen.constraint(by));
            services[index] = row(status, decided_by);
        }
    }
    json!({
        "polled": true,
        "lost": lost,
        "mode": agent.mode,
        "interface_absent": agent.interface_absent,
        "not_enforced": agent.not_enforced.as_deref().map(|why| why.chars().take(REASON).collect::<String>()),
        "peers": agent.peers,
        "peers_alive": agent.peers_alive,
        "same_policy": agent.policy == seen.fingerprint,
        "services": services,
    })
}

fn row(status: &DirectionStatus, decided_by: u16) -> Value {
    json!([
        status.usage.map(Bandwidth::bps),
        bps(status.guarantee),
        bps(status.effective_limit()),
        status.demand.map(bps),
        status.share.map(Bandwidth::bps),
        decided_by
    ])
}

async fn machine(
    State(shared): State<SharedStatus>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Refusal> {
    shared.with(|seen| {
        let name = parameters.machine.as_deref();
        let machine = name.and_then(|name| seen.policy.network().machine_named(name));
        let machine = machine.ok_or(unknown("the policy has no such machine"))?;
        let status = seen.machine(machine.index()).and_then(agent);
        let credits = status.map(|status| credits::of_machine(seen, status));
        Ok(found(json!({ "status": status, "credits": credits })))
    })
}

async fn history(
    State(shared): State<SharedStatus>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, Refusal> {
    let (direction, ring) = (parameters.direction()?, parameters.ring()?);
    shared.with(|seen| {
        let machines = parameters.machines(seen)?;
        let body = match &parameters.service {
            Some(path) => {
                let service = seen.service_index(path).ok_or(unknown("the policy has no such service"))?;
                let samples = seen.samples(machines[0], service, direction, ring);
                let rate = |rate: f32| if rate.is_finite() { Value::from(rate.round() as u64) } else { Value::Null };
                json!({
                    "usage": samples.iter().map(|sample| rate(sample.usage)).collect::<Vec<_>>(),
                    "limit": samples.iter().map(|sample| rate(sample.limit)).collect::<Vec<_>>(),
                    "decided_by": samples.iter().map(|sample| sample.decided_by).collect::<Vec<_>>(),
                    "constraints": seen.constraints(),
                })
            }
            None => json!({ "services": sums(seen, &machines, direction, ring) }),
        };
        Ok(found(json!({ "clock": seen.clock(), "step": ring.step(), "history": body })))
    })
}

/// Each service's usage, summed over machines; unknown if it is unknown on all of them.
fn sums(seen: &NetworkStatus, machines: &[usize], direction: Direction, ring: Ring) -> Vec<Vec<Option<u64>>> {
    let one = |service: usize| {
        let mut sum: Vec<Option<f64>> = vec![None; ring.slots()];
        for machine in machines {
            for (sum, Sample { usage, .. }) in sum.iter_mut().zip(seen.samples(*machine, service, direction, ring)) {
                if usage.is_finite() {
                    *sum = Some(sum.unwrap_or(0.0) + f64::from(usage));
                }
            }
        }
        sum.into_iter().map(|sum| sum.map(|sum| sum.round() as u64)).collect()
    };
    (0..seen.services.len()).map(one).collect()
}
