//! [`PortProgram`]: the BPF program of a switch port, and its maps.
//!
//! The program (`bpf/port.bpf.c`) runs as a clsact filter, which belongs to the interface: it outlives the process that
//! attached it, is visible in `tc filter show dev swp1 egress`, and needs no pin. A later process finds the maps by the
//! program's id. A second program, for arriving packets, shares the maps. Another layout of the maps (an older Weir)
//! counts as no program: attaching replaces it.
//!
//! Source: net/sched/cls_bpf.c; bpf(2), BPF_PROG_GET_FD_BY_ID, BPF_MAP_GET_FD_BY_ID.

use super::PortError;
use crate::attachment::{attach_filter, has_filters, program_of, remove_filters};
use crate::interface::Interface;
use crate::maps::Value;
use crate::netlink::Socket;
use crate::tc;
use aya::Ebpf;
use aya::maps::{Array, Map, MapData, MapInfo};
use aya::programs::{SchedClassifier, TcAttachType, loaded_programs};
use weir_datapath::abi::{PORT_LAYOUT, PORT_QUEUES, Port, PortState};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/port.bpf.o"));
const NAME: &str = "weir_port_tx";
/// The program of arriving packets, with the same maps.
const ARRIVING: &str = "weir_port_rx";
/// Attached in this order: a port has both once it has the last, by which it is found.
const PROGRAMS: [(&str, TcAttachType); 2] = [(ARRIVING, TcAttachType::Ingress), (NAME, TcAttachType::Egress)];
const SETTINGS: &str = "weir_port";
const STATE: &str = "weir_port_state";

/// Counters of a queue, since the program was attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueCounts {
    /// Packets that left by the queue, or that it dropped.
    pub packets: u64,
    /// Of them, those that found the queue above its threshold.
    pub above: u64,
    /// Of these, those that were ECN-capable and are CE now.
    pub marked: u64,
}

impl std::ops::Add for QueueCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            above: self.above + other.above,
            marked: self.marked + other.marked,
        }
    }
}

/// The attached program of a port. Its maps work on any thread and in any namespace.
pub struct PortProgram {
    settings: Array<MapData, Value<Port>>,
    state: Array<MapData, Value<PortState>>,
}

impl PortProgram {
    /// The id of the program of leaving packets that is attached to an interface of the calling thread's namespace, of
    /// any layout; `None` if it or that of arriving packets is missing.
    pub(crate) fn attached(socket: &mut Socket, interface: &Interface) -> Result<Option<u32>, PortError> {
        match has_filters(interface.index(), &PROGRAMS)? {
            true => Ok(program_of(socket, interface.index(), PROGRAMS[1])?),
            false => Ok(None),
        }
    }

    /// Whether clsact came with the program, by the settings of a program that is attached: of both, or of the one that
    /// remains where another program deleted a filter. It goes with the last filter then.
    pub(crate) fn has_added_clsact(socket: &mut Socket, interface: &Interface) -> Result<bool, PortError> {
        for program in PROGRAMS {
            let Some(id) = program_of(socket, interface.index(), program)? else { continue };
            if let Some(program) = Self::open(id)? {
                return Ok(program.settings()?.clsact != 0);
            }
        }
        Ok(false)
    }

    /// Opens the program with this id; `None` if it has another layout, or is replaced at this moment.
    pub(crate) fn open(id: u32) -> Result<Option<Self>, PortError> {
        let Some(program) = loaded_programs().filter_map(Result::ok).find(|program| program.id() == id) else {
            return Ok(None);
        };
        let ids = program.map_ids()?.unwrap_or_default();
        let named = |name: &str| -> Result<Option<MapData>, PortError> {
            for id in &ids {
                if MapInfo::from_id(*id)?.name_as_str() == Some(name) {
                    return Ok(Some(MapData::from_id(*id)?));
                }
            }
            Ok(None)
        };
        let (Some(settings), Some(state)) = (named(SETTINGS)?, named(STATE)?) else { return Ok(None) };
        // Values of another size are another layout.
        let (Ok(settings), Ok(state)) = (Map::Array(settings).try_into(), Map::Array(state).try_into()) else {
            return Ok(None);
        };
        let program = Self { settings, state };
        Ok((program.settings()?.layout == PORT_LAYOUT).then_some(program))
    }

    /// Attaches the program with these settings, in place of one of another layout. `clsact`: whether clsact came with
    /// what remains of an earlier program. After an error no filter is left, nor a clsact that came with it.
    pub(crate) fn attach(interface: &Interface, settings: Port, clsact: bool) -> Result<Self, PortError> {
        let mut object = Ebpf::load(OBJECT)?;
        for (name, _) in PROGRAMS {
            program(&mut object, name)?.load()?;
        }
        let mut take = |name: &'static str| object.take_map(name).ok_or(PortError::Missing(name));
        let (own, state) = (take(SETTINGS)?.try_into()?, take(STATE)?.try_into()?);
        let mut own = Self { settings: own, state };
        let clsact = tc::add_clsact(&mut Socket::open()?, interface.index())? || clsact;
        let attached = own.write(Port { clsact: clsact.into(), ..settings }).and_then(|()| {
            PROGRAMS.into_iter().try_for_each(|(name, direction)| {
                let place = (interface.name(), interface.index());
                Ok(attach_filter(program(&mut object, name)?, name, place, direction)?)
            })
        });
        if let Err(error) = attached {
            // The first error is the cause; what cannot be removed either is in the way of the next attempt.
            let _ = Self::detach(interface, clsact);
            return Err(error);
        }
        Ok(own)
    }

    /// Detaches the program of an interface, of any layout; whether a filter was attached. `clsact`: with the qdisc, if
    /// that is empty.
    pub(crate) fn detach(interface: &Interface, clsact: bool) -> Result<bool, PortError> {
        let removed = remove_filters(interface.index(), &PROGRAMS)?;
        if clsact {
            tc::delete_clsact(&mut Socket::open()?, interface.index())?;
        }
        Ok(removed)
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Result<Port, PortError> {
        Ok(self.settings.get(&0, 0)?.0)
    }

    /// Changes the settings while packets pass; see `struct weir_port`.
    pub(crate) fn set(&mut self, settings: Port) -> Result<(), PortError> {
        let old = self.settings()?;
        let settings = Port { clsact: old.clsact, ..settings };
        if settings != old {
            self.write(settings)?;
        }
        Ok(())
    }

    fn write(&mut self, settings: Port) -> Result<(), PortError> {
        Ok(self.settings.set(0, Value(settings), 0)?)
    }

    /// Arriving buffers whose DSCP value was re-marked, since the program was attached.
    pub fn remarked(&self) -> Result<u64, PortError> {
        Ok(self.state.get(&0, 0)?.0.remarked)
    }

    /// The counters of each queue.
    pub fn counts(&self) -> Result<[QueueCounts; PORT_QUEUES as usize], PortError> {
        let Value(state) = self.state.get(&0, 0)?;
        Ok(std::array::from_fn(|queue| QueueCounts {
            packets: state.packets[queue],
            above: state.above[queue],
            marked: state.marked[queue],
        }))
    }
}

fn program<'a>(object: &'a mut Ebpf, name: &'static str) -> Result<&'a mut SchedClassifier, PortError> {
    Ok(object.program_mut(name).ok_or(PortError::Missing(name))?.try_into()?)
}
