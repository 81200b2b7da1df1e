//! Two searches at once.

use std::sync::LazyLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// Threads of the searches' own: work of seconds elsewhere in the process must not make a question wait. Whoever finds
/// all of them at work does both halves itself.
static THREADS: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    ThreadPoolBuilder::new()
        .thread_name(|number| format!("upliftmem-recall-{number}"))
        .build()
        .ok()
});

/// Runs both, at once if there are threads for it.
pub(crate) fn side_by_side<A: Send, B: Send>(
    one: impl FnOnce() -> A + Send,
    two: impl FnOnce() -> B + Send,
) -> (A, B) {
    match &*THREADS {
        Some(threads) => threads.join(one, two),
        None => (one(), two()),
    }
}
