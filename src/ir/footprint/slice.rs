//! What indices and conditions depend on, and what of it is surely the same for all threads of a block.

use rustc_hash::{FxHashMap, FxHashSet};

use super::def::int;
use crate::ir::def::*;
use crate::ir::filled::filled;
use crate::ir::variance::{Variance, Variances};
use crate::ir::visit::each_stmt;
use crate::lang::scalar::Scalar;

/// The expressions and locals that some index, condition or loop bound depends on.
#[derive(Default)]
pub(super) struct Slice {
    pub exprs: FxHashSet<ExprId>,
    pub locals: FxHashSet<LocalId>,
}

/// The values that are written to each local.
type Writes = FxHashMap<LocalId, Vec<ExprId>>;

fn writes(f: &Function) -> Writes {
    let mut writes = Writes::default();
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Write { local, value } = stmt.kind {
            writes.entry(local).or_default().push(value);
        }
    });
    writes
}

pub(super) fn relevant(f: &Function) -> Slice {
    let writes = writes(f);
    let mut roots: Vec<ExprId> = vec![];
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Let(id) => {
            if let ExprKind::Load { place, .. } = &f.exprs[*id].kind {
                roots.extend(&place.indices);
            }
        }
        StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => roots.extend(&place.indices),
        StmtKind::If { cond, .. } | StmtKind::Assert { cond, .. } => roots.push(*cond),
        StmtKind::For { start, end, step, .. } => roots.extend([start, end, step]),
        _ => {}
    });
    for (_, memory) in f.memories.iter() {
        for extent in &memory.extents {
            if let Extent::Dynamic(id) = extent {
                roots.push(*id);
            }
        }
    }
    let mut slice = Slice::default();
    while let Some(id) = roots.pop() {
        let expr = &f.exprs[id];
        if (int(expr.ty).is_none() && expr.ty != Ty::Scalar(Scalar::Bool)) || !slice.exprs.insert(id) {
            continue;
        }
        match &expr.kind {
            ExprKind::Read(local) => {
                if slice.locals.insert(*local) {
                    roots.extend(writes.get(local).into_iter().flatten());
                }
            }
            kind => kind.operands(|operand| roots.push(operand)),
        }
    }
    slice
}

/// The most elements of a local array that are followed as constants.
const MAX_ELEMENTS: u64 = 1 << 12;

/// Returns the contents of local arrays of constants: each element is written by one statement, with a constant, and nothing is read before
/// the whole array is written. Lists and array literals are such.
pub(super) fn tables(f: &Function) -> FxHashMap<MemId, Vec<u64>> {
    let is_filled = filled(f);
    let scalars = |id: MemId| {
        let memory = &f.memories[id];
        let is_plain = matches!(&memory.layout.leaves[..], [leaf] if leaf.ty.lanes() == 1);
        let len = memory.known_len().filter(|len| is_plain && *len <= MAX_ELEMENTS)?;
        (memory.space == Space::Local && is_filled.get(id.index()) == Some(&true)).then(|| vec![None; len as usize])
    };
    let constant = |id: ExprId| match f.exprs[id].kind {
        ExprKind::Const(bits) => Some(bits),
        _ => None,
    };
    let position = |place: &Place| {
        let mut at = 0u64;
        for (index, extent) in place.indices.iter().zip(&f.memories[place.memory].extents) {
            let Extent::Known(extent) = extent else { return None };
            let index = constant(*index).filter(|index| *index < u64::from(*extent))?;
            at = at.checked_mul(u64::from(*extent))?.checked_add(index)?;
        }
        usize::try_from(at).ok()
    };
    // `None`: it is no such array.
    let mut found: FxHashMap<MemId, Option<Vec<Option<u64>>>> = FxHashMap::default();
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, value, .. } => {
            let contents = found.entry(place.memory).or_insert_with(|| scalars(place.memory));
            let free = contents.as_mut().and_then(|all| all.get_mut(position(place)?)).filter(|slot| slot.is_none());
            match (free, constant(*value)) {
                (Some(slot), Some(bits)) => *slot = Some(bits),
                _ => *contents = None,
            }
        }
        StmtKind::Atomic { place, .. } => drop(found.insert(place.memory, None)),
        _ => {}
    });
    let whole =
        |(id, contents): (MemId, Option<Vec<Option<u64>>>)| Some((id, contents?.into_iter().collect::<Option<_>>()?));
    found.into_iter().filter_map(whole).collect()
}

