//! Emits branches and loops. Jumps to DeviceIR labels become `break` and `continue` if these have the same meaning in
//! C, and `goto` otherwise.

use super::generator::{BranchTarget, CudaGenerator, OpFacts};
use super::scalar::not;
use super::tree::{CudaExpr, CudaStmt as Out};
use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::ranges::BodySite;
use clk_ir::visit::each_stmt;
use clk_runtime::fault_record::{FaultSite, FaultSiteKind};

/// Number of iterations of a loop between two polls of the stop word. With 256, loops with short bodies become
/// measurably slower. 1024 iterations do not delay a stop noticeably, because inner loops poll too.
const POLL: i128 = 1024;

/// Maximum number of statements in loops that are unrolled between two updates of the iteration count. For such small
/// bodies, an update in each iteration would cost as much as the body.
const SMALL_BODY: usize = 32;

/// A loop of the program with a counter, which the generated code can use to decide when to poll.
struct CounterLoop {
    /// Number of statements at the start of the body that compute the loop's condition.
    head: usize,
    /// `parts` are the terms of the condition. `counts` is the index of the term that compares the counter with the
    /// limit.
    parts: Vec<ExprId>,
    counts: usize,
    counter: LocalId,
    limit: ExprId,
    step: u8,
}

/// Returns whether one of these statements contains a `break` out of the loop.
fn has_break(body: &[Stmt], label: Label) -> bool {
    body.iter().any(|stmt| {
        let breaks = matches!(&stmt.kind, StmtKind::Break(l) if *l == label);
        breaks || stmt.kind.blocks().into_iter().any(|block| has_break(block, label))
    })
}

/// Adds a condition to a deferred store.
fn make_conditional(cond: &CudaExpr, stmt: &mut Out) {
    let Out::Do(CudaExpr::Call(_, arguments)) = stmt else { return };
    if let Some(inside) = arguments.first_mut() {
        let always = *inside == CudaExpr::atom("true");
        *inside = if always { cond.clone() } else { CudaExpr::binary("&&", cond.clone(), inside.clone()) };
    }
}

