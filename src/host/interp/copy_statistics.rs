//! Counts copies of arrays between host and device by the statement that causes them (`--stats`).

use indexmap::IndexMap;

use clk_base::source::Span;
use clk_runtime::{Device, Statistics};

/// Number of copies, and their total bytes, in each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    pub to_device: (u64, u64),
    pub to_host: (u64, u64),
}

/// The copies that each statement caused.
#[derive(Debug, Default)]
pub struct CopyStatistics {
    /// The counters of each device at the last call of [`Self::attribute_to`], by device name.
    last_counters: IndexMap<String, CopyCounts>,
    by_statement: IndexMap<Span, CopyCounts>,
}

impl CopyStatistics {
    /// Attributes the device's copies since the previous call to the statement at `at`.
    pub fn attribute_to(&mut self, device: &dyn Device, at: Span) {
        let Statistics { uploads, uploaded, downloads, downloaded, .. } = device.statistics();
        let counters = CopyCounts { to_device: (uploads, uploaded), to_host: (downloads, downloaded) };
        let before = self.last_counters.insert(device.name(), counters).unwrap_or_default();
        if counters == before {
            return;
        }
        let entry = self.by_statement.entry(at).or_default();
        let add = |sum: &mut (u64, u64), counters: (u64, u64), before: (u64, u64)| {
            sum.0 += counters.0.saturating_sub(before.0);
            sum.1 += counters.1.saturating_sub(before.1);
        };
        add(&mut entry.to_device, counters.to_device, before.to_device);
        add(&mut entry.to_host, counters.to_host, before.to_host);
    }

    /// Returns the statements that caused copies, sorted by decreasing bytes.
    pub fn statements(&self) -> Vec<(Span, CopyCounts)> {
        let mut all: Vec<(Span, CopyCounts)> =
            self.by_statement.iter().map(|(span, copied)| (*span, *copied)).collect();
        all.sort_by_key(|(_, copied)| std::cmp::Reverse(copied.to_device.1 + copied.to_host.1));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_base::source::FileId;
    use clk_sim::Simulator;

    /// A device that counts one more copy of 8 bytes in each direction whenever its statistics are read.
    struct Busy(std::sync::atomic::AtomicU64, Simulator);

    impl clk_runtime::DeviceWrapper for Busy {
        fn inner(&self) -> &dyn Device {
            &self.1
        }
        fn name(&self) -> String {
            "busy".into()
        }
        fn statistics(&self) -> Statistics {
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            Statistics { uploads: n, uploaded: 8 * n, downloads: n, downloaded: 8 * n, ..Statistics::default() }
        }
    }

    #[test]
    fn copies_count_for_the_statement_that_just_ran() {
        let (a, b) = (Span::new(FileId(0), 0, 1), Span::new(FileId(0), 2, 3));
        let device = Busy(0.into(), Simulator::default());
        let mut copies = CopyStatistics::default();
        [a, b, b].iter().for_each(|span| copies.attribute_to(&device, *span));
        let one = CopyCounts { to_device: (1, 8), to_host: (1, 8) };
        let two = CopyCounts { to_device: (2, 16), to_host: (2, 16) };
        assert_eq!(copies.statements(), [(b, two), (a, one)]);
        copies.attribute_to(&Simulator::default(), a);
        assert_eq!(copies.statements().len(), 2, "the simulator copies nothing");
    }
}
