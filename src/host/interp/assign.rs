//! Assignment to variables, elements, slices and fields: evaluation of access paths, reading and writing through them.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{ArrayInit, Expr, ExprKind, LocalId, SmolStr, Type};
use crate::host::array::{Array, Element, SliceSpec, slice};
use crate::host::grad;
use crate::host::ops::{self, Column, Pick, Selector, overflow};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Record, Value};
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::Scalar;

use super::frame::Frame;
use super::machine::{Eval, Machine};
use super::open::is_open;

/// One step of an access path, from a variable to a part of its value.
pub(super) enum Step {
    Index(Vec<SliceSpec>),
    /// Indices of which some are arrays.
    Gather(Vec<Pick>),
    Field(usize),
    /// A field of a value whose type is known only at run time.
    Named(SmolStr),
    Lanes(Vec<u8>),
}

impl From<Selector> for Step {
    fn from(selector: Selector) -> Step {
        match selector {
            Selector::Specs(specs) => Step::Index(specs),
            Selector::Picks(picks) => Step::Gather(picks),
        }
    }
}

impl Machine<'_> {
    pub(crate) fn assign(&mut self, frame: &mut Frame, place: &Expr, op: Option<BinaryOp>, value: &Expr) -> Eval<()> {
        let (with, given) = (value.span, value);
        let mut value = self.eval(frame, value)?;
        // Evaluated once, as its indices may draw random numbers or have side effects.
        let (root, steps) = self.place(frame, place)?;
        let Some(op) = op else {
            if is_open(given) && !steps.is_empty() {
                let whole = self.read(frame, place, root, &[])?;
                if let Some(scalar) = ops::common_scalar(&[&grad::primal(&whole)]) {
                    value = self.literal_array(frame, given, scalar, "the assignment")?;
                }
            }
            let given = matches!(value, Value::Scalar(_)).then(|| value.clone());
            self.put(frame, place, (root, &steps), value)?;
            if let (Some(given), []) = (given, &steps[..]) {
                self.note_assigned(frame, root, Some(with), &given);
            }
            return Ok(());
        };
        let old = self.read(frame, place, root, &steps)?;
        if is_open(given)
            && let Some(scalar) = ops::common_scalar(&[&grad::primal(&old)])
        {
            value = self.literal_array(frame, given, scalar, &format!("`{}`", op.symbol()))?;
        }
        self.sound(place.span, || overflow::of_binary(op, &old, &value))?;
        let new = grad::ops::binary(op, &old, &value).map_err(|p| self.problem(p, place.span))?;
        if steps.is_empty() {
            self.note_update(frame, op, (place, &old), (with, &value), &new);
        }
        drop(old);
        let given = matches!(new, Value::Scalar(_)).then(|| new.clone());
        self.put(frame, place, (root, &steps), new)?;
        if let (Some(given), []) = (given, &steps[..]) {
            self.note_assigned(frame, root, Some(place.span.to(with)), &given);
        }
        Ok(())
    }

    /// Writes a value to an lvalue.
    pub(crate) fn store(&mut self, frame: &mut Frame, place: &Expr, value: Value) -> Eval<()> {
        let (root, steps) = self.place(frame, place)?;
        self.put(frame, place, (root, &steps), value)
    }

    /// Evaluates an lvalue to its root variable and access path.
    pub(super) fn place<'e>(&mut self, frame: &mut Frame, place: &'e Expr) -> Eval<(&'e Expr, Vec<Step>)> {
        let mut steps = Vec::new();
        let root = self.walk(frame, place, &mut steps)?;
        Ok((root, steps))
    }

    /// Reads through an access path.
    pub(super) fn read(&mut self, frame: &mut Frame, place: &Expr, root: &Expr, steps: &[Step]) -> Eval {
        let mut value = self.eval(frame, root)?;
        for step in steps {
            let part = match step {
                Step::Index(specs) => grad::ops::index(&value, specs),
                Step::Gather(picks) => grad::ops::gather(&value, picks),
                Step::Field(field) => ops::field(&value, *field),
                Step::Named(name) => grad::ops::named_field(&value, name),
                Step::Lanes(lanes) => grad::ops::swizzle(&value, lanes),
            };
            value = part.map_err(|p| self.problem(p, place.span))?;
        }
        Ok(value)
    }

    pub(super) fn put(
        &mut self,
        frame: &mut Frame,
        place: &Expr,
        (root, steps): (&Expr, &[Step]),
        mut value: Value,
    ) -> Eval<()> {
        // For slices and columns, the array itself checks the type of the value.
        if !place.is_part() {
            let old = match root.kind {
                ExprKind::Local(local) if steps.is_empty() => frame.get(local),
                ExprKind::Global(id) if steps.is_empty() => self.interp.globals.get(id.index()).cloned().flatten(),
                _ => None,
            };
            value = self.assignable(frame, &place.ty, old.as_ref(), value, place.span)?;
        }
        if steps.is_empty() {
            self.note_assigned(frame, root, None, &value);
        }
        if let (ExprKind::Local(local), []) = (&root.kind, steps) {
            return self.set_local(frame, *local, value, place.span);
        }
        let slot = match root.kind {
            ExprKind::Local(local) => Some(frame.place(local)),
            ExprKind::Global(global) => self.interp.globals.get_mut(global.index()),
            _ => None,
        };
        let Some(slot) = slot else { return Err(self.broken(place.span, "this is not a place")) };
        if steps.is_empty() {
            *slot = Some(value);
            return Ok(());
        }
        let Some(target) = slot.as_mut() else {
            return Err(self.broken(place.span, "a variable without a value is written in part"));
        };
        let result = write(target, steps, value);
        result.map_err(|p| self.problem(p, place.span))
    }

    /// Returns the root variable of an lvalue and appends its access path to `steps`. Indices are evaluated from left to right.
    fn walk<'e>(&mut self, frame: &mut Frame, place: &'e Expr, steps: &mut Vec<Step>) -> Eval<&'e Expr> {
        let (root, step) = match &place.kind {
            ExprKind::Index { base, indices } => {
                (self.walk(frame, base, steps)?, self.positions(frame, base, indices)?.into())
            }
            ExprKind::Slice { base, indices } => {
                (self.walk(frame, base, steps)?, self.selector(frame, indices)?.into())
            }
            ExprKind::Field { base, field } | ExprKind::TupleField { base, field } => {
                (self.walk(frame, base, steps)?, Step::Field(*field as usize))
            }
            ExprKind::DynField { base, name } => (self.walk(frame, base, steps)?, Step::Named(name.clone())),
            ExprKind::Swizzle { base, lanes } => (self.walk(frame, base, steps)?, Step::Lanes(lanes.clone())),
            _ => return Ok(place),
        };
        steps.push(step);
        Ok(root)
    }

    /// Creates a fixed-size array of a host function.
    pub(crate) fn local_array(
        &mut self,
        frame: &mut Frame,
        local: LocalId,
        extents: &[Expr],
        init: &ArrayInit,
        span: Span,
    ) -> Eval {
        let mut shape = Vec::with_capacity(extents.len());
        for extent in extents {
            shape.push(self.integer(frame, extent)?);
        }
        let array = match init {
            ArrayInit::Copy(value) => return self.copied_array(frame, local, &shape, value),
            ArrayInit::Fill(value) => {
                let value = self.eval(frame, value)?;
                grad::ops::full(&shape, &value)
            }
            ArrayInit::Elements(items) => {
                let values = self.values(frame, items)?;
                grad::ops::literal(&values, None).and_then(|a| grad::ops::reshape(&a, &shape))
            }
            ArrayInit::None => {
                let declared = frame.body().and_then(|b| b.locals.get(local)).map(|l| l.ty.clone());
                let element = match declared {
                    Some(Type::Array(array)) => self.concrete(frame, &array.element),
                    _ => Type::Scalar(Scalar::F32),
                };
                let element = self.interp.layouts.element(self.program, &element);
                ops::create::shape(&shape).and_then(|extents| Array::zeros(element, &extents)).map(Value::Array)
            }
        };
        array.map_err(|p| self.problem(p, span))
    }
}

