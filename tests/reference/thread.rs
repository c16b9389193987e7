//! A thread with an explicit stack of calls and open blocks, so that it can suspend at a barrier and resume later.

use std::collections::HashMap;

use clk_lang::base::arena::Id;
use clk_lang::base::source::Span;
use clk_lang::device::{Fault, FaultKind};
use clk_lang::ir::def::*;
use clk_lang::lang::scalar::{Value, dynamic, format};

use super::memory::{Array, Arrays, Store, Val};

/// Maximum number of statements per thread; test programs end long before.
const STEPS: u64 = 100_000;

/// The position of a thread.
#[derive(Clone, Copy, Debug, Default)]
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

/// A kernel parameter's value from the launch.
pub enum Parameter {
    Value(Val),
    Shape(Vec<u32>),
}

/// The operation that a thread waits for, with its operands.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    Barrier { value: Option<Val> },
    Warp { value: Val, lane: Option<Val>, among: Option<u32> },
}

#[derive(Clone, Copy, Debug)]
pub enum State<'m> {
    Ready,
    /// Waiting at this statement.
    Waiting(&'m Stmt, Wait),
    Done,
    Faulted,
}

/// An open block and the thread's position in it.
struct Open<'m> {
    block: &'m [Stmt],
    next: usize,
    iteration: Iteration,
}

/// What to do at the end of an open block.
#[derive(Clone, Copy)]
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
pub(super) struct Frame<'m> {
    pub(super) function: &'m Function,
    pub(super) params: Vec<Val>,
    pub(super) values: Vec<Option<Val>>,
    pub(super) locals: Vec<Val>,
    pub(super) arrays: Vec<Array<'m>>,
    open: Vec<Open<'m>>,
    /// The caller's expressions for the results, and the span of the call.
    results: &'m [ExprId],
    call: Span,
}

pub struct Thread<'m> {
    module: &'m Module,
    pub ids: Ids,
    pub(super) frames: Vec<Frame<'m>>,
    local: Vec<Vec<u8>>,
    pub state: State<'m>,
    /// The expression that receives the result of the operation it waits for.
    awaited: Option<ExprId>,
    steps: u64,
}

/// The state outside of the running thread.
pub struct World<'w> {
    pub parameters: &'w [Parameter],
    pub global: &'w mut [Vec<u8>],
    pub shared: &'w mut HashMap<(Id<Function>, Id<Memory>), Vec<u8>>,
    pub output: &'w mut String,
    pub faults: &'w mut Vec<Fault>,
}

/// The fault that stops a thread, and its span.
pub(super) type Stop = (FaultKind, Span);

impl<'m> Thread<'m> {
    pub fn new(module: &'m Module, ids: Ids) -> Self {
        Thread { module, ids, frames: vec![], local: vec![], state: State::Ready, awaited: None, steps: 0 }
    }

    /// Runs until the thread waits, ends or faults.
    pub fn run(&mut self, world: &mut World<'_>) {
        if let Err(stop) = self.try_run(world) {
            self.fault(world, stop);
        }
    }

    fn fault(&mut self, world: &mut World<'_>, (kind, span): Stop) {
        self.state = State::Faulted;
        world.faults.push(Fault {
            kind,
            span,
            trace: self.frames.iter().skip(1).rev().map(|f| f.call).collect(),
            block: self.ids.block,
            thread: self.ids.thread,
            index: self.ids.index.map(|(index, rank)| index[..rank].to_vec()),
            others: 0,
            output: world.output.clone(),
        });
    }

    fn try_run(&mut self, world: &mut World<'_>) -> Result<(), Stop> {
        if self.frames.is_empty() {
            let body = self.module.kernel.body;
            let value = |p: &Parameter| if let Parameter::Value(v) = p { *v } else { Val::i32(0) };
            let params = world.parameters.iter().map(value).collect();
            self.call(world, body, params, &[], &[], self.module.functions[body].span)?;
        }
        while let (State::Ready, Some(frame)) = (&self.state, self.frames.last_mut()) {
            self.steps += 1;
            let Some(open) = frame.open.last_mut() else {
                self.leave_function(&[]);
                continue;
            };
            if let Some(stmt) = open.block.get(open.next) {
                open.next += 1;
                if self.steps > STEPS {
                    return Err((FaultKind::StepLimit { steps: STEPS }, stmt.span));
                }
                self.statement(world, stmt)?;
            } else {
                self.end_of_block();
            }
        }
        Ok(())
    }

    /// Sets the result of the operation that the thread waited for.
    pub fn resume(&mut self, result: Option<Val>) {
        if let (Some(expr), Some(val)) = (self.awaited.take(), result) {
            self.set(expr, val);
        }
        self.state = State::Ready;
    }

