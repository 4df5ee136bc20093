//! [`Requests`]: requests of clients and responses of servers.
//!
//! Problem: users wait for a request and its response together. Approach: two flows per request.
//! The request goes from a client to a random server; when its last byte arrives, the response
//! starts, with a size from a distribution. Clients either wait for their responses and a think
//! time before the next request (closed loop, some requests outstanding per client), or requests
//! arrive independently (open arrivals, each from a random client).
//!
//! The flows of request number k have the tags 2k and 2k + 1, so that results can time the whole
//! ([`crate::Workload::coflow`] gives k).
//!
//! In a closed loop every client draws from a stream of its own, so its n-th request has the same
//! server and sizes, independent of the network's effect on other clients.
//!
//! Worked example: 10 clients with 2 outstanding each and no thinking have 20 requests under way at
//! any time.
//!
//! Source: closed and open loops, Schroeder, Wierman, Harchol-Balter (NSDI 2006).

use crate::arrivals::{ArrivalClock, exponential, later};
use crate::error::{SpecError, SpecResult, at_least_one, finite_size};
use crate::random::{ends_after, other, others_exist};
use crate::{Arrivals, FlowStart, Hosts, MeanGap, Rng, SizeDistribution};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use weir_units::{MachineId, SimTime};

/// The think time of a client between a response and its next request, and before its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// Always so long.
    Constant(SimTime),
    /// Exponential with this mean.
    Exponential(SimTime),
    /// With one half no time at all, else uniform from zero to this: a client that is active or dormant (QShare
    /// §VII-A2, whose dormant time is at most a second).
    Dormant(SimTime),
}

/// The trigger of clients' requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequestLoop {
    /// A client has up to `outstanding` requests under way, each followed by a think time and the
    /// next one.
    Closed {
        /// Requests under way per client.
        outstanding: u32,
        /// The time between a response and the next request.
        think: Think,
    },
    /// Requests arrive independently, each at a random client.
    Open {
        /// The distribution of the gaps.
        arrivals: Arrivals,
        /// The mean gap of all requests together.
        gap: MeanGap,
    },
}

/// Requests and responses. Without [`Requests::at_most`] and [`Requests::times`] they never end.
#[derive(Debug, Clone, PartialEq)]
pub struct Requests {
    clients: Hosts,
    servers: Hosts,
    request: u64,
    response: SizeDistribution,
    driven: RequestLoop,
    start: SimTime,
    until: SimTime,
    requests: u64,
}

impl Requests {
    /// Requests of `request` bytes from `clients` to `servers`, and responses with sizes from
    /// `response`.
    ///
    /// # Errors
    /// A client that is the only server, 0 bytes, nothing outstanding.
    pub fn new(
        clients: Hosts,
        servers: Hosts,
        request: u64,
        response: SizeDistribution,
        driven: RequestLoop,
    ) -> SpecResult<Self> {
        if others_exist(&clients, &servers).is_err() {
            return Err(SpecError::new("the only server is also a client", "name another server"));
        }
        let request = finite_size(request, "a request")?;
        if let RequestLoop::Closed { outstanding, .. } = driven {
            at_least_one(outstanding.into(), "outstanding requests")?;
        }
        let (start, until, requests) = (SimTime::ZERO, SimTime::NEVER, u64::MAX);
        Ok(Self { clients, servers, request, response, driven, start, until, requests })
    }

    /// Begins at `start` (with a think time, or with the first gap), and lets no request start at
    /// `until` or later ([`SimTime::NEVER`]: no end). Responses to earlier ones still start.
    ///
    /// # Errors
    /// An end that is not after the start.
    pub fn times(mut self, start: SimTime, until: SimTime) -> SpecResult<Self> {
        ends_after(start, until)?;
        (self.start, self.until) = (start, until);
        Ok(self)
    }

    /// Ends after so many requests of all clients together.
    ///
    /// # Errors
    /// 0 requests, or 2^63 and more.
    pub fn at_most(mut self, requests: u64) -> SpecResult<Self> {
        /// Two flows each must have tags of 64 bits.
        const MOST: u64 = u64::MAX / 2;
        self.requests = at_least_one(requests, "requests")?;
        if requests > MOST {
            return Err(SpecError::new(format!("{requests} requests are more than {MOST}"), "write fewer"));
        }
        Ok(self)
    }

    pub(crate) fn largest(&self) -> u64 {
        self.request.max(self.response.largest())
    }

    /// The requests that a client, or a server on average, has under way.
    pub(crate) fn together(&self) -> u64 {
        let RequestLoop::Closed { outstanding, .. } = self.driven else { return 1 };
        let outstanding = u64::from(outstanding);
        outstanding.max(outstanding * self.clients.len() as u64 / self.servers.len() as u64)
    }

    /// The clients.
    pub fn clients(&self) -> &Hosts {
        &self.clients
    }

    /// The servers.
    pub fn servers(&self) -> &Hosts {
        &self.servers
    }
}

/// A request that is under way, with its response.
#[derive(Debug)]
struct Asked {
    client: usize,
    server: MachineId,
    response: u64,
}

