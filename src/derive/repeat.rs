//! Copies of the body of a reverse derivative that compute some of what a thread adds to adjoints, and nothing else.
//!
//! Input: a reverse derivative over an index space. Output: a function of a thread's indices, which returns the sums of some of its
//! additions. Other threads, and fewer or more of them, can so do what the threads of the launch would have done, in another order.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::def::{Role, loaded, role_of};
use super::lost::Lost;
use crate::base::arena::Arena;
use crate::base::source::Span;
use crate::ir::build::{FunctionBuilder, module};
use crate::ir::def::*;
use crate::ir::typing::{BOOL, I32};
use crate::ir::visit::each_stmt;
use crate::lang::ops::{AtomicOp, MathFn};
use crate::pass::{self, edit};

/// An addition: the adjoint, and how many additions to it stand in front.
pub(super) type Addition = (MemId, usize);

/// Returns what a copy of the body has to hold so that other threads can run it, too, with nothing left of it but what they add: elements
/// of adjoints of results that are read again after they were taken. `None` if they cannot: it may write only its own variables and
/// adjoints, and what is read again only at the thread's own indices.
pub(super) fn repeatable(body: &Function, roles: &[Role], accesses: &[Option<Access>]) -> Option<Vec<Place>> {
    let role = |memory: MemId| role_of(body, roles, memory);
    let mut fits = true;
    each_stmt(&body.body, &mut |stmt| {
        fits &= match &stmt.kind {
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, result: None, .. } => {
                body.memories[place.memory].space == Space::Local
                    || matches!(role(place.memory), Some(Role::Adjoint(_)))
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
    if !fits {
        return None;
    }
    let taken = body.memories.iter().map(|(memory, _)| memory).filter(|&memory| match role(memory) {
        Some(Role::Adjoint(param)) => accesses.get(param) != Some(&Some(Access::In)),
        _ => false,
    });
    let again = taken.filter(|&memory| is_read_again(body, &body.body, memory, &mut false));
    again.map(|memory| own_place(body, memory)).collect()
}

/// Returns the place of all accesses of a memory, if it is one of the thread's own.
fn own_place(f: &Function, memory: MemId) -> Option<Place> {
    let index = |id: ExprId| match f.exprs[id].kind {
        ExprKind::Index(k) => Some(k),
        _ => None,
    };
    let (mut found, mut same): (Option<Place>, bool) = (None, true);
    let mut access = |place: &Place| {
        if place.memory == memory {
            let first = found.get_or_insert_with(|| place.clone());
            let pairs = place.indices.iter().zip(&first.indices);
            same &= (place.leaf, place.component) == (first.leaf, first.component);
            same &= pairs.into_iter().all(|(a, b)| index(*a).is_some() && index(*a) == index(*b));
        }
    };
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => access(place),
        _ => loaded(f, stmt).into_iter().for_each(&mut access),
    });
    found.filter(|place| same && place.component.is_none())
}

/// Returns whether a memory is loaded where it may have been written; `written` becomes whether it may be at the end of the block.
fn is_read_again(f: &Function, block: &Block, memory: MemId, written: &mut bool) -> bool {
    for stmt in block {
        if *written && loaded(f, stmt).is_some_and(|place| place.memory == memory) {
            return true;
        }
        match &stmt.kind {
            StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } if place.memory == memory => *written = true,
            StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => {
                // The second turn sees what the first one wrote.
                if is_read_again(f, body, memory, written) || is_read_again(f, body, memory, written) {
                    return true;
                }
            }
            other => {
                let before = *written;
                for inner in other.blocks() {
                    let mut after = before;
                    if is_read_again(f, inner, memory, &mut after) {
                        return true;
                    }
                    *written |= after;
                }
            }
        }
    }
    false
}

