//! Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `jacobian`, `hessian`.
//!
//! Input: a typed [`Derive`]. The function runs with traced arguments ([`crate::grad`]). Output: the derivative,
//! computed from the tape in reverse mode, or from tangents in forward mode. A higher derivative, such as
//! `grad(grad(f))`, differentiates the evaluation of the inner derivative.

use std::sync::{Arc, PoisonError};

use crate::array::SliceSpec;
use crate::grad::{self, GradTape, TapeOp};
use crate::graph::ExecContext;
use crate::ops::{self, ReduceKind};
use crate::problem::{HostResult, RuntimeError};
use crate::value::{GradLink, HostValue, RecordValue};
use clk_base::source::Span;
use clk_check::typed::{Access, Derive, Expr, ExprKind, FnRef, LaunchExpr, Type};
use clk_compile::advice::FaultOrigin;
use clk_derive::DerivativeLaunches;
use clk_ir::{Checks, CostCounting, MAX_ELEMENTS};
use clk_lower::Instance;
use clk_runtime::{LaunchConfig, LaunchExtents, LaunchOrigin, SignaturePromise};
use clk_scalar::builtin::DerivativeKind;

use super::call::CallSpans;
use super::context::{Eval, EvalContext};
use super::elementwise_call::convert_literal;
use super::frame::HostFrame;
use super::launch::BoundLaunch;

