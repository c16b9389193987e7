//! Branches and loops. DeviceIR's labels become C's `break` and `continue` where these mean the same, else `goto`.

use super::abi::{Place, PlaceKind};
use super::generator::{Gen, Known, Target};
use super::scalar::not;
use super::tree::{Expr, Stmt as Out};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::ranges::Site;
use crate::ir::visit::each_stmt;

/// Iterations of a loop between two polls of the stop word. With 256 short loops become measurably slower, and 1024 iterations of
/// a long one do not take long either: inner loops poll themselves.
const POLL: i128 = 1024;

/// Loops with at most this many statements are unrolled between two updates of the iteration count, which would cost as much as
/// the body.
const SMALL_BODY: usize = 32;

/// A loop with a counter of its own.
struct Pace {
    /// Number of statements that compute its condition.
    head: usize,
    /// The terms of the condition, and which one compares the counter with the limit.
    parts: Vec<ExprId>,
    counts: usize,
    counter: LocalId,
    limit: ExprId,
    step: u8,
}

/// Returns whether some of these statements leave the loop.
fn leaves(body: &[Stmt], label: Label) -> bool {
    body.iter().any(|stmt| {
        let here = matches!(&stmt.kind, StmtKind::Break(l) if *l == label);
        here || stmt.kind.blocks().into_iter().any(|block| leaves(block, label))
    })
}

/// Lets a statement that leaves a value to be written do so under a condition.
fn under(cond: &Expr, stmt: &mut Out) {
    let Out::Do(Expr::Call(_, arguments)) = stmt else { return };
    if let Some(inside) = arguments.first_mut() {
        let always = *inside == Expr::atom("true");
        *inside = if always { cond.clone() } else { Expr::binary("&&", cond.clone(), inside.clone()) };
    }
}

