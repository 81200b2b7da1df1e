//! Two searches at once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, LazyLock, Mutex, PoisonError, mpsc},
    thread,
};

/// Work for another thread; it does not panic.
type Work = Box<dyn FnOnce() + Send>;

/// Threads of the searches' own: work of seconds elsewhere in the process must not make a question wait. They sleep while
/// there is no work, where a pool for many small pieces would look for more first.
static THREADS: LazyLock<Option<mpsc::Sender<Work>>> = LazyLock::new(|| {
    let (to, work) = mpsc::channel::<Work>();
    let work = Arc::new(Mutex::new(work));
    let next =
        |work: &Mutex<mpsc::Receiver<Work>>| work.lock().unwrap_or_else(PoisonError::into_inner).recv();
    for number in 0..count() {
        let work = Arc::clone(&work);
        let thread = thread::Builder::new().name(format!("upliftmem-recall-{number}"));
        let started = thread.spawn(move || {
            while let Ok(work) = next(&work) {
                work();
            }
        });
        started.ok()?;
    }
    Some(to)
});

/// How many threads there are.
fn count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs both, `one` on another thread if one is free before this thread is done with `two`.
///
/// Nobody waits for work that was not begun: what no other thread has taken up by then is done here.
pub(crate) fn side_by_side<A: Send + 'static, B>(
    one: impl FnOnce() -> A + Send + 'static,
    two: impl FnOnce() -> B,
) -> (A, B) {
    let Some(threads) = &*THREADS else {
        return (one(), two());
    };
    let open = Arc::new(Mutex::new(Some(one)));
    let offered = Arc::clone(&open);
    let (to, answer) = mpsc::channel();
    let work = move || {
        if let Some(one) = take(&offered) {
            // Whoever asked may have panicked meanwhile; then nobody wants the answer.
            drop(to.send(catch_unwind(AssertUnwindSafe(one))));
        }
    };
    // Where no thread is left to take it, it is done here.
    drop(threads.send(Box::new(work)));
    let second = two();
    let first = match take(&open) {
        Some(one) => one(),
        None => match answer.recv() {
            Ok(Ok(first)) => first,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(lost) => resume_unwind(Box::new(lost)),
        },
    };
    (first, second)
}

fn take<T>(offered: &Mutex<Option<T>>) -> Option<T> {
    offered.lock().unwrap_or_else(PoisonError::into_inner).take()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn both_are_answered_whoever_is_faster() {
        let nap = |millis| move || thread::sleep(Duration::from_millis(millis));
        for (slow_one, slow_two) in [(0, 0), (0, 20), (20, 0)] {
            let (one, two) = (nap(slow_one), nap(slow_two));
            let both = side_by_side(move || (one(), 1).1, || (two(), 2).1);
            assert_eq!(both, (1, 2));
        }
    }

    #[test]
    fn threads_that_are_all_at_work_are_not_waited_for() {
        let (stop, stopped) = mpsc::channel::<()>();
        let stopped = Arc::new(Mutex::new(stopped));
        let threads = THREADS.as_ref().unwrap();
        for _ in 0..count() {
            let stopped = Arc::clone(&stopped);
            let wait = move || assert!(stopped.lock().unwrap().recv().is_err());
            threads.send(Box::new(wait)).unwrap();
        }
        assert_eq!(side_by_side(|| 1, || 2), (1, 2));
        drop(stop);
    }

    #[test]
    fn a_panic_goes_to_whoever_asked() {
        for _ in 0..20 {
            let asked =
                catch_unwind(|| side_by_side(|| panic!("one"), || thread::sleep(Duration::from_millis(1))));
            assert!(asked.is_err());
        }
        assert_eq!(side_by_side(|| 1, || 2), (1, 2), "the threads go on");
    }
}
