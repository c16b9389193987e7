//! Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `jacobian`, `hessian`.
//!
//! Input is a typed [`Derive`]. The function runs with traced arguments ([`crate::host::grad`]); output is what its tape, or its
//! tangents, give. A derivative of a derivative runs the inner one as the function of the outer one.

use std::sync::{Arc, PoisonError};

use crate::base::source::Span;
use crate::check::typed::{Access, Derive, Expr, ExprKind, FnRef, Launch, Type};
use crate::device::{Control, Extents};
use crate::host::array::SliceSpec;
use crate::host::grad::{self, Deed, Tape};
use crate::host::ops::{self, Reduce};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Link, Record, Value};
use crate::ir::Checks;
use crate::lang::builtin::Derivative;
use crate::lower::{self, Instance};

use super::frame::Frame;
use super::machine::{Eval, Machine};
use super::map::typed;

impl Machine<'_> {
    pub(super) fn derive(&mut self, frame: &mut Frame, derive: &Derive, span: Span) -> Eval {
        let mut call = &derive.of;
        while let ExprKind::Derive(inner) = &call.kind {
            call = &inner.of;
        }
        let ExprKind::Call { args, .. } = &call.kind else { return Err(self.broken(span, "a derivative of no call")) };
        let values = self.values(frame, args)?;
        self.derived(frame, derive, values, span)
    }

    /// Runs a derivative at these arguments.
    fn derived(&mut self, frame: &mut Frame, derive: &Derive, values: Vec<Value>, span: Span) -> Eval {
        let seed = derive.seed.as_ref().map(|seed| self.eval(frame, seed)).transpose()?;
        self.interp.tracing += 1;
        let mut taking = Taking { level: self.interp.tracing, derive, values, span };
        let result = match (derive.what, seed) {
            (Derivative::Gradient, _) => self.gradient(frame, &mut taking).map(|(_, gradient)| gradient),
            (Derivative::ValueAndGradient, _) => self.gradient(frame, &mut taking).map(pair),
            (Derivative::Vjp, Some(seed)) => self.pulled_back(frame, &mut taking, seed).map(pair),
            (Derivative::Jvp, Some(seed)) => self.pushed_forward(frame, &mut taking, seed).map(pair),
            (Derivative::Jacobian, _) => self.jacobian(frame, &mut taking),
            (Derivative::Hessian, _) => self.hessian(frame, &mut taking),
            _ => Err(self.broken(span, "a derivative without its seed")),
        };
        self.interp.tracing -= 1;
        result
    }

    /// Runs the function that is differentiated, with traced arguments.
    fn inner(&mut self, frame: &mut Frame, taking: &Taking<'_>, values: Vec<Value>) -> Eval {
        let of = &taking.derive.of;
        match &of.kind {
            ExprKind::Derive(inner) => self.derived(frame, inner, values, taking.span),
            ExprKind::Call { callee: FnRef::Fn { id, generics }, args } => {
                let program = self.program;
                let function = &program.fns[*id];
                let spans: Vec<Span> = args.iter().map(|arg| arg.span).collect();
                let mut inner = self.enter(frame, &function.sig, generics, &values, &spans)?;
                self.run_body(function, &mut inner, values, &spans, of.span)
            }
            ExprKind::Call { callee, .. } => self.call_with(frame, callee, values, of.span),
            _ => Err(self.broken(of.span, "a derivative of no call")),
        }
    }

    /// Runs the function with its parameters as leaves of a tape.
    fn recorded(&mut self, frame: &mut Frame, taking: &mut Taking<'_>) -> Eval<(Arc<Tape>, Vec<u32>, Value)> {
        let tape = Arc::new(Tape::default());
        let mut nodes = vec![];
        let level = taking.level;
        let values = taking.with(|value| {
            let (value, node) = tape.leaf(value, level)?;
            nodes.push(node);
            Ok(value)
        });
        let values = values.map_err(|p| self.problem(p, taking.span))?;
        let result = self.inner(frame, taking, values)?;
        Ok((tape, nodes, result))
    }

    fn gradient(&mut self, frame: &mut Frame, taking: &mut Taking<'_>) -> Eval<(Value, Value)> {
        let (tape, nodes, result) = self.recorded(frame, taking)?;
        let (value, link) = grad::links(&result, taking.level);
        let one = grad::primal(&value);
        let Value::Scalar(number) = one else {
            let title = format!("a gradient needs a function that gives one float, not `{}`", one.type_name());
            return Err(self.problem(Problem::new("E0720", title), taking.span));
        };
        let one = Value::Scalar(crate::lang::scalar::Value::one(number.ty));
        let seeds = node_of(link).map(|node| (node, one)).into_iter().collect();
        let gradient = grad::pulled(&tape, seeds, &nodes).and_then(|parts| taking.rebuilt(parts));
        Ok((value, gradient.map_err(|p| self.problem(p, taking.span))?))
    }

    fn pulled_back(&mut self, frame: &mut Frame, taking: &mut Taking<'_>, cotangent: Value) -> Eval<(Value, Value)> {
        let (tape, nodes, result) = self.recorded(frame, taking)?;
        let seeds = seeds(&result, &cotangent, taking.level);
        let pulled = seeds.and_then(|seeds| grad::pulled(&tape, seeds, &nodes)).and_then(|parts| taking.rebuilt(parts));
        let pulled = pulled.map_err(|p| self.problem(p, taking.span))?;
        Ok((grad::stripped(&result, taking.level), pulled))
    }

    fn pushed_forward(&mut self, frame: &mut Frame, taking: &mut Taking<'_>, tangent: Value) -> Eval<(Value, Value)> {
        let level = taking.level;
        let mut tangents = match taking.derive.wrt.len() {
            1 => grad::leaves(&tangent),
            _ => grad::leaves(&tangent).into_iter().collect(),
        }
        .into_iter();
        let values = taking.with(|value| {
            let tangent = tangents.next().ok_or_else(|| misfit(&value, &Value::Unit, "tangent"))?;
            fits(&value, &tangent, "tangent")?;
            Ok(grad::wrap_with(value, level, Link::Tangent(tangent)))
        });
        let values = values.map_err(|p| self.problem(p, taking.span))?;
        let result = self.inner(frame, taking, values)?;
        let tangent = tangent_of(&result, level).map_err(|p| self.problem(p, taking.span))?;
        Ok((grad::stripped(&result, level), tangent))
    }

    /// Rows by pulling back, or columns by pushing forward, whichever are fewer.
    fn jacobian(&mut self, frame: &mut Frame, taking: &mut Taking<'_>) -> Eval {
        let level = taking.level;
        let (tape, nodes, result) = self.recorded(frame, taking)?;
        let (value, link) = grad::links(&result, level);
        let input = taking.input();
        let plain = (grad::primal(&value), grad::primal(&input));
        let shape = [grad::shape_of(&plain.0), grad::shape_of(&plain.1)].concat();
        let rows = count(&plain.0);
        let zeros = |value: &Value| grad::zeros_like(value);
        if rows <= count(&plain.1) {
            let mut all = vec![];
            for row in 0..rows {
                let pulled = marked(&plain.0, row).and_then(|seed| {
                    let seeds = node_of(link.clone()).map(|node| (node, seed)).into_iter().collect();
                    grad::pulled(&tape, seeds, &nodes)
                });
                let pulled = pulled.map_err(|p| self.problem(p, taking.span))?;
                all.extend(pulled.into_iter().next().map(flat).transpose().map_err(|p| self.problem(p, taking.span))?);
            }
            return joined(all, &shape, &plain.1, false).map_err(|p| self.problem(p, taking.span));
        }
        drop((tape, zeros));
        let columns = self.columns(frame, taking, |machine, frame, taking, tangent| {
            machine.pushed_forward(frame, taking, tangent).map(|(_, tangent)| tangent)
        })?;
        joined(columns, &shape, &plain.0, true).map_err(|p| self.problem(p, taking.span))
    }

    /// Pushes tangents forward through the gradient.
    fn hessian(&mut self, frame: &mut Frame, taking: &mut Taking<'_>) -> Eval {
        let input = grad::primal(&taking.input());
        let shape = [grad::shape_of(&input), grad::shape_of(&input)].concat();
        let columns = self.columns(frame, taking, |machine, frame, taking, tangent| {
            let level = taking.level;
            let mut given = Some(tangent);
            let values = taking.with(|value| {
                let tangent = given.take().ok_or_else(|| misfit(&value, &Value::Unit, "tangent"))?;
                Ok(grad::wrap_with(value, level, Link::Tangent(tangent)))
            });
            let values = values.map_err(|p| machine.problem(p, taking.span))?;
            machine.interp.tracing += 1;
            let mut within = Taking { level: machine.interp.tracing, derive: taking.derive, values, span: taking.span };
            let gradient = machine.gradient(frame, &mut within);
            machine.interp.tracing -= 1;
            tangent_of(&gradient?.1, level).map_err(|p| machine.problem(p, taking.span))
        })?;
        joined(columns, &shape, &input, true).map_err(|p| self.problem(p, taking.span))
    }

    /// Runs a derivative along each number of the parameter.
    fn columns(
        &mut self,
        frame: &mut Frame,
        taking: &mut Taking<'_>,
        along: impl Fn(&mut Self, &mut Frame, &mut Taking<'_>, Value) -> Eval,
    ) -> Eval<Vec<Value>> {
        let input = grad::primal(&taking.input());
        let mut columns = vec![];
        for column in 0..count(&input) {
            self.poll(taking.span)?;
            let tangent = marked(&input, column).map_err(|p| self.problem(p, taking.span))?;
            let found = along(self, frame, taking, tangent)?;
            columns.push(flat(found).map_err(|p| self.problem(p, taking.span))?);
        }
        Ok(columns)
    }

    /// Launches a kernel with arguments of which some are traced.
    pub(super) fn launch_traced(
        &mut self,
        frame: &mut Frame,
        launch: &Launch,
        values: Vec<Option<Value>>,
        span: Span,
    ) -> Eval {
        let program = self.program;
        let kernel = &program.kernels[launch.kernel];
        let mut plain: Vec<Option<Value>> = values.iter().map(|value| value.as_ref().map(grad::primal)).collect();
        let (arguments, dims) = self.bind_launch(frame, launch, kernel, &plain, span)?;
        let mut inner = self.kernel_frame(kernel, arguments, dims, &plain, span)?;
        self.contracts(&mut inner, kernel, &plain, span)?;
        self.allocate(kernel, launch, &mut inner, &mut plain, span)?;
        let extents = self.geometry(frame, &mut inner, launch, kernel, span)?;
        let instance = Instance { kernel: launch.kernel, arguments: inner.generics.to_vec() };
        let derived = self.derived_kernel(&instance, span)?;
        let mut args = vec![];
        for ((value, allocated), param) in values.into_iter().zip(plain).zip(&kernel.sig.params) {
            let Some(value) = value.or(allocated) else {
                return Err(self.broken(span, "a launch without an argument"));
            };
            match (&param.ty, value) {
                (Type::Array(_), array) => args.push(array),
                (ty, value) if !grad::is_traced(&value) => flatten(self.as_param(&inner, ty, value, span)?, &mut args),
                (_, value) => flatten(value, &mut args),
            }
        }
        for dim in lower::hidden_params(program, launch.kernel) {
            args.push(Value::i32(inner.dims.get(dim as usize).copied().flatten().unwrap_or(0) as i32));
        }
        let control = Control { launched: span, larger: None, ..self.interp.options.control.clone() };
        let launch_of = grad::Launch { kernel: derived, extents, control, said: Arc::default() };
        let launched = grad::launched(&launch_of, args);
        let said = std::mem::take(&mut *launch_of.said.lock().unwrap_or_else(PoisonError::into_inner));
        self.say(&said);
        let mut results = launched.map_err(|p| self.problem(p, span))?.into_iter();
        let written = kernel.sig.params.iter().map(|param| match param.access {
            Access::In => None,
            Access::Out | Access::InOut => results.next(),
        });
        let written = written.collect();
        self.hand_back(frame, launch, kernel, written)
    }

    fn derived_kernel(&mut self, instance: &Instance, span: Span) -> Eval<Arc<grad::Kernel>> {
        if let Some(found) = self.interp.kernels.derived.get(instance) {
            return Ok(found.clone());
        }
        let module = lower::lower(self.program, instance).map_err(|d| self.first_of(d, span))?;
        // Arithmetic of integers is not looked at: the kernel was lowered to be optimized.
        let checks = Checks { memory: self.checks().memory, ..Checks::default() };
        let kernel = grad::Kernel::new(module, self.interp.options.device.clone(), checks);
        self.interp.kernels.derived.insert(instance.clone(), kernel.clone());
        Ok(kernel)
    }

    /// Applies a function of scalars to arrays of which some are traced: launches the kernel that applies it.
    pub(super) fn lift_traced(
        &mut self,
        frame: &mut Frame,
        callee: &FnRef,
        args: &[Expr],
        values: Vec<Value>,
        expr: &Expr,
    ) -> Eval {
        let plain: Vec<Value> = values.iter().map(grad::primal).collect();
        let shape = self.shape_of_all(args, &plain, expr.span)?;
        let (function, params, result) = self.specialize(frame, callee, &plain, expr)?;
        let key = (function, params);
        let kernel = match self.interp.kernels.derived_maps.get(&key) {
            Some(found) => found.clone(),
            None => {
                let lowered = lower::lower_map(self.program, &key.0, &key.1, Checks::default());
                let module = lowered.map_err(|d| self.first_of(d, expr.span))?;
                let kernel = grad::Kernel::new(module, self.interp.options.device.clone(), Checks::default());
                self.interp.kernels.derived_maps.insert(key.clone(), kernel.clone());
                kernel
            }
        };
        let element = self.interp.layouts.element(self.program, &result);
        let count: usize = shape.iter().product();
        let out = self.new_result(element, &[count], expr.span)?;
        let (extents, launched) = (Extents::Threads([count as u32, 1, 1]), expr.span);
        let control = Control { launched, larger: None, ..self.interp.options.control.clone() };
        let launch = grad::Launch { kernel, extents, control, said: Arc::default() };
        let mut given = vec![];
        let applied = values.into_iter().zip(&key.1).try_for_each(|(value, (ty, is_array))| {
            match is_array {
                true => given.push(grad::spread(value, &shape)?),
                false => flatten(typed(value, ty), &mut given),
            }
            Ok(())
        });
        let results = applied.and_then(|()| {
            given.push(Value::Array(out));
            grad::launched(&launch, given)
        });
        let result = results.and_then(|mut results| match results.pop() {
            Some(result) => grad::apply(&Deed::Reshape(shape), vec![result]),
            None => Ok(Value::Unit),
        });
        result.map_err(|p| self.problem(p, expr.span))
    }
}