/// Returns where the additions to an adjoint go; `None` if anything else is done with it.
pub(super) fn additions(f: &Function, memory: MemId) -> Option<Vec<&Place>> {
    let (mut found, mut fits) = (vec![], true);
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => fits &= place.memory != memory,
        StmtKind::Atomic { op, place, result, .. } if place.memory == memory => {
            fits &= *op == AtomicOp::Add && result.is_none();
            found.push(place);
        }
        _ => fits &= loaded(f, stmt).is_none_or(|place| place.memory != memory),
    });
    fits.then_some(found)
}

/// Removes the additions to an adjoint.
pub(super) fn remove_additions(block: &mut Block, memory: MemId) {
    block.retain(|stmt| !matches!(&stmt.kind, StmtKind::Atomic { place, .. } if place.memory == memory));
    for stmt in block {
        stmt.kind.blocks_mut().for_each(|inner| remove_additions(inner, memory));
    }
}

fn is_loaded(f: &Function, memory: MemId) -> bool {
    let mut found = false;
    each_stmt(&f.body, &mut |stmt| found |= loaded(f, stmt).is_some_and(|place| place.memory == memory));
    found
}

/// Returns the axis of an index of the thread, and what is added to it.
pub(super) fn moved(f: &Function, id: ExprId) -> Option<(u8, i32)> {
    match &f.exprs[id].kind {
        ExprKind::Index(k) => Some((*k, 0)),
        ExprKind::Binary { op: BinOp::Add, left, right } => {
            let (own, by) = match edit::integer_of(f, *right) {
                Some(by) => (moved(f, *left)?, by),
                None => (moved(f, *right)?, edit::integer_of(f, *left)?),
            };
            Some((own.0, own.1.checked_add(i32::try_from(by).ok()?)?))
        }
        ExprKind::Binary { op: BinOp::Sub, left, right } => {
            let (own, by) = (moved(f, *left)?, edit::integer_of(f, *right)?);
            Some((own.0, own.1.checked_sub(i32::try_from(by).ok()?)?))
        }
        _ => None,
    }
}

/// A kernel that calls copies of the body of another one.
pub(super) struct Copies<'a> {
    original: &'a Function,
    held: &'a [Place],
    /// The positions of the values among the parameters, and the values and their types in the new kernel.
    values: Vec<(usize, ExprId, Ty)>,
    /// The memories that are passed on, in the original and in the new kernel.
    memories: Vec<(MemId, MemId)>,
    /// The extents of the index space.
    pub space: Vec<ExprId>,
}

impl<'a> Copies<'a> {
    /// Adds the parameters that copies read, the array that the kernel writes, if it is one of them, and the extents of the index space.
    pub fn begin(
        b: &mut FunctionBuilder,
        (made, roles, held): (&'a Module, &[Role], &'a [Place]),
        written: Option<MemId>,
    ) -> (Copies<'a>, Vec<Role>) {
        let original = &made.functions[made.kernel.body];
        let (mut kept, mut values, mut memories) = (vec![], vec![], vec![]);
        for (at, (of, role)) in made.kernel.params.iter().zip(roles).enumerate() {
            match of {
                KernelParam::Value { name, ty } => values.push((at, b.value(name.clone(), *ty), *ty)),
                KernelParam::Array { name, memory, .. } => {
                    let is_written = written == Some(*memory);
                    if matches!(role, Role::Adjoint(_)) && !is_written && !is_loaded(original, *memory) {
                        continue;
                    }
                    let access = if is_written { Access::InOut } else { Access::In };
                    let Memory { layout, extents, .. } = &original.memories[*memory];
                    memories.push((*memory, b.array(name.clone(), access, layout.clone(), extents.len())));
                }
            }
            kept.push(*role);
        }
        let rank = match made.kernel.form {
            Form::Threads { rank } => rank,
            Form::Grid => 0,
        };
        let space: Vec<ExprId> = (0..rank).map(|k| b.value(free_name(made, &format!("threads{k}")), I32)).collect();
        kept.extend((0..rank).map(Role::Extent));
        (Copies { original, held, values, memories, space }, kept)
    }

