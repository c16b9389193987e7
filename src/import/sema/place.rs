//! Loads and stores: variables, elements of arrays, fields and components, also through pointers to another type than
//! that of the elements (`reinterpret_cast<float4*>(x)`).

use super::arith::{coerce, realize};
use super::lower::Lower;
use super::tree::{Expr, ExprKind, StmtKind};
use super::types::{CType, ClkScalar, ComponentKind, INT, LONG};
use super::value::{
    ArrayInfo, CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey, refuse,
};
use crate::ast::{CppBinaryOp, CppExpr, QualifiedName};
use crate::source::SourceSpan;

pub(crate) const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// How the object at a pointer is stored in its array.
enum Access {
    /// As one element.
    Element,
    /// As the bits of an element of another type of the same size.
    Bits(ClkScalar, ClkScalar),
    /// As this number of adjacent elements, whose bits become the components of a vector.
    Elements(u8, ClkScalar, ClkScalar),
    /// As a component of an element that is a vector of this length.
    Component(u8),
}

impl<'a> Lower<'_, 'a> {
    /// Returns the variable or array that contains a place.
    pub(crate) fn root(&self, place: &CppPlace) -> VariableKey {
        match &place.kind {
            PlaceKind::Variable { key, .. } | PlaceKind::PointerVariable(key) => *key,
            PlaceKind::Field(base, _) | PlaceKind::Component(base, _) => self.root(base),
            PlaceKind::At(pointer) => match &pointer.base {
                PointerBase::Array(info) => info.key,
                PointerBase::Object(place) => self.root(place),
                PointerBase::Null => VariableKey(0),
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
            PlaceKind::At(pointer) => match (&pointer.base, self.access(pointer, span)?) {
                (PointerBase::Array(info), Access::Element) => {
                    let info = info.clone();
                    self.element(&info, pointer, span)
                }
                (PointerBase::Array(info), Access::Component(count)) => {
                    let info = info.clone();
                    self.component_element(&info, pointer, count, span)?
                }
                (PointerBase::Object(place), Access::Element) => {
                    let place = place.clone();
                    self.place_expr(&place, span)?
                }
                _ => return refuse("a part of an object of another type", span, "use one type for the array"),
            },
            PlaceKind::PointerVariable(_) => return refuse("a pointer as a value", span, "use an index"),
        })
    }

    fn element(&mut self, info: &ArrayInfo, pointer: &Pointer, span: SourceSpan) -> Expr {
        let mut indices: Vec<Expr> = pointer.prefix.iter().map(index_expr).collect();
        indices.push(match &pointer.index {
            Some(index) => index_expr(index),
            None => Expr::int(0, ClkScalar::I32, span),
        });
        Expr::new(ExprKind::Index(Box::new(Expr { span, ..info.expr.clone() }), indices), span)
    }

    fn component_element(&mut self, info: &ArrayInfo, pointer: &Pointer, count: u8, span: SourceSpan) -> Res<Expr> {
        let array = Expr { span, ..info.expr.clone() };
        let index = pointer.index.as_deref().cloned().unwrap_or_else(|| Value::int(0, LONG, span));
        let count = Value::int(i128::from(count), INT, span);
        let element = self.binary(CppBinaryOp::Div, index.clone(), count.clone(), span)?;
        let component = self.binary(CppBinaryOp::Rem, index, count, span)?;
        let element = Expr::new(ExprKind::Index(Box::new(array), vec![index_expr(&element)]), span);
        Ok(match component.constant_int() {
            Some(known @ 0..=3) => {
                Expr::new(ExprKind::Field(Box::new(element), COMPONENTS[known as usize].into()), span)
            }
            _ => Expr::new(ExprKind::Index(Box::new(element), vec![index_expr(&component)]), span),
        })
    }

    fn access(&self, pointer: &Pointer, span: SourceSpan) -> Res<Access> {
        let element = match &pointer.base {
            PointerBase::Array(info) => &info.element,
            PointerBase::Object(place) => &place.ty,
            PointerBase::Null => return refuse("an access through a null pointer", span, ""),
        };
        let to = &pointer.to;
        if let PointerBase::Object(_) = pointer.base
            && pointer.index.is_some()
        {
            return refuse("an index of a pointer to one variable", span, "use an array");
        }
        if element == to {
            return Ok(Access::Element);
        }
        let size = self.t.size_of(element).unwrap_or(0);
        if pointer.unit < size {
            if let CType::Vector(component, count) = element
                && component.scalar().size() == pointer.unit
                && to.scalar() == Some(component.scalar())
            {
                return Ok(Access::Component(*count));
            }
        } else {
            match (element.scalar(), to.scalar()) {
                (Some(a), Some(b)) if a == b => return Ok(Access::Element),
                (Some(a), Some(b)) if a.size() == b.size() && a != ClkScalar::Bool && b != ClkScalar::Bool => {
                    return Ok(Access::Bits(a, b));
                }
                _ => {}
            }
            if let (CType::Vector(a, n), CType::Vector(b, m)) = (element, to)
                && n == m
                && a.scalar() == b.scalar()
            {
                return Ok(Access::Element);
            }
            if let (Some(a), CType::Vector(component, count)) = (element.scalar(), to)
                && a.size() == component.scalar().size()
                && matches!(pointer.base, PointerBase::Array(_))
            {
                return Ok(Access::Elements(*count, a, component.scalar()));
            }
        }
        let construct =
            format!("an access to {} through a pointer to {}", self.t.describe(element), self.t.describe(to));
        refuse(construct, span, "use one type for the array, or pack and unpack the values with shifts")
    }

    // ---- loads ----

    pub(crate) fn load(&mut self, place: &CppPlace) -> Res<Value> {
        let span = place.span;
        match &place.kind {
            PlaceKind::Variable { name, key, value } => {
                if let Some(known) = value
                    && !self.is_mutated(*key)
                {
                    let expr = match known.constant {
                        Some(_) if known.ty.is_arithmetic() => known.expr.clone(),
                        _ => Expr::name(name.clone(), span),
                    };
                    return Ok(Value { expr: Expr { span, ..expr }, stable: true, effect: false, ..(**known).clone() });
                }
                Ok(self.variable_value(name, *key, &place.ty, span))
            }
            PlaceKind::PointerVariable(_) => refuse("a pointer as a value", span, "use an index"),
            PlaceKind::At(pointer) => {
                let pointer = pointer.clone();
                match self.access(&pointer, span)? {
                    Access::Element | Access::Component(_) => {
                        let expr = self.place_expr(place, span)?;
                        Ok(Value::new(place.ty.clone(), expr))
                    }
                    Access::Bits(from, to) => {
                        let expr = self.bare_element(&pointer, span)?;
                        let expr = bits(expr, from, to, span);
                        Ok(Value::new(place.ty.clone(), expr))
                    }
                    Access::Elements(count, from, to) => {
                        let parts = self.adjacent(&pointer, count, span)?;
                        let parts = parts.into_iter().map(|part| bits(part, from, to, span)).collect();
                        let name = self.t.type_text(&place.ty);
                        Ok(Value::new(place.ty.clone(), Expr::call(name, parts, span)))
                    }
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

    fn bare_element(&mut self, pointer: &Pointer, span: SourceSpan) -> Res<Expr> {
        match &pointer.base {
            PointerBase::Array(info) => {
                let info = info.clone();
                Ok(self.element(&info, pointer, span))
            }
            PointerBase::Object(place) => {
                let place = place.clone();
                self.place_expr(&place, span)
            }
            PointerBase::Null => refuse("an access through a null pointer", span, ""),
        }
    }

    /// Returns the elements of an array that a vector at a pointer consists of. CUDA requires that the vector is
    /// aligned, which the text asserts unless the index shows it.
    fn adjacent(&mut self, pointer: &Pointer, count: u8, span: SourceSpan) -> Res<Vec<Expr>> {
        let PointerBase::Array(info) = &pointer.base else {
            return refuse("a vector at the address of one variable", span, "use an array");
        };
        let info = info.clone();
        if info.axes > 1 {
            self.note_flat(info.key);
        }
        if info.space == Space::Local || info.space == Space::Shared {
            self.note(format!("`{}` is aligned for vector accesses", info.name), span);
        } else if info.space == Space::Parameter || info.space == Space::Global {
            self.note(format!("the argument `{}` is aligned for vector accesses", info.name), span);
        }
        let index = pointer.index.as_deref().cloned().unwrap_or_else(|| Value::int(0, LONG, span));
        let index = if index.constant.is_some() { index } else { self.spill(index) };
        // Vectors of three components are aligned like one component.
        if count != 3 && index.divisor % u64::from(count) != 0 {
            let number = Value::int(i128::from(count), INT, span);
            let rest = self.binary(CppBinaryOp::Rem, index.clone(), number, span)?;
            let zero = Value::int(0, INT, span);
            let aligned = self.binary(CppBinaryOp::Eq, rest, zero, span)?;
            let text = Expr::new(ExprKind::Text(format!("\"a vector of {count} elements is not aligned\"")), span);
            self.push(StmtKind::Expr(Expr::call("assert", vec![aligned.expr, text], span)), span);
        }
        let mut parts = vec![];
        for part in 0..count {
            let by = Value::int(i128::from(part), LONG, span);
            let base = self.convert(index.clone(), &LONG, span)?;
            let at = if part == 0 { index.clone() } else { self.binary(CppBinaryOp::Add, base, by, span)? };
            let element = Pointer { index: Some(Box::new(at)), ..pointer.clone() };
            parts.push(self.element(&info, &element, span));
        }
        Ok(parts)
    }

    // ---- stores ----

    /// Stores a value of the type of the place.
    pub(crate) fn store(&mut self, place: &CppPlace, value: Value, span: SourceSpan) -> Res<()> {
        let root = self.root(place);
        self.note_mutated(root);
        self.effect |= self.is_shared_place(place);
        if let PlaceKind::At(pointer) = &place.kind {
            let pointer = pointer.clone();
            if let PointerBase::Array(info) = &pointer.base
                && info.space == Space::Constant
            {
                return refuse("a store to a constant array", span, "");
            }
            match self.access(&pointer, span)? {
                Access::Bits(element, own) => {
                    let target = self.bare_element(&pointer, span)?;
                    let value = bits(realize(&value), own, element, span);
                    self.push_assign(target, value, span);
                    return Ok(());
                }
                Access::Elements(count, element, own) => {
                    let value = self.spill(value);
                    let targets = self.adjacent(&pointer, count, span)?;
                    for (at, target) in targets.into_iter().enumerate() {
                        let part = vector_part(&value.expr, at, span);
                        self.push_assign(target, bits(part, own, element, span), span);
                    }
                    return Ok(());
                }
                Access::Element | Access::Component(_) => {}
            }
        }
        if let PlaceKind::Component(base, at) = &place.kind
            && let PlaceKind::At(pointer) = &base.kind
            && let Access::Elements(count, element, own) = self.access(pointer, span)?
        {
            let pointer = pointer.clone();
            let mut targets = self.adjacent(&pointer, count, span)?;
            let target = targets.swap_remove(usize::from(*at));
            self.push_assign(target, bits(realize(&value), own, element, span), span);
            return Ok(());
        }
        let target = self.place_expr(place, place.span)?;
        self.push_assign(target, realize(&value), span);
        Ok(())
    }

    // ---- indices and members ----

    pub(crate) fn index(&mut self, base: &'a CppExpr, index: &'a CppExpr, span: SourceSpan) -> Res<Denoted> {
        self.check_order(&[base, index])?;
        let denoted = self.denote(base)?;
        let ty = self.type_of_denoted(&denoted);
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
                    return refuse(
                        format!("the pointer `{name}` in a struct"),
                        span,
                        "pass the pointer as a parameter of its own",
                    );
                }
                match denoted {
                    Denoted::Place(place) => {
                        let kind = PlaceKind::Field(Box::new(place), clk);
                        Ok(Denoted::Place(CppPlace { kind, ty: field_type, span }))
                    }
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

/// Returns an index: any integer type that contains its value.
pub(crate) fn index_expr(index: &Value) -> Expr {
    match index.constant_int() {
        Some(number) if i32::try_from(number).is_ok() => Expr::int(number, ClkScalar::I32, index.expr.span),
        _ if index.rep == ClkScalar::Bool => coerce(index, ClkScalar::I32),
        _ => index.expr.clone(),
    }
}

/// Reinterprets the bits of a scalar.
pub(crate) fn bits(expr: Expr, from: ClkScalar, to: ClkScalar, span: SourceSpan) -> Expr {
    if from == to {
        expr
    } else if from.is_float() || to.is_float() {
        Expr::call("bitcast", vec![Expr::name(to.name(), span), expr], span)
    } else {
        Expr::call(to.name(), vec![expr], span)
    }
}

fn vector_part(vector: &Expr, at: usize, span: SourceSpan) -> Expr {
    Expr::new(ExprKind::Field(Box::new(vector.clone()), COMPONENTS[at].into()), span)
}
