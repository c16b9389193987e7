//! TileIR: kernels that compute only with tiles, as steps that a whole block executes.
//!
//! A [`TileProgram`] is an alternative to the body of a kernel, with bit-identical results. `verify` checks its
//! invariants, `text` prints and parses it, and `docs/internals/tileir.md` describes it.

mod element;
mod limits;

use crate::def::Module;

pub use crate::def::{
    ArrayShape, ArrayWindow, GemmKernel, GemmOperand, TileAxis, TileGemmOperand, TileProgram, TileStep, TileTarget,
    TileVar,
};
pub use element::{AccessedArrays, accessed_arrays, is_elementwise, updates_in_place};

/// The number of terms of a matrix product that are added at once. A product has a multiple of this number of terms.
pub const TERM_GROUP: u32 = 16;

impl TileProgram {
    /// Calls `f` with every element kernel of the program.
    pub fn each_module<'a>(&'a self, f: &mut impl FnMut(&'a Module)) {
        self.steps.iter().for_each(|step| step.each_module(f));
    }

    /// Calls `f` with every element kernel of the program.
    pub fn each_module_mut(&mut self, f: &mut impl FnMut(&mut Module)) {
        self.steps.iter_mut().for_each(|step| step.each_module_mut(f));
    }
}

impl TileStep {
    /// Calls `f` with the element kernels of the step and of the steps in it.
    pub fn each_module<'a>(&'a self, f: &mut impl FnMut(&'a Module)) {
        match self {
            TileStep::Map { element: module, .. } | TileStep::Reduce { combine: module, .. } => f(module),
            TileStep::Mma { a, b, .. } => {
                if let TileGemmOperand::Window(a) = a {
                    a.each_module(f);
                }
                b.each_module(f);
            }
            TileStep::If { cond, then, other } => {
                f(cond);
                then.iter().chain(other).for_each(|step| step.each_module(f));
            }
            TileStep::Barrier => {}
            TileStep::Repeat { bounds, body, .. } => {
                bounds.iter().for_each(&mut *f);
                body.iter().for_each(|step| step.each_module(f));
            }
        }
    }

    /// Calls `f` with the element kernels of the step and of the steps in it.
    pub fn each_module_mut(&mut self, f: &mut impl FnMut(&mut Module)) {
        match self {
            TileStep::Map { element: module, .. } | TileStep::Reduce { combine: module, .. } => f(module),
            TileStep::Mma { a, b, .. } => {
                if let TileGemmOperand::Window(a) = a {
                    a.each_module_mut(f);
                }
                b.each_module_mut(f);
            }
            TileStep::If { cond, then, other } => {
                f(cond);
                then.iter_mut().chain(other).for_each(|step| step.each_module_mut(f));
            }
            TileStep::Barrier => {}
            TileStep::Repeat { bounds, body, .. } => {
                bounds.iter_mut().for_each(&mut *f);
                body.iter_mut().for_each(|step| step.each_module_mut(f));
            }
        }
    }
}

impl ArrayWindow {
    /// The maximum number of axes of the array.
    pub const MAX_AXES: usize = 5;

    /// Returns the number of rows and columns of the window.
    pub fn extents(&self) -> [u32; 2] {
        let columns = self.axes.last().map_or(1, |axis| axis.extent);
        [self.axes.iter().map(|axis| axis.extent).product::<u32>() / columns, columns]
    }

    fn each_module<'a>(&'a self, f: &mut impl FnMut(&'a Module)) {
        self.axes.iter().for_each(|axis| f(&axis.start));
        f(&self.element);
    }

    fn each_module_mut(&mut self, f: &mut impl FnMut(&mut Module)) {
        self.axes.iter_mut().for_each(|axis| f(&mut axis.start));
        f(&mut self.element);
    }
}