/// A derivative that is being taken, at these arguments.
struct Taking<'d> {
    level: u32,
    derive: &'d Derive,
    values: Vec<Value>,
    span: Span,
}

impl Taking<'_> {
    /// Returns the arguments with those wrapped by which is differentiated.
    fn with(&self, mut wrap: impl FnMut(Value) -> Outcome<Value>) -> Outcome<Vec<Value>> {
        let mut values = self.values.clone();
        for &at in &self.derive.wrt {
            if let Some(value) = values.get_mut(at as usize) {
                *value = grad::wrapped(std::mem::replace(value, Value::Unit), &mut wrap)?;
            }
        }
        Ok(values)
    }

    /// Returns derivatives as the parameters that they belong to: one, or a tuple of several.
    fn rebuilt(&self, parts: Vec<Value>) -> Outcome<Value> {
        let mut parts = parts.into_iter();
        let mut all = vec![];
        for &at in &self.derive.wrt {
            let Some(value) = self.values.get(at as usize) else { continue };
            let part = grad::wrapped(value.clone(), &mut |_| Ok(parts.next().unwrap_or(Value::Unit)))?;
            all.push(part);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => Value::Tuple(all),
        })
    }

    /// The one parameter of a Jacobian.
    fn input(&self) -> Value {
        let at = self.derive.wrt.first().copied().unwrap_or(0) as usize;
        self.values.get(at).cloned().unwrap_or(Value::Unit)
    }
}

