//! Replaces jumps by flags, so that every block that is entered reaches its end.
//!
//! Input: a kernel's body. Output: a body without `Break`, `Continue`, `Return` and `Block`, and for each loop that can be left the
//! local that says so: whoever makes code of it tests that local, at the end of a turn of a `Loop` and at the start of one of a
//! `For`. What follows a statement that may jump is guarded by the flag of the jump's target.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::typing::BOOL;
use crate::lang::ops::UnaryOp;
use crate::lang::scalar::Value;
use crate::pass::edit;

/// The local of each loop that says that it is left.
pub(super) type Ends = FxHashMap<Label, LocalId>;

/// Where a jump goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Target {
    /// The end of this block, or of this turn of this loop.
    Label(Label),
    Kernel,
}

struct Jumps<'a> {
    f: &'a mut Function,
    ends: Ends,
    gone: FxHashMap<Target, LocalId>,
    /// The enclosing loops and blocks, outermost first.
    open: Vec<(Label, bool)>,
}

pub(super) fn remove(f: &mut Function) -> Ends {
    let body = std::mem::take(&mut f.body);
    let mut jumps = Jumps { f, ends: Ends::default(), gone: FxHashMap::default(), open: vec![] };
    let mut made = jumps.block(body);
    if let Some(&flag) = jumps.gone.get(&Target::Kernel) {
        let start = jumps.set(flag, false, Span::default());
        made.insert(0, start);
    }
    let ends = jumps.ends;
    f.body = made;
    ends
}

impl Jumps<'_> {
    fn flag(&mut self, target: Target) -> LocalId {
        if let Some(&flag) = self.gone.get(&target) {
            return flag;
        }
        let flag = self.local("gone");
        self.gone.insert(target, flag);
        flag
    }

    fn local(&mut self, name: &str) -> LocalId {
        self.f.locals.push(Local { name: name.into(), ty: BOOL, span: Span::default() })
    }

    fn set(&mut self, local: LocalId, to: bool, span: Span) -> Stmt {
        let value = edit::constant(self.f, Value::of(to));
        Stmt { kind: StmtKind::Write { local, value }, span }
    }

    fn block(&mut self, stmts: Block) -> Block {
        let mut out = vec![];
        let mut rest = stmts.into_iter();
        while let Some(stmt) = rest.next() {
            let span = stmt.span;
            match &stmt.kind {
                StmtKind::Break(label) => {
                    self.jump(Target::Label(*label), true, span, &mut out);
                    return out;
                }
                StmtKind::Continue(label) => {
                    self.jump(Target::Label(*label), false, span, &mut out);
                    return out;
                }
                StmtKind::Return(_) => {
                    self.jump(Target::Kernel, true, span, &mut out);
                    return out;
                }
                _ => {}
            }
            let targets = targets(&stmt);
            if targets.is_empty() {
                self.stmt(stmt, &mut out);
                continue;
            }
            let remaining: Block = rest.collect();
            self.guarded(stmt, targets, remaining, &mut out);
            return out;
        }
        out
    }

    /// A statement that may jump, and those behind it.
    fn guarded(&mut self, mut stmt: Stmt, targets: Vec<Target>, remaining: Block, out: &mut Block) {
        if remaining.is_empty() {
            return self.stmt(stmt, out);
        }
        let span = stmt.span;
        if let StmtKind::If { then, other, .. } = &mut stmt.kind {
            let (leaves, others) = (edit::never_completes(then), edit::never_completes(other));
            match (leaves, others) {
                (true, true) => return self.stmt(stmt, out),
                (true, false) => {
                    other.extend(remaining);
                    return self.stmt(stmt, out);
                }
                (false, true) => {
                    then.extend(remaining);
                    return self.stmt(stmt, out);
                }
                (false, false) => {}
            }
        }
        self.stmt(stmt, out);
        let mut gone: Option<ExprId> = None;
        for target in targets {
            let flag = self.flag(target);
            let read = self.define(ExprKind::Read(flag), span, out);
            gone = Some(match gone {
                None => read,
                Some(left) => self.define(ExprKind::Binary { op: BinOp::Or, left, right: read }, span, out),
            });
        }
        let then = self.block(remaining);
        if let Some(value) = gone {
            let cond = self.define(ExprKind::Unary { op: UnaryOp::Not, value }, span, out);
            out.push(Stmt { kind: StmtKind::If { cond, then, other: vec![] }, span });
        }
    }

    fn define(&mut self, kind: ExprKind, span: Span, out: &mut Block) -> ExprId {
        let id = edit::push(self.f, kind, BOOL, span);
        out.push(edit::let_stmt(self.f, id));
        id
    }

    /// Sets the flags of a jump: of its target, and of the loops that it leaves.
    fn jump(&mut self, target: Target, leaves: bool, span: Span, out: &mut Block) {
        let flag = self.flag(target);
        let set = self.set(flag, true, span);
        out.push(set);
        for (label, is_loop) in self.open.clone().into_iter().rev() {
            let is_target = target == Target::Label(label);
            if is_loop && (!is_target || leaves) {
                let end = self.end(label);
                let set = self.set(end, true, span);
                out.push(set);
            }
            if is_target {
                break;
            }
        }
    }

    fn end(&mut self, label: Label) -> LocalId {
        if let Some(&end) = self.ends.get(&label) {
            return end;
        }
        let end = self.local("ended");
        self.ends.insert(label, end);
        end
    }

    fn stmt(&mut self, mut stmt: Stmt, out: &mut Block) {
        let span = stmt.span;
        match &mut stmt.kind {
            StmtKind::If { then, other, .. } => {
                *then = self.block(std::mem::take(then));
                *other = self.block(std::mem::take(other));
                out.push(stmt);
            }
            StmtKind::Block { label, body } => {
                let body = self.body(*label, false, std::mem::take(body), span);
                out.extend(body);
            }
            StmtKind::For { label, body, .. } | StmtKind::Loop { label, body, .. } => {
                let label = *label;
                *body = self.body(label, true, std::mem::take(body), span);
                if let Some(&end) = self.ends.get(&label) {
                    let start = self.set(end, false, span);
                    out.push(start);
                }
                out.push(stmt);
            }
            _ => out.push(stmt),
        }
    }

    fn body(&mut self, label: Label, is_loop: bool, body: Block, span: Span) -> Block {
        self.open.push((label, is_loop));
        let mut made = self.block(body);
        self.open.pop();
        if let Some(&flag) = self.gone.get(&Target::Label(label)) {
            let start = self.set(flag, false, span);
            made.insert(0, start);
        }
        made
    }
}

/// Returns where the jumps inside of a statement go, as far as it is outside.
fn targets(stmt: &Stmt) -> Vec<Target> {
    let (mut found, mut inside) = (FxHashSet::default(), FxHashSet::default());
    crate::ir::visit::each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
        if let Some(label) = stmt.kind.label() {
            inside.insert(Target::Label(label));
        }
        match stmt.kind {
            StmtKind::Break(label) | StmtKind::Continue(label) => drop(found.insert(Target::Label(label))),
            StmtKind::Return(_) => drop(found.insert(Target::Kernel)),
            _ => {}
        }
    });
    let mut found: Vec<Target> = found.difference(&inside).copied().collect();
    found.sort_unstable();
    found
}
