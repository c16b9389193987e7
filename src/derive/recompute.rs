//! Recomputation: copies of the body of a reverse derivative that compute only some of a thread's additions to
//! adjoints.
//!
//! Input: a reverse derivative over an index space. Output: a function that takes a thread's indices and returns the
//! sums of some of that thread's additions. Other threads can call the function, so gather and reduction kernels can
//! add up the results in an order of their choice.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::derived::{DerivedParamRole, loaded_place, role_of};
use super::error::NotDifferentiable;
use clk_base::arena::Arena;
use clk_base::source::Span;
use clk_ir::build::{FunctionBuilder, build_module};
use clk_ir::def::*;
use clk_ir::typing::{BOOL, I32};
use clk_ir::visit::each_stmt;
use clk_pass::edit;
use clk_scalar::ops::{AtomicOp, MathFn};

/// Identifies an addition statement: the adjoint, and the number of previous additions to it in program order.
pub(super) type Addition = (MemId, usize);

/// Returns the adjoint elements that the body reads again after it may have written them. A copy of the body must keep
/// these in locals, because it must not write memory. Returns `None` if other threads cannot execute a copy of the
/// body: it must write only local variables and adjoints, and the elements read again must be at the thread's own
/// indices.
pub(super) fn find_reread_places(
    body: &Function,
    roles: &[DerivedParamRole],
    accesses: &[Option<Access>],
) -> Option<Vec<Place>> {
    let role = |memory: MemId| role_of(body, roles, memory);
    let mut is_recomputable = true;
    each_stmt(&body.body, &mut |stmt| {
        is_recomputable &= match &stmt.kind {
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, result: None, .. } => {
                body.memories[place.memory].space == MemorySpace::Local
                    || matches!(role(place.memory), Some(DerivedParamRole::Adjoint(_)))
            }
            StmtKind::Atomic { result: Some(_), .. }
            | StmtKind::Barrier { .. }
            | StmtKind::Warp { .. }
            | StmtKind::Fence(_)
            | StmtKind::Call { .. }
            | StmtKind::Return(_)
            | StmtKind::Print { .. } => false,
            _ => true,
        };
    });
    if !is_recomputable {
        return None;
    }
    let consumed = body.memories.iter().map(|(memory, _)| memory).filter(|&memory| match role(memory) {
        Some(DerivedParamRole::Adjoint(param)) => accesses.get(param) != Some(&Some(Access::In)),
        _ => false,
    });
    let reread = consumed.filter(|&memory| is_reread(body, &body.body, memory, &mut false));
    reread.map(|memory| thread_own_place(body, memory)).collect()
}

/// Returns the memory location of all accesses to a memory, if all of them are to the element at the thread's own
/// indices.
fn thread_own_place(f: &Function, memory: MemId) -> Option<Place> {
    let index = |id: ExprId| match f.exprs[id].kind {
        ExprKind::Index(k) => Some(k),
        _ => None,
    };
    let (mut own_place, mut same): (Option<Place>, bool) = (None, true);
    let mut access = |place: &Place| {
        if place.memory == memory {
            let first = own_place.get_or_insert_with(|| place.clone());
            let pairs = place.indices.iter().zip(&first.indices);
            same &= (place.leaf, place.component) == (first.leaf, first.component);
            same &= pairs.into_iter().all(|(a, b)| index(*a).is_some() && index(*a) == index(*b));
        }
    };
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => access(place),
        _ => loaded_place(f, stmt).into_iter().for_each(&mut access),
    });
    own_place.filter(|place| same && place.component.is_none())
}

/// Returns whether a memory is loaded after it may have been written. `written` is updated: it is set if the memory may
/// have been written before the end of the block.
fn is_reread(f: &Function, block: &Block, memory: MemId, written: &mut bool) -> bool {
    for stmt in block {
        if *written && loaded_place(f, stmt).is_some_and(|place| place.memory == memory) {
            return true;
        }
        match &stmt.kind {
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } if place.memory == memory => *written = true,
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => {
                // Visits the body twice, because the second iteration may read elements that the first iteration has
                // written.
                if is_reread(f, body, memory, written) || is_reread(f, body, memory, written) {
                    return true;
                }
            }
            other => {
                let before = *written;
                for inner in other.blocks() {
                    let mut after = before;
                    if is_reread(f, inner, memory, &mut after) {
                        return true;
                    }
                    *written |= after;
                }
            }
        }
    }
    false
}

/// Returns the targets of the additions to an adjoint; `None` if it is accessed in any other way.
pub(super) fn additions(f: &Function, memory: MemId) -> Option<Vec<&Place>> {
    let (mut places, mut only_additions) = (vec![], true);
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => only_additions &= place.memory != memory,
        StmtKind::Atomic { op, place, result, .. } if place.memory == memory => {
            only_additions &= *op == AtomicOp::Add && result.is_none();
            places.push(place);
        }
        _ => only_additions &= loaded_place(f, stmt).is_none_or(|place| place.memory != memory),
    });
    only_additions.then_some(places)
}

