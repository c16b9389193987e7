//! Derivatives of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `jacobian`, `hessian`.
//!
//! Input is a typed [`Derive`]. The function runs with traced arguments ([`crate::host::grad`]); output is what its tape, or its
//! tangents, give. A derivative of a derivative runs the inner one as the function of the outer one.

use std::sync::{Arc, PoisonError};

use crate::base::source::Span;
use crate::check::typed::{Access, Derive, Expr, ExprKind, FnRef, Launch, Type};
use crate::compile;
use crate::derive::Launches;
use crate::device::{Control, Declared, Extents};
use crate::host::array::SliceSpec;
use crate::host::grad::{self, Deed, Tape};
use crate::host::ops::{self, Reduce};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Link, Record, Value};
use crate::ir::{Checks, Counted, MOST_ELEMENTS};
use crate::lang::builtin::Derivative;
use crate::lower::{self, Instance};

use super::frame::Frame;
use super::launch::Bound;
use super::machine::{Eval, Machine};
use super::map::typed;

impl Machine<'_> {
    pub(super) fn derive(&mut self, frame: &mut Frame, derive: &Derive, span: Span) -> Eval {
        let ExprKind::Call { args, .. } = &derive.call().kind else {
            return Err(self.broken(span, "a derivative of no call"));
        };
        let values = self.values(frame, args)?;
        match derive.what {
            Derivative::Check => self.gradcheck(frame, derive, values, span),
            _ => self.derived(frame, derive, values, span),
        }
    }

    /// Runs a derivative at these arguments.
    fn derived(&mut self, frame: &mut Frame, derive: &Derive, values: Vec<Value>, span: Span) -> Eval {
        let seed = derive.seed.as_ref().map(|seed| self.eval(frame, seed)).transpose()?;
        self.interp.tracing += 1;
        let taking = Taking { level: self.interp.tracing, derive, values, span };
        let result = match (derive.what, seed) {
            (Derivative::Gradient, _) => self.gradient(frame, &taking).map(|(_, gradient)| gradient),
            (Derivative::ValueAndGradient, _) => self.gradient(frame, &taking).map(pair),
            (Derivative::Vjp, Some(seed)) => self.pulled_back(frame, &taking, seed).map(pair),
            (Derivative::Jvp, Some(seed)) => self.pushed_forward(frame, &taking, seed).map(pair),
            (Derivative::Jacobian, _) => self.jacobian(frame, &taking),
            (Derivative::Hessian, _) => self.hessian(frame, &taking),
            _ => Err(self.broken(span, "a derivative without its seed")),
        };
        self.interp.tracing -= 1;
        result
    }

    /// Runs the function that is differentiated, with traced arguments.
    pub(super) fn inner(&mut self, frame: &mut Frame, taking: &Taking<'_>, values: Vec<Value>) -> Eval {
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
    pub(super) fn recorded(&mut self, frame: &mut Frame, taking: &Taking<'_>) -> Eval<(Arc<Tape>, Vec<u32>, Value)> {
        let tape = Arc::new(Tape::default());
        let mut nodes = vec![];
        let level = taking.level;
        let values = taking.with(|value| {
            let (value, node) = tape.leaf(value, level)?;
            nodes.push(node);
            Ok(value)
        });
        let values = self.settle_problem(values, taking.span)?;
        self.interp.tapes.push(tape.clone());
        let result = self.inner(frame, taking, values);
        self.interp.tapes.pop();
        Ok((tape, nodes, result?))
    }

    fn gradient(&mut self, frame: &mut Frame, taking: &Taking<'_>) -> Eval<(Value, Value)> {
        let (tape, nodes, result) = self.recorded(frame, taking)?;
        let (value, link) = grad::links(&result, taking.level);
        let one = grad::primal(&value);
        let Value::Scalar(number) = one else {
            let title = format!("a gradient needs a function that gives one float, not `{}`", one.type_name());
            return Err(self.problem(Problem::new("E0720", title), taking.span));
        };
        let one = Value::Scalar(crate::lang::scalar::Value::one(number.ty));
        let seeds = link.and_then(|link| link.node()).map(|node| (node, one)).into_iter().collect();
        let gradient = self.pulled(&tape, seeds, &nodes, taking.span)?;
        Ok((value, self.settle_problem(taking.rebuilt(gradient), taking.span)?))
    }

    fn pulled_back(&mut self, frame: &mut Frame, taking: &Taking<'_>, cotangent: Value) -> Eval<(Value, Value)> {
        let (tape, nodes, result) = self.recorded(frame, taking)?;
        let seeds = self.settle_problem(seeds(&result, &cotangent, taking.level), taking.span)?;
        let pulled = self.pulled(&tape, seeds, &nodes, taking.span)?;
        let pulled = self.settle_problem(taking.rebuilt(pulled), taking.span)?;
        Ok((grad::stripped(&result, taking.level), pulled))
    }

    pub(super) fn pushed_forward(
        &mut self,
        frame: &mut Frame,
        taking: &Taking<'_>,
        tangent: Value,
    ) -> Eval<(Value, Value)> {
        let values = self.settle_problem(taking.along(&tangent), taking.span)?;
        let result = self.inner(frame, taking, values)?;
        let tangent = self.settle_problem(tangent_of(&result, taking.level), taking.span)?;
        Ok((grad::stripped(&result, taking.level), tangent))
    }

    /// Rows by pulling back, or columns by pushing forward, whichever are fewer.
    fn jacobian(&mut self, frame: &mut Frame, taking: &Taking<'_>) -> Eval {
        let (tape, nodes, result) = self.recorded(frame, taking)?;
        let (value, link) = grad::links(&result, taking.level);
        let (value, input) = (grad::primal(&value), grad::primal(&taking.input()));
        let shape = [grad::shape_of(&value), grad::shape_of(&input)].concat();
        if count(&value) > count(&input) {
            drop(tape);
            let columns = self.columns(frame, taking, |machine, frame, tangent| {
                machine.pushed_forward(frame, taking, tangent).map(|(_, tangent)| tangent)
            })?;
            return self.settle_problem(joined(columns, &shape, &value, true), taking.span);
        }
        let node = link.and_then(|link| link.node());
        let mut rows = vec![];
        for row in 0..count(&value) {
            let seed = self.settle_problem(marked(&value, row), taking.span)?;
            let seeds = node.map(|node| (node, seed)).into_iter().collect();
            let pulled = self.pulled(&tape, seeds, &nodes, taking.span)?;
            let row = pulled.into_iter().next().map(flat).transpose();
            rows.extend(self.settle_problem(row, taking.span)?);
        }
        self.settle_problem(joined(rows, &shape, &input, false), taking.span)
    }

    /// Pushes tangents forward through the gradient.
    fn hessian(&mut self, frame: &mut Frame, taking: &Taking<'_>) -> Eval {
        let input = grad::primal(&taking.input());
        let shape = [grad::shape_of(&input), grad::shape_of(&input)].concat();
        let columns = self.columns(frame, taking, |machine, frame, tangent| {
            let values = machine.settle_problem(taking.along(&tangent), taking.span)?;
            machine.interp.tracing += 1;
            let within = Taking { level: machine.interp.tracing, derive: taking.derive, values, span: taking.span };
            let gradient = machine.gradient(frame, &within);
            machine.interp.tracing -= 1;
            machine.settle_problem(tangent_of(&gradient?.1, taking.level), taking.span)
        })?;
        self.settle_problem(joined(columns, &shape, &input, true), taking.span)
    }

    /// Runs a derivative along each number of the parameter.
    fn columns(
        &mut self,
        frame: &mut Frame,
        taking: &Taking<'_>,
        along: impl Fn(&mut Self, &mut Frame, Value) -> Eval,
    ) -> Eval<Vec<Value>> {
        let input = grad::primal(&taking.input());
        let mut columns = vec![];
        for column in 0..count(&input) {
            self.poll(taking.span)?;
            let tangent = self.settle_problem(marked(&input, column), taking.span)?;
            let found = along(self, frame, tangent)?;
            columns.push(self.settle_problem(flat(found), taking.span)?);
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
        let named = self.named(frame, launch, kernel, span)?;
        let bound = self.bound(frame, launch, kernel, &mut plain, named, span)?;
        let Bound { inner, extents, instance, hidden } = bound;
        self.tried(launch, &inner, extents, (&plain, &hidden), span)?;
        let counts = plain.iter().flatten().filter_map(|value| match value {
            Value::Array(array) => Some(array.count() as u64),
            _ => None,
        });
        let largest = self.largest(launch, kernel, &inner, counts).filter(|largest| *largest <= MOST_ELEMENTS);
        let derived = self.derived_kernel(instance, largest.is_some(), extents, span)?;
        let mut args = vec![];
        for ((value, allocated), param) in values.into_iter().zip(plain).zip(&kernel.sig.params) {
            let Some(value) = value.or(allocated) else {
                return Err(self.broken(span, "a launch without an argument"));
            };
            let flat = match (&param.ty, value) {
                (Type::Array(_), array) => {
                    args.push(array);
                    Ok(())
                }
                (ty, value) if !grad::is_traced(&value) => flatten(self.as_param(&inner, ty, value, span)?, &mut args),
                (_, value) => flatten(value, &mut args),
            };
            self.settle_problem(flat, span)?;
        }
        args.extend(hidden);
        // Promises about arrays are tested in runs with checks alone.
        let declared = largest.map(|largest| Declared { largest, promises: self.checks().memory });
        let mut results = self.run_traced(derived, extents, declared, args, span)?.into_iter();
        let written = kernel.sig.params.iter().map(|param| match param.access {
            Access::In => None,
            Access::Out | Access::InOut => results.next(),
        });
        let written = written.collect();
        self.hand_back(frame, launch, kernel, written)
    }

    /// Launches a kernel whose derivative may be taken; returns the arrays that it writes.
    fn run_traced(
        &mut self,
        kernel: Arc<grad::Kernel>,
        extents: Extents,
        declared: Option<Declared>,
        args: Vec<Value>,
        span: Span,
    ) -> Eval<Vec<Value>> {
        let control = Control { launched: span, larger: None, declared, ..self.interp.options.control.clone() };
        let launch = grad::Launch { kernel, extents, control, said: Arc::default() };
        let results = grad::launched(&launch, args);
        let said = std::mem::take(&mut *launch.said.lock().unwrap_or_else(PoisonError::into_inner));
        self.say(&said);
        self.settle_problem(results, span)
    }

    /// Returns a kernel to be differentiated: for all launches as its signature says, or for those of these extents.
    fn derived_kernel(
        &mut self,
        instance: Instance,
        as_declared: bool,
        extents: Extents,
        span: Span,
    ) -> Eval<Arc<grad::Kernel>> {
        let key = (instance, (!as_declared).then_some(extents));
        if let Some(found) = self.interp.kernels.derived.get(&key) {
            return Ok(found.clone());
        }
        let instance = &key.0;
        let module = lower::lower(self.program, instance).map_err(|d| self.first_of(d, span))?;
        let launches = match as_declared {
            true => compile::launches(self.program, instance, &module),
            false => Some(Launches::with(&module, extents)),
        };
        let Some(launches) = launches else { return self.derived_kernel(key.0, false, extents, span) };
        // Arithmetic of integers is not looked at: the kernel was lowered to be optimized.
        let checks = Checks { memory: self.checks().memory, ..Checks::default() };
        let kernel = grad::Kernel::new(module, launches, self.interp.options.device.clone(), self.manner(checks));
        self.interp.kernels.derived.insert(key, kernel.clone());
        Ok(kernel)
    }

    /// Returns how kernels are compiled that have derivatives.
    fn manner(&self, checks: Checks) -> grad::Manner {
        let counts = self.interp.options.control.counting.is_some();
        grad::Manner { checks, counted: counts.then_some(Counted::Derivative) }
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
        let values: Vec<Value> = values.into_iter().zip(&params).map(|(value, (ty, _))| typed(value, ty)).collect();
        if let Some(value) = self.inlined(&function, &values, &result)? {
            return Ok(value);
        }
        let key = (function, params);
        let kernel = match self.interp.kernels.derived_maps.get(&key) {
            Some(found) => found.clone(),
            None => {
                let lowered = lower::lower_map(self.program, &key.0, &key.1, Checks::default());
                let module = lowered.map_err(|d| self.first_of(d, expr.span))?;
                let launches = Launches::with(&module, Extents::Threads([1; 3]));
                let device = self.interp.options.device.clone();
                let kernel = grad::Kernel::new(module, launches, device, self.manner(Checks::default()));
                self.interp.kernels.derived_maps.insert(key.clone(), kernel.clone());
                kernel
            }
        };
        let element = self.interp.layouts.element(self.program, &result);
        let count: usize = shape.iter().product();
        let out = self.new_result(element, &[count], expr.span)?;
        let mut given = vec![];
        for (value, (_, is_array)) in values.into_iter().zip(&key.1) {
            let flat = match is_array {
                true => grad::spread(value, &shape).map(|array| given.push(array)),
                false => flatten(value, &mut given),
            };
            self.settle_problem(flat, expr.span)?;
        }
        given.push(Value::Array(out));
        let extents = Extents::Threads([count as u32, 1, 1]);
        match self.run_traced(kernel, extents, None, given, expr.span)?.pop() {
            Some(result) => self.settle_problem(grad::apply(&Deed::Reshape(shape), vec![result]), expr.span),
            None => Ok(Value::Unit),
        }
    }
}

/// A derivative that is being taken, at these arguments.
pub(super) struct Taking<'d> {
    pub level: u32,
    pub derive: &'d Derive,
    pub values: Vec<Value>,
    pub span: Span,
}

