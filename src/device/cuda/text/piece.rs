//! Elements that adjacent indices of a `threads` kernel access: those at `stride * index + k` of an array are a family, and what V indices
//! access of it is a piece. Input: places and how they are accessed; output: pieces, and the place's element in its piece.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::def::*;

/// The most elements on each side of a piece that neighbors read.
const MARGIN: i64 = 4;
/// An index that all indices of a thread have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outer {
    /// That index of the space, plus a constant.
    Index(u8, i64),
    Const(i64),
}

/// Elements `stride * index + k`, by the axis that the index is along.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Family {
    pub(super) memory: MemId,
    pub(super) outer: Vec<Outer>,
    /// Steps along the axis for one index.
    pub(super) steps: i64,
    /// The extents of the axes behind it.
    pub(super) trailing: Vec<i64>,
}

impl Family {
    pub(super) fn within(&self) -> i64 {
        self.trailing.iter().product()
    }

    pub(super) fn stride(&self) -> i64 {
        self.steps * self.within()
    }
}

pub(super) struct Piece {
    pub(super) family: Family,
    pub(super) name: String,
    /// The elements in front of it and behind it that are read as well.
    pub(super) before: i64,
    pub(super) behind: i64,
    pub(super) read: bool,
    pub(super) written: bool,
    /// Its outer indices are in bounds wherever the body runs.
    pub(super) sure: bool,
}

/// The pieces of a kernel.
#[derive(Default)]
pub(super) struct Pieces {
    /// Indices per thread.
    pub(super) each: u32,
    pub(super) all: Vec<Piece>,
    pub(super) of: FxHashMap<(MemId, Vec<ExprId>), (usize, i64)>,
}

pub(super) struct Access<'a> {
    pub(super) place: &'a Place,
    pub(super) write: bool,
    /// It happens whatever is in memory, and for all indices.
    pub(super) plain: bool,
    pub(super) always: bool,
    pub(super) guarded: bool,
    pub(super) streams: bool,
}

/// Returns an `i32` as a multiple of one index plus a constant.
pub(super) fn affine(f: &Function, id: ExprId) -> Option<(Option<u8>, i64, i64)> {
    let expr = &f.exprs[id];
    if expr.ty != Ty::Scalar(Scalar::I32) {
        return None;
    }
    // Numbers are small: sums of a few of them are exact.
    let small = |(index, by, plus): (Option<u8>, i64, i64)| {
        (by.abs() <= 64 && plus.abs() <= 1 << 16).then_some((index.filter(|_| by != 0), by, plus))
    };
    match &expr.kind {
        ExprKind::Const(bits) => small((None, 0, i64::from(*bits as u32 as i32))),
        ExprKind::Index(k) => Some((Some(*k), 1, 0)),
        ExprKind::Binary { op, left, right } => {
            let ((i, a, c), (j, b, d)) = (affine(f, *left)?, affine(f, *right)?);
            let index = match (i, j) {
                (Some(i), Some(j)) if i != j => return None,
                _ => i.or(j),
            };
            match op {
                BinOp::Add => small((index, a + b, c + d)),
                BinOp::Sub => small((index, a - b, c - d)),
                BinOp::Mul if j.is_none() => small((index, a * d, c * d)),
                BinOp::Mul if i.is_none() => small((index, b * c, c * d)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The largest constant index along each axis of each array.
pub(super) type Longest = FxHashMap<(MemId, usize), i64>;

/// Returns the family of an element, and which one it is there.
pub(super) fn family(f: &Function, place: &Place, last: u8, longest: &Longest) -> Option<(Family, i64)> {
    let indices: Vec<_> = place.indices.iter().map(|&id| affine(f, id)).collect::<Option<_>>()?;
    let axis = indices.iter().position(|(index, ..)| *index == Some(last))?;
    let (_, steps, plus) = indices[axis];
    let mut outer = vec![];
    for &(index, by, plus) in &indices[..axis] {
        outer.push(match (index, by) {
            (None, _) => Outer::Const(plus),
            (Some(index), 1) => Outer::Index(index, plus),
            _ => return None,
        });
    }
    let (mut trailing, mut k) = (vec![], plus);
    for (at, &(index, _, number)) in indices.iter().enumerate().skip(axis + 1) {
        let extent = match f.memories[place.memory].extents[at] {
            Extent::Known(n) => i64::from(n),
            _ => longest.get(&(place.memory, at))? + 1,
        };
        if index.is_some() || !(0..extent).contains(&number) || extent > 16 {
            return None;
        }
        trailing.push(extent);
        k = k * extent + number;
    }
    let found = Family { memory: place.memory, outer, steps, trailing };
    (steps > 0 && found.stride() <= 64).then_some((found, k))
}

impl Pieces {
    /// Adds an access to its piece. Returns whether it has one.
    pub(super) fn add(&mut self, found: Option<(Family, i64)>, access: &Access<'_>, written: bool) -> bool {
        let Some((family, k)) = found else { return false };
        let stride = family.stride();
        let (before, behind) = ((-k).max(0), (k - stride + 1).max(0));
        let margin = if written { 0 } else { MARGIN };
        if before > margin || behind > margin || !access.plain && !access.write {
            return false;
        }
        let sure = access.always && !access.guarded && family.outer.iter().all(|o| matches!(o, Outer::Index(_, 0)));
        let at = self.all.iter().position(|piece| piece.family == family).unwrap_or_else(|| {
            let name = String::new();
            self.all.push(Piece { family, name, before: 0, behind: 0, read: false, written, sure: false });
            self.all.len() - 1
        });
        let piece = &mut self.all[at];
        piece.before = piece.before.max(before);
        piece.behind = piece.behind.max(behind);
        piece.read |= !access.write;
        piece.sure |= sure;
        self.of.insert((access.place.memory, access.place.indices.clone()), (at, k));
        true
    }

    /// Returns whether an array that is written has one piece, all of which is written whatever happens.
    pub(super) fn are_whole(&mut self, f: &Function) -> bool {
        let [piece] = &self.all[..] else { return false };
        let (memory, stride) = (piece.family.memory, piece.family.stride());
        let leaves = f.memories[memory].layout.leaves.len() as u32;
        let written = self.written(memory, &f.body);
        let whole = (0..stride).all(|k| (0..leaves).all(|leaf| written.contains(&(k, leaf))));
        // No access to it is guarded, and all of it is accessed: it is in bounds.
        self.all[0].sure = whole;
        whole
    }

    /// Returns the elements, and their leaves, that a block writes whatever happens.
    fn written(&self, memory: MemId, block: &[Stmt]) -> FxHashSet<(i64, u32)> {
        let mut found = FxHashSet::default();
        for stmt in block {
            match &stmt.kind {
                StmtKind::Store { place, .. } if place.memory == memory && place.component.is_none() => {
                    let known = self.of.get(&(memory, place.indices.clone()));
                    found.extend(known.map(|&(_, k)| (k, place.leaf)));
                }
                StmtKind::If { then, other, .. } => {
                    let other = self.written(memory, other);
                    found.extend(self.written(memory, then).into_iter().filter(|element| other.contains(element)));
                }
                _ => {}
            }
        }
        found
    }
}
