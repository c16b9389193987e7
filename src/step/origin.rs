//! Explains the origin of an array element's value (dynamic slicing): the statement that wrote it, the statement's
//! operands, and their origins in turn, back to the arguments of the launch.
//!
//! Input: a launch as a timeline, and an element. Output: the nodes of a tree, whose children are computed on demand.
//! No values are recorded during the launch: the search goes back to the state before the statement that used a value,
//! and evaluates the value there.

use super::event::{AccessEvent, StepPosition};
use super::memory::ArrayStorage;
use super::order::element;
use super::state::LaunchSnapshot;
use super::thread::{StepObserver, Thread, ThreadEnvironment, ThreadIds};
use super::timeline::{Interrupted, Seeker, Timeline};
use super::value::ThreadValue;
use clk_base::source::Span;
use clk_ir::Checks;
use clk_ir::def::{BinOp, ExprId, ExprKind, Function, KernelParam, LocalId, Module, Stmt, StmtKind, Ty};
use clk_ir::inlined_calls::resolve_span;

/// A point in the execution: the step, and the thread that is about to execute a statement in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramPoint {
    pub step: u64,
    pub block: u64,
    pub thread: u32,
}

/// An array element, or a component of one, at the point before a step.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementPoint {
    pub name: String,
    pub store: ArrayStorage,
    /// Indices of the block and the thread that own a local array. For a shared array, only the block's index counts.
    pub block: u64,
    pub thread: u32,
    pub offset: usize,
    pub ty: Ty,
    pub before: u64,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueSource {
    /// The value was computed from these expressions of the same thread.
    Operands(Vec<ExprId>, ProgramPoint),
    /// The value was loaded from this array element.
    Element(ElementPoint),
    /// A vector whose components were written by different statements.
    Components(Vec<ElementPoint>),
    /// The result of an atomic operation on this element with this operand.
    Update(ElementPoint, ExprId, ProgramPoint),
    /// The element has its initial value, from the argument at this position.
    Argument(usize, ElementPoint),
    /// The search ends here, for example at a constant, an index, or a value from other lanes. The text names the
    /// reason.
    End(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub struct OriginNode {
    /// The original source location, even in an inlined function ([`resolve_span`]).
    pub span: Span,
    /// The name of the array element or variable that has the value.
    pub name: Option<String>,
    pub value: Option<ThreadValue>,
    /// The thread that wrote the value, if it may be another thread than the one that uses the value.
    pub writer: Option<ThreadIds>,
    pub source: ValueSource,
}

/// A sum that a loop accumulates in a variable.
pub struct LoopSum {
    pub count: usize,
    /// The value of the variable before the first term.
    pub start: OriginNode,
    /// The term with the largest magnitude.
    pub largest: OriginNode,
}

pub struct Origins<'m> {
    timeline: Timeline<'m>,
}

/// Maximum number of values that are followed back to find the origin of a non-finite value.
const MOST_HOPS: usize = 4_000;

type TraceResult<T> = Result<T, Interrupted>;

impl<'m> Origins<'m> {
    pub fn new(timeline: Timeline<'m>) -> Self {
        Origins { timeline }
    }

    /// Goes to the end of the launch; returns its number of steps.
    pub fn end(&mut self) -> TraceResult<u64> {
        self.timeline.go_to(u64::MAX)?;
        Ok(self.timeline.position())
    }

    fn module(&self) -> &'m Module {
        self.timeline.launch.module
    }

    fn line(&self, span: Span) -> Span {
        let module = self.module();
        resolve_span(&module.functions[module.kernel.body].calls, span).0
    }

    /// Returns the node of the last write to an element.
    pub fn find_last_write(&mut self, spot: &ElementPoint) -> TraceResult<OriginNode> {
        let mut writer = WriteFinder { spot, hit: None, is_partial: false };
        self.timeline.go_to(spot.before)?;
        let Some(moment) = self.seek_last(&mut writer)? else { return self.never_written(spot) };
        let is_part = writer.is_partial;
        let state = self.timeline.now();
        let (who, stmt) = state.current().map_or((None, None), |thread| (Some(thread.ids), thread.next()));
        let span = self.line(stmt.map_or(self.module().kernel.span, |stmt| stmt.span));
        let (value, source) = match stmt.map(|stmt| &stmt.kind) {
            _ if is_part => (None, ValueSource::Components(components(spot))),
            Some(StmtKind::Store { value, .. }) => {
                let own = self.evaluate(*value).filter(|own| own.ty == spot.ty);
                (own, ValueSource::Operands(vec![*value], moment))
            }
            Some(StmtKind::Atomic { value, .. }) => {
                let before = ElementPoint { before: moment.step, ..spot.clone() };
                (None, ValueSource::Update(before, *value, moment))
            }
            Some(_) => (None, ValueSource::End("it is new")),
            None => (None, ValueSource::End("unknown")),
        };
        let value = if let Some(value) = value { Some(value) } else { self.value_after(spot, moment)? };
        Ok(OriginNode { span, name: Some(spot.name.clone()), value, writer: who, source })
    }

    /// Returns the value of an element after a step.
    fn value_after(&mut self, spot: &ElementPoint, moment: ProgramPoint) -> TraceResult<Option<ThreadValue>> {
        self.timeline.go_to(moment.step + 1)?;
        let state = self.timeline.now();
        Ok(match spot.store {
            ArrayStorage::Global(position) => {
                state.global.get(position).and_then(|bytes| bytes.get(spot.offset, spot.ty))
            }
            store => state.block(spot.block).and_then(|block| load_element(block, store, spot)),
        })
    }

    fn never_written(&mut self, spot: &ElementPoint) -> TraceResult<OriginNode> {
        self.timeline.go_to(0)?;
        let span = self.module().kernel.span;
        let node = |value, source| OriginNode { span, name: Some(spot.name.clone()), value, writer: None, source };
        Ok(match spot.store {
            ArrayStorage::Global(position) => {
                let bytes = self.timeline.now().global.get(position);
                match bytes.and_then(|bytes| bytes.get(spot.offset, spot.ty)) {
                    Some(value) => node(Some(value), ValueSource::Argument(position, spot.clone())),
                    None => node(None, ValueSource::End("it was never written")),
                }
            }
            _ => node(None, ValueSource::End("it was never written")),
        })
    }

    /// Returns the children of a node: the values that its value was computed from.
    pub fn parts(&mut self, node: &OriginNode) -> TraceResult<Vec<OriginNode>> {
        match &node.source {
            ValueSource::Operands(operands, moment) => {
                operands.iter().map(|operand| self.value(*moment, *operand)).collect()
            }
            ValueSource::Element(spot) => Ok(vec![self.find_last_write(spot)?]),
            ValueSource::Components(spots) => spots.iter().map(|spot| self.find_last_write(spot)).collect(),
            ValueSource::Update(spot, value, moment) => {
                Ok(vec![self.find_last_write(spot)?, self.value(*moment, *value)?])
            }
            ValueSource::Argument(..) | ValueSource::End(_) => Ok(vec![]),
        }
    }

    /// Returns the conditions of the enclosing branches of a write, innermost first. Conditions that depend only on the
    /// thread's indices and on sizes are omitted.
    pub fn conditions(&mut self, node: &OriginNode) -> TraceResult<Vec<OriginNode>> {
        let (ValueSource::Operands(_, moment) | ValueSource::Update(_, _, moment)) = &node.source else {
            return Ok(vec![]);
        };
        self.timeline.go_to(moment.step)?;
        let Some(frame) = self.timeline.now().current().and_then(|thread| thread.frames.last()) else {
            return Ok(vec![]);
        };
        let data_conditions: Vec<ExprId> =
            frame.conditions().filter(|cond| depends_on_data(frame.function, *cond)).collect();
        let mut all = vec![];
        for cond in data_conditions {
            // The condition is evaluated at the point where it was computed, so that all statements in the branch get
            // the same node.
            let computed =
                self.seek_statement_before(*moment, &|kind| matches!(kind, StmtKind::Let(own) if *own == cond))?;
            let after_step = |at: ProgramPoint| ProgramPoint { step: at.step + 1, ..at };
            all.push(self.value(computed.map_or(*moment, after_step), cond)?);
        }
        Ok(all)
    }

    /// Evaluates an expression in the thread that executes the next step, without changing the state.
    fn evaluate(&self, expr: ExprId) -> Option<ThreadValue> {
        let state = self.timeline.now();
        let mut thread: Thread<'m> = state.current()?.clone();
        let (mut global, mut shared) = (state.global.clone(), state.block.shared.clone());
        let mut world = ThreadEnvironment {
            parameters: &self.timeline.launch.parameters,
            checks: Checks::default(),
            global: &mut global,
            shared: &mut shared,
            output: &mut String::new(),
            observer: &mut super::NoObserver,
            at: StepPosition::default(),
            copied: 0,
        };
        thread.eval(&mut world, expr).ok()
    }

    /// Returns the node of an expression that a statement uses.
    fn value(&mut self, moment: ProgramPoint, expr: ExprId) -> TraceResult<OriginNode> {
        self.timeline.go_to(moment.step)?;
        let value = self.evaluate(expr);
        let Some(frame) = self.timeline.now().current().and_then(|thread| thread.frames.last()) else {
            let span = self.module().kernel.span;
            return Ok(OriginNode { span, name: None, value, writer: None, source: ValueSource::End("unknown") });
        };
        let function = frame.function;
        let span = self.line(function.spans[expr]);
        let node = |name, source| OriginNode { span, name, value, writer: None, source };
        let operands = |all: Vec<ExprId>| node(None, ValueSource::Operands(all, moment));
        Ok(match &function.exprs[expr].kind {
            ExprKind::Const(_) => node(None, ValueSource::End("a constant")),
            ExprKind::Param(position) => {
                let param = self.module().kernel.params.get(*position as usize);
                let name = param.and_then(|param| match param {
                    KernelParam::Value { name, .. } => Some(name.clone()),
                    KernelParam::Array { .. } => None,
                });
                node(name, ValueSource::End("a parameter"))
            }
            ExprKind::Extent(..) => node(None, ValueSource::End("an extent")),
            ExprKind::Id(..) | ExprKind::Index(_) | ExprKind::LaneIdx | ExprKind::WarpIdx => {
                node(None, ValueSource::End("an index"))
            }
            ExprKind::Unary { value, .. } | ExprKind::Extract { value, .. } => operands(vec![*value]),
            ExprKind::Convert(value) | ExprKind::Bitcast(value) => operands(vec![*value]),
            ExprKind::Binary { left, right, .. } => operands(vec![*left, *right]),
            ExprKind::Math { args, .. } | ExprKind::Compose(args) => operands(args.clone()),
            ExprKind::Select { cond, then, other } => {
                let chosen = self.evaluate(*cond).filter(|cond| cond.ty.lanes() == 1).map(|cond| cond.is_true());
                operands(match chosen {
                    Some(true) => vec![*cond, *then],
                    Some(false) => vec![*cond, *other],
                    None => vec![*cond, *then, *other],
                })
            }
            ExprKind::Read(local) => {
                let name = Some(function.locals[*local].name.clone());
                match self.find_local_write(moment, expr, *local)? {
                    Some((span, operand, at)) => {
                        let span = self.line(span);
                        OriginNode { span, name, value, writer: None, source: ValueSource::Operands(vec![operand], at) }
                    }
                    None => {
                        OriginNode { span, name, value, writer: None, source: ValueSource::End("counted by a loop") }
                    }
                }
            }
            ExprKind::Load { .. } => match self.find_loaded_element(moment, expr)? {
                Some(spot) => OriginNode {
                    span,
                    name: Some(spot.name.clone()),
                    value,
                    writer: None,
                    source: ValueSource::Element(spot),
                },
                None => node(None, ValueSource::End("read from an array")),
            },
            ExprKind::Result => match self.find_atomic_element(moment, expr)? {
                Some(spot) => OriginNode {
                    span,
                    name: Some(spot.name.clone()),
                    value,
                    writer: None,
                    source: ValueSource::Element(spot),
                },
                None => node(None, ValueSource::End("the values of the threads of its warp or block")),
            },
        })
    }

    /// Returns the node of the assignment whose value a later expression read from a local variable.
    fn find_local_write(
        &mut self,
        moment: ProgramPoint,
        expr: ExprId,
        local: LocalId,
    ) -> TraceResult<Option<(Span, ExprId, ProgramPoint)>> {
        let read = self
            .seek_statement_before(moment, &|kind| matches!(kind, StmtKind::Let(own) if *own == expr))?
            .unwrap_or(moment);
        let Some(at) = self
            .seek_statement_before(read, &|kind| matches!(kind, StmtKind::Write { local: own, .. } if *own == local))?
        else {
            return Ok(None);
        };
        let stmt = self.timeline.now().current().and_then(|thread| thread.next());
        Ok(stmt.and_then(|stmt| match stmt.kind {
            StmtKind::Write { value, .. } => Some((stmt.span, value, at)),
            _ => None,
        }))
    }

    /// Returns the element that an expression loaded.
    fn find_loaded_element(&mut self, moment: ProgramPoint, expr: ExprId) -> TraceResult<Option<ElementPoint>> {
        let at = self.seek_statement_before(moment, &|kind| matches!(kind, StmtKind::Let(own) if *own == expr))?;
        match at {
            Some(at) => self.accessed_element(at),
            None => Ok(None),
        }
    }

    /// Returns the element whose previous value an atomic operation returned.
    fn find_atomic_element(&mut self, moment: ProgramPoint, expr: ExprId) -> TraceResult<Option<ElementPoint>> {
        let has_result = |kind: &StmtKind| matches!(kind, StmtKind::Atomic { result: Some(own), .. } if *own == expr);
        match self.seek_statement_before(moment, &has_result)? {
            Some(at) => self.accessed_element(at),
            None => Ok(None),
        }
    }

    /// Executes one step, and returns the array element that it accesses.
    fn accessed_element(&mut self, at: ProgramPoint) -> TraceResult<Option<ElementPoint>> {
        self.timeline.go_to(at.step)?;
        let mut logger = AccessLogger { spot: None };
        self.timeline.step(&mut logger);
        Ok(logger.spot.map(|spot| ElementPoint { before: at.step, ..spot }))
    }

    /// Moves the timeline to the last statement before a point that satisfies `is`. Only statements of the same thread
    /// in the same call are searched.
    fn seek_statement_before(
        &mut self,
        moment: ProgramPoint,
        is: &dyn Fn(&StmtKind) -> bool,
    ) -> TraceResult<Option<ProgramPoint>> {
        self.timeline.go_to(moment.step)?;
        let depth = self.timeline.now().current().map_or(0, |thread| thread.frames.len());
        let mut executed = StatementFinder { who: (moment.block, moment.thread), depth, is, hit: false };
        self.seek_last(&mut executed)
    }

    /// Searches backwards for a step that matches. Moves the timeline to the position before that step.
    fn seek_last(&mut self, seeker: &mut dyn Seeker) -> TraceResult<Option<ProgramPoint>> {
        let position = self.timeline.position();
        if position == 0 {
            return Ok(None);
        }
        self.timeline.go_to(position - 1)?;
        // `seek_back` does not examine the step just before the position, so examine it first.
        self.timeline.step(seeker.observer());
        let mut is_found = seeker.is_here(self.timeline.now());
        if !is_found {
            is_found = self.timeline.seek_back(seeker)?;
        }
        if !is_found {
            return Ok(None);
        }
        let step = self.timeline.position() - 1;
        self.timeline.go_to(step)?;
        let StepPosition { step, block, thread } = self.timeline.now().at();
        Ok(Some(ProgramPoint { step, block, thread }))
    }

    /// Describes the sum that a loop has accumulated in a variable. `None` if the node is not such a sum, or has fewer
    /// than three terms.
    pub fn sum(&mut self, node: &OriginNode) -> TraceResult<Option<LoopSum>> {
        let Some(LoopUpdate { local, value, old, moment }) = self.match_loop_update(node)? else { return Ok(None) };
        let Some(function) = self.function() else { return Ok(None) };
        let term = match function.exprs[value].kind {
            ExprKind::Binary { op: BinOp::Add, left, right } => {
                if left == old {
                    right
                } else {
                    left
                }
            }
            _ => return Ok(None),
        };
        let mut terms = IterationLogger { who: (moment.block, moment.thread), value, observed_expr: term, all: vec![] };
        self.log_iterations(moment, local, &mut terms)?;
        let size = |val: &Option<ThreadValue>| val.map_or(0.0, |val| val.lane(0).as_f64().abs());
        let Some((first, _)) = terms.all.first().copied() else { return Ok(None) };
        let mut largest = terms.all[0];
        for turn in &terms.all {
            if size(&turn.1) > size(&largest.1) {
                largest = *turn;
            }
        }
        if terms.all.len() < 3 {
            return Ok(None);
        }
        let (start, largest) = (self.value(first, old)?, self.value(largest.0, term)?);
        Ok(Some(LoopSum { count: terms.all.len(), start, largest }))
    }

    fn function(&self) -> Option<&'m Function> {
        self.timeline.now().current()?.frames.last().map(|frame| frame.function)
    }

    /// Matches a statement that computes a variable's value from its previous value.
    fn match_loop_update(&mut self, node: &OriginNode) -> TraceResult<Option<LoopUpdate>> {
        let ValueSource::Operands(operands, moment) = &node.source else { return Ok(None) };
        let &[value] = &operands[..] else { return Ok(None) };
        self.timeline.go_to(moment.step)?;
        let stmt = self.timeline.now().current().and_then(|thread| thread.next());
        let (Some(function), Some(StmtKind::Write { local, value: own })) = (self.function(), stmt.map(|s| &s.kind))
        else {
            return Ok(None);
        };
        let reads = |expr: &ExprId| function.exprs[*expr].kind == ExprKind::Read(*local);
        let old = operands_of(&function.exprs[value].kind).into_iter().find(reads);
        Ok(old.filter(|_| value == *own).map(|old| LoopUpdate { local: *local, value, old, moment: *moment }))
    }

    /// Executes the iterations of a loop up to `moment` with the observer `turns`. Begins after the last assignment to
    /// `local` by another statement.
    fn log_iterations(&mut self, moment: ProgramPoint, local: LocalId, turns: &mut IterationLogger) -> TraceResult<()> {
        let value = turns.value;
        let other = |kind: &StmtKind| match kind {
            StmtKind::Write { local: own, value: written } => *own == local && *written != value,
            _ => false,
        };
        let from = self.seek_statement_before(moment, &other)?.map_or(0, |at| at.step);
        self.timeline.go_to(from)?;
        self.timeline.follow(moment.step + 1, turns)
    }

    /// Follows a non-finite value back to the operation that computed it from finite operands, or to the argument that
    /// contained it. Also returns whether the search reached the origin within `MOST_HOPS` values.
    pub fn trace_nonfinite(&mut self, mut node: OriginNode) -> TraceResult<(OriginNode, bool)> {
        let mut is_there = false;
        for _ in 0..MOST_HOPS {
            if let Some(first) = self.first_nonfinite_iteration(&node)? {
                node = first;
            }
            let parts = self.parts(&node)?;
            match parts.into_iter().find(|part| part.value.is_some_and(|value| !is_finite(value))) {
                Some(part) => node = part,
                None => {
                    is_there = true;
                    break;
                }
            }
        }
        if let (ValueSource::Operands(_, at) | ValueSource::Update(_, _, at), None) = (&node.source, node.writer) {
            node.writer = Some(self.timeline.launch.ids(at.block, at.thread.into()));
        }
        Ok((node, is_there))
    }

    /// If a variable is non-finite because its value from the previous iteration was, returns the node of the first
    /// iteration in which it became non-finite.
    fn first_nonfinite_iteration(&mut self, node: &OriginNode) -> TraceResult<Option<OriginNode>> {
        let Some(LoopUpdate { local, value, old, moment }) = self.match_loop_update(node)? else { return Ok(None) };
        if self.evaluate(old).is_none_or(is_finite) {
            return Ok(None);
        }
        let mut all = IterationLogger { who: (moment.block, moment.thread), value, observed_expr: value, all: vec![] };
        self.log_iterations(moment, local, &mut all)?;
        let finite = |(_, value): &(ProgramPoint, Option<ThreadValue>)| value.is_none_or(is_finite);
        let first = all.all.iter().rposition(finite).map_or(0, |last| last + 1);
        match all.all.get(first) {
            Some((at, _)) => self.value(*at, value).map(Some),
            None => Ok(None),
        }
    }
}

