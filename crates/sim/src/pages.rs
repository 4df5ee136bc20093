//! Large pages for large tables.
//!
//! Problem: the tables of a large network are tens of megabytes, touched at random; with pages of 4 kB the processor
//! spends a fifth of its time looking up where they are. Approach: tables that have grown beyond some megabytes ask
//! the kernel for pages of 2 MB (`madvise`, which Linux grants where it can). It is a hint: nothing depends on it.
//!
//! A large page begins at a multiple of its size, so a table that begins anywhere has small pages at both its ends. Linux (6.7 and newer)
//! puts a mapping whose size is a multiple of 2 MB at such an address; so tables grow to sizes for which `malloc` maps just that
//! ([`capacity`]).

/// A large page, and the size from which on a table asks for them.
const LARGE: usize = 2 << 20;
/// A small page. `malloc` maps whole ones, and puts some bytes of its own before what it gives.
const PAGE: usize = 4096;

/// Asks for large pages for a table that is not in use yet.
pub(crate) fn advise<T>(table: &Vec<T>) {
    #[cfg(target_os = "linux")]
    {
        let bytes = table.capacity() * size_of::<T>();
        if bytes < LARGE {
            return;
        }
        // Pages begin at multiples of their size; what lies before the first and after the last is left alone.
        let start = table.as_ptr().addr().next_multiple_of(PAGE);
        let end = (table.as_ptr().addr() + bytes) / PAGE * PAGE;
        let first = table.as_ptr().with_addr(start);
        // SAFETY: the range lies within memory that the table owns, and advice on pages changes no contents.
        let _hint = unsafe { libc::madvise(first.cast_mut().cast(), end - start, libc::MADV_HUGEPAGE) };
    }
}

/// How many elements a table has room for that is to have room for about `wanted`: a whole number of large pages, less a
/// small one that `malloc` needs.
fn capacity<T>(wanted: usize) -> usize {
    let bytes = wanted * size_of::<T>();
    if bytes < LARGE { wanted } else { (bytes.next_multiple_of(LARGE) - PAGE) / size_of::<T>() }
}

/// Moves a full table to a place twice as large. The advice comes before the pages are touched: the kernel decides then.
#[cold]
fn grow<T>(table: &mut Vec<T>) {
    let mut larger = Vec::with_capacity(capacity::<T>(2 * table.capacity().max(32)));
    advise(&larger);
    larger.append(table);
    *table = larger;
}

/// Puts an element at the end of a table that asks for large pages as it grows.
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
    fn a_table_and_what_malloc_adds_are_whole_large_pages() {
        assert_eq!(capacity::<[u8; 64]>(100), 100);
        for wanted in [1 << 15, 40_000, 1 << 20] {
            let bytes = 64 * capacity::<[u8; 64]>(wanted);
            assert_eq!((bytes + 16).next_multiple_of(PAGE) % LARGE, 0, "{wanted}");
            assert!(bytes >= 64 * wanted - PAGE);
        }
    }

    #[test]
    fn tables_grow_as_ever() {
        let mut table = Vec::new();
        for number in 0..(2 * LARGE / 8) as u64 {
            push(&mut table, number);
        }
        assert!(table.iter().zip(0..).all(|(element, number)| *element == number));
    }
}
