//! The launches that a derivative is made for.
//!
//! Input: a kernel with the geometry of a launch, or with what its signature says of all. Output: a
//! launch in symbols. A derivative is a kernel whose launches are those of its original, with more arrays.

use rustc_hash::{FxHashMap, FxHashSet};

use super::def::Role;
use crate::device::Extents;
use crate::ir::def::*;
use crate::ir::footprint::space::{Role as Belongs, Space as Variables};
use crate::ir::footprint::{Given, Grid, number, variable};
use crate::ir::ranges::type_range;

const LARGEST: i128 = i32::MAX as i128;

/// What is known of the launches of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// `None`: nothing.
    given: Option<Given>,
    /// Array parameters of which each element belongs to one thread, by position.
    pub(super) private: FxHashSet<u32>,
}

impl Launches {
    /// Returns the launches that are written down.
    pub fn new(module: &Module, given: Given) -> Launches {
        Launches { given: Some(completed(given, module)), private: FxHashSet::default() }
    }

    /// Returns the launches of a `threads` kernel, of any size, or those of a `grid` kernel with this geometry.
    pub fn with(module: &Module, extents: Extents) -> Launches {
        let mut given = Given::default();
        match (module.kernel.form, extents) {
            (Form::Threads { rank }, Extents::Threads(_)) => {
                let mut index = |k| given.variables.fresh(format!("index {k}"), Belongs::Thread, 0, LARGEST - 1);
                given.indices = (0..rank).map(|k| variable(index(k))).collect();
            }
            (Form::Grid, Extents::Grid { grid, block }) => {
                given.grid = Some(grid_of(&mut given.variables, grid, block));
            }
            _ => return Launches::default(),
        }
        Launches::new(module, given)
    }

    /// Returns what is known of them all, if anything is.
    pub fn given(&self) -> Option<&Given> {
        self.given.as_ref()
    }

    /// Returns the launches of a derivative, of which these are the parameters.
    pub fn of_derivative(&self, module: &Module, params: &[Role]) -> Launches {
        let like = |role: &Role| match *role {
            Role::Primal(param) | Role::Tangent(param) | Role::Adjoint(param) => Some(param as u32),
            Role::Extent(_) | Role::Sums(_) | Role::Tape(_) | Role::Counts => None,
        };
        let mut private = FxHashSet::default();
        for (at, role) in params.iter().enumerate() {
            let own = like(role).is_none_or(|param| self.private.contains(&param));
            private.extend(own.then_some(at as u32));
        }
        let Some(old) = &self.given else { return Launches { given: None, private } };
        let mut given = Given { extents: FxHashMap::default(), params: FxHashMap::default(), ..old.clone() };
        given.variables.promised.clear();
        for (at, role) in params.iter().enumerate() {
            let (at, Some(param)) = (at as u32, like(role)) else { continue };
            if let Some(KernelParam::Array { memory, .. }) = module.kernel.params.get(at as usize) {
                for axis in 0..module.functions[module.kernel.body].memories[*memory].extents.len() as u8 {
                    let extent = old.extents.get(&(param, axis)).cloned();
                    given.extents.extend(extent.map(|extent| ((at, axis), extent)));
                }
            }
            if let Role::Primal(_) = role {
                given.params.extend(old.params.get(&param).map(|form| (at, form.clone())));
                let promised = old.variables.promised.get(&param);
                given.variables.promised.extend(promised.map(|promised| (at, promised.clone())));
            }
        }
        Launches { given: Some(completed(given, module)), private }
    }
}

fn grid_of(variables: &mut Variables, grid: [u32; 3], block: [u32; 3]) -> Grid {
    let names = ["x", "y", "z"];
    let mut part = |k: usize, kind: &str, role: Belongs, count: u32| match count {
        1 => number(0),
        _ => variable(variables.fresh(format!("{kind}_idx.{}", names[k]), role, 0, (i128::from(count) - 1).max(0))),
    };
    let thread = std::array::from_fn(|k| part(k, "thread", Belongs::Thread, block[k]));
    let at = std::array::from_fn(|k| part(k, "block", Belongs::Block, grid[k]));
    let global = std::array::from_fn(|k| {
        let first = variables.product(&at[k], &number(i128::from(block[k])));
        first.add(&thread[k]).unwrap_or_default()
    });
    let extents = |of: [u32; 3]| of.map(|n| number(i128::from(n)));
    Grid { thread, at, block: extents(block), grid: extents(grid), global }
}

/// Adds any extents and integers where nothing is known of them.
fn completed(mut given: Given, module: &Module) -> Given {
    for (at, param) in module.kernel.params.iter().enumerate() {
        let at = at as u32;
        match param {
            KernelParam::Value { name, ty: Ty::Scalar(scalar) } if scalar.is_int() => {
                let (low, high) = type_range(*scalar);
                let variables = &mut given.variables;
                let any = || variable(variables.fresh(name.as_str(), Belongs::Launch, low, high));
                given.params.entry(at).or_insert_with(any);
            }
            KernelParam::Value { .. } => {}
            KernelParam::Array { name, memory, .. } => {
                for axis in 0..module.functions[module.kernel.body].memories[*memory].extents.len() as u8 {
                    let variables = &mut given.variables;
                    let any = || variable(variables.fresh(format!("extent of {name}"), Belongs::Launch, 0, LARGEST));
                    given.extents.entry((at, axis)).or_insert_with(any);
                }
            }
        }
    }
    given
}
