//! The tile programs for which devices have code: their tiles fit the registers of a GPU, and its copy instructions
//! support their windows.

use super::{ArrayWindow, TERM_GROUP, TileGemmOperand, TileProgram, TileStep, TileTarget, accessed_arrays};
use crate::def::{Access, KernelParam, Module, Scalar};

/// The number of rows of a tile is a multiple of this, since the instructions of a warpgroup compute as many rows.
const ROW_GROUP: u32 = 64;
const MAX_ROWS: u32 = 192;
/// The number of columns of a tile is a multiple of this.
const COLUMN_GROUP: u32 = 8;
const MAX_COLUMNS: u32 = 256;
/// The limits of copies to shared memory: the indices along an axis from the first to the last one, and the step.
const MAX_BOX: u32 = 256;
const MAX_BOX_STEP: u32 = 8;
const MAX_LOOP_STEP: u32 = 1 << 20;

impl TileProgram {
    /// Returns whether devices have code for the program. Other programs only describe their kernels.
    pub fn is_supported(&self) -> bool {
        let TileProgram { rows, tiles, steps, .. } = self;
        let mut reads_inputs = true;
        self.each_module(&mut |element| reads_inputs &= reads_only_inputs(element));
        let tiles_fit = tiles.iter().all(|tile| {
            let is_word = matches!(tile.scalar, Scalar::F32 | Scalar::I32 | Scalar::U32);
            let is_lhs = tile.is_lhs && tile.columns.is_some_and(|columns| columns.is_multiple_of(TERM_GROUP));
            (is_word || is_lhs) && are_columns_supported(tile.columns)
        });
        let rows_fit = rows.is_multiple_of(ROW_GROUP) && *rows <= MAX_ROWS;
        rows_fit && tiles_fit && reads_inputs && steps.iter().all(is_step_supported)
    }
}

fn are_columns_supported(columns: Option<u32>) -> bool {
    columns.is_none_or(|n| n.is_multiple_of(COLUMN_GROUP) && n <= MAX_COLUMNS)
}

fn is_step_supported(step: &TileStep) -> bool {
    match step {
        TileStep::Map { to: TileTarget::Array(columns), .. } => are_columns_supported(*columns),
        TileStep::Map { .. } | TileStep::Reduce { .. } | TileStep::Barrier => true,
        TileStep::Mma { a, b, .. } => {
            let window = if let TileGemmOperand::Window(a) = a { Some(a) } else { None };
            window.into_iter().chain([b]).all(is_window_supported)
        }
        TileStep::If { then, other, .. } => then.iter().chain(other).all(is_step_supported),
        TileStep::Repeat { step, body, .. } => *step <= MAX_LOOP_STEP && body.iter().all(is_step_supported),
    }
}

fn is_window_supported(window: &ArrayWindow) -> bool {
    let axes_fit = window.axes.iter().all(|axis| {
        axis.step <= MAX_BOX_STEP && u64::from(axis.extent - 1) * u64::from(axis.step) < u64::from(MAX_BOX)
    });
    axes_fit && window.extents().iter().all(|&extent| extent <= MAX_COLUMNS)
}

fn reads_only_inputs(element: &Module) -> bool {
    let access_of = |param: u32| element.kernel.params.get(param as usize).and_then(KernelParam::access);
    accessed_arrays(element).loads.into_iter().all(|param| access_of(param) == Some(Access::In))
}
