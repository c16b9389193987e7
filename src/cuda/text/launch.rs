//! Computes the geometry and shared memory of a launch, by the rules of [`abi`](super::abi).

use super::abi::{CudaGeometry, CudaKernel, LaunchExtent, MAX_GRID, NARROW};
use super::generator::CudaGenerator;
use super::product;
use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::ranges::{LaunchConstant, SymbolInequality};
use clk_runtime::LaunchExtents;
use clk_runtime::fault_record::{FaultSite, FaultSiteKind, format_message};
use clk_runtime::launch_facts::{LaunchFacts, evaluate, holds};
use clk_scalar::ScalarValue;

/// The grid and block of a CUDA launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CudaGrid {
    pub grid: [u32; 3],
    pub block: [u32; 3],
}

/// The reason why shared memory cannot be laid out, and the source location of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedLayoutError {
    pub why: SharedLayoutReason,
    pub span: Span,
}

/// The reason why a block cannot have its shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SharedLayoutReason {
    /// The block needs this many bytes, which exceeds the limit.
    Bytes(u64),
    /// The array with this name would have this invalid extent.
    Extent(String, i64),
}

/// The maximum shared memory of a block in bytes, as in the simulator.
pub(crate) const SHARED_LIMIT: u64 = 227 * 1024;

/// Returns whether code with 32-bit offsets suffices: all offsets fit in 32 bits, and indices are far from the 32-bit
/// limit.
pub(crate) fn is_narrow(module: &Module, facts: &dyn LaunchFacts) -> bool {
    let is_narrow_extent = |n: u64| n <= NARROW;
    let arrays = (0..module.kernel.params.len()).all(|param| {
        let rank = facts.rank(param).unwrap_or(0);
        let extents: Vec<u64> = (0..rank).filter_map(|axis| facts.extent(param, axis)).map(u64::from).collect();
        let elements = extents.iter().try_fold(1u64, |product, &n| product.checked_mul(n));
        extents.iter().all(|&n| is_narrow_extent(n)) && elements.is_some_and(|n| n <= i32::MAX as u64)
    });
    arrays
        && match facts.extents() {
            LaunchExtents::Threads(sizes) => {
                // The number of rows and planes determines the number of blocks along y and z, for which CUDA has lower
                // limits.
                is_narrow_extent(sizes[0].into())
                    && is_narrow_extent(sizes[1].into())
                    && is_narrow_extent(sizes[2].into())
                    && {
                        let rank = match module.kernel.form {
                            LaunchForm::Threads { rank } => rank,
                            LaunchForm::Grid => 1,
                        };
                        (0..rank.saturating_sub(1) as usize).all(|k| sizes[k] <= MAX_GRID[1])
                    }
            }
            LaunchExtents::Grid { grid, block } => {
                (0..3).all(|k| is_narrow_extent(u64::from(grid[k]) * u64::from(block[k])))
            }
        }
}

impl CudaKernel {
    /// Returns the source location of each guarded access.
    pub fn guarded(&self) -> Vec<Span> {
        let access = |place: &&FaultSite| matches!(place.kind, FaultSiteKind::OutOfBounds { .. });
        self.places.iter().filter(access).map(|place| place.span).collect()
    }

    /// Returns whether the code's assumptions hold for a launch.
    pub(crate) fn assumptions_hold(&self, facts: &dyn LaunchFacts) -> bool {
        self.assumptions.iter().all(|bound| holds(bound, facts) == Some(true))
    }

    /// Returns the index extents in the meaning of the generated code's parameters and conditions.
    pub(crate) fn own_extents(&self, extents: LaunchExtents) -> LaunchExtents {
        match (self.geometry, extents) {
            (CudaGeometry::Product { tile, .. }, LaunchExtents::Grid { grid, .. }) => product::extents(tile, grid),
            _ => extents,
        }
    }

    /// Returns the grid and the block, or `None` if the launch has no threads. Blocks of a product compute tiles until
    /// none are left, so there may be fewer blocks than tiles.
    pub(crate) fn grid(&self, extents: LaunchExtents) -> Option<CudaGrid> {
        match (self.geometry, self.own_extents(extents)) {
            (CudaGeometry::Product { own, threads, .. }, LaunchExtents::Threads([rows, columns, _])) => {
                let tiles = product::tiles(own, rows, columns).try_into().ok().filter(|&tiles| tiles > 0);
                tiles.map(|tiles| CudaGrid { grid: [tiles, 1, 1], block: [threads, 1, 1] })
            }
            (CudaGeometry::Threads { rank, block, covers }, LaunchExtents::Threads(sizes)) => {
                let mut grid = [1; 3];
                for (axis, blocks) in grid.iter_mut().enumerate().take(rank as usize) {
                    let size = sizes[rank as usize - 1 - axis];
                    *blocks = size.div_ceil(covers[axis]).min(MAX_GRID[axis]);
                }
                grid.iter().all(|&n| n > 0).then_some(CudaGrid { grid, block })
            }
            (CudaGeometry::Tiles { threads, .. }, LaunchExtents::Grid { grid, block }) => {
                grid.iter().chain(&block).all(|&n| n > 0).then_some(CudaGrid { grid, block: [threads, 1, 1] })
            }
            (_, LaunchExtents::Grid { grid, block }) => {
                grid.iter().chain(&block).all(|&n| n > 0).then_some(CudaGrid { grid, block })
            }
            (CudaGeometry::Grid | CudaGeometry::Tiles { .. }, LaunchExtents::Threads(_)) => None,
        }
    }

