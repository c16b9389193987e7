//! Disjoint writes: finds arrays in which no two threads access the same element, by comparing the indices of all
//! accesses.
//!
//! An index identifies a coordinate along an axis if it is that coordinate plus or minus a launch constant.
//! `global_idx` or an index of a `threads` kernel identifies the thread, `block_idx` identifies the block, and
//! `thread_idx` identifies the thread within its block. A loop variable that starts at one of them and advances by the
//! number of threads (`for i in thread_idx.x..N step block_dim.x`) also identifies the thread: it stays congruent to
//! its start.
//!
//! An enclosing condition may pin a coordinate instead: only one thread of the block along that axis executes the code
//! in `if thread_idx.x == 0`. A pinned coordinate is used only if it is pinned for all accesses to the array.

use rustc_hash::FxHashMap;

use crate::def::*;
use crate::visit::each_stmt;

/// A proof that the threads of a launch access different elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisjointWrites {
    /// Bit set of the axes along which the indices identify the thread ([`DisjointWrites::thread_bit`]) or the block
    /// ([`DisjointWrites::block_bit`]). The axes of a `threads` kernel are the positions of its indices.
    pub axes: u8,
    /// Additional condition of the proof: each of these loop steps (axis, step) must be a multiple of the block's
    /// extent along that axis.
    pub steps: Vec<(u8, u32)>,
}

impl DisjointWrites {
    pub fn thread_bit(axis: u8) -> u8 {
        1 << axis
    }

    pub fn block_bit(axis: u8) -> u8 {
        8 << axis
    }
}

/// One index of an access: a coordinate of the thread plus a launch constant, or a launch constant.
#[derive(Clone, PartialEq)]
enum IndexCoordinate {
    Offset(CoordinateBase, u8, Option<(BinOp, ExprKind)>),
    Fixed(ExprKind),
}

/// The kind of coordinate that an index contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CoordinateBase {
    Thread,
    Block,
    /// `global_idx`, or for a `threads` kernel the index at this position.
    Global,
}

/// A coordinate that equals a launch constant because of an enclosing condition.
type PinnedCoordinate = (CoordinateBase, u8, ExprKind);

/// An access, and its pinned coordinates: those that are equal for all threads that execute it.
struct OwnedAccess<'a> {
    place: &'a Place,
    pinned: Vec<PinnedCoordinate>,
}

/// Start and step of each loop variable. `None` if other statements write the variable.
type Loops = FxHashMap<LocalId, Option<(ExprId, ExprId)>>;

struct DisjointWritesAnalysis<'a> {
    f: &'a Function,
    loops: Loops,
    steps: Vec<(u8, u32)>,
}

/// Returns the proof for each memory. The default value means that nothing is proved.
pub fn find_disjoint_writes(f: &Function) -> Vec<DisjointWrites> {
    let mut loops = Loops::default();
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::For { local, start, step, .. } => {
            let range = if loops.contains_key(local) { None } else { Some((*start, *step)) };
            loops.insert(*local, range);
        }
        StmtKind::Write { local, .. } => {
            loops.insert(*local, None);
        }
        _ => {}
    });
    let mut sites: Vec<OwnedAccess<'_>> = vec![];
    DisjointWritesAnalysis { f, loops: Loops::default(), steps: vec![] }.collect_accesses(
        &f.body,
        &mut vec![],
        &mut sites,
    );
    let prove = |(id, memory): (MemId, &Memory)| {
        if !matches!(memory.space, MemorySpace::Global { .. }) {
            return DisjointWrites::default();
        }
        let mut search = DisjointWritesAnalysis { f, loops: loops.clone(), steps: vec![] };
        search.prove_disjoint(sites.iter().filter(|site| site.place.memory == id)).unwrap_or_default()
    };
    f.memories.iter().map(prove).collect()
}

impl<'a> DisjointWritesAnalysis<'a> {
    /// Collects the accesses of a block with the coordinates pinned by enclosing conditions.
    fn collect_accesses(&self, block: &'a Block, pinned: &mut Vec<PinnedCoordinate>, sites: &mut Vec<OwnedAccess<'a>>) {
        for stmt in block {
            let place = match &stmt.kind {
                StmtKind::Let(e) => match &self.f.exprs[*e].kind {
                    ExprKind::Load { place, .. } => Some(place),
                    _ => None,
                },
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => Some(place),
                _ => None,
            };
            // Ignores enclosing conditions for atomics: they may be part of a spin loop, which is analyzed elsewhere.
            let is_atomic = matches!(stmt.kind, StmtKind::Atomic { .. });
            let pinned_here = || if is_atomic { vec![] } else { pinned.clone() };
            sites.extend(place.map(|place| OwnedAccess { place, pinned: pinned_here() }));
            if let StmtKind::If { cond, then, other } = &stmt.kind {
                let before = pinned.len();
                self.pin_coordinates(*cond, pinned);
                self.collect_accesses(then, pinned, sites);
                pinned.truncate(before);
                self.collect_accesses(other, pinned, sites);
            } else {
                stmt.kind.blocks().for_each(|block| self.collect_accesses(block, pinned, sites));
            }
        }
    }

