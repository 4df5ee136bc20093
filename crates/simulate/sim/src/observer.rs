//! Observers: code that watches a run without being part of it.
//!
//! Problem: checks of the model inside the model slow every run and clutter the code that they
//! check. Approach: a world is generic over one [`Observer`], whose methods do nothing by default.
//! With [`Silent`] the compiler removes the calls; [`crate::checkers`] and tracers implement the
//! methods that they need.

use crate::ids::{FlowId, HostId, PacketId, PortId, ServiceIndex};
use crate::port::Transmission;
use weir_units::{Bandwidth, Bytes, SimTime};

/// Receives the events of a world. Every method does nothing by default.
pub trait Observer {
    /// A port has no buffer of its own, but shares one of `size` bytes; it may hold
    /// `alpha_thousandths` thousandths of the free space there. Buffers are numbered as they
    /// appear.
    #[inline]
    fn shares(&mut self, _port: PortId, _buffer: u32, _size: u64, _alpha_thousandths: u32) {}
    /// A flow takes this slot, which another may have had before.
    #[inline]
    fn began(&mut self, _flow: FlowId) {}
    /// A packet came into being at its sender.
    #[inline]
    fn sent(&mut self, _now: SimTime, _packet: PacketId, _size: u32) {}
    /// A packet reached its receiver and is gone.
    #[inline]
    fn delivered(&mut self, _now: SimTime, _packet: PacketId, _size: u32) {}
    /// A packet is lost at a port, or on its link; `held` if it waited there.
    #[inline]
    fn dropped(&mut self, _now: SimTime, _port: PortId, _packet: PacketId, _size: u32, _held: bool) {}
    /// An agent of a port took a packet out.
    #[inline]
    fn consumed(&mut self, _now: SimTime, _port: PortId, _packet: PacketId, _size: u32) {}
    /// A port took a packet into its buffer.
    #[inline]
    fn accepted(&mut self, _now: SimTime, _port: PortId, _size: u32) {}
    /// A port's transmitter was handed a packet.
    #[inline]
    fn transmitted(&mut self, _port: PortId, _size: u32, _transmission: Transmission) {}
    /// A port's rate was `before` until now. The frames that its transmitter has not begun wait
    /// again, `withdrawn` frames; the frame that it has begun ends at `free_at`.
    #[inline]
    fn rate_changed(&mut self, _now: SimTime, _port: PortId, _before: Bandwidth, _withdrawn: u64, _free_at: SimTime) {}
    /// The frames that a port's transmitter was handed are lost: the link went down.
    #[inline]
    fn cut(&mut self, _now: SimTime, _port: PortId) {}
    /// A port's link is up again, and waiting packets may go.
    #[inline]
    fn restored(&mut self, _now: SimTime, _port: PortId) {}
    /// A service's root limiter at a host has this rate and burst from its next packet on.
    #[inline]
    fn limit_set(&mut self, _now: SimTime, _host: HostId, _service: ServiceIndex, _limit: Bandwidth, _burst: Bytes) {}
    /// A packet of `size` bytes that is offered to its service's limiters now has its departure.
    #[inline]
    fn stamped(
        &mut self,
        _now: SimTime,
        _host: HostId,
        _service: ServiceIndex,
        _packet: PacketId,
        _size: u32,
        _departure: SimTime,
    ) {
    }
    /// A packet leaves its service's limiters.
    #[inline]
    fn released(&mut self, _now: SimTime, _packet: PacketId) {}
    /// A packet waits for the limiter of its destination.
    #[inline]
    fn waits(&mut self, _now: SimTime, _host: HostId, _service: ServiceIndex, _to: HostId, _packet: PacketId) {}
    /// The oldest packet that waits for a destination's limiter is released.
    #[inline]
    fn destination_released(
        &mut self,
        _now: SimTime,
        _host: HostId,
        _service: ServiceIndex,
        _to: HostId,
        _packet: PacketId,
    ) {
    }
    /// A receiver advertised a rate to a sender of a service; the service's capacity at the
    /// receiver is `capacity`.
    #[inline]
    fn advertised(
        &mut self,
        _now: SimTime,
        _host: HostId,
        _service: ServiceIndex,
        _rate: Bandwidth,
        _capacity: Bandwidth,
    ) {
    }
    /// A receiver acknowledged everything before `next`; its sender has sent everything before
    /// `highest`.
    #[inline]
    fn acknowledged(&mut self, _now: SimTime, _flow: FlowId, _next: u64, _highest: u64) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {}
