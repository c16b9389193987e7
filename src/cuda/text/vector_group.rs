//! Groups the accesses of a `threads` kernel for vectorization. The elements of an array at `stride * index + k`, for
//! constants `k`, form a *stride family*. The elements of a family that V adjacent indices access form a *vector
//! group*.
//!
//! Input: accessed locations, and how they are accessed. Output: vector groups, and the position of each location in
//! its group.

use rustc_hash::{FxHashMap, FxHashSet};

use clk_base::affine::Affine;
use clk_ir::def::*;

/// Maximum number of additional elements on each side of a group that are also read, because an index reads elements of
/// its neighbors.
const MAX_MARGIN: i64 = 4;

/// The elements of an array at `stride * index + k`, where `index` is the vectorized index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct StrideFamily {
    pub(super) memory: MemId,
    /// The indices along the axes before the one with the vectorized index: each is a constant, or an index of the
    /// index space plus a constant. They are the same for all indices of a thread.
    pub(super) outer: Vec<Affine<u8>>,
    /// Step along the axis when the vectorized index increases by 1.
    pub(super) axis_step: i64,
    /// The extents of the axes after that axis.
    pub(super) trailing: Vec<i64>,
}

impl StrideFamily {
    pub(super) fn trailing_elements(&self) -> i64 {
        self.trailing.iter().product()
    }

    pub(super) fn stride(&self) -> i64 {
        self.axis_step * self.trailing_elements()
    }
}

pub(super) struct VectorGroup {
    pub(super) stride_family: StrideFamily,
    pub(super) name: String,
    /// The number of elements before and after the group that are also read.
    pub(super) elements_before: i64,
    pub(super) elements_after: i64,
    pub(super) read: bool,
    pub(super) written: bool,
    /// Whether the outer indices of the group are in bounds whenever the body runs.
    pub(super) is_in_bounds: bool,
}

/// The vector groups of a kernel.
#[derive(Default)]
pub(super) struct VectorGroups {
    /// Number of indices per thread (V).
    pub(super) indices_per_thread: u32,
    pub(super) all: Vec<VectorGroup>,
    pub(super) by_place: FxHashMap<(MemId, Vec<ExprId>), (usize, i64)>,
}

pub(super) struct VectorizableAccess<'a> {
    pub(super) place: &'a Place,
    pub(super) write: bool,
    /// `plain`: whether the access does not depend on memory contents. `always`: whether it is performed for all
    /// indices.
    pub(super) plain: bool,
    pub(super) always: bool,
    pub(super) guarded: bool,
    pub(super) streams: bool,
}

/// Returns an `i32` as an affine form of one index of the index space. Returns `None` if it does not have this form.
pub(super) fn affine(f: &Function, id: ExprId) -> Option<Affine<u8>> {
    let expr = &f.exprs[id];
    if expr.ty != Ty::Scalar(Scalar::I32) {
        return None;
    }
    let form = match &expr.kind {
        ExprKind::Index(k) => Affine::variable(*k),
        ExprKind::Binary { op, left, right } => {
            let (left, right) = (affine(f, *left)?, affine(f, *right)?);
            match op {
                BinOp::Add => left.add(&right)?,
                BinOp::Sub => left.sub(&right)?,
                BinOp::Mul => left.multiply(&right, |_, _| None)?,
                _ => return None,
            }
        }
        _ => Affine::from(f.const_integer(id)?),
    };
    // Accept only small numbers, so that sums of a few of them cannot overflow.
    let is_small = matches!(form.terms(), [] | [(_, -64..=64)]) && form.constant().abs() <= 1 << 16;
    is_small.then_some(form)
}

/// For each array and axis, the largest constant index with which it is accessed.
pub(super) type Longest = FxHashMap<(MemId, usize), i64>;

