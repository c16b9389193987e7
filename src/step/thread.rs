//! A thread of the stepper. Its stack of calls and nested statement blocks is explicit, so that it can stop before any
//! statement.

use super::check::{self, ThreadFault};
use super::event::{AccessEvent, AccessKind, StepPosition};
use super::memory::{ArrayRef, ArrayStorage, PagedBytes, SharedArrays};
use super::value::ThreadValue;
use clk_base::arena::Id;
use clk_base::source::Span;
use clk_ir::Checks;
use clk_ir::def::{
    Expr, ExprId, Extent, Function, Label, LocalId, MemId, Memory, MemorySpace, MessageSegment, Module, Stmt, StmtKind,
    Ty,
};
use clk_runtime::{Fault, FaultKind};
use clk_scalar::{ScalarValue, dynamic, format};

/// Callbacks during a launch. All methods do nothing by default.
pub trait StepObserver {
    /// Called before a thread executes a statement.
    fn statement(&mut self, _at: StepPosition, _thread: &Thread<'_>, _stmt: &Stmt) {}

    /// Called after a statement has evaluated an expression.
    fn value(&mut self, _at: StepPosition, _expr: &Expr, _span: Span, _val: ThreadValue) {}

    fn access(&mut self, _at: StepPosition, _access: &AccessEvent<'_, '_>) {}
}

/// An observer that does nothing.
pub struct NoObserver;

impl StepObserver for NoObserver {}

/// The indices of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadIds {
    pub thread: [u32; 3],
    pub block: [u32; 3],
    pub block_dim: [u32; 3],
    pub grid_dim: [u32; 3],
    /// Linear index of the thread in the block, x fastest.
    pub flat: u32,
    /// In a `LaunchForm::Threads` launch, the index tuple and its rank.
    pub index: Option<([u32; 3], usize)>,
}

/// An argument that is bound to a parameter: a value, or the storage and the extents of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    Value(ThreadValue),
    Array(ArrayStorage, Vec<u32>),
}

/// The operands of the operation that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wait {
    Barrier { value: Option<ThreadValue> },
    Warp { value: ThreadValue, lane: Option<ThreadValue>, among: Option<u32> },
}

#[derive(Clone, Copy, Debug)]
pub enum ThreadPhase<'m> {
    Ready,
    /// The thread waits at this barrier or warp operation.
    Waiting(&'m Stmt, Wait),
    Done,
    Faulted,
}

/// A statement block that a thread executes, and the thread's position in it.
#[derive(Clone)]
struct BlockCursor<'m> {
    block: &'m [Stmt],
    next: usize,
    iteration: BlockEnd,
    /// The branch or loop that contains the block; `None` for the body of a function.
    owner: Option<&'m Stmt>,
}

/// The action at the end of a statement block.
#[derive(Clone, Copy, PartialEq)]
enum BlockEnd {
    /// Continue with the statement after the block.
    Straight(Option<Label>),
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

/// A function call that has not returned yet.
#[derive(Clone)]
pub struct CallFrame<'m> {
    pub function: &'m Function,
    pub(super) params: Vec<ThreadValue>,
    pub(super) values: Vec<Option<ThreadValue>>,
    pub(super) locals: Vec<Option<ThreadValue>>,
    pub arrays: Vec<ArrayRef<'m>>,
    open: Vec<BlockCursor<'m>>,
    /// Number of loop iterations executed so far.
    pub turns: u64,
    /// The expressions of the caller that receive the results.
    results: &'m [ExprId],
    pub call: Span,
}

impl<'m> CallFrame<'m> {
    /// Returns the value of a local variable; `None` before its first assignment.
    pub fn local(&self, local: LocalId) -> Option<ThreadValue> {
        self.locals.get(local.index()).copied().flatten()
    }

    /// Returns the value of an expression, if a statement that evaluates it was executed.
    pub fn value(&self, expr: ExprId) -> Option<ThreadValue> {
        self.values.get(expr.index()).copied().flatten()
    }

    /// Returns whether no earlier statement in the outermost block of the function satisfies `is_one`.
    pub fn is_at_start(&self, is_one: &mut dyn FnMut(&Stmt) -> bool) -> bool {
        let [open] = self.open.as_slice() else { return false };
        !open.block[..open.next].iter().any(is_one)
    }

