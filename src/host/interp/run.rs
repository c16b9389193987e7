//! Executes code. In: a frame with its code, and where to begin. Out: the value, and whether the code returned from its function.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smol_str::ToSmolStr;

use crate::base::source::Span;
use crate::check::typed::{Block, Expr, LocalId};
use crate::host::array::SliceSpec;
use crate::host::grad;
use crate::host::ops::{self, overflow};
use crate::host::problem::Outcome;
use crate::host::value::{Range, Value};
use crate::lang::scalar::{self, Scalar, dynamic};

use super::code::{self, Code, Dest, Fast, Fault, Mode, Op, Pc, Resident, Slot, Source, Test};
use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};

/// How a run of code ended.
pub(super) enum Done {
    End(Value),
    /// By `return` with this value, which is at this place.
    Return(Value, Span),
}

/// What an instruction does next.
enum Flow {
    Next,
    Jump(Pc),
}

/// Returns the bits of a counter as the variable of its loop has them.
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

/// Computes a frequent operator: what `lang::scalar` says of it, without a call.
#[inline(always)]
fn fast(what: Fast, a: u64, b: u64) -> u64 {
    use crate::lang::scalar::Number;
    let narrow = |n: i32| u64::from(n as u32);
    match what {
        Fast::AddI32 => narrow((a as i32).op_add(b as i32)),
        Fast::SubI32 => narrow((a as i32).op_sub(b as i32)),
        Fast::MulI32 => narrow((a as i32).op_mul(b as i32)),
        Fast::AddI64 => (a as i64).op_add(b as i64) as u64,
        Fast::SubI64 => (a as i64).op_sub(b as i64) as u64,
        Fast::MulI64 => (a as i64).op_mul(b as i64) as u64,
        Fast::AddF32 => f32s(a, b).0.op_add(f32s(a, b).1).to_bits().into(),
        Fast::SubF32 => f32s(a, b).0.op_sub(f32s(a, b).1).to_bits().into(),
        Fast::MulF32 => f32s(a, b).0.op_mul(f32s(a, b).1).to_bits().into(),
        Fast::DivF32 => f32s(a, b).0.op_div(f32s(a, b).1).to_bits().into(),
        Fast::AddF64 => f64s(a, b).0.op_add(f64s(a, b).1).to_bits(),
        Fast::SubF64 => f64s(a, b).0.op_sub(f64s(a, b).1).to_bits(),
        Fast::MulF64 => f64s(a, b).0.op_mul(f64s(a, b).1).to_bits(),
        Fast::DivF64 => f64s(a, b).0.op_div(f64s(a, b).1).to_bits(),
    }
}

#[inline(always)]
fn test(test: Test, a: u64, b: u64) -> bool {
    match test {
        Test::EqI32 => a as i32 == b as i32,
        Test::LtI32 => (a as i32) < b as i32,
        Test::LeI32 => a as i32 <= b as i32,
        Test::EqI64 => a == b,
        Test::LtI64 => (a as i64) < b as i64,
        Test::LeI64 => a as i64 <= b as i64,
        Test::LtF32 => f32s(a, b).0 < f32s(a, b).1,
        Test::LeF32 => f32s(a, b).0 <= f32s(a, b).1,
        Test::LtF64 => f64s(a, b).0 < f64s(a, b).1,
        Test::LeF64 => f64s(a, b).0 <= f64s(a, b).1,
    }
}

