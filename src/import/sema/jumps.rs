//! `goto` to a label after it, in the same block or in a block around it. The statements up to the label become the
//! other branch of an `if`; a variable tells whether code in nested blocks and loops has jumped.
//!
//! `if (c) goto end; f(); end: g();` becomes `if !c { f() }; g()`, and in a loop, `goto end` becomes
//! `to_end = true; break`.

use super::lower::{LabelAhead, Lower};
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use super::value::{Res, refuse};
use crate::ast::{
    CppCondition, CppDecl, CppDeclKind, CppIf, CppInit, CppName, CppStmt, CppStmtKind, VariableDecl, VariableName,
};
use crate::source::SourceSpan;
use smol_str::SmolStr;

impl<'a> Lower<'_, 'a> {
    /// Translates the statements of a block.
    pub(crate) fn statements(&mut self, stmts: &'a [CppStmt]) -> Res<()> {
        let outer = self.jumps.targets.len();
        for (at, stmt) in stmts.iter().enumerate() {
            let CppStmtKind::Label(label) = &stmt.kind else { continue };
            if !stmts[..at].iter().any(|stmt| jumps_to(stmt, &label.text)) {
                continue;
            }
            let mut flag = None;
            if self.facts.jump_flags.contains(&label.text) {
                let name = self.fresh(&format!("to_{}", label.text));
                let no = Expr::new(ExprKind::Bool(false), stmt.span);
                let declare =
                    StmtKind::Declare { name: name.clone(), mutable: true, ty: "bool".into(), value: Some(no) };
                self.push(declare, stmt.span);
                flag = Some(name);
            }
            let loops = self.loops.len();
            self.jumps.targets.push(LabelAhead { label: label.text.clone(), flag, loops, is_passed: false });
        }
        let early = self.jumps.declared_early.len();
        let result = self.sequence(stmts, None);
        self.jumps.declared_early.truncate(early);
        self.jumps.targets.truncate(outer);
        result
    }

    /// Translates statements of one block, whose end is followed by the label `next`.
    fn sequence(&mut self, stmts: &'a [CppStmt], next: Option<&'a SmolStr>) -> Res<()> {
        for (at, stmt) in stmts.iter().enumerate() {
            let rest = &stmts[at + 1..];
            match &stmt.kind {
                CppStmtKind::Label(label) => {
                    self.pass_label(label);
                    continue;
                }
                CppStmtKind::Goto(label) => {
                    // Only this jump reaches code after it: other jumps have made it a branch of their own.
                    let Some(skipped) = rest.iter().position(|stmt| is_label(stmt, &label.text)) else {
                        return if next == Some(&label.text) { Ok(()) } else { self.stmt(stmt) };
                    };
                    self.declare_before_label(&rest[..skipped])?;
                    for stmt in &rest[..skipped] {
                        if let CppStmtKind::Label(label) = &stmt.kind {
                            self.pass_label(label);
                        }
                    }
                    return self.sequence(&rest[skipped..], next);
                }
                CppStmtKind::If(statement) => {
                    if let Some((before, label)) = direct_jump(statement)
                        && (next == Some(label) || rest.iter().any(|stmt| is_label(stmt, label)))
                    {
                        return self.direct_jump(statement, before, label, rest, next, stmt.span);
                    }
                }
                CppStmtKind::Decl(_) if self.is_declared_early(stmt) => continue,
                _ => {}
            }
            self.stmt(stmt)?;
            let taken = self.taken_jumps(stmt);
            if !taken.is_empty() {
                return self.unless_jumped(rest, taken, next, stmt.span);
            }
        }
        Ok(())
    }

    fn pass_label(&mut self, label: &CppName) {
        for target in self.jumps.targets.iter_mut().filter(|target| target.label == label.text) {
            target.is_passed = true;
        }
    }

    /// Translates `if (c) { before; goto label; } rest`.
    fn direct_jump(
        &mut self,
        statement: &'a CppIf,
        before: &'a [CppStmt],
        label: &'a SmolStr,
        rest: &'a [CppStmt],
        next: Option<&'a SmolStr>,
        span: SourceSpan,
    ) -> Res<()> {
        let condition = self.condition_value(&statement.condition)?;
        let at = rest.iter().position(|stmt| is_label(stmt, label)).unwrap_or(rest.len());
        let (skipped, after) = rest.split_at(at);
        match condition.constant_bool() {
            Some(false) => return self.sequence(rest, next),
            Some(true) => {
                self.scoped(|lower| lower.statements(before))?;
                self.declare_before_label(if after.is_empty() { &[] } else { skipped })?;
                return self.sequence(after, next);
            }
            None => {}
        }
        let ((), then) = self.nested(|lower| lower.statements(before))?;
        if !after.is_empty() {
            self.declare_before_label(skipped)?;
        }
        let ((), otherwise) = self.nested(|lower| lower.sequence(skipped, Some(label)))?;
        if then.is_empty() && !otherwise.is_empty() {
            let condition = self.negated(condition).expr;
            self.push(StmtKind::If { condition, then: otherwise, otherwise: vec![] }, span);
        } else if !then.is_empty() {
            self.push(StmtKind::If { condition: condition.expr, then, otherwise }, span);
        }
        let mut taken: Vec<&'a SmolStr> = vec![];
        for stmt in skipped {
            taken.extend(self.taken_jumps(stmt));
        }
        taken.retain(|own| *own != label);
        self.after_label(after, taken, next, span)
    }

    /// Translates statements that run only if no statement before them has jumped to one of the labels `taken`.
    fn unless_jumped(
        &mut self,
        stmts: &'a [CppStmt],
        mut taken: Vec<&'a SmolStr>,
        next: Option<&'a SmolStr>,
        span: SourceSpan,
    ) -> Res<()> {
        let is_reached = |stmt: &CppStmt| taken.iter().any(|label| is_label(stmt, label));
        let at = stmts.iter().position(is_reached).unwrap_or(stmts.len());
        let (skipped, after) = stmts.split_at(at);
        let reached = after.first().and_then(|stmt| match &stmt.kind {
            CppStmtKind::Label(label) => Some(&label.text),
            _ => None,
        });
        if reached.is_some() {
            self.declare_before_label(skipped)?;
        }
        let ((), then) = self.nested(|lower| lower.sequence(skipped, reached.or(next)))?;
        if !then.is_empty()
            && let Some(condition) = self.has_not_jumped(&taken, span)
        {
            self.push(StmtKind::If { condition, then, otherwise: vec![] }, span);
        }
        for stmt in skipped {
            taken.extend(self.taken_jumps(stmt));
        }
        taken.retain(|label| Some(*label) != reached);
        self.after_label(after, taken, next, span)
    }

    /// Translates the statements from a label on. Jumps to the labels `taken` skip them.
    fn after_label(
        &mut self,
        stmts: &'a [CppStmt],
        mut taken: Vec<&'a SmolStr>,
        next: Option<&'a SmolStr>,
        span: SourceSpan,
    ) -> Res<()> {
        taken.sort();
        taken.dedup();
        match taken.is_empty() {
            true => self.sequence(stmts, next),
            false if stmts.is_empty() => Ok(()),
            false => self.unless_jumped(stmts, taken, next, span),
        }
    }

    /// Returns the labels to which a statement has jumped when control reaches its end, except those outside of the
    /// innermost loop.
    fn taken_jumps(&self, stmt: &'a CppStmt) -> Vec<&'a SmolStr> {
        let is_here = |target: &&LabelAhead| target.flag.is_some() && target.loops == self.loops.len();
        let targets: Vec<&SmolStr> = self.jumps.targets.iter().filter(is_here).map(|target| &target.label).collect();
        let mut labels = vec![];
        if !targets.is_empty() {
            visit_jumps(stmt, &mut |label| {
                if targets.contains(&&label.text) && !labels.contains(&&label.text) {
                    labels.push(&label.text);
                }
            });
        }
        labels
    }

    /// Returns the condition that no statement has jumped to one of these labels.
    fn has_not_jumped(&self, labels: &[&SmolStr], span: SourceSpan) -> Option<Expr> {
        let flags = self.jumps.targets.iter().filter(|target| labels.contains(&&target.label));
        let conditions = flags.filter_map(|target| Some(Expr::name(target.flag.clone()?, span).not()));
        conditions.reduce(|all, one| Expr::binary("&&", all, one, span))
    }

    /// Translates a `goto` that is not a branch of its own.
    pub(crate) fn jump(&mut self, label: &CppName, span: SourceSpan) -> Res<()> {
        let is_ahead = |target: &&LabelAhead| target.label == label.text && !target.is_passed;
        let Some(target) = self.jumps.targets.iter().find(is_ahead).cloned() else {
            let construct = "a `goto` to a label before it or in another block";
            return refuse(construct, span, "use a loop, or a flag");
        };
        if self.facts.jump_flags.insert(label.text.clone()) {
            self.facts.changed = true;
            self.facts.has_new_jump_flags = true;
        }
        // The next pass has the variable.
        let Some(flag) = target.flag else { return Ok(()) };
        let yes = Expr::new(ExprKind::Bool(true), span);
        self.push(StmtKind::Assign { place: Expr::name(flag, span), op: "", value: yes }, span);
        if target.loops < self.loops.len() {
            self.push(StmtKind::Break, span);
        }
        Ok(())
    }

    /// Translates the end of a loop or a `switch`: if a jump in it leads out of the enclosing loop, leaves that loop.
    pub(crate) fn leave_loops(&mut self, stmt: &'a CppStmt) -> Res<()> {
        let is_loop = matches!(
            stmt.kind,
            CppStmtKind::While { .. } | CppStmtKind::DoWhile { .. } | CppStmtKind::For(_) | CppStmtKind::Switch(_)
        );
        if !is_loop {
            return Ok(());
        }
        let outside = |target: &&LabelAhead| target.loops < self.loops.len() && jumps_to(stmt, &target.label);
        let flags = self.jumps.targets.iter().filter(outside).filter_map(|target| target.flag.clone());
        let condition =
            flags.map(|flag| Expr::name(flag, stmt.span)).reduce(|a, b| Expr::binary("||", a, b, stmt.span));
        if let Some(condition) = condition {
            let then = vec![Stmt { kind: StmtKind::Break, span: stmt.span }];
            self.push(StmtKind::If { condition, then, otherwise: vec![] }, stmt.span);
        }
        Ok(())
    }

    /// Declares the variables of skipped statements, which code after the label may use. In C++, none of them has an
    /// initializer.
    fn declare_before_label(&mut self, skipped: &'a [CppStmt]) -> Res<()> {
        for stmt in skipped {
            let CppStmtKind::Decl(CppDecl { kind, .. }) = &stmt.kind else { continue };
            if self.is_declared_early(stmt) {
                continue;
            }
            if let CppDeclKind::Variables(decl) = kind {
                self.check_early_declaration(decl)?;
            }
            self.stmt(stmt)?;
            self.jumps.declared_early.push(std::ptr::from_ref(stmt));
        }
        Ok(())
    }

    fn is_declared_early(&self, stmt: &CppStmt) -> bool {
        self.jumps.declared_early.contains(&std::ptr::from_ref(stmt))
    }

    /// Returns whether a name may mean something else outside of the scope of a variable with this name.
    pub(super) fn may_hide(&self, name: &str) -> bool {
        self.find_local(name).is_some()
            || self.this.is_some()
            || self.template_value(name).is_some()
            || self.t.program.declares(name)
    }

    fn check_early_declaration(&self, decl: &VariableDecl) -> Res<()> {
        for variable in &decl.variables {
            if !matches!(variable.init, CppInit::None) {
                let construct = "a `goto` past the initialization of a variable";
                return refuse(construct, variable.span, "declare the variable before the `goto`");
            }
            let VariableName::Plain(name) = &variable.name else { continue };
            // Statements before the declaration may mean the outer variable.
            let hides = self.may_hide(&name.text);
            if hides {
                let construct = format!("a `goto` past the declaration of `{}`, which hides another name", name.text);
                return refuse(construct, variable.span, "declare the variable before the `goto`");
            }
        }
        Ok(())
    }
}