/// Appends the launch arguments that a value by itself becomes.
fn flatten(value: Value, args: &mut Vec<Value>) {
    match value {
        Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => {
            parts.into_iter().for_each(|part| flatten(part, args));
        }
        Value::Array(array) => args.extend((0..array.count()).filter_map(|at| array.item(at).ok().flatten())),
        Value::Traced(traced) if matches!(traced.primal(), Value::Array(_)) => {
            for at in 0..grad::shape_of(traced.primal()).iter().product::<usize>() {
                let whole = grad::ops::reshape(&Value::Traced(traced.clone()), &[-1]);
                let part = whole.and_then(|whole| grad::ops::index(&whole, &[SliceSpec::At(at as i64)]));
                args.push(part.unwrap_or(Value::Unit));
            }
        }
        other => args.push(other),
    }
}

fn pair((value, derivative): (Value, Value)) -> Value {
    Value::Tuple(vec![value, derivative])
}

fn node_of(link: Option<Link>) -> Option<u32> {
    match link {
        Some(Link::Node(_, node)) => Some(node),
        _ => None,
    }
}

/// Returns the tangent of a result, part by part; what does not depend on the parameters has zeros.
fn tangent_of(result: &Value, level: u32) -> Outcome<Value> {
    let plain = grad::stripped(result, level);
    let mut tangents = grad::leaves(result).into_iter().map(|leaf| match grad::links(&leaf, level) {
        (_, Some(Link::Tangent(tangent))) => Ok(tangent),
        (value, _) => grad::zeros_like(&value),
    });
    grad::wrapped(plain, &mut |_| tangents.next().unwrap_or(Ok(Value::Unit)))
}

