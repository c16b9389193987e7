//! Calls of host functions, and scalar functions lifted over arrays.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::base::{room, stop};
use crate::check::typed::{
    Access, Expr, ExprKind, Fn, FnRef, GenericArg, GenericKind, LocalId, Param, Signature, Type,
};
use crate::host::grad;
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lower::{Argument, Function};

use super::assign::Step;
use super::bind::{Binder, Given};
use super::code::Code;
use super::conform::{Misfit, Place};
use super::frame::Frame;
use super::machine::{Eval, Machine, Signal};
use super::run::Done;
use super::visit::{Like, Visit, Visits};

/// An argument passed by reference, as an lvalue of the caller.
struct Lent<'e> {
    /// The number of the parameter.
    param: usize,
    arg: &'e Expr,
    root: &'e Expr,
    steps: Vec<Step>,
}

impl Machine<'_> {
    pub(crate) fn call(&mut self, frame: &mut Frame, callee: &FnRef, args: &[Expr], span: Span) -> Eval {
        match callee {
            FnRef::Fn { id, generics } => {
                let function = &self.program.fns[*id];
                let (values, places) = self.arguments(frame, &function.sig, args)?;
                let mut inner = self.interp.frames.pop().unwrap_or_else(|| Box::new(Frame::empty()));
                let result = self.visited(frame, &mut inner, (function, generics, args), values, span)?;
                self.copy_out(frame, &places, &mut inner)?;
                self.keep(inner);
                Ok(result)
            }
            FnRef::Param(_) | FnRef::Builtin(_) => {
                let values = self.values(frame, args)?;
                self.call_with(frame, callee, values, span)
            }
        }
    }

    /// Calls a function in a new frame; what was found out about arguments like these at this call is not looked at again.
    fn visited(
        &mut self,
        frame: &mut Frame,
        inner: &mut Frame,
        (function, generics, args): (&Fn, &[GenericArg], &[Expr]),
        mut values: Vec<Value>,
        span: Span,
    ) -> Eval {
        let Some(body) = &function.body else { return Err(self.broken(span, "a function without a body ran")) };
        let (caller, mode) = (frame.generics.clone(), self.mode());
        let like = Like { body, caller: &caller, mode, values: &values };
        if let Some(visit) = self.interp.visits.find(&like, span) {
            inner.generics = visit.generics.clone();
            inner.dims.clone_from(&visit.dims);
            self.poll(span)?;
            return self.run_code(function, inner, (&visit.code, Some(&visit)), values, (&[], span));
        }
        let spans: Vec<Span> = args.iter().map(|a| a.span).collect();
        *inner = self.enter(frame, &function.sig, generics, &values, &spans)?;
        let kinds = Visits::may_keep(&function.sig, generics, &values);
        let code = self.admit(function, inner, &mut values, &spans, span)?;
        let found = (&inner.generics, &inner.dims[..]);
        let visits = &mut self.interp.visits;
        let visit = kinds.map(|kinds| visits.keep((body, &caller, mode), kinds, found, &code, span));
        self.run_code(function, inner, (&code, visit.as_deref()), values, (&spans, span))
    }

    /// Calls a function with evaluated arguments.
    pub(crate) fn call_with(&mut self, frame: &mut Frame, callee: &FnRef, values: Vec<Value>, span: Span) -> Eval {
        let function = self.function(frame, callee, span)?;
        self.apply(&function, values, span)
    }

    /// Calls a function whose compile-time arguments are known.
    fn apply(&mut self, function: &Function, values: Vec<Value>, span: Span) -> Eval {
        match function {
            Function::Builtin(Builtin::Math(f)) => grad::ops::math(*f, &values).map_err(|p| self.problem(p, span)),
            Function::Builtin(_) => Err(self.broken(span, "this builtin cannot be passed as a function")),
            Function::Fn { id, arguments } => {
                let program = self.program;
                let callee = &program.fns[*id];
                let mut inner = self.frame_for(&callee.sig, arguments.clone().into(), &values, &[], span)?;
                self.run_body(callee, &mut inner, values, &[], span)
            }
        }
    }

    pub(super) fn run_body(
        &mut self,
        function: &Fn,
        inner: &mut Frame,
        mut values: Vec<Value>,
        spans: &[Span],
        span: Span,
    ) -> Eval {
        let code = self.admit(function, inner, &mut values, spans, span)?;
        self.run_code(function, inner, (&code, None), values, (spans, span))
    }

    /// Checks and converts the arguments of a call that were bound; returns the function's code.
    fn admit(
        &mut self,
        function: &Fn,
        inner: &mut Frame,
        values: &mut [Value],
        spans: &[Span],
        span: Span,
    ) -> Eval<Arc<Code>> {
        let Some(body) = &function.body else { return Err(self.broken(span, "a function without a body ran")) };
        // Recursion can run forever without a loop.
        self.poll(span)?;
        for (i, (param, value)) in function.sig.params.iter().zip(values).enumerate() {
            self.argument(&function.sig, inner, param, value, spans.get(i).copied().unwrap_or(span))?;
        }
        Ok(self.instance(body, &inner.generics))
    }

    /// Runs a function with arguments that were checked.
    fn run_code(
        &mut self,
        function: &Fn,
        inner: &mut Frame,
        (code, visit): (&Arc<Code>, Option<&Visit>),
        values: Vec<Value>,
        (spans, span): (&[Span], Span),
    ) -> Eval {
        inner.prepare(code);
        for (i, value) in values.into_iter().enumerate() {
            self.set_local(inner, LocalId::new(i), value, spans.get(i).copied().unwrap_or(span))?;
        }
        self.deeper(function, span)?;
        self.interp.depth += 1;
        let done = self.run(inner, code, 0);
        self.interp.depth -= 1;
        let Some(visit) = visit else { return self.returned(done, function, inner, span) };
        match done {
            Ok(Done::End(value) | Done::Return(value, _)) if visit.has_given(&value) => Ok(value),
            done => {
                let value = self.returned(done, function, inner, span)?;
                visit.gives(&value);
                Ok(value)
            }
        }
    }

    /// Checks and converts an argument where binding has not done so: computed dimensions, and untyped literals.
    fn argument(&mut self, sig: &Signature, inner: &mut Frame, param: &Param, value: &mut Value, at: Span) -> Eval<()> {
        if let (Type::Scalar(s), Value::Scalar(number)) = (&param.ty, &*value)
            && *s == number.ty
        {
            return Ok(());
        }
        let mut extents = self.extents_in(sig, &param.ty, inner)?;
        let Err(misfit) = self.fits(inner, &mut extents, &param.ty, value) else { return Ok(()) };
        let wanted = self.interp.layouts.type_text(&param.ty, sig);
        let code = if matches!(misfit, Misfit::Type) { "E0512" } else { "E0511" };
        let place = Place { code, what: format!("`{}` has to be `{wanted}`", param.name), declared: Some(param.span) };
        Err(self.misfit(&misfit, &place, value, at))
    }

    /// Checks the result of a function against its signature and converts literals.
    pub(super) fn result(&mut self, function: &Fn, inner: &mut Frame, mut value: Value, at: Span) -> Eval {
        match (&function.result, &value) {
            (Type::Unit, _) => return Ok(value),
            (Type::Scalar(s), Value::Scalar(number)) if *s == number.ty => return Ok(value),
            _ => {}
        }
        let mut extents = self.extents_in(&function.sig, &function.result, inner)?;
        let Err(misfit) = self.fits(inner, &mut extents, &function.result, &mut value) else { return Ok(value) };
        let wanted = self.sources.slice(function.result_span);
        let what = format!("`{}` is declared to give `{wanted}`", function.name);
        let place = Place { code: "E0524", what, declared: Some(function.result_span) };
        Err(self.misfit(&misfit, &place, &value, at))
    }

    /// Adds a call to the trace of an error: the innermost calls are shown, the others counted.
    pub(super) fn traced(&mut self, mut fault: Diagnostic, function: &Fn, call: Span) -> Diagnostic {
        const SHOWN: usize = 3;
        let says = format!("`{}` is called here", function.name);
        let shown = fault.labels.iter().filter(|label| label.text.ends_with("is called here")).count();
        let repeated = fault.labels.iter().any(|label| label.span == call);
        if shown < SHOWN && !repeated {
            fault = fault.because(call, says);
        } else {
            self.interp.left += 1;
        }
        if self.interp.depth == 0 {
            match std::mem::take(&mut self.interp.left) {
                0 => {}
                1 => fault = fault.note("one more call leads here"),
                n => fault = fault.note(format!("{n} more calls lead here")),
            }
        }
        fault
    }

    /// Evaluates arguments from left to right, and the lvalues of those passed by reference. These are evaluated once, as their
    /// indices may have side effects.
    fn arguments<'e>(
        &mut self,
        frame: &mut Frame,
        sig: &Signature,
        args: &'e [Expr],
    ) -> Eval<(Vec<Value>, Vec<Lent<'e>>)> {
        let mut values = room::vec(args.len());
        let mut places = Vec::new();
        for (i, arg) in stop::polled(args).enumerate() {
            if sig.params.get(i).is_none_or(|param| param.access == Access::In) {
                values.push(self.eval(frame, arg)?);
                continue;
            }
            let (root, steps) = self.place(frame, arg)?;
            let moved = if steps.is_empty() { self.moved(root) } else { None };
            values.push(match moved {
                Some(value) => value,
                None => self.read(frame, arg, root, &steps)?,
            });
            places.push(Lent { param: i, arg, root, steps });
        }
        Ok((values, places))
    }

    /// Takes an argument of a call from outside: see [`Interpreter::moved`](super::Interpreter::moved).
    fn moved(&mut self, root: &Expr) -> Option<Value> {
        let ExprKind::Global(id) = root.kind else { return None };
        let is_moved = self.interp.moved.contains(&id.index());
        self.interp.globals.get_mut(id.index()).filter(|_| is_moved)?.take()
    }

    /// Copies `out` and `inout` parameters back to the lvalues that were passed.
    fn copy_out(&mut self, frame: &mut Frame, places: &[Lent<'_>], inner: &mut Frame) -> Eval<()> {
        for place in places {
            // Taken, so that the array is the caller's alone again.
            let own = inner.locals.get_mut(place.param).and_then(Option::take);
            let value = own.or_else(|| inner.get(LocalId::new(place.param)));
            if let Some(value) = value {
                self.put(frame, place.arg, (place.root, &place.steps), value)?;
            }
        }
        Ok(())
    }

    /// Creates a frame with the compile-time arguments of a call from `frame`.
    pub(super) fn enter(
        &mut self,
        frame: &mut Frame,
        sig: &Signature,
        generics: &[GenericArg],
        values: &[Value],
        spans: &[Span],
    ) -> Eval<Frame> {
        let span = spans.first().copied().unwrap_or_default();
        let mut given = Vec::with_capacity(generics.len());
        for (i, generic) in generics.iter().enumerate() {
            given.push(self.generic(frame, sig, i, generic, span)?);
        }
        let (arguments, dims) = self.fit(sig, given, values, spans, span)?;
        Ok(Frame::new(arguments.into(), dims))
    }

    fn frame_for(
        &mut self,
        sig: &Signature,
        arguments: Arc<[Argument]>,
        values: &[Value],
        spans: &[Span],
        span: Span,
    ) -> Eval<Frame> {
        let given = arguments.iter().cloned().map(Some).collect();
        let (arguments, dims) = self.fit(sig, given, values, spans, span)?;
        Ok(Frame::new(arguments.into(), dims))
    }

    /// Infers type arguments and dimensions from the values of a call.
    fn fit(
        &mut self,
        sig: &Signature,
        given: Vec<Option<Argument>>,
        values: &[Value],
        spans: &[Span],
        span: Span,
    ) -> Eval<(Vec<Argument>, Vec<Option<i64>>)> {
        let (types, mut dims, late) = {
            let mut binder = Binder::new(sig, &self.interp.layouts);
            for (slot, argument) in binder.types.iter_mut().zip(&given) {
                if let Some(Argument::Type(ty)) = argument {
                    *slot = Some(ty.clone());
                }
            }
            for (i, (param, value)) in sig.params.iter().zip(values).enumerate() {
                let span = spans.get(i).copied().unwrap_or(span);
                binder.fit(&Given { name: &param.name, ty: &param.ty, value, span }).map_err(Signal::Error)?;
            }
            (binder.types, binder.dims, binder.late)
        };
        let mut arguments = Vec::with_capacity(given.len());
        for (i, argument) in given.into_iter().enumerate() {
            let argument = self.settle(sig, i, argument, types[i].clone(), &arguments, span)?;
            arguments.push(argument);
        }
        self.solve_dims(sig, &arguments, &mut dims, &late)?;
        Ok((arguments, dims.into_iter().map(|d| d.map(|(extent, _)| extent)).collect()))
    }

    /// Returns a compile-time argument: as given, inferred, or the default.
    pub(crate) fn settle(
        &mut self,
        sig: &Signature,
        i: usize,
        given: Option<Argument>,
        found: Option<Type>,
        known: &[Argument],
        span: Span,
    ) -> Eval<Argument> {
        let generic = &sig.generics[i];
        if let Some(given) = given {
            // Its type may be that of another argument, which is known only now.
            let wanted = match &generic.kind {
                GenericKind::Const { ty: Type::Param(t), .. } => known.get(*t as usize),
                _ => None,
            };
            return match (wanted, &given) {
                (Some(Argument::Type(Type::Scalar(wanted))), Argument::Const(value)) if value.ty != *wanted => {
                    Err(self.wrong_constant(&wanted.to_string(), &Value::Scalar(*value), span))
                }
                _ => Ok(given),
            };
        }
        match (&generic.kind, found) {
            (GenericKind::Type { .. }, Some(ty)) => Ok(Argument::Type(ty)),
            (GenericKind::Const { ty, default: Some(default) }, _) => {
                let default = default.clone();
                let value = self.eval(&mut Frame { generics: known.into(), ..Frame::empty() }, &default)?;
                self.const_argument(ty, value, span)
            }
            (GenericKind::Fn { default: Some(default), .. }, _) => {
                let mut before = Frame { generics: known.into(), ..Frame::empty() };
                Ok(Argument::Fn(self.function(&mut before, default, span)?))
            }
            _ => Err(self.error(
                Diagnostic::error("E0518", format!("nothing says what `{}` is", generic.name))
                    .at(span, "in this call")
                    .help(format!("give it by name: `{} = …`", generic.name)),
            )),
        }
    }

    /// Evaluates a compile-time argument as written; `None` if it is to be inferred.
    pub(crate) fn generic(
        &mut self,
        frame: &mut Frame,
        sig: &Signature,
        i: usize,
        given: &GenericArg,
        span: Span,
    ) -> Eval<Option<Argument>> {
        match given {
            GenericArg::Infer => Ok(None),
            GenericArg::Error => Err(self.broken(span, "a compile-time argument that was a mistake")),
            GenericArg::Type(ty) => match self.concrete(frame, ty) {
                Type::Unknown => Ok(None),
                ty => Ok(Some(Argument::Type(ty))),
            },
            GenericArg::Const(expr) => {
                let value = self.eval(frame, expr)?;
                let Some(GenericKind::Const { ty, .. }) = sig.generics.get(i).map(|g| &g.kind) else {
                    return Err(self.broken(span, "a constant for a parameter that is none"));
                };
                self.const_argument(ty, value, expr.span).map(Some)
            }
            GenericArg::Fn(callee) => Ok(Some(Argument::Fn(self.function(frame, callee, span)?))),
        }
    }

    fn const_argument(&mut self, ty: &Type, value: Value, span: Span) -> Eval<Argument> {
        let value = match (ty, &value) {
            (Type::Scalar(s), Value::Int(_) | Value::Float(_)) => value.adapt(*s).map_or(value, Value::Scalar),
            (Type::Param(_), _) => value.settled(),
            _ => value,
        };
        match (ty, value) {
            (Type::Scalar(wanted), Value::Scalar(value)) if value.ty != *wanted => {
                Err(self.wrong_constant(&wanted.to_string(), &Value::Scalar(value), span))
            }
            (_, Value::Scalar(value)) => Ok(Argument::Const(value)),
            (_, other) => Err(self.wrong_constant("number", &other, span)),
        }
    }

    fn wrong_constant(&self, wanted: &str, value: &Value, span: Span) -> Signal {
        let place = Place { code: "E0512", what: format!("a `{wanted}` is needed here"), declared: None };
        self.misfit(&Misfit::Type, &place, value, span)
    }

    /// Resolves a function reference with all its compile-time arguments.
    pub(crate) fn function(&mut self, frame: &mut Frame, callee: &FnRef, span: Span) -> Eval<Function> {
        match callee {
            FnRef::Builtin(b) => Ok(Function::Builtin(*b)),
            FnRef::Param(i) => match frame.generics.get(*i as usize) {
                Some(Argument::Fn(function)) => Ok(function.clone()),
                _ => Err(self.broken(span, "a function parameter has no value")),
            },
            FnRef::Fn { id, generics } => {
                let program = self.program;
                let sig = &program.fns[*id].sig;
                let mut arguments = Vec::with_capacity(generics.len());
                for (i, generic) in generics.iter().enumerate() {
                    let given = self.generic(frame, sig, i, generic, span)?;
                    let argument = self.settle(sig, i, given, None, &arguments, span)?;
                    arguments.push(argument);
                }
                Ok(Function::Fn { id: *id, arguments })
            }
        }
    }
}
