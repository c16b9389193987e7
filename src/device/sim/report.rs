//! What the simulator tells about machine code: counts for statistics, and names of addresses for profilers.
//!
//! Input: what the tier compiles, and how often groups enter and leave it. Output: the device's [`Statistics`], and a call of a listener
//! for each piece of code.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::code::Code;
use super::group::{RegionCode, Tally};
use crate::base::source::Sources;
use crate::device::{MachineCode, Statistics};

/// The machine code of a region, as profilers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Such as `clk:saxpy:2#0`: kernel, line of the first statement, and number of the region in its kernel.
    pub name: String,
    pub address: usize,
    pub bytes: usize,
}

/// Is told about each piece of machine code as soon as it is there.
pub type Listener = Box<dyn Fn(&Symbol) + Send + Sync>;

/// Counts of all kernels of a simulator.
#[derive(Default)]
pub(super) struct Report {
    pub listener: Option<Listener>,
    launches: AtomicU64,
    regions: AtomicU64,
    compiled: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    entered: AtomicU64,
    left: AtomicU64,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statistics().fmt(f)
    }
}

fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Ordering::Relaxed);
}

impl Report {
    pub fn telling(listener: Listener) -> Report {
        Report { listener: Some(listener), ..Report::default() }
    }

    pub fn count_launch(&self) {
        add(&self.launches, 1);
    }

    /// Counts the regions of a kernel that was loaded.
    pub fn count_regions(&self, code: &Code) {
        add(&self.regions, code.regions.len() as u64);
    }

    /// Counts what the groups of a frame did.
    pub fn count_entries(&self, tallies: &[Tally]) {
        let entered: u64 = tallies.iter().map(|tally| u64::from(tally.entered)).sum();
        if entered > 0 {
            add(&self.entered, entered);
            add(&self.left, tallies.iter().map(|tally| u64::from(tally.left)).sum());
        }
    }

    /// Counts and announces the machine code of a kernel. Only the `first` one counts as compiled regions: later ones are of the same
    /// regions, for launches that are divided in another way. `names` are those of the regions, if there is a listener.
    pub fn announce(&self, machines: &[Option<Box<dyn RegionCode>>], time: Duration, first: bool, names: &[String]) {
        // What is compiled later has no place yet.
        let places = || machines.iter().enumerate().filter_map(|(k, machine)| Some((k, machine.as_ref()?.place())));
        let found = || places().filter(|(_, (_, bytes))| *bytes > 0);
        if first {
            add(&self.compiled, places().count() as u64);
        }
        add(&self.bytes, found().map(|(_, (_, bytes))| bytes as u64).sum());
        add(&self.nanos, time.as_nanos() as u64);
        let Some(listener) = &self.listener else { return };
        for (k, (address, bytes)) in found() {
            listener(&Symbol { name: names.get(k).cloned().unwrap_or_default(), address, bytes });
        }
    }

    /// Counts and announces another version of a region's machine code.
    pub fn announce_version(&self, (address, bytes): (usize, usize), time: Duration, name: &str) {
        add(&self.bytes, bytes as u64);
        add(&self.nanos, time.as_nanos() as u64);
        if let Some(listener) = &self.listener {
            listener(&Symbol { name: name.to_string(), address, bytes });
        }
    }

    /// Returns the names of a kernel's regions for the listener, if there is one.
    pub fn names(&self, kernel: &str, code: &Code, sources: &Sources) -> Vec<String> {
        if self.listener.is_none() {
            return vec![];
        }
        let line = |span: u32| {
            let place = code.place(span).0;
            let known = sources.files().any(|(file, _)| file == place.file);
            if known { format!(":{}", sources.line_column(place).0) } else { String::new() }
        };
        let name = |(k, &span): (usize, &u32)| format!("clk:{kernel}{}#{k}", line(span));
        code.region_spans.iter().enumerate().map(name).collect()
    }

    pub fn statistics(&self) -> Statistics {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let machine_code = MachineCode {
            regions: of(&self.regions),
            compiled: of(&self.compiled),
            bytes: of(&self.bytes),
            seconds: of(&self.nanos) as f64 * 1e-9,
            entered: of(&self.entered),
            left: of(&self.left),
        };
        Statistics { launches: of(&self.launches), machine_code: Some(machine_code), ..Statistics::default() }
    }
}
