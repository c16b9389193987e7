//! The versions of a region's machine code: one for full groups, and one for any group.
//!
//! Input: a region, the division of groups into vectors, and each group that enters the region. Output: the code that
//! the group runs. Main idea: most groups that enter are full groups, whose code needs no entry masks and few bounds
//! checks. The general version is compiled when a group first needs it. Inner regions of a region with barriers are
//! compiled lazily as well.

use std::sync::{Arc, OnceLock};

use super::batching::VectorDivision;
use super::block_prefetch::RegisterDeltas;
use super::compiled_region::{self, CompiledRegion};
use crate::code::KernelTables;
use crate::group::{RegionCode, ThreadGroup};
use crate::lir::LaneRegion;
use crate::statistics::SimStatistics;
use clk_base::clock::Instant;

struct CodeVersions {
    /// `full_group` is the code for full groups, `any` the code for any group. A cell is empty until its version is
    /// compiled, and contains `None` if the version cannot be compiled.
    full_group: OnceLock<Option<CompiledRegion>>,
    any: OnceLock<Option<CompiledRegion>>,
    division: VectorDivision,
    forced: bool,
    registers: Arc<OnceLock<RegisterDeltas>>,
    report: Arc<SimStatistics>,
    /// The region's name for the report, or an empty string if nothing listens to it.
    name: String,
}

/// Compiles the regions of a kernel, first for full groups if possible. The result is `None` for regions that cannot be
/// compiled. `forced`: for tests, the code also takes side exits although no check fails. Versions that are compiled
/// later are added to the report.
pub(crate) fn compile(
    code: &KernelTables,
    division: VectorDivision,
    forced: bool,
    report: &Arc<SimStatistics>,
    names: &[String],
) -> Vec<Option<Box<dyn RegionCode>>> {
    let registers: Arc<OnceLock<RegisterDeltas>> = Arc::default();
    let mut compiled: Vec<Option<Box<dyn RegionCode>>> = vec![];
    // The numbers of the inner regions of the last region that has code.
    let mut parts = code.regions.len()..code.regions.len();
    for (number, region) in code.regions.iter().enumerate().rev() {
        let versions = CodeVersions {
            full_group: OnceLock::new(),
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

impl CodeVersions {
    /// Compiles the first version, and returns whether this succeeded.
    fn begin(&self, code: &KernelTables, region: &LaneRegion) -> bool {
        let full_group = self.division.full_group().and_then(|extents| self.compile(code, region, Some(extents)));
        let has_whole = self.full_group.get_or_init(|| full_group).is_some();
        has_whole || self.any.get_or_init(|| self.compile(code, region, None)).is_some()
    }

    fn compile(
        &self,
        code: &KernelTables,
        region: &LaneRegion,
        full_group: Option<[u32; 3]>,
    ) -> Option<CompiledRegion> {
        compiled_region::compile(region, code, self.division, self.forced, full_group, &self.registers)
    }

    /// Compiles a version when a group first needs it, while the worker thread waits.
    fn compile_lazily(&self, g: &ThreadGroup, region: usize, full_group: Option<[u32; 3]>) -> Option<CompiledRegion> {
        let begin = Instant::now();
        let code = g.code();
        let machine = self.compile(code, &code.regions[region], full_group)?;
        let (address, bytes) = machine.place();
        self.report.announce_version(address, bytes, begin.elapsed(), &self.name);
        Some(machine)
    }

    /// Returns the code for full groups.
    fn full_group(&self, g: &ThreadGroup, region: usize) -> Option<&CompiledRegion> {
        let compiled = || self.division.full_group().and_then(|extents| self.compile_lazily(g, region, Some(extents)));
        self.full_group.get_or_init(compiled).as_ref()
    }

    /// Returns the code for any group.
    fn any(&self, g: &ThreadGroup, region: usize) -> Option<&CompiledRegion> {
        self.any.get_or_init(|| self.compile_lazily(g, region, None)).as_ref()
    }
}

impl RegionCode for CodeVersions {
    unsafe fn run(&self, g: &mut ThreadGroup, region: usize) -> bool {
        if g.mask.is_empty() || g.shape.extents[3] != 1 {
            return false;
        }
        // SAFETY: the region belongs to the group's code, and the group is at it (caller).
        unsafe {
            match self.full_group(g, region) {
                Some(full_group) if full_group.accepts(g) => full_group.run(g, region, 0),
                _ => self.any(g, region).is_some_and(|any| any.run(g, region, 1)),
            }
        }
    }

    fn exits_at_random(&self) -> bool {
        self.forced
    }

    fn code_range(&self) -> (usize, usize) {
        let first = self.full_group.get().and_then(Option::as_ref).or_else(|| self.any.get().and_then(Option::as_ref));
        first.map_or((0, 0), CompiledRegion::place)
    }
}
