//! Results of `bench` blocks.

/// Result of a `bench` block.
#[derive(Clone, Debug, Default)]
pub struct BenchResult {
    /// Time of each execution of the block in seconds, in the order of measurement.
    pub samples: Vec<f64>,
    /// Amounts that one execution of the block processes, if the `bench` block declares them.
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
