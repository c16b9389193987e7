//! Ownership of elements: arrays whose indices prove that no two threads touch the same element.
//!
//! An index identifies its thread along an axis if it is `global_idx` or an index of a `threads` kernel, its block if it is
//! `block_idx`, the thread within the block if it is `thread_idx`; each plus or minus a launch constant. The variable of a loop
//! that starts at one of them and advances by the number of threads (`for i in thread_idx.x..N step block_dim.x`) identifies the
//! thread as well: in each iteration it is congruent to its start.
//!
//! A condition around an access may fix a coordinate instead: inside of `if thread_idx.x == 0`, one thread of the block is left along
//! that axis. That counts if the same condition is around all accesses to the array.

use rustc_hash::FxHashMap;

use crate::ir::def::*;
use crate::ir::visit::each_stmt;

/// Proof that the threads of a launch access different elements, as far as indices give one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The axes along which indices identify threads ([`Owner::thread`]) and blocks ([`Owner::block`]). For a `threads` kernel,
    /// an axis is the position of an index.
    pub axes: u8,
    /// Further condition: these steps (axis, number) have to be multiples of the block's extents.
    pub steps: Vec<(u8, u32)>,
}

impl Owner {
    pub fn thread(axis: u8) -> u8 {
        1 << axis
    }

    pub fn block(axis: u8) -> u8 {
        8 << axis
    }
}

/// One index of an access, as far as it is a coordinate of the thread plus a launch constant.
#[derive(Clone, PartialEq)]
enum Coordinate {
    Own(Origin, u8, Option<(BinOp, ExprKind)>),
    Fixed(ExprKind),
}

/// The coordinate that an index is based on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Thread,
    Block,
    /// Block and thread at once. (For a `threads` kernel: the index at this position.)
    Global,
}

/// A coordinate that a condition around an access makes equal to a launch constant.
type Held = (Origin, u8, ExprKind);

/// An access, and the coordinates that are the same for all threads that make it.
struct Site<'a> {
    place: &'a Place,
    held: Vec<Held>,
}

/// Start and step of the `for` loops whose variable nothing else writes.
type Loops = FxHashMap<LocalId, Option<(ExprId, ExprId)>>;

struct Search<'a> {
    f: &'a Function,
    loops: Loops,
    steps: Vec<(u8, u32)>,
}

/// Returns the ownership by memory; the default where nothing is known.
pub fn owners(f: &Function) -> Vec<Owner> {
    let mut loops = Loops::default();
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::For { local, start, step, .. } => {
            let known = if loops.contains_key(local) { None } else { Some((*start, *step)) };
            loops.insert(*local, known);
        }
        StmtKind::Write { local, .. } => {
            loops.insert(*local, None);
        }
        _ => {}
    });
    let mut sites: Vec<Site<'_>> = vec![];
    Search { f, loops: Loops::default(), steps: vec![] }.sites(&f.body, &mut vec![], &mut sites);
    let owner = |(id, memory): (MemId, &Memory)| {
        if !matches!(memory.space, Space::Global { .. }) {
            return Owner::default();
        }
        let mut search = Search { f, loops: loops.clone(), steps: vec![] };
        search.owner(sites.iter().filter(|site| site.place.memory == id)).unwrap_or_default()
    };
    f.memories.iter().map(owner).collect()
}

impl<'a> Search<'a> {
    /// Lists the accesses of a block, with what the conditions around them hold.
    fn sites(&self, block: &'a Block, held: &mut Vec<Held>, sites: &mut Vec<Site<'a>>) {
        for stmt in block {
            let place = match &stmt.kind {
                StmtKind::Let(e) => match &self.f.exprs[*e].kind {
                    ExprKind::Load { place, .. } => Some(place),
                    _ => None,
                },
                StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => Some(place),
                _ => None,
            };
            // Whoever updates atomically may wait for somebody else, who is then looked for.
            let is_update = matches!(stmt.kind, StmtKind::Atomic { .. });
            let counted = || if is_update { vec![] } else { held.clone() };
            sites.extend(place.map(|place| Site { place, held: counted() }));
            if let StmtKind::If { cond, then, other } = &stmt.kind {
                let before = held.len();
                self.hold(*cond, held);
                self.sites(then, held, sites);
                held.truncate(before);
                self.sites(other, held, sites);
            } else {
                stmt.kind.blocks().for_each(|block| self.sites(block, held, sites));
            }
        }
    }

