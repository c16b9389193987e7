//! A function whose derivative is checked, in its own types or as a twin in `f64`: its value, and both modes of its derivative.
//!
//! Inputs and outputs are the floats of parameters and results as numbers. Each run draws the same random numbers, takes the same values
//! from `no_grad`, and prints nothing.

use std::ops::Range;
use std::sync::Arc;

use crate::base::room;
use crate::base::source::Span;
use crate::check::typed::{Derive, Program, Type};
use crate::check::widen;
use crate::device::Wanted;
use crate::host::array::Element;
use crate::host::grad::{self, Finds};
use crate::host::ops;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Link, Record, Value};
use crate::lang::scalar::Scalar;
use crate::lower::Argument;

use super::derive::{Taking, seeds};
use super::frame::Frame;
use super::machine::{Draws, Eval, Held, Interpreter, Machine, Shown, Signal, World};

/// The world of a function that runs many times.
pub(super) struct Quiet<'w>(pub &'w mut dyn World);

impl World for Quiet<'_> {
    fn print(&mut self, _: &str) {}

    fn show(&mut self, _: Shown) {}

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        self.0.read(path)
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        self.0.write(path, bytes)
    }
}

/// The function, at its arguments.
pub(super) struct Subject<'s> {
    pub machine: Machine<'s>,
    pub frame: Frame,
    pub derive: &'s Derive,
    pub values: Vec<Value>,
    pub span: Span,
    /// The random substream with which each run begins.
    pub draws: Draws,
    /// What `no_grad` gave at these arguments.
    pub held: Vec<Value>,
}