impl Machine<'_> {
    /// Returns the value of a variable whose type states its extents.
    fn copied_array(&mut self, frame: &mut Frame, local: LocalId, shape: &[i64], value: &Expr) -> Eval {
        let declared = frame.body().and_then(|body| body.locals.get(local)).map(|local| local.name.clone());
        let name = declared.unwrap_or_default();
        let found = self.eval(frame, value)?;
        match &grad::primal(&found) {
            Value::Array(array) if array.shape().iter().map(|&n| n as i64).eq(shape.iter().copied()) => Ok(found),
            other => {
                let wanted = shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
                let title = format!("`{name}` is declared with the extents {wanted}");
                let diagnostic = Diagnostic::error("E0524", title).at(value.span, format!("`{}`", other.type_name()));
                Err(self.error(diagnostic))
            }
        }
    }
}

/// Writes a value through an access path inside `target`.
fn write(target: &mut Value, steps: &[Step], value: Value) -> Outcome<()> {
    let Some((step, rest)) = steps.split_first() else {
        *target = value;
        return Ok(());
    };
    match (step, &mut *target) {
        (Step::Field(i), Value::Record(Record { fields, .. }) | Value::Tuple(fields)) => match fields.get_mut(*i) {
            Some(field) => write(field, rest, value),
            None => Err(Problem::new("E0504", format!("there is no field {i}"))),
        },
        (Step::Named(name), Value::Record(Record { fields, layout })) => {
            match layout.position(name).and_then(|i| fields.get_mut(i)) {
                Some(field) => write(field, rest, value),
                None => Err(Problem::new("E0543", format!("there is no field `{name}` in a `{}`", layout.name))),
            }
        }
        (Step::Index(specs), Value::Strings(texts)) if rest.is_empty() => ops::text::assign(texts, specs, value),
        (_, Value::Table(_)) => Err(Problem::new("E0504", "a table does not change").help(
            "keep its columns in variables: `var ages = t.age`; `save(\"t.csv\", age = ages)` makes a table of them",
        )),
        (_, Value::Array(_) | Value::Vector(_) | Value::Traced(_)) => write_inside(target, step, rest, value),
        (_, target) => Err(no_part(target)),
    }
}

