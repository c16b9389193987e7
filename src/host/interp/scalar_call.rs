//! Fast path for calls of functions without compile-time parameters, if all arguments are scalars or array variables.
//! Also contains the caches of compiled code.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::array::{Array, ElementType};
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{ArrayType, Dim, Fn, FnId, ScriptChunk, Type};
use clk_lower::GenericArgument;

use super::bytecode::RunEnd;
use super::call::CallSpans;
use super::code::{self, CallOperand, CodeMode, CodeSource, Dest, HostCode};
use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;

/// Maximum number of cached instances of functions with compile-time parameters. A full cache is cleared.
const MAX_INSTANCES: usize = 4096;
/// Maximum number of frames kept for reuse.
const MAX_FREE_FRAMES: usize = 64;

impl EvalContext<'_> {
    /// Returns the code of a function without compile-time parameters.
    pub(super) fn function_code(&mut self, id: FnId, function: &Fn, span: Span) -> Eval<Arc<HostCode>> {
        let checked = self.checks_arithmetic();
        let Some(body) = &function.body else { return Err(self.internal_error(span, "a function without a body ran")) };
        let plain = &self.interp.caches.codes.plain;
        if let Some(code) = plain.get(id.index()).and_then(|both| both[usize::from(checked)].as_ref())
            && code.body.as_ref().is_some_and(|of| Arc::ptr_eq(of, body))
        {
            return Ok(code.clone());
        }
        // The code is not traced: `call_scalar_function` is never reached with traced arguments.
        let code =
            code::build(self.program, &[], CodeSource::Body(body), CodeMode { checked, traced: false }).share(body);
        let plain = &mut self.interp.caches.codes.plain;
        if plain.len() <= id.index() {
            plain.resize(id.index() + 1, [None, None]);
        }
        plain[id.index()][usize::from(checked)] = Some(code.clone());
        Ok(code)
    }

    /// Returns the code of a body for the given compile-time arguments.
    pub(super) fn instance_code(
        &mut self,
        body: &Arc<clk_check::typed::Body>,
        generics: &Arc<[GenericArgument]>,
    ) -> Arc<HostCode> {
        let mode = self.code_mode();
        let key = (Arc::as_ptr(body).addr(), generics.clone(), mode);
        if let Some(code) = self.interp.caches.codes.instances.get(&key) {
            return code.clone();
        }
        let code = code::build(self.program, generics, CodeSource::Body(body), mode).share(body);
        if self.interp.caches.codes.instances.len() >= MAX_INSTANCES {
            self.interp.caches.codes.instances.clear();
        }
        self.interp.caches.codes.instances.insert(key, code.clone());
        code
    }

    /// Returns the code of a script chunk.
    pub(super) fn chunk_code(&mut self, chunk: &Arc<ScriptChunk>) -> Arc<HostCode> {
        let key = (Arc::as_ptr(chunk).addr(), self.code_mode());
        if let Some((_, code)) = self.interp.caches.codes.chunks.get(&key) {
            return code.clone();
        }
        let source = CodeSource::Chunk(&chunk.body, &self.interp.globals);
        let code = Arc::new(code::build(self.program, &[], source, self.code_mode()));
        let chunks = &mut self.interp.caches.codes.chunks;
        if chunks.len() >= MAX_INSTANCES {
            chunks.clear();
        }
        if !code.loops_in_script {
            chunks.insert(key, (chunk.clone(), code.clone()));
        }
        code
    }

    /// Clears a frame and stores it for reuse by later calls.
    pub(super) fn recycle_frame(&mut self, mut frame: Box<HostFrame>) {
        if self.interp.caches.frames.len() < MAX_FREE_FRAMES {
            frame.clear();
            self.interp.caches.frames.push(frame);
        }
    }

    /// Returns an error if one more call would exceed the depth limit.
    pub(super) fn check_depth(&self, function: &Fn, span: Span) -> Eval<()> {
        let Some(limit) = self.interp.stack.exceeded_limit() else { return Ok(()) };
        let title = format!("calls are nested more than {limit} deep");
        let says = format!("`{}` is called once more here", function.name);
        let diagnostic = Diagnostic::error("E0517", title).at(span, says);
        Err(self.error(diagnostic.help("does the recursion end? a loop needs no depth")))
    }

    /// Executes the instruction [`code::HostOp::Call`].
    pub(super) fn call_scalar_function(
        &mut self,
        frame: &mut HostFrame,
        code: &HostCode,
        call: u32,
        dst: Dest,
        pc: usize,
    ) -> Eval<()> {
        let (call, span) = (&code.calls[call as usize], code.spans[pc]);
        let program = self.program;
        let function = &program.fns[call.id];
        // While provenance is recorded, the fast path is not used, because its code keeps floats in slots, which are
        // not traced.
        if self.interp.observers.recorded_launches.is_some() {
            return self.call_with_binding(frame, function, call, dst, span);
        }
        let callee = self.function_code(call.id, function, span)?;
        // Each call checks for a stop request, because recursion can run forever without a loop.
        if self.interp.options.control.stop.load(Ordering::Relaxed) {
            self.check_stop(span)?;
        }
        let mut inner = self.interp.caches.frames.pop().unwrap_or_else(|| Box::new(HostFrame::empty()));
        inner.dims.resize(function.sig.dims.len(), None);
        if !self.pass_arguments(frame, &mut inner, &callee, function, call) {
            return self.call_with_binding(frame, function, call, dst, span);
        }
        self.check_depth(function, span)?;
        self.interp.stack.depth += 1;
        let done = self.run_code(&mut inner, &callee, 0);
        self.interp.stack.depth -= 1;
        let value = self.finish_call(done, function, &mut inner, span)?;
        self.recycle_frame(inner);
        match (&value, dst) {
            (HostValue::Scalar(number), Dest::Slot(slot, ty)) if number.ty == ty => {
                frame.slots[slot as usize] = number.bits;
                Ok(())
            }
            _ => self.store_value(frame, Some(value), dst, span),
        }
    }

    /// Stores the arguments in the registers of the callee's frame, and binds its dimensions. Returns false if the type
    /// or shape of an argument does not match the signature, or needs a conversion.
    fn pass_arguments(
        &self,
        frame: &HostFrame,
        inner: &mut HostFrame,
        callee: &Arc<HostCode>,
        function: &Fn,
        call: &code::ScalarCall,
    ) -> bool {
        inner.prepare(callee);
        for (i, (arg, param)) in call.args.iter().zip(&function.sig.params).enumerate() {
            match (*arg, &param.ty) {
                (CallOperand::Scalar(slot, ty), Type::Scalar(wanted)) if ty == *wanted => {
                    let bits = frame.slots[slot as usize];
                    match callee.scalars.get(i) {
                        Some(Some(_)) => inner.slots[i] = bits,
                        _ => inner.locals[i] = Some(HostValue::Scalar(clk_scalar::ScalarValue { ty, bits })),
                    }
                }
                (CallOperand::Array(base), Type::Array(wanted)) => match self.variable_value(frame, base) {
                    Some(HostValue::Array(array)) if bind_dims(array, wanted, &mut inner.dims) => {
                        inner.locals[i] = Some(HostValue::Array(array.clone()));
                    }
                    _ => return false,
                },
                _ => return false,
            }
        }
        true
    }

    /// Executes a call on the slow path: with general argument binding, which reports errors and handles types that are
    /// known only at run time.
    #[inline(never)]
    fn call_with_binding(
        &mut self,
        frame: &mut HostFrame,
        function: &Fn,
        call: &code::ScalarCall,
        dst: Dest,
        span: Span,
    ) -> Eval<()> {
        self.interp.stack.span = call.stmt_span;
        let mut values = Vec::with_capacity(call.args.len());
        for (arg, span) in call.args.iter().zip(&call.spans) {
            values.push(match *arg {
                CallOperand::Scalar(slot, ty) => {
                    HostValue::Scalar(clk_scalar::ScalarValue { ty, bits: frame.slots[slot as usize] })
                }
                CallOperand::Array(base) => match self.variable_value(frame, base) {
                    Some(value) => value.clone(),
                    None => return Err(self.unset_variable(*span)),
                },
            });
        }
        let mut inner = self.call_frame(frame, &function.sig, &[], &values, &call.spans)?;
        let value = self.run_body(function, &mut inner, values, CallSpans { call: span, args: &call.spans })?;
        self.store_value(frame, Some(value), dst, span)
    }

    /// Checks the result of a call against the signature. If the call failed, adds the call to the call trace of the
    /// error.
    pub(super) fn finish_call(&mut self, done: Eval<RunEnd>, function: &Fn, inner: &mut HostFrame, span: Span) -> Eval {
        let (value, at) = match done {
            Ok(RunEnd::Return(value, at)) | Err(Signal::Return(value, at)) => (value, at),
            Ok(RunEnd::End(value)) => {
                let tail = function.body.as_ref().and_then(|body| body.root.tail.as_ref().map(|tail| tail.span));
                (value, tail.unwrap_or(span))
            }
            Err(Signal::Error(fault)) => {
                return Err(Signal::Error(Box::new(self.add_call_label(*fault, function, span))));
            }
            Err(other) => return Err(other),
        };
        match (&function.result, &value) {
            (Type::Scalar(ty), HostValue::Scalar(number)) if *ty == number.ty => Ok(value),
            _ => self.check_result(function, inner, value, at),
        }
    }
}

/// Binds the dimensions of an array parameter. Returns false if the array does not match the parameter's type.
fn bind_dims(array: &Array, wanted: &ArrayType, dims: &mut [Option<i64>]) -> bool {
    let is_same = match (array.element(), &wanted.element) {
        (ElementType::Scalar(found), Type::Scalar(wanted)) => found == wanted,
        (ElementType::Vector(found, n), Type::Vector(wanted, m)) => found == wanted && n == m,
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