    /// Notes which coordinates are the same for all threads for which a condition is true.
    fn hold(&self, cond: ExprId, held: &mut Vec<Held>) {
        let ExprKind::Binary { op, left, right } = self.f.exprs[cond].kind else { return };
        match op {
            BinOp::And => {
                self.hold(left, held);
                self.hold(right, held);
            }
            BinOp::Eq => {
                for (coordinate, value) in [(left, right), (right, left)] {
                    if let (Some((origin, axis)), Some(value)) = (self.origin(coordinate), self.fixed(value)) {
                        held.push((origin, axis, value));
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the ownership if the indices of all accesses have the same form.
    fn owner<'s, 'p: 's>(&mut self, mut sites: impl Iterator<Item = &'s Site<'p>>) -> Option<Owner> {
        let site = sites.next()?;
        let (first, mut held) = (self.form(site.place)?, site.held.clone());
        for site in sites {
            if self.form(site.place)? != first {
                return None;
            }
            held.retain(|coordinate| site.held.contains(coordinate));
        }
        let mut axes = 0;
        let all = first.iter().filter_map(|coordinate| match coordinate {
            Coordinate::Own(origin, axis, _) => Some((*origin, *axis)),
            Coordinate::Fixed(_) => None,
        });
        for (origin, axis) in all.chain(held.iter().map(|(origin, axis, _)| (*origin, *axis))) {
            axes |= match origin {
                Origin::Thread => Owner::thread(axis),
                Origin::Block => Owner::block(axis),
                Origin::Global => Owner::thread(axis) | Owner::block(axis),
            };
        }
        Some(Owner { axes, steps: std::mem::take(&mut self.steps) })
    }

    fn form(&mut self, place: &Place) -> Option<Vec<Coordinate>> {
        place.indices.iter().map(|&i| self.coordinate(i)).collect()
    }

    fn coordinate(&mut self, e: ExprId) -> Option<Coordinate> {
        if let ExprKind::Read(local) = &self.f.exprs[e].kind {
            let (start, step) = (*self.loops.get(local)?)?;
            let begin = self.begin(start)?;
            let Coordinate::Own(origin, axis, _) = &begin else { return None };
            return self.is_stride(step, *origin, *axis).then_some(begin);
        }
        self.begin(e)
    }

    /// Returns the form of an index that is not a loop variable.
    fn begin(&self, e: ExprId) -> Option<Coordinate> {
        if let Some((origin, axis)) = self.origin(e) {
            return Some(Coordinate::Own(origin, axis, None));
        }
        match &self.f.exprs[e].kind {
            ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub), left, right } => {
                let (origin, axis) = self.origin(*left)?;
                Some(Coordinate::Own(origin, axis, Some((*op, self.fixed(*right)?))))
            }
            _ => Some(Coordinate::Fixed(self.fixed(e)?)),
        }
    }

    fn origin(&self, e: ExprId) -> Option<(Origin, u8)> {
        match &self.f.exprs[e].kind {
            ExprKind::Id(Id3::Global, axis) => Some((Origin::Global, *axis as u8)),
            ExprKind::Id(Id3::Thread, axis) => Some((Origin::Thread, *axis as u8)),
            ExprKind::Id(Id3::Block, axis) => Some((Origin::Block, *axis as u8)),
            // By position at first; the axis follows from the rank of the kernel.
            ExprKind::Index(k) => Some((Origin::Global, *k)),
            _ => None,
        }
    }

    /// Returns the expression if it is the same for all threads of a launch.
    fn fixed(&self, e: ExprId) -> Option<ExprKind> {
        match &self.f.exprs[e].kind {
            kind @ (ExprKind::Const(_) | ExprKind::Param(_) | ExprKind::Extent(..)) => Some(kind.clone()),
            kind @ ExprKind::Id(Id3::BlockDim | Id3::GridDim, _) => Some(kind.clone()),
            _ => None,
        }
    }

    /// Returns whether a loop's step leads from one element of a thread to another that is its own as well.
    fn is_stride(&mut self, step: ExprId, origin: Origin, axis: u8) -> bool {
        let f = self.f;
        let is = |e: ExprId, id: Id3| matches!(f.exprs[e].kind, ExprKind::Id(i, a) if i == id && a as u8 == axis);
        match (&f.exprs[step].kind, origin) {
            (ExprKind::Const(bits), Origin::Thread) => {
                let step = u32::try_from(*bits).ok().filter(|&n| n > 0 && n <= i32::MAX as u32);
                self.steps.extend(step.map(|n| (axis, n)));
                step.is_some()
            }
            (ExprKind::Id(..), Origin::Thread) => is(step, Id3::BlockDim),
            (ExprKind::Id(..), Origin::Block) => is(step, Id3::GridDim),
            (&ExprKind::Binary { op: BinOp::Mul, left, right }, Origin::Global) => {
                (is(left, Id3::BlockDim) && is(right, Id3::GridDim))
                    || (is(left, Id3::GridDim) && is(right, Id3::BlockDim))
            }
            _ => false,
        }
    }
}