    /// Adds the coordinates that equal a launch constant in all threads for which the condition is true.
    fn pin_coordinates(&self, cond: ExprId, pinned: &mut Vec<PinnedCoordinate>) {
        let ExprKind::Binary { op, left, right } = self.f.exprs[cond].kind else { return };
        match op {
            BinOp::And => {
                self.pin_coordinates(left, pinned);
                self.pin_coordinates(right, pinned);
            }
            BinOp::Eq => {
                for (coordinate, value) in [(left, right), (right, left)] {
                    if let (Some((origin, axis)), Some(value)) = (self.base(coordinate), self.launch_constant(value)) {
                        pinned.push((origin, axis, value));
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the proof for an array, given all its access sites. `None` if their indices differ or are not
    /// coordinates.
    fn prove_disjoint<'s, 'p: 's>(
        &mut self,
        mut sites: impl Iterator<Item = &'s OwnedAccess<'p>>,
    ) -> Option<DisjointWrites> {
        let site = sites.next()?;
        let (first, mut pinned) = (self.coordinates(site.place)?, site.pinned.clone());
        for site in sites {
            if self.coordinates(site.place)? != first {
                return None;
            }
            pinned.retain(|coordinate| site.pinned.contains(coordinate));
        }
        let mut axes = 0;
        let all = first.iter().filter_map(|coordinate| match coordinate {
            IndexCoordinate::Offset(origin, axis, _) => Some((*origin, *axis)),
            IndexCoordinate::Fixed(_) => None,
        });
        for (origin, axis) in all.chain(pinned.iter().map(|(origin, axis, _)| (*origin, *axis))) {
            axes |= match origin {
                CoordinateBase::Thread => DisjointWrites::thread_bit(axis),
                CoordinateBase::Block => DisjointWrites::block_bit(axis),
                CoordinateBase::Global => DisjointWrites::thread_bit(axis) | DisjointWrites::block_bit(axis),
            };
        }
        Some(DisjointWrites { axes, steps: std::mem::take(&mut self.steps) })
    }

    fn coordinates(&mut self, place: &Place) -> Option<Vec<IndexCoordinate>> {
        place.indices.iter().map(|&i| self.coordinate(i)).collect()
    }

    fn coordinate(&mut self, e: ExprId) -> Option<IndexCoordinate> {
        if let ExprKind::Read(local) = &self.f.exprs[e].kind {
            let (start, step) = (*self.loops.get(local)?)?;
            let start_coordinate = self.offset_coordinate(start)?;
            let IndexCoordinate::Offset(origin, axis, _) = &start_coordinate else { return None };
            return self.is_stride(step, *origin, *axis).then_some(start_coordinate);
        }
        self.offset_coordinate(e)
    }

    /// Returns the coordinate and the constant offset of an index that is not a loop variable.
    fn offset_coordinate(&self, e: ExprId) -> Option<IndexCoordinate> {
        if let Some((origin, axis)) = self.base(e) {
            return Some(IndexCoordinate::Offset(origin, axis, None));
        }
        match &self.f.exprs[e].kind {
            ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub), left, right } => {
                let (origin, axis) = self.base(*left)?;
                Some(IndexCoordinate::Offset(origin, axis, Some((*op, self.launch_constant(*right)?))))
            }
            _ => Some(IndexCoordinate::Fixed(self.launch_constant(e)?)),
        }
    }

    fn base(&self, e: ExprId) -> Option<(CoordinateBase, u8)> {
        match &self.f.exprs[e].kind {
            ExprKind::Id(BuiltinIndex::Global, axis) => Some((CoordinateBase::Global, *axis as u8)),
            ExprKind::Id(BuiltinIndex::Thread, axis) => Some((CoordinateBase::Thread, *axis as u8)),
            ExprKind::Id(BuiltinIndex::Block, axis) => Some((CoordinateBase::Block, *axis as u8)),
            // Uses the index's position as the axis; callers map it to a hardware axis by the kernel's rank.
            ExprKind::Index(k) => Some((CoordinateBase::Global, *k)),
            _ => None,
        }
    }

    /// Returns the expression if it is a launch constant.
    fn launch_constant(&self, e: ExprId) -> Option<ExprKind> {
        match &self.f.exprs[e].kind {
            kind @ (ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Extent(..)) => Some(kind.clone()),
            kind @ ExprKind::Id(BuiltinIndex::BlockDim | BuiltinIndex::GridDim, _) => Some(kind.clone()),
            _ => None,
        }
    }

    /// Returns whether a loop variable that starts at a coordinate of the thread and advances by `step` takes only
    /// values that the loop variables of other threads do not take. For a block coordinate, only threads of other
    /// blocks are considered.
    fn is_stride(&mut self, step: ExprId, origin: CoordinateBase, axis: u8) -> bool {
        let f = self.f;
        let is_dimension =
            |e: ExprId, id: BuiltinIndex| matches!(f.exprs[e].kind, ExprKind::Id(i, a) if i == id && a as u8 == axis);
        match (&f.exprs[step].kind, origin) {
            (ExprKind::Const(bits), CoordinateBase::Thread) => {
                let step = u32::try_from(*bits).ok().filter(|&n| n > 0 && n <= i32::MAX as u32);
                self.steps.extend(step.map(|n| (axis, n)));
                step.is_some()
            }
            (ExprKind::Id(..), CoordinateBase::Thread) => is_dimension(step, BuiltinIndex::BlockDim),
            (ExprKind::Id(..), CoordinateBase::Block) => is_dimension(step, BuiltinIndex::GridDim),
            (&ExprKind::Binary { op: BinOp::Mul, left, right }, CoordinateBase::Global) => {
                (is_dimension(left, BuiltinIndex::BlockDim) && is_dimension(right, BuiltinIndex::GridDim))
                    || (is_dimension(left, BuiltinIndex::GridDim) && is_dimension(right, BuiltinIndex::BlockDim))
            }
            _ => false,
        }
    }
}
