//! [`OnlinePort`] by `datapath/credit.h`, for the first port of a host.

use crate::credit::{CreditFlow, CreditPort};
use weir_credits::host::OnlinePort;
use weir_credits::{Allocation, Published, Return};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

impl OnlinePort for CreditPort {
    type Flow = CreditFlow;

    fn publish(&mut self, published: &Published) {
        Self::publish(self, published);
    }
    fn set_rate(&mut self, rate: Bandwidth) {
        Self::set_rate(self, rate);
    }
    fn on_request(&mut self, flow: &mut CreditFlow, clock: u32) {
        Self::on_request(self, flow, clock);
    }
    fn is_new(&self, flow: &CreditFlow, allocation: &Allocation) -> bool {
        Self::is_new(self, flow, allocation)
    }
    fn allocate(&mut self, flow: &mut CreditFlow, allocation: &mut Allocation, now: Instant, queued: Bytes) {
        Self::allocate(self, flow, allocation, now, queued, true);
    }
    fn on_return(&mut self, flow: &mut CreditFlow, returned: &Return, now: Instant) {
        Self::on_return(self, flow, returned, now);
    }
    fn on_data(&mut self, flow: &mut CreditFlow, bytes: Bytes, now: Instant) -> bool {
        Self::on_data(self, flow, bytes, now)
    }
    fn terminate(&mut self, flow: &mut CreditFlow, now: Instant) {
        Self::terminate(self, flow, now);
    }
    fn longest_lifetime(&self) -> Duration {
        Self::longest_lifetime(self)
    }
    fn outstanding(&self) -> Bytes {
        Self::outstanding(self)
    }
}
