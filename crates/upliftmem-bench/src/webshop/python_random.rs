//! Python's random numbers, as far as the official order of goals needs them.

/// The Mersenne twister MT19937, seeded and read as Python's `random` does it.
pub(super) struct PythonRandom {
    state: [u32; N],
    next: usize,
}

const N: usize = 624;
const M: usize = 397;

impl PythonRandom {
    /// `random.seed(seed)`.
    pub(super) fn new(seed: u32) -> Self {
        let mut state = [0; N];
        state[0] = 19_650_218;
        for at in 1..N {
            state[at] = mixed(state[at - 1])
                .wrapping_mul(1_812_433_253)
                .wrapping_add(at as u32);
        }
        // The key has one word, the seed: its index is always 0.
        let mut at = 1;
        for _ in 0..N {
            state[at] = (state[at] ^ mixed(state[at - 1]).wrapping_mul(1_664_525)).wrapping_add(seed);
            at = after(&mut state, at);
        }
        for _ in 0..N - 1 {
            state[at] =
                (state[at] ^ mixed(state[at - 1]).wrapping_mul(1_566_083_941)).wrapping_sub(at as u32);
            at = after(&mut state, at);
        }
        state[0] = 0x8000_0000;
        Self { state, next: N }
    }

    fn word(&mut self) -> u32 {
        if self.next == N {
            for at in 0..N {
                let joined = (self.state[at] & 0x8000_0000) | (self.state[(at + 1) % N] & 0x7fff_ffff);
                let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[at] = self.state[(at + M) % N] ^ (joined >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    /// A number below `bound`, which is at least 1.
    fn below(&mut self, bound: u32) -> u32 {
        let unused = bound.leading_zeros();
        loop {
            let number = self.word() >> unused;
            if number < bound {
                return number;
            }
        }
    }

    /// `random.shuffle(list)`; lists are shorter than 2^32.
    pub(super) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u32 + 1) as usize);
        }
    }
}

fn mixed(word: u32) -> u32 {
    word ^ (word >> 30)
}

fn after(state: &mut [u32; N], at: usize) -> usize {
    if at + 1 < N {
        return at + 1;
    }
    state[0] = state[N - 1];
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `random.seed(233); [random.getrandbits(32) for _ in range(3)]; x = list(range(10)); random.shuffle(x)`.
    #[test]
    fn numbers_are_pythons() {
        let mut random = PythonRandom::new(233);
        assert_eq!([random.word(), random.word(), random.word()], WORDS);
        let mut list: Vec<u32> = (0..10).collect();
        random.shuffle(&mut list);
        assert_eq!(list, SHUFFLED);
    }

    const WORDS: [u32; 3] = [2931216007, 3446561803, 2698614761];
    const SHUFFLED: [u32; 10] = [5, 9, 0, 1, 4, 7, 6, 3, 8, 2];
}
