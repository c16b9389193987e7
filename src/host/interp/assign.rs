//! Assignment to variables, elements, slices and fields: evaluates access paths, and reads and writes through them.

use crate::array::{Array, ElementType, SliceSpec, slice};
use crate::grad;
use crate::graph::ExecContext;
use crate::ops::{self, GatherIndex, IndexSelector, PartProjection, overflow};
use crate::problem::{HostResult, RuntimeError};
use crate::value::{HostValue, RecordValue};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{ArrayInit, Expr, ExprKind, LocalId, SmolStr, Type};
use clk_scalar::Scalar;
use clk_scalar::ops::BinaryOp;

use super::context::{Eval, EvalContext};
use super::frame::HostFrame;
use super::open_literals::is_open_literal;
use super::trace_statements::CompoundAssignment;

/// One step of an access path, which leads from a variable to an element, slice or field of its value.
pub(super) enum AccessStep {
    Index(Vec<SliceSpec>),
    /// Indices that include an index array.
    Gather(Vec<GatherIndex>),
    Field(usize),
    /// A field of a value whose type is known only at run time.
    DynField(SmolStr),
    Lanes(Vec<u8>),
}

impl From<IndexSelector> for AccessStep {
    fn from(selector: IndexSelector) -> AccessStep {
        match selector {
            IndexSelector::Specs(specs) => AccessStep::Index(specs),
            IndexSelector::Picks(picks) => AccessStep::Gather(picks),
        }
    }
}

