//! Replaces jumps by flags, so that execution always reaches the end of every block that it enters.
//!
//! Input: a kernel's body. Output: a body without `Break`, `Continue`, `Return` and `Block`, and an exit flag (a local)
//! for each loop with an early exit. The generated code must test the exit flag at the end of each iteration of a
//! `Loop`, and at the start of each iteration of a `For`. Statements after a possible jump are guarded by the flag of
//! the jump's target.

use rustc_hash::{FxHashMap, FxHashSet};

use clk_base::source::Span;
use clk_ir::def::*;
use clk_ir::typing::BOOL;
use clk_pass::edit;
use clk_scalar::ScalarValue;
use clk_scalar::ops::UnaryOp;

/// The exit flag of each loop with an early exit: a local that is true once the loop has exited early.
pub(super) type LoopExitFlags = FxHashMap<Label, LocalId>;

/// The target of a jump.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum JumpTarget {
    /// The end of this block, or of the current iteration of this loop.
    Label(Label),
    Kernel,
}

struct JumpRemover<'a> {
    f: &'a mut Function,
    exit_flags: LoopExitFlags,
    target_flags: FxHashMap<JumpTarget, LocalId>,
    /// The enclosing loops (flag set) and blocks, outermost first.
    open: Vec<(Label, bool)>,
}

pub(super) fn remove_jumps(f: &mut Function) -> LoopExitFlags {
    let body = std::mem::take(&mut f.body);
    let mut jumps =
        JumpRemover { f, exit_flags: LoopExitFlags::default(), target_flags: FxHashMap::default(), open: vec![] };
    let mut body = jumps.block(body);
    if let Some(&flag) = jumps.target_flags.get(&JumpTarget::Kernel) {
        let start = jumps.set_flag(flag, false, Span::default());
        body.insert(0, start);
    }
    let exit_flags = jumps.exit_flags;
    f.body = body;
    exit_flags
}

impl JumpRemover<'_> {
    fn target_flag(&mut self, target: JumpTarget) -> LocalId {
        if let Some(&flag) = self.target_flags.get(&target) {
            return flag;
        }
        let flag = self.local("gone");
        self.target_flags.insert(target, flag);
        flag
    }

    fn local(&mut self, name: &str) -> LocalId {
        self.f.locals.push(Local { name: name.into(), ty: BOOL, span: Span::default() })
    }

    fn set_flag(&mut self, local: LocalId, to: bool, span: Span) -> Stmt {
        let value = edit::constant(self.f, ScalarValue::of(to));
        Stmt { kind: StmtKind::Write { local, value }, span }
    }

    fn block(&mut self, stmts: Block) -> Block {
        let mut out = vec![];
        let mut rest = stmts.into_iter();
        while let Some(stmt) = rest.next() {
            let span = stmt.span;
            match &stmt.kind {
                StmtKind::Break(label) => {
                    self.set_jump_flags(JumpTarget::Label(*label), true, span, &mut out);
                    return out;
                }
                StmtKind::Continue(label) => {
                    self.set_jump_flags(JumpTarget::Label(*label), false, span, &mut out);
                    return out;
                }
                StmtKind::Return(_) => {
                    self.set_jump_flags(JumpTarget::Kernel, true, span, &mut out);
                    return out;
                }
                _ => {}
            }
            let targets = outer_targets(&stmt);
            if targets.is_empty() {
                self.stmt(stmt, &mut out);
                continue;
            }
            let remaining: Block = rest.collect();
            self.guard_rest(stmt, targets, remaining, &mut out);
            return out;
        }
        out
    }

    /// Emits a statement that may jump, and guards the remaining statements of its block by flags.
    fn guard_rest(&mut self, mut stmt: Stmt, targets: Vec<JumpTarget>, remaining: Block, out: &mut Block) {
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
        let mut has_jumped: Option<ExprId> = None;
        for target in targets {
            let flag = self.target_flag(target);
            let read = self.define(ExprKind::Read(flag), span, out);
            has_jumped = Some(match has_jumped {
                None => read,
                Some(left) => self.define(ExprKind::Binary { op: BinOp::Or, left, right: read }, span, out),
            });
        }
        let then = self.block(remaining);
        if let Some(value) = has_jumped {
            let cond = self.define(ExprKind::Unary { op: UnaryOp::Not, value }, span, out);
            out.push(Stmt { kind: StmtKind::If { cond, then, other: vec![] }, span });
        }
    }

    fn define(&mut self, kind: ExprKind, span: Span, out: &mut Block) -> ExprId {
        let id = edit::push(self.f, kind, BOOL, span);
        out.push(edit::let_stmt(self.f, id));
        id
    }

    /// Emits code that sets the flags for a jump: the flag of its target, and the exit flags of the loops that it
    /// exits.
    fn set_jump_flags(&mut self, target: JumpTarget, leaves: bool, span: Span, out: &mut Block) {
        let flag = self.target_flag(target);
        let set = self.set_flag(flag, true, span);
        out.push(set);
        for (label, is_loop) in self.open.clone().into_iter().rev() {
            let is_target = target == JumpTarget::Label(label);
            if is_loop && (!is_target || leaves) {
                let exit_flag = self.loop_exit_flag(label);
                let set = self.set_flag(exit_flag, true, span);
                out.push(set);
            }
            if is_target {
                break;
            }
        }
    }

    fn loop_exit_flag(&mut self, label: Label) -> LocalId {
        if let Some(&flag) = self.exit_flags.get(&label) {
            return flag;
        }
        let flag = self.local("ended");
        self.exit_flags.insert(label, flag);
        flag
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
                if let Some(&exit_flag) = self.exit_flags.get(&label) {
                    let start = self.set_flag(exit_flag, false, span);
                    out.push(start);
                }
                out.push(stmt);
            }
            _ => out.push(stmt),
        }
    }

    fn body(&mut self, label: Label, is_loop: bool, body: Block, span: Span) -> Block {
        self.open.push((label, is_loop));
        let mut block = self.block(body);
        self.open.pop();
        if let Some(&flag) = self.target_flags.get(&JumpTarget::Label(label)) {
            let start = self.set_flag(flag, false, span);
            block.insert(0, start);
        }
        block
    }
}

/// Returns the jump targets that are outside the statement that contains the jumps.
fn outer_targets(stmt: &Stmt) -> Vec<JumpTarget> {
    let (mut targets, mut inner_labels) = (FxHashSet::default(), FxHashSet::default());
    clk_ir::visit::each_stmt(std::slice::from_ref(stmt), &mut |stmt| {
        if let Some(label) = stmt.kind.label() {
            inner_labels.insert(JumpTarget::Label(label));
        }
        match stmt.kind {
            StmtKind::Break(label) | StmtKind::Continue(label) => drop(targets.insert(JumpTarget::Label(label))),
            StmtKind::Return(_) => drop(targets.insert(JumpTarget::Kernel)),
            _ => {}
        }
    });
    let mut targets: Vec<JumpTarget> = targets.difference(&inner_labels).copied().collect();
    targets.sort_unstable();
    targets
}