/// Returns whether an expression depends on array elements or local variables.
fn depends_on_data(function: &Function, expr: ExprId) -> bool {
    let mut visited = vec![false; function.exprs.len()];
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        if std::mem::replace(&mut visited[expr.index()], true) {
            continue;
        }
        match &function.exprs[expr].kind {
            ExprKind::Load { .. } | ExprKind::Read(_) | ExprKind::Result => return true,
            ExprKind::Select { cond, then, other } => open.extend([cond, then, other]),
            ExprKind::Bitcast(value) | ExprKind::Extract { value, .. } => open.push(*value),
            ExprKind::Compose(parts) => open.extend(parts),
            kind => open.extend(operands_of(kind)),
        }
    }
    false
}

/// A statement that computes a variable's new value (`value`) from its previous value (`old`), such as `s = s + x`.
struct LoopUpdate {
    local: LocalId,
    value: ExprId,
    old: ExprId,
    moment: ProgramPoint,
}

fn load_element(block: &super::BlockState<'_>, store: ArrayStorage, spot: &ElementPoint) -> Option<ThreadValue> {
    match store {
        ArrayStorage::Shared(function, memory) => block.shared.get(&(function, memory))?.get(spot.offset, spot.ty),
        ArrayStorage::Local(index) => {
            block.threads.get(spot.thread as usize)?.local.get(index)?.get(spot.offset, spot.ty)
        }
        ArrayStorage::Global(_) => None,
    }
}