    /// Returns the size of dynamic shared memory in bytes.
    pub(crate) fn shared_bytes(&self, module: &Module, facts: &dyn LaunchFacts) -> Result<u32, SharedLayoutError> {
        match self.geometry {
            CudaGeometry::Product { shared, .. } | CudaGeometry::Tiles { shared, .. } => return Ok(shared),
            _ => {}
        }
        let function = &module.functions[module.kernel.body];
        let mut used = 0u64;
        for array in &self.dynamic_shared {
            let mut bytes = array.element as u64;
            for extent in &array.extents {
                let n = match extent {
                    LaunchExtent::Known(n) => u64::from(*n),
                    LaunchExtent::Computed(id) => {
                        let value = evaluate(function, *id, facts).and_then(ScalarValue::as_integer);
                        let extent = value.map_or(i64::MIN, |n| i64::try_from(n).unwrap_or(i64::MAX));
                        let why = || SharedLayoutReason::Extent(array.name.clone(), extent);
                        u64::try_from(extent).map_err(|_| SharedLayoutError { why: why(), span: array.span })?
                    }
                };
                bytes = bytes.saturating_mul(n);
            }
            used = used.next_multiple_of(16).saturating_add(bytes);
            let total = used.saturating_add(self.static_shared.into());
            if total > SHARED_LIMIT {
                return Err(SharedLayoutError { why: SharedLayoutReason::Bytes(total), span: array.span });
            }
        }
        Ok(used.next_multiple_of(16) as u32)
    }

    /// Returns the text in a print buffer, and the number of lost records. The text is sorted by block, and within a
    /// block (or a `threads` kernel) by statement and thread.
    pub fn printed(&self, buffer: &[u8]) -> (String, u64) {
        let word =
            |at: usize| buffer.get(4 * at..4 * at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 1)) << 32;
        let threads = matches!(self.geometry, CudaGeometry::Threads { .. });
        let (used, capacity) = (word(0) as usize, word(1) as usize);
        let mut records = vec![];
        let (mut at, mut lost) = (2, 0);
        while at < 2 + used.min(capacity) && word(at) != 0 {
            let (number, thread, block) = (word(at + 2), word(at + 3), long(at + 4));
            let group = if threads { 0 } else { block };
            let thread_key = if threads { block } else { thread.into() };
            records.push(((group, number, thread_key), at));
            at += word(at) as usize;
        }
        if used > capacity {
            lost = (used - capacity.min(at - 2)) as u64;
        }
        records.sort();
        let mut text = String::new();
        for (_, at) in records {
            let Some(pieces) = self.prints.get(word(at + 1) as usize) else { continue };
            let values = (at + 6..at + word(at) as usize).step_by(2).map(long);
            text.push_str(&format_message(pieces, values));
        }
        (text, lost)
    }
}

impl CudaGenerator<'_> {
    /// Returns an inequality as text for messages.
    pub fn bound(&self, bound: &SymbolInequality) -> String {
        let left = match (bound.left, bound.plus) {
            (None, plus) => plus.to_string(),
            (Some(left), 0) => self.symbol_name(left),
            (Some(left), plus) if plus > 0 => format!("{} + {plus}", self.symbol_name(left)),
            (Some(left), plus) => format!("{} - {}", self.symbol_name(left), -plus),
        };
        let right = match bound.right {
            Ok(right) => self.symbol_name(right),
            Err(number) => number.to_string(),
        };
        format!("{left} <= {right}")
    }

    fn symbol_name(&self, symbol: LaunchConstant) -> String {
        let axis = |k: u8| ["x", "y", "z"][k as usize % 3];
        match symbol {
            LaunchConstant::Extent { param, axis } => {
                format!("extent {axis} of {}", self.naming.params[param as usize])
            }
            LaunchConstant::Param(i) => self.naming.params[i as usize].clone(),
            LaunchConstant::Index(k) => {
                self.naming.indices.get(k as usize).map_or(String::new(), |(_, extent)| extent.clone())
            }
            LaunchConstant::BlockDim(k) => format!("blockDim.{}", axis(k)),
            LaunchConstant::GridDim(k) => format!("gridDim.{}", axis(k)),
            LaunchConstant::Threads(k) => format!("gridDim.{0} * blockDim.{0}", axis(k)),
        }
    }
}
