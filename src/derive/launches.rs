//! The launches for which a derivative must be correct.
//!
//! Input: a kernel with the geometry of a launch, or with the symbolic launch that its signature describes. Output: a
//! symbolic launch. A derivative is launched with the geometry of its primal kernel and additional arrays.

use rustc_hash::{FxHashMap, FxHashSet};

use super::derived::DerivedParamRole;
use clk_ir::def::*;
use clk_ir::footprint::vars::{VarRole as Belongs, VarSpace as Variables};
use clk_ir::footprint::{SymbolicGrid, SymbolicLaunch, number, variable};
use clk_runtime::LaunchExtents;
use clk_scalar::exact::limits;

const MAX_EXTENT: i128 = i32::MAX as i128;

/// Known facts about the launches of a kernel.
#[derive(Clone, Debug, Default)]
pub struct DerivativeLaunches {
    /// The launches in symbolic form; `None` if nothing is known about them.
    symbolic: Option<SymbolicLaunch>,
    /// The positions of array parameters each of whose elements is accessed by only one thread.
    pub(super) private: FxHashSet<u32>,
}

impl DerivativeLaunches {
    /// Creates the facts from a symbolic launch.
    pub fn new(module: &Module, launch: SymbolicLaunch) -> DerivativeLaunches {
        DerivativeLaunches { symbolic: Some(with_defaults(launch, module)), private: FxHashSet::default() }
    }

    /// Creates the facts for launches of a `threads` kernel with arbitrary extents, or of a `grid` kernel with the
    /// geometry `extents`.
    pub fn for_extents(module: &Module, extents: LaunchExtents) -> DerivativeLaunches {
        let mut launch = SymbolicLaunch::default();
        match (module.kernel.form, extents) {
            (LaunchForm::Threads { rank }, LaunchExtents::Threads(_)) => {
                let mut index = |k| launch.variables.fresh(format!("index {k}"), Belongs::Thread, 0, MAX_EXTENT - 1);
                launch.indices = (0..rank).map(|k| variable(index(k))).collect();
            }
            (LaunchForm::Grid, LaunchExtents::Grid { grid, block }) => {
                launch.grid = Some(symbolic_grid(&mut launch.variables, grid, block));
            }
            _ => return DerivativeLaunches::default(),
        }
        DerivativeLaunches::new(module, launch)
    }

    /// Returns the symbolic launch, if anything is known about the launches.
    pub fn symbolic_launch(&self) -> Option<&SymbolicLaunch> {
        self.symbolic.as_ref()
    }

    /// Returns the facts about the launches of a derivative whose parameters have these roles.
    pub fn for_derivative(&self, module: &Module, params: &[DerivedParamRole]) -> DerivativeLaunches {
        let primal_param = |role: &DerivedParamRole| match *role {
            DerivedParamRole::Primal(param) | DerivedParamRole::Tangent(param) | DerivedParamRole::Adjoint(param) => {
                Some(param as u32)
            }
            DerivedParamRole::Extent(_)
            | DerivedParamRole::Sums(_)
            | DerivedParamRole::Tape(_)
            | DerivedParamRole::Counts => None,
        };
        let mut private = FxHashSet::default();
        for (position, role) in params.iter().enumerate() {
            let is_private = primal_param(role).is_none_or(|param| self.private.contains(&param));
            private.extend(is_private.then_some(position as u32));
        }
        let Some(old) = &self.symbolic else { return DerivativeLaunches { symbolic: None, private } };
        let mut launch = SymbolicLaunch { extents: FxHashMap::default(), params: FxHashMap::default(), ..old.clone() };
        launch.variables.array_promises.clear();
        for (position, role) in params.iter().enumerate() {
            let (position, Some(param)) = (position as u32, primal_param(role)) else { continue };
            if let Some(KernelParam::Array { memory, .. }) = module.kernel.params.get(position as usize) {
                for axis in 0..module.functions[module.kernel.body].memories[*memory].extents.len() as u8 {
                    let extent = old.extents.get(&(param, axis)).cloned();
                    launch.extents.extend(extent.map(|extent| ((position, axis), extent)));
                }
            }
            if let DerivedParamRole::Primal(_) = role {
                launch.params.extend(old.params.get(&param).map(|form| (position, form.clone())));
                let promised = old.variables.array_promises.get(&param);
                launch.variables.array_promises.extend(promised.map(|promised| (position, promised.clone())));
            }
        }
        DerivativeLaunches { symbolic: Some(with_defaults(launch, module)), private }
    }
}

fn symbolic_grid(variables: &mut Variables, grid: [u32; 3], block: [u32; 3]) -> SymbolicGrid {
    let names = ["x", "y", "z"];
    let mut part = |k: usize, kind: &str, role: Belongs, count: u32| match count {
        1 => number(0),
        _ => variable(variables.fresh(format!("{kind}_idx.{}", names[k]), role, 0, (i128::from(count) - 1).max(0))),
    };
    let thread = std::array::from_fn(|k| part(k, "thread", Belongs::Thread, block[k]));
    let block_idx = std::array::from_fn(|k| part(k, "block", Belongs::Block, grid[k]));
    let global = std::array::from_fn(|k| {
        let first = variables.product(&block_idx[k], &number(i128::from(block[k])));
        first.add(&thread[k]).unwrap_or_default()
    });
    let extents = |of: [u32; 3]| of.map(|n| number(i128::from(n)));
    SymbolicGrid { thread, block_idx, block: extents(block), grid: extents(grid), global }
}

/// Adds unconstrained variables for the extents and integer parameters that the symbolic launch does not contain.
fn with_defaults(mut launch: SymbolicLaunch, module: &Module) -> SymbolicLaunch {
    for (position, param) in module.kernel.params.iter().enumerate() {
        let position = position as u32;
        match param {
            KernelParam::Value { name, ty: Ty::Scalar(scalar) } if scalar.is_int() => {
                let (low, high) = limits(*scalar);
                let variables = &mut launch.variables;
                let unconstrained = || variable(variables.fresh(name.as_str(), Belongs::Launch, low, high));
                launch.params.entry(position).or_insert_with(unconstrained);
            }
            KernelParam::Value { .. } => {}
            KernelParam::Array { name, memory, .. } => {
                for axis in 0..module.functions[module.kernel.body].memories[*memory].extents.len() as u8 {
                    let variables = &mut launch.variables;
                    let unconstrained =
                        || variable(variables.fresh(format!("extent of {name}"), Belongs::Launch, 0, MAX_EXTENT));
                    launch.extents.entry((position, axis)).or_insert_with(unconstrained);
                }
            }
        }
    }
    launch
}
