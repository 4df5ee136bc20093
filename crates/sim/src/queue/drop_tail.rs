//! Drop-tail: a frame that does not fit into the buffer is dropped.
//!
//! Example: in a buffer of 3000 B with 1514 B waiting, a frame of 1514 B does not fit (3028 > 3000), one of 66 B does.

/// The decision of a drop-tail buffer.
#[derive(Debug, Clone, Copy)]
pub struct DropTail {
    buffer: u64,
}

impl DropTail {
    /// A buffer of this many bytes.
    pub fn new(buffer: u64) -> Self {
        Self { buffer }
    }

    /// The buffer's size in bytes.
    pub fn buffer(&self) -> u64 {
        self.buffer
    }

    /// Whether a frame of `size` bytes is taken when `backlog` bytes wait (the rest of the frame being sent included).
    #[inline]
    pub fn admits(&self, backlog: u64, size: u32) -> bool {
        backlog + u64::from(size) <= self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_fits() {
        let queue = DropTail::new(3000);
        assert!(queue.admits(0, 3000));
        assert!(!queue.admits(1514, 1514));
        assert!(queue.admits(1514, 66));
    }
}