/// Writes to a part of an array or a vector. With a longer path, the part is extracted, changed and written back.
fn write_inside(target: &mut Value, step: &Step, rest: &[Step], mut value: Value) -> Outcome<()> {
    let part = Part::of(target, step)?;
    if let Value::Array(array) = target
        && !grad::is_traced(&value)
        && let Some(column) = part.column(array)
    {
        let mut part = Value::Array(column.of(array)?);
        match (rest, &mut part) {
            ([], Value::Array(part)) => ops::assign(part, &[], &value)?,
            (rest, part) => write(part, rest, value)?,
        }
        return match &part {
            Value::Array(part) => column.put(array, part),
            _ => Err(Problem::new("E0504", "a column is no array any more")),
        };
    }
    if !rest.is_empty() {
        let mut inner = part.read(target)?;
        write(&mut inner, rest, value)?;
        value = inner;
    }
    part.write(target, &value)
}

/// A part of an array or a vector.
enum Part<'s> {
    Index(&'s [SliceSpec]),
    Gather(&'s [Pick]),
    Lanes(Vec<u8>),
    /// A field of an array of structs or tuples.
    Field(usize),
}

impl<'s> Part<'s> {
    fn of(target: &Value, step: &'s Step) -> Outcome<Part<'s>> {
        let plain = if let Value::Traced(traced) = target { traced.primal() } else { target };
        Ok(match (step, plain) {
            (Step::Index(specs), Value::Vector(vector)) => Part::Lanes(lane(specs, vector.lanes())?),
            (Step::Index(specs), _) => Part::Index(specs),
            (Step::Gather(picks), _) => Part::Gather(picks),
            (Step::Lanes(lanes), _) => Part::Lanes(lanes.clone()),
            (Step::Field(field), _) => Part::Field(*field),
            (Step::Named(name), Value::Array(array)) if array.scalar().is_none() => match array.element() {
                Element::Record(layout) => {
                    layout.position(name).map(Part::Field).ok_or_else(|| no_name(target, name))?
                }
                _ => return Err(no_name(target, name)),
            },
            (Step::Named(name), _) => Part::Lanes(ops::lanes_of(name).ok_or_else(|| no_name(target, name))?),
        })
    }

    /// Returns the part as a column of an array, which is a copy.
    fn column(&self, array: &Array) -> Option<Column> {
        match self {
            Part::Lanes(lanes) => Column::of_lanes(array, lanes),
            Part::Field(field) => Column::of_field(array, *field),
            Part::Index(_) | Part::Gather(_) => None,
        }
    }

    fn read(&self, target: &Value) -> Outcome<Value> {
        match self {
            Part::Index(specs) => grad::ops::index(target, specs),
            Part::Gather(picks) => grad::ops::gather(target, picks),
            Part::Lanes(lanes) => grad::ops::swizzle(target, lanes),
            Part::Field(field) => ops::field(target, *field),
        }
    }

    /// Writes a value. If it or the target is traced, the target becomes a new value, which derivatives are taken along with.
    fn write(&self, target: &mut Value, value: &Value) -> Outcome<()> {
        let is_of_structs = matches!(target, Value::Array(array) if array.scalar().is_none());
        if is_of_structs && grad::is_traced(value) {
            return Err(grad::of_structs());
        }
        let done = match self {
            Part::Index(specs) => grad::ops::assign(target, specs, value)?,
            Part::Gather(picks) => grad::ops::scatter(target, picks, value)?,
            Part::Lanes(lanes) => grad::ops::set_lanes(target, lanes, value)?,
            Part::Field(_) => false,
        };
        match (self, target) {
            _ if done => Ok(()),
            (Part::Index(specs), Value::Array(array)) => ops::assign(array, specs, value),
            (Part::Gather(picks), Value::Array(array)) => ops::scatter(array, picks, value),
            (Part::Lanes(lanes), target) => ops::set_lanes(target, lanes, value),
            (_, target) => Err(no_part(target)),
        }
    }
}

fn no_name(target: &Value, name: &str) -> Problem {
    Problem::new("E0543", format!("there is no `{name}` in a value of type {}", target.type_name()))
}

/// Returns the component of a vector at an index.
fn lane(specs: &[SliceSpec], lanes: usize) -> Outcome<Vec<u8>> {
    match specs {
        [SliceSpec::At(at)] => match u8::try_from(*at).ok().filter(|lane| usize::from(*lane) < lanes) {
            Some(lane) => Ok(vec![lane]),
            None => Err(slice::out_of_range(*at, 0, lanes, 1)),
        },
        _ => Err(Problem::new("E0505", "a component of a vector has one index")),
    }
}

fn no_part(target: &Value) -> Problem {
    Problem::new("E0504", format!("no part of a value of type {} can be written", target.type_name()))
}