fn is_label(stmt: &CppStmt, label: &str) -> bool {
    matches!(&stmt.kind, CppStmtKind::Label(own) if own.text == label)
}

/// Returns the statements and the label of `if (c) { …; goto label; }`.
fn direct_jump(statement: &CppIf) -> Option<(&[CppStmt], &SmolStr)> {
    if statement.init.is_some() || statement.otherwise.is_some() || statement.constexpr {
        return None;
    }
    let CppCondition::Expr(_) = statement.condition else { return None };
    let stmts = match &statement.then.kind {
        CppStmtKind::Block(block) => block.stmts.as_slice(),
        _ => std::slice::from_ref(&statement.then),
    };
    let (CppStmt { kind: CppStmtKind::Goto(label), .. }, before) = stmts.split_last()? else { return None };
    let is_plain = |stmt: &CppStmt| !has_goto(stmt) && !matches!(stmt.kind, CppStmtKind::Label(_));
    before.iter().all(is_plain).then_some((before, &label.text))
}

pub(crate) fn has_goto(stmt: &CppStmt) -> bool {
    let mut found = false;
    visit_jumps(stmt, &mut |_| found = true);
    found
}

fn jumps_to(stmt: &CppStmt, label: &str) -> bool {
    let mut found = false;
    visit_jumps(stmt, &mut |own| found |= own.text == label);
    found
}

