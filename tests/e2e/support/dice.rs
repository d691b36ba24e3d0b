//! Random numbers that are the same every time (xorshift64*).

/// A seeded source.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// `WOLLI_SEED` overrides the seed that the test has.
    pub(crate) fn new(seed: u64) -> Self {
        let chosen = std::env::var("WOLLI_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(seed);
        eprintln!("seed {chosen}");
        Self(chosen.max(1))
    }

    /// With exactly this seed.
    pub(crate) fn of(seed: u64) -> Self {
        // Seeds that lie close together begin alike without it.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Another source, which this one's next number seeds.
    pub(crate) fn child(&mut self) -> Self {
        Self(self.next().max(1))
    }

    /// From `low` to below `high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + (self.next() >> 11) % (high - low)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.range(0, n) == 0
    }
}
