//! Lowers indexing of the components of a vector, `v[i]`, and of an array in a field, `s.w[i]`.
//!
//! A constant index selects the component at compile time. For a dynamic index, the components (or elements) are copied
//! to a thread-local array, and the index is applied to this array. So the bounds check is that of arrays on every
//! device. If the index becomes constant, later passes promote the array to registers.

use super::arrays::elements;
use super::context::BodyLowering;
use super::error::{Fallible, internal};
use super::place::{AssignablePlace, Root, by_axis, out_of_bounds};
use super::types;
use clk_base::source::Span;
use clk_check::typed::{Expr, ExprKind, Type};
use clk_ir::def::ExprKind as IrExpr;
use clk_ir::def::{
    Access, BinOp, CacheHint, ElementLayout, ExprId, Extent, MemId, MemorySpace, Place, Scalar, StmtKind, Ty,
};
use clk_scalar::ScalarValue;

impl BodyLowering<'_, '_> {
    /// Resolves a vector component by index.
    pub fn component(&mut self, base: &Expr, index: &Expr, span: Span) -> Fallible<AssignablePlace> {
        let target = self.target(base)?;
        let lane = self.scalar(index)?;
        let count = match &target.lanes {
            Some(lanes) => lanes.len(),
            None => usize::from(types::single(&target.ty, base.span)?.lanes()),
        };
        let Some(known) = self.out.const_value(lane).and_then(ScalarValue::as_integer) else {
            return Ok(AssignablePlace { lane: Some(lane), name: Some(self.vector_name(base)), span, ..target });
        };
        let lane = usize::try_from(known).ok().filter(|&lane| lane < count);
        let Some(lane) = lane else {
            return Err(out_of_bounds(&self.vector_name(base), None, known, count as u32, index.span, base.span));
        };
        let lane = target.lanes.as_ref().and_then(|lanes| lanes.get(lane).copied()).unwrap_or(lane as u8);
        Ok(AssignablePlace { lanes: Some(vec![lane]), ..target })
    }

    /// Resolves an element of an array in a field of a struct. The leaves of the struct are separate values.
    pub(crate) fn element_of_field(
        &mut self,
        base: &Expr,
        indices: &[(usize, &Expr)],
        expr: &Expr,
    ) -> Fallible<AssignablePlace> {
        let home = self.target(base)?;
        let Type::Array(array) = &home.ty else { return Err(internal(base.span, "a field that is no array")) };
        let (extents, element) = (types::extents(array, base.span)?, array.element.clone());
        let count = self.machine(&element, base.span)?.len();
        let values = self.indices(indices)?;
        let lowered = by_axis(values.clone());
        let mut flat = Some(0);
        for (&index, &extent) in lowered.iter().zip(&extents) {
            let at =
                self.out.const_value(index).and_then(ScalarValue::as_integer).and_then(|at| usize::try_from(at).ok());
            let at = at.filter(|&at| at < extent as usize);
            flat = flat.zip(at).map(|(flat, at)| flat * extent as usize + at);
        }
        if let Some(flat) = flat {
            let start = home.leaves.start + flat * count;
            return Ok(AssignablePlace { ty: element, leaves: start..start + count, ..home });
        }
        let memory = self.array_at(&self.vector_name(base), &home, expr.span)?;
        for (&(axis, index), &(_, value)) in indices.iter().zip(&values) {
            self.check_constant_index(memory, axis, value, index, base)?;
        }
        let root = Root::Element { memory, indices: lowered };
        let field = Some(Box::new((memory, home)));
        Ok(AssignablePlace { field, ..AssignablePlace::new(root, element, count, expr.span) })
    }

    /// Copies a field array to thread-local memory.
    pub(crate) fn array_at(&mut self, name: &str, home: &AssignablePlace, span: Span) -> Fallible<MemId> {
        let Type::Array(array) = &home.ty else { return Err(internal(span, "a field that is no array")) };
        let extents = types::extents(array, span)?;
        let layout = types::layout(self.program, &array.element, span)?;
        let leaves = self.load(home)?;
        let memory = self.fresh_memory(name, layout, &extents, span)?;
        self.set_all(memory, &extents, &leaves, span);
        Ok(memory)
    }

