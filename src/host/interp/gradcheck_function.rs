//! A function that `gradcheck` checks: computes its value, and its derivative in both modes. The function runs either
//! in its own types, or as an `f64` shadow (a copy in which all floats are `f64`).
//!
//! Inputs and outputs are flat vectors of the floats in parameters and results. Each run draws the same random numbers,
//! replays the same `no_grad` values, and prints nothing.

use std::ops::Range;
use std::sync::Arc;

use crate::array::ElementType;
use crate::files::ByteSource;
use crate::grad::{self, AuditTarget};
use crate::ops;
use crate::picture::shown::ShownPicture;
use crate::problem::{HostResult, RuntimeError};
use crate::value::{GradLink, HostValue, RecordValue};
use clk_base::alloc;
use clk_base::file_error::FileError;
use clk_base::source::Span;
use clk_check::promote_f64;
use clk_check::typed::{Derive, Program, Type};
use clk_lower::GenericArgument;
use clk_runtime::DeviceSelector;
use clk_scalar::Scalar;

use super::context::{Eval, EvalContext, HostEffects, Interpreter, NoGradCapture, RandomPosition, Signal};
use super::derive::{DerivativeCall, cotangent_seeds};
use super::frame::HostFrame;

/// Side effects of a function that `gradcheck` runs many times: its output and pictures are discarded.
pub(super) struct SilentEffects<'w>(pub &'w mut dyn HostEffects);

impl HostEffects for SilentEffects<'_> {
    fn print(&mut self, _: &str) {}

    fn show(&mut self, _: ShownPicture) {}

    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        self.0.read(path)
    }

    fn open(&mut self, path: &str) -> Result<Arc<dyn ByteSource>, FileError> {
        self.0.open(path)
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.0.write(path, bytes)
    }
}

/// The checked function with its arguments.
pub(super) struct GradcheckFunction<'s> {
    pub context: EvalContext<'s>,
    pub frame: HostFrame,
    pub derive: &'s Derive,
    pub values: Vec<HostValue>,
    pub span: Span,
    /// Position in the random stream at the start of each run.
    pub random_position: RandomPosition,
    /// Values of the `no_grad` expressions at the arguments `values`.
    pub no_grad_values: Vec<HostValue>,
}

