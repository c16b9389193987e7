//! Resolves, reads and writes access paths: variables, elements, fields and components. An access reads or writes only
//! the selected leaves (scalars and vectors).

use std::ops::Range;

use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::types;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Expr, ExprKind, SliceIndex, Type};
use clk_ir::def::ExprKind as IrExpr;
use clk_ir::def::{CacheHint, ExprId, LocalId, MemId, Place, StmtKind, Ty};
use clk_scalar::builtin::Builtin;

/// A resolved access path: the selected leaves of a variable, of an array element, or of a computed value.
#[derive(Clone, Debug)]
pub(crate) struct AssignablePlace {
    pub root: Root,
    /// The concrete type of the selection, before `lanes` selects components.
    pub ty: Type,
    pub leaves: Range<usize>,
    /// The selected components, if the selection is a single vector leaf; `None` for all components.
    pub lanes: Option<Vec<u8>>,
    /// The index into the selected components, if there is one that is known only at run time.
    pub lane: Option<ExprId>,
    /// Set if the selection is in a local copy of a field array: the memory of the copy, and the field to which stores
    /// must also be written.
    pub field: Option<Box<(MemId, AssignablePlace)>>,
    /// Source name of the indexed vector, for diagnostics.
    pub name: Option<String>,
    pub hint: CacheHint,
    /// Span that a run-time fault of the access reports.
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Root {
    Element { memory: MemId, indices: Vec<ExprId> },
    Variable(Vec<LocalId>),
    Value(Vec<ExprId>),
}

impl BodyLowering<'_, '_> {
    /// Resolves an access path. Evaluates the indices but does not load the selection. If the root is not a variable,
    /// it is evaluated to a computed value.
    pub fn target(&mut self, expr: &Expr) -> Fallible<AssignablePlace> {
        match &expr.kind {
            ExprKind::Local(id) => {
                let root = self.slot(*id, expr.span)?;
                self.variable(root, expr)
            }
            ExprKind::Index { base, indices } => match (self.type_of(base)?, indices.as_slice()) {
                (Type::Vector(..), [index]) => self.component(base, index, expr.span),
                _ => self.element(base, indices, expr),
            },
            ExprKind::Field { base, field } | ExprKind::TupleField { base, field } => {
                let target = self.target(base)?;
                let (range, ty) = types::part(self.program, &target.ty, *field, expr.span)?;
                let start = target.leaves.start;
                Ok(AssignablePlace { ty, leaves: start + range.start..start + range.end, ..target })
            }
            ExprKind::Swizzle { base, lanes } if !matches!(base.kind, ExprKind::Variable(_)) => {
                let target = self.target(base)?;
                let lanes = match &target.lanes {
                    None => lanes.clone(),
                    Some(outer) => lanes.iter().filter_map(|&lane| outer.get(lane as usize).copied()).collect(),
                };
                Ok(AssignablePlace { lanes: Some(lanes), ..target })
            }
            ExprKind::Builtin { builtin: Builtin::Cached, args, .. } => self.hinted(args, CacheHint::Cached, expr),
            ExprKind::Builtin { builtin: Builtin::Streaming, args, .. } => {
                self.hinted(args, CacheHint::Streaming, expr)
            }
            _ => {
                let values = self.value(expr)?;
                let ty = self.type_of(expr)?;
                Ok(AssignablePlace::new(Root::Value(values.clone()), ty, values.len(), expr.span))
            }
        }
    }

    fn hinted(&mut self, args: &[Expr], hint: CacheHint, expr: &Expr) -> Fallible<AssignablePlace> {
        let place = args.first().ok_or_else(|| internal(expr.span, "a memory hint without a place"))?;
        Ok(AssignablePlace { hint, ..self.target(place)? })
    }

