//! Executes bytecode. Input: a frame, its code, and the start position. Output: the value, and whether the code
//! returned from its function.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smol_str::ToSmolStr;

use crate::array::SliceSpec;
use crate::grad;
use crate::ops::{self, overflow};
use crate::problem::HostResult;
use crate::value::{HostValue, RangeValue};
use clk_base::source::Span;
use clk_check::typed::{Block, Expr, LocalId};
use clk_scalar::{Scalar, dynamic};

use super::code::{
    self, CodeMode, CodeSource, Dest, FastOp, FastTest, HostCode, HostOp, Pc, SlotIndex, SlotVariable, SlowPathOp,
};
use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;

/// How the execution of code ended.
pub(super) enum RunEnd {
    End(HostValue),
    /// The code executed `return`: the value and the location of its expression.
    Return(HostValue, Span),
}

/// Where execution continues after an instruction.
enum NextInstruction {
    Next,
    Jump(Pc),
}

/// Truncates a loop counter to the width of the loop variable.
#[inline(always)]
fn narrow(counter: i64, bits: u8) -> u64 {
    counter as u64 & (u64::MAX >> (64 - u32::from(bits & 127)))
}

#[inline(always)]
fn f32s(a: u64, b: u64) -> (f32, f32) {
    (f32::from_bits(a as u32), f32::from_bits(b as u32))
}

#[inline(always)]
fn f64s(a: u64, b: u64) -> (f64, f64) {
    (f64::from_bits(a), f64::from_bits(b))
}

/// Computes a frequent operator with the arithmetic of `clk_scalar`, inlined.
#[inline(always)]
fn eval_fast(what: FastOp, a: u64, b: u64) -> u64 {
    use clk_scalar::NumericScalar;
    let narrow = |n: i32| u64::from(n as u32);
    match what {
        FastOp::AddI32 => narrow((a as i32).op_add(b as i32)),
        FastOp::SubI32 => narrow((a as i32).op_sub(b as i32)),
        FastOp::MulI32 => narrow((a as i32).op_mul(b as i32)),
        FastOp::AddI64 => (a as i64).op_add(b as i64) as u64,
        FastOp::SubI64 => (a as i64).op_sub(b as i64) as u64,
        FastOp::MulI64 => (a as i64).op_mul(b as i64) as u64,
        FastOp::AddF32 => f32s(a, b).0.op_add(f32s(a, b).1).to_bits().into(),
        FastOp::SubF32 => f32s(a, b).0.op_sub(f32s(a, b).1).to_bits().into(),
        FastOp::MulF32 => f32s(a, b).0.op_mul(f32s(a, b).1).to_bits().into(),
        FastOp::DivF32 => f32s(a, b).0.op_div(f32s(a, b).1).to_bits().into(),
        FastOp::AddF64 => f64s(a, b).0.op_add(f64s(a, b).1).to_bits(),
        FastOp::SubF64 => f64s(a, b).0.op_sub(f64s(a, b).1).to_bits(),
        FastOp::MulF64 => f64s(a, b).0.op_mul(f64s(a, b).1).to_bits(),
        FastOp::DivF64 => f64s(a, b).0.op_div(f64s(a, b).1).to_bits(),
    }
}

#[inline(always)]
fn eval_test(test: FastTest, a: u64, b: u64) -> bool {
    match test {
        FastTest::EqI32 => a as i32 == b as i32,
        FastTest::LtI32 => (a as i32) < b as i32,
        FastTest::LeI32 => a as i32 <= b as i32,
        FastTest::EqI64 => a == b,
        FastTest::LtI64 => (a as i64) < b as i64,
        FastTest::LeI64 => a as i64 <= b as i64,
        FastTest::LtF32 => f32s(a, b).0 < f32s(a, b).1,
        FastTest::LeF32 => f32s(a, b).0 <= f32s(a, b).1,
        FastTest::LtF64 => f64s(a, b).0 < f64s(a, b).1,
        FastTest::LeF64 => f64s(a, b).0 <= f64s(a, b).1,
    }
}

