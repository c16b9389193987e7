//! Translation of statements, except loops and declarations.

use super::jumps::has_goto;
use super::lower::{Local, LoopState, Lower};
use super::tree::{Expr, Stmt, StmtKind};
use super::types::CType;
use super::value::{Res, Value, refuse};
use crate::ast::{
    CppBlock, CppCondition, CppDecl, CppDeclKind, CppIf, CppStmt, CppStmtKind, CppSwitch, SwitchLabel, SwitchSection,
    VariableName,
};
use crate::source::SourceSpan;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn block(&mut self, block: &'a CppBlock) -> Res<()> {
        self.statements(&block.stmts)
    }

    pub(crate) fn stmt(&mut self, stmt: &'a CppStmt) -> Res<()> {
        self.enter(stmt.span)?;
        let result = self.stmt_kind(stmt).and_then(|()| self.leave_loops(stmt));
        self.leave();
        result
    }

    fn stmt_kind(&mut self, stmt: &'a CppStmt) -> Res<()> {
        let span = stmt.span;
        match &stmt.kind {
            CppStmtKind::Empty => Ok(()),
            CppStmtKind::Expr(expr) => self.discard(expr),
            CppStmtKind::Decl(decl) => self.local_declaration(decl),
            CppStmtKind::Block(block) => self.scoped(|lower| lower.block(block)),
            CppStmtKind::If(statement) => self.scoped(|lower| lower.if_statement(statement, span)),
            CppStmtKind::While { condition, body, .. } => self.scoped(|lower| lower.while_loop(condition, body, span)),
            CppStmtKind::DoWhile { body, condition, .. } => self.do_loop(body, condition, span),
            CppStmtKind::For(statement) => self.scoped(|lower| lower.for_loop(statement, span)),
            CppStmtKind::RangeFor { .. } => {
                refuse("a `for` over a range", span, "use a counter: `for (int i = 0; i < n; i++)`")
            }
            CppStmtKind::Switch(statement) => self.scoped(|lower| lower.switch(statement, span)),
            CppStmtKind::Return(value) => self.return_statement(value.as_ref(), span),
            CppStmtKind::Break => {
                self.push(StmtKind::Break, span);
                Ok(())
            }
            CppStmtKind::Continue => self.continue_statement(span),
            CppStmtKind::Label(_) => refuse("a label that is not directly in a block", span, "use braces"),
            CppStmtKind::Goto(label) => self.jump(label, span),
            CppStmtKind::Refused(refusal) => Err(Box::new(refusal.clone())),
        }
    }

    fn local_declaration(&mut self, decl: &'a CppDecl) -> Res<()> {
        let span = decl.span;
        match &decl.kind {
            CppDeclKind::Variables(decl) => {
                for variable in &decl.variables {
                    self.declare_variable(decl, variable)?;
                }
                Ok(())
            }
            CppDeclKind::Alias(alias) => {
                if alias.template.is_some() {
                    return refuse("an alias template in a function", span, "define it outside");
                }
                let ty = self.resolve_type(&alias.ty)?;
                self.declare(&alias.name.text, Local::Type(ty));
                Ok(())
            }
            CppDeclKind::Record(record) => {
                let Some(name) = &record.name else { return Ok(()) };
                if record.template.is_some() || record.members.is_none() {
                    return refuse("this declaration in a function", span, "define the class outside");
                }
                let id = match self.t.program.record_id(record) {
                    Some(id) => id,
                    None => {
                        let mut scope = self.scope.clone();
                        scope.push(format!("(local {})", span.span.start).into());
                        self.t.program.add_record(record, &scope);
                        match self.t.program.record_id(record) {
                            Some(id) => id,
                            None => return refuse("a record in a function", span, "define it outside"),
                        }
                    }
                };
                let id = self.instantiate_record(id, self.env.clone(), span)?;
                self.declare(&name.text, Local::Type(CType::Record(id)));
                Ok(())
            }
            CppDeclKind::Enum(decl) => {
                let id = match self.t.program.enum_id(decl) {
                    Some(id) => id,
                    None => {
                        let mut scope = self.scope.clone();
                        scope.push(format!("(local {})", span.span.start).into());
                        self.t.program.add_enum(decl, &scope);
                        match self.t.program.enum_id(decl) {
                            Some(id) => id,
                            None => return Ok(()),
                        }
                    }
                };
                let ty = self.enum_type(id)?;
                let values = self.enum_values(id)?;
                for (enumerator, value) in decl.enumerators.iter().flatten().zip(values) {
                    if !decl.scoped {
                        let constant = Value::int(value, ty.clone(), enumerator.name.span);
                        self.declare(&enumerator.name.text, Local::Constant(constant));
                    }
                }
                if let Some(name) = &decl.name {
                    self.declare(&name.text, Local::Type(ty));
                }
                Ok(())
            }
            CppDeclKind::StaticAssert { .. }
            | CppDeclKind::UsingNamespace(_)
            | CppDeclKind::UsingName(_)
            | CppDeclKind::NamespaceAlias { .. } => Ok(()),
            // `extern __shared__` and prototypes of functions.
            CppDeclKind::Function(_) => Ok(()),
            CppDeclKind::Refused { refusal, .. } => Err(Box::new(refusal.clone())),
            _ => refuse("this declaration in a function", span, "move it outside of the function"),
        }
    }

    /// Translates a condition, which may declare a variable in the current scope.
    pub(crate) fn condition_value(&mut self, condition: &'a CppCondition) -> Res<Value> {
        match condition {
            CppCondition::Expr(expr) => self.condition(expr),
            CppCondition::Decl(decl) => {
                let span = decl.variables.first().map(|variable| variable.span).unwrap_or_default();
                for variable in &decl.variables {
                    self.declare_variable(decl, variable)?;
                }
                let name = match decl.variables.first().map(|variable| &variable.name) {
                    Some(crate::ast::VariableName::Plain(name)) => name.text.clone(),
                    _ => return refuse("this condition", span, "declare the variable before"),
                };
                match self.find_local(&name).cloned() {
                    Some(Local::Variable { name, key, ty, known }) => {
                        let kind = super::value::PlaceKind::Variable { name, key, value: known };
                        let value = self.load(&super::value::CppPlace { kind, ty, span })?;
                        Ok(self.truth(value))
                    }
                    Some(Local::Constant(value)) => Ok(self.truth(value)),
                    _ => refuse("this condition", span, "declare the variable before"),
                }
            }
        }
    }

    fn if_statement(&mut self, statement: &'a CppIf, span: SourceSpan) -> Res<()> {
        if let Some(init) = &statement.init {
            self.stmt(init)?;
        }
        let condition = self.condition_value(&statement.condition)?;
        if let Some(known) = condition.constant_bool() {
            let chosen = if known { Some(&statement.then) } else { statement.otherwise.as_ref() };
            if let Some(chosen) = chosen {
                self.scoped(|lower| lower.stmt(chosen))?;
            }
            return Ok(());
        }
        if statement.constexpr {
            return refuse("`if constexpr` whose condition is not a constant", span, "use `if`");
        }
        let ((), then) = self.nested(|lower| lower.stmt(&statement.then))?;
        let otherwise = match &statement.otherwise {
            Some(otherwise) => self.nested(|lower| lower.stmt(otherwise))?.1,
            None => vec![],
        };
        if then.is_empty() && otherwise.is_empty() {
            return Ok(());
        }
        if then.is_empty() {
            let condition = self.negated(condition).expr;
            self.push(StmtKind::If { condition, then: otherwise, otherwise: vec![] }, span);
        } else {
            self.push(StmtKind::If { condition: condition.expr, then, otherwise }, span);
        }
        Ok(())
    }

    fn return_statement(&mut self, value: Option<&'a crate::ast::CppExpr>, span: SourceSpan) -> Res<()> {
        if self.result.is_deduced {
            self.deduce_result(value, span)?;
        }
        let value = match value {
            None => None,
            Some(value) if self.result.ty == CType::Void => {
                self.discard(value)?;
                None
            }
            Some(value) => {
                let to = self.result.ty.clone();
                if let CType::Pointer(_) = to {
                    return refuse("a function that returns a pointer", span, "return an index");
                }
                let value = match &value.kind {
                    crate::ast::CppExprKind::InitList(items) => {
                        let items: Vec<_> = items.iter().map(|item| &item.value).collect();
                        self.construct(&to, &items, true, span)?
                    }
                    _ => self.rvalue(value)?,
                };
                Some(self.converted(value, &to, span)?)
            }
        };
        self.push(StmtKind::Return(value), span);
        Ok(())
    }

    /// Takes the result type of a function with `auto` from a `return`.
    fn deduce_result(&mut self, value: Option<&'a crate::ast::CppExpr>, span: SourceSpan) -> Res<()> {
        let ty = match value {
            None => CType::Void,
            Some(value) => match self.type_of(value)?.referent() {
                CType::Array(element, _) => CType::Pointer(element.clone()),
                other => other.clone(),
            },
        };
        if !std::mem::replace(&mut self.result.has_deduced, true) {
            if let CType::Record(id) = ty {
                self.t.emit_record(id, span)?;
            }
            self.result.ty = ty;
        } else if self.result.ty != ty {
            return refuse("a function with the result type `auto`", span, "write the result type");
        }
        Ok(())
    }

    fn continue_statement(&mut self, span: SourceSpan) -> Res<()> {
        if self.loops.iter().rev().take_while(|state| state.is_switch).any(|state| state.traps_continue) {
            return refuse("`continue` in a `switch` with fallthrough or `break` in nested code", span, "use `if`");
        }
        let Some(state) = self.loops.iter().rev().find(|state| !state.is_switch).cloned() else {
            return refuse("`continue` outside of a loop", span, "");
        };
        // The step and the condition of the loop see only the variables outside of its body.
        let inner = self.locals.split_off(state.scopes.min(self.locals.len()));
        let result = self.before_continue(&state, span);
        self.locals.extend(inner);
        result?;
        self.push(StmtKind::Continue, span);
        Ok(())
    }

    fn before_continue(&mut self, state: &LoopState<'a>, span: SourceSpan) -> Res<()> {
        if let Some(step) = state.step {
            self.discard(step)?;
        }
        if let Some(tail) = state.tail {
            let condition = self.condition(tail)?;
            self.push_exit(condition, span);
        }
        Ok(())
    }

    /// Leaves the loop unless a condition holds.
    pub(crate) fn push_exit(&mut self, condition: Value, span: SourceSpan) {
        if condition.constant_bool() == Some(true) {
            return;
        }
        let stop = Stmt { kind: StmtKind::Break, span };
        let condition = self.negated(condition);
        if condition.constant_bool() == Some(true) {
            self.push(StmtKind::Break, span);
            return;
        }
        self.push(StmtKind::If { condition: condition.expr, then: vec![stop], otherwise: vec![] }, span);
    }

    // ---- switch ----

    fn switch(&mut self, statement: &'a CppSwitch, span: SourceSpan) -> Res<()> {
        if let Some(init) = &statement.init {
            self.stmt(init)?;
        }
        let CppCondition::Expr(selector) = &statement.condition else {
            return refuse("a `switch` that declares a variable", span, "declare the variable before");
        };
        for stmt in &statement.prologue {
            self.stmt(stmt)?;
        }
        let value = self.operand(selector)?;
        let Some(kind) = value.ty.promoted() else {
            return refuse(format!("`switch` on {}", self.t.describe(&value.ty)), span, "use `if`");
        };
        let value = self.convert(value, &CType::Int(kind), span)?;
        let sections = &statement.sections;
        self.check_section_variables(sections)?;
        let falls_through =
            sections.iter().take(sections.len().saturating_sub(1)).any(|section| !ends_with_jump(&section.stmts));
        let nested_break = sections.iter().any(breaks_inside);
        if let Some(known) = value.constant_int()
            && !falls_through
            && !nested_break
        {
            return self.constant_switch(known, sections, CType::Int(kind));
        }
        let value = self.spill(value);
        self.loops.push(LoopState {
            is_switch: true,
            step: None,
            tail: None,
            counter: None,
            traps_continue: falls_through || nested_break,
            scopes: self.locals.len(),
        });
        let result = if falls_through {
            self.switch_by_entry(&value, sections, CType::Int(kind), span)
        } else {
            self.switch_by_chain(&value, sections, CType::Int(kind))
        };
        self.loops.pop();
        let mut stmts = result?;
        if falls_through || nested_break {
            stmts.push(Stmt { kind: StmtKind::Break, span });
            self.push(StmtKind::Loop(stmts), span);
        } else if let Some(block) = self.blocks.last_mut() {
            block.extend(stmts);
        }
        Ok(())
    }

    /// Refuses variables that a section declares and that hide a name, because they are visible in the later sections.
    fn check_section_variables(&self, sections: &[SwitchSection]) -> Res<()> {
        let earlier = sections.iter().take(sections.len().saturating_sub(1));
        for stmt in earlier.flat_map(|section| &section.stmts) {
            let CppStmtKind::Decl(CppDecl { kind: CppDeclKind::Variables(decl), .. }) = &stmt.kind else { continue };
            for variable in &decl.variables {
                if let VariableName::Plain(name) = &variable.name
                    && self.may_hide(&name.text)
                {
                    let construct = "a section of a `switch` whose variable hides another";
                    return refuse(construct, variable.span, "enclose the section in braces");
                }
            }
        }
        Ok(())
    }

    fn label_condition(&mut self, value: &Value, label: &'a SwitchLabel, ty: &CType) -> Res<Option<Value>> {
        use crate::ast::CppBinaryOp as Op;
        Ok(match label {
            SwitchLabel::Default => None,
            SwitchLabel::Case(case) => {
                let case_value = self.operand(case)?;
                let case_value = self.convert(case_value, ty, case.span)?;
                Some(self.binary(Op::Eq, value.clone(), case_value, case.span)?)
            }
            SwitchLabel::Range(low, high) => {
                let (a, b) = (self.operand(low)?, self.operand(high)?);
                let (a, b) = (self.convert(a, ty, low.span)?, self.convert(b, ty, high.span)?);
                let above = self.binary(Op::Ge, value.clone(), a, low.span)?;
                let below = self.binary(Op::Le, value.clone(), b, high.span)?;
                Some(super::arith::logical(Op::And, above, below, low.span))
            }
        })
    }

    fn section_condition(&mut self, value: &Value, section: &'a SwitchSection, ty: &CType) -> Res<(Value, bool)> {
        let mut condition = Value::bool(false, section.span);
        let mut default = false;
        for label in &section.labels {
            match self.label_condition(value, label, ty)? {
                Some(case) => {
                    condition = super::arith::logical(crate::ast::CppBinaryOp::Or, condition, case, section.span);
                }
                None => default = true,
            }
        }
        Ok((condition, default))
    }

    fn constant_switch(&mut self, known: i128, sections: &'a [SwitchSection], ty: CType) -> Res<()> {
        let value = Value::int(known, ty.clone(), SourceSpan::default());
        let mut chosen = None;
        for section in sections {
            let (condition, default) = self.section_condition(&value, section, &ty)?;
            if condition.constant_bool() == Some(true) {
                chosen = Some(section);
                break;
            }
            if default {
                chosen = chosen.or(Some(section));
            }
        }
        // A `default` before the matching case must not win.
        if let Some(section) = chosen {
            self.scoped(|lower| lower.section(section))?;
        }
        Ok(())
    }

    fn section(&mut self, section: &'a SwitchSection) -> Res<()> {
        let stmts = without_final_break(&section.stmts);
        let last = section.stmts.len().saturating_sub(1);
        for (at, stmt) in stmts.iter().enumerate() {
            match &stmt.kind {
                // `case 1: { … break; }`
                CppStmtKind::Block(block) if at == last => {
                    let inner = without_final_break(&block.stmts);
                    self.scoped(|lower| inner.iter().try_for_each(|stmt| lower.stmt(stmt)))?;
                }
                _ => self.stmt(stmt)?,
            }
        }
        Ok(())
    }

    fn switch_by_chain(&mut self, value: &Value, sections: &'a [SwitchSection], ty: CType) -> Res<Vec<Stmt>> {
        let mut arms = vec![];
        let mut otherwise = vec![];
        for section in sections {
            let (condition, default) = self.section_condition(value, section, &ty)?;
            let ((), body) = self.nested(|lower| lower.section(section))?;
            if default {
                otherwise = body;
            } else {
                arms.push((condition.expr, body, section.span));
            }
        }
        let mut chain = otherwise;
        for (condition, then, span) in arms.into_iter().rev() {
            chain = vec![Stmt { kind: StmtKind::If { condition, then, otherwise: chain }, span }];
        }
        Ok(chain)
    }

    /// With fallthrough, a variable holds the number of the section to start with, and each section runs if the start
    /// is not after it.
    fn switch_by_entry(
        &mut self,
        value: &Value,
        sections: &'a [SwitchSection],
        ty: CType,
        span: SourceSpan,
    ) -> Res<Vec<Stmt>> {
        use super::types::ClkScalar;
        let name = self.fresh("section");
        let number = |n: usize| Expr::int(n as i128, ClkScalar::I32, span);
        let mut entry = number(sections.len());
        let mut conditions = vec![];
        for (at, section) in sections.iter().enumerate() {
            let (condition, default) = self.section_condition(value, section, &ty)?;
            if default {
                entry = number(at);
            }
            conditions.push(condition);
        }
        for (at, condition) in conditions.into_iter().enumerate().rev() {
            if condition.constant_bool() == Some(false) {
                continue;
            }
            let kind = super::tree::ExprKind::If(Box::new(condition.expr), Box::new(number(at)), Box::new(entry));
            entry = Expr::new(kind, span);
        }
        let variable = Expr::name(name.clone(), span);
        let declare = StmtKind::Declare { name, mutable: false, ty: "i32".into(), value: Some(entry) };
        let mut stmts = vec![Stmt { kind: declare, span }];
        for (at, section) in sections.iter().enumerate() {
            let ((), then) = self.nested(|lower| section.stmts.iter().try_for_each(|stmt| lower.stmt(stmt)))?;
            let condition = Expr::binary("<=", variable.clone(), number(at), section.span);
            stmts.push(Stmt { kind: StmtKind::If { condition, then, otherwise: vec![] }, span: section.span });
        }
        Ok(stmts)
    }
}

