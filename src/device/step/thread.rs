//! A thread with an explicit stack of calls and open blocks, so that it can stop before any statement.

use super::check::{self, Stop};
use super::event::{Access, At, Kind};
use super::memory::{Array, Bytes, Shared, Store};
use super::value::Val;
use crate::base::arena::Id;
use crate::base::source::Span;
use crate::device::fault::{Fault, FaultKind};
use crate::ir::Checks;
use crate::ir::def::{
    Expr, ExprId, Extent, Function, Label, LocalId, MemId, Memory, Module, Part, Space, Stmt, StmtKind, Ty,
};
use crate::lang::scalar::{Value, dynamic, format};

/// Called during a run. All methods default to nothing.
pub trait Observer {
    /// A thread is about to execute a statement.
    fn statement(&mut self, _at: At, _thread: &Thread<'_>, _stmt: &Stmt) {}

    /// A statement has evaluated an expression.
    fn value(&mut self, _at: At, _expr: &Expr, _span: Span, _val: Val) {}

    fn access(&mut self, _at: At, _access: &Access<'_, '_>) {}
}

/// Observes nothing.
pub struct Nobody;

impl Observer for Nobody {}

/// The position of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    pub thread: [u32; 3],
    pub block: [u32; 3],
    pub block_dim: [u32; 3],
    pub grid_dim: [u32; 3],
    /// Flat index in the block, x fastest.
    pub flat: u32,
    /// The index tuple, and the rank, of `Form::Threads`.
    pub index: Option<([u32; 3], usize)>,
}

/// A kernel parameter's value from the launch: a value, or where an array is, and its extents.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    Value(Val),
    Array(Store, Vec<u32>),
}

/// The operands of the operation that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    Barrier { value: Option<Val> },
    Warp { value: Val, lane: Option<Val>, among: Option<u32> },
}

#[derive(Clone, Copy, Debug)]
pub enum Phase<'m> {
    Ready,
    /// Waiting at this statement.
    Waiting(&'m Stmt, Wait),
    Done,
    Faulted,
}

/// An open block and the thread's position in it.
#[derive(Clone)]
struct Open<'m> {
    block: &'m [Stmt],
    next: usize,
    iteration: Iteration,
    /// The statement whose block it is; none for the body of a function.
    owner: Option<&'m Stmt>,
}

/// What to do at the end of an open block.
#[derive(Clone, Copy, PartialEq)]
enum Iteration {
    /// Continue after it.
    Once(Option<Label>),
    Loop(Label),
    For {
        label: Label,
        local: LocalId,
        value: i128,
        end: i128,
        step: i128,
        inclusive: bool,
    },
}

/// A call in progress.
#[derive(Clone)]
pub struct Frame<'m> {
    pub function: &'m Function,
    pub(super) params: Vec<Val>,
    pub(super) values: Vec<Option<Val>>,
    pub(super) locals: Vec<Option<Val>>,
    pub arrays: Vec<Array<'m>>,
    open: Vec<Open<'m>>,
    /// The turns of loops so far.
    pub turns: u64,
    /// The caller's expressions for the results, and the span of the call.
    results: &'m [ExprId],
    pub call: Span,
}

impl<'m> Frame<'m> {
    /// Returns the value of a local; `None` before it is written for the first time.
    pub fn local(&self, local: LocalId) -> Option<Val> {
        self.locals.get(local.index()).copied().flatten()
    }

    /// Returns the value of an expression of a statement that was executed.
    pub fn value(&self, expr: ExprId) -> Option<Val> {
        self.values.get(expr.index()).copied().flatten()
    }

    /// Returns whether no statement before the present one is one of these; only the outermost block counts.
    pub fn is_at_start(&self, is_one: &mut dyn FnMut(&Stmt) -> bool) -> bool {
        let [open] = self.open.as_slice() else { return false };
        !open.block[..open.next].iter().any(is_one)
    }

    /// Returns the conditions of the branches that it is in, innermost first.
    pub fn conditions(&self) -> impl Iterator<Item = ExprId> {
        self.open.iter().rev().filter_map(|open| match open.owner?.kind {
            StmtKind::If { cond, .. } => Some(cond),
            _ => None,
        })
    }

    /// Returns the statement to be executed next, or the loop whose empty body is to be; after a call, the call.
    pub fn next(&self) -> Option<&'m Stmt> {
        let open = self.open.last()?;
        open.block.get(open.next).or(open.owner)
    }
}