impl Gen<'_> {
    pub fn if_(&mut self, cond: ExprId, then: &Block, other: &Block) {
        let cond = self.value(cond);
        if self.left.is_some() && other.is_empty() && self.is_harmless(then) {
            // Without a branch, what is computed of several elements overlaps.
            let mut then = self.within(|g| g.block(then));
            then.iter_mut().for_each(|stmt| under(&cond, stmt));
            self.out.extend(then);
            return;
        }
        let then = self.within(|g| g.block(then));
        let other = self.within(|g| g.block(other));
        match (then.is_empty(), other.is_empty()) {
            (true, true) => {}
            (true, false) => self.push(Out::If(not(cond), other, vec![])),
            _ => self.push(Out::If(cond, then, other)),
        }
    }

    /// Whether a block does nothing but leave values to be written, and may compute them where its condition does not hold: they are then
    /// of no use, but no memory is accessed and nothing is divided.
    fn is_harmless(&self, block: &Block) -> bool {
        let divides = |op: &BinOp| matches!(op, BinOp::Div | BinOp::Rem);
        block.iter().all(|stmt| match &stmt.kind {
            StmtKind::Let(id) => match &self.function.exprs[*id].kind {
                ExprKind::Load { .. } => false,
                ExprKind::Binary { op, .. } => !divides(op) || self.function.exprs[*id].ty.scalar().is_float(),
                _ => true,
            },
            StmtKind::Store { place, .. } => matches!(self.function.memories[place.memory].space, Space::Global { .. }),
            StmtKind::If { then, other, .. } => other.is_empty() && self.is_harmless(then),
            _ => false,
        })
    }

    /// Emits the body of a statement that can be left by jumps.
    fn body(&mut self, target: Target, body: &[Stmt]) -> (Vec<Out>, Target) {
        self.targets.push(target);
        let mut stmts = self.within(|g| body.iter().for_each(|stmt| g.stmt(stmt)));
        let target = self.targets.pop().unwrap_or(Target {
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

    fn target(&self, label: Label, breaks: bool, continues: bool) -> Target {
        Target { label, breaks, continues, flag: None, done: None, next: None }
    }

    fn behind(&mut self, target: Target) {
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
        self.behind(target);
    }

    pub fn leave(&mut self, label: Label, breaks: bool) {
        let Some(at) = self.targets.iter().rposition(|target| target.label == label) else { return };
        // An inner C loop would capture `break` and `continue`.
        let innermost = self.targets[at + 1..].iter().all(|target| !target.breaks && !target.continues);
        let target = &self.targets[at];
        if innermost && (if breaks { target.breaks } else { target.continues }) {
            if let (true, Some(flag)) = (breaks, &target.flag) {
                self.out.push(Out::Assign(Expr::atom(flag), Expr::atom("true")));
            }
            return self.push(if breaks { Out::Break } else { Out::Continue });
        }
        let known = if breaks { &self.targets[at].done } else { &self.targets[at].next };
        let name = match known {
            Some(name) => name.clone(),
            None => self.names.fresh(if breaks { "done" } else { "next" }),
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
        self.push(Out::While(unroll, test.unwrap_or(Expr::atom("true")), stmts));
        self.behind(target);
    }

    /// Matches `if c { } else { break }` at the start, preceded only by values that are inlined in `c`. Returns the number of
    /// statements before it, the condition, and whether the loop is left where that is true.
    fn head(&self, label: Label, body: &[Stmt]) -> Option<(usize, ExprId, bool)> {
        let silent = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                let guarded = self.options.checked
                    && (self.ranges.guards.contains_key(&Site::Load(*id)) || self.ranges.zero_divisors.contains(id));
                !guarded && (self.plan.is_inline(*id) || !self.plan.is_used(*id))
            }
            _ => false,
        };
        let ordered = |at: usize| self.fences.before(self.stmt + at as u32).is_some();
        let at = body.iter().enumerate().take_while(|(at, stmt)| silent(stmt) && !ordered(*at)).count();
        let Some(Stmt { kind: StmtKind::If { cond, then, other }, .. }) = body.get(at) else { return None };
        let breaks = |block: &Block| matches!(block.as_slice(), [Stmt { kind: StmtKind::Break(l), .. }] if *l == label);
        match (then.is_empty() && breaks(other), other.is_empty() && breaks(then)) {
            (true, _) => Some((at, *cond, false)),
            (_, true) => Some((at, *cond, true)),
            _ => None,
        }
    }

    /// Returns the loop's condition, if it has one at its start, and the number of statements that it comprises.
    fn loop_test(&mut self, label: Label, body: &[Stmt]) -> (Option<Expr>, usize) {
        let Some((at, cond, negate)) = self.head(label, body) else { return (None, 0) };
        let cond = self.value(cond);
        // The lets, the branch and the break inside of it.
        self.stmt += at as u32 + 2;
        (Some(if negate { not(cond) } else { cond }), at + 1)
    }

    /// Emits a loop that polls the stop word. A poll in each iteration would cost more than most loop bodies: so iterations run
    /// in chunks. A jump out of the loop leaves the chunk first, where all lanes reconverge: a jump out of both would cost as
    /// much as counting iterations.
    fn polled_loop(&mut self, label: Label, body: &Block, span: Span) {
        let over = self.names.fresh("over");
        let pace = self.pace(label, body);
        let left = pace.is_none() || leaves(body.get(pace.as_ref().map_or(0, |p| p.head)..).unwrap_or(&[]), label);
        if left {
            let value = Some(Expr::atom("false"));
            self.push(Out::Declare { ty: "bool".into(), name: over.clone(), suffix: String::new(), value });
        }
        let target = Target { flag: Some(over.clone()), ..self.target(label, true, true) };
        let (test, chunk, mut target) = match pace {
            Some(pace) => self.paced_chunk(pace, target, body),
            None => {
                let (chunk, target) = self.counted_chunk(target, body);
                (Expr::atom("true"), vec![chunk], target)
            }
        };
        self.helpers.need("stopped");
        self.uses_faults = true;
        let poll = self.within(|g| {
            let test = Expr::call("stopped", [Expr::atom("faults")]);
            g.guard(test, Place { span, kind: PlaceKind::Stopped }, vec![]);
        });
        let leave = left.then(|| Out::If(Expr::atom(&over), vec![Out::Break], vec![]));
        self.push(Out::While(None, test, chunk.into_iter().chain(leave).chain(poll).collect()));
        if let Some(done) = target.done.take() {
            self.push(Out::Label(done));
        }
    }

    /// Emits a chunk of any loop, which counts its iterations.
    fn counted_chunk(&mut self, target: Target, body: &Block) -> (Out, Target) {
        let (stmts, target) = self.body(target, body);
        let iteration = self.names.fresh("poll");
        let mut statements = 0;
        each_stmt(body, &mut |_| statements += 1);
        let copies = if statements <= SMALL_BODY { 4 } else { 1 };
        let start = Out::Declare {
            ty: "int".into(),
            name: iteration.clone(),
            suffix: String::new(),
            value: Some(Expr::int(0)),
        };
        let chunk = Out::For {
            unroll: Some(format!("#pragma unroll {copies}")),
            start: Box::new(start),
            test: Expr::binary("<", Expr::atom(&iteration), Expr::int(POLL)),
            step: Expr::unary("++", Expr::atom(&iteration)),
            body: stmts,
        };
        (chunk, target)
    }

    /// Emits a chunk of a loop with a counter of its own, which decides when to poll at no further cost.
    fn paced_chunk(&mut self, pace: Pace, target: Target, body: &Block) -> (Expr, Vec<Out>, Target) {
        let parts: Vec<Expr> = pace.parts.iter().map(|&part| self.value(part)).collect();
        let limit = super::print::expr(&self.value(pace.limit));
        let counter = self.locals[pace.counter.index()].clone();
        let pause = self.names.fresh("pause");
        let test = Expr::all("&&", parts.clone()).unwrap_or(Expr::atom("true"));
        let short = parts.into_iter().enumerate().map(|(k, part)| match k == pace.counts {
            true => Expr::binary("<", Expr::atom(&counter), Expr::atom(&pause)),
            false => part,
        });
        let short = Expr::all("&&", short).unwrap_or(Expr::atom("true"));
        self.stmt += pace.head as u32 + 1;
        let (stmts, target) = self.body(target, &body[pace.head..]);
        let iterations = POLL * i128::from(pace.step);
        let value =
            format!("unsigned({limit}) - unsigned({counter}) > {iterations} ? {counter} + {iterations} : {limit}");
        let declared =
            Out::Declare { ty: "const int".into(), name: pause, suffix: String::new(), value: Some(Expr::Atom(value)) };
        (test, vec![declared, Out::While(None, short, stmts)], target)
    }

    /// Matches a loop that continues while a counter is below a limit (and possibly more conditions hold), and increments that
    /// counter once per iteration.
    fn pace(&self, label: Label, body: &[Stmt]) -> Option<Pace> {
        let (at, cond, negate) = self.head(label, body)?;
        let function = self.function;
        let kind = |id: ExprId| &function.exprs[id].kind;
        // The condition is evaluated twice: its operands must not change in between.
        let loads = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Let(id) if matches!(kind(id), ExprKind::Load { .. }));
        if negate || body[..at].iter().any(loads) {
            return None;
        }
        let mut parts = vec![];
        self.conjunction(cond, &mut parts);
        let stays = |id: ExprId| kind(id).is_free() || self.values.contains_key(&id);
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
        (writes == 1 && !skips).then_some(Pace { head: at + 1, parts, counts, counter, limit, step })
    }

    /// Matches `n + 1` for a counter `n`, with any constant step; returns the step.
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

    /// Collects the terms of `a && b && …`.
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
        let ty = self.helpers.ty(self.function.locals[*local].ty);
        let (first, last, by) = (self.value(*start), self.value(*end), self.value(*step));
        let own = self.counters.contains(local);
        let variable = self.locals[local.index()].clone();
        let counter = if own { variable.clone() } else { self.names.fresh(&format!("{variable}_turn")) };
        let name = || Expr::atom(&counter);
        let declared =
            Out::Declare { ty: ty.clone(), name: counter.clone(), suffix: String::new(), value: Some(first.clone()) };
        // The step of a loop that is known to count up or down is not zero.
        if !self.ranges.roomy_loops.contains_key(label) {
            self.guard_step(*step, span);
        }
        let (test, advance) = match self.ranges.roomy_loops.get(label) {
            Some(&up) => {
                let op = match (up, *inclusive) {
                    (true, false) => "<",
                    (true, true) => "<=",
                    (false, false) => ">",
                    (false, true) => ">=",
                };
                (Expr::binary(op, name(), last), advance(name(), by))
            }
            None => {
                self.helpers.need("turns");
                let left = self.names.fresh(&format!("{variable}_left"));
                let inclusive = Expr::atom(inclusive.to_string());
                let iterations = Expr::call(format!("turns<{ty}>"), [first, last, by.clone(), inclusive]);
                let value = Some(iterations);
                self.push(Out::Declare { ty: "u64".into(), name: left.clone(), suffix: String::new(), value });
                let s = self.function.locals[*local].ty.scalar();
                let next = self.helpers.binary(BinOp::Add, s, name(), by, Known::default());
                let next = super::print::expr(&Expr::binary("=", name(), next));
                let test = Expr::binary("!=", Expr::atom(&left), Expr::int(0));
                (test, Expr::Atom(format!("--{left}, {next}")))
            }
        };
        let late = self.may_be_late(*label, *local, body);
        if late {
            self.begin_late();
        }
        let target = self.target(*label, true, true);
        let (mut stmts, target) = self.body(target, body);
        if !own {
            stmts.insert(0, Out::Assign(Expr::atom(&variable), name()));
        }
        let unroll = pragma(*unroll);
        let start = Box::new(declared);
        let emit = |g: &mut Self| {
            g.push(Out::For { unroll, start, test, step: advance, body: stmts });
            g.behind(target);
        };
        if late { self.end_late(emit) } else { emit(self) }
    }
}

fn advance(counter: Expr, by: Expr) -> Expr {
    match &by {
        Expr::Atom(text) if ["1", "1u", "1ll", "1ull"].contains(&text.as_str()) => Expr::unary("++", counter),
        Expr::Atom(text) if text == "-1" || text == "-1ll" => Expr::unary("--", counter),
        _ => Expr::binary("+=", counter, by),
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
