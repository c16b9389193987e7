//! Loads and stores: variables, elements of arrays, fields and components. `reinterpret` has accesses through pointers
//! to another type than that of the elements.

use super::arith::{COMPONENTS, index_expr, realize, vector_part};
use super::lower::Lower;
use super::pointer_choice::choice_of;
use super::reinterpret::{Access, refuse_access};
use super::tree::{Expr, ExprKind};
use super::types::{CType, ClkScalar, ComponentKind, INT, LONG};
use super::value::{CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey, refuse};
use crate::ast::{CppBinaryOp, CppExpr, QualifiedName};
use crate::source::SourceSpan;
use smol_str::SmolStr;

impl<'a> Lower<'_, 'a> {
    /// Returns the variable or array that contains a place.
    pub(crate) fn root(&self, place: &CppPlace) -> VariableKey {
        match &place.kind {
            PlaceKind::Variable { key, .. } | PlaceKind::PointerVariable(key) => *key,
            PlaceKind::Field(base, _) | PlaceKind::Component(base, _) => self.root(base),
            PlaceKind::At(pointer) => match &pointer.base {
                PointerBase::Array(info) => info.key,
                PointerBase::Object(place) => self.root(place),
                // Loads and stores expand choices before they use a root.
                PointerBase::Choice(_) | PointerBase::Null => VariableKey(0),
            },
        }
    }

    /// Returns whether other threads may access a place.
    pub(crate) fn is_shared_place(&self, place: &CppPlace) -> bool {
        match &place.kind {
            PlaceKind::Variable { .. } | PlaceKind::PointerVariable(_) => false,
            PlaceKind::Field(base, _) | PlaceKind::Component(base, _) => self.is_shared_place(base),
            PlaceKind::At(pointer) => match &pointer.base {
                PointerBase::Array(info) => Self::space_has_effects(info.space),
                PointerBase::Object(place) => self.is_shared_place(place),
                PointerBase::Choice(_) => true,
                PointerBase::Null => false,
            },
        }
    }

    /// Returns the Clk expression of a place, on either side of an assignment.
    pub(crate) fn place_expr(&mut self, place: &CppPlace, span: SourceSpan) -> Res<Expr> {
        Ok(match &place.kind {
            PlaceKind::Variable { name, .. } => Expr::name(name.clone(), span),
            PlaceKind::Field(base, field) => {
                let base = self.place_expr(base, span)?;
                Expr::new(ExprKind::Field(Box::new(base), field.clone()), span)
            }
            PlaceKind::Component(base, at) => {
                let base = self.place_expr(base, span)?;
                Expr::new(ExprKind::Field(Box::new(base), COMPONENTS[usize::from(*at)].into()), span)
            }
            PlaceKind::At(pointer) => {
                let pointer = pointer.clone();
                match (&pointer.base, self.access(&pointer, span)?) {
                    (PointerBase::Array(_), Access::Element) => self.element(&pointer, span)?,
                    (PointerBase::Object(_), Access::Element) if pointer.index.is_some() => {
                        return refuse("an index of a pointer to one variable", span, "use an array");
                    }
                    (PointerBase::Object(place), Access::Element) => self.place_expr(place, span)?,
                    (_, Access::Scalar) => self.single_scalar(&pointer, span)?,
                    _ => return refuse("a part of an object of another type", span, "use one type for the array"),
                }
            }
            PlaceKind::PointerVariable(_) => return refuse("a pointer as a value", span, "use an index"),
        })
    }

    fn element(&mut self, pointer: &Pointer, span: SourceSpan) -> Res<Expr> {
        let PointerBase::Array(info) = &pointer.base else { return refuse("this element", span, "") };
        let info = info.clone();
        let mut indices: Vec<Expr> = pointer.prefix.iter().map(index_expr).collect();
        let size = self.t.size_of(&info.element).unwrap_or(1);
        indices.push(match self.element_index(pointer, size, span)? {
            Some(index) => index_expr(&index),
            None => Expr::int(0, ClkScalar::I32, span),
        });
        Ok(Expr::new(ExprKind::Index(Box::new(Expr { span, ..info.expr.clone() }), indices), span))
    }

    // ---- loads ----

    pub(crate) fn load(&mut self, place: &CppPlace) -> Res<Value> {
        let span = place.span;
        if let CType::Record(id) = place.ty {
            self.t.emit_record(id, span)?;
            if self.is_pure_closure(&place.ty) {
                let object = self.object_without_values(id, span)?;
                return Ok(Value { stable: true, ..Value::new(place.ty.clone(), object) });
            }
        }
        if let Some(choice) = choice_of(place) {
            return self.load_choice(place, &choice, span);
        }
        if let Some((pointer, id)) = self.as_numbers(place) {
            return self.load_numbers(&pointer, id, span);
        }
        match &place.kind {
            PlaceKind::Variable { name, key, value } => {
                if let Some(known) = value
                    && !self.is_mutated(*key)
                {
                    let expr = Expr { span, ..known.expr.clone() };
                    return Ok(Value { expr, stable: true, effect: false, ..(**known).clone() });
                }
                Ok(self.variable_value(name, *key, &place.ty, span))
            }
            PlaceKind::PointerVariable(_) => refuse("a pointer as a value", span, "use an index"),
            PlaceKind::At(pointer) => {
                let pointer = pointer.clone();
                match self.access(&pointer, span)? {
                    Access::Element | Access::Scalar => {
                        let expr = self.place_expr(place, span)?;
                        Ok(Value::new(place.ty.clone(), expr))
                    }
                    Access::Whole(views) => self.load_whole(&pointer, views, span),
                    Access::Part(views) => self.load_part(&pointer, views, span),
                }
            }
            PlaceKind::Field(..) | PlaceKind::Component(..) => {
                let stable = !self.is_shared_place(place) && !self.is_mutated(self.root(place));
                if let PlaceKind::Component(base, at) = &place.kind
                    && let PlaceKind::At(_) = base.kind
                {
                    // A component of a vector that is several elements: load the vector.
                    let vector = self.load(base)?;
                    let expr = match vector.expr.kind {
                        ExprKind::Call(name, mut parts)
                            if parts.len() > 1 && usize::from(*at) < parts.len() && name.contains('x') =>
                        {
                            parts.swap_remove(usize::from(*at))
                        }
                        kind => {
                            let base = Box::new(Expr::new(kind, span));
                            Expr::new(ExprKind::Field(base, COMPONENTS[usize::from(*at)].into()), span)
                        }
                    };
                    return Ok(Value::new(place.ty.clone(), expr));
                }
                let expr = self.place_expr(place, span)?;
                Ok(Value { stable, ..Value::new(place.ty.clone(), expr) })
            }
        }
    }

    // ---- stores ----

    /// Stores a value of the type of the place.
    pub(crate) fn store(&mut self, place: &CppPlace, value: Value, span: SourceSpan) -> Res<()> {
        if let CType::Record(id) = place.ty {
            self.t.emit_record(id, span)?;
        }
        if let Some(choice) = choice_of(place) {
            return self.store_choice(place, &choice, value, span);
        }
        if let Some((pointer, id)) = self.as_numbers(place) {
            return self.store_numbers(&pointer, id, value, span);
        }
        let root = self.root(place);
        self.note_mutated(root);
        self.requirements.effect |= self.is_shared_place(place);
        if let PlaceKind::At(pointer) = &place.kind {
            let pointer = pointer.clone();
            if let PointerBase::Array(info) = &pointer.base
                && info.space == Space::Constant
            {
                return refuse("a store to a constant array", span, "");
            }
            match self.access(&pointer, span)? {
                Access::Whole(views) => return self.store_whole(&pointer, views, value, span),
                Access::Part(views) if !self.is_shared_place(place) => {
                    return self.store_part(place, views, value, span);
                }
                Access::Part(_) => {
                    let element = self.type_of_base(&pointer);
                    return refuse_access(&element, &self.t.describe(&pointer.to), span);
                }
                Access::Element | Access::Scalar => {}
            }
        }
        if let PlaceKind::Component(base, at) = &place.kind
            && let PlaceKind::At(pointer) = &base.kind
            && let CType::Vector(component, _) = &pointer.to
            && !matches!(self.access(pointer, span)?, Access::Element)
        {
            let pointer = self.cast_pointer(pointer.clone(), &component.ty(), span)?;
            let pointer = self.offset(pointer, Value::int(i128::from(*at), LONG, span), false, span)?;
            let place = CppPlace { kind: PlaceKind::At(pointer), ty: place.ty.clone(), span };
            return self.store(&place, value, span);
        }
        let target = self.place_expr(place, place.span)?;
        self.push_assign(target, realize(&value), span);
        Ok(())
    }

    fn type_of_base(&self, pointer: &Pointer) -> String {
        match &pointer.base {
            PointerBase::Array(info) => self.t.describe(&info.element),
            PointerBase::Object(place) => self.t.describe(&place.ty),
            PointerBase::Choice(_) => "one of several arrays".into(),
            PointerBase::Null => self.t.describe(&CType::Null),
        }
    }

    // ---- indices and members ----

    pub(crate) fn index(&mut self, base: &'a CppExpr, index: &'a CppExpr, span: SourceSpan) -> Res<Denoted> {
        self.check_order(&[base, index])?;
        let denoted = self.denote(base)?;
        let ty = self.type_of_denoted(&denoted);
        if let Denoted::Place(CppPlace { kind: PlaceKind::Field(object, field), .. }) = &denoted
            && let Some((to, count)) = super::translator::pointer_array(&ty)
        {
            return self.pointer_element(object, field, to, count, index, span);
        }
        if let CType::Record(_) = ty {
            let argument = self.denote(index)?;
            return self.call_operator("[]", denoted, vec![argument], span);
        }
        if ty.is_integer() && !matches!(denoted, Denoted::Pointer(_)) {
            // `3[x]`
            let at = self.value_of(denoted, base.span)?;
            let pointer = self.denote(index)?;
            let pointer = self.pointer_of(pointer, span)?;
            let pointer = self.offset(pointer, at, false, span)?;
            return self.object_at(pointer, span);
        }
        let mut pointer = self.pointer_of(denoted, base.span)?;
        let mark = self.mark();
        let at = self.operand(index)?;
        if self.mark() > mark {
            self.spill_pointer(&mut pointer, mark);
        }
        if let CType::Bool = at.ty {
            let at = self.convert(at, &INT, span)?;
            let pointer = self.offset(pointer, at, false, span)?;
            return self.object_at(pointer, span);
        }
        let pointer = self.offset(pointer, at, false, span)?;
        self.object_at(pointer, span)
    }

    pub(crate) fn member(
        &mut self,
        base: &'a CppExpr,
        arrow: bool,
        member: &'a QualifiedName,
        span: SourceSpan,
    ) -> Res<Denoted> {
        let Some(name) = member.segments.last().map(|segment| segment.name.text.clone()) else {
            return refuse("this member", span, "");
        };
        if let crate::ast::CppExprKind::Name(variable) = &base.kind
            && let [only] = variable.segments.as_slice()
            && let Some(which) =
                ["threadIdx", "blockIdx", "blockDim", "gridDim"].iter().position(|known| *known == only.name.text)
            && self.find_local(&only.name.text).is_none()
        {
            return Ok(Denoted::Value(self.position(which, &name, span)));
        }
        let mut denoted = self.denote(base)?;
        if arrow {
            if let CType::Record(_) = self.type_of_denoted(&denoted) {
                denoted = self.call_operator("->", denoted, vec![], span)?;
            }
            let pointer = self.pointer_of(denoted, base.span)?;
            denoted = self.object_at(pointer, span)?;
        }
        let ty = self.type_of_denoted(&denoted);
        match &ty {
            CType::Vector(component, count) => {
                let Some(at) = COMPONENTS.iter().position(|known| *known == name) else {
                    return refuse(format!("the component `{name}`"), span, "");
                };
                if at >= usize::from(*count) {
                    return refuse(format!("the component `{name}`"), span, "");
                }
                self.part_of(denoted, component.ty(), at, span)
            }
            CType::Record(id) => {
                let Some(field) = self.t.field(*id, &name) else {
                    return refuse(format!("the member `{name}` of {}", self.t.describe(&ty)), span, "");
                };
                let (clk, field_type) = (field.clk.clone(), field.ty.clone());
                if let CType::Pointer(_) = field_type {
                    if let Denoted::Place(place) = &denoted
                        && let Some(kind) = self.pointer_field(place, std::slice::from_ref(&clk))
                    {
                        return Ok(Denoted::Place(CppPlace { kind, ty: field_type, span }));
                    }
                    return refuse(
                        format!("the pointer `{name}` in a struct"),
                        span,
                        "pass the pointer as a parameter of its own",
                    );
                }
                if self.t.record(*id).is_union {
                    let Denoted::Place(CppPlace { kind: PlaceKind::At(pointer), .. }) = denoted else {
                        return refuse("a union as a value", span, "use a local variable");
                    };
                    let kind = PlaceKind::At(Pointer { to: field_type.clone(), ..pointer });
                    return Ok(Denoted::Place(CppPlace { kind, ty: field_type, span }));
                }
                match denoted {
                    Denoted::Place(place) => Ok(Denoted::Place(self.field_place(place, clk, field_type, span)?)),
                    Denoted::Value(value) => {
                        let value = self.settle(value);
                        if let CType::Array(..) = field_type {
                            return refuse("an array in a temporary object", span, "store the object in a variable");
                        }
                        let expr = Expr::new(ExprKind::Field(Box::new(value.expr), clk), span);
                        Ok(Denoted::Value(Value { stable: value.stable, ..Value::new(field_type, expr) }))
                    }
                    _ => refuse(format!("the member `{name}`"), span, ""),
                }
            }
            _ => refuse(format!("the member `{name}` of {}", self.t.describe(&ty)), span, ""),
        }
    }

    /// Returns the variable of a pointer in a struct, if it has one.
    pub(crate) fn pointer_field(&mut self, place: &CppPlace, fields: &[SmolStr]) -> Option<PlaceKind> {
        let (key, mut path) = field_path(place)?;
        path.extend(fields.iter().cloned());
        let local = super::value::pointer_field_name(key, &path);
        self.note_used_pointer(&local);
        match self.find_local(&local)? {
            super::lower::Local::Pointer { key, .. } => Some(PlaceKind::PointerVariable(*key)),
            _ => None,
        }
    }

    /// Notes that a kernel uses a pointer of an array in a struct. In the next pass, the pointer is a parameter.
    pub(crate) fn note_used_pointer(&mut self, local: &str) {
        if self.is_kernel && self.find_local(local).is_none() && self.facts.used_pointers.insert(local.into()) {
            self.facts.changed = true;
        }
    }

    /// `v.p[i]` for an array of pointers in a struct: a constant index names a pointer, others choose one.
    fn pointer_element(
        &mut self,
        object: &CppPlace,
        field: &SmolStr,
        to: &CType,
        count: u64,
        index: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Denoted> {
        let ty = CType::Pointer(Box::new(to.clone()));
        let refuse_pointer = || refuse(format!("the pointer `{field}` in a struct"), span, "pass the pointer itself");
        let at = self.operand(index)?;
        if let Some(constant) = at.constant_int() {
            if !(0..i128::from(count)).contains(&constant) {
                let construct = format!("the pointer {constant} of `{field}`, which is constant and past its end");
                return refuse(construct, span, "");
            }
            let path = [field.clone(), SmolStr::from(constant.to_string())];
            return match self.pointer_field(object, &path) {
                Some(kind) => Ok(Denoted::Place(CppPlace { kind, ty, span })),
                None => refuse_pointer(),
            };
        }
        if count > super::pointer_choice::MAX_OPTIONS as u64 {
            let construct = format!("a computed index of `{field}`, an array of {count} pointers");
            return refuse(construct, span, "use constant indices, as in a chain of `if`");
        }
        let at = self.convert(at, &LONG, span)?;
        let at = self.spill(at);
        let zero = Value::int(0, LONG, span);
        let length = Value::int(i128::from(count), LONG, span);
        let above = self.binary(CppBinaryOp::Ge, at.clone(), zero, span)?;
        let below = self.binary(CppBinaryOp::Lt, at.clone(), length, span)?;
        let inside = super::arith::logical(CppBinaryOp::And, above, below, span);
        if inside.constant_bool() != Some(true) {
            let text = Expr::new(ExprKind::Text(format!("\"an index past the end of `{field}`\"")), span);
            self.push(super::tree::StmtKind::Expr(Expr::call("assert", vec![inside.expr, text], span)), span);
        }
        let mut chosen = None;
        let mut is_missing = false;
        for number in (0..count).rev() {
            let path = [field.clone(), SmolStr::from(number.to_string())];
            let Some(PlaceKind::PointerVariable(key)) = self.pointer_field(object, &path) else {
                is_missing = true;
                continue;
            };
            let pointer = self.load_pointer(key, to, span)?;
            chosen = Some(match chosen {
                None => pointer,
                Some(rest) => {
                    let number = Value::int(i128::from(number), LONG, span);
                    let is_own = self.binary(CppBinaryOp::Eq, at.clone(), number, span)?;
                    self.conditional_pointer(is_own, Denoted::Pointer(pointer), Denoted::Pointer(rest), span)?
                }
            });
        }
        match chosen {
            Some(pointer) if !is_missing => Ok(Denoted::Pointer(pointer)),
            _ => refuse_pointer(),
        }
    }

    fn part_of(&mut self, denoted: Denoted, ty: CType, at: usize, span: SourceSpan) -> Res<Denoted> {
        match denoted {
            Denoted::Place(place) => {
                let kind = PlaceKind::Component(Box::new(place), at as u8);
                Ok(Denoted::Place(CppPlace { kind, ty, span }))
            }
            Denoted::Value(value) => {
                let value = self.settle(value);
                let expr = vector_part(&value.expr, at, span);
                Ok(Denoted::Value(Value { stable: value.stable, ..Value::new(ty, expr) }))
            }
            _ => refuse("a component", span, ""),
        }
    }

    /// Operators of `half2` and of CUDA's dim3: componentwise.
    pub(crate) fn vector_binary(&mut self, op: CppBinaryOp, a: Value, b: Value, span: SourceSpan) -> Res<Value> {
        if let (CType::Vector(ComponentKind::Float(kind), 2), CType::Vector(..)) = (&a.ty, &b.ty)
            && a.ty == b.ty
            && matches!(kind, super::types::FloatKind::Half | super::types::FloatKind::Bfloat16)
            && matches!(op, CppBinaryOp::Add | CppBinaryOp::Sub | CppBinaryOp::Mul | CppBinaryOp::Div)
        {
            let (stable, effect) = (a.stable && b.stable, a.effect || b.effect);
            let expr = Expr::binary(op.text(), a.expr, b.expr, span);
            return Ok(Value { stable, effect, ..Value::new(a.ty, expr) });
        }
        refuse(
            format!("`{}` of {} and {}", op.text(), self.t.describe(&a.ty), self.t.describe(&b.ty)),
            span,
            "define the operator in this file, as `helper_math.h` does",
        )
    }
}

/// Returns the variable that contains a place, and the fields that lead to it.
pub(crate) fn field_path(place: &CppPlace) -> Option<(VariableKey, Vec<SmolStr>)> {
    match &place.kind {
        PlaceKind::Variable { key, .. } => Some((*key, vec![])),
        PlaceKind::Field(base, field) => {
            let (key, mut path) = field_path(base)?;
            path.push(field.clone());
            Some((key, path))
        }
        _ => None,
    }
}