/// Removes the additions to an adjoint.
pub(super) fn remove_additions(block: &mut Block, memory: MemId) {
    block.retain(|stmt| !matches!(&stmt.kind, StmtKind::Atomic { place, .. } if place.memory == memory));
    for stmt in block {
        stmt.kind.blocks_mut().for_each(|inner| remove_additions(inner, memory));
    }
}

fn is_loaded(f: &Function, memory: MemId) -> bool {
    let mut has_load = false;
    each_stmt(&f.body, &mut |stmt| has_load |= loaded_place(f, stmt).is_some_and(|place| place.memory == memory));
    has_load
}

/// Splits an index into the axis of a thread index and a constant offset: `(i - 1) + 4` is `(axis of i, 3)`.
pub(super) fn index_offset(f: &Function, id: ExprId) -> Option<(u8, i32)> {
    match &f.exprs[id].kind {
        ExprKind::Index(k) => Some((*k, 0)),
        ExprKind::Binary { op: BinOp::Add, left, right } => {
            let (own, by) = match f.const_integer(*right) {
                Some(by) => (index_offset(f, *left)?, by),
                None => (index_offset(f, *right)?, f.const_integer(*left)?),
            };
            Some((own.0, own.1.checked_add(i32::try_from(by).ok()?)?))
        }
        ExprKind::Binary { op: BinOp::Sub, left, right } => {
            let (own, by) = (index_offset(f, *left)?, f.const_integer(*right)?);
            Some((own.0, own.1.checked_sub(i32::try_from(by).ok()?)?))
        }
        _ => None,
    }
}

/// A reverse derivative over an index space whose adjoints are to be computed by separate kernels.
#[derive(Clone, Copy)]
pub(super) struct ReverseKernel<'a> {
    pub module: &'a Module,
    pub roles: &'a [DerivedParamRole],
    /// See [`find_reread_places`].
    pub reread_places: &'a [Place],
}

/// A kernel under construction that calls copies of the body of the original derivative.
pub(super) struct RecomputeKernel<'a> {
    original: &'a Function,
    reread_places: &'a [Place],
    /// For each by-value parameter of the original: its position, and its value and type in the new kernel.
    values: Vec<(usize, ExprId, Ty)>,
    /// The memories that are passed to the copies: each in the original kernel and in the new kernel.
    memories: Vec<(MemId, MemId)>,
    /// The extents of the index space.
    pub space: Vec<ExprId>,
}

impl<'a> RecomputeKernel<'a> {
    /// Creates the kernel with its parameters: those that the copies read, the array that the kernel writes (if it is a
    /// parameter), and the extents of the index space.
    pub fn begin(
        b: &mut FunctionBuilder,
        reverse: ReverseKernel<'a>,
        written: Option<MemId>,
    ) -> (RecomputeKernel<'a>, Vec<DerivedParamRole>) {
        let ReverseKernel { module, roles, reread_places } = reverse;
        let original = &module.functions[module.kernel.body];
        let (mut roles_of_copy, mut values, mut memories) = (vec![], vec![], vec![]);
        for (at, (param, role)) in module.kernel.params.iter().zip(roles).enumerate() {
            match param {
                KernelParam::Value { name, ty } => values.push((at, b.value(name.clone(), *ty), *ty)),
                KernelParam::Array { name, memory, .. } => {
                    let is_written = written == Some(*memory);
                    if matches!(role, DerivedParamRole::Adjoint(_)) && !is_written && !is_loaded(original, *memory) {
                        continue;
                    }
                    let access = if is_written { Access::InOut } else { Access::In };
                    let Memory { layout, extents, .. } = &original.memories[*memory];
                    memories.push((*memory, b.array(name.clone(), access, layout.clone(), extents.len())));
                }
            }
            roles_of_copy.push(*role);
        }
        let rank = match module.kernel.form {
            LaunchForm::Threads { rank } => rank,
            LaunchForm::Grid => 0,
        };
        let space: Vec<ExprId> = (0..rank).map(|k| b.value(free_name(module, &format!("threads{k}")), I32)).collect();
        roles_of_copy.extend((0..rank).map(DerivedParamRole::Extent));
        (RecomputeKernel { original, reread_places, values, memories, space }, roles_of_copy)
    }

    /// Returns the new kernel's memory that corresponds to a memory of the original.
    pub fn memory(&self, original: MemId) -> Option<MemId> {
        self.memories.iter().find(|(old, _)| *old == original).map(|(_, new)| *new)
    }

