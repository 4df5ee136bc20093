//! Nodes of the tree: arrays of flows or of children, in arenas. Keys and values are apart, so that a search of a node
//! touches few cache lines.

use std::cmp::Ordering;
use std::ops::{Add, Index, IndexMut, Sub};

/// Flows of a leaf: four cache lines with its length, which each change moves a half of.
pub(super) const FLOWS: usize = 15;
/// Children of a branch: few levels, since most of the time is spent on their cache lines.
pub(super) const CHILDREN: usize = 32;
/// The larger one of both.
const LARGEST: usize = 32;

/// A flow: its key and its values.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) demand: u64,
    pub(super) weight: u32,
    pub(super) flow: u32,
}

impl Entry {
    /// Whether this flow has less demand per weight than another one, or as much and a lower number.
    pub(super) fn is_before(&self, other: &Self) -> bool {
        let own = u128::from(self.demand) * u128::from(other.weight);
        let others = u128::from(other.demand) * u128::from(self.weight);
        own.cmp(&others).then(self.flow.cmp(&other.flow)) == Ordering::Less
    }
}

/// Sums over flows. A sum of 2³² demands of 64 bits fits into 96.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) demand: u128,
    pub(super) weight: u64,
    pub(super) count: u32,
}

impl Sum {
    /// That of one flow.
    pub(super) fn of(entry: &Entry) -> Self {
        Self { demand: entry.demand.into(), weight: entry.weight.into(), count: 1 }
    }
}

impl Add for Sum {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { demand: self.demand + other.demand, weight: self.weight + other.weight, count: self.count + other.count }
    }
}

impl Sub for Sum {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { demand: self.demand - other.demand, weight: self.weight - other.weight, count: self.count - other.count }
    }
}

/// A node, with its sums and the last one of its flows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Child {
    pub(super) last: Entry,
    pub(super) below: Below,
}

/// The value of a branch beside each key, which is the last flow below.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Below {
    pub(super) sum: Sum,
    pub(super) node: u32,
}

/// The value of a node beside a key: a flow of a leaf has none.
pub(super) trait Value: Copy + Default {
    /// The sums of the flows that it stands for.
    fn sum(&self, key: &Entry) -> Sum;
}

impl Value for () {
    fn sum(&self, key: &Entry) -> Sum {
        Sum::of(key)
    }
}

impl Value for Below {
    fn sum(&self, _: &Entry) -> Sum {
        self.sum
    }
}

/// Keys in order, with their values, from the start of a cache line on.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Node<V, const N: usize> {
    length: u32,
    keys: [Entry; N],
    values: [V; N],
}

impl<V: Value, const N: usize> Node<V, N> {
    pub(super) fn len(&self) -> usize {
        self.length as usize
    }

    pub(super) fn keys(&self) -> &[Entry] {
        &self.keys[..self.len()]
    }

    pub(super) fn value(&self, index: usize) -> V {
        self.values[index]
    }

    /// The index of the first key that is not before a flow.
    pub(super) fn search(&self, entry: &Entry) -> usize {
        self.keys().partition_point(|key| key.is_before(entry))
    }

    pub(super) fn set(&mut self, index: usize, key: Entry, value: V) {
        (self.keys[index], self.values[index]) = (key, value);
    }

    /// Inserts before the key at `index`. A node that gets full is split at once, so there is room.
    pub(super) fn insert(&mut self, index: usize, key: Entry, value: V) {
        let length = self.len();
        self.keys.copy_within(index..length, index + 1);
        self.values.copy_within(index..length, index + 1);
        self.set(index, key, value);
        self.length += 1;
    }

    pub(super) fn remove(&mut self, index: usize) {
        let length = self.len();
        self.keys.copy_within(index + 1..length, index);
        self.values.copy_within(index + 1..length, index);
        self.length -= 1;
    }

    /// Whether it is to be merged with a neighbour: half of a split node, so that none is split and merged in turn.
    pub(super) fn is_small(&self) -> bool {
        self.len() < N / 4
    }

    fn fill(&mut self, keys: &[Entry], values: &[V]) {
        self.keys[..keys.len()].copy_from_slice(keys);
        self.values[..values.len()].copy_from_slice(values);
        self.length = keys.len() as u32;
    }

    /// The child that this node, which is named `node`, is.
    pub(super) fn summary(&self, node: u32) -> Child {
        let pairs = self.keys().iter().zip(&self.values);
        let sum = pairs.fold(Sum::default(), |sum, (key, value)| sum + value.sum(key));
        Child { last: self.keys().last().copied().unwrap_or_default(), below: Below { sum, node } }
    }
}

/// Nodes by index, with those that are free.
#[derive(Debug, Clone)]
pub(super) struct Arena<V, const N: usize> {
    nodes: Vec<Node<V, N>>,
    free: Vec<u32>,
}

impl<V, const N: usize> Default for Arena<V, N> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new() }
    }
}

impl<V, const N: usize> Index<u32> for Arena<V, N> {
    type Output = Node<V, N>;
    fn index(&self, node: u32) -> &Node<V, N> {
        &self.nodes[node as usize]
    }
}

impl<V, const N: usize> IndexMut<u32> for Arena<V, N> {
    fn index_mut(&mut self, node: u32) -> &mut Node<V, N> {
        &mut self.nodes[node as usize]
    }
}

impl<V: Value, const N: usize> Arena<V, N> {
    /// An empty node.
    pub(super) fn add(&mut self) -> u32 {
        let empty = Node { length: 0, keys: [Entry::default(); N], values: [V::default(); N] };
        if let Some(node) = self.free.pop() {
            self[node] = empty;
            return node;
        }
        self.nodes.push(empty);
        self.nodes.len() as u32 - 1
    }

    /// A node is not used any more.
    pub(super) fn release(&mut self, node: u32) {
        self.free.push(node);
    }

    /// Splits a full node; returns the one with its later half.
    pub(super) fn split(&mut self, node: u32) -> Option<u32> {
        if self[node].len() < N {
            return None;
        }
        let new = self.add();
        let Node { keys, values, .. } = self[node];
        self[node].fill(&keys[..N / 2], &values[..N / 2]);
        self[new].fill(&keys[N / 2..], &values[N / 2..]);
        Some(new)
    }

    /// Merges two neighbours into the first and releases the second, or gives them as many keys each; returns whether
    /// it merged them.
    pub(super) fn balance(&mut self, first: u32, second: u32) -> bool {
        let (left, right) = (self[first], self[second]);
        let mut keys = [Entry::default(); 2 * LARGEST];
        let mut values = [V::default(); 2 * LARGEST];
        let length = left.len() + right.len();
        for (at, node) in [(0, &left), (left.len(), &right)] {
            keys[at..at + node.len()].copy_from_slice(node.keys());
            values[at..at + node.len()].copy_from_slice(&node.values[..node.len()]);
        }
        // One below the maximum, since a full node is one that is split.
        let merged = length < N;
        let half = if merged { length } else { length / 2 };
        self[first].fill(&keys[..half], &values[..half]);
        self[second].fill(&keys[half..length], &values[half..length]);
        if merged {
            self.release(second);
        }
        merged
    }

    /// Bytes of all nodes.
    pub(super) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<V, N>>() + self.free.capacity() * size_of::<u32>()
    }
}
