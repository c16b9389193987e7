//! Counts by line of the source.
//!
//! Input: the counts of a kernel's accesses and segments, by place. Output: a row for each line that has any, in the order of the source, with
//! its part of the kernel's cost.

use std::collections::BTreeMap;

use crate::base::source::{FileId, Sources, Span};
use crate::device::profile::{Access, Cost, Profile, Work};

/// What a line costs.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Warps that executed it, and their threads that took part.
    pub warps: u64,
    pub lanes: u64,
    /// Accesses to global and to shared memory.
    pub global: Cost,
    pub shared: Cost,
    /// Operations of all threads.
    pub work: Work,
    /// Instructions of warps.
    pub instructions: u64,
    /// The part of the kernel's cost, from 0 to 1.
    pub part: f64,
}

/// The rows of a kernel by file and line, from 1.
pub type Rows = BTreeMap<(FileId, usize), Row>;

/// Bytes of memory that a multiprocessor gets in a clock, about: what a sector costs beside an instruction.
const BYTES: f64 = 16.0;

/// Returns the rows of a kernel.
pub fn rows(profile: &Profile, sources: &Sources) -> Rows {
    let mut rows = Rows::new();
    let line = |span: Span| (span.file, sources.line_column(span).0);
    for Access { span, shared, cost, .. } in &profile.accesses {
        let row = rows.entry(line(*span)).or_default();
        if *shared { row.shared.add(cost) } else { row.global.add(cost) }
    }
    for segment in &profile.segments {
        for (span, work) in &segment.work {
            let row = rows.entry(line(*span)).or_default();
            // The same warps pass all places of a segment; of several segments on a line the busiest counts.
            if segment.warps > row.warps {
                (row.warps, row.lanes) = (segment.warps, segment.lanes);
            }
            row.work.add(work, segment.lanes);
            row.instructions += work.instructions * segment.warps;
        }
    }
    let cost = |row: &Row| {
        let clocks = row.instructions as f64 / 4.0 + row.global.lines as f64 + row.shared.passes as f64;
        clocks + 32.0 * row.global.sectors as f64 / BYTES
    };
    let all: f64 = rows.values().map(cost).sum();
    for row in rows.values_mut() {
        row.part = if all > 0.0 { cost(row) / all } else { 0.0 };
    }
    rows
}
