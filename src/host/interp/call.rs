//! Calls of host functions: binds the arguments, runs the function, and copies `out` and `inout` parameters back.

use std::sync::Arc;

use crate::grad;
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_base::{alloc, stop};
use clk_check::typed::{Access, Expr, ExprKind, Fn, FnRef, GenericArg, GenericKind, LocalId, Param, Signature, Type};
use clk_lower::{FunctionInstance, GenericArgument};
use clk_scalar::builtin::Builtin;

use super::assign::AccessStep;
use super::bind::{Binder, BoundArgument};
use super::bytecode::RunEnd;
use super::call_cache::{CallCache, CallKey, CheckedCall};
use super::code::HostCode;
use super::context::{Eval, EvalContext, Signal};
use super::frame::HostFrame;
use super::type_mismatch::{TypeMismatch, ValueDestination};

/// An argument for an `out` or `inout` parameter: an lvalue of the caller, evaluated to its root variable and access
/// path.
struct ByRefArgument<'e> {
    /// The index of the parameter.
    param: usize,
    arg: &'e Expr,
    root: &'e Expr,
    steps: Vec<AccessStep>,
}

/// A call of a function of the program.
#[derive(Clone, Copy)]
struct FnCall<'e> {
    function: &'e Fn,
    generics: &'e [GenericArg],
    args: &'e [Expr],
    span: Span,
}

/// The locations of a call and of its arguments.
#[derive(Clone, Copy)]
pub(super) struct CallSpans<'s> {
    pub call: Span,
    /// May be empty. The location of the call is then used for all arguments.
    pub args: &'s [Span],
}

impl CallSpans<'_> {
    fn arg(&self, i: usize) -> Span {
        self.args.get(i).copied().unwrap_or(self.call)
    }
}