fn seeds(result: &Value, cotangent: &Value, level: u32) -> Outcome<Vec<(u32, Value)>> {
    let (results, cotangents) = (grad::leaves(result), grad::leaves(cotangent));
    if results.len() != cotangents.len() {
        return Err(misfit(result, cotangent, "cotangent"));
    }
    let mut seeds = vec![];
    for (result, cotangent) in results.iter().zip(cotangents) {
        let (value, link) = grad::links(result, level);
        fits(&value, &cotangent, "cotangent")?;
        seeds.extend(node_of(link).map(|node| (node, cotangent)));
    }
    Ok(seeds)
}

fn fits(value: &Value, seed: &Value, what: &str) -> Outcome<()> {
    if grad::is_alike(value, seed) { Ok(()) } else { Err(misfit(value, seed, what)) }
}

fn misfit(value: &Value, seed: &Value, what: &str) -> Problem {
    let (wanted, found) = (grad::primal(value).type_name(), grad::primal(seed).type_name());
    Problem::new("E0501", format!("the `{what}` is `{found}`, and has to be `{wanted}`"))
}

fn count(value: &Value) -> usize {
    grad::shape_of(value).iter().product()
}

/// Returns zeros of the form of a value, with 1 at a position.
fn marked(value: &Value, position: usize) -> Outcome<Value> {
    match grad::zeros_like(value)? {
        Value::Array(mut array) => {
            let one = array.scalar().map(crate::lang::scalar::Value::one).map_or(Value::Unit, Value::Scalar);
            array.set_item(position, &one)?;
            Ok(Value::Array(array))
        }
        Value::Scalar(zero) => Ok(Value::Scalar(crate::lang::scalar::Value::one(zero.ty))),
        other => Ok(other),
    }
}

/// Returns a number, or the elements of an array, as one axis.
fn flat(value: Value) -> Outcome<Value> {
    match grad::primal(&value) {
        Value::Array(_) => grad::ops::reshape(&value, &[-1]),
        _ => grad::ops::literal(&[value], None),
    }
}

/// Joins rows, or columns, to an array of this shape.
fn joined(parts: Vec<Value>, shape: &[usize], like: &Value, columns: bool) -> Outcome<Value> {
    let mut whole = match parts.is_empty() {
        true => {
            let scalar = ops::reduce(Reduce::Sum, like, None)?;
            grad::ops::full(&[0, count(like) as i64], &scalar)?
        }
        false => grad::ops::stack(&parts)?,
    };
    if columns {
        whole = grad::ops::transpose(&whole)?;
    }
    match shape.is_empty() {
        true => grad::ops::index(&whole, &[SliceSpec::At(0), SliceSpec::At(0)]),
        false => grad::apply(&Deed::Reshape(shape.to_vec()), vec![whole]),
    }
}