impl GradcheckFunction<'_> {
    /// Runs the function. Returns the flat vector of its differentiated inputs, the range of each parameter in that
    /// vector, and the leaves (floats, vectors and arrays) of the result.
    pub fn run_primal(&mut self) -> Eval<(Vec<f64>, Vec<Range<usize>>, Vec<HostValue>)> {
        let (mut point, mut ranges) = (vec![], vec![]);
        for &at in &self.derive.wrt {
            let start = point.len();
            for leaf in self.values.get(at as usize).map(grad::leaves).unwrap_or_default() {
                point.extend(self.flatten_value(&leaf)?);
            }
            ranges.push(start..point.len());
        }
        self.context.interp.derivatives.no_grad = NoGradCapture::Recording(vec![]);
        let result = self.run_at(self.values.clone());
        if let NoGradCapture::Recording(values) = std::mem::take(&mut self.context.interp.derivatives.no_grad) {
            self.no_grad_values = values;
        }
        Ok((point, ranges, grad::leaves(&result?)))
    }

    fn flatten_value(&self, value: &HostValue) -> Eval<Vec<f64>> {
        self.context.locate_error(grad::flatten(value), self.span)
    }

    /// Flattens several values to one vector.
    pub fn flatten_all(&self, values: &[HostValue]) -> Eval<Vec<f64>> {
        let mut all = vec![];
        for value in values {
            alloc::append(&mut all, &self.flatten_value(value)?);
        }
        Ok(all)
    }

    /// Returns the leaves (floats, vectors and arrays) of the differentiated arguments.
    pub fn input_leaves(&self) -> Vec<HostValue> {
        let leaves = |&at: &u32| self.values.get(at as usize).map(grad::leaves).unwrap_or_default();
        self.derive.wrt.iter().flat_map(leaves).collect()
    }

    /// Rounds numbers to the types of the corresponding floats in the values `like`.
    pub fn round_to_types(&self, like: &[HostValue], numbers: &[f64]) -> Eval<Vec<f64>> {
        let rounded = self.context.locate_error(unflatten_like(like, numbers), self.span)?;
        self.flatten_all(&grad::leaves(&rounded))
    }

    fn derivative_call(&self, level: u32, values: Vec<HostValue>) -> DerivativeCall<'_> {
        DerivativeCall { level, derive: self.derive, values, span: self.span }
    }

    fn run_at(&mut self, values: Vec<HostValue>) -> Eval {
        self.context.interp.random_position = self.random_position;
        let request = DerivativeCall { level: 0, derive: self.derive, values, span: self.span };
        self.context.call_differentiated(&mut self.frame, &request, request.values.clone())
    }

    /// Runs the function with its differentiated arguments displaced by `by` times `direction`. Returns the flattened
    /// result.
    pub fn eval_displaced(&mut self, direction: &[f64], by: f64) -> Eval<Vec<f64>> {
        let mut left = direction;
        let values = self.derivative_call(0, self.values.clone()).wrap_inputs(|leaf| {
            let mut numbers = grad::flatten(&leaf)?;
            let (own, others) = left.split_at(numbers.len().min(left.len()));
            left = others;
            numbers.iter_mut().zip(own).for_each(|(x, v)| *x += by * v);
            grad::unflatten(&leaf, &numbers, None)
        });
        let values = self.context.locate_error(values, self.span)?;
        self.context.interp.derivatives.no_grad = NoGradCapture::Replaying(self.no_grad_values.clone().into());
        let result = self.run_at(values);
        self.context.interp.derivatives.no_grad = NoGradCapture::Off;
        self.flatten_all(&grad::leaves(&result?))
    }

    /// Returns the derivative of the flattened result along a direction, in forward mode.
    pub fn forward_mode(&mut self, direction: &[f64]) -> Eval<Vec<f64>> {
        let tangent = self.context.locate_error(unflatten_like(&self.input_leaves(), direction), self.span)?;
        let (_, tangent) = self.run_at_new_level(|subject, level| {
            let request =
                DerivativeCall { level, derive: subject.derive, values: subject.values.clone(), span: subject.span };
            subject.context.run_jvp(&mut subject.frame, &request, tangent)
        })?;
        self.flatten_all(&grad::leaves(&tangent))
    }

    /// Returns the gradient in reverse mode with respect to all differentiated inputs, for each cotangent.
    pub fn reverse_mode(&mut self, cotangents: &[Vec<f64>]) -> Eval<Vec<Vec<f64>>> {
        self.run_at_new_level(|subject, level| {
            let request =
                DerivativeCall { level, derive: subject.derive, values: subject.values.clone(), span: subject.span };
            let (tape, nodes, result) = subject.context.record_on_tape(&mut subject.frame, &request)?;
            let like = grad::leaves(&grad::primal(&result));
            let mut gradients = vec![];
            for cotangent in cotangents {
                let seeds =
                    unflatten_like(&like, cotangent).and_then(|cotangent| cotangent_seeds(&result, &cotangent, level));
                let seeds = subject.context.locate_error(seeds, subject.span)?;
                let pulled = subject.context.run_reverse_sweep(&tape, seeds, &nodes, subject.span)?;
                let pulled: Vec<HostValue> = pulled.iter().map(grad::primal).collect();
                gradients.push(subject.flatten_all(&pulled)?);
            }
            Ok(gradients)
        })
    }

    /// Compares the derivative of each operation with finite differences. Returns the location and description of the
    /// first operation with the problem `finds`, such as a wrong rule.
    pub fn locate(&mut self, finds: AuditTarget) -> Option<(Span, String)> {
        let auditor = grad::auditor(finds);
        let ran = self.run_at_new_level(|subject, level| {
            let values = subject
                .derivative_call(level, subject.values.clone())
                .wrap_inputs(|leaf| Ok(grad::trace(leaf, level, GradLink::Audit(auditor.clone()))));
            let values = subject.context.locate_error(values, subject.span)?;
            let request = DerivativeCall { level, derive: subject.derive, values, span: subject.span };
            subject.context.call_differentiated(&mut subject.frame, &request, request.values.clone())
        });
        match ran {
            Err(Signal::Error(found)) if found.code == "E0721" => found
                .labels
                .first()
                .filter(|label| label.span != self.span)
                .map(|label| (label.span, label.text.clone())),
            _ => None,
        }
    }

    /// Calls `run` with a new level of differentiation, at which it can trace values.
    fn run_at_new_level<T>(&mut self, run: impl FnOnce(&mut Self, u32) -> Eval<T>) -> Eval<T> {
        self.context.interp.random_position = self.random_position;
        self.context.interp.derivatives.depth += 1;
        let level = self.context.interp.derivatives.depth;
        let result = run(self, level);
        self.context.interp.derivatives.depth -= 1;
        result
    }
}