    fn variable(&mut self, slot: LoweredLocal, expr: &Expr) -> Fallible<AssignablePlace> {
        let ty = match self.type_of(expr)? {
            // A shared scalar is an array of rank 0.
            Type::Array(array) if array.dims.is_empty() => self.mono.ty(&array.element, expr.span)?,
            other => other,
        };
        let root = match slot {
            LoweredLocal::Value(values) => Root::Value(values),
            LoweredLocal::Variable(locals) => Root::Variable(locals),
            LoweredLocal::Array(memory) if self.out.function().memories[memory].extents.is_empty() => {
                Root::Element { memory, indices: vec![] }
            }
            LoweredLocal::Array(_) => return Err(internal(expr.span, "a whole array is used as a value")),
        };
        let count = self.machine(&ty, expr.span)?.len();
        Ok(AssignablePlace::new(root, ty, count, expr.span))
    }

    fn element(&mut self, base: &Expr, indices: &[Expr], expr: &Expr) -> Fallible<AssignablePlace> {
        let (base, indices) = through_rows(base, indices);
        if matches!(base.kind, ExprKind::Field { .. } | ExprKind::TupleField { .. }) {
            return self.element_of_field(base, &indices, expr);
        }
        let memory = self.array(base)?;
        let lowered = self.indices(&indices)?;
        for (&(axis, index), &(_, value)) in indices.iter().zip(&lowered) {
            self.check_constant_index(memory, axis, value, index, base)?;
        }
        let lowered = by_axis(lowered);
        let ty = self.type_of(expr)?;
        let ty = match ty {
            Type::Array(array) if array.dims.is_empty() => self.mono.ty(&array.element, expr.span)?,
            other => other,
        };
        let count = self.machine(&ty, expr.span)?.len();
        Ok(AssignablePlace::new(Root::Element { memory, indices: lowered }, ty, count, expr.span))
    }

    /// Evaluates indices in source order. Each index is paired with its axis.
    pub fn indices(&mut self, indices: &[(usize, &Expr)]) -> Fallible<Vec<(usize, ExprId)>> {
        indices.iter().map(|&(axis, index)| Ok((axis, self.scalar(index)?))).collect()
    }

    pub(crate) fn check_constant_index(
        &mut self,
        memory: MemId,
        axis: usize,
        value: ExprId,
        index: &Expr,
        base: &Expr,
    ) -> Fallible<()> {
        let Some(known) = self.out.const_value(value) else { return Ok(()) };
        let Some(at) = known.as_integer() else { return Ok(()) };
        let extent = self.known_extent(memory, axis as u8);
        if at >= 0 && extent.is_none_or(|extent| at < i128::from(extent)) {
            return Ok(());
        }
        let array = &self.out.function().memories[memory];
        let axis = (array.extents.len() > 1).then_some(axis);
        Err(out_of_bounds(&array.name, axis, at, extent.unwrap_or(0), index.span, base.span))
    }

    /// Emits loads of the selected leaves at the current point.
    pub fn load(&mut self, target: &AssignablePlace) -> Fallible<Vec<ExprId>> {
        if let Some(lane) = target.lane {
            return Ok(vec![self.load_lane(target, lane)?]);
        }
        let span = target.span;
        if let (Root::Element { memory, indices }, Some([lane])) = (&target.root, target.lanes.as_deref()) {
            let place = place(*memory, indices, target.leaves.start, Some(*lane));
            let ty = Ty::Scalar(self.leaf_type(*memory, target.leaves.start, span)?.scalar());
            return Ok(vec![self.out.value(IrExpr::Load { place, hint: target.hint }, ty, span)]);
        }
        let mut values = Vec::with_capacity(target.leaves.len());
        for leaf in target.leaves.clone() {
            values.push(match &target.root {
                Root::Element { memory, indices } => {
                    let place = place(*memory, indices, leaf, None);
                    let ty = self.leaf_type(*memory, leaf, span)?;
                    self.out.value(IrExpr::Load { place, hint: target.hint }, ty, span)
                }
                Root::Variable(locals) => {
                    let local = *locals.get(leaf).ok_or_else(|| internal(span, "a part that is not there"))?;
                    self.out.read(local, span)
                }
                Root::Value(values) => *values.get(leaf).ok_or_else(|| internal(span, "a part that is not there"))?,
            });
        }
        match (&target.lanes, values.as_slice()) {
            (None, _) => Ok(values),
            (Some(lanes), [vector]) => {
                let parts = lanes.iter().map(|&lane| self.out.extract(*vector, lane, span)).collect();
                Ok(vec![self.out.compose(parts, span)])
            }
            (Some(_), _) => Err(internal(span, "components of something that is no vector")),
        }
    }

