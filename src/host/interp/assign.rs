//! Assignment to variables, elements, slices and fields: evaluation of access paths, reading and writing through them.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{ArrayInit, Expr, ExprKind, LocalId, SmolStr, Type};
use crate::host::array::{Array, SliceSpec, slice};
use crate::host::grad;
use crate::host::ops::{self, Column, Pick, Selector, overflow};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Record, Value, Vector};
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::Scalar;

use super::frame::Frame;
use super::machine::{Eval, Machine};

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
        let with = value.span;
        let value = self.eval(frame, value)?;
        // Evaluated once, as its indices may draw random numbers or have side effects.
        let (root, steps) = self.place(frame, place)?;
        let Some(op) = op else {
            let given = matches!(value, Value::Scalar(_)).then(|| value.clone());
            self.put(frame, place, (root, &steps), value)?;
            if let (Some(given), []) = (given, &steps[..]) {
                self.note_assigned(frame, root, Some(with), &given);
            }
            return Ok(());
        };
        let old = self.read(frame, place, root, &steps)?;
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
        match &found {
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
    // The array that is written becomes a new one, which derivatives are taken along with.
    let done = match (steps, &*target) {
        ([Step::Index(specs)], Value::Array(_) | Value::Traced(_) | Value::Vector(_)) => {
            grad::ops::assign(target, specs, &value)?
        }
        ([Step::Gather(picks)], Value::Array(_) | Value::Traced(_)) => grad::ops::scatter(target, picks, &value)?,
        ([Step::Lanes(lanes)], Value::Vector(_) | Value::Traced(_)) => grad::ops::set_lanes(target, lanes, &value)?,
        _ => false,
    };
    if done {
        return Ok(());
    }
    match (steps, target) {
        ([], target) => {
            *target = value;
            Ok(())
        }
        ([Step::Index(specs)], Value::Array(array)) => ops::assign(array, specs, &value),
        ([Step::Gather(picks), rest @ ..], Value::Array(array)) => {
            let mut value = value;
            if !rest.is_empty() {
                let mut part = grad::ops::gather(&Value::Array(array.clone()), picks)?;
                write(&mut part, rest, value)?;
                value = part;
            }
            ops::scatter(array, picks, &value)
        }
        ([Step::Index(specs)], Value::Strings(texts)) => ops::text::assign(texts, specs, value),
        ([Step::Field(i), rest @ ..], Value::Record(Record { fields, .. }) | Value::Tuple(fields)) => {
            match fields.get_mut(*i) {
                Some(field) => write(field, rest, value),
                None => Err(Problem::new("E0504", format!("there is no field {i}"))),
            }
        }
        ([Step::Named(name), rest @ ..], Value::Record(Record { fields, layout })) => {
            match layout.position(name).and_then(|i| fields.get_mut(i)) {
                Some(field) => write(field, rest, value),
                None => Err(Problem::new("E0543", format!("there is no field `{name}` in a `{}`", layout.name))),
            }
        }
        ([Step::Named(name), rest @ ..], Value::Vector(vector)) => {
            let lane = |c: char| "xyzw".find(c).map(|lane| lane as u8);
            match name.chars().map(lane).collect::<Option<Vec<u8>>>() {
                Some(lanes) if (1..=4).contains(&lanes.len()) => write_inside_lanes(vector, &lanes, rest, value),
                _ => Err(Problem::new("E0543", format!("a vector has no component `{name}`"))),
            }
        }
        ([Step::Index(specs)], Value::Vector(vector)) => match specs.as_slice() {
            [SliceSpec::At(at)] => match u8::try_from(*at).ok().filter(|lane| usize::from(*lane) < vector.lanes()) {
                Some(lane) => write_lanes(vector, &[lane], &value),
                None => Err(slice::out_of_range(*at, 0, vector.lanes(), 1)),
            },
            _ => Err(Problem::new("E0505", "a component of a vector has one index")),
        },
        ([Step::Lanes(lanes), rest @ ..], Value::Vector(vector)) => write_inside_lanes(vector, lanes, rest, value),
        // A column is a copy: it is extracted, changed and written back.
        ([step @ (Step::Field(_) | Step::Named(_) | Step::Lanes(_)), rest @ ..], Value::Array(array)) => {
            let found = match step {
                Step::Field(field) => Column::of_field(array, *field),
                Step::Named(name) => Column::named(array, name),
                Step::Lanes(lanes) => Column::of_lanes(array, lanes),
                Step::Index(_) | Step::Gather(_) => None,
            };
            let none = || Problem::new("E0504", format!("an array of type {} has no such column", array.type_name()));
            let column = found.ok_or_else(none)?;
            let mut part = Value::Array(column.of(array)?);
            match (rest, &mut part) {
                ([], Value::Array(part)) => ops::assign(part, &[], &value)?,
                (rest, part) => write(part, rest, value)?,
            }
            match &part {
                Value::Array(part) => column.put(array, part),
                _ => Err(Problem::new("E0504", "a column is no array any more")),
            }
        }
        // A longer path: the part is extracted, changed and written back.
        ([Step::Index(specs), rest @ ..], Value::Array(array)) => {
            let mut part = grad::ops::index(&Value::Array(array.clone()), specs)?;
            write(&mut part, rest, value)?;
            ops::assign(array, specs, &part)
        }
        (_, Value::Table(_)) => Err(Problem::new("E0504", "a table does not change").help(
            "keep its columns in variables: `var ages = t.age`; `save(\"t.csv\", age = ages)` makes a table of them",
        )),
        (_, target) => {
            Err(Problem::new("E0504", format!("no part of a value of type {} can be written", target.type_name())))
        }
    }
}

/// Writes `v.xy = w` or `v.xy[i] = s`; for the latter, the components are extracted, changed and written back.
fn write_inside_lanes(vector: &mut Vector, lanes: &[u8], rest: &[Step], value: Value) -> Outcome<()> {
    if rest.is_empty() {
        return write_lanes(vector, lanes, &value);
    }
    let mut part = grad::ops::swizzle(&Value::Vector(*vector), lanes)?;
    write(&mut part, rest, value)?;
    write_lanes(vector, lanes, &part)
}

/// Writes `v.xy = w`.
fn write_lanes(vector: &mut Vector, lanes: &[u8], value: &Value) -> Outcome<()> {
    let mut bits = vector.all_bits();
    for (k, &lane) in lanes.iter().enumerate() {
        let new = match value {
            Value::Vector(from) if from.lanes() == lanes.len() => from.lane(k),
            scalar => scalar.adapt(vector.ty()).filter(|_| lanes.len() == 1),
        };
        let new = new.filter(|new| new.ty == vector.ty());
        let (Some(slot), Some(new)) = (bits.get_mut(usize::from(lane)), new) else {
            return Err(Problem::new(
                "E0504",
                format!("a value of type {} does not fit these components", value.type_name()),
            ));
        };
        *slot = new.bits;
    }
    *vector = Vector::new(vector.ty(), bits.into_iter().take(vector.lanes()));
    Ok(())
}
