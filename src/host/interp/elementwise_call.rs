//! Scalar functions that are applied to arrays elementwise. `sigmoid(x)` with an array `x` runs as a generated kernel
//! `threads(i: N)`, unless the function is inlined into the array expression.

use std::sync::Arc;

use crate::array::Array;
use crate::array::broadcast::{broadcast_to, common_shape};
use crate::grad;
use crate::shard::lift::{self, PartitionedOperands};
use crate::shard::sharded::ShardState;
use crate::shard::{self, Sharded};
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{ExecutionSpace, Expr, FnRef, Type};
use clk_compile::advice::FaultOrigin;
use clk_lower::{FunctionInstance, GenericArgument};
use clk_runtime::{Arg, Executable, LaunchConfig, LaunchExtents};

use super::call::CallSpans;
use super::compiled_kernels::MapKernelKey;
use super::context::{Eval, EvalContext};
use super::frame::HostFrame;
use super::launch::push_value;
use super::partition_cache::kernel_prints;
use super::type_mismatch::{TypeMismatch, ValueDestination};

impl EvalContext<'_> {
    pub(crate) fn apply_elementwise(
        &mut self,
        frame: &mut HostFrame,
        callee: &FnRef,
        args: &[Expr],
        expr: &Expr,
    ) -> Eval {
        let values = args.iter().map(|a| self.eval(frame, a)).collect::<Eval<Vec<_>>>()?;
        let sig = match callee {
            FnRef::Fn { id, .. } => Some(&self.program.fns[*id].sig),
            FnRef::Param(_) | FnRef::Builtin(_) => None,
        };
        let is_array = |value: &HostValue| match value {
            HostValue::Traced(traced) => matches!(traced.primal(), HostValue::Array(_)),
            value => matches!(value, HostValue::Array(_)),
        };
        if values.iter().any(grad::is_traced) && values.iter().any(is_array) {
            return self.lift_traced(frame, callee, args, values, expr);
        }
        // An array for an array parameter is passed as a whole.
        let whole = |i: usize| sig.and_then(|s| s.params.get(i)).is_some_and(|p| matches!(p.ty, Type::Array(_)));
        if !values.iter().enumerate().any(|(i, v)| matches!(v, HostValue::Array(_)) && !whole(i)) {
            return match callee {
                FnRef::Fn { id, generics } => {
                    let function = &self.program.fns[*id];
                    let spans: Vec<Span> = args.iter().map(|arg| arg.span).collect();
                    let mut inner = self.call_frame(frame, &function.sig, generics, &values, &spans)?;
                    self.run_body(function, &mut inner, values, CallSpans { call: expr.span, args: &spans })
                }
                FnRef::Param(_) | FnRef::Builtin(_) => self.call_with(frame, callee, values, expr.span),
            };
        }
        if sig.is_some_and(|s| s.params.iter().any(|p| matches!(p.ty, Type::Array(_)))) {
            let title = "a function that takes an array can't be applied element by element";
            let diagnostic = Diagnostic::error("E0505", title).at(expr.span, "one value is needed for a parameter");
            return Err(self.error(diagnostic.help("call it in a loop over the elements")));
        }
        // Shape errors take precedence over type errors.
        let shape = self.broadcast_shape(args, &values, expr.span)?;
        let (function, params, result) = self.specialize(frame, callee, &values, expr)?;
        let values: Vec<HostValue> =
            values.into_iter().zip(&params).map(|(value, (ty, _))| convert_literal(value, ty)).collect();
        if let Some(value) = self.try_inline(&function, &values, &result)? {
            return Ok(value);
        }
        let key = (function, params);
        match self.map_shards(&key, &values, &shape, &result, expr)? {
            Some(array) => Ok(HostValue::Array(array)),
            None => self.map_on_device(&key, values, &shape, &result, expr).map(HostValue::Array),
        }
    }

    /// Applies a function to each shard of sharded arrays. Returns `None` if no argument is sharded, the function
    /// prints, or the result cannot be sharded like an argument.
    fn map_shards(
        &mut self,
        key: &MapKernelKey,
        values: &[HostValue],
        shape: &[usize],
        result: &Type,
        expr: &Expr,
    ) -> Eval<Option<Array>> {
        let arrays: Vec<Array> =
            values.iter().filter_map(|v| if let HostValue::Array(a) = v { Some(a.clone()) } else { None }).collect();
        if !arrays.iter().any(|array| shard::as_sharded(array).is_some()) || self.map_kernel(key, expr)?.1 {
            // The output of a function that prints must appear in the order of the whole array.
            return Ok(None);
        }
        let partitioned = lift::partition_operands(&arrays, shape).map_err(|p| self.problem(p, expr.span))?;
        let Some(PartitionedOperands { layout, team, parts }) = partitioned else { return Ok(None) };
        let mut done = Vec::with_capacity(layout.parts());
        for p in 0..layout.parts() {
            let mut own = parts.iter().map(|of| of[p].clone());
            let kernel_args = values.iter().map(|value| match value {
                HostValue::Array(array) => HostValue::Array(own.next().unwrap_or_else(|| array.clone())),
                other => other.clone(),
            });
            let kernel_args: Vec<HostValue> = kernel_args.collect();
            let mut shape = shape.to_vec();
            shape[layout.axis] = layout.rows_with_halo(p).len();
            let outer = self.switch_device(team.contexts[p].device().clone());
            self.exec = self.exec.on(&team.contexts[p]);
            let mapped = self.map_on_device(key, kernel_args, &shape, result, expr);
            self.switch_device(outer);
            done.push(mapped?);
        }
        let element = self.interp.caches.layouts.element(self.program, result);
        let array = Sharded::into_array(element, shape, layout, team, ShardState { parts: done, fresh: true });
        array.map(Some).map_err(|p| self.problem(p, expr.span))
    }

    /// Applies a function to arrays with a kernel on the current device.
    fn map_on_device(
        &mut self,
        key: &MapKernelKey,
        values: Vec<HostValue>,
        shape: &[usize],
        result: &Type,
        expr: &Expr,
    ) -> Eval<Array> {
        let values = self.broadcast_all(values, shape, expr.span)?;
        let (executable, _) = self.map_kernel(key, expr)?;
        let element = self.interp.caches.layouts.element(self.program, result);
        let mut out = self.new_result(element, shape, expr.span)?;
        let count = out.count() as u32;
        let launched = {
            let mut kernel_args = Vec::with_capacity(values.len() + 1);
            for value in &values {
                match value {
                    HostValue::Array(array) => {
                        let storage = array.storage().map_err(|p| self.problem(p, expr.span))?;
                        kernel_args.push(Arg::Array { storage, shape: vec![count] });
                    }
                    other => push_value(&mut kernel_args, other).map_err(|p| self.problem(p, expr.span))?,
                }
            }
            let storage = out.storage_mut().map_err(|p| self.problem(p, expr.span))?;
            kernel_args.push(Arg::ArrayMut { storage, shape: vec![count] });
            let config = LaunchConfig::new(LaunchExtents::Threads([count, 1, 1]), expr.span);
            executable.launch(&config, &mut kernel_args, &self.interp.options.control)
        };
        match launched {
            Ok(output) => {
                self.print_output(&output);
                Ok(out)
            }
            Err(fault) => Err(self.fault_error(&fault, FaultOrigin::new(self.program, None, expr.span), vec![])),
        }
    }

    /// Returns the kernel that applies a function elementwise on the current device, and whether the kernel prints.
    fn map_kernel(&mut self, key: &MapKernelKey, expr: &Expr) -> Eval<(Arc<dyn Executable>, bool)> {
        if let Some(found) = self.interp.device_pool.kernels.map_kernels.get(key) {
            return Ok(found.clone());
        }
        let prepared = clk_compile::compile_map(self.program, &key.0, &key.1, self.active_checks(), expr.span);
        let prepared = prepared.map_err(|d| {
            match d.first().map(|first| first.code) {
                Some("E0999") => self.host_only_error(&key.0, expr.span).map(|why| self.error(why)),
                _ => None,
            }
            .unwrap_or_else(|| self.first_error(d, expr.span))
        })?;
        let prints = kernel_prints(&prepared);
        let loaded = (self.load_kernel(prepared), prints);
        self.interp.device_pool.kernels.map_kernels.insert(key.clone(), loaded.clone());
        Ok(loaded)
    }

    /// Returns an error if a function, or a function passed to it, cannot run in kernels. The checker reports the same
    /// error if it knows that arguments are arrays; this check is for values whose type is known only at run time.
    fn host_only_error(&self, function: &FunctionInstance, span: Span) -> Option<Diagnostic> {
        let FunctionInstance::Fn { id, arguments } = function else { return None };
        let callee = &self.program.fns[*id];
        if callee.space == ExecutionSpace::Host {
            let title = format!("`{}` can't be applied to whole arrays: it belongs to the host", callee.name);
            let diagnostic = Diagnostic::error("E0505", title).at(span, "one value is needed, and an array is given");
            return Some(
                diagnostic
                    .because(callee.name_span, "it calls itself, or uses something that is not available in kernels")
                    .help("call it in a loop over the elements"),
            );
        }
        arguments.iter().find_map(|argument| match argument {
            GenericArgument::Fn(passed) => self.host_only_error(passed, span),
            _ => None,
        })
    }

    /// Returns the shape to which all array arguments broadcast.
    pub(super) fn broadcast_shape(&mut self, args: &[Expr], values: &[HostValue], span: Span) -> Eval<Vec<usize>> {
        let names: Vec<String> = (1..=values.len()).map(|k| format!("argument {k}")).collect();
        let arrays: Vec<(&str, &[usize])> = values
            .iter()
            .zip(&names)
            .filter_map(|(v, name)| if let HostValue::Array(a) = v { Some((name.as_str(), a.shape())) } else { None })
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

    /// Broadcasts all arrays to one shape and leaves scalars unchanged.
    fn broadcast_all(&mut self, values: Vec<HostValue>, shape: &[usize], span: Span) -> Eval<Vec<HostValue>> {
        let mut fitted = Vec::with_capacity(values.len());
        for value in values {
            fitted.push(match value {
                HostValue::Array(array) => match broadcast_to(&array, shape) {
                    Some(repeated) => HostValue::Array(repeated.map_err(|p| self.problem(p, span))?),
                    None => return Err(self.internal_error(span, "an array that does not fit the common shape")),
                },
                other => other,
            });
        }
        Ok(fitted)
    }

    /// Infers the compile-time arguments of a function from the arguments' element types. Returns the instance, its
    /// parameter types (each with whether the argument is an array), and its result type.
    pub(super) fn specialize(
        &mut self,
        frame: &mut HostFrame,
        callee: &FnRef,
        values: &[HostValue],
        expr: &Expr,
    ) -> Eval<(FunctionInstance, Vec<(Type, bool)>, Type)> {
        let mut params = Vec::with_capacity(values.len());
        for value in values {
            params.push(match value {
                HostValue::Array(array) => (self.interp.caches.layouts.element_type(array.element()), true),
                other => (self.interp.caches.layouts.type_of(other), false),
            });
        }
        let function = match callee {
            FnRef::Fn { id, generics } => {
                let program = self.program;
                let sig = &program.fns[*id].sig;
                let mut arguments = Vec::with_capacity(generics.len());
                for (i, generic) in generics.iter().enumerate() {
                    let inferred = sig.params.iter().zip(&params).find(|(p, _)| p.ty == Type::Param(i as u32));
                    let inferred = inferred.map(|(_, (ty, _))| ty.clone());
                    let evaluated = self.eval_generic(frame, sig, i, generic, expr.span)?;
                    let argument = self.resolve_argument(sig, i, evaluated, inferred, &arguments, expr.span)?;
                    arguments.push(argument);
                }
                FunctionInstance::Fn { id: *id, arguments }
            }
            _ => self.resolve_function(frame, callee, expr.span)?,
        };
        let result = match &function {
            FunctionInstance::Fn { id, arguments } => {
                let callee = &self.program.fns[*id];
                for ((param, (found, _)), value) in callee.sig.params.iter().zip(&mut params).zip(values) {
                    let expected = substitute(&param.ty, arguments);
                    let literal = matches!(value, HostValue::Int(_) | HostValue::Float(_));
                    if literal && matches!(expected, Type::Scalar(s) if value.adapt(s).is_some()) {
                        *found = expected;
                    } else if expected != *found {
                        let expected = clk_check::show_type(self.program, None, &expected);
                        let description = format!("`{}` must be `{expected}`", param.name);
                        let place = ValueDestination { code: "E0512", description, declared: Some(param.span) };
                        return Err(self.mismatch_error(&TypeMismatch::Type, &place, value, expr.span));
                    }
                }
                let result = substitute(&callee.result, arguments);
                if !matches!(result, Type::Scalar(_) | Type::Vector(..) | Type::Struct(_)) {
                    let text = clk_check::show_type(self.program, None, &result);
                    let title = format!("a function that returns `{text}` can't be applied to whole arrays");
                    let diagnostic = Diagnostic::error("E0505", title);
                    return Err(self.error(diagnostic.at(expr.span, "an array is given where one value is expected")));
                }
                result
            }
            FunctionInstance::Builtin(_) => params.first().map(|(ty, _)| ty.clone()).unwrap_or_default(),
        };
        Ok((function, params, result))
    }
}

/// Returns a type of a signature with the compile-time arguments substituted.
pub(super) fn substitute(ty: &Type, arguments: &[GenericArgument]) -> Type {
    match ty {
        Type::Param(i) => match arguments.get(*i as usize) {
            Some(GenericArgument::Type(ty)) => ty.clone(),
            _ => Type::Unknown,
        },
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(|part| substitute(part, arguments)).collect()),
        other => other.clone(),
    }
}

/// Converts an untyped literal to the type of its parameter; returns other values unchanged.
pub(super) fn convert_literal(value: HostValue, ty: &Type) -> HostValue {
    match (ty, &value) {
        (Type::Scalar(s), HostValue::Int(_) | HostValue::Float(_)) => value.adapt(*s).map_or(value, HostValue::Scalar),
        _ => value,
    }
}