/// Returns the components of a vector element of an array.
fn components(spot: &ElementPoint) -> Vec<ElementPoint> {
    let scalar = spot.ty.scalar();
    let one = |(lane, name): (usize, char)| ElementPoint {
        name: format!("{}.{name}", spot.name),
        offset: spot.offset + lane * scalar.size(),
        ty: Ty::Scalar(scalar),
        ..spot.clone()
    };
    "xyzw".chars().take(spot.ty.lanes().into()).enumerate().map(one).collect()
}

/// Seeks steps that write to an element.
struct WriteFinder<'a> {
    spot: &'a ElementPoint,
    /// Number of bytes of the element that the last step wrote, if any.
    hit: Option<usize>,
    /// Whether the found step wrote only some bytes of the element.
    is_partial: bool,
}

impl StepObserver for WriteFinder<'_> {
    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        let spot = self.spot;
        let own = match spot.store {
            ArrayStorage::Global(_) => true,
            ArrayStorage::Shared(..) => at.block == spot.block,
            ArrayStorage::Local(_) => (at.block, at.thread) == (spot.block, spot.thread),
        };
        let touches = access.writes() && access.store() == spot.store && access.touches(spot.offset, spot.ty.size());
        if own && touches {
            let end = (access.offset + access.ty.size()).min(spot.offset + spot.ty.size());
            self.hit = Some(end - access.offset.max(spot.offset));
        }
    }
}