/// Converts a flat vector of numbers to a tuple of values with the types and shapes of `like`.
fn unflatten_like(like: &[HostValue], numbers: &[f64]) -> HostResult<HostValue> {
    let mut left = numbers;
    let mut parts = vec![];
    for leaf in like {
        let (own, others) = left.split_at(grad::flatten(leaf)?.len().min(left.len()));
        parts.push(grad::unflatten(leaf, own, None)?);
        left = others;
    }
    Ok(HostValue::Tuple(parts))
}

/// The `f64` shadow of a function: a copy of the program and interpreter in which all floats are `f64`.
pub(super) struct F64Shadow {
    pub program: Program,
    pub interp: Interpreter,
    pub derive: Derive,
    generics: Arc<[GenericArgument]>,
}

impl F64Shadow {
    /// Creates the shadow of a function. It runs on the simulator.
    pub fn new(machine: &EvalContext<'_>, frame: &HostFrame, derive: &Derive) -> F64Shadow {
        let own = &machine.interp;
        let mut options = own.options.clone();
        if let Some(Ok(simulator)) =
            own.device_pool.available.as_ref().map(|devices| devices.open(DeviceSelector::Sim(None)))
        {
            options.device = simulator;
        }
        let mut interp = Interpreter::new(options);
        (interp.device_pool.available, interp.max_array_bytes) =
            (own.device_pool.available.clone(), own.max_array_bytes);
        interp.expressions = own.expressions.without_kernels();
        (interp.stack.end, interp.stack.depth, interp.stack.span) = (own.stack.end, own.stack.depth, own.stack.span);
        let generics = frame.generics.iter().map(GenericArgument::widened).collect();
        F64Shadow {
            program: promote_f64::program(machine.program),
            interp,
            derive: promote_f64::derive(derive),
            generics,
        }
    }

    pub fn shadow_frame(&self, frame: &HostFrame) -> HostFrame {
        HostFrame::new(self.generics.clone(), frame.dims.clone())
    }

    /// Converts a value to the shadow's types.
    pub fn widen_value(&mut self, machine: &mut EvalContext<'_>, value: &HostValue) -> HostResult<HostValue> {
        let wide = |value: &HostValue, ty: Scalar| match ty.is_float() {
            true => grad::unflatten(value, &grad::flatten(value)?, Some(Scalar::F64)),
            false => Ok(value.clone()),
        };
        match value {
            HostValue::Scalar(number) => wide(value, number.ty),
            HostValue::Vector(vector) => wide(value, vector.ty()),
            HostValue::Array(array) => match array.element() {
                ElementType::Scalar(ty) | ElementType::Vector(ty, _) => wide(value, *ty),
                element => {
                    let ty = promote_f64::ty(&machine.interp.element_type(element));
                    let element = self.interp.element(&self.program, &ty);
                    let mut parts = alloc::vec(array.count());
                    for item in array.items_at(0..array.count()) {
                        parts.push(self.widen_value(machine, &item?)?);
                    }
                    let dims: Vec<i64> = array.shape().iter().map(|&extent| extent as i64).collect();
                    match parts.is_empty() {
                        true => crate::array::Array::zeros(element, array.shape()).map(HostValue::Array),
                        false => ops::reshape(&ops::literal(&machine.exec, &parts, Some(&element))?, &dims),
                    }
                }
            },
            HostValue::Tuple(parts) => parts
                .iter()
                .map(|part| self.widen_value(machine, part))
                .collect::<HostResult<_>>()
                .map(HostValue::Tuple),
            HostValue::Record(record) => {
                let ty = machine.interp.element_type(&ElementType::Record(record.layout.clone()));
                let Type::Struct(id) = ty else { return Err(RuntimeError::new("E0999", "a struct without a type")) };
                let layout = self.interp.caches.layouts.struct_layout(&self.program, id);
                let fields = record.fields.iter().map(|field| self.widen_value(machine, field));
                Ok(HostValue::Record(RecordValue { layout, fields: fields.collect::<HostResult<_>>()? }))
            }
            other => Ok(other.clone()),
        }
    }
}
