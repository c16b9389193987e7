//! Shadows: the tangents or adjoints of locals and memories, with the same extents and the same or wider types.

use rustc_hash::FxHashMap;

use super::activity::Activity;
use super::derived::{DerivedParamRole, param_of};
use clk_ir::build::FunctionBuilder;
use clk_ir::def::*;

/// Returns the active by-value parameters of a kernel: the position, and the name and type of the tangent or adjoint.
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

/// Returns the scalar type of an adjoint. An adjoint may be a sum of many terms, which needs at least the precision of
/// `f32`.
pub fn adjoint_scalar(scalar: Scalar) -> Scalar {
    if matches!(scalar, Scalar::F16 | Scalar::Bf16) { Scalar::F32 } else { scalar }
}

pub(super) fn adjoint_type(ty: Ty) -> Ty {
    ty.with_scalar(adjoint_scalar(ty.scalar()))
}

fn layout(of: &ElementLayout, ty: &dyn Fn(Ty) -> Ty) -> ElementLayout {
    match of.leaves.as_slice() {
        [leaf] if leaf.path.is_empty() => ElementLayout::plain(ty(leaf.ty)),
        leaves if leaves.iter().any(|leaf| ty(leaf.ty) != leaf.ty) => {
            ElementLayout::from_leaves(leaves.iter().map(|leaf| (leaf.path.clone(), ty(leaf.ty))))
        }
        _ => of.clone(),
    }
}

/// The shadows of all active locals and memories.
#[derive(Default)]
pub(super) struct Shadows {
    pub locals: FxHashMap<LocalId, LocalId>,
    pub memories: FxHashMap<MemId, MemId>,
}

impl Shadows {
    /// Adds the shadows to a kernel. If a shadow is a parameter, `role` returns its role and access.
    pub fn add(
        b: &mut FunctionBuilder,
        f: &Function,
        activity: &Activity,
        roles: &mut Vec<DerivedParamRole>,
        ty: &dyn Fn(Ty) -> Ty,
        role: impl Fn(usize, Access) -> (DerivedParamRole, Access),
    ) -> Shadows {
        let mut shadows = Shadows::default();
        for (id, local) in f.locals.iter().filter(|(id, _)| activity.local(*id)) {
            shadows.locals.insert(id, b.local(format!("d_{}", local.name), ty(local.ty)));
        }
        for (id, memory) in f.memories.iter().filter(|(id, _)| activity.memories[id.index()]) {
            let (name, layout) = (format!("d_{}", memory.name), layout(&memory.layout, ty));
            let new = match (memory.space, param_of(f, id)) {
                (MemorySpace::Global { access, .. }, Some(param)) => {
                    let (role, access) = role(param, access);
                    roles.push(role);
                    b.array(name, access, layout, memory.extents.len())
                }
                (space, _) => b.memory(name, space, layout, memory.extents.clone()),
            };
            shadows.memories.insert(id, new);
        }
        shadows
    }

    pub fn place(&self, place: &Place, indices: Vec<ExprId>) -> Option<Place> {
        let memory = *self.memories.get(&place.memory)?;
        Some(Place { memory, indices, ..place.clone() })
    }
}
