//! [`Rng`]: the workloads' own random numbers, the same on every platform and for ever.
//!
//! Problem: a seed that is printed with a result must give the same flows years later and on any
//! machine. The general-purpose generators of Rust's `rand` (`StdRng`, `SmallRng`) are documented
//! as not portable: a new version of the crate may draw other numbers from the same seed, and so do
//! its distributions. Approach: xoshiro256++, a few lines with published reference outputs, seeded
//! by SplitMix64 as its authors advise; bounded integers by Lemire's multiplication with rejection,
//! so that they are exactly uniform.
//!
//! One seed gives many independent streams ([`Rng::stream`]). A workload draws its gaps, pairs and
//! sizes from streams of their own, so that a sweep over loads compares the same flows at different
//! spacing (common random numbers).
//!
//! Worked example: `Rng::stream(7, 0)` and `Rng::stream(7, 1)` share nothing; `Rng::stream(7, 0)`
//! again is the same.
//!
//! Sources: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators" (2021), §3 and
//! the reference code at prng.di.unimi.it; D. Lemire, "Fast random integer generation in an
//! interval" (2019), algorithm 5.

/// SplitMix64: a counter through a mixer. Only used to spread seeds.
#[derive(Debug, Clone)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        // The golden ratio in 64 bits and the multipliers of the reference code.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A seeded generator of 64-bit numbers (xoshiro256++).
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Stream number `stream` of `seed`. Neighbouring seeds and streams are as unrelated as distant
    /// ones.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut mix = SplitMix64(SplitMix64(seed).next() ^ SplitMix64(!stream).next().rotate_left(32));
        // The mixer is a bijection over a counter that does not repeat, so the four words are not
        // all zero.
        Self { state: [mix.next(), mix.next(), mix.next(), mix.next()] }
    }

    /// The next 64 bits, uniform.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, exactly uniform; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let mut product = u128::from(self.bits()) * u128::from(bound);
        if (product as u64) < bound {
            // The low half must not fall into the part of 2^64 that `bound` does not divide.
            let excess = bound.wrapping_neg() % bound;
            while (product as u64) < excess {
                product = u128::from(self.bits()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// An index into a table of `len` entries, uniform. `len` is above zero.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        debug_assert!(len > 0, "an index into an empty table");
        self.below(len as u64) as usize
    }

    /// A number in (0, 1], uniform over the multiples of 2^−53.
    pub fn unit(&mut self) -> f64 {
        // 53 bits and one more step are exact in a float, and so is the division by a power of two.
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A number from the exponential distribution of mean 1: −ln of a uniform one, at most 36.8.
    pub fn exponential(&mut self) -> f64 {
        -crate::ln::ln(self.unit())
    }

    /// Puts `items` in a uniformly random order (Fisher–Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_the_reference_outputs() {
        // The authors' code from the state 1, 2, 3, 4.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
            14_011_001_112_246_962_877,
            12_406_186_145_184_390_807,
            15_849_039_046_786_891_736,
            10_450_023_813_501_588_000,
        ];
        assert_eq!(expected.map(|_| rng.bits()), expected);
        // And SplitMix64 from 1234567.
        let mut mix = SplitMix64(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| mix.next()), expected);
    }

    #[test]
    fn streams_are_repeatable_and_differ() {
        let first = |seed, stream| Rng::stream(seed, stream).bits();
        assert_eq!(first(7, 0), first(7, 0));
        let mut all: Vec<u64> = (0..100).flat_map(|seed| (0..100).map(move |stream| first(seed, stream))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn bounded_numbers_are_uniform() {
        // Chi-square with 6 degrees of freedom: above 22.46 in one of a thousand streams.
        let mut rng = Rng::stream(1, 0);
        let mut seen = [0_u32; 7];
        for _ in 0..70_000 {
            seen[rng.index(7)] += 1;
        }
        let chi: f64 = seen.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 22.46, "{seen:?}: {chi}");
        // Two thirds of 2^64: without rejection every even number would have two preimages and
        // every odd one one, so that 2/3 would be even.
        let bound = (u64::MAX / 3) * 2;
        let even = (0..10_000).filter(|_| rng.below(bound).is_multiple_of(2)).count();
        assert!((4_800..5_200).contains(&even), "{even}");
        assert_eq!((rng.below(1), rng.below(0)), (0, 0));
    }

    #[test]
    fn exponential_numbers_have_mean_and_variance_one() {
        // Of n numbers the mean has the standard error 1/√n, the mean square √20/√n (fourth moment
        // 24, less 2²).
        let mut rng = Rng::stream(3, 0);
        let n = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = rng.exponential();
            assert!((0.0..37.0).contains(&x));
            sum += x;
            squares += x * x;
        }
        let error = 4.0 / f64::from(n).sqrt();
        assert!((sum / f64::from(n) - 1.0).abs() < error);
        assert!((squares / f64::from(n) - 2.0).abs() < error * 20_f64.sqrt());
    }
}