impl EvalContext<'_> {
    /// Returns whether arithmetic is checked. The values of `const` items are always checked, so that they do not
    /// depend on the options of an execution.
    pub(super) fn checks_arithmetic(&self) -> bool {
        self.interp.options.control.checks.arithmetic || !self.interp.const_values.in_progress.is_empty()
    }

    /// Returns the mode in which code must be compiled for the current state of the interpreter.
    pub(super) fn code_mode(&self) -> CodeMode {
        let traced = self.interp.derivatives.depth > 0 || self.interp.observers.recorded_launches.is_some();
        CodeMode { checked: self.checks_arithmetic(), traced }
    }

    /// Runs a frame's code from a given instruction.
    pub(super) fn run_code(&mut self, frame: &mut HostFrame, code: &Arc<HostCode>, from: Pc) -> Eval<RunEnd> {
        let mut pc = from as usize;
        loop {
            let Some(op) = code.ops.get(pc) else {
                return Err(self.internal_error(Span::default(), "the code of a body has no end"));
            };
            let slots = &mut frame.slots[..];
            match *op {
                HostOp::Load { dst, bits } => slots[dst as usize] = bits,
                HostOp::Move { dst, src } => slots[dst as usize] = slots[src as usize],
                HostOp::Fast { op: what, dst, a, b } => {
                    slots[dst as usize] = eval_fast(what, slots[a as usize], slots[b as usize]);
                }
                HostOp::Unary { f, dst, a } => slots[dst as usize] = f(slots[a as usize]),
                HostOp::Binary { f, dst, a, b } => slots[dst as usize] = f(slots[a as usize], slots[b as usize]),
                HostOp::TryUnary { f, dst, a } => match f(slots[a as usize]) {
                    Some(bits) => slots[dst as usize] = bits,
                    None => self.run_slow_path(frame, code, pc, dst)?,
                },
                HostOp::TryBinary { f, dst, a, b } => match f(slots[a as usize], slots[b as usize]) {
                    Some(bits) => slots[dst as usize] = bits,
                    None => self.run_slow_path(frame, code, pc, dst)?,
                },
                HostOp::Select { dst, cond, then, other } => {
                    let chosen = if slots[cond as usize] != 0 { then } else { other };
                    slots[dst as usize] = slots[chosen as usize];
                }
                HostOp::Jump { to } => {
                    pc = to as usize;
                    continue;
                }
                HostOp::If { cond, when, to } => {
                    if (slots[cond as usize] != 0) == when {
                        pc = to as usize;
                        continue;
                    }
                }
                HostOp::IfFast { test: which, when, a, b, to } => {
                    if eval_test(which, slots[a as usize], slots[b as usize]) == when {
                        pc = to as usize;
                        continue;
                    }
                }
                HostOp::IfBinary { f, when, a, b, to } => {
                    if (f(slots[a as usize], slots[b as usize]) != 0) == when {
                        pc = to as usize;
                        continue;
                    }
                }
                HostOp::Poll => self.poll_at(frame, code, pc)?,
                HostOp::BeginCount { state, var, count, exit } => {
                    let (counter, end) = (slots[state as usize] as i64, slots[state as usize + 1] as i64);
                    if !is_in_range(counter, end, count.up, count.inclusive) {
                        pc = exit as usize;
                        continue;
                    }
                    slots[var as usize] = narrow(counter, count.bits);
                    self.poll_at(frame, code, pc)?;
                }
                HostOp::AdvanceCount { state, var, count, body } => {
                    let (counter, end) = (slots[state as usize] as i64, slots[state as usize + 1] as i64);
                    let step = slots[state as usize + 2] as i64;
                    if let Some(next) = counter.checked_add(step)
                        && is_in_range(next, end, count.up, count.inclusive)
                    {
                        slots[state as usize] = next as u64;
                        slots[var as usize] = narrow(next, count.bits);
                        self.poll_at(frame, code, pc)?;
                        pc = body as usize;
                        continue;
                    }
                }
                HostOp::GetElement { dst, element } => {
                    let element = &code.elements[element as usize];
                    let bits_on_host = self.read_host_element(frame, element);
                    let bits = match bits_on_host {
                        Some(bits) => bits,
                        None => {
                            self.write_back(frame, code.slot_variables_at(pc));
                            self.read_element(frame, element)?
                        }
                    };
                    frame.slots[dst as usize] = bits;
                }
                HostOp::SetElement { src, element } => {
                    let element = &code.elements[element as usize];
                    let bits = slots[src as usize];
                    if !self.write_host_element(frame, element, bits) {
                        self.write_back(frame, code.slot_variables_at(pc));
                        self.write_element(frame, element, bits)?;
                    }
                }
                HostOp::GetGlobal { dst, id, ty } => match self.interp.globals.get(id.index()) {
                    Some(Some(HostValue::Scalar(number))) if number.ty == ty => slots[dst as usize] = number.bits,
                    found => {
                        let value = found.cloned().flatten();
                        self.write_back(frame, code.slot_variables_at(pc));
                        self.store_value(frame, value, Dest::Slot(dst, ty), code.spans[pc])?;
                    }
                },
                HostOp::SetGlobal { src, id, ty } => {
                    let number = clk_scalar::ScalarValue { ty, bits: slots[src as usize] };
                    match self.interp.globals.get_mut(id.index()) {
                        Some(Some(HostValue::Scalar(old))) => *old = number,
                        Some(slot) => *slot = Some(HostValue::Scalar(number)),
                        None => {}
                    }
                }
                HostOp::Math { function, ty, count, dst, args } => {
                    let at = |k: usize| clk_scalar::ScalarValue {
                        ty,
                        bits: slots.get(args as usize + k).copied().unwrap_or(0),
                    };
                    let args = [at(0), at(1), at(2)];
                    match dynamic::math(function, &args[..usize::from(count)]) {
                        Ok(result) => slots[dst as usize] = result.bits,
                        Err(why) => return Err(self.internal_error(code.spans[pc], &why.to_string())),
                    }
                }
                HostOp::Call { call, dst } => {
                    self.write_back(frame, code.slot_variables_at(pc));
                    self.call_scalar_function(frame, code, call, dst, pc)?;
                }
                HostOp::End { src, ty } => {
                    return Ok(RunEnd::End(HostValue::Scalar(clk_scalar::ScalarValue {
                        ty,
                        bits: slots[src as usize],
                    })));
                }
                HostOp::Return { src, ty } => {
                    let value = HostValue::Scalar(clk_scalar::ScalarValue { ty, bits: slots[src as usize] });
                    return Ok(RunEnd::Return(value, code.spans[pc]));
                }
                HostOp::EndValue => return Ok(RunEnd::End(std::mem::replace(&mut frame.result, HostValue::Unit))),
                HostOp::ReturnValue => {
                    let value = std::mem::replace(&mut frame.result, HostValue::Unit);
                    return Ok(RunEnd::Return(value, code.spans[pc]));
                }
                ref op => match self.execute_rare(frame, code, op, pc)? {
                    NextInstruction::Next => {}
                    NextInstruction::Jump(to) => {
                        pc = to as usize;
                        continue;
                    }
                },
            }
            pc += 1;
        }
    }

    #[inline(always)]
    fn poll_at(&mut self, frame: &HostFrame, code: &HostCode, pc: usize) -> Eval<()> {
        if self.interp.options.control.stop.load(Ordering::Relaxed) { self.stop_at(frame, code, pc) } else { Ok(()) }
    }

    #[cold]
    fn stop_at(&mut self, frame: &HostFrame, code: &HostCode, pc: usize) -> Eval<()> {
        self.write_back(frame, code.slot_variables_at(pc));
        self.check_stop(code.spans[pc])
    }

    /// Stores the slots of script variables back to the variables.
    #[inline]
    fn write_back(&mut self, frame: &HostFrame, residents: &[SlotVariable]) {
        for &SlotVariable { id, slot, ty, mutable } in residents {
            if let (true, Some(place)) = (mutable, self.interp.globals.get_mut(id.index())) {
                *place = Some(HostValue::Scalar(clk_scalar::ScalarValue { ty, bits: frame.slots[slot as usize] }));
            }
        }
    }

    /// Loads script variables into their slots.
    fn load_variables(&mut self, frame: &mut HostFrame, residents: &[SlotVariable], span: Span) -> Eval<()> {
        for &SlotVariable { id, slot, ty, .. } in residents {
            match self.interp.globals.get(id.index()) {
                Some(Some(HostValue::Scalar(number))) if number.ty == ty => frame.slots[slot as usize] = number.bits,
                found => {
                    let value = found.cloned().flatten();
                    self.store_value(frame, value, Dest::Slot(slot, ty), span)?;
                }
            }
        }
        Ok(())
    }

    /// Executes an instruction that `run_code` does not handle itself, because it is infrequent.
    #[inline(never)]
    fn execute_rare(
        &mut self,
        frame: &mut HostFrame,
        code: &Arc<HostCode>,
        op: &HostOp,
        pc: usize,
    ) -> Eval<NextInstruction> {
        let span = code.spans[pc];
        match *op {
            HostOp::LoadVariables { region } => {
                self.load_variables(frame, &code.scalarized_loops[region as usize].variables, span)?
            }
            HostOp::StoreVariables { region } => {
                self.write_back(frame, &code.scalarized_loops[region as usize].variables)
            }
            HostOp::Dim { dst, index } => match frame.dims.get(index as usize) {
                Some(Some(extent)) => frame.slots[dst as usize] = u64::from(*extent as i32 as u32),
                _ => return Err(self.internal_error(span, "a dimension has no value yet")),
            },
            HostOp::GetLocal { dst, local, ty } => {
                let value = frame.get(local);
                self.write_back(frame, code.slot_variables_at(pc));
                self.store_value(frame, value, Dest::Slot(dst, ty), span)?;
            }
            HostOp::StoreScalar { src, ty, dst } => {
                let bits = frame.slots[src as usize];
                self.store_value(frame, Some(HostValue::Scalar(clk_scalar::ScalarValue { ty, bits })), dst, span)?;
            }
            HostOp::Unit { dst } => self.store_value(frame, Some(HostValue::Unit), dst, span)?,
            HostOp::Extent { dst, base, axis } => {
                let extent = match self.variable_value(frame, base) {
                    Some(HostValue::Array(array)) => array.shape().get(usize::from(axis)).copied(),
                    _ => None,
                };
                match extent {
                    Some(extent) => frame.slots[dst as usize] = u64::from(extent as i32 as u32),
                    None => {
                        self.write_back(frame, code.slot_variables_at(pc));
                        let Some(value) = self.variable_value(frame, base).map(grad::primal) else {
                            return Err(self.unset_variable(span));
                        };
                        let extent = if axis == 0 { ops::len(&value) } else { ops::shape(&value, Some(axis.into())) };
                        let extent = extent.map_err(|p| self.problem(p, span))?;
                        self.store_value(frame, Some(extent), Dest::Slot(dst, Scalar::I32), span)?;
                    }
                }
            }
            HostOp::BeginItems { items } => {
                self.write_back(frame, code.slot_variables_at(pc));
                let items = &code.loops[items as usize];
                let first = match frame.loop_values.get(items.loop_value as usize) {
                    Some(HostValue::Range(range)) => self.range_start(*range, span)?,
                    _ => 0,
                };
                frame.slots[items.state as usize] = first as u64;
                frame.slots[items.state as usize + 1] = 0;
            }
            HostOp::NextItem { items, exit } => {
                self.write_back(frame, code.slot_variables_at(pc));
                return self.next_item(frame, code, items, exit, span);
            }
            HostOp::Eval { node, dst } => {
                let residents = code.slot_variables_at(pc);
                self.write_back(frame, residents);
                let ran = self.eval_node(frame, code, node);
                if !matches!(ran, Err(Signal::Error(_))) {
                    self.load_variables(frame, residents, span)?;
                }
                match ran {
                    Ok(value) => self.store_value(frame, Some(value), dst, span)?,
                    // An operand executed `break` or `continue`, which jumps out of this instruction.
                    Err(Signal::Break) if code.jumps.contains_key(&(pc as Pc)) => {
                        return Ok(NextInstruction::Jump(code.jumps[&(pc as Pc)].0));
                    }
                    Err(Signal::Continue) if code.jumps.contains_key(&(pc as Pc)) => {
                        return Ok(NextInstruction::Jump(code.jumps[&(pc as Pc)].1));
                    }
                    Err(signal) => return Err(signal),
                }
            }
            HostOp::Break => return Err(Signal::Break),
            HostOp::Continue => return Err(Signal::Continue),
            _ => return Err(self.internal_error(span, "control is where it cannot be")),
        }
        Ok(NextInstruction::Next)
    }

    /// Stores a value in its destination. A value of `None` was read from an uninitialized variable, and is an error.
    pub(super) fn store_value(
        &mut self,
        frame: &mut HostFrame,
        value: Option<HostValue>,
        dst: Dest,
        span: Span,
    ) -> Eval<()> {
        let Some(value) = value else { return Err(self.unset_variable(span)) };
        match dst {
            Dest::Slot(slot, ty) => {
                let number = value.adapt(ty).filter(|number| number.ty == ty);
                match number {
                    Some(number) => frame.slots[slot as usize] = number.bits,
                    None => return Err(self.inferred_type_error(&value, &ty.to_string(), span)),
                }
            }
            Dest::Condition(slot) => frame.slots[slot as usize] = self.as_condition(&value, span)?.into(),
            Dest::Local(local) => self.set_local(frame, local, value, span)?,
            Dest::Global(id) => {
                if let Some(slot) = self.interp.globals.get_mut(id.index()) {
                    *slot = Some(value);
                }
            }
            Dest::LoopValue(number) => {
                let number = number as usize;
                if frame.loop_values.len() <= number {
                    frame.loop_values.resize(number + 1, HostValue::Unit);
                }
                frame.loop_values[number] = value;
            }
            Dest::Result => frame.result = value,
            Dest::Nowhere => {}
        }
        Ok(())
    }

    /// Sets a variable.
    pub(super) fn set_local(
        &mut self,
        frame: &mut HostFrame,
        local: LocalId,
        value: HostValue,
        span: Span,
    ) -> Eval<()> {
        let shown = match &value {
            // The type of these values is not formatted here, because this path is frequent.
            HostValue::Scalar(_) | HostValue::Array(_) => None,
            other => Some(other.type_name()),
        };
        let scalar_type = if let HostValue::Scalar(number) = &value { Some(number.ty) } else { None };
        if frame.set(local, value) {
            return Ok(());
        }
        let ty = frame.code.as_ref().and_then(|code| code.scalar(local));
        let shown = shown.unwrap_or_else(|| scalar_type.map_or("array".into(), |ty| ty.to_string()));
        let promised = ty.map_or(String::new(), |ty| ty.to_string());
        Err(self.internal_error(span, &format!("the check took a `{shown}` for a `{promised}`")))
    }

    fn inferred_type_error(&self, value: &HostValue, promised: &str, span: Span) -> Signal {
        self.internal_error(span, &format!("the check took a `{}` for a `{promised}`", value.type_name()))
    }

    /// Performs an operation with `clk_host::ops`, after its fast path returned `None`.
    #[inline(never)]
    fn run_slow_path(&mut self, frame: &mut HostFrame, code: &HostCode, pc: usize, dst: SlotIndex) -> Eval<()> {
        let span = code.spans[pc];
        self.write_back(frame, code.slot_variables_at(pc));
        let Some(fault) = code.slow_paths.get(&(pc as Pc)).copied() else {
            return Err(self.internal_error(span, "an instruction has given up"));
        };
        let value = |(slot, ty): (SlotIndex, Scalar)| {
            HostValue::Scalar(clk_scalar::ScalarValue {
                ty,
                bits: frame.slots.get(slot as usize).copied().unwrap_or(0),
            })
        };
        let result = match fault {
            SlowPathOp::Unary(op, x) => {
                let x = value(x);
                self.check_arithmetic(span, || overflow::check_unary(op, &x))?;
                ops::unary(&self.exec, op, &x).map_err(|p| self.problem(p, span))?
            }
            SlowPathOp::Convert(to, x) => {
                let x = value(x);
                self.check_arithmetic(span, || overflow::check_conversion(to, &x))?;
                ops::convert(&self.exec, to, &x).map_err(|p| self.problem(p, span))?
            }
            SlowPathOp::Binary(op, a, b, places) => {
                let (a, b) = (value(a), value(b));
                self.check_arithmetic(span, || overflow::check_binary(op, &a, &b))?;
                ops::binary(&self.exec, op, &a, &b).map_err(|problem| {
                    self.problem_because(problem, span, || match places {
                        Some((left, right)) => {
                            vec![(left, format!("`{}`", a.type_name())), (right, format!("`{}`", b.type_name()))]
                        }
                        None => Vec::new(),
                    })
                })?
            }
        };
        match result {
            HostValue::Scalar(number) => frame.slots[dst as usize] = number.bits,
            other => return Err(self.inferred_type_error(&other, "scalar", span)),
        }
        Ok(())
    }

    fn range_start(&self, range: RangeValue, span: Span) -> Eval<i64> {
        if range.end.is_none() {
            let title = "this range has no end, so the loop would have none";
            let diagnostic = clk_base::diag::Diagnostic::error("E0541", title);
            return Err(self.error(diagnostic.at(span, "counted through here").help("give it one: `0..n`")));
        }
        Ok(range.start.unwrap_or(0))
    }

    /// Advances a loop over a value ([`code::ValueLoop`]): sets the loop variable to the next item, or leaves the loop.
    fn next_item(
        &mut self,
        frame: &mut HostFrame,
        code: &HostCode,
        items: u32,
        exit: Pc,
        span: Span,
    ) -> Eval<NextInstruction> {
        let items = &code.loops[items as usize];
        let at = frame.slots[items.state as usize] as i64;
        let iterated = frame.loop_values.get(items.loop_value as usize).unwrap_or(&HostValue::Unit);
        let (item, next) = match iterated {
            HostValue::Range(RangeValue { end, inclusive, step, .. }) => {
                if !is_in_range(at, end.unwrap_or(0), *step > 0, *inclusive)
                    || frame.slots[items.state as usize + 1] != 0
                {
                    return Ok(NextInstruction::Jump(exit));
                }
                let Some(item) = HostValue::Int(at.into()).adapt(items.scalar) else {
                    let title = format!("the loop counts to {at}, which is no `{}`", items.scalar);
                    let diagnostic = clk_base::diag::Diagnostic::error("E0541", title);
                    let diagnostic = diagnostic.at(span, "counted through here");
                    return Err(self.error(diagnostic.help("count in a wider type: `for i in 0i64..n`")));
                };
                (HostValue::Scalar(item), at.checked_add(*step))
            }
            HostValue::Str(text) => match text.get(at as usize..).and_then(|rest| rest.chars().next()) {
                Some(character) => (HostValue::Str(character.to_smolstr()), Some(at + character.len_utf8() as i64)),
                None => return Ok(NextInstruction::Jump(exit)),
            },
            items => {
                if at >= self.iteration_count(items, span)? {
                    return Ok(NextInstruction::Jump(exit));
                }
                (self.iteration_value(items, at, span)?, Some(at + 1))
            }
        };
        // The slot after the counter is nonzero if the counter has overflowed; the loop then ends.
        frame.slots[items.state as usize + 1] = next.is_none().into();
        frame.slots[items.state as usize] = next.unwrap_or(at) as u64;
        self.set_local(frame, items.var, item, span)?;
        Ok(NextInstruction::Next)
    }

    /// Returns the indices of an element access, from their slots.
    fn element_indices(&self, frame: &HostFrame, element: &code::ElementAccess) -> Eval<Vec<SliceSpec>> {
        let indices = match &element.expr.kind {
            clk_check::typed::ExprKind::Index { indices, .. } => &indices[..],
            _ => &[],
        };
        let mut specs = Vec::with_capacity(indices.len());
        for (&(slot, ty), index) in element.indices.iter().zip(indices) {
            let value = HostValue::Scalar(clk_scalar::ScalarValue { ty, bits: frame.slots[slot as usize] });
            specs.push(SliceSpec::At(self.as_integer(&value, index.span)?));
        }
        Ok(specs)
    }

    /// Reads an element on the slow path, which also handles arrays in device memory and indices out of range.
    #[inline(never)]
    fn read_element(&mut self, frame: &mut HostFrame, element: &code::ElementAccess) -> Eval<u64> {
        self.interp.stack.span = element.stmt_span;
        let span = element.expr.span;
        let clk_check::typed::ExprKind::Index { base, indices } = &element.expr.kind else {
            return Err(self.internal_error(span, "an element without an array"));
        };
        let at = self.element_indices(frame, element)?;
        let Some(value) = self.variable_value(frame, element.base) else { return Err(self.unset_variable(base.span)) };
        let element_value = ops::index(&self.exec, value, &at);
        self.count_copies(element.stmt_span);
        let element_value = element_value.map_err(|p| match element.compound {
            true => self.problem(p, span),
            false => self.index_problem(p, base, "the array", indices, span),
        })?;
        match element_value {
            HostValue::Scalar(number) if number.ty == element.ty => Ok(number.bits),
            other => Err(self.inferred_type_error(&other, &element.ty.to_string(), span)),
        }
    }

    /// Writes an element on the slow path, like [`Self::read_element`].
    #[inline(never)]
    fn write_element(&mut self, frame: &mut HostFrame, element: &code::ElementAccess, bits: u64) -> Eval<()> {
        self.interp.stack.span = element.stmt_span;
        let span = element.expr.span;
        let at = self.element_indices(frame, element)?;
        let value = HostValue::Scalar(clk_scalar::ScalarValue { ty: element.ty, bits });
        let written: Option<HostResult<()>> = match self.interp.variable_value_mut(frame, element.base) {
            Some(HostValue::Array(array)) => Some(ops::assign(&self.exec, array, &at, &value)),
            _ => None,
        };
        self.count_copies(element.stmt_span);
        match written {
            Some(written) => written.map_err(|p| self.problem(p, span)),
            None => Err(self.internal_error(span, "a variable without a value is written in part")),
        }
    }

    /// Runs the code of a computed local.
    pub(super) fn run_operand(&mut self, frame: &mut HostFrame, number: usize, span: Span) -> Eval {
        let operand = frame.code.as_ref().and_then(|code| Some((code.clone(), *code.computed.get(number)?)));
        let Some((code, from)) = operand else { return Err(self.internal_error(span, "an operand without code")) };
        match self.run_code(frame, &code, from)? {
            RunEnd::End(value) => Ok(value),
            RunEnd::Return(value, at) => Err(Signal::Return(value, at)),
        }
    }

    /// Compiles and evaluates an expression that contains statements and was not compiled as part of the frame's code.
    pub(super) fn eval_with_own_code(&mut self, frame: &mut HostFrame, expr: &Expr) -> Eval {
        let code = code::build(self.program, &frame.generics, CodeSource::Expr(expr), self.code_mode());
        let code = Arc::new(code);
        let (outer, slots) = (frame.code.take(), std::mem::take(&mut frame.slots));
        frame.prepare(&code);
        let done = self.run_code(frame, &code, 0);
        (frame.code, frame.slots) = (outer, slots);
        match done? {
            RunEnd::End(value) => Ok(value),
            RunEnd::Return(value, at) => Err(Signal::Return(value, at)),
        }
    }

    /// Evaluates a block that was not compiled as part of the frame's code.
    pub(super) fn eval_block(&mut self, frame: &mut HostFrame, block: &Block) -> Eval {
        match (&block.stmts[..], &block.tail) {
            ([], Some(tail)) => self.eval(frame, tail),
            ([], None) => Ok(HostValue::Unit),
            _ => {
                let kind = clk_check::typed::ExprKind::Block(block.clone());
                self.eval_with_own_code(frame, &Expr { kind, ty: clk_check::typed::Type::Unknown, span: block.span })
            }
        }
    }
}

/// Returns whether a loop's counter is still within its range.
#[inline(always)]
fn is_in_range(counter: i64, end: i64, up: bool, inclusive: bool) -> bool {
    match (up, inclusive) {
        (true, false) => counter < end,
        (true, true) => counter <= end,
        (false, false) => counter > end,
        (false, true) => counter >= end,
    }
}