    /// Reloads the local copy of a field array, because other elements may have changed since the copy was made.
    pub(crate) fn refresh(&mut self, target: &AssignablePlace) -> Fallible<()> {
        let Some(field) = &target.field else { return Ok(()) };
        let (memory, home) = &**field;
        let extents = self.sizes(*memory, target.span)?;
        let leaves = self.load(home)?;
        self.set_all(*memory, &extents, &leaves, target.span);
        Ok(())
    }

    /// Stores all elements of an array.
    pub(crate) fn set_all(&mut self, memory: MemId, extents: &[u32], leaves: &[ExprId], span: Span) {
        let count = self.out.function().memories[memory].layout.leaves.len().max(1);
        for (position, element) in leaves.chunks(count).enumerate() {
            let at = self.tuple_of(position as u64, extents, span);
            self.store_element(memory, &at, element, span);
        }
    }

    /// Loads all elements of an array, as leaves in row-major order.
    pub(crate) fn all_leaves(&mut self, memory: MemId, span: Span) -> Fallible<Vec<ExprId>> {
        let extents = self.sizes(memory, span)?;
        let mut leaves = Vec::new();
        for position in 0..elements(&extents) {
            let at = self.tuple_of(position, &extents, span);
            leaves.extend(self.element_at(memory, &at, span)?);
        }
        Ok(leaves)
    }

    /// Returns the source name of a vector for diagnostics.
    pub(crate) fn vector_name(&self, base: &Expr) -> String {
        match &base.kind {
            ExprKind::Local(id) => self.locals.get(*id).map_or(String::new(), |local| local.name.to_string()),
            ExprKind::Field { base: of, field } => {
                let parts = self.type_of(of).and_then(|ty| {
                    let parts = types::parts(self.program, &ty, of.span)?;
                    Ok(parts.into_iter().nth(*field as usize).map(|(name, _)| name))
                });
                parts.ok().flatten().unwrap_or_else(|| "vector".into())
            }
            ExprKind::Index { base, .. } | ExprKind::Swizzle { base, .. } => self.vector_name(base),
            _ => "vector".into(),
        }
    }

    pub(crate) fn load_lane(&mut self, target: &AssignablePlace, lane: ExprId) -> Fallible<ExprId> {
        if let Root::Element { memory, .. } = &target.root
            && self.is_written_by_others(*memory)
        {
            return self.load_from_memory(target, *memory, lane);
        }
        let (memory, scalar) = self.spread(target)?;
        Ok(self.component_of(memory, lane, scalar, target.span))
    }

    pub(crate) fn store_lane(
        &mut self,
        target: &AssignablePlace,
        lane: ExprId,
        value: ExprId,
        span: Span,
    ) -> Fallible<()> {
        if let Root::Element { memory, .. } = &target.root {
            return self.store_in_memory(target, *memory, lane, value, span);
        }
        let (memory, scalar) = self.spread(target)?;
        self.set_component(memory, lane, value, target.span);
        let Extent::Known(count) = self.out.function().memories[memory].extents[0] else { return Ok(()) };
        let mut lanes = Vec::with_capacity(count as usize);
        for k in 0..count {
            let at = self.out.i32(k as i32, span);
            lanes.push(self.component_of(memory, at, scalar, span));
        }
        let vector = self.out.compose(lanes, span);
        self.store(&AssignablePlace { lane: None, ..target.clone() }, &[vector], span)
    }

    /// Returns whether other threads may write to a memory while this thread reads it.
    fn is_written_by_others(&self, memory: MemId) -> bool {
        match self.out.function().memories[memory].space {
            MemorySpace::Local | MemorySpace::Constant | MemorySpace::Global { access: Access::In, .. } => false,
            MemorySpace::Global { .. } | MemorySpace::Shared | MemorySpace::Param { .. } => true,
        }
    }

