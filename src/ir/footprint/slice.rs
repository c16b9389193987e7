//! The program slice of indices and conditions, and the locals that are uniform within a block.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::def::*;
use crate::definite_init::find_initialized_arrays;
use crate::variance::{Variance, Variances};
use crate::visit::each_stmt;
use clk_scalar::Scalar;

/// The program slice: the expressions and locals on which an index, a condition or a loop bound depends.
#[derive(Default)]
pub(super) struct Slice {
    pub exprs: FxHashSet<ExprId>,
    pub locals: FxHashSet<LocalId>,
}

/// The values written to each local.
type LocalWrites = FxHashMap<LocalId, Vec<ExprId>>;

fn collect_writes(f: &Function) -> LocalWrites {
    let mut writes = LocalWrites::default();
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Write { local, value } = stmt.kind {
            writes.entry(local).or_default().push(value);
        }
    });
    writes
}

pub(super) fn slice_indices_and_conditions(f: &Function) -> Slice {
    let writes = collect_writes(f);
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
        if (expr.ty.as_int().is_none() && expr.ty != Ty::Scalar(Scalar::Bool)) || !slice.exprs.insert(id) {
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

/// The maximum number of elements of a local array that is treated as a constant table.
const MAX_ELEMENTS: u64 = 1 << 12;

/// Returns the contents of local constant arrays, such as list literals: one statement writes a constant to each
/// element, and the whole array is written before any read.
pub(super) fn constant_tables(f: &Function) -> FxHashMap<MemId, Vec<u64>> {
    let is_initialized = find_initialized_arrays(f);
    let scalars = |id: MemId| {
        let memory = &f.memories[id];
        let is_plain = matches!(&memory.layout.leaves[..], [leaf] if leaf.ty.lanes() == 1);
        let len = memory.known_len().filter(|len| is_plain && *len <= MAX_ELEMENTS)?;
        (memory.space == MemorySpace::Local && is_initialized.get(id.index()) == Some(&true))
            .then(|| vec![None; len as usize])
    };
    let constant = |id: ExprId| Some(f.const_value(id)?.bits);
    let position = |place: &Place| usize::try_from(f.const_position(place)?).ok();
    // The elements written so far; `None` if the array is known not to be constant.
    let mut tables: FxHashMap<MemId, Option<Vec<Option<u64>>>> = FxHashMap::default();
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, value, .. } => {
            let contents = tables.entry(place.memory).or_insert_with(|| scalars(place.memory));
            let free = contents.as_mut().and_then(|all| all.get_mut(position(place)?)).filter(|slot| slot.is_none());
            match (free, constant(*value)) {
                (Some(slot), Some(bits)) => *slot = Some(bits),
                _ => *contents = None,
            }
        }
        StmtKind::Atomic { place, .. } => drop(tables.insert(place.memory, None)),
        _ => {}
    });
    let complete =
        |(id, contents): (MemId, Option<Vec<Option<u64>>>)| Some((id, contents?.into_iter().collect::<Option<_>>()?));
    tables.into_iter().filter_map(complete).collect()
}

/// Returns the expressions that affect memory, control flow, other threads or output, directly or through locals.
pub(super) fn observed_exprs(f: &Function) -> FxHashSet<ExprId> {
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
    let writes = collect_writes(f);
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

/// Tainted values: those that may depend on memory written by the kernel, on other lanes or on atomics.
#[derive(Default)]
pub(super) struct Taint {
    exprs: FxHashSet<ExprId>,
    locals: FxHashSet<LocalId>,
    changed: bool,
}

pub(super) fn find_taint(f: &Function) -> Taint {
    let mut taint = Taint { changed: true, ..Taint::default() };
    while taint.changed {
        taint.changed = false;
        taint.block(f, &f.body, false);
    }
    taint
}

/// Returns the locals that are equal for all threads of a block that are in the same iterations of the same loops.
pub(super) fn uniform_locals(f: &Function, variances: &Variances, taint: &Taint) -> FxHashSet<LocalId> {
    let is_uniform = |local: &LocalId| variances.locals[*local] == Variance::Uniform && !taint.locals.contains(local);
    f.locals.ids().filter(is_uniform).collect()
}

impl Taint {
    pub fn is_tainted(&self, f: &Function, id: ExprId) -> bool {
        let expr = &f.exprs[id];
        !expr.kind.is_free() && (self.exprs.contains(&id) || matches!(expr.kind, ExprKind::Result))
    }

    fn block(&mut self, f: &Function, block: &Block, is_divergent: bool) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::Let(id) => self.visit_let(f, *id),
                StmtKind::Write { local, value } if is_divergent || self.is_tainted(f, *value) => {
                    self.changed |= self.locals.insert(*local);
                }
                StmtKind::If { cond, .. } => {
                    let is_divergent = is_divergent || self.is_tainted(f, *cond);
                    stmt.kind.blocks().for_each(|inner| self.block(f, inner, is_divergent));
                }
                StmtKind::For { local, start, end, step, body, .. } => {
                    let has_tainted_bounds =
                        is_divergent || [start, end, step].into_iter().any(|id| self.is_tainted(f, *id));
                    if has_tainted_bounds {
                        self.changed |= self.locals.insert(*local);
                    }
                    let is_divergent = has_tainted_bounds || self.has_tainted_condition(f, body);
                    self.block(f, body, is_divergent);
                }
                StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => {
                    let is_divergent = is_divergent || self.has_tainted_condition(f, body);
                    self.block(f, body, is_divergent);
                }
                _ => {}
            }
        }
    }

    /// Returns whether the block contains a tainted condition.
    fn has_tainted_condition(&self, f: &Function, body: &Block) -> bool {
        let mut has_condition = false;
        each_stmt(body, &mut |stmt| {
            has_condition |= matches!(&stmt.kind, StmtKind::If { cond, .. } if self.is_tainted(f, *cond))
        });
        has_condition
    }

    fn visit_let(&mut self, f: &Function, id: ExprId) {
        let kind = &f.exprs[id].kind;
        let mut tainted = match kind {
            ExprKind::Read(local) => self.locals.contains(local),
            ExprKind::Load { place, .. } => !matches!(
                f.memories[place.memory].space,
                MemorySpace::Constant | MemorySpace::Global { access: Access::In, .. }
            ),
            _ => false,
        };
        kind.operands(|operand| tainted |= self.is_tainted(f, operand));
        if tainted {
            self.changed |= self.exprs.insert(id);
        }
    }
}