/// Returns the stride family of an element, and the element's position `k` in the family.
pub(super) fn stride_family(f: &Function, place: &Place, last: u8, longest: &Longest) -> Option<(StrideFamily, i64)> {
    let indices: Vec<_> = place.indices.iter().map(|&id| affine(f, id)).collect::<Option<_>>()?;
    let axis = indices.iter().position(|index| index.coefficient(&last) != 0)?;
    let steps = indices[axis].coefficient(&last) as i64;
    let outer = indices[..axis].to_vec();
    if !outer.iter().all(|index| matches!(index.terms(), [] | [(_, 1)])) {
        return None;
    }
    let (mut trailing, mut k) = (vec![], indices[axis].constant() as i64);
    for (at, index) in indices.iter().enumerate().skip(axis + 1) {
        let number = index.as_constant()? as i64;
        let extent = match f.memories[place.memory].extents[at] {
            Extent::Known(n) => i64::from(n),
            _ => longest.get(&(place.memory, at))? + 1,
        };
        if !(0..extent).contains(&number) || extent > 16 {
            return None;
        }
        trailing.push(extent);
        k = k * extent + number;
    }
    let result = StrideFamily { memory: place.memory, outer, axis_step: steps, trailing };
    (steps > 0 && result.stride() <= 64).then_some((result, k))
}

impl VectorGroups {
    /// Adds an access to its vector group. Returns false if it belongs to no group.
    pub(super) fn add(
        &mut self,
        found: Option<(StrideFamily, i64)>,
        access: &VectorizableAccess<'_>,
        written: bool,
    ) -> bool {
        let Some((stride_family, k)) = found else { return false };
        let stride = stride_family.stride();
        let (before, behind) = ((-k).max(0), (k - stride + 1).max(0));
        let margin = if written { 0 } else { MAX_MARGIN };
        if before > margin || behind > margin || !access.plain && !access.write {
            return false;
        }
        let sure =
            access.always && !access.guarded && stride_family.outer.iter().all(|index| index.as_variable().is_some());
        let at = self.all.iter().position(|group| group.stride_family == stride_family).unwrap_or_else(|| {
            let name = String::new();
            self.all.push(VectorGroup {
                stride_family,
                name,
                elements_before: 0,
                elements_after: 0,
                read: false,
                written,
                is_in_bounds: false,
            });
            self.all.len() - 1
        });
        let group = &mut self.all[at];
        group.elements_before = group.elements_before.max(before);
        group.elements_after = group.elements_after.max(behind);
        group.read |= !access.write;
        group.is_in_bounds |= sure;
        self.by_place.insert((access.place.memory, access.place.indices.clone()), (at, k));
        true
    }

    /// Returns whether the array that the body writes has exactly one vector group, and the body always writes the
    /// group completely.
    pub(super) fn is_fully_written(&mut self, f: &Function) -> bool {
        let [group] = &self.all[..] else { return false };
        let (memory, stride) = (group.stride_family.memory, group.stride_family.stride());
        let leaves = f.memories[memory].layout.leaves.len() as u32;
        let written = self.written_elements(memory, &f.body);
        let whole = (0..stride).all(|k| (0..leaves).all(|leaf| written.contains(&(k, leaf))));
        // The group is completely accessed without guards, so it is in bounds.
        self.all[0].is_in_bounds = whole;
        whole
    }

    /// Returns the elements of an array that a block always writes, as pairs of position and leaf (scalar or vector
    /// field).
    fn written_elements(&self, memory: MemId, block: &[Stmt]) -> FxHashSet<(i64, u32)> {
        let mut elements = FxHashSet::default();
        for stmt in block {
            match &stmt.kind {
                StmtKind::Store { place, .. } if place.memory == memory && place.component.is_none() => {
                    let position = self.by_place.get(&(memory, place.indices.clone()));
                    elements.extend(position.map(|&(_, k)| (k, place.leaf)));
                }
                StmtKind::If { then, other, .. } => {
                    let other = self.written_elements(memory, other);
                    elements.extend(
                        self.written_elements(memory, then).into_iter().filter(|element| other.contains(element)),
                    );
                }
                _ => {}
            }
        }
        elements
    }
}
