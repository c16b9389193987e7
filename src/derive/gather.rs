//! Adjoints that threads gather: for an array that is read at the thread's indices moved by constants, as in a stencil.
//!
//! Input: a reverse derivative over an index space, in which each thread adds to several elements of such an adjoint. Output: a kernel
//! over the elements, whose threads compute what the threads of the launch would have added to their element, and the derivative
//! without these additions. Nothing is atomic, and the order of the additions is that of the text, so the bits are the same each time.

use rustc_hash::FxHashMap;

use super::def::{Gather, Role};
use super::lost::Lost;
use super::rules::constant;
use crate::base::arena::Arena;
use crate::base::source::Span;
use crate::ir::build::{FunctionBuilder, module};
use crate::ir::def::*;
use crate::ir::typing::I32;
use crate::ir::visit::each_stmt;
use crate::lang::ops::AtomicOp;
use crate::pass::{self, edit};

/// The most additions to an array that are gathered, and the most statements that they become: each is computed with all that it
/// needs. An atomic addition costs a GPU as much as some 50 simple operations.
const MOST_SITES: usize = 32;
const MOST_STATEMENTS: usize = 4096;

/// Where an addition goes: along each axis, the axis of the thread's index, and what is added to it.
type Site = Vec<(u8, i32)>;

/// Takes out of a derivative what can be gathered. `accesses` are those of the original parameters.
pub(super) fn taken_out(
    made: &mut Module,
    roles: &mut [Role],
    accesses: &[Option<Access>],
) -> Result<Vec<Gather>, Lost> {
    let Form::Threads { rank } = made.kernel.form else { return Ok(vec![]) };
    let body = &made.functions[made.kernel.body];
    if roles.iter().any(|role| matches!(role, Role::Tape(_))) {
        return Ok(vec![]);
    }
    let Some(held) = repeatable(body, roles, accesses) else { return Ok(vec![]) };
    let mut found = vec![];
    for (at, role) in roles.iter().enumerate() {
        let (Role::Adjoint(param), Some(KernelParam::Array { memory, .. })) = (*role, made.kernel.params.get(at))
        else {
            continue;
        };
        if accesses.get(param) == Some(&Some(Access::In))
            && let Some(sites) = sites(body, *memory, rank)
        {
            found.push((at, param, *memory, sites));
        }
    }
    let mut gathers = vec![];
    for (_, param, memory, sites) in &found {
        gathers.push(gather(made, roles, *param, (*memory, sites, &held))?);
    }
    for &(at, param, memory, _) in &found {
        let body = made.kernel.body;
        remove_additions(&mut made.functions[body].body, memory);
        only_read(made, roles, at, param);
    }
    Ok(gathers)
}

/// Returns whether a derivative does more than to take the adjoints of results.
pub(super) fn has_effect(made: &Module, roles: &[Role], accesses: &[Option<Access>]) -> bool {
    let body = &made.functions[made.kernel.body];
    let is_taken = |memory: MemId| match body.memories[memory].space {
        Space::Global { param, .. } => match roles.get(param as usize) {
            Some(Role::Adjoint(param)) => accesses.get(*param) == Some(&Some(Access::Out)),
            _ => false,
        },
        Space::Local => true,
        _ => false,
    };
    let mut found = false;
    each_stmt(&body.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => found |= !is_taken(place.memory),
        StmtKind::Atomic { .. } | StmtKind::Assert { .. } => found = true,
        _ => {}
    });
    found
}

/// Lets a kernel read the parameter in place of its adjoint, which it does not touch any more.
fn only_read(made: &mut Module, roles: &mut [Role], at: usize, param: usize) {
    roles[at] = Role::Primal(param);
    let body = made.kernel.body;
    if let Some(KernelParam::Array { access, memory, .. }) = made.kernel.params.get_mut(at) {
        *access = Access::In;
        let space = Space::Global { param: at as u32, access: Access::In };
        made.functions[body].memories[*memory].space = space;
    }
}