impl EvalContext<'_> {
    pub(crate) fn call(&mut self, frame: &mut HostFrame, callee: &FnRef, args: &[Expr], span: Span) -> Eval {
        match callee {
            FnRef::Fn { id, generics } => {
                let function = &self.program.fns[*id];
                let (values, places) = self.eval_arguments(frame, &function.sig, args)?;
                let mut inner = self.interp.caches.frames.pop().unwrap_or_else(|| Box::new(HostFrame::empty()));
                let call = FnCall { function, generics, args, span };
                let result = self.call_cached(frame, &mut inner, call, values)?;
                self.copy_out(frame, &places, &mut inner)?;
                self.recycle_frame(inner);
                Ok(result)
            }
            FnRef::Param(_) | FnRef::Builtin(_) => {
                let values = self.eval_all(frame, args)?;
                self.call_with(frame, callee, values, span)
            }
        }
    }

    /// Calls a function in a new frame. Reuses the bindings of an earlier call with matching arguments.
    fn call_cached(
        &mut self,
        frame: &mut HostFrame,
        inner: &mut HostFrame,
        call: FnCall<'_>,
        mut values: Vec<HostValue>,
    ) -> Eval {
        let FnCall { function, generics, args, span } = call;
        let Some(body) = &function.body else { return Err(self.internal_error(span, "a function without a body ran")) };
        let (caller, mode) = (frame.generics.clone(), self.code_mode());
        let like = CallKey { body, caller: &caller, mode, values: &values };
        if let Some(cached) = self.interp.caches.calls.find(&like, span) {
            inner.generics = cached.generics.clone();
            inner.dims.clone_from(&cached.dims);
            self.check_stop(span)?;
            let spans = CallSpans { call: span, args: &[] };
            return self.run_checked(function, inner, &cached.code, Some(&cached), values, spans);
        }
        let arg_spans: Vec<Span> = args.iter().map(|a| a.span).collect();
        *inner = self.call_frame(frame, &function.sig, generics, &values, &arg_spans)?;
        let kinds = CallCache::cacheable_kinds(&function.sig, generics, &values);
        let spans = CallSpans { call: span, args: &arg_spans };
        let code = self.check_arguments(function, inner, &mut values, spans)?;
        let key = CallKey { body, caller: &caller, mode, values: &values };
        let cached = kinds.map(|kinds| self.interp.caches.calls.insert(&key, kinds, inner, &code, span));
        self.run_checked(function, inner, &code, cached.as_deref(), values, spans)
    }

    /// Calls a function with evaluated arguments.
    pub(crate) fn call_with(
        &mut self,
        frame: &mut HostFrame,
        callee: &FnRef,
        values: Vec<HostValue>,
        span: Span,
    ) -> Eval {
        let function = self.resolve_function(frame, callee, span)?;
        self.call_instance(&function, values, span)
    }

    /// Calls a function whose compile-time arguments are known.
    fn call_instance(&mut self, function: &FunctionInstance, values: Vec<HostValue>, span: Span) -> Eval {
        match function {
            FunctionInstance::Builtin(Builtin::Math(f)) => {
                grad::ops::math(&self.exec, *f, &values).map_err(|p| self.problem(p, span))
            }
            FunctionInstance::Builtin(_) => {
                Err(self.internal_error(span, "this builtin cannot be passed as a function"))
            }
            FunctionInstance::Fn { id, arguments } => {
                let program = self.program;
                let callee = &program.fns[*id];
                let mut inner = self.instance_frame(&callee.sig, arguments.clone().into(), &values, &[], span)?;
                self.run_body(callee, &mut inner, values, CallSpans { call: span, args: &[] })
            }
        }
    }

    pub(super) fn run_body(
        &mut self,
        function: &Fn,
        inner: &mut HostFrame,
        mut values: Vec<HostValue>,
        spans: CallSpans<'_>,
    ) -> Eval {
        let code = self.check_arguments(function, inner, &mut values, spans)?;
        self.run_checked(function, inner, &code, None, values, spans)
    }

    /// Checks and converts bound arguments. Returns the function's code.
    fn check_arguments(
        &mut self,
        function: &Fn,
        inner: &mut HostFrame,
        values: &mut [HostValue],
        spans: CallSpans<'_>,
    ) -> Eval<Arc<HostCode>> {
        let Some(body) = &function.body else {
            return Err(self.internal_error(spans.call, "a function without a body ran"));
        };
        // Each call checks for a stop request, because recursion can run forever without a loop.
        self.check_stop(spans.call)?;
        for (i, (param, value)) in function.sig.params.iter().zip(values).enumerate() {
            self.check_argument(&function.sig, inner, param, value, spans.arg(i))?;
        }
        Ok(self.instance_code(body, &inner.generics))
    }

    /// Runs a function with checked arguments. `cached` is the call's entry in the call cache, if it has one.
    fn run_checked(
        &mut self,
        function: &Fn,
        inner: &mut HostFrame,
        code: &Arc<HostCode>,
        cached: Option<&CheckedCall>,
        values: Vec<HostValue>,
        spans: CallSpans<'_>,
    ) -> Eval {
        inner.prepare(code);
        for (i, value) in values.into_iter().enumerate() {
            self.set_local(inner, LocalId::new(i), value, spans.arg(i))?;
        }
        self.check_depth(function, spans.call)?;
        self.interp.stack.depth += 1;
        let done = self.run_code(inner, code, 0);
        self.interp.stack.depth -= 1;
        let Some(cached) = cached else { return self.finish_call(done, function, inner, spans.call) };
        match done {
            Ok(RunEnd::End(value) | RunEnd::Return(value, _)) if cached.has_checked_result(&value) => Ok(value),
            done => {
                let value = self.finish_call(done, function, inner, spans.call)?;
                cached.note_result(&value);
                Ok(value)
            }
        }
    }

    /// Checks an argument against computed dimensions, which binding does not check, and converts untyped literals.
    fn check_argument(
        &mut self,
        sig: &Signature,
        inner: &mut HostFrame,
        param: &Param,
        value: &mut HostValue,
        at: Span,
    ) -> Eval<()> {
        if let (Type::Scalar(s), HostValue::Scalar(number)) = (&param.ty, &*value)
            && *s == number.ty
        {
            return Ok(());
        }
        let mut extents = self.signature_extents(sig, &param.ty, inner)?;
        let Err(mismatch) = self.conform(inner, &mut extents, &param.ty, value) else { return Ok(()) };
        let expected = self.interp.caches.layouts.format_type(&param.ty, sig);
        let code = if matches!(mismatch, TypeMismatch::Type) { "E0512" } else { "E0511" };
        let place = ValueDestination {
            code,
            description: format!("`{}` must be `{expected}`", param.name),
            declared: Some(param.span),
        };
        Err(self.mismatch_error(&mismatch, &place, value, at))
    }

    /// Checks a function's result against its signature, and converts untyped literals.
    pub(super) fn check_result(
        &mut self,
        function: &Fn,
        inner: &mut HostFrame,
        mut value: HostValue,
        at: Span,
    ) -> Eval {
        match (&function.result, &value) {
            (Type::Unit, _) => return Ok(value),
            (Type::Scalar(s), HostValue::Scalar(number)) if *s == number.ty => return Ok(value),
            _ => {}
        }
        let mut extents = self.signature_extents(&function.sig, &function.result, inner)?;
        let Err(mismatch) = self.conform(inner, &mut extents, &function.result, &mut value) else { return Ok(value) };
        let expected = self.sources.slice(function.result_span);
        let description = format!("`{}` is declared to give `{expected}`", function.name);
        let place = ValueDestination { code: "E0524", description, declared: Some(function.result_span) };
        Err(self.mismatch_error(&mismatch, &place, &value, at))
    }

    /// Adds a call to the call trace of an error. The trace shows the innermost calls, the outermost one, which is the
    /// user's own line, and the number of the others.
    pub(super) fn add_call_label(&mut self, mut fault: Diagnostic, function: &Fn, call: Span) -> Diagnostic {
        const SHOWN: usize = 3;
        let says = format!("`{}` is called here", function.name);
        let shown = fault.labels.iter().filter(|label| label.text.ends_with("is called here")).count();
        let repeated = fault.labels.iter().any(|label| label.span == call);
        if !repeated && (shown < SHOWN || self.interp.stack.depth == 0) {
            fault = fault.because(call, says);
        } else {
            self.interp.stack.unshown_calls += 1;
        }
        if self.interp.stack.depth == 0 {
            match std::mem::take(&mut self.interp.stack.unshown_calls) {
                0 => {}
                1 => fault = fault.note("one more call leads here"),
                n => fault = fault.note(format!("{n} more calls lead here")),
            }
        }
        fault
    }

    /// Evaluates arguments from left to right, and the lvalues of arguments passed by reference. Lvalues are evaluated
    /// once, because their indices may have side effects.
    fn eval_arguments<'e>(
        &mut self,
        frame: &mut HostFrame,
        sig: &Signature,
        args: &'e [Expr],
    ) -> Eval<(Vec<HostValue>, Vec<ByRefArgument<'e>>)> {
        let mut values = alloc::vec(args.len());
        let mut places = Vec::new();
        for (i, arg) in stop::polled(args).enumerate() {
            if sig.params.get(i).is_none_or(|param| param.access == Access::In) {
                values.push(self.eval(frame, arg)?);
                continue;
            }
            let (root, steps) = self.access_path(frame, arg)?;
            let moved = if steps.is_empty() { self.take_movable(root) } else { None };
            values.push(match moved {
                Some(value) => value,
                None => self.read_path(frame, arg, root, &steps)?,
            });
            places.push(ByRefArgument { param: i, arg, root, steps });
        }
        Ok((values, places))
    }

    /// Moves an argument of a call from another language out of its global: see
    /// [`Interpreter::movable_globals`](super::Interpreter::movable_globals).
    fn take_movable(&mut self, root: &Expr) -> Option<HostValue> {
        let ExprKind::Global(id) = root.kind else { return None };
        let is_moved = self.interp.movable_globals.contains(&id.index());
        self.interp.globals.get_mut(id.index()).filter(|_| is_moved)?.take()
    }

    /// Copies the values of `out` and `inout` parameters back to the lvalues that were passed.
    fn copy_out(&mut self, frame: &mut HostFrame, places: &[ByRefArgument<'_>], inner: &mut HostFrame) -> Eval<()> {
        for place in places {
            // The value is moved out of the callee's frame, so that the caller has the only reference to the array.
            let own = inner.locals.get_mut(place.param).and_then(Option::take);
            let value = own.or_else(|| inner.get(LocalId::new(place.param)));
            if let Some(value) = value {
                self.write_path(frame, place.arg, place.root, &place.steps, value)?;
            }
        }
        Ok(())
    }

    /// Creates the frame of a call. Evaluates the explicit compile-time arguments in the caller's `frame`, and infers
    /// the other ones.
    pub(super) fn call_frame(
        &mut self,
        frame: &mut HostFrame,
        sig: &Signature,
        generics: &[GenericArg],
        values: &[HostValue],
        spans: &[Span],
    ) -> Eval<HostFrame> {
        let span = spans.first().copied().unwrap_or_default();
        let mut evaluated = Vec::with_capacity(generics.len());
        for (i, generic) in generics.iter().enumerate() {
            evaluated.push(self.eval_generic(frame, sig, i, generic, span)?);
        }
        let (arguments, dims) = self.infer_arguments(sig, evaluated, values, spans, span)?;
        Ok(HostFrame::new(arguments.into(), dims))
    }

    fn instance_frame(
        &mut self,
        sig: &Signature,
        arguments: Arc<[GenericArgument]>,
        values: &[HostValue],
        spans: &[Span],
        span: Span,
    ) -> Eval<HostFrame> {
        let evaluated = arguments.iter().cloned().map(Some).collect();
        let (arguments, dims) = self.infer_arguments(sig, evaluated, values, spans, span)?;
        Ok(HostFrame::new(arguments.into(), dims))
    }

    /// Infers type arguments and dimensions from the values of a call.
    fn infer_arguments(
        &mut self,
        sig: &Signature,
        given: Vec<Option<GenericArgument>>,
        values: &[HostValue],
        spans: &[Span],
        span: Span,
    ) -> Eval<(Vec<GenericArgument>, Vec<Option<i64>>)> {
        let (types, mut dims, late) = {
            let mut binder = Binder::new(sig, &self.interp.caches.layouts);
            for (slot, argument) in binder.types.iter_mut().zip(&given) {
                if let Some(GenericArgument::Type(ty)) = argument {
                    *slot = Some(ty.clone());
                }
            }
            for (i, (param, value)) in sig.params.iter().zip(values).enumerate() {
                let span = spans.get(i).copied().unwrap_or(span);
                binder
                    .bind_argument(&BoundArgument { name: &param.name, ty: &param.ty, value, span })
                    .map_err(Signal::Error)?;
            }
            (binder.types, binder.dims, binder.expr_extents)
        };
        let mut arguments = Vec::with_capacity(given.len());
        for (i, argument) in given.into_iter().enumerate() {
            let argument = self.resolve_argument(sig, i, argument, types[i].clone(), &arguments, span)?;
            arguments.push(argument);
        }
        self.solve_dims(sig, &arguments, &mut dims, &late)?;
        Ok((arguments, dims.into_iter().map(|d| d.map(|(extent, _)| extent)).collect()))
    }

    /// Returns the value of a compile-time parameter: the explicit argument, the inferred type, or the default.
    pub(crate) fn resolve_argument(
        &mut self,
        sig: &Signature,
        i: usize,
        given: Option<GenericArgument>,
        found: Option<Type>,
        known: &[GenericArgument],
        span: Span,
    ) -> Eval<GenericArgument> {
        let generic = &sig.generics[i];
        if let Some(given) = given {
            // The type of a constant may be a type parameter, so it is only known now.
            let expected = match &generic.kind {
                GenericKind::Const { ty: Type::Param(t), .. } => known.get(*t as usize),
                _ => None,
            };
            return match (expected, &given) {
                (Some(GenericArgument::Type(Type::Scalar(expected))), GenericArgument::Const(value))
                    if value.ty != *expected =>
                {
                    Err(self.constant_type_error(&expected.to_string(), &HostValue::Scalar(*value), span))
                }
                _ => Ok(given),
            };
        }
        match (&generic.kind, found) {
            (GenericKind::Type { .. }, Some(ty)) => Ok(GenericArgument::Type(ty)),
            (GenericKind::Const { ty, default: Some(default) }, _) => {
                let default = default.clone();
                let value = self.eval(&mut HostFrame { generics: known.into(), ..HostFrame::empty() }, &default)?;
                self.check_constant(ty, value, span)
            }
            (GenericKind::Fn { default: Some(default), .. }, _) => {
                let mut before = HostFrame { generics: known.into(), ..HostFrame::empty() };
                Ok(GenericArgument::Fn(self.resolve_function(&mut before, default, span)?))
            }
            _ => Err(self.error(
                Diagnostic::error("E0518", format!("nothing says what `{}` is", generic.name))
                    .at(span, "in this call")
                    .help(format!("give it by name: `{} = …`", generic.name)),
            )),
        }
    }

    /// Evaluates a compile-time argument as written in the source. Returns `None` if it must be inferred.
    pub(crate) fn eval_generic(
        &mut self,
        frame: &mut HostFrame,
        sig: &Signature,
        i: usize,
        given: &GenericArg,
        span: Span,
    ) -> Eval<Option<GenericArgument>> {
        match given {
            GenericArg::Infer => Ok(None),
            GenericArg::Error => Err(self.internal_error(span, "a compile-time argument that was a mistake")),
            GenericArg::Type(ty) => match self.concrete(frame, ty) {
                Type::Unknown => Ok(None),
                ty => Ok(Some(GenericArgument::Type(ty))),
            },
            GenericArg::Const(expr) => {
                let value = self.eval(frame, expr)?;
                let Some(GenericKind::Const { ty, .. }) = sig.generics.get(i).map(|g| &g.kind) else {
                    return Err(self.internal_error(span, "a constant for a parameter that is none"));
                };
                self.check_constant(ty, value, expr.span).map(Some)
            }
            GenericArg::Fn(callee) => Ok(Some(GenericArgument::Fn(self.resolve_function(frame, callee, span)?))),
        }
    }

    fn check_constant(&mut self, ty: &Type, value: HostValue, span: Span) -> Eval<GenericArgument> {
        let value = match (ty, &value) {
            (Type::Scalar(s), HostValue::Int(_) | HostValue::Float(_)) => {
                value.adapt(*s).map_or(value, HostValue::Scalar)
            }
            (Type::Param(_), _) => value.with_default_type(),
            _ => value,
        };
        match (ty, value) {
            (Type::Scalar(expected), HostValue::Scalar(value)) if value.ty != *expected => {
                Err(self.constant_type_error(&expected.to_string(), &HostValue::Scalar(value), span))
            }
            (_, HostValue::Scalar(value)) => Ok(GenericArgument::Const(value)),
            (_, other) => Err(self.constant_type_error("number", &other, span)),
        }
    }

    fn constant_type_error(&self, expected: &str, value: &HostValue, span: Span) -> Signal {
        let place =
            ValueDestination { code: "E0512", description: format!("a `{expected}` is needed here"), declared: None };
        self.mismatch_error(&TypeMismatch::Type, &place, value, span)
    }

    /// Returns the function instance that a function reference denotes, including its compile-time arguments.
    pub(crate) fn resolve_function(
        &mut self,
        frame: &mut HostFrame,
        callee: &FnRef,
        span: Span,
    ) -> Eval<FunctionInstance> {
        match callee {
            FnRef::Builtin(b) => Ok(FunctionInstance::Builtin(*b)),
            FnRef::Param(i) => match frame.generics.get(*i as usize) {
                Some(GenericArgument::Fn(function)) => Ok(function.clone()),
                _ => Err(self.internal_error(span, "a function parameter has no value")),
            },
            FnRef::Fn { id, generics } => {
                let program = self.program;
                let sig = &program.fns[*id].sig;
                let mut arguments = Vec::with_capacity(generics.len());
                for (i, generic) in generics.iter().enumerate() {
                    let evaluated = self.eval_generic(frame, sig, i, generic, span)?;
                    let argument = self.resolve_argument(sig, i, evaluated, None, &arguments, span)?;
                    arguments.push(argument);
                }
                Ok(FunctionInstance::Fn { id: *id, arguments })
            }
        }
    }
}
