//! Which tasks are held out together.

use sha2::{Digest, Sha256};
use upliftmem_core::TaskId;

/// The part that a task belongs to, below `folds`. A function of its id alone, so that a member that has not seen
/// a task in one update does not see it in the next.
pub fn fold(task: TaskId, folds: usize) -> usize {
    let digest = Sha256::digest(task.as_u128().to_le_bytes());
    let mut start = [0; 8];
    start.copy_from_slice(&digest[..8]);
    usize::try_from(u64::from_le_bytes(start) % folds.max(1) as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_are_of_about_equal_size() {
        let mut counts = [0; 5];
        for id in 0..5_000 {
            counts[fold(TaskId::from_u128(id), 5)] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1_100).contains(count)),
            "{counts:?}"
        );
    }
}