impl EvalContext<'_> {
    pub(crate) fn assign(
        &mut self,
        frame: &mut HostFrame,
        place: &Expr,
        op: Option<BinaryOp>,
        value: &Expr,
    ) -> Eval<()> {
        let (with, value_expr) = (value.span, value);
        let mut value = self.eval(frame, value)?;
        // The path is evaluated once, because its indices may draw random numbers or have side effects.
        let (root, steps) = self.access_path(frame, place)?;
        let Some(op) = op else {
            if is_open_literal(value_expr) && !steps.is_empty() {
                let whole = self.read_path(frame, place, root, &[])?;
                if let Some(scalar) = ops::common_scalar(&[&grad::primal(&whole)]) {
                    value = self.literal_array(frame, value_expr, scalar, "the assignment")?;
                }
            }
            let scalar = matches!(value, HostValue::Scalar(_)).then(|| value.clone());
            self.write_path(frame, place, root, &steps, value)?;
            if let (Some(scalar), []) = (scalar, &steps[..]) {
                self.trace_assignment(frame, root, Some(with), &scalar);
            }
            return Ok(());
        };
        let old = self.read_path(frame, place, root, &steps)?;
        if is_open_literal(value_expr)
            && let Some(scalar) = ops::common_scalar(&[&grad::primal(&old)])
        {
            value = self.literal_array(frame, value_expr, scalar, &format!("`{}`", op.symbol()))?;
        }
        self.check_arithmetic(place.span, || overflow::check_binary(op, &old, &value))?;
        let new = grad::ops::binary(&self.exec, op, &old, &value).map_err(|p| self.problem(p, place.span))?;
        if steps.is_empty() {
            let update = CompoundAssignment { op, place, value_span: with };
            self.trace_update(frame, update, &old, &value, &new);
        }
        drop(old);
        let given = matches!(new, HostValue::Scalar(_)).then(|| new.clone());
        self.write_path(frame, place, root, &steps, new)?;
        if let (Some(given), []) = (given, &steps[..]) {
            self.trace_assignment(frame, root, Some(place.span.to(with)), &given);
        }
        Ok(())
    }

    /// Writes a value to an lvalue.
    pub(crate) fn assign_value(&mut self, frame: &mut HostFrame, place: &Expr, value: HostValue) -> Eval<()> {
        let (root, steps) = self.access_path(frame, place)?;
        self.write_path(frame, place, root, &steps, value)
    }

    /// Evaluates an lvalue to its root variable and access path.
    pub(super) fn access_path<'e>(
        &mut self,
        frame: &mut HostFrame,
        place: &'e Expr,
    ) -> Eval<(&'e Expr, Vec<AccessStep>)> {
        let mut steps = Vec::new();
        let root = self.collect_path(frame, place, &mut steps)?;
        Ok((root, steps))
    }

    /// Reads through an access path.
    pub(super) fn read_path(&mut self, frame: &mut HostFrame, place: &Expr, root: &Expr, steps: &[AccessStep]) -> Eval {
        let mut value = self.eval(frame, root)?;
        for step in steps {
            let part = match step {
                AccessStep::Index(specs) => grad::ops::index(&self.exec, &value, specs),
                AccessStep::Gather(picks) => grad::ops::gather(&self.exec, &value, picks),
                AccessStep::Field(field) => ops::field(&self.exec, &value, *field),
                AccessStep::DynField(name) => grad::ops::named_field(&self.exec, &value, name),
                AccessStep::Lanes(lanes) => grad::ops::swizzle(&self.exec, &value, lanes),
            };
            value = part.map_err(|p| self.problem(p, place.span))?;
        }
        Ok(value)
    }

    pub(super) fn write_path(
        &mut self,
        frame: &mut HostFrame,
        place: &Expr,
        root: &Expr,
        steps: &[AccessStep],
        mut value: HostValue,
    ) -> Eval<()> {
        // If a slice or column is assigned, the write to the array checks the type of the value.
        if !place.is_part() {
            let old = match root.kind {
                ExprKind::Local(local) if steps.is_empty() => frame.get(local),
                ExprKind::Global(id) if steps.is_empty() => self.interp.globals.get(id.index()).cloned().flatten(),
                _ => None,
            };
            value = self.check_assignable(frame, &place.ty, old.as_ref(), value, place.span)?;
        }
        if steps.is_empty() {
            self.trace_assignment(frame, root, None, &value);
        }
        if let (ExprKind::Local(local), []) = (&root.kind, steps) {
            return self.set_local(frame, *local, value, place.span);
        }
        let slot = match root.kind {
            ExprKind::Local(local) => Some(frame.local_mut(local)),
            ExprKind::Global(global) => self.interp.globals.get_mut(global.index()),
            _ => None,
        };
        let Some(slot) = slot else { return Err(self.internal_error(place.span, "this is not a place")) };
        if steps.is_empty() {
            *slot = Some(value);
            return Ok(());
        }
        let Some(target) = slot.as_mut() else {
            return Err(self.internal_error(place.span, "a variable without a value is written in part"));
        };
        let result = write_at(&self.exec, target, steps, value);
        result.map_err(|p| self.problem(p, place.span))
    }

    /// Returns the root variable of an lvalue and appends its access path to `steps`. Indices are evaluated from left
    /// to right.
    fn collect_path<'e>(
        &mut self,
        frame: &mut HostFrame,
        place: &'e Expr,
        steps: &mut Vec<AccessStep>,
    ) -> Eval<&'e Expr> {
        let (root, step) = match &place.kind {
            ExprKind::Index { base, indices } => {
                (self.collect_path(frame, base, steps)?, self.eval_positions(frame, base, indices)?.into())
            }
            ExprKind::Slice { base, indices } => {
                (self.collect_path(frame, base, steps)?, self.eval_selector(frame, indices)?.into())
            }
            ExprKind::Field { base, field } | ExprKind::TupleField { base, field } => {
                (self.collect_path(frame, base, steps)?, AccessStep::Field(*field as usize))
            }
            ExprKind::DynField { base, name } => {
                (self.collect_path(frame, base, steps)?, AccessStep::DynField(name.clone()))
            }
            ExprKind::Swizzle { base, lanes } => {
                (self.collect_path(frame, base, steps)?, AccessStep::Lanes(lanes.clone()))
            }
            _ => return Ok(place),
        };
        steps.push(step);
        Ok(root)
    }

    /// Creates the local array that a host function declares with a fixed shape.
    pub(crate) fn local_array(
        &mut self,
        frame: &mut HostFrame,
        local: LocalId,
        extents: &[Expr],
        init: &ArrayInit,
        span: Span,
    ) -> Eval {
        let mut shape = Vec::with_capacity(extents.len());
        for extent in extents {
            shape.push(self.eval_integer(frame, extent)?);
        }
        let array = match init {
            ArrayInit::Copy(value) => return self.checked_array(frame, local, &shape, value),
            ArrayInit::Fill(value) => {
                let value = self.eval(frame, value)?;
                grad::ops::full(&self.exec, &shape, &value)
            }
            ArrayInit::Elements(items) => {
                let values = self.eval_all(frame, items)?;
                grad::ops::literal(&self.exec, &values, None).and_then(|a| grad::ops::reshape(&self.exec, &a, &shape))
            }
            ArrayInit::None => {
                let declared = frame.body().and_then(|b| b.locals.get(local)).map(|l| l.ty.clone());
                let element = match declared {
                    Some(Type::Array(array)) => self.concrete(frame, &array.element),
                    _ => Type::Scalar(Scalar::F32),
                };
                let element = self.interp.caches.layouts.element(self.program, &element);
                ops::create::shape(&shape).and_then(|extents| Array::zeros(element, &extents)).map(HostValue::Array)
            }
        };
        array.map_err(|p| self.problem(p, span))
    }
}