impl EvalContext<'_> {
    pub(super) fn eval_derivative(&mut self, frame: &mut HostFrame, derive: &Derive, span: Span) -> Eval {
        let ExprKind::Call { args, .. } = &derive.call().kind else {
            return Err(self.internal_error(span, "a derivative of no call"));
        };
        let values = self.eval_all(frame, args)?;
        match derive.kind {
            DerivativeKind::Check => self.gradcheck(frame, derive, values, span),
            _ => self.run_derivative(frame, derive, values, span),
        }
    }

    /// Computes a derivative of any kind at the given arguments.
    fn run_derivative(&mut self, frame: &mut HostFrame, derive: &Derive, values: Vec<HostValue>, span: Span) -> Eval {
        let seed = derive.seed.as_ref().map(|seed| self.eval(frame, seed)).transpose()?;
        self.interp.derivatives.depth += 1;
        let request = DerivativeCall { level: self.interp.derivatives.depth, derive, values, span };
        let to_tuple = |(value, derivative)| HostValue::Tuple(vec![value, derivative]);
        let result = match (derive.kind, seed) {
            (DerivativeKind::Gradient, _) => self.gradient(frame, &request).map(|(_, gradient)| gradient),
            (DerivativeKind::ValueAndGradient, _) => self.gradient(frame, &request).map(to_tuple),
            (DerivativeKind::Vjp, Some(seed)) => self.run_vjp(frame, &request, seed).map(to_tuple),
            (DerivativeKind::Jvp, Some(seed)) => self.run_jvp(frame, &request, seed).map(to_tuple),
            (DerivativeKind::Jacobian, _) => self.jacobian(frame, &request),
            (DerivativeKind::Hessian, _) => self.hessian(frame, &request),
            _ => Err(self.internal_error(span, "a derivative without its seed")),
        };
        self.interp.derivatives.depth -= 1;
        // The warnings of the reverse sweep, whose kernels are generated.
        self.collect_device_warnings(FaultOrigin::new(self.program, None, span));
        result
    }

    /// Calls the differentiated function with traced arguments.
    pub(super) fn call_differentiated(
        &mut self,
        frame: &mut HostFrame,
        request: &DerivativeCall<'_>,
        values: Vec<HostValue>,
    ) -> Eval {
        let of = &request.derive.of;
        match &of.kind {
            ExprKind::Derive(inner) => self.run_derivative(frame, inner, values, request.span),
            ExprKind::Call { callee: FnRef::Fn { id, generics }, args } => {
                let program = self.program;
                let function = &program.fns[*id];
                let spans: Vec<Span> = args.iter().map(|arg| arg.span).collect();
                let mut inner = self.call_frame(frame, &function.sig, generics, &values, &spans)?;
                self.run_body(function, &mut inner, values, CallSpans { call: of.span, args: &spans })
            }
            ExprKind::Call { callee, .. } => self.call_with(frame, callee, values, of.span),
            _ => Err(self.internal_error(of.span, "a derivative of no call")),
        }
    }

    /// Runs the function and records it on a new tape, whose leaf nodes are the differentiated parameters. Returns the
    /// tape, the indices of the leaf nodes, and the result.
    pub(super) fn record_on_tape(
        &mut self,
        frame: &mut HostFrame,
        request: &DerivativeCall<'_>,
    ) -> Eval<(Arc<GradTape>, Vec<u32>, HostValue)> {
        let tape = Arc::new(GradTape::default());
        let mut nodes = vec![];
        let level = request.level;
        let values = request.wrap_inputs(|value| {
            let (value, node) = tape.leaf(value, level)?;
            nodes.push(node);
            Ok(value)
        });
        let values = self.locate_error(values, request.span)?;
        self.interp.derivatives.tapes.push(tape.clone());
        let result = self.call_differentiated(frame, request, values);
        self.interp.derivatives.tapes.pop();
        Ok((tape, nodes, result?))
    }

    fn gradient(&mut self, frame: &mut HostFrame, request: &DerivativeCall<'_>) -> Eval<(HostValue, HostValue)> {
        let (tape, nodes, result) = self.record_on_tape(frame, request)?;
        let (value, link) = grad::split_link(&result, request.level);
        let one = grad::primal(&value);
        let HostValue::Scalar(number) = one else {
            let title = format!("a gradient needs a function that gives one float, not `{}`", one.type_name());
            return Err(self.problem(RuntimeError::new("E0720", title), request.span));
        };
        let one = HostValue::Scalar(clk_scalar::ScalarValue::one(number.ty));
        let seeds = link.and_then(|link| link.node()).map(|node| (node, one)).into_iter().collect();
        let gradient = self.run_reverse_sweep(&tape, seeds, &nodes, request.span)?;
        Ok((value, self.locate_error(request.rebuild_inputs(gradient), request.span)?))
    }

    fn run_vjp(
        &mut self,
        frame: &mut HostFrame,
        request: &DerivativeCall<'_>,
        cotangent: HostValue,
    ) -> Eval<(HostValue, HostValue)> {
        let (tape, nodes, result) = self.record_on_tape(frame, request)?;
        let seeds = self.locate_error(cotangent_seeds(&result, &cotangent, request.level), request.span)?;
        let pulled = self.run_reverse_sweep(&tape, seeds, &nodes, request.span)?;
        let pulled = self.locate_error(request.rebuild_inputs(pulled), request.span)?;
        Ok((grad::strip_levels(&result, request.level), pulled))
    }

    pub(super) fn run_jvp(
        &mut self,
        frame: &mut HostFrame,
        request: &DerivativeCall<'_>,
        tangent: HostValue,
    ) -> Eval<(HostValue, HostValue)> {
        let values = self.locate_error(request.inputs_along_tangent(&tangent), request.span)?;
        let result = self.call_differentiated(frame, request, values)?;
        let tangent = self.locate_error(tangent_of(&result, request.level), request.span)?;
        Ok((grad::strip_levels(&result, request.level), tangent))
    }

    /// Computes a Jacobian: its rows in reverse mode or its columns in forward mode, whichever are fewer.
    fn jacobian(&mut self, frame: &mut HostFrame, request: &DerivativeCall<'_>) -> Eval {
        let (tape, nodes, result) = self.record_on_tape(frame, request)?;
        let (value, link) = grad::split_link(&result, request.level);
        let (value, input) = (grad::primal(&value), grad::primal(&request.single_input()));
        let shape = [grad::shape_of(&value), grad::shape_of(&input)].concat();
        if element_count(&value) > element_count(&input) {
            drop(tape);
            let columns = self.jvp_columns(frame, request, |machine, frame, tangent| {
                machine.run_jvp(frame, request, tangent).map(|(_, tangent)| tangent)
            })?;
            return self.locate_error(join_parts(&self.exec, columns, &shape, &value, true), request.span);
        }
        let node = link.and_then(|link| link.node());
        let mut rows = vec![];
        for row in 0..element_count(&value) {
            let seed = self.locate_error(unit_like(&value, row), request.span)?;
            let seeds = node.map(|node| (node, seed)).into_iter().collect();
            let pulled = self.run_reverse_sweep(&tape, seeds, &nodes, request.span)?;
            let row = pulled.into_iter().next().map(|value| flatten_to_axis(&self.exec, value)).transpose();
            rows.extend(self.locate_error(row, request.span)?);
        }
        self.locate_error(join_parts(&self.exec, rows, &shape, &input, false), request.span)
    }

    /// Computes a Hessian: each column is a forward-mode derivative of the reverse-mode gradient.
    fn hessian(&mut self, frame: &mut HostFrame, request: &DerivativeCall<'_>) -> Eval {
        let input = grad::primal(&request.single_input());
        let shape = [grad::shape_of(&input), grad::shape_of(&input)].concat();
        let columns = self.jvp_columns(frame, request, |machine, frame, tangent| {
            let values = machine.locate_error(request.inputs_along_tangent(&tangent), request.span)?;
            machine.interp.derivatives.depth += 1;
            let within = DerivativeCall {
                level: machine.interp.derivatives.depth,
                derive: request.derive,
                values,
                span: request.span,
            };
            let gradient = machine.gradient(frame, &within);
            machine.interp.derivatives.depth -= 1;
            machine.locate_error(tangent_of(&gradient?.1, request.level), request.span)
        })?;
        self.locate_error(join_parts(&self.exec, columns, &shape, &input, true), request.span)
    }

    /// Computes a matrix column by column: calls `along` with the unit tangent of each element of the parameter, and
    /// flattens each result.
    fn jvp_columns(
        &mut self,
        frame: &mut HostFrame,
        request: &DerivativeCall<'_>,
        along: impl Fn(&mut Self, &mut HostFrame, HostValue) -> Eval,
    ) -> Eval<Vec<HostValue>> {
        let input = grad::primal(&request.single_input());
        let mut columns = vec![];
        for column in 0..element_count(&input) {
            self.check_stop(request.span)?;
            let tangent = self.locate_error(unit_like(&input, column), request.span)?;
            let derivative = along(self, frame, tangent)?;
            columns.push(self.locate_error(flatten_to_axis(&self.exec, derivative), request.span)?);
        }
        Ok(columns)
    }

    /// Launches a kernel with at least one traced argument.
    pub(super) fn launch_traced(
        &mut self,
        frame: &mut HostFrame,
        launch: &LaunchExpr,
        values: Vec<Option<HostValue>>,
        span: Span,
    ) -> Eval {
        let program = self.program;
        let kernel = &program.kernels[launch.kernel];
        let mut plain: Vec<Option<HostValue>> = values.iter().map(|value| value.as_ref().map(grad::primal)).collect();
        let named_args = self.eval_named_args(frame, launch, kernel, span)?;
        let bound = self.bind_and_allocate(frame, launch, kernel, &mut plain, named_args, span)?;
        let BoundLaunch { inner, extents, instance, hidden } = bound;
        self.run_trials(launch, &inner, extents, &plain, &hidden, span)?;
        let counts = plain.iter().flatten().filter_map(|value| match value {
            HostValue::Array(array) => Some(array.count() as u64),
            _ => None,
        });
        let largest = self.largest_extent(launch, kernel, &inner, counts).filter(|largest| *largest <= MAX_ELEMENTS);
        let derived = self.grad_kernel(instance, largest.is_some(), extents, span)?;
        let mut args = vec![];
        for ((value, allocated), param) in values.into_iter().zip(plain).zip(&kernel.sig.params) {
            let Some(value) = value.or(allocated) else {
                return Err(self.internal_error(span, "a launch without an argument"));
            };
            let flat = match (&param.ty, value) {
                (Type::Array(_), array) => {
                    args.push(array);
                    Ok(())
                }
                (ty, value) if !grad::is_traced(&value) => {
                    let value = self.convert_to_param(&inner, ty, value, span)?;
                    flatten_launch_arg(&self.exec, value, &mut args)
                }
                (_, value) => flatten_launch_arg(&self.exec, value, &mut args),
            };
            self.locate_error(flat, span)?;
        }
        args.extend(hidden);
        // Promises about arrays hold only if they were checked, which requires memory checks.
        let declared = largest.map(|largest| SignaturePromise { largest, promises: self.active_checks().memory });
        let mut results = self.launch_grad_kernel(derived, extents, declared, args, span)?.into_iter();
        let written = kernel.sig.params.iter().map(|param| match param.access {
            Access::In => None,
            Access::Out | Access::InOut => results.next(),
        });
        let written = written.collect();
        self.write_back_outputs(frame, launch, kernel, written)
    }

    /// Launches a differentiable kernel and records it on the tape. Returns the arrays that it writes.
    fn launch_grad_kernel(
        &mut self,
        kernel: Arc<grad::GradKernel>,
        extents: LaunchExtents,
        declared: Option<SignaturePromise>,
        args: Vec<HostValue>,
        span: Span,
    ) -> Eval<Vec<HostValue>> {
        let (config, control) =
            (LaunchConfig { declared, ..LaunchConfig::new(extents, span) }, self.interp.options.control.clone());
        let launch = grad::GradLaunch { kernel, config, control, output: Arc::default() };
        let results = grad::launch_traced(&self.exec, &launch, args);
        let said = std::mem::take(&mut *launch.output.lock().unwrap_or_else(PoisonError::into_inner));
        self.print_output(&said);
        let origin = LaunchOrigin::new(&launch.kernel.module.kernel, &launch.config);
        self.collect_device_warnings(FaultOrigin::of_launch(self.program, &origin));
        self.locate_error(results, span)
    }

    /// Returns a differentiable kernel. If `as_declared`, it serves all launches that have the declared geometry,
    /// unless that is impossible. Otherwise it serves only launches with these extents.
    fn grad_kernel(
        &mut self,
        instance: Instance,
        as_declared: bool,
        extents: LaunchExtents,
        span: Span,
    ) -> Eval<Arc<grad::GradKernel>> {
        let key = (instance, (!as_declared).then_some(extents));
        if let Some(found) = self.interp.device_pool.kernels.grad_kernels.get(&key) {
            return Ok(found.clone());
        }
        let instance = &key.0;
        let module = clk_lower::lower(self.program, instance).map_err(|d| self.first_error(d, span))?;
        let launches = match as_declared {
            true => clk_compile::derivative_launches(self.program, instance, &module),
            false => Some(DerivativeLaunches::for_extents(&module, extents)),
        };
        let Some(launches) = launches else { return self.grad_kernel(key.0, false, extents, span) };
        // Integer arithmetic is not checked, because `clk_lower::lower` above generates code without arithmetic checks.
        let checks = Checks { memory: self.active_checks().memory, ..Checks::default() };
        let kernel = grad::GradKernel::new(
            module,
            launches,
            self.interp.options.device.clone(),
            self.grad_compile_options(checks),
        );
        self.interp.device_pool.kernels.grad_kernels.insert(key, kernel.clone());
        Ok(kernel)
    }

    /// Returns the options for compiling differentiable kernels.
    fn grad_compile_options(&self, checks: Checks) -> grad::CompileOptions {
        let counts = self.interp.options.control.counting.is_some();
        grad::CompileOptions { checks, cost_counting: counts.then_some(CostCounting::Derivative) }
    }

    /// Applies a scalar function elementwise to arrays, some of which are traced: inlines it, or launches its
    /// differentiable kernel.
    pub(super) fn lift_traced(
        &mut self,
        frame: &mut HostFrame,
        callee: &FnRef,
        args: &[Expr],
        values: Vec<HostValue>,
        expr: &Expr,
    ) -> Eval {
        let plain: Vec<HostValue> = values.iter().map(grad::primal).collect();
        let shape = self.broadcast_shape(args, &plain, expr.span)?;
        let (function, params, result) = self.specialize(frame, callee, &plain, expr)?;
        let values: Vec<HostValue> =
            values.into_iter().zip(&params).map(|(value, (ty, _))| convert_literal(value, ty)).collect();
        if let Some(value) = self.try_inline(&function, &values, &result)? {
            return Ok(value);
        }
        let key = (function, params);
        let kernel = match self.interp.device_pool.kernels.grad_map_kernels.get(&key) {
            Some(found) => found.clone(),
            None => {
                let lowered = clk_lower::lower_map(self.program, &key.0, &key.1, Checks::default());
                let module = lowered.map_err(|d| self.first_error(d, expr.span))?;
                let launches = DerivativeLaunches::for_extents(&module, LaunchExtents::Threads([1; 3]));
                let device = self.interp.options.device.clone();
                let kernel =
                    grad::GradKernel::new(module, launches, device, self.grad_compile_options(Checks::default()));
                self.interp.device_pool.kernels.grad_map_kernels.insert(key.clone(), kernel.clone());
                kernel
            }
        };
        let element = self.interp.caches.layouts.element(self.program, &result);
        let count: usize = shape.iter().product();
        let out = self.new_result(element, &[count], expr.span)?;
        let mut kernel_args = vec![];
        for (value, (_, is_array)) in values.into_iter().zip(&key.1) {
            let flat = match is_array {
                true => grad::broadcast_flat(&self.exec, value, &shape).map(|array| kernel_args.push(array)),
                false => flatten_launch_arg(&self.exec, value, &mut kernel_args),
            };
            self.locate_error(flat, expr.span)?;
        }
        kernel_args.push(HostValue::Array(out));
        let extents = LaunchExtents::Threads([count as u32, 1, 1]);
        match self.launch_grad_kernel(kernel, extents, None, kernel_args, expr.span)?.pop() {
            Some(result) => {
                self.locate_error(grad::apply(&self.exec, &TapeOp::Reshape(shape), vec![result]), expr.span)
            }
            None => Ok(HostValue::Unit),
        }
    }
}