    /// Emits the extents of the index space, each limited to the number of threads whose loads are in bounds. The limit
    /// has no effect, because the launch of the primal kernel completed without a fault. But with it, the loads of the
    /// copies are provably in bounds.
    pub fn limits(&self, b: &mut FunctionBuilder) -> Vec<ExprId> {
        let mut limits = self.space.clone();
        for ((own, memory, axis), by) in self.reach() {
            let (extent, by) = (b.extent(memory, axis), b.i32(by));
            let most = b.binary(BinOp::Sub, extent, by);
            let limit = &mut limits[usize::from(own)];
            *limit = b.math(MathFn::Min, &[*limit, most]);
        }
        limits
    }

    /// Returns the largest constant offset from a thread index at which every thread loads, for each thread index,
    /// memory and axis.
    fn reach(&self) -> BTreeMap<(u8, MemId, u8), i32> {
        let mut reach = BTreeMap::new();
        for place in self.original.body.iter().filter_map(|stmt| loaded_place(self.original, stmt)) {
            let Some(memory) = self.memory(place.memory) else { continue };
            for (axis, &index) in place.indices.iter().enumerate() {
                if let Some((own, by @ 0..)) = index_offset(self.original, index) {
                    let most = reach.entry((own, memory, axis as u8)).or_insert(by);
                    *most = by.max(*most);
                }
            }
        }
        reach
    }

    /// Emits a call of a copy for the thread with the indices `thread`. Returns the sums that the copy returns.
    pub fn call(&self, b: &mut FunctionBuilder, copy: FunctionId, types: &[Ty], thread: &[ExprId]) -> Vec<ExprId> {
        let args: Vec<ExprId> = self.values.iter().map(|(_, value, _)| *value).chain(thread.iter().copied()).collect();
        let memories: Vec<MemId> = self.memories.iter().map(|(_, new)| *new).collect();
        b.call(copy, types, &args, &memories)
    }

    /// Completes the kernel. It has the same number of indices as the original.
    pub fn finish(
        &self,
        reverse: &Module,
        functions: Arena<Function>,
        b: FunctionBuilder,
        name: &str,
    ) -> Result<Module, NotDifferentiable> {
        let mut kernel = build_module(functions, b, reverse.kernel.form);
        kernel.kernel.name = format!("{}_{name}", reverse.kernel.name);
        kernel.kernel.span = reverse.kernel.span;
        clk_pass::for_recomputation(&kernel).map_err(NotDifferentiable::internal)
    }

    /// Creates a copy of the body: a function that returns the sums of selected additions of a thread. The thread's
    /// indices are its last parameters.
    pub fn copy(&self, name: String, additions: &[(Addition, Ty)]) -> Function {
        let mut f = self.original.clone();
        f.name = name;
        let values = self.values.iter().map(|(_, _, ty)| *ty);
        f.params = values.chain(self.space.iter().map(|_| I32)).collect();
        let positions: FxHashMap<usize, u32> = self.values.iter().zip(0..).map(|((at, ..), new)| (*at, new)).collect();
        for (_, expr) in f.exprs.iter_mut() {
            match &mut expr.kind {
                ExprKind::Param(at) => *at = positions.get(&(*at as usize)).copied().unwrap_or_default(),
                ExprKind::Index(k) => expr.kind = ExprKind::Param((self.values.len() + usize::from(*k)) as u32),
                _ => {}
            }
        }
        for (id, own) in f.memories.iter_mut() {
            match self.memories.iter().position(|(passed, _)| *passed == id) {
                Some(position) => own.space = MemorySpace::Param { position: position as u32, access: Access::In },
                // The copy does not access this memory.
                None if matches!(own.space, MemorySpace::Global { .. }) => {
                    own.space = MemorySpace::Local;
                    own.extents.fill(Extent::Known(1));
                }
                None => {}
            }
        }
        f.results = additions.iter().map(|(_, ty)| *ty).collect();
        let span = f.span;
        let (body, mut all) = (std::mem::take(&mut f.body), vec![]);
        let mut sums = vec![];
        for &(_, ty) in additions {
            let sum = f.locals.push(Local { name: "part".into(), ty, span });
            let zero = zero(&mut f, ty, span, &mut all);
            all.push(Stmt { kind: StmtKind::Write { local: sum, value: zero }, span });
            sums.push(sum);
        }
        let reread_locals =
            self.reread_places.iter().map(|place| load_reread_element(&mut f, place, &mut all)).collect();
        let additions = additions.iter().map(|(addition, _)| *addition).zip(sums.iter().copied()).collect();
        let mut recomputed = RecomputedBody {
            f: &mut f,
            original: self.original,
            sums: additions,
            reread_locals,
            addition_counts: FxHashMap::default(),
        };
        all.extend(recomputed.block(body));
        let mut totals = vec![];
        for sum in sums {
            let ty = f.locals[sum].ty;
            let total = edit::push(&mut f, ExprKind::Read(sum), ty, span);
            all.push(edit::let_stmt(&f, total));
            totals.push(total);
        }
        all.push(Stmt { kind: StmtKind::Return(totals), span });
        f.body = all;
        f
    }
}