    /// Returns what a memory of the original is in the new kernel.
    pub fn memory(&self, original: MemId) -> Option<MemId> {
        self.memories.iter().find(|(old, _)| *old == original).map(|(_, new)| *new)
    }

    /// Returns the extents of the index space once more, each as the least of itself and of what the loads that every thread does leave
    /// room for: the launch was without a fault, so these are the same numbers, but from them it follows that copies load in bounds.
    pub fn limits(&self, b: &mut FunctionBuilder) -> Vec<ExprId> {
        let mut limits = self.space.clone();
        for ((own, memory, axis), by) in self.reach() {
            let (extent, by) = (b.extent(memory, axis), b.i32(by));
            let room = b.binary(BinOp::Sub, extent, by);
            let limit = &mut limits[usize::from(own)];
            *limit = b.math(MathFn::Min, &[*limit, room]);
        }
        limits
    }

    /// Returns how far beyond the thread's index on an axis every thread loads from an axis of a memory.
    fn reach(&self) -> BTreeMap<(u8, MemId, u8), i32> {
        let mut reach = BTreeMap::new();
        for place in self.original.body.iter().filter_map(|stmt| loaded(self.original, stmt)) {
            let Some(memory) = self.memory(place.memory) else { continue };
            for (axis, &index) in place.indices.iter().enumerate() {
                if let Some((own, by @ 0..)) = moved(self.original, index) {
                    let most = reach.entry((own, memory, axis as u8)).or_insert(by);
                    *most = by.max(*most);
                }
            }
        }
        reach
    }

    /// Calls a copy for the thread with these indices; returns its sums.
    pub fn call(&self, b: &mut FunctionBuilder, copy: FunctionId, types: &[Ty], thread: &[ExprId]) -> Vec<ExprId> {
        let args: Vec<ExprId> = self.values.iter().map(|(_, value, _)| *value).chain(thread.iter().copied()).collect();
        let passed: Vec<MemId> = self.memories.iter().map(|(_, new)| *new).collect();
        b.call(copy, types, &args, &passed)
    }

    /// Completes the kernel, which has as many indices as the original.
    pub fn finish(
        &self,
        made: &Module,
        functions: Arena<Function>,
        b: FunctionBuilder,
        name: &str,
    ) -> Result<Module, Lost> {
        let mut done = module(functions, b, made.kernel.form);
        done.kernel.name = format!("{}_{name}", made.kernel.name);
        done.kernel.span = made.kernel.span;
        pass::repeated(&done).map_err(Lost::internal)
    }

    /// Makes a function of what a thread adds in some of its additions; its indices are the last parameters.
    pub fn copy(&self, name: String, wanted: &[(Addition, Ty)]) -> Function {
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
                Some(position) => own.space = Space::Param { position: position as u32, access: Access::In },
                // Nothing is left that accesses it.
                None if matches!(own.space, Space::Global { .. }) => {
                    own.space = Space::Local;
                    own.extents.fill(Extent::Known(1));
                }
                None => {}
            }
        }
        f.results = wanted.iter().map(|(_, ty)| *ty).collect();
        let span = f.span;
        let (body, mut all) = (std::mem::take(&mut f.body), vec![]);
        let mut sums = vec![];
        for &(_, ty) in wanted {
            let sum = f.locals.push(Local { name: "part".into(), ty, span });
            let zero = zero(&mut f, ty, span, &mut all);
            all.push(Stmt { kind: StmtKind::Write { local: sum, value: zero }, span });
            sums.push(sum);
        }
        let held = self.held.iter().map(|place| hold(&mut f, place, &mut all)).collect();
        let wanted = wanted.iter().map(|(addition, _)| *addition).zip(sums.iter().copied()).collect();
        let mut kept = Kept { f: &mut f, original: self.original, wanted, held, passed: FxHashMap::default() };
        all.extend(kept.block(body));
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

