//! Statistics about machine code, and symbols for profilers.
//!
//! Input: compiled machine code, and how often groups enter and exit it. Output: the device's [`Statistics`], and a
//! call of the listener for the machine code of each region.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::code::SourceTables;
use super::group::{RegionCode, RegionCounts};
use super::lir::LaneRegion;
use clk_base::source::SourceMap;
use clk_runtime::{MachineCode, Statistics};

/// The machine code of a region, as a symbol for profilers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeSymbol {
    /// Symbol name with the kernel, the line of the region's first statement, and the region's index in the kernel.
    /// Example: `clk:saxpy:2#0`.
    pub name: String,
    pub address: usize,
    pub bytes: usize,
}

/// A callback that receives the symbol of a region's machine code as soon as the region has been compiled.
pub type Listener = Box<dyn Fn(&CodeSymbol) + Send + Sync>;

/// Counters over all kernels of a simulator.
#[derive(Default)]
pub(super) struct SimStatistics {
    pub listener: Option<Listener>,
    launches: AtomicU64,
    regions: AtomicU64,
    compiled: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    entered: AtomicU64,
    left: AtomicU64,
}

impl fmt::Debug for SimStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statistics().fmt(f)
    }
}

fn add_relaxed(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Ordering::Relaxed);
}

impl SimStatistics {
    pub fn with_listener(listener: Listener) -> SimStatistics {
        SimStatistics { listener: Some(listener), ..SimStatistics::default() }
    }

    pub fn count_launch(&self) {
        add_relaxed(&self.launches, 1);
    }

    /// Counts the regions of a loaded kernel.
    pub fn count_regions(&self, regions: &[LaneRegion]) {
        add_relaxed(&self.regions, regions.len() as u64);
    }

    /// Adds a frame's counts of entries into machine code and of early exits.
    pub fn count_entries(&self, tallies: &[RegionCounts]) {
        let entered: u64 = tallies.iter().map(|tally| u64::from(tally.entered)).sum();
        if entered > 0 {
            add_relaxed(&self.entered, entered);
            add_relaxed(&self.left, tallies.iter().map(|tally| u64::from(tally.left)).sum());
        }
    }

    /// Counts the machine code of a kernel and passes it to the listener. Only the `first` call counts the regions as
    /// compiled: later calls are for the same regions, compiled for launches whose groups are divided into vectors
    /// differently. `names` are the regions' names, if there is a listener.
    pub fn announce(&self, machines: &[Option<Box<dyn RegionCode>>], time: Duration, first: bool, names: &[String]) {
        // Regions that are compiled later, when they are first entered, have no code range yet.
        let places =
            || machines.iter().enumerate().filter_map(|(k, machine)| Some((k, machine.as_ref()?.code_range())));
        let compiled = || places().filter(|(_, (_, bytes))| *bytes > 0);
        if first {
            add_relaxed(&self.compiled, places().count() as u64);
        }
        add_relaxed(&self.bytes, compiled().map(|(_, (_, bytes))| bytes as u64).sum());
        add_relaxed(&self.nanos, time.as_nanos() as u64);
        let Some(listener) = &self.listener else { return };
        for (k, (address, bytes)) in compiled() {
            listener(&CodeSymbol { name: names.get(k).cloned().unwrap_or_default(), address, bytes });
        }
    }

    /// Counts a further version of a region's machine code, which took `time` to compile, and passes it to the
    /// listener.
    pub fn announce_version(&self, address: usize, bytes: usize, time: Duration, name: &str) {
        add_relaxed(&self.bytes, bytes as u64);
        add_relaxed(&self.nanos, time.as_nanos() as u64);
        if let Some(listener) = &self.listener {
            listener(&CodeSymbol { name: name.to_string(), address, bytes });
        }
    }

    /// Returns the names of a kernel's regions; empty without a listener.
    pub fn region_names(&self, kernel: &str, tables: &SourceTables, sources: &SourceMap) -> Vec<String> {
        if self.listener.is_none() {
            return vec![];
        }
        let line = |span: u32| {
            let place = tables.location(span).0;
            let is_known = sources.files().any(|(file, _)| file == place.file);
            if is_known { format!(":{}", sources.line_column(place).0) } else { String::new() }
        };
        let name = |(k, &span): (usize, &u32)| format!("clk:{kernel}{}#{k}", line(span));
        tables.region_spans.iter().enumerate().map(name).collect()
    }

    pub fn statistics(&self) -> Statistics {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let machine_code = MachineCode {
            regions: load(&self.regions),
            compiled: load(&self.compiled),
            bytes: load(&self.bytes),
            seconds: load(&self.nanos) as f64 * 1e-9,
            entered: load(&self.entered),
            left: load(&self.left),
        };
        Statistics { launches: load(&self.launches), machine_code: Some(machine_code), ..Statistics::default() }
    }
}
