//! The allocator, and what it keeps of what was freed.

/// A server allocates on many threads at once, which the C library's allocator is slow at. Without huge pages: many threads
/// begin pages of their own, and clearing two megabytes for each shows in the slowest answers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of mimalloc's option `purge_delay`, which the bindings have no name for.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Keeps freed pages for the next allocation instead of giving them back to the system.
///
/// For commands that compute and end. A step of LoRA frees and takes hundreds of megabytes; asking the system for them
/// again, cleared, was a tenth of its time.
/// What `MIMALLOC_PURGE_DELAY` says goes before this.
#[expect(unsafe_code, reason = "the allocator has no safe interface to its options")]
pub(crate) fn keep_freed_pages() {
    // SAFETY: the function takes any number of an option, and may be called at any time.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, -1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another version of the allocator may number its options otherwise.
    #[test]
    #[expect(unsafe_code, reason = "the allocator has no safe interface to its options")]
    fn the_number_is_that_of_the_option() {
        // SAFETY: as above.
        let value = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // No other option near it has this default.
        assert_eq!(value(), 1_000);
        keep_freed_pages();
        assert_eq!(value(), -1);
    }
}
