//! Copies of arrays between host and device, by the statement that causes them: what `--stats` says of a script's lines.

use indexmap::IndexMap;

use crate::base::source::Span;
use crate::device::{Device, Statistics};

/// Number of copies and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub to_device: (u64, u64),
    pub back: (u64, u64),
}

/// The copies that statements have caused.
#[derive(Debug, Default)]
pub struct Copies {
    /// By device, what its counters said at the last look.
    seen: IndexMap<String, Copied>,
    by: IndexMap<Span, Copied>,
}

impl Copies {
    /// Assigns the copies since the last look to a statement.
    pub fn look(&mut self, device: &dyn Device, at: Span) {
        let Statistics { uploads, uploaded, downloads, downloaded, .. } = device.statistics();
        let now = Copied { to_device: (uploads, uploaded), back: (downloads, downloaded) };
        let before = self.seen.insert(device.name(), now).unwrap_or_default();
        if now == before {
            return;
        }
        let entry = self.by.entry(at).or_default();
        let add = |sum: &mut (u64, u64), now: (u64, u64), before: (u64, u64)| {
            sum.0 += now.0.saturating_sub(before.0);
            sum.1 += now.1.saturating_sub(before.1);
        };
        add(&mut entry.to_device, now.to_device, before.to_device);
        add(&mut entry.back, now.back, before.back);
    }

    /// Returns the statements that have caused copies, those of the most bytes first.
    pub fn statements(&self) -> Vec<(Span, Copied)> {
        let mut all: Vec<(Span, Copied)> = self.by.iter().map(|(span, copied)| (*span, *copied)).collect();
        all.sort_by_key(|(_, copied)| std::cmp::Reverse(copied.to_device.1 + copied.back.1));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::source::FileId;
    use crate::device::sim::Simulator;

    /// A device whose counters go up by one copy of 8 bytes in each direction at every look.
    struct Busy(std::sync::atomic::AtomicU64, Simulator);

    impl Device for Busy {
        fn name(&self) -> String {
            "busy".into()
        }
        fn load(&self, module: std::sync::Arc<crate::ir::Prepared>) -> std::sync::Arc<dyn crate::device::Executable> {
            self.1.load(module)
        }
        fn statistics(&self) -> Statistics {
            let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            Statistics { uploads: n, uploaded: 8 * n, downloads: n, downloaded: 8 * n, ..Statistics::default() }
        }
    }

    #[test]
    fn copies_belong_to_the_statement_that_has_run_since() {
        let (a, b) = (Span::new(FileId(0), 0, 1), Span::new(FileId(0), 2, 3));
        let device = Busy(0.into(), Simulator::default());
        let mut copies = Copies::default();
        [a, b, b].iter().for_each(|span| copies.look(&device, *span));
        let one = Copied { to_device: (1, 8), back: (1, 8) };
        let two = Copied { to_device: (2, 16), back: (2, 16) };
        assert_eq!(copies.statements(), [(b, two), (a, one)]);
        copies.look(&Simulator::default(), a);
        assert_eq!(copies.statements().len(), 2, "the simulator copies nothing");
    }
}
