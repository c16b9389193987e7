//! Costs by source line.
//!
//! Input: the counts of a kernel's accesses and straight-line segments, by source location. Output: the costs of each
//! line with costs, in source order, with the line's share of the kernel's cost.

use std::collections::BTreeMap;

use clk_base::source::{FileId, SourceMap, Span};
use clk_runtime::profile::{AccessCost, AccessProfile, OpCounts, Profile};

/// The costs of a source line.
#[derive(Clone, Debug, Default)]
pub struct LineCost {
    /// The number of warps that executed the line.
    pub warps: u64,
    /// The number of active threads in these warps.
    pub lanes: u64,
    /// The accesses to global memory.
    pub global: AccessCost,
    /// The accesses to shared memory.
    pub shared: AccessCost,
    /// The operations, summed over all threads.
    pub work: OpCounts,
    /// The number of warp instructions.
    pub instructions: u64,
    /// The line's fraction of the kernel's cost, from 0 to 1.
    pub part: f64,
}

/// The costs of a kernel by file and line number (from 1).
pub type LineCosts = BTreeMap<(FileId, usize), LineCost>;

/// Approximate memory bandwidth of a multiprocessor in bytes per clock. Converts memory traffic to clocks, so that its
/// cost can be added to the cost of instructions.
const BYTES: f64 = 16.0;

/// Returns the costs of a kernel by source line.
pub fn line_costs(profile: &Profile, sources: &SourceMap) -> LineCosts {
    let mut rows = LineCosts::new();
    let line = |span: Span| {
        let span = sources.original(span);
        (span.file, sources.line_column(span).0)
    };
    for AccessProfile { span, shared, cost, .. } in &profile.accesses {
        let row = rows.entry(line(*span)).or_default();
        if *shared { row.shared.add(cost) } else { row.global.add(cost) }
    }
    for segment in &profile.segments {
        for (span, work) in &segment.work {
            let row = rows.entry(line(*span)).or_default();
            // The same warps execute all locations of a segment. If a line contains several segments, the one with the
            // most warps determines the line's number of warps.
            if segment.warps > row.warps {
                (row.warps, row.lanes) = (segment.warps, segment.lanes);
            }
            row.work.add(work, segment.lanes);
            row.instructions += work.instructions * segment.warps;
        }
    }
    let cost = |row: &LineCost| {
        let clocks = row.instructions as f64 / 4.0 + row.global.lines as f64 + row.shared.passes as f64;
        clocks + 32.0 * row.global.sectors as f64 / BYTES
    };
    let all: f64 = rows.values().map(cost).sum();
    for row in rows.values_mut() {
        row.part = if all > 0.0 { cost(row) / all } else { 0.0 };
    }
    rows
}