    /// Returns the conditions of the enclosing branches, innermost first.
    pub fn conditions(&self) -> impl Iterator<Item = ExprId> {
        self.open.iter().rev().filter_map(|open| match open.owner?.kind {
            StmtKind::If { cond, .. } => Some(cond),
            _ => None,
        })
    }

    /// Returns the statement that is executed next: also a loop with an empty body, or a call from which the thread has
    /// just returned.
    pub fn next(&self) -> Option<&'m Stmt> {
        let open = self.open.last()?;
        open.block.get(open.next).or(open.owner)
    }
}

#[derive(Clone)]
pub struct Thread<'m> {
    module: &'m Module,
    pub ids: ThreadIds,
    /// The active calls, outermost first. After the thread has ended, only the frame of the kernel.
    pub frames: Vec<CallFrame<'m>>,
    /// Local arrays of all calls, including calls that have returned.
    pub local: Vec<PagedBytes>,
    pub phase: ThreadPhase<'m>,
    /// The expression that receives the result of the warp operation at which the thread waits.
    pending_result: Option<ExprId>,
    /// Number of statements executed so far.
    pub steps: u64,
}

/// Everything that a running thread accesses outside of its own state.
pub(super) struct ThreadEnvironment<'w> {
    pub parameters: &'w [ParamValue],
    pub checks: Checks,
    pub global: &'w mut [PagedBytes],
    pub shared: &'w mut SharedArrays,
    pub output: &'w mut String,
    pub observer: &'w mut dyn StepObserver,
    pub at: StepPosition,
    /// Number of bytes copied because pages were shared.
    pub copied: u64,
}

/// A resolved memory location: the index of the array in the frame, and the accessed bytes.
#[derive(Clone, Copy)]
pub(super) struct ByteLocation {
    pub array: usize,
    pub store: ArrayStorage,
    pub offset: usize,
    pub ty: Ty,
}

impl<'m> Thread<'m> {
    pub(super) fn new(module: &'m Module, ids: ThreadIds) -> Self {
        Thread { module, ids, frames: vec![], local: vec![], phase: ThreadPhase::Ready, pending_result: None, steps: 0 }
    }