/// A derivative to compute, with its arguments. `level` is its nesting depth among the derivatives being computed.
pub(super) struct DerivativeCall<'d> {
    pub level: u32,
    pub derive: &'d Derive,
    pub values: Vec<HostValue>,
    pub span: Span,
}

impl DerivativeCall<'_> {
    /// Returns the arguments, after applying `wrap` to each leaf (float, vector or array) of the differentiated ones.
    pub fn wrap_inputs(&self, mut wrap: impl FnMut(HostValue) -> HostResult<HostValue>) -> HostResult<Vec<HostValue>> {
        let mut values = self.values.clone();
        for &at in &self.derive.wrt {
            if let Some(value) = values.get_mut(at as usize) {
                *value = grad::wrap_leaves(std::mem::replace(value, HostValue::Unit), &mut wrap)?;
            }
        }
        Ok(values)
    }

    /// Returns the arguments; the differentiated ones are traced in forward mode, with `tangent` as their tangents.
    fn inputs_along_tangent(&self, tangent: &HostValue) -> HostResult<Vec<HostValue>> {
        let mut tangents = grad::leaves(tangent).into_iter();
        self.wrap_inputs(|value| {
            let tangent = tangents.next().ok_or_else(|| seed_mismatch(&value, &HostValue::Unit, "tangent"))?;
            check_seed_shape(&value, &tangent, "tangent")?;
            Ok(grad::trace(value, self.level, GradLink::Tangent(tangent)))
        })
    }

    /// Assembles the derivatives by all leaves into values with the structure of the differentiated parameters. Returns
    /// one value for one parameter, and a tuple for several.
    fn rebuild_inputs(&self, parts: Vec<HostValue>) -> HostResult<HostValue> {
        let mut parts = parts.into_iter();
        let mut all = vec![];
        for &at in &self.derive.wrt {
            let Some(value) = self.values.get(at as usize) else { continue };
            let part = grad::wrap_leaves(value.clone(), &mut |_| Ok(parts.next().unwrap_or(HostValue::Unit)))?;
            all.push(part);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => HostValue::Tuple(all),
        })
    }

    /// Returns the argument of the parameter that a Jacobian or Hessian differentiates; there is only one.
    fn single_input(&self) -> HostValue {
        let at = self.derive.wrt.first().copied().unwrap_or(0) as usize;
        self.values.get(at).cloned().unwrap_or(HostValue::Unit)
    }
}