impl Machine<'_> {
    /// Whether this run checks arithmetic. A constant has one value, whether the run is checked or not.
    pub(super) fn checked(&self) -> bool {
        self.interp.options.control.checks.arithmetic || !self.interp.computing.is_empty()
    }

    /// What code of this run is built for.
    pub(super) fn mode(&self) -> Mode {
        let traced = self.interp.tracing > 0 || self.interp.recorded.is_some();
        Mode { checked: self.checked(), traced }
    }

    /// Runs the code of a frame from an instruction on.
    pub(super) fn run(&mut self, frame: &mut Frame, code: &Arc<Code>, from: Pc) -> Eval<Done> {
        let mut pc = from as usize;
        loop {
            let Some(op) = code.ops.get(pc) else {
                return Err(self.broken(Span::default(), "the code of a body has no end"));
            };
            let slots = &mut frame.slots[..];
            match *op {
                Op::Load { dst, bits } => slots[dst as usize] = bits,
                Op::Move { dst, src } => slots[dst as usize] = slots[src as usize],
                Op::Fast { what, dst, a, b } => {
                    slots[dst as usize] = fast(what, slots[a as usize], slots[b as usize]);
                }
                Op::One { f, dst, a } => slots[dst as usize] = f(slots[a as usize]),
                Op::Two { f, dst, a, b } => slots[dst as usize] = f(slots[a as usize], slots[b as usize]),
                Op::TryOne { f, dst, a } => match f(slots[a as usize]) {
                    Some(bits) => slots[dst as usize] = bits,
                    None => self.decide(frame, code, pc, dst)?,
                },
                Op::TryTwo { f, dst, a, b } => match f(slots[a as usize], slots[b as usize]) {
                    Some(bits) => slots[dst as usize] = bits,
                    None => self.decide(frame, code, pc, dst)?,
                },
                Op::Select { dst, cond, then, other } => {
                    let chosen = if slots[cond as usize] != 0 { then } else { other };
                    slots[dst as usize] = slots[chosen as usize];
                }
                Op::Jump { to } => {
                    pc = to as usize;
                    continue;
                }
                Op::If { cond, when, to } => {
                    if (slots[cond as usize] != 0) == when {
                        pc = to as usize;
                        continue;
                    }
                }
                Op::IfFast { test: which, when, a, b, to } => {
                    if test(which, slots[a as usize], slots[b as usize]) == when {
                        pc = to as usize;
                        continue;
                    }
                }
                Op::IfTwo { f, when, a, b, to } => {
                    if (f(slots[a as usize], slots[b as usize]) != 0) == when {
                        pc = to as usize;
                        continue;
                    }
                }
                Op::Poll => self.poll_at(frame, code, pc)?,
                Op::Enter { state, var, count, exit } => {
                    let (counter, end) = (slots[state as usize] as i64, slots[state as usize + 1] as i64);
                    if !counts(counter, end, count.up, count.inclusive) {
                        pc = exit as usize;
                        continue;
                    }
                    slots[var as usize] = narrow(counter, count.bits);
                    self.poll_at(frame, code, pc)?;
                }
                Op::Again { state, var, count, body } => {
                    let (counter, end) = (slots[state as usize] as i64, slots[state as usize + 1] as i64);
                    let step = slots[state as usize + 2] as i64;
                    if let Some(next) = counter.checked_add(step)
                        && counts(next, end, count.up, count.inclusive)
                    {
                        slots[state as usize] = next as u64;
                        slots[var as usize] = narrow(next, count.bits);
                        self.poll_at(frame, code, pc)?;
                        pc = body as usize;
                        continue;
                    }
                }
                Op::GetElement { dst, element } => {
                    let element = &code.elements[element as usize];
                    let found = self.element_here(frame, element);
                    let bits = match found {
                        Some(bits) => bits,
                        None => {
                            self.write_back(frame, code.residents(pc));
                            self.element(frame, element)?
                        }
                    };
                    frame.slots[dst as usize] = bits;
                }
                Op::SetElement { src, element } => {
                    let element = &code.elements[element as usize];
                    let bits = slots[src as usize];
                    if !self.set_element_here(frame, element, bits) {
                        self.write_back(frame, code.residents(pc));
                        self.set_element(frame, element, bits)?;
                    }
                }
                Op::GetGlobal { dst, id, ty } => match self.interp.globals.get(id.index()) {
                    Some(Some(Value::Scalar(number))) if number.ty == ty => slots[dst as usize] = number.bits,
                    found => {
                        let found = found.cloned().flatten();
                        self.write_back(frame, code.residents(pc));
                        self.deliver(frame, found, Dest::Slot(dst, ty), code.spans[pc])?;
                    }
                },
                Op::SetGlobal { src, id, ty } => {
                    let number = scalar::Value { ty, bits: slots[src as usize] };
                    match self.interp.globals.get_mut(id.index()) {
                        Some(Some(Value::Scalar(old))) => *old = number,
                        Some(slot) => *slot = Some(Value::Scalar(number)),
                        None => {}
                    }
                }
                Op::Math { function, ty, count, dst, args } => {
                    let at = |k: usize| scalar::Value { ty, bits: slots.get(args as usize + k).copied().unwrap_or(0) };
                    let args = [at(0), at(1), at(2)];
                    match dynamic::math(function, &args[..usize::from(count)]) {
                        Ok(result) => slots[dst as usize] = result.bits,
                        Err(why) => return Err(self.broken(code.spans[pc], &why.to_string())),
                    }
                }
                Op::Call { call, dst } => {
                    self.write_back(frame, code.residents(pc));
                    self.direct(frame, code, call, dst, pc)?;
                }
                Op::End { src, ty } => {
                    return Ok(Done::End(Value::Scalar(scalar::Value { ty, bits: slots[src as usize] })));
                }
                Op::Return { src, ty } => {
                    let value = Value::Scalar(scalar::Value { ty, bits: slots[src as usize] });
                    return Ok(Done::Return(value, code.spans[pc]));
                }
                Op::EndValue => return Ok(Done::End(std::mem::replace(&mut frame.result, Value::Unit))),
                Op::ReturnValue => {
                    let value = std::mem::replace(&mut frame.result, Value::Unit);
                    return Ok(Done::Return(value, code.spans[pc]));
                }
                ref op => match self.other(frame, code, op, pc)? {
                    Flow::Next => {}
                    Flow::Jump(to) => {
                        pc = to as usize;
                        continue;
                    }
                },
            }
            pc += 1;
        }
    }

    #[inline(always)]
    fn poll_at(&mut self, frame: &Frame, code: &Code, pc: usize) -> Eval<()> {
        if self.interp.options.control.stop.load(Ordering::Relaxed) { self.stop_at(frame, code, pc) } else { Ok(()) }
    }

    #[cold]
    fn stop_at(&mut self, frame: &Frame, code: &Code, pc: usize) -> Eval<()> {
        self.write_back(frame, code.residents(pc));
        self.poll(code.spans[pc])
    }

    /// Writes script variables back that have been in slots.
    #[inline]
    fn write_back(&mut self, frame: &Frame, residents: &[Resident]) {
        for &Resident { id, slot, ty, mutable } in residents {
            if let (true, Some(place)) = (mutable, self.interp.globals.get_mut(id.index())) {
                *place = Some(Value::Scalar(scalar::Value { ty, bits: frame.slots[slot as usize] }));
            }
        }
    }

    /// Reads script variables into slots.
    fn enlist(&mut self, frame: &mut Frame, residents: &[Resident], span: Span) -> Eval<()> {
        for &Resident { id, slot, ty, .. } in residents {
            match self.interp.globals.get(id.index()) {
                Some(Some(Value::Scalar(number))) if number.ty == ty => frame.slots[slot as usize] = number.bits,
                found => {
                    let found = found.cloned().flatten();
                    self.deliver(frame, found, Dest::Slot(slot, ty), span)?;
                }
            }
        }
        Ok(())
    }

    /// Executes an instruction that is not frequent.
    #[inline(never)]
    fn other(&mut self, frame: &mut Frame, code: &Arc<Code>, op: &Op, pc: usize) -> Eval<Flow> {
        let span = code.spans[pc];
        match *op {
            Op::Enlist { region } => self.enlist(frame, &code.regions[region as usize].variables, span)?,
            Op::Dismiss { region } => self.write_back(frame, &code.regions[region as usize].variables),
            Op::Dim { dst, index } => match frame.dims.get(index as usize) {
                Some(Some(extent)) => frame.slots[dst as usize] = u64::from(*extent as i32 as u32),
                _ => return Err(self.broken(span, "a dimension has no value yet")),
            },
            Op::GetLocal { dst, local, ty } => {
                let found = frame.get(local);
                self.write_back(frame, code.residents(pc));
                self.deliver(frame, found, Dest::Slot(dst, ty), span)?;
            }
            Op::Put { src, ty, dst } => {
                let bits = frame.slots[src as usize];
                self.deliver(frame, Some(Value::Scalar(scalar::Value { ty, bits })), dst, span)?;
            }
            Op::Unit { dst } => self.deliver(frame, Some(Value::Unit), dst, span)?,
            Op::Extent { dst, base, axis } => {
                let extent = match self.base(frame, base) {
                    Some(Value::Array(array)) => array.shape().get(usize::from(axis)).copied(),
                    _ => None,
                };
                match extent {
                    Some(extent) => frame.slots[dst as usize] = u64::from(extent as i32 as u32),
                    None => {
                        self.write_back(frame, code.residents(pc));
                        let Some(value) = self.base(frame, base).map(grad::primal) else {
                            return Err(self.unset(span));
                        };
                        let extent = if axis == 0 { ops::len(&value) } else { ops::shape(&value, Some(axis.into())) };
                        let extent = extent.map_err(|p| self.problem(p, span))?;
                        self.deliver(frame, Some(extent), Dest::Slot(dst, Scalar::I32), span)?;
                    }
                }
            }
            Op::Begin { items } => {
                self.write_back(frame, code.residents(pc));
                let items = &code.loops[items as usize];
                let first = match frame.held.get(items.held as usize) {
                    Some(Value::Range(range)) => self.counted_from(*range, span)?,
                    _ => 0,
                };
                frame.slots[items.state as usize] = first as u64;
                frame.slots[items.state as usize + 1] = 0;
            }
            Op::Next { items, exit } => {
                self.write_back(frame, code.residents(pc));
                return self.advance(frame, code, items, exit, span);
            }
            Op::Eval { node, dst } => {
                let residents = code.residents(pc);
                self.write_back(frame, residents);
                let ran = self.node(frame, code, node);
                if !matches!(ran, Err(Signal::Error(_))) {
                    self.enlist(frame, residents, span)?;
                }
                match ran {
                    Ok(value) => self.deliver(frame, Some(value), dst, span)?,
                    // A jump out of an operand.
                    Err(Signal::Break) if code.jumps.contains_key(&(pc as Pc)) => {
                        return Ok(Flow::Jump(code.jumps[&(pc as Pc)].0));
                    }
                    Err(Signal::Continue) if code.jumps.contains_key(&(pc as Pc)) => {
                        return Ok(Flow::Jump(code.jumps[&(pc as Pc)].1));
                    }
                    Err(signal) => return Err(signal),
                }
            }
            Op::Break => return Err(Signal::Break),
            Op::Continue => return Err(Signal::Continue),
            _ => return Err(self.broken(span, "control is where it cannot be")),
        }
        Ok(Flow::Next)
    }

    /// Stores a value; `None` is that of a variable that has none yet.
    pub(super) fn deliver(&mut self, frame: &mut Frame, value: Option<Value>, dst: Dest, span: Span) -> Eval<()> {
        let Some(value) = value else { return Err(self.unset(span)) };
        match dst {
            Dest::Slot(slot, ty) => {
                let number = value.adapt(ty).filter(|number| number.ty == ty);
                match number {
                    Some(number) => frame.slots[slot as usize] = number.bits,
                    None => return Err(self.not_promised(&value, &ty.to_string(), span)),
                }
            }
            Dest::Truth(slot) => frame.slots[slot as usize] = self.truth_of(&value, span)?.into(),
            Dest::Local(local) => self.set_local(frame, local, value, span)?,
            Dest::Global(id) => {
                if let Some(slot) = self.interp.globals.get_mut(id.index()) {
                    *slot = Some(value);
                }
            }
            Dest::Held(number) => {
                let number = number as usize;
                if frame.held.len() <= number {
                    frame.held.resize(number + 1, Value::Unit);
                }
                frame.held[number] = value;
            }
            Dest::Result => frame.result = value,
            Dest::Nowhere => {}
        }
        Ok(())
    }

    /// Sets a variable.
    pub(super) fn set_local(&mut self, frame: &mut Frame, local: LocalId, value: Value, span: Span) -> Eval<()> {
        let shown = match &value {
            // Cannot fail: nothing to show.
            Value::Scalar(_) | Value::Array(_) => None,
            other => Some(other.type_name()),
        };
        let found = if let Value::Scalar(number) = &value { Some(number.ty) } else { None };
        if frame.set(local, value) {
            return Ok(());
        }
        let ty = frame.code.as_ref().and_then(|code| code.scalar(local));
        let shown = shown.unwrap_or_else(|| found.map_or("array".into(), |ty| ty.to_string()));
        let promised = ty.map_or(String::new(), |ty| ty.to_string());
        Err(self.broken(span, &format!("the check took a `{shown}` for a `{promised}`")))
    }

    fn not_promised(&self, value: &Value, promised: &str, span: Span) -> Signal {
        self.broken(span, &format!("the check took a `{}` for a `{promised}`", value.type_name()))
    }

    /// Does an operation by `host::ops`, because its fast function has given up.
    #[inline(never)]
    fn decide(&mut self, frame: &mut Frame, code: &Code, pc: usize, dst: Slot) -> Eval<()> {
        let span = code.spans[pc];
        self.write_back(frame, code.residents(pc));
        let Some(fault) = code.faults.get(&(pc as Pc)).copied() else {
            return Err(self.broken(span, "an instruction has given up"));
        };
        let value = |(slot, ty): (Slot, Scalar)| {
            Value::Scalar(scalar::Value { ty, bits: frame.slots.get(slot as usize).copied().unwrap_or(0) })
        };
        let result = match fault {
            Fault::Unary(op, x) => {
                let x = value(x);
                self.sound(span, || overflow::of_unary(op, &x))?;
                ops::unary(op, &x).map_err(|p| self.problem(p, span))?
            }
            Fault::Convert(to, x) => {
                let x = value(x);
                self.sound(span, || overflow::of_conversion(to, &x))?;
                ops::convert(to, &x).map_err(|p| self.problem(p, span))?
            }
            Fault::Binary(op, a, b, places) => {
                let (a, b) = (value(a), value(b));
                self.sound(span, || overflow::of_binary(op, &a, &b))?;
                ops::binary(op, &a, &b).map_err(|problem| {
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
            Value::Scalar(number) => frame.slots[dst as usize] = number.bits,
            other => return Err(self.not_promised(&other, "scalar", span)),
        }
        Ok(())
    }

    fn counted_from(&self, range: Range, span: Span) -> Eval<i64> {
        if range.end.is_none() {
            let title = "this range has no end, so the loop would have none";
            let diagnostic = crate::base::diag::Diagnostic::error("E0541", title);
            return Err(self.error(diagnostic.at(span, "counted through here").help("give it one: `0..n`")));
        }
        Ok(range.start.unwrap_or(0))
    }

    /// Takes the next item of the value that a loop goes over.
    fn advance(&mut self, frame: &mut Frame, code: &Code, items: u32, exit: Pc, span: Span) -> Eval<Flow> {
        let items = &code.loops[items as usize];
        let at = frame.slots[items.state as usize] as i64;
        let held = frame.held.get(items.held as usize).unwrap_or(&Value::Unit);
        let (item, next) = match held {
            Value::Range(Range { end, inclusive, step, .. }) => {
                if !counts(at, end.unwrap_or(0), *step > 0, *inclusive) || frame.slots[items.state as usize + 1] != 0 {
                    return Ok(Flow::Jump(exit));
                }
                let Some(item) = Value::Int(at.into()).adapt(items.scalar) else {
                    let title = format!("the loop counts to {at}, which is no `{}`", items.scalar);
                    let diagnostic = crate::base::diag::Diagnostic::error("E0541", title);
                    let diagnostic = diagnostic.at(span, "counted through here");
                    return Err(self.error(diagnostic.help("count in a wider type: `for i in 0i64..n`")));
                };
                (Value::Scalar(item), at.checked_add(*step))
            }
            Value::Str(text) => match text.get(at as usize..).and_then(|rest| rest.chars().next()) {
                Some(character) => (Value::Str(character.to_smolstr()), Some(at + character.len_utf8() as i64)),
                None => return Ok(Flow::Jump(exit)),
            },
            items => {
                if at >= self.items_of(items, span)? {
                    return Ok(Flow::Jump(exit));
                }
                (self.item_of(items, at, span)?, Some(at + 1))
            }
        };
        // The slot behind the counter says that it has gone beyond all numbers.
        frame.slots[items.state as usize + 1] = next.is_none().into();
        frame.slots[items.state as usize] = next.unwrap_or(at) as u64;
        self.set_local(frame, items.var, item, span)?;
        Ok(Flow::Next)
    }

    /// Evaluates one position per index.
    fn positions_of(&self, frame: &Frame, element: &code::Element) -> Eval<Vec<SliceSpec>> {
        let indices = match &element.expr.kind {
            crate::check::typed::ExprKind::Index { indices, .. } => &indices[..],
            _ => &[],
        };
        let mut specs = Vec::with_capacity(indices.len());
        for (&(slot, ty), index) in element.indices.iter().zip(indices) {
            let value = Value::Scalar(scalar::Value { ty, bits: frame.slots[slot as usize] });
            specs.push(SliceSpec::At(self.as_integer(&value, index.span)?));
        }
        Ok(specs)
    }

    /// Reads an element, wherever its array is; an error if there is none.
    #[inline(never)]
    fn element(&mut self, frame: &mut Frame, element: &code::Element) -> Eval<u64> {
        self.interp.at = element.at;
        let span = element.expr.span;
        let crate::check::typed::ExprKind::Index { base, indices } = &element.expr.kind else {
            return Err(self.broken(span, "an element without an array"));
        };
        let at = self.positions_of(frame, element)?;
        let Some(value) = self.base(frame, element.base) else { return Err(self.unset(base.span)) };
        let found = ops::index(value, &at);
        self.count_copies(element.at);
        let found = found.map_err(|p| match element.compound {
            true => self.problem(p, span),
            false => self.index_problem(p, (base, "the array"), indices, span),
        })?;
        match found {
            Value::Scalar(number) if number.ty == element.ty => Ok(number.bits),
            other => Err(self.not_promised(&other, &element.ty.to_string(), span)),
        }
    }

    /// Writes an element.
    #[inline(never)]
    fn set_element(&mut self, frame: &mut Frame, element: &code::Element, bits: u64) -> Eval<()> {
        self.interp.at = element.at;
        let span = element.expr.span;
        let at = self.positions_of(frame, element)?;
        let value = Value::Scalar(scalar::Value { ty: element.ty, bits });
        let written: Option<Outcome<()>> = match self.base_mut(frame, element.base) {
            Some(Value::Array(array)) => Some(ops::assign(array, &at, &value)),
            _ => None,
        };
        self.count_copies(element.at);
        match written {
            Some(written) => written.map_err(|p| self.problem(p, span)),
            None => Err(self.broken(span, "a variable without a value is written in part")),
        }
    }

    /// Runs the code of a computed local.
    pub(super) fn computed(&mut self, frame: &mut Frame, number: usize, span: Span) -> Eval {
        let found = frame.code.as_ref().and_then(|code| Some((code.clone(), *code.computed.get(number)?)));
        let Some((code, from)) = found else { return Err(self.broken(span, "an operand without code")) };
        match self.run(frame, &code, from)? {
            Done::End(value) => Ok(value),
            Done::Return(value, at) => Err(Signal::Return(value, at)),
        }
    }

    /// Evaluates an expression that contains statements in a frame that has no code of it.
    pub(super) fn by_itself(&mut self, frame: &mut Frame, expr: &Expr) -> Eval {
        let code = code::build(self.program, &frame.generics, Source::Expr(expr), self.mode());
        let code = Arc::new(code);
        let (outer, slots) = (frame.code.take(), std::mem::take(&mut frame.slots));
        frame.prepare(&code);
        let done = self.run(frame, &code, 0);
        (frame.code, frame.slots) = (outer, slots);
        match done? {
            Done::End(value) => Ok(value),
            Done::Return(value, at) => Err(Signal::Return(value, at)),
        }
    }

    /// Evaluates the block of an expression.
    pub(super) fn block(&mut self, frame: &mut Frame, block: &Block) -> Eval {
        match (&block.stmts[..], &block.tail) {
            ([], Some(tail)) => self.eval(frame, tail),
            ([], None) => Ok(Value::Unit),
            _ => {
                let kind = crate::check::typed::ExprKind::Block(block.clone());
                self.by_itself(frame, &Expr { kind, ty: crate::check::typed::Type::Unknown, span: block.span })
            }
        }
    }
}

/// Whether a loop goes on.
#[inline(always)]
fn counts(counter: i64, end: i64, up: bool, inclusive: bool) -> bool {
    match (up, inclusive) {
        (true, false) => counter < end,
        (true, true) => counter <= end,
        (false, false) => counter > end,
        (false, true) => counter >= end,
    }
}
