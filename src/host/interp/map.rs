//! Scalar functions applied to arrays: `sigmoid(x)` with an array runs as a generated kernel `threads(i: N)`.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expr, FnRef, Type, World};
use crate::compile;
use crate::device::{Arg, Executable, Extents};
use crate::host::array::Array;
use crate::host::array::broadcast::{broadcast_to, common_shape};
use crate::host::grad;
use crate::host::shard::lift::{self, Apart};
use crate::host::shard::value::State;
use crate::host::shard::{self, Sharded};
use crate::host::value::Value;
use crate::lower::{Argument, Function};

use super::conform::{Misfit, Place};
use super::cuts::prints;
use super::frame::Frame;
use super::kernels::MapKey;
use super::launch::push_value;
use super::machine::{Eval, Machine};

impl Machine<'_> {
    pub(crate) fn lift(&mut self, frame: &mut Frame, callee: &FnRef, args: &[Expr], expr: &Expr) -> Eval {
        let values = args.iter().map(|a| self.eval(frame, a)).collect::<Eval<Vec<_>>>()?;
        let sig = match callee {
            FnRef::Fn { id, .. } => Some(&self.program.fns[*id].sig),
            FnRef::Param(_) | FnRef::Builtin(_) => None,
        };
        let is_array = |value: &Value| match value {
            Value::Traced(traced) => matches!(traced.primal(), Value::Array(_)),
            value => matches!(value, Value::Array(_)),
        };
        if values.iter().any(grad::is_traced) && values.iter().any(is_array) {
            return self.lift_traced(frame, callee, args, values, expr);
        }
        // An array passed to an array parameter is an ordinary argument.
        let whole = |i: usize| sig.and_then(|s| s.params.get(i)).is_some_and(|p| matches!(p.ty, Type::Array(_)));
        if !values.iter().enumerate().any(|(i, v)| matches!(v, Value::Array(_)) && !whole(i)) {
            return match callee {
                FnRef::Fn { id, generics } => {
                    let function = &self.program.fns[*id];
                    let spans: Vec<Span> = args.iter().map(|arg| arg.span).collect();
                    let mut inner = self.enter(frame, &function.sig, generics, &values, &spans)?;
                    self.run_body(function, &mut inner, values, &spans, expr.span)
                }
                FnRef::Param(_) | FnRef::Builtin(_) => self.call_with(frame, callee, values, expr.span),
            };
        }
        if sig.is_some_and(|s| s.params.iter().any(|p| matches!(p.ty, Type::Array(_)))) {
            let title = "a function that takes an array can't be applied element by element";
            let diagnostic = Diagnostic::error("E0505", title).at(expr.span, "one value is needed for a parameter");
            return Err(self.error(diagnostic.help("call it in a loop over the elements")));
        }
        // Errors of shapes come before those of types.
        let shape = self.shape_of_all(args, &values, expr.span)?;
        let (function, params, result) = self.specialize(frame, callee, &values, expr)?;
        let values: Vec<Value> = values.into_iter().zip(&params).map(|(value, (ty, _))| typed(value, ty)).collect();
        if let Some(value) = self.inlined(&function, &values, &result)? {
            return Ok(value);
        }
        let key = (function, params);
        match self.mapped_in_parts(&key, &values, &shape, &result, expr)? {
            Some(array) => Ok(Value::Array(array)),
            None => self.mapped(&key, values, &shape, &result, expr).map(Value::Array),
        }
    }

    /// Applies a function to the parts of sharded arrays; `None` if there are none that the result could be cut like.
    fn mapped_in_parts(
        &mut self,
        key: &MapKey,
        values: &[Value],
        shape: &[usize],
        result: &Type,
        expr: &Expr,
    ) -> Eval<Option<Array>> {
        let arrays: Vec<Array> =
            values.iter().filter_map(|v| if let Value::Array(a) = v { Some(a.clone()) } else { None }).collect();
        if !arrays.iter().any(|array| shard::of(array).is_some()) || self.map_kernel(key, expr)?.1 {
            // What is printed comes in the order of the whole array.
            return Ok(None);
        }
        let apart = lift::apart(&arrays, shape).map_err(|p| self.problem(p, expr.span))?;
        let Some(Apart { layout, team, parts }) = apart else { return Ok(None) };
        let mut done = Vec::with_capacity(layout.parts());
        for p in 0..layout.parts() {
            let mut own = parts.iter().map(|of| of[p].clone());
            let given = values.iter().map(|value| match value {
                Value::Array(array) => Value::Array(own.next().unwrap_or_else(|| array.clone())),
                other => other.clone(),
            });
            let given: Vec<Value> = given.collect();
            let mut shape = shape.to_vec();
            shape[layout.axis] = layout.held(p).len();
            let outer = self.interp.use_device(team.sites[p].device().clone());
            let mapped = {
                let _at = team.sites[p].clone().enter();
                self.mapped(key, given, &shape, result, expr)
            };
            self.interp.use_device(outer);
            done.push(mapped?);
        }
        let element = self.interp.layouts.element(self.program, result);
        let array = Sharded::array(element, shape, layout, team, State { parts: done, fresh: true });
        array.map(Some).map_err(|p| self.problem(p, expr.span))
    }

    /// Applies a function to arrays by a kernel on the device in use.
    fn mapped(&mut self, key: &MapKey, values: Vec<Value>, shape: &[usize], result: &Type, expr: &Expr) -> Eval<Array> {
        let values = self.repeated(values, shape, expr.span)?;
        let (executable, _) = self.map_kernel(key, expr)?;
        let element = self.interp.layouts.element(self.program, result);
        let mut out = self.new_result(element, shape, expr.span)?;
        let count = out.count() as u32;
        self.interp.options.control.launched = expr.span;
        let launched = {
            let mut given = Vec::with_capacity(values.len() + 1);
            for value in &values {
                match value {
                    Value::Array(array) => {
                        let storage = array.storage().map_err(|p| self.problem(p, expr.span))?;
                        given.push(Arg::Array { storage, shape: vec![count] });
                    }
                    other => push_value(&mut given, other).map_err(|p| self.problem(p, expr.span))?,
                }
            }
            let storage = out.storage_mut().map_err(|p| self.problem(p, expr.span))?;
            given.push(Arg::ArrayMut { storage, shape: vec![count] });
            executable.launch(Extents::Threads([count, 1, 1]), &mut given, &self.interp.options.control)
        };
        match launched {
            Ok(output) => {
                self.say(&output);
                Ok(out)
            }
            Err(fault) => Err(self.fault(&fault, None, expr.span, vec![])),
        }
    }

    /// Returns the kernel of a function on the device in use, and whether it prints.
    fn map_kernel(&mut self, key: &MapKey, expr: &Expr) -> Eval<(Arc<dyn Executable>, bool)> {
        if let Some(found) = self.interp.kernels.maps.get(key) {
            return Ok(found.clone());
        }
        let prepared = compile::map(self.program, &key.0, &key.1, self.checks(), expr.span);
        let prepared = prepared.map_err(|d| {
            match d.first().map(|first| first.code) {
                Some("E0999") => self.host_only(&key.0, expr.span).map(|why| self.error(why)),
                _ => None,
            }
            .unwrap_or_else(|| self.first_of(d, expr.span))
        })?;
        let prints = prints(&prepared);
        let loaded = (self.load(prepared), prints);
        self.interp.kernels.maps.insert(key.clone(), loaded.clone());
        Ok(loaded)
    }

    /// Returns the error if a function, or a function passed to it, cannot run in kernels. The checker reports this where it knows
    /// that arguments are arrays; this covers values whose type it did not know.
    fn host_only(&self, function: &Function, span: Span) -> Option<Diagnostic> {
        let Function::Fn { id, arguments } = function else { return None };
        let callee = &self.program.fns[*id];
        if callee.world == World::Host {
            let title = format!("`{}` can't be applied to whole arrays: it belongs to the host", callee.name);
            let diagnostic = Diagnostic::error("E0505", title).at(span, "one value is needed, and an array is given");
            return Some(
                diagnostic
                    .because(callee.name_span, "it calls itself, or uses something that kernels have not")
                    .help("call it in a loop over the elements"),
            );
        }
        arguments.iter().find_map(|argument| match argument {
            Argument::Fn(passed) => self.host_only(passed, span),
            _ => None,
        })
    }

    /// Returns the shape to which all array arguments broadcast.
    pub(super) fn shape_of_all(&mut self, args: &[Expr], values: &[Value], span: Span) -> Eval<Vec<usize>> {
        let names: Vec<String> = (1..=values.len()).map(|k| format!("argument {k}")).collect();
        let arrays: Vec<(&str, &[usize])> = values
            .iter()
            .zip(&names)
            .filter_map(|(v, name)| if let Value::Array(a) = v { Some((name.as_str(), a.shape())) } else { None })
            .collect();
        let shape = common_shape(&arrays).map_err(|p| self.problem(p, args.first().map_or(span, |a| a.span)))?;
        if shape.iter().product::<usize>() > i32::MAX as usize {
            let diagnostic =
                Diagnostic::error("E0520", "the arrays are too large for one launch").at(span, "applied here");
            let diagnostic = diagnostic.note("at most 2147483647 elements at once");
            return Err(self.error(diagnostic.help("apply it to one row at a time: `f(x[i, ..])`")));
        }
        Ok(shape)
    }

    /// Broadcasts all arrays to one shape; scalars stay.
    fn repeated(&mut self, values: Vec<Value>, shape: &[usize], span: Span) -> Eval<Vec<Value>> {
        let mut fitted = Vec::with_capacity(values.len());
        for value in values {
            fitted.push(match value {
                Value::Array(array) => match broadcast_to(&array, shape) {
                    Some(repeated) => Value::Array(repeated.map_err(|p| self.problem(p, span))?),
                    None => return Err(self.broken(span, "an array that does not fit the common shape")),
                },
                other => other,
            });
        }
        Ok(fitted)
    }

    /// Instantiates the function for these element types; returns it with its parameter types and result type.
    pub(super) fn specialize(
        &mut self,
        frame: &mut Frame,
        callee: &FnRef,
        values: &[Value],
        expr: &Expr,
    ) -> Eval<(Function, Vec<(Type, bool)>, Type)> {
        let mut params = Vec::with_capacity(values.len());
        for value in values {
            params.push(match value {
                Value::Array(array) => (self.interp.layouts.element_type(array.element()), true),
                other => (self.interp.layouts.type_of(other), false),
            });
        }
        let function = match callee {
            FnRef::Fn { id, generics } => {
                let program = self.program;
                let sig = &program.fns[*id].sig;
                let mut arguments = Vec::with_capacity(generics.len());
                for (i, generic) in generics.iter().enumerate() {
                    let found = sig.params.iter().zip(&params).find(|(p, _)| p.ty == Type::Param(i as u32));
                    let found = found.map(|(_, (ty, _))| ty.clone());
                    let given = self.generic(frame, sig, i, generic, expr.span)?;
                    let argument = self.settle(sig, i, given, found, &arguments, expr.span)?;
                    arguments.push(argument);
                }
                Function::Fn { id: *id, arguments }
            }
            _ => self.function(frame, callee, expr.span)?,
        };
        let result = match &function {
            Function::Fn { id, arguments } => {
                let callee = &self.program.fns[*id];
                for ((param, (found, _)), value) in callee.sig.params.iter().zip(&mut params).zip(values) {
                    let wanted = put_in(&param.ty, arguments);
                    let literal = matches!(value, Value::Int(_) | Value::Float(_));
                    if literal && matches!(wanted, Type::Scalar(s) if value.adapt(s).is_some()) {
                        *found = wanted;
                    } else if wanted != *found {
                        let wanted = crate::check::show_type(self.program, None, &wanted);
                        let what = format!("`{}` has to be `{wanted}`", param.name);
                        let place = Place { code: "E0512", what, declared: Some(param.span) };
                        return Err(self.misfit(&Misfit::Type, &place, value, expr.span));
                    }
                }
                let result = put_in(&callee.result, arguments);
                if !matches!(result, Type::Scalar(_) | Type::Vector(..) | Type::Struct(_)) {
                    let text = crate::check::show_type(self.program, None, &result);
                    let title = format!("a function that gives `{text}` can't be applied to whole arrays");
                    let diagnostic = Diagnostic::error("E0505", title);
                    return Err(self.error(diagnostic.at(expr.span, "an array is given where one value is expected")));
                }
                result
            }
            Function::Builtin(_) => params.first().map(|(ty, _)| ty.clone()).unwrap_or_default(),
        };
        Ok((function, params, result))
    }
}

/// Returns a type of a signature with the compile-time arguments substituted.
pub(super) fn put_in(ty: &Type, arguments: &[Argument]) -> Type {
    match ty {
        Type::Param(i) => match arguments.get(*i as usize) {
            Some(Argument::Type(ty)) => ty.clone(),
            _ => Type::Unknown,
        },
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(|part| put_in(part, arguments)).collect()),
        other => other.clone(),
    }
}

/// Converts an untyped literal to its parameter's type.
pub(super) fn typed(value: Value, ty: &Type) -> Value {
    match (ty, &value) {
        (Type::Scalar(s), Value::Int(_) | Value::Float(_)) => value.adapt(*s).map_or(value, Value::Scalar),
        _ => value,
    }
}