#[derive(Clone)]
pub struct Thread<'m> {
    module: &'m Module,
    pub ids: Ids,
    /// The calls in progress, outermost first; after its end that of the kernel.
    pub frames: Vec<Frame<'m>>,
    /// Its local arrays, those of ended calls included.
    pub local: Vec<Bytes>,
    pub phase: Phase<'m>,
    /// The expression that receives the result of the operation it waits for.
    awaited: Option<ExprId>,
    /// Statements executed.
    pub steps: u64,
}

/// What is outside of the running thread.
pub(super) struct World<'w> {
    pub parameters: &'w [Parameter],
    pub checks: Checks,
    pub global: &'w mut [Bytes],
    pub shared: &'w mut Shared,
    pub output: &'w mut String,
    pub observer: &'w mut dyn Observer,
    pub at: At,
    /// Bytes of pages that had to be copied.
    pub copied: u64,
}

/// Where a memory location is: the position of its array in the frame, and in which bytes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub array: usize,
    pub store: Store,
    pub offset: usize,
    pub ty: Ty,
}

impl<'m> Thread<'m> {
    pub(super) fn new(module: &'m Module, ids: Ids) -> Self {
        Thread { module, ids, frames: vec![], local: vec![], phase: Phase::Ready, awaited: None, steps: 0 }
    }

    /// Enters the kernel's body.
    pub(super) fn start(&mut self, world: &mut World<'_>) -> Result<(), Stop> {
        let body = self.module.kernel.body;
        let value = |p: &Parameter| if let Parameter::Value(v) = p { *v } else { Val::i32(0) };
        let params = world.parameters.iter().map(value).collect();
        self.call(world, body, params, &[], &[], self.module.functions[body].span)?;
        self.arrive();
        Ok(())
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// Returns the statement that it executes next, or waits at, or faulted at.
    pub fn next(&self) -> Option<&'m Stmt> {
        match self.phase {
            Phase::Waiting(at, _) => Some(at),
            _ => self.frames.last().and_then(Frame::next),
        }
    }

    /// Executes one statement of a ready thread.
    pub(super) fn step(&mut self, world: &mut World<'_>, most: u64) -> Result<(), Stop> {
        self.steps += 1;
        let Some(open) = self.frames.last().and_then(|frame| frame.open.last()) else { return Ok(()) };
        if let Some(stmt) = open.block.get(open.next) {
            if most > 0 && self.steps > most {
                return Err((FaultKind::StepLimit { steps: most }, stmt.span));
            }
            world.observer.statement(world.at, self, stmt);
            let depth = self.frames.len();
            self.pass();
            if let Err(stop) = self.statement(world, stmt) {
                // It stays where it faulted.
                self.frames.truncate(depth);
                if let Some(open) = self.frames.last_mut().and_then(|frame| frame.open.last_mut()) {
                    open.next -= 1;
                }
                return Err(stop);
            }
        } else {
            let span = open.owner.map_or(Span::default(), |owner| owner.span);
            if most > 0 && self.steps > most {
                return Err((FaultKind::StepLimit { steps: most }, span));
            }
            self.end_of_block();
        }
        self.arrive();
        Ok(())
    }

    /// Leaves what has come to its end, until there is a statement to execute. A turn of a loop with an empty body is a step too.
    fn arrive(&mut self) {
        while let (Phase::Ready, Some(frame)) = (&self.phase, self.frames.last()) {
            match frame.open.last() {
                None => self.leave_function(&[]),
                Some(open) if open.next < open.block.len() => return,
                Some(Open { block: [], iteration: Iteration::Loop(_) | Iteration::For { .. }, .. }) => return,
                Some(_) => self.end_of_block(),
            }
        }
    }