/// Appends the launch arguments of a by-value argument: one for each scalar or vector in it.
fn flatten_launch_arg(exec: &ExecContext, value: HostValue, args: &mut Vec<HostValue>) -> HostResult<()> {
    match value {
        HostValue::Tuple(parts) | HostValue::Record(RecordValue { fields: parts, .. }) => {
            parts.into_iter().try_for_each(|part| flatten_launch_arg(exec, part, args))?;
        }
        HostValue::Array(array) => {
            for item in array.items_at(0..array.count()) {
                args.push(item?);
            }
        }
        HostValue::Traced(traced) if matches!(traced.primal(), HostValue::Array(_)) => {
            let count = element_count(traced.primal()) as i64;
            let whole = grad::ops::reshape(exec, &HostValue::Traced(traced), &[-1])?;
            for at in 0..count {
                args.push(grad::ops::index(exec, &whole, &[SliceSpec::At(at)])?);
            }
        }
        other => args.push(other),
    }
    Ok(())
}

/// Returns the tangent of a result, which has the structure of the result. Leaves (floats, vectors and arrays) that do
/// not depend on the parameters have zero tangents.
fn tangent_of(result: &HostValue, level: u32) -> HostResult<HostValue> {
    let plain = grad::strip_levels(result, level);
    let mut tangents = grad::leaves(result).into_iter().map(|leaf| match grad::split_link(&leaf, level) {
        (_, Some(GradLink::Tangent(tangent))) => Ok(tangent),
        (value, _) => grad::zeros_like(&value),
    });
    grad::wrap_leaves(plain, &mut |_| tangents.next().unwrap_or(Ok(HostValue::Unit)))
}

