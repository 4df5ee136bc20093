//! [`Tunnels`]: the UDP ports of tunnels whose networks filters specify (`vni`).
//!
//! VXLAN and Geneve mark their packets by the destination port alone. IANA has assigned one to each; Linux and Flannel
//! use an earlier one for VXLAN. Other ports are a matter of configuration, so a policy can name them. They hold for
//! all filters: a packet to one port has one meaning on all hosts.
//!
//! Worked example: by `Tunnels::default()` a packet to the UDP port 8472 is of VXLAN, and one to 6081 of Geneve.
//!
//! Source: RFC 7348 section 5 (4789), RFC 8926 section 3.3 (6081); the kernel's drivers/net/vxlan (8472).

/// The most ports of each kind of tunnel.
pub const TUNNEL_PORTS_MAX: usize = 4;

/// The UDP ports of tunnels, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnels {
    vxlan: Vec<u16>,
    geneve: Vec<u16>,
}

impl Tunnels {
    /// Tunnels to these ports, in any order. `None` unless each kind has 1 to [`TUNNEL_PORTS_MAX`], and all are
    /// different and not 0.
    pub fn new(mut vxlan: Vec<u16>, mut geneve: Vec<u16>) -> Option<Self> {
        let counts = 1..=TUNNEL_PORTS_MAX;
        let mut all = [vxlan.as_slice(), &geneve].concat();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        vxlan.sort_unstable();
        geneve.sort_unstable();
        let is_valid = counts.contains(&vxlan.len())
            && counts.contains(&geneve.len())
            && all.len() == count
            && all.first().is_some_and(|port| *port > 0);
        is_valid.then_some(Self { vxlan, geneve })
    }

    /// The ports of VXLAN, 1 to [`TUNNEL_PORTS_MAX`] in ascending order.
    pub fn vxlan(&self) -> &[u16] {
        &self.vxlan
    }

    /// The ports of Geneve, 1 to [`TUNNEL_PORTS_MAX`] in ascending order.
    pub fn geneve(&self) -> &[u16] {
        &self.geneve
    }
}

impl Default for Tunnels {
    fn default() -> Self {
        Self { vxlan: vec![4789, 8472], geneve: vec![6081] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_and_few() {
        let new = |vxlan: &[u16], geneve: &[u16]| Tunnels::new(vxlan.to_vec(), geneve.to_vec());
        assert_eq!(new(&[8472, 4789], &[6081]), Some(Tunnels::default()));
        assert!(new(&[1, 2, 3, 4], &[5, 6, 7, 65_535]).is_some());
        for (vxlan, geneve) in
            [(&[][..], &[6081][..]), (&[1], &[]), (&[1, 2, 3, 4, 5], &[6]), (&[1, 1], &[2]), (&[1], &[1]), (&[0], &[1])]
        {
            assert_eq!(new(vxlan, geneve), None, "{vxlan:?} {geneve:?}");
        }
    }
}