    /// Enters the body of the kernel.
    pub(super) fn start(&mut self, world: &mut ThreadEnvironment<'_>) -> Result<(), ThreadFault> {
        let body = self.module.kernel.body;
        let value = |p: &ParamValue| if let ParamValue::Value(v) = p { *v } else { ThreadValue::i32(0) };
        let params = world.parameters.iter().map(value).collect();
        self.call(world, body, params, &[], &[], self.module.functions[body].span)?;
        self.skip_to_statement();
        Ok(())
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.phase, ThreadPhase::Ready)
    }

    /// Returns the statement that the thread executes next, waits at, or faulted at.
    pub fn next(&self) -> Option<&'m Stmt> {
        match self.phase {
            ThreadPhase::Waiting(at, _) => Some(at),
            _ => self.frames.last().and_then(CallFrame::next),
        }
    }

    /// Executes one statement. The thread must be ready.
    pub(super) fn step(&mut self, world: &mut ThreadEnvironment<'_>, most: u64) -> Result<(), ThreadFault> {
        self.steps += 1;
        let Some(open) = self.frames.last().and_then(|frame| frame.open.last()) else { return Ok(()) };
        if let Some(stmt) = open.block.get(open.next) {
            if most > 0 && self.steps > most {
                return Err((FaultKind::StepLimit { steps: most }, stmt.span));
            }
            world.observer.statement(world.at, self, stmt);
            let depth = self.frames.len();
            self.advance();
            if let Err(stop) = self.statement(world, stmt) {
                // The thread's position remains at the statement that faulted.
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
        self.skip_to_statement();
        Ok(())
    }

    /// Leaves finished statement blocks and functions until there is a statement to execute. An iteration of a loop
    /// with an empty body also counts as a statement.
    fn skip_to_statement(&mut self) {
        while let (ThreadPhase::Ready, Some(frame)) = (&self.phase, self.frames.last()) {
            match frame.open.last() {
                None => self.leave_function(&[]),
                Some(open) if open.next < open.block.len() => return,
                Some(BlockCursor { block: [], iteration: BlockEnd::Loop(_) | BlockEnd::For { .. }, .. }) => return,
                Some(_) => self.end_of_block(),
            }
        }
    }

    /// Returns the approximate memory use of the thread's calls in bytes.
    pub(super) fn size(&self) -> u64 {
        let value = size_of::<Option<ThreadValue>>() as u64;
        let frame = |frame: &CallFrame<'_>| {
            let values = frame.values.len() + frame.locals.len() + frame.params.len();
            value * values as u64 + 64 * (frame.open.len() + 2 * frame.arrays.len()) as u64 + 200
        };
        self.frames.iter().map(frame).sum::<u64>() + 300
    }

    /// Returns whether two threads of a launch are in the same state.
    pub(super) fn is_same(&self, other: &Thread<'_>) -> bool {
        let phase = |thread: &Thread<'_>| match thread.phase {
            ThreadPhase::Ready => (0, None),
            ThreadPhase::Waiting(at, wait) => (std::ptr::from_ref(at) as usize, Some(wait)),
            ThreadPhase::Done => (1, None),
            ThreadPhase::Faulted => (2, None),
        };
        // Values are compared by their bits, so that equal NaNs are equal.
        let bits = |values: &[Option<ThreadValue>]| -> Vec<Option<[u64; 4]>> {
            values.iter().map(|val| val.map(|val| val.lanes)).collect()
        };
        let open = |frame: &CallFrame<'_>| -> Vec<(usize, usize, BlockEnd)> {
            frame.open.iter().map(|open| (open.block.as_ptr() as usize, open.next, open.iteration)).collect()
        };
        let frame = |a: &CallFrame<'_>, b: &CallFrame<'_>| {
            bits(&a.values) == bits(&b.values) && bits(&a.locals) == bits(&b.locals) && open(a) == open(b)
        };
        phase(self) == phase(other)
            && (self.ids, self.steps, self.frames.len()) == (other.ids, other.steps, other.frames.len())
            && self.local == other.local
            && self.frames.iter().zip(&other.frames).all(|(a, b)| frame(a, b))
    }

    /// Sets the result of the operation that the thread waited for.
    pub(super) fn resume(&mut self, result: Option<ThreadValue>) {
        if let (Some(expr), Some(val)) = (self.pending_result.take(), result) {
            self.set(expr, val);
        }
        self.phase = ThreadPhase::Ready;
        self.skip_to_statement();
    }

    fn wait(&mut self, at: &'m Stmt, wait: Wait, result: Option<ExprId>) {
        self.phase = ThreadPhase::Waiting(at, wait);
        self.pending_result = result;
    }

    /// # Panics
    /// Panics if the thread has no active call.
    pub(super) fn frame(&self) -> &CallFrame<'m> {
        self.frames.last().expect("a function is being executed")
    }

    /// # Panics
    /// Panics like [`Thread::frame`].
    fn frame_mut(&mut self) -> &mut CallFrame<'m> {
        self.frames.last_mut().expect("a function is being executed")
    }

    fn set(&mut self, expr: ExprId, val: ThreadValue) {
        self.frame_mut().values[expr.index()] = Some(val);
    }

    fn bytes<'a>(&'a mut self, world: &'a mut ThreadEnvironment<'_>, store: ArrayStorage) -> &'a mut PagedBytes {
        match store {
            ArrayStorage::Global(param) => &mut world.global[param],
            ArrayStorage::Shared(function, memory) => world.shared.get_mut(&(function, memory)).expect("shared array"),
            ArrayStorage::Local(index) => &mut self.local[index],
        }
    }

    /// Returns the value at a location, and again as an `Option`: `Some` if all bytes of the value were written.
    pub(super) fn load(
        &mut self,
        world: &mut ThreadEnvironment<'_>,
        at: ByteLocation,
    ) -> (ThreadValue, Option<ThreadValue>) {
        let bytes = self.bytes(world, at.store);
        (bytes.load(at.offset, at.ty), bytes.get(at.offset, at.ty))
    }

    fn store(
        &mut self,
        world: &mut ThreadEnvironment<'_>,
        at: ByteLocation,
        kind: AccessKind,
        value: ThreadValue,
        span: Span,
    ) {
        let bytes = self.bytes(world, at.store);
        let before = bytes.get(at.offset, at.ty);
        let copied = bytes.store(at.offset, value);
        world.copied += copied;
        let array = &self.frame().arrays[at.array];
        let access = AccessEvent { kind, array, offset: at.offset, ty: at.ty, before, value, span };
        world.observer.access(world.at, &access);
    }

    fn call(
        &mut self,
        world: &mut ThreadEnvironment<'_>,
        id: Id<Function>,
        params: Vec<ThreadValue>,
        array_args: &[ArrayRef<'m>],
        results: &'m [ExprId],
        call: Span,
    ) -> Result<(), ThreadFault> {
        let function = &self.module.functions[id];
        self.frames.push(CallFrame {
            function,
            params,
            values: vec![None; function.exprs.len()],
            locals: vec![None; function.locals.len()],
            arrays: vec![],
            open: vec![BlockCursor {
                block: &function.body,
                next: 0,
                iteration: BlockEnd::Straight(None),
                owner: None,
            }],
            turns: 0,
            results,
            call,
        });
        for (memory_id, memory) in function.memories.iter() {
            let array = match memory.space {
                MemorySpace::Param { position, .. } => {
                    ArrayRef { name: &memory.name, layout: &memory.layout, ..array_args[position as usize].clone() }
                }
                _ => self.array(world, id, memory_id, memory)?,
            };
            self.frame_mut().arrays.push(array);
        }
        Ok(())
    }

    fn array(
        &mut self,
        world: &mut ThreadEnvironment<'_>,
        function: Id<Function>,
        id: MemId,
        memory: &'m Memory,
    ) -> Result<ArrayRef<'m>, ThreadFault> {
        let mut extents = vec![];
        for (axis, extent) in memory.extents.iter().enumerate() {
            extents.push(match (*extent, memory.space) {
                (Extent::Known(n), _) => n,
                (Extent::Launch, MemorySpace::Global { param, .. }) => match &world.parameters[param as usize] {
                    ParamValue::Array(_, extents) => extents[axis],
                    ParamValue::Value(_) => panic!("an array was expected"),
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
            MemorySpace::Global { param, .. } => match &world.parameters[param as usize] {
                ParamValue::Array(store, _) => *store,
                ParamValue::Value(_) => panic!("an array was expected"),
            },
            MemorySpace::Shared => {
                world.shared.entry((function, id)).or_insert_with(|| PagedBytes::unwritten(size));
                ArrayStorage::Shared(function, id)
            }
            MemorySpace::Local => {
                self.local.push(PagedBytes::unwritten(size));
                ArrayStorage::Local(self.local.len() - 1)
            }
            // Constant arrays are never written, so that each thread can have its own copy.
            MemorySpace::Constant => {
                self.local.push(PagedBytes::of(&memory.bytes(), true));
                ArrayStorage::Local(self.local.len() - 1)
            }
            MemorySpace::Param { .. } => panic!("parameters come from the caller"),
        };
        Ok(ArrayRef { name: &memory.name, store, layout: &memory.layout, extents })
    }

    fn leave_function(&mut self, values: &[ThreadValue]) {
        if let [kernel] = self.frames.as_mut_slice() {
            // The frame of the kernel is not removed, so that its variables can be inspected.
            kernel.open.clear();
            self.phase = ThreadPhase::Done;
        } else if let Some(left) = self.frames.pop() {
            left.results.iter().zip(values).for_each(|(&expr, &val)| self.set(expr, val));
        }
    }

    /// Handles the end of the innermost statement block: begins the next iteration of its loop, or continues after it.
    fn end_of_block(&mut self) {
        let frame = self.frame_mut();
        let Some(top) = frame.open.last_mut() else { return };
        match top.iteration {
            BlockEnd::Straight(_) => {
                frame.open.pop();
            }
            BlockEnd::Loop(_) => {
                top.next = 0;
                frame.turns += 1;
            }
            BlockEnd::For { label, local, value, end, step, inclusive } => {
                let value = value + step;
                top.iteration = BlockEnd::For { label, local, value, end, step, inclusive };
                top.next = 0;
                self.begin_iteration();
            }
        }
    }

    /// Sets the variable of the innermost `for`, or leaves the loop.
    fn begin_iteration(&mut self) {
        let frame = self.frame_mut();
        let Some(BlockEnd::For { local, value, end, step, inclusive, .. }) =
            frame.open.last().map(|open| open.iteration)
        else {
            return;
        };
        let goes_on = if step > 0 { value < end } else { value > end };
        if goes_on || inclusive && value == end {
            let ty = frame.function.locals[local].ty;
            let value = ScalarValue::from_integer(ty.scalar(), value).expect("the trip count keeps it in range");
            frame.locals[local.index()] = Some(ThreadValue::scalar(value));
            frame.turns += 1;
        } else {
            frame.open.pop();
        }
    }

    fn leave_to(&mut self, label: Label, stay: bool) {
        let open = &mut self.frame_mut().open;
        while let Some(top) = open.last_mut() {
            let is_target = match top.iteration {
                BlockEnd::Straight(own) => own == Some(label),
                BlockEnd::Loop(own) | BlockEnd::For { label: own, .. } => own == label,
            };
            if is_target && stay {
                top.next = top.block.len();
                return;
            }
            open.pop();
            if is_target {
                return;
            }
        }
    }

    fn enter(&mut self, block: &'m [Stmt], iteration: BlockEnd, owner: &'m Stmt) {
        self.frame_mut().open.push(BlockCursor { block, next: 0, iteration, owner: Some(owner) });
    }

    /// Advances the position to the next statement.
    fn advance(&mut self) {
        if let Some(open) = self.frame_mut().open.last_mut() {
            open.next += 1;
        }
    }

    fn statement(&mut self, world: &mut ThreadEnvironment<'_>, stmt: &'m Stmt) -> Result<(), ThreadFault> {
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
                self.store(world, at, AccessKind::Store, ThreadValue { ty: at.ty, ..val }, span);
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
                self.store(world, at, AccessKind::AtomicRmw, ThreadValue::scalar(new), span);
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
                self.enter(block, BlockEnd::Straight(None), stmt);
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
                self.enter(body, BlockEnd::For { label, local, value, end, step, inclusive }, stmt);
                self.begin_iteration();
            }
            StmtKind::Loop { label, body, .. } => self.enter(body, BlockEnd::Loop(*label), stmt),
            StmtKind::Block { label, body } => self.enter(body, BlockEnd::Straight(Some(*label)), stmt),
            StmtKind::Break(label) => self.leave_to(*label, false),
            StmtKind::Continue(label) => self.leave_to(*label, true),
            StmtKind::Return(values) => {
                let values: Result<Vec<ThreadValue>, ThreadFault> =
                    values.iter().map(|&v| self.eval(world, v)).collect();
                self.leave_function(&values?);
            }
            StmtKind::Call { function, args, memories, results } => {
                let args: Result<Vec<ThreadValue>, ThreadFault> = args.iter().map(|&v| self.eval(world, v)).collect();
                let given: Vec<ArrayRef<'m>> =
                    memories.iter().map(|m| self.frame().arrays[m.index()].clone()).collect();
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

    fn text(&mut self, world: &mut ThreadEnvironment<'_>, parts: &[MessageSegment]) -> Result<String, ThreadFault> {
        let mut text = String::new();
        for part in parts {
            match part {
                MessageSegment::Text(t) => text.push_str(t),
                MessageSegment::Value(expr, spec) => {
                    let val = self.eval(world, *expr)?;
                    let shown: Vec<String> =
                        val.values().map(|v| format::format(v, spec).unwrap_or_else(|e| e.to_string())).collect();
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
pub(super) fn fault(thread: &mut Thread<'_>, kind: FaultKind, span: Span, output: &str) -> Fault {
    thread.phase = ThreadPhase::Faulted;
    let trace: Vec<Span> = thread.frames.iter().skip(1).rev().map(|frame| frame.call).collect();
    let ThreadIds { thread, block, index, .. } = thread.ids;
    let index = index.map(|(index, rank)| index[..rank].to_vec());
    Fault { kind, span, trace, block, thread, index, others: 0, output: output.to_string() }
}