/// The source of the next request.
#[derive(Debug)]
enum Driver {
    /// Clients in their think times, each until a time. The number makes the order of equal times
    /// that of the draws.
    Closed { think: Think, thinking: BinaryHeap<Reverse<(SimTime, u64, usize)>>, thoughts: u64 },
    /// An arrival process, and the stream that chooses clients.
    Open { clock: ArrivalClock, choice: Rng },
}

/// [`Requests`] under way.
#[derive(Debug)]
pub(crate) struct RequestsState {
    spec: Requests,
    driver: Driver,
    /// A stream per client: its think times, servers and responses.
    draws: Vec<Rng>,
    asked: u64,
    under_way: BTreeMap<u64, Asked>,
    /// Responses that start now.
    answers: VecDeque<FlowStart>,
}

impl RequestsState {
    pub(crate) fn new(spec: Requests, seed: u64) -> Self {
        // Streams 0 and 1 are the arrivals and the choice of clients.
        let draws: Vec<Rng> = (0..spec.clients.len() as u64).map(|client| Rng::stream(seed, 2 + client)).collect();
        let driver = match spec.driven {
            RequestLoop::Open { arrivals, gap } => Driver::Open {
                clock: ArrivalClock::new(arrivals, gap, spec.start, Rng::stream(seed, 0)),
                choice: Rng::stream(seed, 1),
            },
            RequestLoop::Closed { think, .. } => Driver::Closed { think, thinking: BinaryHeap::new(), thoughts: 0 },
        };
        let (under_way, answers) = (BTreeMap::new(), VecDeque::new());
        let mut state = Self { spec, driver, draws, asked: 0, under_way, answers };
        if let RequestLoop::Closed { outstanding, .. } = state.spec.driven {
            for _ in 0..outstanding {
                for client in 0..state.spec.clients.len() {
                    state.think(client, state.spec.start);
                }
            }
        }
        state
    }

    /// Starts a client's think time at `now`, in a closed loop.
    fn think(&mut self, client: usize, now: SimTime) {
        let Driver::Closed { think, thinking, thoughts } = &mut self.driver else { return };
        let length = match *think {
            Think::Constant(length) => length,
            Think::Exponential(mean) => exponential(mean, &mut self.draws[client]),
            Think::Dormant(most) => dormant(most, &mut self.draws[client]),
        };
        thinking.push(Reverse((later(now, length), *thoughts, client)));
        *thoughts += 1;
    }

    /// The start of the next request.
    fn next_request(&self) -> Option<SimTime> {
        let at = match &self.driver {
            Driver::Closed { thinking, .. } => thinking.peek().map(|&Reverse((at, ..))| at),
            Driver::Open { clock, .. } => Some(clock.at()),
        };
        at.filter(|&at| self.asked < self.spec.requests && at < self.spec.until)
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        let answer = self.answers.front().map(|flow| flow.at);
        answer.into_iter().chain(self.next_request()).min()
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        if let Some(answer) = self.answers.pop_front_if(|flow| flow.at <= now) {
            return Some(answer);
        }
        let at = self.next_request().filter(|&at| at <= now)?;
        let client = match &mut self.driver {
            Driver::Closed { thinking, .. } => thinking.pop()?.0.2,
            Driver::Open { clock, choice } => {
                clock.advance();
                choice.index(self.spec.clients.len())
            }
        };
        let (from, rng) = (self.spec.clients.at(client), &mut self.draws[client]);
        let server = other(&self.spec.servers, from, rng);
        let response = self.spec.response.sample(rng);
        let tag = 2 * self.asked;
        self.under_way.insert(self.asked, Asked { client, server, response });
        self.asked += 1;
        Some(FlowStart::new(at, from, server, self.spec.request, tag))
    }

    pub(crate) fn on_finished(&mut self, now: SimTime, tag: u64) {
        let number = tag / 2;
        if tag.is_multiple_of(2) {
            let Some(asked) = self.under_way.get(&number) else {
                debug_assert!(false, "request {number} ended and was not under way");
                return;
            };
            let client = self.spec.clients.at(asked.client);
            self.answers.push_back(FlowStart::new(now, asked.server, client, asked.response, tag + 1));
        } else {
            let Some(asked) = self.under_way.remove(&number) else {
                debug_assert!(false, "response {number} ended and was not under way");
                return;
            };
            self.think(asked.client, now);
        }
    }

    pub(crate) fn expected(&self) -> Option<u64> {
        (self.spec.requests < u64::MAX && self.spec.until == SimTime::NEVER).then(|| 2 * self.spec.requests)
    }

    pub(crate) fn is_finite(&self) -> bool {
        self.spec.requests < u64::MAX || self.spec.until != SimTime::NEVER
    }
}

/// Half of the times zero, else uniform in picoseconds from zero to `most`.
fn dormant(most: SimTime, rng: &mut Rng) -> SimTime {
    match rng.below(2) {
        0 => SimTime::ZERO,
        _ => SimTime::from_picos(rng.below(most.picos().saturating_add(1))),
    }
}

#[cfg(test)]
mod tests;
