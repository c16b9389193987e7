//! The versions of a region's machine code: one for whole groups, and one for any group.
//!
//! Input: a region, how groups are divided, and each group that enters. Output: the code that the group runs. The idea: most entries
//! are of groups all of whose lanes are active, for which code needs neither masks nor most checks of coordinates; the other version is
//! compiled when a group first needs it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::machine::{self, Division, Machine};
use crate::device::sim::code::Code;
use crate::device::sim::group::{Group, RegionCode};
use crate::device::sim::lane::Region;
use crate::device::sim::report::Report;

struct Versions {
    /// For whole groups.
    whole: Option<Machine>,
    /// For any group; `None` inside where there can be no code.
    any: OnceLock<Option<Machine>>,
    division: Division,
    forced: bool,
    report: Arc<Report>,
    /// The region's name, if somebody listens to the report.
    name: String,
}

/// Compiles a region, at first for whole groups if there are any. `None` if there can be no code. `forced`: the code also leaves for
/// no reason. Later versions are announced to the report.
pub(crate) fn compile(
    region: &Region,
    code: &Code,
    (division, forced): (Division, bool),
    (report, name): (&Arc<Report>, Option<&String>),
) -> Option<Box<dyn RegionCode>> {
    let whole = division.whole().and_then(|extents| machine::compile(region, code, division, forced, Some(extents)));
    let (report, name) = (report.clone(), name.cloned().unwrap_or_default());
    let versions = Versions { whole, any: OnceLock::new(), division, forced, report, name };
    if versions.whole.is_none() {
        let any = machine::compile(region, code, division, forced, None)?;
        let _ = versions.any.set(Some(any));
    }
    Some(Box::new(versions))
}

impl Versions {
    /// Returns the code for any group. The first worker that needs it compiles it.
    fn any(&self, g: &Group, region: usize) -> Option<&Machine> {
        let compiled = || {
            let begin = Instant::now();
            let code = g.code();
            let machine = machine::compile(&code.regions[region], code, self.division, self.forced, None)?;
            self.report.announce_version(machine.place(), begin.elapsed(), &self.name);
            Some(machine)
        };
        self.any.get_or_init(compiled).as_ref()
    }
}

impl RegionCode for Versions {
    unsafe fn run(&self, g: &mut Group, region: usize) -> bool {
        if g.lo >= g.hi || g.shape[3] != 1 {
            return false;
        }
        // SAFETY: the caller's region is one of the group's code, at which the group is.
        unsafe {
            match &self.whole {
                Some(whole) if whole.takes(g) => whole.run(g, region, 0),
                _ => self.any(g, region).is_some_and(|any| any.run(g, region, 1)),
            }
        }
    }

    fn is_forced(&self) -> bool {
        self.forced
    }

    fn place(&self) -> (usize, usize) {
        let any = || self.any.get().and_then(Option::as_ref);
        self.whole.as_ref().or_else(any).map_or((0, 0), Machine::place)
    }
}