impl CudaGenerator<'_> {
    pub fn if_(&mut self, cond: ExprId, then: &Block, other: &Block) {
        let cond = self.value(cond);
        if self.deferred.stores.is_some() && other.is_empty() && self.can_run_unconditionally(then) {
            // Avoid a branch, so that the computations of several elements can overlap.
            let mut then = self.capture(|g| g.block(then));
            then.iter_mut().for_each(|stmt| make_conditional(&cond, stmt));
            self.out.extend(then);
            return;
        }
        let then = self.capture(|g| g.block(then));
        let other = self.capture(|g| g.block(other));
        match (then.is_empty(), other.is_empty()) {
            (true, true) => {}
            (true, false) => self.push(Out::If(not(cond), other, vec![])),
            _ => self.push(Out::If(cond, then, other)),
        }
    }

    /// Returns whether a block may be computed even if its condition is false. It must only contain deferred stores and
    /// computations of their values, without memory accesses and divisions.
    fn can_run_unconditionally(&self, block: &Block) -> bool {
        let divides = |op: &BinOp| matches!(op, BinOp::Div | BinOp::Rem);
        block.iter().all(|stmt| match &stmt.kind {
            StmtKind::Let(id) => match &self.function.exprs[*id].kind {
                ExprKind::Load { .. } => false,
                ExprKind::Binary { op, .. } => !divides(op) || self.function.exprs[*id].ty.scalar().is_float(),
                _ => true,
            },
            StmtKind::Store { place, .. } => {
                matches!(self.function.memories[place.memory].space, MemorySpace::Global { .. })
            }
            StmtKind::If { then, other, .. } => other.is_empty() && self.can_run_unconditionally(then),
            _ => false,
        })
    }

    /// Emits the body of a statement that is the target of jumps.
    fn body(&mut self, target: BranchTarget, body: &[Stmt]) -> (Vec<Out>, BranchTarget) {
        self.targets.push(target);
        let mut stmts = self.capture(|g| body.iter().for_each(|stmt| g.stmt(stmt)));
        let target = self.targets.pop().unwrap_or(BranchTarget {
            label: Label(0),
            breaks: false,
            continues: false,
            flag: None,
            done: None,
            next: None,
        });
        if let Some(next) = &target.next {
            stmts = vec![Out::Scope(stmts), Out::Label(next.clone())];
        }
        (stmts, target)
    }

    fn target(&self, label: Label, breaks: bool, continues: bool) -> BranchTarget {
        BranchTarget { label, breaks, continues, flag: None, done: None, next: None }
    }

    fn emit_done_label(&mut self, target: BranchTarget) {
        if let Some(done) = target.done {
            self.push(Out::Label(done));
        }
    }

    pub fn labeled_block(&mut self, label: Label, body: &Block) {
        let target = self.target(label, false, false);
        let (stmts, target) = self.body(target, body);
        if target.done.is_some() {
            self.push(Out::Scope(stmts));
        } else {
            self.out.extend(stmts);
        }
        self.emit_done_label(target);
    }

    pub fn leave(&mut self, label: Label, breaks: bool) {
        let Some(at) = self.targets.iter().rposition(|target| target.label == label) else { return };
        // A `break` or `continue` inside an inner C loop would apply to that loop.
        let innermost = self.targets[at + 1..].iter().all(|target| !target.breaks && !target.continues);
        let target = &self.targets[at];
        if innermost && (if breaks { target.breaks } else { target.continues }) {
            if let (true, Some(flag)) = (breaks, &target.flag) {
                self.out.push(Out::Assign(CudaExpr::atom(flag), CudaExpr::atom("true")));
            }
            return self.push(if breaks { Out::Break } else { Out::Continue });
        }
        let label_name = if breaks { &self.targets[at].done } else { &self.targets[at].next };
        let name = match label_name {
            Some(name) => name.clone(),
            None => self.naming.used.fresh(if breaks { "done" } else { "next" }),
        };
        let slot = if breaks { &mut self.targets[at].done } else { &mut self.targets[at].next };
        *slot = Some(name.clone());
        self.push(Out::Goto(name));
    }

    pub fn loop_(&mut self, label: Label, unroll: Unroll, body: &Block, span: Span) {
        if self.options.stop {
            return self.polled_loop(label, body, span);
        }
        let unroll = pragma(unroll);
        let (test, skipped) = self.loop_test(label, body);
        let target = self.target(label, true, true);
        let (stmts, target) = self.body(target, &body[skipped..]);
        self.push(Out::While(unroll, test.unwrap_or(CudaExpr::atom("true")), stmts));
        self.emit_done_label(target);
    }

    /// Matches `if c { } else { break }` at the start of a body, preceded only by values that are inlined in `c`.
    /// Returns the number of preceding statements, the condition, and whether the loop ends if the condition is true.
    fn head(&self, label: Label, body: &[Stmt]) -> Option<(usize, ExprId, bool)> {
        let silent = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                let guarded = self.options.checked
                    && (self.analyses.ranges.guards.contains_key(&BodySite::Load(*id))
                        || self.analyses.ranges.zero_divisors.contains(id));
                !guarded && (self.analyses.plan.is_inline(*id) || !self.analyses.plan.is_used(*id))
            }
            _ => false,
        };
        let ordered = |at: usize| self.analyses.fences.before(self.stmt + at as u32).is_some();
        let at = body.iter().enumerate().take_while(|(at, stmt)| silent(stmt) && !ordered(*at)).count();
        let Some(Stmt { kind: StmtKind::If { cond, then, other }, .. }) = body.get(at) else { return None };
        let breaks = |block: &Block| matches!(block.as_slice(), [Stmt { kind: StmtKind::Break(l), .. }] if *l == label);
        match (then.is_empty() && breaks(other), other.is_empty() && breaks(then)) {
            (true, _) => Some((at, *cond, false)),
            (_, true) => Some((at, *cond, true)),
            _ => None,
        }
    }

    /// Returns the condition at the start of a loop's body, if there is one, and the number of statements that it
    /// consists of.
    fn loop_test(&mut self, label: Label, body: &[Stmt]) -> (Option<CudaExpr>, usize) {
        let Some((at, cond, negate)) = self.head(label, body) else { return (None, 0) };
        let cond = self.value(cond);
        // Skip the numbers of the `Let` statements, the branch, and the `break` in it.
        self.stmt += at as u32 + 2;
        (Some(if negate { not(cond) } else { cond }), at + 1)
    }

    /// Emits a loop that polls the stop word. A poll in each iteration would cost more than most loop bodies. The loop
    /// therefore becomes two nested loops: the inner one runs a chunk of iterations, and the outer one polls. A jump
    /// out of the program's loop first leaves only the inner loop, where all lanes reconverge, and sets a flag. Jumping
    /// out of both loops would cost as much as counting iterations.
    fn polled_loop(&mut self, label: Label, body: &Block, span: Span) {
        let over = self.naming.used.fresh("over");
        let pace = self.match_counter_loop(label, body);
        let left = pace.is_none() || has_break(body.get(pace.as_ref().map_or(0, |p| p.head)..).unwrap_or(&[]), label);
        if left {
            let value = Some(CudaExpr::atom("false"));
            self.push(Out::Declare { ty: "bool".into(), name: over.clone(), suffix: String::new(), value });
        }
        let target = BranchTarget { flag: Some(over.clone()), ..self.target(label, true, true) };
        let (test, chunk, mut target) = match pace {
            Some(pace) => self.counter_chunk(pace, target, body),
            None => {
                let (chunk, target) = self.counted_chunk(target, body);
                (CudaExpr::atom("true"), vec![chunk], target)
            }
        };
        self.preamble.helpers.need("stopped");
        self.records.uses_faults = true;
        let poll = self.capture(|g| {
            let test = CudaExpr::call("stopped", [CudaExpr::atom("faults")]);
            g.guard(test, FaultSite { span, kind: FaultSiteKind::Stopped }, vec![]);
        });
        let leave = left.then(|| Out::If(CudaExpr::atom(&over), vec![Out::Break], vec![]));
        self.push(Out::While(None, test, chunk.into_iter().chain(leave).chain(poll).collect()));
        if let Some(done) = target.done.take() {
            self.push(Out::Label(done));
        }
    }

    /// Emits the inner loop of a polled loop without a counter. It counts the iterations of the chunk.
    fn counted_chunk(&mut self, target: BranchTarget, body: &Block) -> (Out, BranchTarget) {
        let (stmts, target) = self.body(target, body);
        let iteration = self.naming.used.fresh("poll");
        let mut statements = 0;
        each_stmt(body, &mut |_| statements += 1);
        let copies = if statements <= SMALL_BODY { 4 } else { 1 };
        let start = Out::Declare {
            ty: "int".into(),
            name: iteration.clone(),
            suffix: String::new(),
            value: Some(CudaExpr::int(0)),
        };
        let chunk = Out::For {
            unroll: Some(format!("#pragma unroll {copies}")),
            start: Box::new(start),
            test: CudaExpr::binary("<", CudaExpr::atom(&iteration), CudaExpr::int(POLL)),
            step: CudaExpr::unary("++", CudaExpr::atom(&iteration)),
            body: stmts,
        };
        (chunk, target)
    }

    /// Emits the inner loop of a polled loop with a counter. The chunk ends at a value of this counter, so counting
    /// costs nothing.
    fn counter_chunk(
        &mut self,
        pace: CounterLoop,
        target: BranchTarget,
        body: &Block,
    ) -> (CudaExpr, Vec<Out>, BranchTarget) {
        let parts: Vec<CudaExpr> = pace.parts.iter().map(|&part| self.value(part)).collect();
        let limit = super::print::expr(&self.value(pace.limit));
        let counter = self.naming.locals[pace.counter.index()].clone();
        let pause = self.naming.used.fresh("pause");
        let test = CudaExpr::all("&&", parts.clone()).unwrap_or(CudaExpr::atom("true"));
        let short = parts.into_iter().enumerate().map(|(k, part)| match k == pace.counts {
            true => CudaExpr::binary("<", CudaExpr::atom(&counter), CudaExpr::atom(&pause)),
            false => part,
        });
        let short = CudaExpr::all("&&", short).unwrap_or(CudaExpr::atom("true"));
        self.stmt += pace.head as u32 + 1;
        let (stmts, target) = self.body(target, &body[pace.head..]);
        let iterations = POLL * i128::from(pace.step);
        let value =
            format!("unsigned({limit}) - unsigned({counter}) > {iterations} ? {counter} + {iterations} : {limit}");
        let declared = Out::Declare {
            ty: "const int".into(),
            name: pause,
            suffix: String::new(),
            value: Some(CudaExpr::Atom(value)),
        };
        (test, vec![declared, Out::While(None, short, stmts)], target)
    }

    /// Matches a loop that continues while a counter is below a limit, and that increments the counter once per
    /// iteration. The loop's condition may have further terms.
    fn match_counter_loop(&self, label: Label, body: &[Stmt]) -> Option<CounterLoop> {
        let (at, cond, negate) = self.head(label, body)?;
        let function = self.function;
        let kind = |id: ExprId| &function.exprs[id].kind;
        // The generated code evaluates the condition twice, so its operands must not change in between.
        let loads = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Let(id) if matches!(kind(id), ExprKind::Load { .. }));
        if negate || body[..at].iter().any(loads) {
            return None;
        }
        let mut parts = vec![];
        self.conjunction(cond, &mut parts);
        let stays = |id: ExprId| kind(id).is_free() || self.naming.values.contains_key(&id);
        let (counts, counter, limit) = parts.iter().enumerate().find_map(|(k, &part)| match kind(part) {
            ExprKind::Binary { op: BinOp::Lt, left, right } if function.exprs[*left].ty == Ty::Scalar(Scalar::I32) => {
                match kind(*left) {
                    ExprKind::Read(counter) if stays(*right) => Some((k, *counter, *right)),
                    _ => None,
                }
            }
            _ => None,
        })?;
        let mut writes = 0;
        let mut skips = false;
        each_stmt(body, &mut |stmt| {
            writes += usize::from(matches!(&stmt.kind, StmtKind::Write { local, .. } if *local == counter));
            skips |= matches!(&stmt.kind, StmtKind::Continue(l) if *l == label);
        });
        let step = body.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Write { local, value } if *local == counter => self.step_of(counter, *value),
            _ => None,
        })?;
        (writes == 1 && !skips).then_some(CounterLoop { head: at + 1, parts, counts, counter, limit, step })
    }

    /// Matches `n + step` for a counter `n` and a constant step. Returns the step.
    fn step_of(&self, counter: LocalId, value: ExprId) -> Option<u8> {
        let kind = |id: ExprId| &self.function.exprs[id].kind;
        let ExprKind::Binary { op: BinOp::Add, left, right } = kind(value) else { return None };
        match (kind(*left), kind(*right)) {
            (ExprKind::Read(local), ExprKind::Const(step)) | (ExprKind::Const(step), ExprKind::Read(local)) => {
                u8::try_from(*step).ok().filter(|&step| *local == counter && step > 0)
            }
            _ => None,
        }
    }

    /// Collects the terms of a conjunction `a && b && …`.
    fn conjunction(&self, cond: ExprId, parts: &mut Vec<ExprId>) {
        let is_false = |id: ExprId| self.function.exprs[id].kind == ExprKind::Const(0);
        match &self.function.exprs[cond].kind {
            ExprKind::Binary { op: BinOp::And, left, right } => {
                self.conjunction(*left, parts);
                self.conjunction(*right, parts);
            }
            ExprKind::Select { cond, then, other } if is_false(*other) => {
                self.conjunction(*cond, parts);
                self.conjunction(*then, parts);
            }
            _ => parts.push(cond),
        }
    }

    pub fn for_(&mut self, kind: &StmtKind, span: Span) {
        let StmtKind::For { label, local, start, end, step, inclusive, unroll, body, .. } = kind else { return };
        let ty = self.preamble.helpers.ty(self.function.locals[*local].ty);
        let (first, last, by) = (self.value(*start), self.value(*end), self.value(*step));
        let own = self.analyses.counters.contains(local);
        let variable = self.naming.locals[local.index()].clone();
        let counter = if own { variable.clone() } else { self.naming.used.fresh(&format!("{variable}_turn")) };
        let name = || CudaExpr::atom(&counter);
        let declared =
            Out::Declare { ty: ty.clone(), name: counter.clone(), suffix: String::new(), value: Some(first.clone()) };
        // If range analysis has proved the direction of the loop, the step is not zero.
        if !self.analyses.ranges.non_overflowing_counters.contains_key(label) {
            self.guard_step(*step, span);
        }
        let (test, advance) = match self.analyses.ranges.non_overflowing_counters.get(label) {
            Some(&up) => {
                let op = match (up, *inclusive) {
                    (true, false) => "<",
                    (true, true) => "<=",
                    (false, false) => ">",
                    (false, true) => ">=",
                };
                (CudaExpr::binary(op, name(), last), advance(name(), by))
            }
            None => {
                self.preamble.helpers.need("turns");
                let left = self.naming.used.fresh(&format!("{variable}_left"));
                let inclusive = CudaExpr::atom(inclusive.to_string());
                let iterations = CudaExpr::call(format!("turns<{ty}>"), [first, last, by.clone(), inclusive]);
                let value = Some(iterations);
                self.push(Out::Declare { ty: "u64".into(), name: left.clone(), suffix: String::new(), value });
                let s = self.function.locals[*local].ty.scalar();
                let next = self.preamble.helpers.binary(BinOp::Add, s, name(), by, OpFacts::default());
                let next = super::print::expr(&CudaExpr::binary("=", name(), next));
                let test = CudaExpr::binary("!=", CudaExpr::atom(&left), CudaExpr::int(0));
                (test, CudaExpr::Atom(format!("--{left}, {next}")))
            }
        };
        let defers_checks = self.can_defer_checks(*label, *local, body);
        if defers_checks {
            self.begin_deferred_checks();
        }
        let target = self.target(*label, true, true);
        let (mut stmts, target) = self.body(target, body);
        if !own {
            stmts.insert(0, Out::Assign(CudaExpr::atom(&variable), name()));
        }
        let unroll = pragma(*unroll);
        let start = Box::new(declared);
        let emit = |g: &mut Self| {
            g.push(Out::For { unroll, start, test, step: advance, body: stmts });
            g.emit_done_label(target);
        };
        if defers_checks { self.end_deferred_checks(emit) } else { emit(self) }
    }
}

fn advance(counter: CudaExpr, by: CudaExpr) -> CudaExpr {
    match &by {
        CudaExpr::Atom(text) if ["1", "1u", "1ll", "1ull"].contains(&text.as_str()) => CudaExpr::unary("++", counter),
        CudaExpr::Atom(text) if text == "-1" || text == "-1ll" => CudaExpr::unary("--", counter),
        _ => CudaExpr::binary("+=", counter, by),
    }
}

fn pragma(unroll: Unroll) -> Option<String> {
    match unroll {
        Unroll::Auto => None,
        Unroll::Full => Some("#pragma unroll".into()),
        Unroll::By(n) => Some(format!("#pragma unroll {n}")),
        Unroll::Never => Some("#pragma unroll 1".into()),
    }
}