fn without_final_break(stmts: &[CppStmt]) -> &[CppStmt] {
    match stmts {
        [rest @ .., CppStmt { kind: CppStmtKind::Break, .. }] => rest,
        other => other,
    }
}

/// Returns whether control never passes the end of these statements.
fn ends_with_jump(stmts: &[CppStmt]) -> bool {
    match stmts.last().map(|stmt| &stmt.kind) {
        Some(CppStmtKind::Break | CppStmtKind::Continue | CppStmtKind::Return(_) | CppStmtKind::Goto(_)) => true,
        Some(CppStmtKind::Block(block)) => ends_with_jump(&block.stmts),
        Some(CppStmtKind::If(statement)) => match &statement.otherwise {
            Some(otherwise) => {
                ends_with_jump(std::slice::from_ref(&statement.then)) && ends_with_jump(std::slice::from_ref(otherwise))
            }
            None => false,
        },
        _ => false,
    }
}

/// Returns whether a section has a `break` of the `switch` other than at its end.
fn breaks_inside(section: &SwitchSection) -> bool {
    let mut stmts = without_final_break(&section.stmts);
    if let [rest @ .., CppStmt { kind: CppStmtKind::Block(block), .. }] = stmts {
        if without_final_break(&block.stmts).iter().any(has_break) {
            return true;
        }
        stmts = rest;
    }
    // A block that is not the last statement must not lose its `break`.
    stmts.iter().any(has_break)
}

fn has_break(stmt: &CppStmt) -> bool {
    match &stmt.kind {
        CppStmtKind::Break => true,
        // A `goto` leaves the loop that the `switch` becomes.
        _ if has_goto(stmt) => true,
        CppStmtKind::Block(block) => block.stmts.iter().any(has_break),
        CppStmtKind::If(statement) => has_break(&statement.then) || statement.otherwise.as_ref().is_some_and(has_break),
        _ => false,
    }
}
