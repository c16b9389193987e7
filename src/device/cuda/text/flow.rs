//! Branches and loops. DeviceIR's labels become C's `break` and `continue` where those mean the same, and `goto` elsewhere.

use super::Gen;
use super::abi::PlaceKind;
use super::scalar::not;
use super::tree::{Expr, Stmt as Out};
use crate::base::source::Span;
use crate::ir::def::*;

/// How many turns a loop takes between two looks at the stop word.
const POLL: i128 = 256;

/// What a `Break` or `Continue` may name.
pub struct Target {
    label: Label,
    /// It is the innermost loop of C for what stands directly in it.
    breaks: bool,
    continues: bool,
    /// Names of labels behind it and at its end, once something jumps there.
    done: Option<String>,
    next: Option<String>,
}

impl Gen<'_> {
    pub fn if_(&mut self, cond: ExprId, then: &Block, other: &Block) {
        let cond = self.value(cond);
        let then = self.within(|g| g.block(then));
        let other = self.within(|g| g.block(other));
        match (then.is_empty(), other.is_empty()) {
            (true, true) => {}
            (true, false) => self.push(Out::If(not(cond), other, vec![])),
            _ => self.push(Out::If(cond, then, other)),
        }
    }

    /// The body of a construct that can be left; statements that end each turn stand in `tail`.
    fn body(&mut self, target: Target, body: &[Stmt]) -> (Vec<Out>, Target) {
        self.targets.push(target);
        let mut stmts = self.within(|g| body.iter().for_each(|stmt| g.stmt(stmt)));
        let target = self.targets.pop().unwrap_or(Target {
            label: Label(0),
            breaks: false,
            continues: false,
            done: None,
            next: None,
        });
        if let Some(next) = &target.next {
            stmts = vec![Out::Scope(stmts), Out::Label(next.clone())];
        }
        (stmts, target)
    }

    fn target(&self, label: Label, breaks: bool, continues: bool) -> Target {
        Target { label, breaks, continues, done: None, next: None }
    }

    fn behind(&mut self, target: Target) {
        if let Some(done) = target.done {
            self.push(Out::Label(done));
        }
    }

    pub fn labelled_block(&mut self, label: Label, body: &Block) {
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
        // A loop in between would take `break` and `continue` for itself.
        let innermost = self.targets[at + 1..].iter().all(|target| !target.breaks && !target.continues);
        let target = &self.targets[at];
        if innermost && (if breaks { target.breaks } else { target.continues }) {
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

    /// `if c { } else { break }` at the beginning, before it only what is written out in `c`: the loop's condition and how many
    /// statements it takes.
    fn loop_test(&mut self, label: Label, body: &Block) -> (Option<Expr>, usize) {
        let silent = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                let guarded = self.options.checked
                    && (self.ranges.guards.contains_key(&super::Site::Load(*id))
                        || self.ranges.zero_divisors.contains(id));
                !guarded && (self.plan.is_inline(*id) || !self.plan.is_used(*id))
            }
            _ => false,
        };
        let at = body.iter().take_while(|stmt| silent(stmt)).count();
        let Some(Stmt { kind: StmtKind::If { cond, then, other }, .. }) = body.get(at) else { return (None, 0) };
        let breaks = |block: &Block| matches!(block.as_slice(), [Stmt { kind: StmtKind::Break(l), .. }] if *l == label);
        let negate = match (then.is_empty() && breaks(other), other.is_empty() && breaks(then)) {
            (true, _) => false,
            (_, true) => true,
            _ => return (None, 0),
        };
        let cond = self.value(*cond);
        // The lets, the branch and the break inside.
        self.stmt += at as u32 + 2;
        (Some(if negate { not(cond) } else { cond }), at + 1)
    }

    /// A look at the stop word in each turn would cost more than most loops do: so turns come in chunks.
    fn polled_loop(&mut self, label: Label, body: &Block, span: Span) {
        let target = self.target(label, false, true);
        let (stmts, mut target) = self.body(target, body);
        let turn = self.names.fresh("poll");
        let chunk = Out::For {
            unroll: Some("#pragma unroll 1".into()),
            start: Box::new(Out::Declare {
                ty: "int".into(),
                name: turn.clone(),
                suffix: String::new(),
                value: Some(Expr::int(0)),
            }),
            test: Expr::binary("<", Expr::atom(&turn), Expr::int(POLL)),
            step: Expr::unary("++", Expr::atom(&turn)),
            body: stmts,
        };
        self.helpers.need("stopped");
        self.uses_faults = true;
        let poll = self.within(|g| {
            let test = Expr::call("stopped", [Expr::atom("faults")]);
            g.guard(test, PlaceKind::Stopped, span, vec![]);
        });
        let stmts = std::iter::once(chunk).chain(poll).collect();
        self.push(Out::While(None, Expr::atom("true"), stmts));
        let done = target.done.take();
        if let Some(done) = done {
            self.push(Out::Label(done));
        }
    }

    pub fn for_(&mut self, kind: &StmtKind, span: Span) {
        let StmtKind::For { label, local, start, end, step, inclusive, unroll, body } = kind else { return };
        let ty = self.helpers.ty(self.function.locals[*local].ty);
        let (first, last, by) = (self.value(*start), self.value(*end), self.value(*step));
        let own = self.counters.contains(local);
        let variable = self.locals[local.index()].clone();
        let counter = if own { variable.clone() } else { self.names.fresh(&format!("{variable}_turn")) };
        let name = || Expr::atom(&counter);
        let declared =
            Out::Declare { ty: ty.clone(), name: counter.clone(), suffix: String::new(), value: Some(first.clone()) };
        // Of a loop that is known to count up or down, the step is known not to be zero.
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
                let turns = Expr::call(format!("turns<{ty}>"), [first, last, by.clone(), inclusive]);
                let value = Some(turns);
                self.push(Out::Declare { ty: "u64".into(), name: left.clone(), suffix: String::new(), value });
                let s = self.function.locals[*local].ty.scalar();
                let next = self.helpers.binary(BinOp::Add, s, name(), by, super::Known::default());
                let next = super::print::expr(&Expr::binary("=", name(), next));
                let test = Expr::binary("!=", Expr::atom(&left), Expr::int(0));
                (test, Expr::Atom(format!("--{left}, {next}")))
            }
        };
        let target = self.target(*label, true, true);
        let (mut stmts, target) = self.body(target, body);
        if !own {
            stmts.insert(0, Out::Assign(Expr::atom(&variable), name()));
        }
        let unroll = pragma(*unroll);
        self.push(Out::For { unroll, start: Box::new(declared), test, step: advance, body: stmts });
        self.behind(target);
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
