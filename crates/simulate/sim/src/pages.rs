//! Large pages for large tables.
//!
//! Problem: the tables of a large network are tens of megabytes, accessed at random; with pages of
//! 4 kB the processor spends a fifth of its time on address translation. Approach: tables that have
//! grown beyond some megabytes request pages of 2 MB from the kernel (`madvise`; Linux provides
//! them if it can). The request is a hint: nothing depends on it.

/// A large page, and the size from which on a table requests them.
const LARGE: usize = 2 << 20;
/// A small page.
const PAGE: usize = 4096;

/// Requests large pages for a table that is not in use yet.
pub(crate) fn advise<T>(table: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        let bytes = table.capacity() * size_of::<T>();
        if bytes < LARGE {
            return;
        }
        // Pages begin at multiples of their size; the memory before the first and after the last
        // one is left alone.
        let start = table.as_ptr().addr().next_multiple_of(PAGE);
        let end = (table.as_ptr().addr() + bytes) / PAGE * PAGE;
        let first = table.as_ptr().with_addr(start);
        // SAFETY: the range lies within memory that the table owns, and advice on pages changes no
        // contents.
        let _hint = unsafe { libc::madvise(first.cast_mut().cast(), end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Moves a full table to memory twice as large. The advice precedes the first access to the pages,
/// at which the kernel decides.
#[cold]
fn grow<T>(table: &mut Vec<T>) {
    let mut larger = Vec::with_capacity(2 * table.capacity().max(32));
    advise(&larger);
    larger.append(table);
    *table = larger;
}

/// Appends an element to a table that requests large pages as it grows.
#[inline]
pub(crate) fn push<T>(table: &mut Vec<T>, element: T) {
    if table.len() == table.capacity() {
        grow(table);
    }
    table.push(element);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_grow_like_vectors() {
        let mut table = Vec::new();
        for number in 0..(2 * LARGE / 8) as u64 {
            push(&mut table, number);
        }
        assert!(table.iter().zip(0..).all(|(element, number)| *element == number));
    }
}