impl Seeker for WriteFinder<'_> {
    fn observer(&mut self) -> &mut dyn StepObserver {
        self
    }

    fn is_here(&mut self, _: &LaunchSnapshot<'_>) -> bool {
        std::mem::take(&mut self.hit).is_some_and(|size| {
            self.is_partial = size < self.spot.ty.size();
            true
        })
    }
}

/// Seeks statements of one thread, at one call depth, that satisfy a predicate.
struct StatementFinder<'a> {
    who: (u64, u32),
    depth: usize,
    is: &'a dyn Fn(&StmtKind) -> bool,
    hit: bool,
}

impl StepObserver for StatementFinder<'_> {
    fn statement(&mut self, at: StepPosition, thread: &Thread<'_>, stmt: &Stmt) {
        self.hit |= (at.block, at.thread) == self.who && thread.frames.len() == self.depth && (self.is)(&stmt.kind);
    }
}

impl Seeker for StatementFinder<'_> {
    fn observer(&mut self) -> &mut dyn StepObserver {
        self
    }

    fn is_here(&mut self, _: &LaunchSnapshot<'_>) -> bool {
        std::mem::take(&mut self.hit)
    }
}

/// Records the element that a step accesses.
struct AccessLogger {
    spot: Option<ElementPoint>,
}