/// Returns a name that starts with `name` and differs from the names of all parameters.
pub(super) fn free_name(module: &Module, name: &str) -> String {
    let is_taken = |name: &str| {
        module.kernel.params.iter().any(|param| match param {
            KernelParam::Value { name: own, .. } | KernelParam::Array { name: own, .. } => own == name,
        })
    };
    let mut name = name.to_string();
    while is_taken(&name) {
        name.push('_');
    }
    name
}

/// Emits a zero of type `ty`.
fn zero(f: &mut Function, ty: Ty, span: Span, into: &mut Block) -> ExprId {
    let zero = edit::push(f, ExprKind::Const(0), Ty::Scalar(ty.scalar()), span);
    let Ty::Vector(_, lanes) = ty else { return zero };
    let all = edit::push(f, ExprKind::Compose(vec![zero; lanes.into()]), ty, span);
    into.push(edit::let_stmt(f, all));
    all
}

/// Emits code that loads an element into a new local, which replaces the element in the copy.
fn load_reread_element(f: &mut Function, place: &Place, into: &mut Block) -> (MemId, LocalId) {
    let (ty, span) = (f.memories[place.memory].layout.leaves[place.leaf as usize].ty, f.span);
    let local = f.locals.push(Local { name: "held".into(), ty, span });
    let value = edit::push(f, ExprKind::Load { place: place.clone(), hint: CacheHint::None }, ty, span);
    let zero = zero(f, ty, span, into);
    into.push(Stmt { kind: StmtKind::Write { local, value: zero }, span });
    let mut then = vec![edit::let_stmt(f, value), Stmt { kind: StmtKind::Write { local, value }, span }];
    // If the thread's indices are outside the array, the local stays 0.
    for (axis, &index) in place.indices.iter().enumerate().rev() {
        let right = edit::push(f, ExprKind::Extent(place.memory, axis as u8), I32, span);
        let is_inside = ExprKind::Binary { op: BinOp::Lt, left: index, right };
        let cond = edit::push(f, is_inside, BOOL, span);
        let guarded = Stmt { kind: StmtKind::If { cond, then, other: vec![] }, span };
        then = vec![edit::let_stmt(f, cond), guarded];
    }
    into.extend(then);
    (place.memory, local)
}

/// The state while a copy of the body is created.
struct RecomputedBody<'f> {
    f: &'f mut Function,
    original: &'f Function,
    /// The local that sums up each selected addition.
    sums: FxHashMap<Addition, LocalId>,
    /// The locals that replace adjoint elements, by adjoint.
    reread_locals: FxHashMap<MemId, LocalId>,
    /// The number of additions so far, by adjoint.
    addition_counts: FxHashMap<MemId, usize>,
}

impl RecomputedBody<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            match &stmt.kind {
                StmtKind::Atomic { place, value, .. } => {
                    let number = self.addition_counts.entry(place.memory).or_default();
                    let sum = self.sums.get(&(place.memory, *number)).copied();
                    *number += 1;
                    if let Some(sum) = sum {
                        self.add_to_sum(sum, *value, stmt.span, &mut out);
                    }
                }
                StmtKind::Store { place, .. } if self.original.memories[place.memory].space == MemorySpace::Local => {
                    out.push(stmt)
                }
                StmtKind::Store { place, value, .. } => {
                    if let Some(&local) = self.reread_locals.get(&place.memory) {
                        out.push(Stmt { kind: StmtKind::Write { local, value: *value }, span: stmt.span });
                    }
                }
                StmtKind::Let(id) => {
                    if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind
                        && let Some(&local) = self.reread_locals.get(&place.memory)
                    {
                        self.f.exprs[*id].kind = ExprKind::Read(local);
                    }
                    out.push(stmt);
                }
                StmtKind::Assert { .. } => {}
                _ => out.push(stmt),
            }
        }
        out
    }

    fn add_to_sum(&mut self, sum: LocalId, part: ExprId, span: Span, out: &mut Block) {
        let ty = self.f.locals[sum].ty;
        let before = edit::push(self.f, ExprKind::Read(sum), ty, span);
        let next = ExprKind::Binary { op: BinOp::Add, left: before, right: part };
        let next = edit::push(self.f, next, ty, span);
        out.extend([edit::let_stmt(self.f, before), edit::let_stmt(self.f, next)]);
        out.push(Stmt { kind: StmtKind::Write { local: sum, value: next }, span });
    }
}