impl Subject<'_> {
    /// Returns the numbers by which is differentiated, those of each parameter, and the result.
    pub fn begin(&mut self) -> Eval<(Vec<f64>, Vec<Range<usize>>, Vec<Value>)> {
        let (mut point, mut ranges) = (vec![], vec![]);
        for &at in &self.derive.wrt {
            let start = point.len();
            for leaf in self.values.get(at as usize).map(grad::leaves).unwrap_or_default() {
                point.extend(self.numbers(&leaf)?);
            }
            ranges.push(start..point.len());
        }
        self.machine.interp.held = Held::Kept(vec![]);
        let result = self.run(self.values.clone());
        if let Held::Kept(values) = std::mem::take(&mut self.machine.interp.held) {
            self.held = values;
        }
        Ok((point, ranges, grad::leaves(&result?)))
    }

    fn numbers(&self, value: &Value) -> Eval<Vec<f64>> {
        self.machine.settle_problem(grad::numbers(value), self.span)
    }

    /// Returns the numbers of several floats, vectors and arrays.
    pub fn all_numbers(&self, values: &[Value]) -> Eval<Vec<f64>> {
        let mut all = vec![];
        for value in values {
            room::append(&mut all, &self.numbers(value)?);
        }
        Ok(all)
    }

    /// Returns the floats, vectors and arrays by which is differentiated.
    pub fn leaves(&self) -> Vec<Value> {
        let leaves = |&at: &u32| self.values.get(at as usize).map(grad::leaves).unwrap_or_default();
        self.derive.wrt.iter().flat_map(leaves).collect()
    }

    /// Returns numbers as the types of values round them.
    pub fn rounded(&self, like: &[Value], numbers: &[f64]) -> Eval<Vec<f64>> {
        let rounded = self.machine.settle_problem(parted(like, numbers), self.span)?;
        self.all_numbers(&grad::leaves(&rounded))
    }

    fn taking(&self, level: u32, values: Vec<Value>) -> Taking<'_> {
        Taking { level, derive: self.derive, values, span: self.span }
    }

    fn run(&mut self, values: Vec<Value>) -> Eval {
        self.machine.interp.draws = self.draws;
        let taking = Taking { level: 0, derive: self.derive, values, span: self.span };
        self.machine.inner(&mut self.frame, &taking, taking.values.clone())
    }

    /// Returns the result's numbers where the parameters are `by` times a direction further.
    pub fn moved(&mut self, direction: &[f64], by: f64) -> Eval<Vec<f64>> {
        let mut left = direction;
        let values = self.taking(0, self.values.clone()).with(|leaf| {
            let mut numbers = grad::numbers(&leaf)?;
            let (own, others) = left.split_at(numbers.len().min(left.len()));
            left = others;
            numbers.iter_mut().zip(own).for_each(|(x, v)| *x += by * v);
            grad::of_numbers(&leaf, &numbers, None)
        });
        let values = self.machine.settle_problem(values, self.span)?;
        self.machine.interp.held = Held::Given(self.held.clone().into());
        let result = self.run(values);
        self.machine.interp.held = Held::Not;
        self.all_numbers(&grad::leaves(&result?))
    }

    /// Returns the result's derivative along a direction, in forward mode.
    pub fn forward(&mut self, direction: &[f64]) -> Eval<Vec<f64>> {
        let tangent = self.machine.settle_problem(parted(&self.leaves(), direction), self.span)?;
        let (_, tangent) = self.traced(|subject, level| {
            let taking = Taking { level, derive: subject.derive, values: subject.values.clone(), span: subject.span };
            subject.machine.pushed_forward(&mut subject.frame, &taking, tangent)
        })?;
        self.all_numbers(&grad::leaves(&tangent))
    }

    /// Returns the derivatives by all numbers of the parameters, in reverse mode, for each of several cotangents.
    pub fn reverse(&mut self, cotangents: &[Vec<f64>]) -> Eval<Vec<Vec<f64>>> {
        self.traced(|subject, level| {
            let taking = Taking { level, derive: subject.derive, values: subject.values.clone(), span: subject.span };
            let (tape, nodes, result) = subject.machine.recorded(&mut subject.frame, &taking)?;
            let like = grad::leaves(&grad::primal(&result));
            let mut found = vec![];
            for cotangent in cotangents {
                let seeds = parted(&like, cotangent).and_then(|cotangent| seeds(&result, &cotangent, level));
                let seeds = subject.machine.settle_problem(seeds, subject.span)?;
                let pulled = subject.machine.pulled(&tape, seeds, &nodes, subject.span)?;
                let pulled: Vec<Value> = pulled.iter().map(grad::primal).collect();
                found.push(subject.all_numbers(&pulled)?);
            }
            Ok(found)
        })
    }

    /// Returns the first operation that is found by looking at each by itself, if there is one: its place and what is said of it.
    pub fn culprit(&mut self, finds: Finds) -> Option<(Span, String)> {
        let auditor = grad::auditor(finds);
        let ran = self.traced(|subject, level| {
            let values = subject
                .taking(level, subject.values.clone())
                .with(|leaf| Ok(grad::traced(leaf, level, Link::Audit(auditor.clone()))));
            let values = subject.machine.settle_problem(values, subject.span)?;
            let taking = Taking { level, derive: subject.derive, values, span: subject.span };
            subject.machine.inner(&mut subject.frame, &taking, taking.values.clone())
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

    /// Runs something at a level of its own.
    fn traced<T>(&mut self, run: impl FnOnce(&mut Self, u32) -> Eval<T>) -> Eval<T> {
        self.machine.interp.draws = self.draws;
        self.machine.interp.tracing += 1;
        let level = self.machine.interp.tracing;
        let result = run(self, level);
        self.machine.interp.tracing -= 1;
        result
    }
}

/// Returns numbers as values of the forms of others, one after the other.
fn parted(like: &[Value], numbers: &[f64]) -> Outcome<Value> {
    let mut left = numbers;
    let mut parts = vec![];
    for leaf in like {
        let (own, others) = left.split_at(grad::numbers(leaf)?.len().min(left.len()));
        parts.push(grad::of_numbers(leaf, own, None)?);
        left = others;
    }
    Ok(Value::Tuple(parts))
}

/// What a twin in `f64` consists of.
pub(super) struct Twin {
    pub program: Program,
    pub interp: Interpreter,
    pub derive: Derive,
    generics: Arc<[Argument]>,
}

impl Twin {
    /// Makes the twin of a function, on the simulator.
    pub fn new(machine: &Machine<'_>, frame: &Frame, derive: &Derive) -> Twin {
        let own = &machine.interp;
        let mut options = own.options.clone();
        if let Some(Ok(simulator)) = own.devices.as_ref().map(|devices| devices.open(Wanted::Sim(None))) {
            options.device = simulator;
        }
        let mut interp = Interpreter::new(options);
        (interp.devices, interp.largest) = (own.devices.clone(), own.largest);
        (interp.stack_end, interp.depth, interp.at) = (own.stack_end, own.depth, own.at);
        let generics = frame.generics.iter().map(Argument::widened).collect();
        Twin { program: widen::program(machine.program), interp, derive: widen::derive(derive), generics }
    }

    pub fn frame(&self, frame: &Frame) -> Frame {
        Frame::new(self.generics.clone(), frame.dims.clone())
    }

    /// Returns the value that a value becomes.
    pub fn value(&mut self, machine: &mut Machine<'_>, value: &Value) -> Outcome<Value> {
        let wide = |value: &Value, ty: Scalar| match ty.is_float() {
            true => grad::of_numbers(value, &grad::numbers(value)?, Some(Scalar::F64)),
            false => Ok(value.clone()),
        };
        match value {
            Value::Scalar(number) => wide(value, number.ty),
            Value::Vector(vector) => wide(value, vector.ty()),
            Value::Array(array) => match array.element() {
                Element::Scalar(ty) | Element::Vector(ty, _) => wide(value, *ty),
                element => {
                    let ty = widen::ty(&machine.interp.element_type(element));
                    let element = self.interp.element(&self.program, &ty);
                    let mut parts = room::vec(array.count());
                    for item in array.items_at(0..array.count()) {
                        parts.push(self.value(machine, &item?)?);
                    }
                    let dims: Vec<i64> = array.shape().iter().map(|&extent| extent as i64).collect();
                    match parts.is_empty() {
                        true => crate::host::array::Array::zeros(element, array.shape()).map(Value::Array),
                        false => ops::reshape(&ops::literal(&parts, Some(&element))?, &dims),
                    }
                }
            },
            Value::Tuple(parts) => {
                parts.iter().map(|part| self.value(machine, part)).collect::<Outcome<_>>().map(Value::Tuple)
            }
            Value::Record(record) => {
                let ty = machine.interp.element_type(&Element::Record(record.layout.clone()));
                let Type::Struct(id) = ty else { return Err(Problem::new("E0999", "a struct without a type")) };
                let layout = self.interp.layouts.of_struct(&self.program, id);
                let fields = record.fields.iter().map(|field| self.value(machine, field));
                Ok(Value::Record(Record { layout, fields: fields.collect::<Outcome<_>>()? }))
            }
            other => Ok(other.clone()),
        }
    }
}