/// Returns what a copy of the body has to hold so that other threads can run it, too, with nothing left of it but what they add: elements
/// of adjoints of results that are read again after they were taken. `None` if they cannot: it may write only its own variables and
/// adjoints, and what is read again only at the thread's own indices.
fn repeatable(body: &Function, roles: &[Role], accesses: &[Option<Access>]) -> Option<Vec<Place>> {
    let role = |memory: MemId| match body.memories[memory].space {
        Space::Global { param, .. } => roles.get(param as usize).copied(),
        _ => None,
    };
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
        StmtKind::Let(id) => {
            if let ExprKind::Load { place, .. } = &f.exprs[*id].kind {
                access(place);
            }
        }
        StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } => access(place),
        _ => {}
    });
    found.filter(|place| same && place.component.is_none())
}

/// Returns whether a memory is loaded where it may have been written; `written` becomes whether it may be at the end of the block.
fn is_read_again(f: &Function, block: &Block, memory: MemId, written: &mut bool) -> bool {
    for stmt in block {
        match &stmt.kind {
            StmtKind::Let(id) => {
                let loads = matches!(&f.exprs[*id].kind, ExprKind::Load { place, .. } if place.memory == memory);
                if loads && *written {
                    return true;
                }
            }
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

/// Returns the additions to an adjoint, if each is at the thread's own indices, in any order, moved by constants.
fn sites(body: &Function, memory: MemId, rank: u8) -> Option<Vec<Site>> {
    let own = &body.memories[memory];
    let [leaf] = &own.layout.leaves[..] else { return None };
    if own.extents.len() != usize::from(rank) || !matches!(leaf.ty, Ty::Scalar(Scalar::F32 | Scalar::F64)) {
        return None;
    }
    let (mut found, mut statements, mut fits) = (vec![], 0, true);
    each_stmt(&body.body, &mut |stmt| {
        statements += 1;
        match &stmt.kind {
            StmtKind::Let(id) => {
                fits &= !matches!(&body.exprs[*id].kind, ExprKind::Load { place, .. } if place.memory == memory);
            }
            StmtKind::Store { place, .. } => fits &= place.memory != memory,
            StmtKind::Atomic { op, place, result, .. } if place.memory == memory => {
                let site = if *op == AtomicOp::Add && result.is_none() { site(body, place, rank) } else { None };
                fits &= site.is_some();
                found.extend(site);
            }
            _ => {}
        }
    });
    let pays = (2..=MOST_SITES).contains(&found.len()) && found.len() * statements <= MOST_STATEMENTS;
    (fits && pays).then_some(found)
}

fn site(body: &Function, place: &Place, rank: u8) -> Option<Site> {
    let site: Site = place.indices.iter().map(|&index| moved(body, index)).collect::<Option<_>>()?;
    (0..rank).all(|k| site.iter().any(|(own, _)| *own == k)).then_some(site)
}

/// Returns the axis of an index of the thread, and what is added to it.
fn moved(f: &Function, id: ExprId) -> Option<(u8, i32)> {
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

fn remove_additions(block: &mut Block, memory: MemId) {
    block.retain(|stmt| !matches!(&stmt.kind, StmtKind::Atomic { place, .. } if place.memory == memory));
    for stmt in block {
        stmt.kind.blocks_mut().for_each(|inner| remove_additions(inner, memory));
    }
}

/// Makes the kernel that gathers an adjoint.
fn gather(
    made: &Module,
    roles: &[Role],
    param: usize,
    (memory, sites, held): (MemId, &[Site], &[Place]),
) -> Result<Gather, Lost> {
    let original = &made.functions[made.kernel.body];
    let mut b = FunctionBuilder::new("gather");
    let (mut kept, mut values, mut memories) = (vec![], vec![], vec![]);
    for (at, (of, role)) in made.kernel.params.iter().zip(roles).enumerate() {
        match of {
            KernelParam::Value { name, ty } => values.push((at, b.value(name.clone(), *ty), *ty)),
            KernelParam::Array { name, memory: own, .. } => {
                if matches!(role, Role::Adjoint(_)) && *own != memory && !is_loaded(original, *own) {
                    continue;
                }
                let access = if *own == memory { Access::InOut } else { Access::In };
                let Memory { layout, extents, .. } = &original.memories[*own];
                memories.push((*own, b.array(name.clone(), access, layout.clone(), extents.len())));
            }
        }
        kept.push(*role);
    }
    let rank = sites[0].len();
    let space: Vec<ExprId> = (0..rank).map(|k| b.value(format!("threads{k}"), I32)).collect();
    kept.extend((0..rank).map(|k| Role::Extent(k as u8)));
    let own: Vec<ExprId> = (0..rank).map(|k| b.index(k as u8)).collect();
    let ty = original.memories[memory].layout.leaves[0].ty;
    let zero = constant(&mut b, ty, 0.0);
    let sum = b.variable("sum", zero);
    let mut functions = Arena::default();
    let passed: Vec<MemId> = memories.iter().map(|(_, new)| *new).collect();
    let common = Common { original, memory, values, memories, rank, held };
    for (number, site) in sites.iter().enumerate() {
        let function = functions.push(part_of(number, &common));
        let mut thread = own.clone();
        for (axis, &(k, by)) in site.iter().enumerate() {
            let by = b.i32(by);
            thread[usize::from(k)] = b.binary(BinOp::Sub, own[axis], by);
        }
        let mut inside = b.bool(true);
        for (&index, &extent) in thread.iter().zip(&space) {
            let zero = b.i32(0);
            for (op, limit) in [(BinOp::Ge, zero), (BinOp::Lt, extent)] {
                let fits = b.binary(op, index, limit);
                inside = b.binary(BinOp::And, inside, fits);
            }
        }
        b.if_then(inside, |b| {
            let args: Vec<ExprId> = common.values.iter().map(|(_, value, _)| *value).chain(thread).collect();
            for part in b.call(function, &[ty], &args, &passed) {
                let before = b.read(sum);
                let next = b.binary(BinOp::Add, before, part);
                b.write(sum, next);
            }
        });
    }
    if let Some(&(_, adjoint)) = common.memories.iter().find(|(old, _)| *old == memory) {
        let (before, part) = (b.load(adjoint, &own), b.read(sum));
        let next = b.binary(BinOp::Add, before, part);
        b.store(adjoint, &own, next);
    }
    let mut gathering = module(functions, b, Form::Threads { rank: rank as u8 });
    gathering.kernel.name = format!("{}_{}", made.kernel.name, original.memories[memory].name);
    gathering.kernel.span = made.kernel.span;
    let module = pass::for_derivative(&gathering).map_err(Lost::internal)?;
    Ok(Gather { module, params: kept, param })
}

fn is_loaded(f: &Function, memory: MemId) -> bool {
    let mut found = false;
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Let(id) = stmt.kind {
            found |= matches!(&f.exprs[id].kind, ExprKind::Load { place, .. } if place.memory == memory);
        }
    });
    found
}

/// What the functions of a gathering kernel have in common.
struct Common<'a> {
    original: &'a Function,
    /// The adjoint.
    memory: MemId,
    /// The positions of the values among the parameters, and the values and their types in the new kernel.
    values: Vec<(usize, ExprId, Ty)>,
    /// The memories that are passed on, in the original and in the new kernel.
    memories: Vec<(MemId, MemId)>,
    rank: usize,
    held: &'a [Place],
}

/// Makes a function of what a thread adds at one of its additions to an array; its indices are the last parameters.
fn part_of(number: usize, common: &Common) -> Function {
    let Common { original, memory, values, memories, rank, held } = common;
    let (original, memory, rank) = (*original, *memory, *rank);
    let mut f = original.clone();
    f.name = format!("part{number}");
    f.params = values.iter().map(|(_, _, ty)| *ty).chain((0..rank).map(|_| I32)).collect();
    let positions: FxHashMap<usize, u32> = values.iter().zip(0..).map(|((at, ..), new)| (*at, new)).collect();
    for (_, expr) in f.exprs.iter_mut() {
        match &mut expr.kind {
            ExprKind::Param(at) => *at = positions.get(&(*at as usize)).copied().unwrap_or_default(),
            ExprKind::Index(k) => expr.kind = ExprKind::Param((values.len() + usize::from(*k)) as u32),
            _ => {}
        }
    }
    for (id, own) in f.memories.iter_mut() {
        match memories.iter().position(|(passed, _)| *passed == id) {
            Some(position) => own.space = Space::Param { position: position as u32, access: Access::In },
            // Nothing is left that accesses it.
            None if matches!(own.space, Space::Global { .. }) => {
                own.space = Space::Local;
                own.extents.fill(Extent::Known(1));
            }
            None => {}
        }
    }
    let ty = f.memories[memory].layout.leaves[0].ty;
    f.results = vec![ty];
    let span = f.span;
    let sum = f.locals.push(Local { name: "part".into(), ty, span });
    let zero = edit::push(&mut f, ExprKind::Const(0), ty, span);
    let body = std::mem::take(&mut f.body);
    let mut all = vec![Stmt { kind: StmtKind::Write { local: sum, value: zero }, span }];
    let mut locals = FxHashMap::default();
    for place in *held {
        let ty = f.memories[place.memory].layout.leaves[place.leaf as usize].ty;
        let local = f.locals.push(Local { name: "held".into(), ty, span });
        let value = edit::push(&mut f, ExprKind::Load { place: place.clone(), hint: Hint::None }, ty, span);
        all.extend([edit::let_stmt(&f, value), Stmt { kind: StmtKind::Write { local, value }, span }]);
        locals.insert(place.memory, local);
    }
    let mut kept = Kept { f: &mut f, memory, sum, held: locals, next: 0, number };
    all.extend(kept.block(body));
    let total = edit::push(&mut f, ExprKind::Read(sum), ty, span);
    all.push(edit::let_stmt(&f, total));
    all.push(Stmt { kind: StmtKind::Return(vec![total]), span });
    f.body = all;
    f
}

/// What is kept of a body for one of its additions.
struct Kept<'f> {
    f: &'f mut Function,
    memory: MemId,
    sum: LocalId,
    /// What stands for the thread's element of a memory.
    held: FxHashMap<MemId, LocalId>,
    next: usize,
    number: usize,
}

