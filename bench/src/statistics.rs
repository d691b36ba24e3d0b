//! Percentiles of samples, by nearest rank: a percentile is always one of the samples.

use std::time::Duration;

/// Samples in ascending order; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Sorts the samples. `None` if there is none or one is not a number.
    pub fn new(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        if sorted.is_empty() || sorted.iter().any(|sample| sample.is_nan()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        Some(Self(sorted))
    }

    /// Times in milliseconds.
    pub fn milliseconds<'a>(times: impl IntoIterator<Item = &'a Duration>) -> Option<Self> {
        Self::new(times.into_iter().map(|time| time.as_secs_f64() * 1_000.0))
    }

    /// The smallest sample that at least `percent` of all samples do not exceed.
    pub fn percentile(&self, percent: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank between 0 and the number of samples")]
        let rank = (percent.clamp(0.0, 100.0) / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    /// The middle sample; of an even number the lower one.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The smallest sample.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The largest sample.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_by_nearest_rank() {
        let samples = Samples::new((1..=200).rev().map(f64::from)).unwrap();
        for (percent, expected) in [(0.0, 1.0), (0.5, 1.0), (0.6, 2.0), (50.0, 100.0), (99.0, 198.0), (99.9, 200.0), (100.0, 200.0)] {
            assert_eq!(samples.percentile(percent), expected, "p{percent}");
        }
        assert_eq!((samples.min(), samples.median(), samples.max(), samples.count()), (1.0, 100.0, 200.0, 200));
    }

    #[test]
    fn small_and_unusable_sets() {
        assert_eq!(Samples::new([]), None);
        assert_eq!(Samples::new([1.0, f64::NAN]), None);
        let one = Samples::new([7.0]).unwrap();
        assert_eq!((one.percentile(0.0), one.median(), one.percentile(100.0)), (7.0, 7.0, 7.0));
        assert_eq!(Samples::new([3.0, 1.0]).unwrap().median(), 1.0);
    }

    #[test]
    fn times_become_milliseconds() {
        let times = [Duration::from_micros(1_500), Duration::from_secs(2)];
        assert_eq!(Samples::milliseconds(&times), Samples::new([1.5, 2_000.0]));
    }
}