/// Returns the expressions that something besides locals depends on: memory, control flow, other threads, what is printed.
pub(super) fn used(f: &Function) -> FxHashSet<ExprId> {
    let mut roots: Vec<ExprId> = vec![];
    each_stmt(&f.body, &mut |stmt| {
        if !matches!(stmt.kind, StmtKind::Let(_) | StmtKind::Write { .. }) {
            stmt.kind.operands(|operand| roots.push(operand));
        }
    });
    for (_, memory) in f.memories.iter() {
        roots.extend(memory.extents.iter().filter_map(|extent| match extent {
            Extent::Dynamic(id) => Some(*id),
            Extent::Known(_) | Extent::Launch => None,
        }));
    }
    let writes = writes(f);
    let (mut used, mut locals) = (FxHashSet::default(), FxHashSet::default());
    while let Some(id) = roots.pop() {
        if !used.insert(id) {
            continue;
        }
        let kind = &f.exprs[id].kind;
        kind.operands(|operand| roots.push(operand));
        if let ExprKind::Read(local) = kind
            && locals.insert(*local)
        {
            roots.extend(writes.get(local).into_iter().flatten());
        }
    }
    used
}

/// Values that memory written by the kernel, other lanes or atomics may have had a part in.
#[derive(Default)]
pub(super) struct Taint {
    exprs: FxHashSet<ExprId>,
    locals: FxHashSet<LocalId>,
    changed: bool,
}

pub(super) fn taint(f: &Function) -> Taint {
    let mut taint = Taint { changed: true, ..Taint::default() };
    while taint.changed {
        taint.changed = false;
        taint.block(f, &f.body, false);
    }
    taint
}

/// Returns the locals that have the same value in all threads of a block that are at the same iterations of the same loops.
pub(super) fn uniform_locals(f: &Function, variances: &Variances, taint: &Taint) -> FxHashSet<LocalId> {
    let is_uniform = |local: &LocalId| variances.locals[*local] == Variance::Uniform && !taint.locals.contains(local);
    f.locals.ids().filter(is_uniform).collect()
}

impl Taint {
    pub fn has(&self, f: &Function, id: ExprId) -> bool {
        let expr = &f.exprs[id];
        !expr.kind.is_free() && (self.exprs.contains(&id) || matches!(expr.kind, ExprKind::Result))
    }

    fn block(&mut self, f: &Function, block: &Block, under: bool) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::Let(id) => self.evaluated(f, *id),
                StmtKind::Write { local, value } if under || self.has(f, *value) => {
                    self.changed |= self.locals.insert(*local);
                }
                StmtKind::If { cond, .. } => {
                    let under = under || self.has(f, *cond);
                    stmt.kind.blocks().for_each(|inner| self.block(f, inner, under));
                }
                StmtKind::For { local, start, end, step, body, .. } => {
                    let ragged = under || [start, end, step].into_iter().any(|id| self.has(f, *id));
                    if ragged {
                        self.changed |= self.locals.insert(*local);
                    }
                    let under = ragged || self.decides(f, body);
                    self.block(f, body, under);
                }
                StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => {
                    let under = under || self.decides(f, body);
                    self.block(f, body, under);
                }
                _ => {}
            }
        }
    }

    /// Returns whether a condition in the block is tainted.
    fn decides(&self, f: &Function, body: &Block) -> bool {
        let mut found = false;
        each_stmt(body, &mut |stmt| found |= matches!(&stmt.kind, StmtKind::If { cond, .. } if self.has(f, *cond)));
        found
    }

    fn evaluated(&mut self, f: &Function, id: ExprId) {
        let kind = &f.exprs[id].kind;
        let mut tainted = match kind {
            ExprKind::Read(local) => self.locals.contains(local),
            ExprKind::Load { place, .. } => {
                !matches!(f.memories[place.memory].space, Space::Constant | Space::Global { access: Access::In, .. })
            }
            _ => false,
        };
        kind.operands(|operand| tainted |= self.has(f, operand));
        if tainted {
            self.changed |= self.exprs.insert(id);
        }
    }
}