impl EvalContext<'_> {
    /// Evaluates the initial value of an array variable, and checks that it has the declared shape.
    fn checked_array(&mut self, frame: &mut HostFrame, local: LocalId, shape: &[i64], value: &Expr) -> Eval {
        let declared = frame.body().and_then(|body| body.locals.get(local)).map(|local| local.name.clone());
        let name = declared.unwrap_or_default();
        let initial = self.eval(frame, value)?;
        match &grad::primal(&initial) {
            HostValue::Array(array) if array.shape().iter().map(|&n| n as i64).eq(shape.iter().copied()) => Ok(initial),
            other => {
                let expected = shape.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
                let title = format!("`{name}` is declared with the extents {expected}");
                let diagnostic = Diagnostic::error("E0524", title).at(value.span, format!("`{}`", other.type_name()));
                Err(self.error(diagnostic))
            }
        }
    }
}

/// Writes a value through an access path inside `target`.
fn write_at(exec: &ExecContext, target: &mut HostValue, steps: &[AccessStep], value: HostValue) -> HostResult<()> {
    let Some((step, rest)) = steps.split_first() else {
        *target = value;
        return Ok(());
    };
    match (step, &mut *target) {
        (AccessStep::Field(i), HostValue::Record(RecordValue { fields, .. }) | HostValue::Tuple(fields)) => {
            match fields.get_mut(*i) {
                Some(field) => write_at(exec, field, rest, value),
                None => Err(RuntimeError::new("E0504", format!("there is no field {i}"))),
            }
        }
        (AccessStep::DynField(name), HostValue::Record(RecordValue { fields, layout })) => {
            match layout.position(name).and_then(|i| fields.get_mut(i)) {
                Some(field) => write_at(exec, field, rest, value),
                None => Err(RuntimeError::new("E0543", format!("there is no field `{name}` in a `{}`", layout.name))),
            }
        }
        (AccessStep::Index(specs), HostValue::Strings(texts)) if rest.is_empty() => {
            ops::text::assign(texts, specs, value)
        }
        (_, HostValue::Table(_)) => Err(RuntimeError::new("E0504", "a table does not change").help(
            "keep its columns in variables: `var ages = t.age`; `save(\"t.csv\", age = ages)` makes a table of them",
        )),
        (_, HostValue::Array(_) | HostValue::Vector(_) | HostValue::Traced(_)) => {
            write_part(exec, target, step, rest, value)
        }
        (_, target) => Err(not_writable(target)),
    }
}

/// Writes through the access path `step`, `rest` in an array or a vector. If `rest` is not empty, extracts the part
/// that `step` selects, changes the part, and writes it back.
fn write_part(
    exec: &ExecContext,
    target: &mut HostValue,
    step: &AccessStep,
    rest: &[AccessStep],
    mut value: HostValue,
) -> HostResult<()> {
    let part = AssignTarget::new(target, step)?;
    if let HostValue::Array(array) = target
        && !grad::is_traced(&value)
        && let Some(column) = part.projection(array)
    {
        let mut part = HostValue::Array(column.extract(exec, array)?);
        match (rest, &mut part) {
            ([], HostValue::Array(part)) => ops::assign(exec, part, &[], &value)?,
            (rest, part) => write_at(exec, part, rest, value)?,
        }
        return match &part {
            HostValue::Array(part) => column.write_back(exec, array, part),
            _ => Err(RuntimeError::new("E0504", "a column is no array any more")),
        };
    }
    if !rest.is_empty() {
        let mut inner = part.read(exec, target)?;
        write_at(exec, &mut inner, rest, value)?;
        value = inner;
    }
    part.write(exec, target, &value)
}