impl Taking<'_> {
    /// Returns the arguments with those wrapped by which is differentiated.
    pub fn with(&self, mut wrap: impl FnMut(Value) -> Outcome<Value>) -> Outcome<Vec<Value>> {
        let mut values = self.values.clone();
        for &at in &self.derive.wrt {
            if let Some(value) = values.get_mut(at as usize) {
                *value = grad::wrapped(std::mem::replace(value, Value::Unit), &mut wrap)?;
            }
        }
        Ok(values)
    }

    /// Returns the arguments with those by which is differentiated moving along a tangent.
    fn along(&self, tangent: &Value) -> Outcome<Vec<Value>> {
        let mut tangents = grad::leaves(tangent).into_iter();
        self.with(|value| {
            let tangent = tangents.next().ok_or_else(|| misfit(&value, &Value::Unit, "tangent"))?;
            fits(&value, &tangent, "tangent")?;
            Ok(grad::traced(value, self.level, Link::Tangent(tangent)))
        })
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
fn flatten(value: Value, args: &mut Vec<Value>) -> Outcome<()> {
    match value {
        Value::Tuple(parts) | Value::Record(Record { fields: parts, .. }) => {
            parts.into_iter().try_for_each(|part| flatten(part, args))?;
        }
        Value::Array(array) => {
            for item in array.items_at(0..array.count()) {
                args.push(item?);
            }
        }
        Value::Traced(traced) if matches!(traced.primal(), Value::Array(_)) => {
            let count = count(traced.primal()) as i64;
            let whole = grad::ops::reshape(&Value::Traced(traced), &[-1])?;
            for at in 0..count {
                args.push(grad::ops::index(&whole, &[SliceSpec::At(at)])?);
            }
        }
        other => args.push(other),
    }
    Ok(())
}

fn pair((value, derivative): (Value, Value)) -> Value {
    Value::Tuple(vec![value, derivative])
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

pub(super) fn seeds(result: &Value, cotangent: &Value, level: u32) -> Outcome<Vec<(u32, Value)>> {
    let (results, cotangents) = (grad::leaves(result), grad::leaves(cotangent));
    if results.len() != cotangents.len() {
        return Err(misfit(result, cotangent, "cotangent"));
    }
    let mut seeds = vec![];
    for (result, cotangent) in results.iter().zip(cotangents) {
        let (value, link) = grad::links(result, level);
        fits(&value, &cotangent, "cotangent")?;
        seeds.extend(link.and_then(|link| link.node()).map(|node| (node, cotangent)));
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
