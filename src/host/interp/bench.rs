//! Results of benches.

/// Result of a bench.
#[derive(Clone, Debug, Default)]
pub struct BenchResult {
    /// Seconds per run, in the order measured.
    pub samples: Vec<f64>,
    /// Amounts per run, if the bench states them.
    pub bytes: Option<f64>,
    pub flops: Option<f64>,
    pub items: Option<f64>,
}

impl BenchResult {
    /// Returns the median of the samples in seconds.
    pub fn median(&self) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}
