//! Drawn services: a tree of at most two levels with shares at the three points.

use crate::{MOST_MACHINES, Network};
use rand::Rng;
use rand::rngs::StdRng;
use std::fmt::Write as _;
use weir_units::{ContentionPoint, Direction};

/// The ports of a service: on Linux each of the traffic's pairs needs one of its own at the receiver.
const PORTS: u16 = MOST_MACHINES as u16;

/// A service's shares at a point, in kb/s.
#[derive(Debug, Clone, Copy, Default)]
struct DrawnShare {
    min: u64,
    max: Option<u64>,
    weight: u32,
}

/// A service, or a group of services.
#[derive(Debug, Clone)]
pub(crate) struct DrawnService {
    /// By point, in the order of [`ContentionPoint::ALL`].
    shares: [DrawnShare; 3],
    /// The rule of a group, where it is not the file's.
    fill: Option<bool>,
    children: Vec<Self>,
}

impl DrawnService {
    /// Two to five leaf services, some of them in groups of two.
    pub(crate) fn draw_all(rng: &mut StdRng, network: &Network) -> Vec<Self> {
        let mut leaves = rng.random_range(2..=5);
        let mut services = Vec::new();
        while leaves > 0 {
            let group = if leaves >= 2 && rng.random_bool(0.3) { 2 } else { 0 };
            services.push(Self::draw(rng, network, group));
            leaves -= group.max(1);
        }
        services
    }

    fn draw(rng: &mut StdRng, network: &Network, children: usize) -> Self {
        let children: Vec<Self> = (0..children).map(|_| Self::draw(rng, network, 0)).collect();
        let fill = (!children.is_empty()).then(|| rng.random_bool(0.5));
        let mut shares = [DrawnShare::default(); 3];
        for (share, point) in shares.iter_mut().zip(ContentionPoint::ALL) {
            *share = DrawnShare::draw(
                rng,
                network.capacity(point),
                if point == ContentionPoint::Fabric { 0.1 } else { 0.25 },
            );
            // A group's guarantee covers its children's, and its maximum is not below that.
            let promised = children.iter().map(|child| child.share(point).min).sum();
            share.min = share.min.max(promised);
            share.max = share.max.filter(|max| *max >= share.min);
        }
        Self { shares, fill, children }
    }

    fn share(&self, point: ContentionPoint) -> DrawnShare {
        let index = ContentionPoint::ALL.iter().position(|known| *known == point).unwrap_or_default();
        self.shares[index]
    }

    /// Adds the service to a policy file, with its shares in a direction at some points.
    pub(crate) fn write(
        &self,
        text: &mut String,
        name: &str,
        depth: usize,
        (direction, points): (Direction, &[ContentionPoint]),
        port: &mut u16,
    ) {
        let indent = "  ".repeat(depth);
        let _ = writeln!(text, "{indent}{name}:");
        for &point in points {
            let DrawnShare { min, max, weight } = self.share(point);
            let min = if min > 0 { format!(", min: {min}kb/s") } else { String::new() };
            let max = max.map(|max| format!(", max: {max}kb/s")).unwrap_or_default();
            let _ = writeln!(text, "{indent}  {point}: {{ {direction}: {{ weight: {weight}{min}{max} }} }}");
        }
        if let Some(fill) = self.fill {
            let _ = writeln!(text, "{indent}  sharing: {}", if fill { "fill" } else { "add" });
        }
        if self.children.is_empty() {
            // Transports of both kinds may belong to one service.
            let _ = writeln!(text, "{indent}  match: [ {{ port: {port}-{} }} ]", *port + PORTS - 1);
            *port += PORTS;
            return;
        }
        let _ = writeln!(text, "{indent}  services:");
        for (i, child) in self.children.iter().enumerate() {
            child.write(text, &format!("{name}{}", ["a", "b"][i % 2]), depth + 2, (direction, points), port);
        }
    }
}

impl DrawnShare {
    /// A guarantee of up to a quarter and a maximum of up to four fifths of `capacity`, each with
    /// this probability; weights of 1 to 4.
    fn draw(rng: &mut StdRng, capacity: u64, probability: f64) -> Self {
        let part = |rng: &mut StdRng, most: u64| capacity * rng.random_range(20..=most) / 1000;
        let min = if rng.random_bool(probability) { part(rng, 250) } else { 0 };
        let max = rng.random_bool(probability).then(|| part(rng, 800).max(min));
        let weight = if rng.random_bool(0.4) { rng.random_range(1..=4) } else { 1 };
        Self { min, max, weight }
    }
}