    /// Loads one component of a vector in memory with a dynamic index. Reads only this component, because other threads
    /// may write the other components. The component is stored to a local array, whose indexing performs the bounds
    /// check.
    fn load_from_memory(&mut self, target: &AssignablePlace, memory: MemId, lane: ExprId) -> Fallible<ExprId> {
        let span = target.span;
        let leaf = self.leaf_type(memory, target.leaves.start, span)?;
        let lanes: Vec<u8> = target.lanes.clone().unwrap_or_else(|| (0..leaf.lanes()).collect());
        let copy = self.components(target, leaf.scalar(), lanes.len());
        self.for_lane(lane, &lanes, span, |this, k, component| {
            let part = AssignablePlace { lanes: Some(vec![component]), lane: None, ..target.clone() };
            let loaded = this.load(&part)?;
            let at = this.out.i32(k as i32, span);
            loaded.into_iter().for_each(|value| this.set_component(copy, at, value, span));
            Ok(())
        })?;
        Ok(self.component_of(copy, lane, leaf.scalar(), span))
    }

    /// Emits `if lane == 0 { … } if lane == 1 { … }`. `act` receives the position of each component in the selection
    /// and its number in the vector.
    fn for_lane(
        &mut self,
        lane: ExprId,
        lanes: &[u8],
        span: Span,
        mut act: impl FnMut(&mut Self, usize, u8) -> Fallible<()>,
    ) -> Fallible<()> {
        let index = self.out.ty(lane).scalar();
        for (k, &component) in lanes.iter().enumerate() {
            let number = self.out.constant(ScalarValue::of(k as i32).to_type(index), span);
            let cond = self.out.binary(BinOp::Eq, lane, number, span);
            self.out.open();
            let acted = act(self, k, component);
            let (then, _) = self.out.close();
            acted?;
            self.out.stmt(StmtKind::If { cond, then, other: vec![] }, span);
        }
        Ok(())
    }

    /// Stores one component of a vector in memory with a dynamic index. Writes only this component, because other
    /// threads may write the other components.
    fn store_in_memory(
        &mut self,
        target: &AssignablePlace,
        memory: MemId,
        lane: ExprId,
        value: ExprId,
        span: Span,
    ) -> Fallible<()> {
        let leaf = self.leaf_type(memory, target.leaves.start, span)?;
        let lanes: Vec<u8> = target.lanes.clone().unwrap_or_else(|| (0..leaf.lanes()).collect());
        // The array is used only to perform the bounds check.
        let check = self.components(target, leaf.scalar(), lanes.len());
        self.set_component(check, lane, value, target.span);
        self.for_lane(lane, &lanes, span, |this, _, component| {
            let part = AssignablePlace { lanes: Some(vec![component]), lane: None, ..target.clone() };
            this.store(&part, &[value], span)
        })
    }

    /// Copies the components of a vector to a local array.
    fn spread(&mut self, target: &AssignablePlace) -> Fallible<(MemId, Scalar)> {
        let span = target.span;
        let whole = self.load(&AssignablePlace { lane: None, ..target.clone() })?;
        let &[vector] = whole.as_slice() else {
            return Err(internal(span, "a component of something that is no vector"));
        };
        let (lanes, scalar) = (self.out.lanes(vector, span), self.out.ty(vector).scalar());
        let memory = self.components(target, scalar, lanes.len());
        for (k, value) in lanes.into_iter().enumerate() {
            let at = self.out.i32(k as i32, span);
            self.set_component(memory, at, value, span);
        }
        Ok((memory, scalar))
    }

    fn components(&mut self, target: &AssignablePlace, scalar: Scalar, count: usize) -> MemId {
        let name = target.name.clone().unwrap_or_default();
        let (layout, extents) = (ElementLayout::plain(Ty::Scalar(scalar)), vec![Extent::Known(count as u32)]);
        let memory = self.out.at(target.span).memory(name, MemorySpace::Local, layout, extents);
        self.out.stmt(StmtKind::Declare(memory), target.span);
        memory
    }

    fn component_of(&mut self, memory: MemId, at: ExprId, scalar: Scalar, span: Span) -> ExprId {
        let place = Place { memory, indices: vec![at], leaf: 0, component: None };
        self.out.value(IrExpr::Load { place, hint: CacheHint::None }, Ty::Scalar(scalar), span)
    }

    fn set_component(&mut self, memory: MemId, at: ExprId, value: ExprId, span: Span) {
        let place = Place { memory, indices: vec![at], leaf: 0, component: None };
        self.out.stmt(StmtKind::Store { place, value, hint: CacheHint::None }, span);
    }
}