impl StepObserver for AccessLogger {
    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        let (name, store) = (format!("{}{}", element(access), access.part()), access.store());
        let (offset, ty) = (access.offset, access.ty);
        self.spot = Some(ElementPoint { name, store, block: at.block, thread: at.thread, offset, ty, before: at.step });
    }
}

/// Logs each assignment of the expression `value` to a variable by a thread, together with the current value of
/// `observed_expr`.
struct IterationLogger {
    who: (u64, u32),
    value: ExprId,
    observed_expr: ExprId,
    all: Vec<(ProgramPoint, Option<ThreadValue>)>,
}

impl StepObserver for IterationLogger {
    fn statement(
        &mut self,
        StepPosition { step, block, thread: number }: StepPosition,
        thread: &Thread<'_>,
        stmt: &Stmt,
    ) {
        let (StmtKind::Write { value, .. }, Some(frame)) = (&stmt.kind, thread.frames.last()) else { return };
        if (block, number) == self.who && *value == self.value {
            let looked_at =
                frame.value(self.observed_expr).or_else(|| match frame.function.exprs[self.observed_expr].kind {
                    ExprKind::Read(local) => frame.local(local),
                    _ => None,
                });
            self.all.push((ProgramPoint { step, block, thread: number }, looked_at));
        }
    }
}

/// Returns whether all components of a value are finite.
pub fn is_finite(value: ThreadValue) -> bool {
    !value.ty.scalar().is_float() || value.values().all(|lane| lane.as_f64().is_finite())
}

/// Returns the operands of an arithmetic operation; none for other expressions.
fn operands_of(kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Unary { value, .. } | ExprKind::Convert(value) => vec![*value],
        ExprKind::Binary { left, right, .. } => vec![*left, *right],
        ExprKind::Math { args, .. } => args.clone(),
        _ => vec![],
    }
}
