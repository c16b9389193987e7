//! Calls of functions without compile-time parameters, whose arguments are scalars and arrays of variables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{ArrayType, Chunk, Dim, Fn, FnId, Type};
use crate::host::array::{Array, Element};
use crate::host::value::Value;
use crate::lang::scalar;
use crate::lower::Argument;

use super::code::{self, Code, Dest, Mode, Passed, Source};
use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};
use super::run::Done;

/// Maximum number of compiled instances of functions with compile-time parameters; beyond it they are compiled again.
const KEPT: usize = 4096;
/// Maximum number of frames kept for reuse.
const FRAMES: usize = 64;

impl Machine<'_> {
    /// Returns the code of a function without compile-time parameters.
    pub(super) fn code_of(&mut self, id: FnId, function: &Fn, span: Span) -> Eval<Arc<Code>> {
        let checked = self.checked();
        let Some(body) = &function.body else { return Err(self.broken(span, "a function without a body ran")) };
        let plain = &self.interp.codes.plain;
        if let Some(code) = plain.get(id.index()).and_then(|both| both[usize::from(checked)].as_ref())
            && code.body.as_ref().is_some_and(|of| Arc::ptr_eq(of, body))
        {
            return Ok(code.clone());
        }
        // What is traced is no scalar in a slot and no array of a variable: this code does not get it.
        let code = code::build(self.program, &[], Source::Body(body), Mode { checked, traced: false }).of(body);
        let plain = &mut self.interp.codes.plain;
        if plain.len() <= id.index() {
            plain.resize(id.index() + 1, [None, None]);
        }
        plain[id.index()][usize::from(checked)] = Some(code.clone());
        Ok(code)
    }

    /// Returns the code of a body with compile-time arguments.
    pub(super) fn instance(&mut self, body: &Arc<crate::check::typed::Body>, generics: &Arc<[Argument]>) -> Arc<Code> {
        let mode = self.mode();
        let key = (Arc::as_ptr(body).addr(), generics.clone(), mode);
        if let Some(code) = self.interp.codes.others.get(&key) {
            return code.clone();
        }
        let code = code::build(self.program, generics, Source::Body(body), mode).of(body);
        if self.interp.codes.others.len() >= KEPT {
            self.interp.codes.others.clear();
        }
        self.interp.codes.others.insert(key, code.clone());
        code
    }

    /// Returns the code of statements of a script.
    pub(super) fn code_of_chunk(&mut self, chunk: &Arc<Chunk>) -> Arc<Code> {
        let key = (Arc::as_ptr(chunk).addr(), self.mode());
        if let Some((_, code)) = self.interp.codes.chunks.get(&key) {
            return code.clone();
        }
        let source = Source::Chunk(&chunk.body, &self.interp.globals);
        let code = Arc::new(code::build(self.program, &[], source, self.mode()));
        let chunks = &mut self.interp.codes.chunks;
        if chunks.len() >= KEPT {
            chunks.clear();
        }
        if !code.loops_in_script {
            chunks.insert(key, (chunk.clone(), code.clone()));
        }
        code
    }

    /// Keeps a frame for reuse.
    pub(super) fn keep(&mut self, mut frame: Box<Frame>) {
        if self.interp.frames.len() < FRAMES {
            frame.clear();
            self.interp.frames.push(frame);
        }
    }

    /// Returns an error if one call more would be too deep.
    pub(super) fn deeper(&self, function: &Fn, span: Span) -> Eval<()> {
        let Some(limit) = self.interp.too_deep() else { return Ok(()) };
        let title = format!("calls are nested more than {limit} deep");
        let says = format!("`{}` is called once more here", function.name);
        let diagnostic = Diagnostic::error("E0517", title).at(span, says);
        Err(self.error(diagnostic.help("does the recursion end? a loop needs no depth")))
    }

    /// Executes a call.
    pub(super) fn direct(&mut self, frame: &mut Frame, code: &Code, call: u32, dst: Dest, pc: usize) -> Eval<()> {
        let (call, span) = (&code.calls[call as usize], code.spans[pc]);
        let program = self.program;
        let function = &program.fns[call.id];
        // Code of that kind has floats in slots, of which nothing is kept.
        if self.interp.recorded.is_some() {
            return self.indirect(frame, function, call, dst, span);
        }
        let callee = self.code_of(call.id, function, span)?;
        // Recursion can run forever without a loop.
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            self.poll(span)?;
        }
        let mut inner = self.interp.frames.pop().unwrap_or_else(|| Box::new(Frame::empty()));
        inner.dims.resize(function.sig.dims.len(), None);
        if !self.pass(frame, &mut inner, &callee, function, call) {
            return self.indirect(frame, function, call, dst, span);
        }
        self.deeper(function, span)?;
        self.interp.depth += 1;
        let done = self.run(&mut inner, &callee, 0);
        self.interp.depth -= 1;
        let value = self.returned(done, function, &mut inner, span)?;
        self.keep(inner);
        match (&value, dst) {
            (Value::Scalar(number), Dest::Slot(slot, ty)) if number.ty == ty => {
                frame.slots[slot as usize] = number.bits;
                Ok(())
            }
            _ => self.deliver(frame, Some(value), dst, span),
        }
    }

    /// Puts the arguments into the registers of a function and binds its dimensions. Returns false if they do not fit simply, or
    /// not at all.
    fn pass(&self, frame: &Frame, inner: &mut Frame, callee: &Arc<Code>, function: &Fn, call: &code::Call) -> bool {
        inner.prepare(callee);
        for (i, (arg, param)) in call.args.iter().zip(&function.sig.params).enumerate() {
            match (*arg, &param.ty) {
                (Passed::Scalar(slot, ty), Type::Scalar(wanted)) if ty == *wanted => {
                    let bits = frame.slots[slot as usize];
                    match callee.scalars.get(i) {
                        Some(Some(_)) => inner.slots[i] = bits,
                        _ => inner.locals[i] = Some(Value::Scalar(scalar::Value { ty, bits })),
                    }
                }
                (Passed::Array(base), Type::Array(wanted)) => match self.base(frame, base) {
                    Some(Value::Array(array)) if bind(array, wanted, &mut inner.dims) => {
                        inner.locals[i] = Some(Value::Array(array.clone()));
                    }
                    _ => return false,
                },
                _ => return false,
            }
        }
        true
    }

    /// Executes a call whose arguments have to be looked at: an error, or a type that only run time knows.
    #[inline(never)]
    fn indirect(&mut self, frame: &mut Frame, function: &Fn, call: &code::Call, dst: Dest, span: Span) -> Eval<()> {
        self.interp.at = call.at;
        let mut values = Vec::with_capacity(call.args.len());
        for (arg, span) in call.args.iter().zip(&call.spans) {
            values.push(match *arg {
                Passed::Scalar(slot, ty) => Value::Scalar(scalar::Value { ty, bits: frame.slots[slot as usize] }),
                Passed::Array(base) => match self.base(frame, base) {
                    Some(value) => value.clone(),
                    None => return Err(self.unset(*span)),
                },
            });
        }
        let mut inner = self.enter(frame, &function.sig, &[], &values, &call.spans)?;
        let value = self.run_body(function, &mut inner, values, &call.spans, span)?;
        self.deliver(frame, Some(value), dst, span)
    }

    /// Returns the result of a call, or its error with the call in its trace.
    pub(super) fn returned(&mut self, done: Eval<Done>, function: &Fn, inner: &mut Frame, span: Span) -> Eval {
        let (value, at) = match done {
            Ok(Done::Return(value, at)) | Err(Signal::Return(value, at)) => (value, at),
            Ok(Done::End(value)) => {
                let tail = function.body.as_ref().and_then(|body| body.root.tail.as_ref().map(|tail| tail.span));
                (value, tail.unwrap_or(span))
            }
            Err(Signal::Error(fault)) => return Err(Signal::Error(Box::new(self.traced(*fault, function, span)))),
            Err(other) => return Err(other),
        };
        match (&function.result, &value) {
            (Type::Scalar(ty), Value::Scalar(number)) if *ty == number.ty => Ok(value),
            _ => self.result(function, inner, value, at),
        }
    }
}

/// Binds the dimensions of an array parameter; false if the array does not fit.
fn bind(array: &Array, wanted: &ArrayType, dims: &mut [Option<i64>]) -> bool {
    let is_same = match (array.element(), &wanted.element) {
        (Element::Scalar(found), Type::Scalar(wanted)) => found == wanted,
        (Element::Vector(found, n), Type::Vector(wanted, m)) => found == wanted && n == m,
        _ => false,
    };
    is_same
        && array.rank() == wanted.dims.len()
        && wanted.dims.iter().zip(array.shape()).all(|(dim, &extent)| {
            let extent = extent as i64;
            match dim {
                Dim::Known(known) => *known == extent,
                Dim::Name(i) => dims.get_mut(*i as usize).is_some_and(|slot| *slot.get_or_insert(extent) == extent),
                Dim::Unknown => true,
                Dim::Expr(_) | Dim::Local(_) => false,
            }
        })
}
