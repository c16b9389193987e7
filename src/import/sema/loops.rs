//! CudaTranslation of loops. A `for` that counts becomes a Clk `for`, which proofs understand; other loops become
//! `while` or, if their condition needs statements, `loop` with `break`.

use super::arith::coerce;
use super::lower::{Local, LoopState, Lower};
use super::tree::{Expr, Stmt, StmtKind};
use super::types::{CType, ClkScalar};
use super::value::{Res, Value, VariableKey};
use crate::ast::{
    CppBinaryOp, CppCondition, CppDeclKind, CppExpr, CppExprKind, CppFor, CppInit, CppStmt, CppStmtKind, CppUnaryOp,
    VariableName,
};
use crate::source::SourceSpan;

/// A `for` whose counter is an integer that a fixed step changes.
struct Counting<'a> {
    name: &'a str,
    ty: &'a crate::ast::CppType,
    start: &'a CppExpr,
    /// The comparison with the counter on its left side.
    op: CppBinaryOp,
    bound: &'a CppExpr,
    /// `None` for a step of 1.
    step: Option<&'a CppExpr>,
    down: bool,
}

impl<'a> Lower<'_, 'a> {
    fn loop_state(&self) -> LoopState<'a> {
        LoopState {
            is_switch: false,
            step: None,
            tail: None,
            counter: None,
            traps_continue: false,
            scopes: self.locals.len(),
        }
    }

    pub(crate) fn while_loop(&mut self, condition: &'a CppCondition, body: &'a CppStmt, span: SourceSpan) -> Res<()> {
        let state = self.loop_state();
        self.loops.push(state);
        let result = self.nested(|lower| {
            let condition = lower.condition_value(condition)?;
            let plain = lower.mark() == 0;
            if !plain {
                lower.push_exit(condition.clone(), span);
            }
            let result = lower.scoped(|lower| lower.stmt(body));
            result?;
            Ok((condition, plain))
        });
        self.loops.pop();
        let ((condition, plain), stmts) = result?;
        self.push_loop(condition, plain, stmts, span);
        Ok(())
    }

    fn push_loop(&mut self, condition: Value, plain: bool, body: Vec<Stmt>, span: SourceSpan) {
        match condition.constant_bool() {
            Some(false) if plain => {}
            Some(true) => self.push(StmtKind::Loop(body), span),
            _ if plain => self.push(StmtKind::While { condition: condition.expr, body }, span),
            _ => self.push(StmtKind::Loop(body), span),
        }
    }

    pub(crate) fn do_loop(&mut self, body: &'a CppStmt, condition: &'a CppExpr, span: SourceSpan) -> Res<()> {
        let mut state = self.loop_state();
        state.tail = Some(condition);
        self.loops.push(state);
        let result = self.nested(|lower| {
            lower.scoped(|lower| lower.stmt(body))?;
            lower.loops.pop();
            let condition = lower.condition(condition)?;
            let once = condition.constant_bool() == Some(false);
            if !once {
                lower.push_exit(condition, span);
            }
            Ok(once)
        });
        if result.is_err() {
            return result.map(|_| ());
        }
        let (once, mut stmts) = result?;
        if once && !stmts.iter().any(contains_jump) {
            // `do { … } while (0)`
            if let Some(block) = self.blocks.last_mut() {
                block.extend(stmts);
            }
            return Ok(());
        }
        if once {
            stmts.push(Stmt { kind: StmtKind::Break, span });
        }
        self.push(StmtKind::Loop(stmts), span);
        Ok(())
    }

    pub(crate) fn for_loop(&mut self, statement: &'a CppFor, span: SourceSpan) -> Res<()> {
        if let Some(counting) = self.counting(statement)
            && self.counted_loop(&counting, statement, span)?
        {
            return Ok(());
        }
        self.stmt(&statement.init)?;
        let mut state = self.loop_state();
        state.step = statement.step.as_ref();
        self.loops.push(state);
        let result = self.nested(|lower| {
            let condition = match &statement.condition {
                Some(condition) => lower.condition_value(condition)?,
                None => Value::bool(true, span),
            };
            let plain = lower.mark() == 0;
            if !plain {
                lower.push_exit(condition.clone(), span);
            }
            let result = lower.scoped(|lower| lower.stmt(&statement.body));
            result?;
            if let Some(step) = &statement.step {
                lower.discard(step)?;
            }
            Ok((condition, plain))
        });
        self.loops.pop();
        let ((condition, plain), stmts) = result?;
        self.push_loop(condition, plain, stmts, span);
        Ok(())
    }

    /// Recognizes `for (int i = a; i < b; i += c)`.
    fn counting(&self, statement: &'a CppFor) -> Option<Counting<'a>> {
        let CppStmtKind::Decl(decl) = &statement.init.kind else { return None };
        let CppDeclKind::Variables(decl) = &decl.kind else { return None };
        let [variable] = decl.variables.as_slice() else { return None };
        let VariableName::Plain(name) = &variable.name else { return None };
        let start = match &variable.init {
            CppInit::Equal(start) => start,
            CppInit::Paren(args) | CppInit::Brace(args) => match args.as_slice() {
                [start] => start,
                _ => return None,
            },
            CppInit::None => return None,
        };
        let is_counter = |expr: &CppExpr| match &expr.kind {
            CppExprKind::Name(own) => !own.global && own.segments.len() == 1 && own.segments[0].name.text == name.text,
            _ => false,
        };
        let Some(CppCondition::Expr(condition)) = &statement.condition else { return None };
        let mut condition = condition;
        while let CppExprKind::Comma { left, right } = &condition.kind {
            if !self.is_ignored_call(left) {
                return None;
            }
            condition = right;
        }
        let CppExprKind::Binary { op, left, right } = &condition.kind else { return None };
        let (op, bound) = if is_counter(left) {
            (*op, &**right)
        } else if is_counter(right) {
            let flipped = match op {
                CppBinaryOp::Lt => CppBinaryOp::Gt,
                CppBinaryOp::Le => CppBinaryOp::Ge,
                CppBinaryOp::Gt => CppBinaryOp::Lt,
                CppBinaryOp::Ge => CppBinaryOp::Le,
                _ => return None,
            };
            (flipped, &**left)
        } else {
            return None;
        };
        let (step, down) = match &statement.step.as_ref()?.kind {
            CppExprKind::Unary { op: CppUnaryOp::PreIncrement | CppUnaryOp::PostIncrement, operand }
                if is_counter(operand) =>
            {
                (None, false)
            }
            CppExprKind::Unary { op: CppUnaryOp::PreDecrement | CppUnaryOp::PostDecrement, operand }
                if is_counter(operand) =>
            {
                (None, true)
            }
            CppExprKind::Assign { op: Some(CppBinaryOp::Add), target, value } if is_counter(target) => {
                (Some(&**value), false)
            }
            CppExprKind::Assign { op: Some(CppBinaryOp::Sub), target, value } if is_counter(target) => {
                (Some(&**value), true)
            }
            CppExprKind::Assign { op: None, target, value } if is_counter(target) => match &value.kind {
                CppExprKind::Binary { op: CppBinaryOp::Add, left, right } if is_counter(left) => {
                    (Some(&**right), false)
                }
                CppExprKind::Binary { op: CppBinaryOp::Sub, left, right } if is_counter(left) => (Some(&**right), true),
                _ => return None,
            },
            _ => return None,
        };
        let matches_direction = match op {
            CppBinaryOp::Lt | CppBinaryOp::Le => !down,
            CppBinaryOp::Gt | CppBinaryOp::Ge => down,
            _ => false,
        };
        matches_direction.then_some(Counting { name: &name.text, ty: &variable.ty, start, op, bound, step, down })
    }

    /// Translates a counting loop to a Clk `for`; returns false if the meaning would differ.
    fn counted_loop(&mut self, counting: &Counting<'a>, statement: &'a CppFor, span: SourceSpan) -> Res<bool> {
        // The declaration of the general case creates its key at the same point.
        let key = VariableKey(self.variables.peek_key());
        if self.facts.assigned_in_loop.contains(&key) {
            return Ok(false);
        }
        let mark = self.mark();
        let Some(plan) = self.plan_counted(counting)? else {
            if let Some(block) = self.blocks.last_mut() {
                block.truncate(mark);
            }
            return Ok(false);
        };
        let key = self.variables.new_key();
        let mut state = self.loop_state();
        state.counter = Some(key);
        self.loops.push(state);
        let result = self.nested(|lower| {
            let name = lower.fresh(counting.name);
            let known = Value {
                rep: plan.rep,
                range: Some(plan.range),
                stable: true,
                ..Value::new(plan.ty.clone(), Expr::name(name.clone(), span))
            };
            let local = Local::Variable { name: name.clone(), key, ty: plan.ty.clone(), known: Some(Box::new(known)) };
            lower.declare(counting.name, local);
            lower.scoped(|lower| lower.stmt(&statement.body))?;
            Ok(name)
        });
        self.loops.pop();
        let (name, body) = result?;
        if let Some(note) = plan.note {
            self.requirements.note(note, span);
        }
        self.push(
            StmtKind::For { name, from: plan.from, to: plan.to, inclusive: plan.inclusive, step: plan.step, body },
            span,
        );
        Ok(true)
    }

    fn plan_counted(&mut self, counting: &Counting<'a>) -> Res<Option<CountedPlan>> {
        let span = counting.start.span;
        let ty = match &counting.ty.kind {
            crate::ast::CppTypeKind::Auto => self.type_of(counting.start)?,
            _ => self.resolve_type(counting.ty)?,
        };
        let CType::Int(kind) = ty else { return Ok(None) };
        let scalar = kind.scalar();
        if scalar.size() < 4 {
            return Ok(None);
        }
        let start = self.operand(counting.start)?;
        let start = self.convert(start, &ty, span)?;
        let mark = self.mark();
        // The bound and the step are evaluated once, so they must not change, and must not need statements.
        let (bound, bound_block) = self.nested(|lower| lower.rvalue(counting.bound))?;
        if !bound_block.is_empty() || bound.effect || !bound.stable || self.mark() != mark {
            return Ok(None);
        }
        let Some(bound_kind) = bound.ty.promoted() else { return Ok(None) };
        let step = match counting.step {
            None => Value::int(1, ty.clone(), span),
            Some(step) => {
                let (value, block) = self.nested(|lower| lower.rvalue(step))?;
                if !block.is_empty() || value.effect || !value.stable || !value.ty.is_integer() {
                    return Ok(None);
                }
                value
            }
        };
        let (start_low, start_high) = start.range.unwrap_or(scalar.limits());
        let (bound_low, bound_high) = bound.range.unwrap_or(bound.rep.limits());
        let (step_low, step_high) = step.range.unwrap_or(step.rep.limits());
        let (low, high) = scalar.limits();
        // The comparison converts both sides to their common type; that must not change either of them.
        let common = kind.common(bound_kind).scalar();
        let counter_low = if counting.down { bound_low.min(start_low) } else { start_low };
        let counter_high = if counting.down { start_high } else { bound_high.max(start_high) };
        if !common.is_signed() && (counter_low < 0 || bound_low < 0) {
            return Ok(None);
        }
        if bound_low < low || bound_high > high || step_low < 1 || step_high > high {
            return Ok(None);
        }
        let inclusive = matches!(counting.op, CppBinaryOp::Le | CppBinaryOp::Ge);
        // The last step passes the bound. Signed overflow there is undefined, unsigned overflow would start again.
        let passes = if counting.down { bound_low - step_high } else { bound_high + step_high };
        let overflows = passes < low || passes > high;
        let by_one = step.constant_int() == Some(1) && !inclusive;
        let mut note = None;
        if overflows && !by_one {
            if !scalar.is_signed() && (inclusive || counting.down) {
                return Ok(None);
            }
            note = Some(format!("the counter `{}` does not overflow when it passes its bound", counting.name));
        }
        if counting.down && !scalar.is_signed() && (inclusive || bound_low < 1 && step_high > 1) {
            return Ok(None);
        }
        let fits = |rep: ClkScalar| {
            let (low, high) = rep.limits();
            low <= counter_low.min(bound_low) && counter_high.max(bound_high) <= high && step_high <= high
        };
        let narrow = fits(ClkScalar::I32)
            && (start.rep == ClkScalar::I32 || start.constant.is_some() && bound.rep == ClkScalar::I32);
        let rep = if scalar == ClkScalar::I32 || narrow { ClkScalar::I32 } else { scalar };
        if counting.down && !rep.is_signed() {
            return Ok(None);
        }
        let step_expr = match (step.constant_int(), counting.down) {
            (Some(1), false) => None,
            (Some(n), false) => Some(Expr::int(n, rep, span)),
            (Some(n), true) => Some(Expr::int(-n, rep, span)),
            (None, false) => Some(coerce(&step, rep)),
            (None, true) => return Ok(None),
        };
        let bound = self.convert(bound, &ty, span)?;
        let range = if counting.down {
            (bound_low.max(low), start_high)
        } else {
            let last = if inclusive { bound_high } else { bound_high - 1 };
            (start_low, last.max(start_low))
        };
        Ok(Some(CountedPlan {
            ty,
            rep,
            range,
            from: coerce(&start, rep),
            to: coerce(&bound, rep),
            inclusive,
            step: step_expr,
            note,
        }))
    }
}

struct CountedPlan {
    ty: CType,
    rep: ClkScalar,
    range: (i128, i128),
    from: Expr,
    to: Expr,
    inclusive: bool,
    step: Option<Expr>,
    note: Option<String>,
}

/// Returns whether a statement contains a `break` or `continue` of the enclosing loop.
fn contains_jump(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If { then, otherwise, .. } => then.iter().chain(otherwise).any(contains_jump),
        _ => false,
    }
}