/// The elements, lanes or field of an array or a vector to which an assignment writes.
enum AssignTarget<'s> {
    Index(&'s [SliceSpec]),
    Gather(&'s [GatherIndex]),
    Lanes(Vec<u8>),
    /// A field of an array of structs or tuples.
    Field(usize),
}

impl<'s> AssignTarget<'s> {
    fn new(target: &HostValue, step: &'s AccessStep) -> HostResult<AssignTarget<'s>> {
        let plain = if let HostValue::Traced(traced) = target { traced.primal() } else { target };
        Ok(match (step, plain) {
            (AccessStep::Index(specs), HostValue::Vector(vector)) => {
                AssignTarget::Lanes(component_at(specs, vector.lanes())?)
            }
            (AccessStep::Index(specs), _) => AssignTarget::Index(specs),
            (AccessStep::Gather(picks), _) => AssignTarget::Gather(picks),
            (AccessStep::Lanes(lanes), _) => AssignTarget::Lanes(lanes.clone()),
            (AccessStep::Field(field), _) => AssignTarget::Field(*field),
            (AccessStep::DynField(name), HostValue::Array(array)) if array.scalar().is_none() => {
                match array.element() {
                    ElementType::Record(layout) => {
                        layout.position(name).map(AssignTarget::Field).ok_or_else(|| missing_name(target, name))?
                    }
                    _ => return Err(missing_name(target, name)),
                }
            }
            (AccessStep::DynField(name), _) => {
                AssignTarget::Lanes(ops::lanes_of(name).ok_or_else(|| missing_name(target, name))?)
            }
        })
    }

    /// If the target is a field or lanes of all elements of an array, returns it as a projection; otherwise `None`.
    fn projection(&self, array: &Array) -> Option<PartProjection> {
        match self {
            AssignTarget::Lanes(lanes) => PartProjection::of_lanes(array, lanes),
            AssignTarget::Field(field) => PartProjection::of_field(array, *field),
            AssignTarget::Index(_) | AssignTarget::Gather(_) => None,
        }
    }

    fn read(&self, exec: &ExecContext, target: &HostValue) -> HostResult<HostValue> {
        match self {
            AssignTarget::Index(specs) => grad::ops::index(exec, target, specs),
            AssignTarget::Gather(picks) => grad::ops::gather(exec, target, picks),
            AssignTarget::Lanes(lanes) => grad::ops::swizzle(exec, target, lanes),
            AssignTarget::Field(field) => ops::field(exec, target, *field),
        }
    }

    /// Writes a value to this part of `target`. If the value or `target` is traced, `target` becomes a new traced
    /// value.
    fn write(&self, exec: &ExecContext, target: &mut HostValue, value: &HostValue) -> HostResult<()> {
        let is_of_structs = matches!(target, HostValue::Array(array) if array.scalar().is_none());
        if is_of_structs && grad::is_traced(value) {
            return Err(grad::struct_array_error());
        }
        let done = match self {
            AssignTarget::Index(specs) => grad::ops::assign(exec, target, specs, value)?,
            AssignTarget::Gather(picks) => grad::ops::scatter(exec, target, picks, value)?,
            AssignTarget::Lanes(lanes) => grad::ops::set_lanes(exec, target, lanes, value)?,
            AssignTarget::Field(_) => false,
        };
        match (self, target) {
            _ if done => Ok(()),
            (AssignTarget::Index(specs), HostValue::Array(array)) => ops::assign(exec, array, specs, value),
            (AssignTarget::Gather(picks), HostValue::Array(array)) => ops::scatter(exec, array, picks, value),
            (AssignTarget::Lanes(lanes), target) => ops::set_lanes(exec, target, lanes, value),
            (_, target) => Err(not_writable(target)),
        }
    }
}

fn missing_name(target: &HostValue, name: &str) -> RuntimeError {
    RuntimeError::new("E0543", format!("there is no `{name}` in a value of type {}", target.type_name()))
}

/// Returns the component that an index selects in a vector with `lanes` components.
fn component_at(specs: &[SliceSpec], lanes: usize) -> HostResult<Vec<u8>> {
    match specs {
        [SliceSpec::At(at)] => match u8::try_from(*at).ok().filter(|lane| usize::from(*lane) < lanes) {
            Some(lane) => Ok(vec![lane]),
            None => Err(slice::out_of_range(*at, 0, lanes, 1)),
        },
        _ => Err(RuntimeError::new("E0505", "a component of a vector has one index")),
    }
}

fn not_writable(target: &HostValue) -> RuntimeError {
    RuntimeError::new("E0504", format!("no part of a value of type {} can be written", target.type_name()))
}