/// Returns a name like this one that no parameter of a kernel has.
pub(super) fn free_name(made: &Module, name: &str) -> String {
    let is_taken = |name: &str| {
        made.kernel.params.iter().any(|param| match param {
            KernelParam::Value { name: own, .. } | KernelParam::Array { name: own, .. } => own == name,
        })
    };
    let mut name = name.to_string();
    while is_taken(&name) {
        name.push('_');
    }
    name
}

/// Makes a zero, in all lanes.
fn zero(f: &mut Function, ty: Ty, span: Span, into: &mut Block) -> ExprId {
    let zero = edit::push(f, ExprKind::Const(0), Ty::Scalar(ty.scalar()), span);
    let Ty::Vector(_, lanes) = ty else { return zero };
    let all = edit::push(f, ExprKind::Compose(vec![zero; lanes.into()]), ty, span);
    into.push(edit::let_stmt(f, all));
    all
}

/// Reads an element into a local that stands for it.
fn hold(f: &mut Function, place: &Place, into: &mut Block) -> (MemId, LocalId) {
    let (ty, span) = (f.memories[place.memory].layout.leaves[place.leaf as usize].ty, f.span);
    let local = f.locals.push(Local { name: "held".into(), ty, span });
    let value = edit::push(f, ExprKind::Load { place: place.clone(), hint: Hint::None }, ty, span);
    let zero = zero(f, ty, span, into);
    into.push(Stmt { kind: StmtKind::Write { local, value: zero }, span });
    let mut then = vec![edit::let_stmt(f, value), Stmt { kind: StmtKind::Write { local, value }, span }];
    // A thread may be beyond the array, of which it then accesses no element.
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

/// What is kept of a body.
struct Kept<'f> {
    f: &'f mut Function,
    original: &'f Function,
    /// The sums of the additions that are wanted.
    wanted: FxHashMap<Addition, LocalId>,
    /// What stands for the thread's element of a memory.
    held: FxHashMap<MemId, LocalId>,
    /// The additions so far.
    passed: FxHashMap<MemId, usize>,
}

impl Kept<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut kept = Vec::with_capacity(block.len());
        for mut stmt in block {
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            match &stmt.kind {
                StmtKind::Atomic { place, value, .. } => {
                    let number = self.passed.entry(place.memory).or_default();
                    let sum = self.wanted.get(&(place.memory, *number)).copied();
                    *number += 1;
                    if let Some(sum) = sum {
                        self.add(sum, *value, stmt.span, &mut kept);
                    }
                }
                StmtKind::Store { place, .. } if self.original.memories[place.memory].space == Space::Local => {
                    kept.push(stmt)
                }
                StmtKind::Store { place, value, .. } => {
                    if let Some(&local) = self.held.get(&place.memory) {
                        kept.push(Stmt { kind: StmtKind::Write { local, value: *value }, span: stmt.span });
                    }
                }
                StmtKind::Let(id) => {
                    if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind
                        && let Some(&local) = self.held.get(&place.memory)
                    {
                        self.f.exprs[*id].kind = ExprKind::Read(local);
                    }
                    kept.push(stmt);
                }
                StmtKind::Assert { .. } => {}
                _ => kept.push(stmt),
            }
        }
        kept
    }

    fn add(&mut self, sum: LocalId, part: ExprId, span: Span, kept: &mut Block) {
        let ty = self.f.locals[sum].ty;
        let before = edit::push(self.f, ExprKind::Read(sum), ty, span);
        let next = ExprKind::Binary { op: BinOp::Add, left: before, right: part };
        let next = edit::push(self.f, next, ty, span);
        kept.extend([edit::let_stmt(self.f, before), edit::let_stmt(self.f, next)]);
        kept.push(Stmt { kind: StmtKind::Write { local: sum, value: next }, span });
    }
}