    fn wait(&mut self, at: &'m Stmt, wait: Wait, result: Option<ExprId>) {
        self.state = State::Waiting(at, wait);
        self.awaited = result;
    }

    pub(super) fn frame(&mut self) -> &mut Frame<'m> {
        self.frames.last_mut().expect("a function is being executed")
    }

    fn set(&mut self, expr: ExprId, val: Val) {
        self.frame().values[expr.index()] = Some(val);
    }

    pub(super) fn arrays<'a>(&'a mut self, world: &'a mut World<'_>) -> Arrays<'a> {
        Arrays { global: world.global, shared: world.shared, local: &mut self.local }
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
            locals: function.locals.iter().map(|(_, l)| Val::zero(l.ty)).collect(),
            arrays: vec![],
            open: vec![Open { block: &function.body, next: 0, iteration: Iteration::Once(None) }],
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
            self.frame().arrays.push(array);
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
                    Parameter::Shape(shape) => shape[axis],
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
            Space::Global { param, .. } => Store::Global(param as usize),
            Space::Shared => {
                world.shared.entry((function, id)).or_insert_with(|| vec![0; size]);
                Store::Shared(function, id)
            }
            Space::Local => {
                self.local.push(vec![0; size]);
                Store::Local(self.local.len() - 1)
            }
            // Constant arrays are never written, so a per-thread copy is equivalent.
            Space::Constant => {
                self.local.push(memory.bytes());
                Store::Local(self.local.len() - 1)
            }
            Space::Param { .. } => panic!("parameters come from the caller"),
        };
        Ok(Array { name: &memory.name, store, layout: &memory.layout, extents })
    }

    fn leave_function(&mut self, values: &[Val]) {
        let Some(left) = self.frames.pop() else { return };
        if self.frames.is_empty() {
            self.state = State::Done;
        } else {
            left.results.iter().zip(values).for_each(|(&expr, &val)| self.set(expr, val));
        }
    }

    /// Handles the end of the innermost block: the next iteration of its loop, or what follows it.
    fn end_of_block(&mut self) {
        let open = &mut self.frame().open;
        let Some(top) = open.last_mut() else { return };
        match top.iteration {
            Iteration::Once(_) => {
                open.pop();
            }
            Iteration::Loop(_) => top.next = 0,
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
        let frame = self.frame();
        let Some(Iteration::For { local, value, end, step, inclusive, .. }) =
            frame.open.last().map(|open| open.iteration)
        else {
            return;
        };
        let goes_on = if step > 0 { value < end } else { value > end };
        if goes_on || inclusive && value == end {
            let ty = frame.function.locals[local].ty;
            let value = Value::from_integer(ty.scalar(), value).expect("the trip count keeps it in range");
            frame.locals[local.index()] = Val::scalar(value);
        } else {
            frame.open.pop();
        }
    }

    fn leave_to(&mut self, label: Label, stay: bool) {
        let open = &mut self.frame().open;
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

    fn enter(&mut self, block: &'m [Stmt], iteration: Iteration) {
        self.frame().open.push(Open { block, next: 0, iteration });
    }

    fn statement(&mut self, world: &mut World<'_>, stmt: &'m Stmt) -> Result<(), Stop> {
        let span = stmt.span;
        match &stmt.kind {
            StmtKind::Let(expr) => {
                let val = self.compute(world, *expr)?;
                self.set(*expr, val);
            }
            StmtKind::Write { local, value } => {
                let val = self.eval(world, *value)?;
                self.frame().locals[local.index()] = val;
            }
            StmtKind::Store { place, value, .. } => {
                let val = self.eval(world, *value)?;
                let (store, offset, ty) = self.place(world, place, true, span)?;
                self.arrays(world).store(store, offset, Val { ty, ..val });
            }
            StmtKind::Atomic { op, place, value, compare, result } => {
                let val = self.eval(world, *value)?.lane(0);
                let compare = compare.map(|c| self.eval(world, c)).transpose()?.map(|c| c.lane(0));
                let (store, offset, ty) = self.place(world, place, true, span)?;
                let mut arrays = self.arrays(world);
                let old = arrays.load(store, offset, ty);
                let new = dynamic::atomic(*op, old.lane(0), val, compare).expect("a typed atomic");
                arrays.store(store, offset, Val::scalar(new));
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
                self.enter(block, Iteration::Once(None));
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
                self.enter(body, Iteration::For { label, local, value, end, step, inclusive });
                self.begin_turn();
            }
            StmtKind::Loop { label, body, .. } => self.enter(body, Iteration::Loop(*label)),
            StmtKind::Block { label, body } => self.enter(body, Iteration::Once(Some(*label))),
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
                self.arrays(world).clear(store);
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