impl Kept<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut kept = Vec::with_capacity(block.len());
        for mut stmt in block {
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            match &stmt.kind {
                StmtKind::Atomic { place, value, .. } if place.memory == self.memory => {
                    if self.next == self.number {
                        self.add(*value, stmt.span, &mut kept);
                    }
                    self.next += 1;
                }
                StmtKind::Store { place, .. } if self.f.memories[place.memory].space == Space::Local => kept.push(stmt),
                StmtKind::Store { place, value, .. } if self.held.contains_key(&place.memory) => {
                    let (local, value) = (self.held[&place.memory], *value);
                    kept.push(Stmt { kind: StmtKind::Write { local, value }, ..stmt });
                }
                StmtKind::Let(id) => {
                    if let ExprKind::Load { place, .. } = &self.f.exprs[*id].kind
                        && let Some(&local) = self.held.get(&place.memory)
                    {
                        self.f.exprs[*id].kind = ExprKind::Read(local);
                    }
                    kept.push(stmt);
                }
                StmtKind::Store { .. } | StmtKind::Atomic { .. } | StmtKind::Assert { .. } => {}
                _ => kept.push(stmt),
            }
        }
        kept
    }

    fn add(&mut self, part: ExprId, span: Span, kept: &mut Block) {
        let ty = self.f.locals[self.sum].ty;
        let before = edit::push(self.f, ExprKind::Read(self.sum), ty, span);
        let next = ExprKind::Binary { op: BinOp::Add, left: before, right: part };
        let next = edit::push(self.f, next, ty, span);
        kept.extend([edit::let_stmt(self.f, before), edit::let_stmt(self.f, next)]);
        kept.push(Stmt { kind: StmtKind::Write { local: self.sum, value: next }, span });
    }
}
