//! Nodes of the tree: arrays of flows or of children, in arenas.

use std::cmp::Ordering;
use std::ops::{Add, Index, IndexMut, Sub};

/// Items of a node: 512 B of flows, so that a leaf is eight cache lines.
const MAXIMUM: usize = 32;
/// Fewer items are merged with a neighbour's. Half of a split node, so that a node is not split and merged in turn.
pub(super) const MINIMUM: usize = MAXIMUM / 4;

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
    pub(super) sum: Sum,
    pub(super) last: Entry,
    pub(super) node: u32,
}

/// An item of a node: a flow of a leaf or a child of a branch.
pub(super) trait Item: Copy + Default {
    /// The sums of its flows.
    fn sum(&self) -> Sum;
    /// The last one of its flows.
    fn last(&self) -> Entry;
}

impl Item for Entry {
    fn sum(&self) -> Sum {
        Sum::of(self)
    }
    fn last(&self) -> Entry {
        *self
    }
}

impl Item for Child {
    fn sum(&self) -> Sum {
        self.sum
    }
    fn last(&self) -> Entry {
        self.last
    }
}

/// Items in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<T> {
    items: [T; MAXIMUM],
    length: u32,
}

impl<T: Item> Node<T> {
    pub(super) fn items(&self) -> &[T] {
        &self.items[..self.length as usize]
    }

    pub(super) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items[..self.length as usize]
    }

    /// Inserts before the item at `index`. A node that gets full is split at once, so there is room.
    pub(super) fn insert(&mut self, index: usize, item: T) {
        self.items.copy_within(index..self.length as usize, index + 1);
        self.items[index] = item;
        self.length += 1;
    }

    pub(super) fn push(&mut self, item: T) {
        self.insert(self.length as usize, item);
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.items.copy_within(index + 1..self.length as usize, index);
        self.length -= 1;
    }

    /// Replaces all items.
    fn fill(&mut self, items: &[T]) {
        self.items[..items.len()].copy_from_slice(items);
        self.length = items.len() as u32;
    }

    /// The child that this node, which is named `node`, is.
    pub(super) fn summary(&self, node: u32) -> Child {
        let sum = self.items().iter().fold(Sum::default(), |sum, item| sum + item.sum());
        Child { node, sum, last: self.items().last().map_or(Entry::default(), Item::last) }
    }
}

/// Nodes by index, with those that are free.
#[derive(Debug, Clone)]
pub(super) struct Arena<T> {
    nodes: Vec<Node<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new() }
    }
}

impl<T> Index<u32> for Arena<T> {
    type Output = Node<T>;
    fn index(&self, node: u32) -> &Node<T> {
        &self.nodes[node as usize]
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, node: u32) -> &mut Node<T> {
        &mut self.nodes[node as usize]
    }
}

impl<T: Item> Arena<T> {
    /// An empty node.
    pub(super) fn add(&mut self) -> u32 {
        let empty = Node { items: [T::default(); MAXIMUM], length: 0 };
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
        if self[node].items().len() < MAXIMUM {
            return None;
        }
        let new = self.add();
        let full = self[node];
        let (first, second) = full.items().split_at(MAXIMUM / 2);
        self[node].fill(first);
        self[new].fill(second);
        Some(new)
    }

    /// Merges two neighbours into the first and releases the second, or gives them as many items each; returns whether
    /// it merged them.
    pub(super) fn balance(&mut self, first: u32, second: u32) -> bool {
        let (left, right) = (self[first], self[second]);
        let mut items = [T::default(); 2 * MAXIMUM];
        let (left, right) = (left.items(), right.items());
        let length = left.len() + right.len();
        items[..left.len()].copy_from_slice(left);
        items[left.len()..length].copy_from_slice(right);
        // One below the maximum, since a full node is one that is split.
        let merged = length < MAXIMUM;
        let half = if merged { length } else { length / 2 };
        self[first].fill(&items[..half]);
        self[second].fill(&items[half..length]);
        if merged {
            self.release(second);
        }
        merged
    }

    /// Bytes of all nodes.
    pub(super) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<T>>() + self.free.capacity() * size_of::<u32>()
    }
}