    /// Emits stores of the selected leaves at the current point.
    pub fn store(&mut self, target: &AssignablePlace, values: &[ExprId], span: Span) -> Fallible<()> {
        if let Some(field) = &target.field {
            let (memory, home) = &**field;
            self.store(&AssignablePlace { field: None, ..target.clone() }, values, span)?;
            let leaves = self.all_leaves(*memory, span)?;
            return self.store(home, &leaves, span);
        }
        if let (Some(lane), &[value]) = (target.lane, values) {
            return self.store_lane(target, lane, value, span);
        }
        if let Some(lanes) = &target.lanes {
            return self.store_lanes(target, lanes, values, span);
        }
        if values.len() != target.leaves.len() {
            return if self.out.is_done() { Ok(()) } else { Err(internal(span, "an assignment of another shape")) };
        }
        for (leaf, &value) in target.leaves.clone().zip(values) {
            let kind = match &target.root {
                Root::Element { memory, indices } => {
                    StmtKind::Store { place: place(*memory, indices, leaf, None), value, hint: target.hint }
                }
                Root::Variable(locals) => {
                    let local = *locals.get(leaf).ok_or_else(|| internal(span, "a part that is not there"))?;
                    StmtKind::Write { local, value }
                }
                Root::Value(_) => return Err(internal(span, "an assignment to a value")),
            };
            let span = if matches!(kind, StmtKind::Store { .. }) { target.span } else { span };
            self.out.stmt(kind, span);
        }
        Ok(())
    }

    fn store_lanes(&mut self, target: &AssignablePlace, lanes: &[u8], values: &[ExprId], span: Span) -> Fallible<()> {
        let &[value] = values else { return Err(internal(span, "an assignment of another shape")) };
        let parts = self.out.lanes(value, span);
        match &target.root {
            Root::Element { memory, indices } => {
                for (&lane, &value) in lanes.iter().zip(&parts) {
                    let place = place(*memory, indices, target.leaves.start, Some(lane));
                    self.out.stmt(StmtKind::Store { place, value, hint: target.hint }, target.span);
                }
            }
            Root::Variable(locals) => {
                let local =
                    *locals.get(target.leaves.start).ok_or_else(|| internal(span, "a part that is not there"))?;
                let old = self.out.read(local, span);
                let mut all = self.out.lanes(old, span);
                for (&lane, &value) in lanes.iter().zip(&parts) {
                    if let Some(slot) = all.get_mut(lane as usize) {
                        *slot = value;
                    }
                }
                let value = self.out.compose(all, span);
                self.out.stmt(StmtKind::Write { local, value }, span);
            }
            Root::Value(_) => return Err(internal(span, "an assignment to a value")),
        }
        Ok(())
    }

    /// Resolves the operand of an atomic operation, which must be a single scalar in memory.
    pub(crate) fn atomic_place(&mut self, expr: &Expr) -> Fallible<(Place, Ty)> {
        let target = self.target(expr)?;
        let Root::Element { memory, indices } = &target.root else {
            return Err(internal(expr.span, "an atomic operation on something that is not in an array"));
        };
        let component = match target.lanes.as_deref() {
            None => None,
            Some([lane]) => Some(*lane),
            Some(_) => return Err(atomic_on_parts(expr.span)),
        };
        if target.leaves.len() != 1 {
            return Err(atomic_on_parts(expr.span));
        }
        let leaf = self.leaf_type(*memory, target.leaves.start, expr.span)?;
        if leaf.lanes() > 1 && component.is_none() {
            return Err(atomic_on_parts(expr.span));
        }
        Ok((place(*memory, indices, target.leaves.start, component), Ty::Scalar(leaf.scalar())))
    }

