//! The tangents or adjoints of locals and memories: new ones of the same extents, and of the same types or wider ones.

use rustc_hash::FxHashMap;

use super::active::Activity;
use super::def::{Role, param_of};
use crate::ir::build::FunctionBuilder;
use crate::ir::def::*;

/// Returns the positions of the active values among a kernel's parameters, with their companions' names and their types.
pub(super) fn active_values<'a>(
    kernel: &'a Kernel,
    active: &'a [bool],
) -> impl Iterator<Item = (usize, String, Ty)> + 'a {
    kernel.params.iter().zip(active).enumerate().filter_map(|(position, (param, active))| match param {
        KernelParam::Value { name, ty } if *active && ty.scalar().is_float() => {
            Some((position, format!("d_{name}"), *ty))
        }
        _ => None,
    })
}

/// Returns the type of an adjoint in a kernel: sums of many parts need the digits of `f32` at least.
pub fn adjoint_scalar(scalar: Scalar) -> Scalar {
    if matches!(scalar, Scalar::F16 | Scalar::Bf16) { Scalar::F32 } else { scalar }
}

pub(super) fn adjoint_type(ty: Ty) -> Ty {
    ty.with_scalar(adjoint_scalar(ty.scalar()))
}

fn layout(of: &Layout, ty: &dyn Fn(Ty) -> Ty) -> Layout {
    match of.leaves.as_slice() {
        [leaf] if leaf.path.is_empty() => Layout::plain(ty(leaf.ty)),
        leaves if leaves.iter().any(|leaf| ty(leaf.ty) != leaf.ty) => {
            Layout::of(leaves.iter().map(|leaf| (leaf.path.clone(), ty(leaf.ty))))
        }
        _ => of.clone(),
    }
}

/// The companion of every active local and memory.
#[derive(Default)]
pub(super) struct Companions {
    pub locals: FxHashMap<LocalId, LocalId>,
    pub memories: FxHashMap<MemId, MemId>,
}

impl Companions {
    /// Adds the companions to a kernel. `role` gives the role and access of those that are parameters.
    pub fn add(
        b: &mut FunctionBuilder,
        f: &Function,
        activity: &Activity,
        roles: &mut Vec<Role>,
        ty: &dyn Fn(Ty) -> Ty,
        role: impl Fn(usize, Access) -> (Role, Access),
    ) -> Companions {
        let mut found = Companions::default();
        for (id, local) in f.locals.iter().filter(|(id, _)| activity.local(*id)) {
            found.locals.insert(id, b.local(format!("d_{}", local.name), ty(local.ty)));
        }
        for (id, memory) in f.memories.iter().filter(|(id, _)| activity.memories[id.index()]) {
            let (name, layout) = (format!("d_{}", memory.name), layout(&memory.layout, ty));
            let new = match (memory.space, param_of(f, id)) {
                (Space::Global { access, .. }, Some(param)) => {
                    let (role, access) = role(param, access);
                    roles.push(role);
                    b.array(name, access, layout, memory.extents.len())
                }
                (space, _) => b.memory(name, space, layout, memory.extents.clone()),
            };
            found.memories.insert(id, new);
        }
        found
    }

    pub fn place(&self, place: &Place, indices: Vec<ExprId>) -> Option<Place> {
        let memory = *self.memories.get(&place.memory)?;
        Some(Place { memory, indices, ..place.clone() })
    }
}