pub(super) fn cotangent_seeds(
    result: &HostValue,
    cotangent: &HostValue,
    level: u32,
) -> HostResult<Vec<(u32, HostValue)>> {
    let (results, cotangents) = (grad::leaves(result), grad::leaves(cotangent));
    if results.len() != cotangents.len() {
        return Err(seed_mismatch(result, cotangent, "cotangent"));
    }
    let mut seeds = vec![];
    for (result, cotangent) in results.iter().zip(cotangents) {
        let (value, link) = grad::split_link(result, level);
        check_seed_shape(&value, &cotangent, "cotangent")?;
        seeds.extend(link.and_then(|link| link.node()).map(|node| (node, cotangent)));
    }
    Ok(seeds)
}

fn check_seed_shape(value: &HostValue, seed: &HostValue, what: &str) -> HostResult<()> {
    if grad::has_same_shape(value, seed) { Ok(()) } else { Err(seed_mismatch(value, seed, what)) }
}

fn seed_mismatch(value: &HostValue, seed: &HostValue, what: &str) -> RuntimeError {
    let (wanted, found) = (grad::primal(value).type_name(), grad::primal(seed).type_name());
    RuntimeError::new("E0501", format!("the `{what}` must be `{wanted}`, not `{found}`"))
}

fn element_count(value: &HostValue) -> usize {
    grad::shape_of(value).iter().product()
}