    pub(crate) fn leaf_type(&self, memory: MemId, leaf: usize, span: Span) -> Fallible<Ty> {
        let layout = &self.out.function().memories[memory].layout;
        layout.leaves.get(leaf).map(|leaf| leaf.ty).ok_or_else(|| internal(span, "an element without this part"))
    }

    /// Loads one element of a memory at evaluated indices.
    pub(crate) fn element_at(&mut self, memory: MemId, indices: &[ExprId], span: Span) -> Fallible<Vec<ExprId>> {
        let count = self.out.function().memories[memory].layout.leaves.len();
        let root = Root::Element { memory, indices: indices.to_vec() };
        self.load(&AssignablePlace::new(root, Type::Unit, count, span))
    }
}

impl AssignablePlace {
    pub fn new(root: Root, ty: Type, leaves: usize, span: Span) -> Self {
        AssignablePlace {
            root,
            ty,
            leaves: 0..leaves,
            lanes: None,
            lane: None,
            field: None,
            name: None,
            hint: CacheHint::None,
            span,
        }
    }
}

/// Resolves indexing of a row, `m[i, ..][j]`, to an element of the array itself, so that a store modifies the array and
/// not a copy. Returns the array and the indices with their axes, in evaluation order.
fn through_rows<'e>(mut base: &'e Expr, indices: &'e [Expr]) -> (&'e Expr, Vec<(usize, &'e Expr)>) {
    let mut array_indices: Vec<(usize, &Expr)> = indices.iter().enumerate().collect();
    while let ExprKind::Slice { base: of, indices: row } = &base.kind {
        let at = |(axis, index): (usize, &'e SliceIndex)| match index {
            SliceIndex::At(index) => Some((axis, index)),
            _ => None,
        };
        let whole: Vec<usize> = row
            .iter()
            .enumerate()
            .filter(|(_, index)| !matches!(index, SliceIndex::At(_)))
            .map(|(axis, _)| axis)
            .collect();
        let inner = array_indices.into_iter().filter_map(|(axis, index)| Some((*whole.get(axis)?, index)));
        array_indices = row.iter().enumerate().filter_map(at).chain(inner).collect();
        base = of;
    }
    (base, array_indices)
}

pub(crate) fn by_axis(mut indices: Vec<(usize, ExprId)>) -> Vec<ExprId> {
    indices.sort_by_key(|&(axis, _)| axis);
    indices.into_iter().map(|(_, value)| value).collect()
}

fn place(memory: MemId, indices: &[ExprId], leaf: usize, component: Option<u8>) -> Place {
    Place { memory, indices: indices.to_vec(), leaf: leaf as u32, component }
}

fn atomic_on_parts(span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0488", "an atomic operation on a value of several parts")
            .at(span, "this holds more than one number")
            .help("name one of its fields or components: `atomic_add(p[i].x, 1.0)`"),
    )
}

pub(crate) fn out_of_bounds(
    name: &str,
    axis: Option<usize>,
    at: i128,
    extent: u32,
    index: Span,
    base: Span,
) -> Box<Diagnostic> {
    let diagnostic = Diagnostic::error("E0484", format!("the index {at} is outside of `{name}`"));
    Box::new(if at < 0 {
        diagnostic
            .at(index, "negative")
            .because(base, format!("indices of `{name}` start at 0"))
            .help("indices do not count from the end; write `len(x) - 1` for the last element")
    } else {
        let axis_text = axis.map_or(String::new(), |axis| format!(" along axis {axis}"));
        diagnostic
            .at(index, format!("not below {extent}"))
            .because(base, format!("`{name}` has {extent} elements{axis_text}"))
    })
}