    /// Returns the bytes that its calls take, about.
    pub(super) fn size(&self) -> u64 {
        let value = size_of::<Option<Val>>() as u64;
        let frame = |frame: &Frame<'_>| {
            let values = frame.values.len() + frame.locals.len() + frame.params.len();
            value * values as u64 + 64 * (frame.open.len() + 2 * frame.arrays.len()) as u64 + 200
        };
        self.frames.iter().map(frame).sum::<u64>() + 300
    }

    /// Returns whether two threads of a launch are in the same state.
    pub(super) fn is_same(&self, other: &Thread<'_>) -> bool {
        let phase = |thread: &Thread<'_>| match thread.phase {
            Phase::Ready => (0, None),
            Phase::Waiting(at, wait) => (std::ptr::from_ref(at) as usize, Some(wait)),
            Phase::Done => (1, None),
            Phase::Faulted => (2, None),
        };
        // Of NaNs, the bits count.
        let bits = |values: &[Option<Val>]| -> Vec<Option<[u64; 4]>> {
            values.iter().map(|val| val.map(|val| val.lanes)).collect()
        };
        let open = |frame: &Frame<'_>| -> Vec<(usize, usize, Iteration)> {
            frame.open.iter().map(|open| (open.block.as_ptr() as usize, open.next, open.iteration)).collect()
        };
        let frame = |a: &Frame<'_>, b: &Frame<'_>| {
            bits(&a.values) == bits(&b.values) && bits(&a.locals) == bits(&b.locals) && open(a) == open(b)
        };
        phase(self) == phase(other)
            && (self.ids, self.steps, self.frames.len()) == (other.ids, other.steps, other.frames.len())
            && self.local == other.local
            && self.frames.iter().zip(&other.frames).all(|(a, b)| frame(a, b))
    }

    /// Sets the result of the operation that the thread waited for.
    pub(super) fn resume(&mut self, result: Option<Val>) {
        if let (Some(expr), Some(val)) = (self.awaited.take(), result) {
            self.set(expr, val);
        }
        self.phase = Phase::Ready;
        self.arrive();
    }

    fn wait(&mut self, at: &'m Stmt, wait: Wait, result: Option<ExprId>) {
        self.phase = Phase::Waiting(at, wait);
        self.awaited = result;
    }

    /// # Panics
    /// outside of a function, where nothing is executed.
    pub(super) fn frame(&self) -> &Frame<'m> {
        self.frames.last().expect("a function is being executed")
    }

    /// # Panics
    /// as [`Thread::frame`].
    fn frame_mut(&mut self) -> &mut Frame<'m> {
        self.frames.last_mut().expect("a function is being executed")
    }

    fn set(&mut self, expr: ExprId, val: Val) {
        self.frame_mut().values[expr.index()] = Some(val);
    }

    fn bytes<'a>(&'a mut self, world: &'a mut World<'_>, store: Store) -> &'a mut Bytes {
        match store {
            Store::Global(param) => &mut world.global[param],
            Store::Shared(function, memory) => world.shared.get_mut(&(function, memory)).expect("shared array"),
            Store::Local(index) => &mut self.local[index],
        }
    }

    /// Returns the value at a place, and whether that was written.
    pub(super) fn load(&mut self, world: &mut World<'_>, at: Place) -> (Val, Option<Val>) {
        let bytes = self.bytes(world, at.store);
        (bytes.load(at.offset, at.ty), bytes.get(at.offset, at.ty))
    }

    fn store(&mut self, world: &mut World<'_>, at: Place, kind: Kind, value: Val, span: Span) {
        let bytes = self.bytes(world, at.store);
        let before = bytes.get(at.offset, at.ty);
        let copied = bytes.store(at.offset, value);
        world.copied += copied;
        let array = &self.frame().arrays[at.array];
        let access = Access { kind, array, offset: at.offset, ty: at.ty, before, value, span };
        world.observer.access(world.at, &access);
    }

    fn call(
        &mut self,
        world: &mut World<'_>,
        id: Id<Function>,
        params: Vec<Val>,
        given: &[Array<'m>],
        results: &'m [ExprId],
        call: Span,
    ) -> Result<(), Stop> {
        let function = &self.module.functions[id];
        self.frames.push(Frame {
            function,
            params,
            values: vec![None; function.exprs.len()],
            locals: vec![None; function.locals.len()],
            arrays: vec![],
            open: vec![Open { block: &function.body, next: 0, iteration: Iteration::Once(None), owner: None }],
            turns: 0,
            results,
            call,
        });
        for (memory_id, memory) in function.memories.iter() {
            let array = match memory.space {
                Space::Param { position, .. } => {
                    Array { name: &memory.name, layout: &memory.layout, ..given[position as usize].clone() }
                }
                _ => self.array(world, id, memory_id, memory)?,
            };
            self.frame_mut().arrays.push(array);
        }
        Ok(())
    }

    fn array(
        &mut self,
        world: &mut World<'_>,
        function: Id<Function>,
        id: MemId,
        memory: &'m Memory,
    ) -> Result<Array<'m>, Stop> {
        let mut extents = vec![];
        for (axis, extent) in memory.extents.iter().enumerate() {
            extents.push(match (*extent, memory.space) {
                (Extent::Known(n), _) => n,
                (Extent::Launch, Space::Global { param, .. }) => match &world.parameters[param as usize] {
                    Parameter::Array(_, extents) => extents[axis],
                    Parameter::Value(_) => panic!("an array was expected"),
                },
                (Extent::Launch, _) => panic!("the extent of {} is not known", memory.name),
                (Extent::Dynamic(expr), _) => {
                    let extent = self.eval(world, expr)?.integer();
                    let fault = FaultKind::SharedExtent { array: memory.name.clone(), extent: extent as i64 };
                    u32::try_from(extent).map_err(|_| (fault, memory.span))?
                }
            });
        }
        let size = extents.iter().map(|&n| n as usize).product::<usize>() * memory.layout.size;
        let store = match memory.space {
            Space::Global { param, .. } => match &world.parameters[param as usize] {
                Parameter::Array(store, _) => *store,
                Parameter::Value(_) => panic!("an array was expected"),
            },
            Space::Shared => {
                world.shared.entry((function, id)).or_insert_with(|| Bytes::unwritten(size));
                Store::Shared(function, id)
            }
            Space::Local => {
                self.local.push(Bytes::unwritten(size));
                Store::Local(self.local.len() - 1)
            }
            // Constant arrays are never written, so a per-thread copy is equivalent.
            Space::Constant => {
                self.local.push(Bytes::of(&memory.bytes(), true));
                Store::Local(self.local.len() - 1)
            }
            Space::Param { .. } => panic!("parameters come from the caller"),
        };
        Ok(Array { name: &memory.name, store, layout: &memory.layout, extents })
    }

    fn leave_function(&mut self, values: &[Val]) {
        if let [kernel] = self.frames.as_mut_slice() {
            // What the thread held can still be looked at.
            kernel.open.clear();
            self.phase = Phase::Done;
        } else if let Some(left) = self.frames.pop() {
            left.results.iter().zip(values).for_each(|(&expr, &val)| self.set(expr, val));
        }
    }

    /// Handles the end of the innermost block: the next iteration of its loop, or what follows it.
    fn end_of_block(&mut self) {
        let frame = self.frame_mut();
        let Some(top) = frame.open.last_mut() else { return };
        match top.iteration {
            Iteration::Once(_) => {
                frame.open.pop();
            }
            Iteration::Loop(_) => {
                top.next = 0;
                frame.turns += 1;
            }
            Iteration::For { label, local, value, end, step, inclusive } => {
                let value = value + step;
                top.iteration = Iteration::For { label, local, value, end, step, inclusive };
                top.next = 0;
                self.begin_turn();
            }
        }
    }

    /// Sets the variable of the innermost `for`, or leaves the loop.
    fn begin_turn(&mut self) {
        let frame = self.frame_mut();
        let Some(Iteration::For { local, value, end, step, inclusive, .. }) =
            frame.open.last().map(|open| open.iteration)
        else {
            return;
        };
        let goes_on = if step > 0 { value < end } else { value > end };
        if goes_on || inclusive && value == end {
            let ty = frame.function.locals[local].ty;
            let value = Value::from_integer(ty.scalar(), value).expect("the trip count keeps it in range");
            frame.locals[local.index()] = Some(Val::scalar(value));
            frame.turns += 1;
        } else {
            frame.open.pop();
        }
    }

    fn leave_to(&mut self, label: Label, stay: bool) {
        let open = &mut self.frame_mut().open;
        while let Some(top) = open.last_mut() {
            let found = match top.iteration {
                Iteration::Once(own) => own == Some(label),
                Iteration::Loop(own) | Iteration::For { label: own, .. } => own == label,
            };
            if found && stay {
                top.next = top.block.len();
                return;
            }
            open.pop();
            if found {
                return;
            }
        }
    }

    fn enter(&mut self, block: &'m [Stmt], iteration: Iteration, owner: &'m Stmt) {
        self.frame_mut().open.push(Open { block, next: 0, iteration, owner: Some(owner) });
    }

    /// Takes the position to the next statement.
    fn pass(&mut self) {
        if let Some(open) = self.frame_mut().open.last_mut() {
            open.next += 1;
        }
    }

    fn statement(&mut self, world: &mut World<'_>, stmt: &'m Stmt) -> Result<(), Stop> {
        let span = stmt.span;
        match &stmt.kind {
            StmtKind::Let(expr) => {
                let val = self.compute(world, *expr)?;
                world.observer.value(world.at, &self.frame().function.exprs[*expr], span, val);
                self.set(*expr, val);
            }
            StmtKind::Write { local, value } => {
                let val = self.eval(world, *value)?;
                self.frame_mut().locals[local.index()] = Some(val);
            }
            StmtKind::Store { place, value, .. } => {
                let val = self.eval(world, *value)?;
                let at = self.place(world, place, true, span)?;
                self.store(world, at, Kind::Write, Val { ty: at.ty, ..val }, span);
            }
            StmtKind::Atomic { op, place, value, compare, result } => {
                let val = self.eval(world, *value)?.lane(0);
                let compare = compare.map(|c| self.eval(world, c)).transpose()?.map(|c| c.lane(0));
                let at = self.place(world, place, true, span)?;
                let (old, before) = self.load(world, at);
                if before.is_none() {
                    let space = self.frame().function.memories[place.memory].space;
                    check::read(world.checks, &self.frame().arrays[at.array], at.offset, space, span)?;
                }
                check::atomic(world.checks, *op, old.lane(0), val, span)?;
                let new = dynamic::atomic(*op, old.lane(0), val, compare).expect("a typed atomic");
                self.store(world, at, Kind::Atomic, Val::scalar(new), span);
                if let Some(result) = result {
                    self.set(*result, old);
                }
            }
            StmtKind::Barrier { value, result, .. } => {
                let value = value.map(|v| self.eval(world, v)).transpose()?;
                self.wait(stmt, Wait::Barrier { value }, *result);
            }
            StmtKind::Warp { value, lane, among, result, .. } => {
                let value = self.eval(world, *value)?;
                let lane = lane.map(|v| self.eval(world, v)).transpose()?;
                let among = among.map(|v| self.eval(world, v)).transpose()?.map(|m| m.integer() as u32);
                self.wait(stmt, Wait::Warp { value, lane, among }, Some(*result));
            }
            StmtKind::Fence(_) => {}
            StmtKind::If { cond, then, other } => {
                let block = if self.eval(world, *cond)?.is_true() { then } else { other };
                self.enter(block, Iteration::Once(None), stmt);
            }
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let step_span = self.frame().function.spans[*step];
                let value = self.eval(world, *start)?.integer();
                let end = self.eval(world, *end)?.integer();
                let step = self.eval(world, *step)?.integer();
                if step == 0 {
                    return Err((FaultKind::ZeroStep, step_span));
                }
                let (label, local, inclusive) = (*label, *local, *inclusive);
                self.enter(body, Iteration::For { label, local, value, end, step, inclusive }, stmt);
                self.begin_turn();
            }
            StmtKind::Loop { label, body, .. } => self.enter(body, Iteration::Loop(*label), stmt),
            StmtKind::Block { label, body } => self.enter(body, Iteration::Once(Some(*label)), stmt),
            StmtKind::Break(label) => self.leave_to(*label, false),
            StmtKind::Continue(label) => self.leave_to(*label, true),
            StmtKind::Return(values) => {
                let values: Result<Vec<Val>, Stop> = values.iter().map(|&v| self.eval(world, v)).collect();
                self.leave_function(&values?);
            }
            StmtKind::Call { function, args, memories, results } => {
                let args: Result<Vec<Val>, Stop> = args.iter().map(|&v| self.eval(world, v)).collect();
                let given: Vec<Array<'m>> = memories.iter().map(|m| self.frame().arrays[m.index()].clone()).collect();
                self.call(world, *function, args?, &given, results, span)?;
            }
            StmtKind::Assert { cond, message } => {
                if !self.eval(world, *cond)?.is_true() {
                    let message = self.text(world, message)?;
                    return Err((FaultKind::Assert { message }, span));
                }
            }
            StmtKind::Print { parts } => {
                let text = self.text(world, parts)?;
                world.output.push_str(&text);
            }
            StmtKind::Declare(memory) => {
                let store = self.frame().arrays[memory.index()].store;
                self.bytes(world, store).clear();
            }
        }
        Ok(())
    }

    fn text(&mut self, world: &mut World<'_>, parts: &[Part]) -> Result<String, Stop> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(t) => text.push_str(t),
                Part::Value(expr, spec) => {
                    let val = self.eval(world, *expr)?;
                    let shown: Vec<String> =
                        val.values().map(|v| format::format(v, spec).unwrap_or_else(|e| e)).collect();
                    match val.ty {
                        Ty::Scalar(_) => text.push_str(&shown.concat()),
                        Ty::Vector(..) => text.push_str(&format!("({})", shown.join(", "))),
                    }
                }
            }
        }
        Ok(text)
    }
}

/// Stops a thread with a fault.
pub(super) fn fault(thread: &mut Thread<'_>, (kind, span): Stop, output: &str) -> Fault {
    thread.phase = Phase::Faulted;
    let trace: Vec<Span> = thread.frames.iter().skip(1).rev().map(|frame| frame.call).collect();
    let Ids { thread, block, index, .. } = thread.ids;
    let index = index.map(|(index, rank)| index[..rank].to_vec());
    Fault { kind, span, trace, block, thread, index, others: 0, output: output.to_string() }
}