/// Returns zeros in the shape of a value, with 1 at one position.
fn unit_like(value: &HostValue, position: usize) -> HostResult<HostValue> {
    match grad::zeros_like(value)? {
        HostValue::Array(mut array) => {
            let one = array.scalar().map(clk_scalar::ScalarValue::one).map_or(HostValue::Unit, HostValue::Scalar);
            array.set_item(position, &one)?;
            Ok(HostValue::Array(array))
        }
        HostValue::Scalar(zero) => Ok(HostValue::Scalar(clk_scalar::ScalarValue::one(zero.ty))),
        other => Ok(other),
    }
}

/// Returns the elements of an array, or a single number, as an array with one axis.
fn flatten_to_axis(exec: &ExecContext, value: HostValue) -> HostResult<HostValue> {
    match grad::primal(&value) {
        HostValue::Array(_) => grad::ops::reshape(exec, &value, &[-1]),
        _ => grad::ops::literal(exec, &[value], None),
    }
}

/// Joins rows (or columns, if `columns`) to an array of the given shape. `like` has the element type if there are none.
fn join_parts(
    exec: &ExecContext,
    parts: Vec<HostValue>,
    shape: &[usize],
    like: &HostValue,
    columns: bool,
) -> HostResult<HostValue> {
    let mut whole = match parts.is_empty() {
        true => {
            let scalar = ops::reduce(exec, ReduceKind::Sum, like, None)?;
            grad::ops::full(exec, &[0, element_count(like) as i64], &scalar)?
        }
        false => grad::ops::stack(exec, &parts, 0)?,
    };
    if columns {
        whole = grad::ops::transpose(exec, &whole, None)?;
    }
    match shape.is_empty() {
        true => grad::ops::index(exec, &whole, &[SliceSpec::At(0), SliceSpec::At(0)]),
        false => grad::apply(exec, &TapeOp::Reshape(shape.to_vec()), vec![whole]),
    }
}