/// Visits the `goto` statements in a statement.
fn visit_jumps<'a>(stmt: &'a CppStmt, visit: &mut dyn FnMut(&'a CppName)) {
    match &stmt.kind {
        CppStmtKind::Goto(label) => visit(label),
        CppStmtKind::Block(block) => block.stmts.iter().for_each(|stmt| visit_jumps(stmt, visit)),
        CppStmtKind::If(inner) => {
            visit_jumps(&inner.then, visit);
            inner.otherwise.iter().for_each(|otherwise| visit_jumps(otherwise, visit));
        }
        CppStmtKind::While { body, .. } | CppStmtKind::DoWhile { body, .. } | CppStmtKind::RangeFor { body, .. } => {
            visit_jumps(body, visit);
        }
        CppStmtKind::For(inner) => visit_jumps(&inner.body, visit),
        CppStmtKind::Switch(inner) => {
            let sections = inner.sections.iter().flat_map(|section| &section.stmts);
            sections.for_each(|stmt| visit_jumps(stmt, visit));
        }
        CppStmtKind::Empty
        | CppStmtKind::Expr(_)
        | CppStmtKind::Decl(_)
        | CppStmtKind::Return(_)
        | CppStmtKind::Break
        | CppStmtKind::Continue
        | CppStmtKind::Label(_)
        | CppStmtKind::Refused(_) => {}
    }
}
