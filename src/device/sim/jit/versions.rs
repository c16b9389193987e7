//! The versions of a region's machine code: one for whole groups, and one for any group.
//!
//! Input: a region, how groups are divided, and each group that enters. Output: the code that the group runs. The idea: most entries
//! are of groups all of whose lanes are active, for which code needs neither masks nor most checks of coordinates; the other version is
//! compiled when a group first needs it, and so are both of a region that is part of one with barriers.

use std::sync::{Arc, OnceLock};

use super::ahead::Registers;
use super::division::Division;
use super::machine::{self, Machine};
use crate::base::clock::Instant;
use crate::device::sim::code::Code;
use crate::device::sim::group::{Group, RegionCode};
use crate::device::sim::lane::Region;
use crate::device::sim::report::Report;

struct Versions {
    /// For whole groups, and for any group; `None` inside where there can be no code.
    whole: OnceLock<Option<Machine>>,
    any: OnceLock<Option<Machine>>,
    division: Division,
    forced: bool,
    registers: Arc<OnceLock<Registers>>,
    report: Arc<Report>,
    /// The region's name, if somebody listens to the report.
    name: String,
}

/// Compiles the regions of a kernel, at first for whole groups if there are any. `None` where there can be no code. `forced`: the code
/// also leaves for no reason. Later versions are announced to the report.
pub(crate) fn compile(
    code: &Code,
    (division, forced): (Division, bool),
    (report, names): (&Arc<Report>, &[String]),
) -> Vec<Option<Box<dyn RegionCode>>> {
    let registers: Arc<OnceLock<Registers>> = Arc::default();
    let mut compiled: Vec<Option<Box<dyn RegionCode>>> = vec![];
    // Regions before this one that are part of another one, which has code.
    let mut parts = code.regions.len()..code.regions.len();
    for (number, region) in code.regions.iter().enumerate().rev() {
        let versions = Versions {
            whole: OnceLock::new(),
            any: OnceLock::new(),
            division,
            forced,
            registers: registers.clone(),
            report: report.clone(),
            name: names.get(number).cloned().unwrap_or_default(),
        };
        let has_code = parts.contains(&number) || versions.begin(code, region);
        if has_code && !parts.contains(&number) {
            parts = number - region.inner as usize..number;
        }
        compiled.push(has_code.then(|| Box::new(versions) as Box<dyn RegionCode>));
    }
    compiled.reverse();
    compiled
}

impl Versions {
    /// Compiles the first version; returns whether there is one.
    fn begin(&self, code: &Code, region: &Region) -> bool {
        let whole = self.division.whole().and_then(|extents| self.compile(code, region, Some(extents)));
        let has_whole = self.whole.get_or_init(|| whole).is_some();
        has_whole || self.any.get_or_init(|| self.compile(code, region, None)).is_some()
    }

    fn compile(&self, code: &Code, region: &Region, whole: Option<[u32; 3]>) -> Option<Machine> {
        machine::compile(region, code, self.division, self.forced, (whole, &self.registers))
    }

    /// Compiles another version, for which a worker waits.
    fn later(&self, g: &Group, region: usize, whole: Option<[u32; 3]>) -> Option<Machine> {
        let begin = Instant::now();
        let code = g.code();
        let machine = self.compile(code, &code.regions[region], whole)?;
        self.report.announce_version(machine.place(), begin.elapsed(), &self.name);
        Some(machine)
    }

    /// Returns the code for whole groups.
    fn whole(&self, g: &Group, region: usize) -> Option<&Machine> {
        let compiled = || self.division.whole().and_then(|extents| self.later(g, region, Some(extents)));
        self.whole.get_or_init(compiled).as_ref()
    }

    /// Returns the code for any group.
    fn any(&self, g: &Group, region: usize) -> Option<&Machine> {
        self.any.get_or_init(|| self.later(g, region, None)).as_ref()
    }
}

impl RegionCode for Versions {
    unsafe fn run(&self, g: &mut Group, region: usize) -> bool {
        if g.lo >= g.hi || g.shape[3] != 1 {
            return false;
        }
        // SAFETY: the caller's region is one of the group's code, at which the group is.
        unsafe {
            match self.whole(g, region) {
                Some(whole) if whole.takes(g) => whole.run(g, region, 0),
                _ => self.any(g, region).is_some_and(|any| any.run(g, region, 1)),
            }
        }
    }

    fn is_forced(&self) -> bool {
        self.forced
    }

    fn place(&self) -> (usize, usize) {
        let first = self.whole.get().and_then(Option::as_ref).or_else(|| self.any.get().and_then(Option::as_ref));
        first.map_or((0, 0), Machine::place)
    }
}
