//! Accesses to an object through a pointer to another type than that of the array's elements, such as
//! `*(float4*)&x[4 * i]` and `((unsigned short*)words)[i]`. Memory is little-endian.
//!
//! Both types are sequences of scalars. If the object consists of whole scalars of the array, the access becomes
//! accesses to these scalars. A part of a scalar in memory that threads share can be loaded but not stored: the store
//! would write the rest of the scalar, too, which another thread may change.

use super::arith::{COMPONENTS, bits, index_expr, realize, vector_part};
use super::lower::Lower;
use super::pointer_choice::refuse_choice;
use super::tree::{Expr, ExprKind, StmtKind};
use super::types::{CType, ClkScalar, INT, LONG};
use super::value::{ArrayInfo, CppPlace, PlaceKind, Pointer, PointerBase, Res, Space, Value, refuse};
use crate::ast::CppBinaryOp;
use crate::source::SourceSpan;

/// How the object at a pointer is stored in its array.
pub(crate) enum Access {
    /// As one element.
    Element,
    /// As one scalar of a vector, with the same type.
    Scalar,
    /// As whole scalars of another type, or as several scalars.
    Whole(Views),
    /// As a part of a scalar.
    Part(Views),
}

/// The scalars of an array element and of the object at the pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Views {
    element: ScalarView,
    object: ScalarView,
}

#[derive(Clone, Copy, Debug)]
struct ScalarView {
    scalar: ClkScalar,
    count: u64,
}

impl ScalarView {
    fn of(ty: &CType) -> Option<ScalarView> {
        match ty {
            CType::Vector(component, count) => {
                Some(ScalarView { scalar: component.scalar(), count: u64::from(*count) })
            }
            other => other.scalar().map(|scalar| ScalarView { scalar, count: 1 }),
        }
    }

    fn size(self) -> u64 {
        self.scalar.size() * self.count
    }
}

/// Returns the unsigned integer with the size of a scalar.
fn unsigned(scalar: ClkScalar) -> ClkScalar {
    match scalar.size() {
        1 => ClkScalar::U8,
        2 => ClkScalar::U16,
        4 => ClkScalar::U32,
        _ => ClkScalar::U64,
    }
}

/// Returns the type for shifts of a scalar's bits.
fn word(scalar: ClkScalar) -> ClkScalar {
    if scalar.size() <= 4 { ClkScalar::U32 } else { ClkScalar::U64 }
}

fn convert_int(expr: Expr, from: ClkScalar, to: ClkScalar, span: SourceSpan) -> Expr {
    if from == to { expr } else { Expr::call(to.name(), vec![expr], span) }
}

/// Combines the scalars `parts`, the lowest first, into one larger scalar.
fn join(parts: Vec<Expr>, from: ClkScalar, to: ClkScalar, span: SourceSpan) -> Expr {
    let wide = word(to);
    let mut all: Option<Expr> = None;
    for (at, part) in parts.into_iter().enumerate() {
        let part = convert_int(bits(part, from, unsigned(from), span), unsigned(from), wide, span);
        let shift = 8 * from.size() as i128 * at as i128;
        let part = if at == 0 { part } else { Expr::binary("<<", part, Expr::int(shift, wide, span), span) };
        all = Some(match all {
            None => part,
            Some(all) => Expr::binary("|", all, part, span),
        });
    }
    let all = all.unwrap_or_else(|| Expr::int(0, wide, span));
    bits(convert_int(all, wide, unsigned(to), span), unsigned(to), to, span)
}

/// Returns the scalar that begins at a bit of a larger one.
fn piece(whole: Expr, from: ClkScalar, to: ClkScalar, shift: Expr, span: SourceSpan) -> Expr {
    let wide = word(from);
    let whole = convert_int(bits(whole, from, unsigned(from), span), unsigned(from), wide, span);
    let shifted = match shift.kind {
        ExprKind::Int(0, _) => whole,
        _ => Expr::binary(">>", whole, shift, span),
    };
    bits(convert_int(shifted, wide, unsigned(to), span), unsigned(to), to, span)
}

impl Lower<'_, '_> {
    /// Returns how an array stores the object at a pointer.
    pub(crate) fn access(&mut self, pointer: &Pointer, span: SourceSpan) -> Res<Access> {
        let element = match &pointer.base {
            PointerBase::Array(info) => info.element.clone(),
            PointerBase::Object(place) => place.ty.clone(),
            PointerBase::Choice(_) => return refuse_choice(span),
            PointerBase::Null => return refuse("an access through a null pointer", span, ""),
        };
        let to = &pointer.to;
        let views = ScalarView::of(&element).zip(ScalarView::of(to));
        let same = views.is_some_and(|(a, b)| a.scalar == b.scalar && a.count == b.count);
        if element == *to || same {
            return Ok(Access::Element);
        }
        if let Some((element, object)) = views
            && element.scalar != ClkScalar::Bool
            && object.scalar != ClkScalar::Bool
        {
            let (from, own) = (element.scalar.size(), object.scalar.size());
            let whole = own.is_multiple_of(from)
                || from.is_multiple_of(own) && object.size().is_multiple_of(from) && object.count != 3;
            if whole && object.size() == from && element.scalar == object.scalar {
                return Ok(Access::Scalar);
            }
            if whole {
                return Ok(Access::Whole(Views { element, object }));
            }
            if object.count != 3 && from.is_multiple_of(object.size()) {
                if let PointerBase::Array(info) = &pointer.base {
                    // Dynamic shared memory consists of elements of the smallest type that is used.
                    self.note_dynamic_element(info.key, pointer.to.clone());
                }
                return Ok(Access::Part(Views { element, object }));
            }
        }
        refuse_access(&self.t.describe(&element), &self.t.describe(to), span)
    }

    /// Asserts that a pointer is aligned for the object that it points to, unless the index shows it.
    fn assert_aligned(&mut self, pointer: &Pointer, index: &Value, span: SourceSpan) -> Res<()> {
        let align = self.t.align_of(&pointer.to).unwrap_or(1);
        let element = match &pointer.base {
            PointerBase::Array(info) => info.element.clone(),
            PointerBase::Object(place) => place.ty.clone(),
            PointerBase::Choice(_) | PointerBase::Null => return Ok(()),
        };
        if let PointerBase::Array(info) = &pointer.base
            && align > self.t.align_of(&element).unwrap_or(1)
        {
            self.note_aligned(&info.clone(), align, span);
        }
        let mut steps = align;
        while steps > 1 && (steps / 2 * pointer.unit).is_multiple_of(align) {
            steps /= 2;
        }
        if steps > 1 && !index.divisor.is_multiple_of(steps) {
            let number = Value::int(i128::from(steps), INT, span);
            let rest = self.binary(CppBinaryOp::Rem, index.clone(), number, span)?;
            let aligned = self.binary(CppBinaryOp::Eq, rest, Value::int(0, INT, span), span)?;
            let text = format!("\"an access of {} bytes is not aligned\"", self.t.size_of(&pointer.to).unwrap_or(1));
            let text = Expr::new(ExprKind::Text(text), span);
            self.push(StmtKind::Expr(Expr::call("assert", vec![aligned.expr, text], span)), span);
            self.requirements.note(format!("an address is a multiple of {align} bytes, which only runs check"), span);
        }
        Ok(())
    }

    /// Notes that an array is aligned. If it is a parameter of a device function, the kernel's array has the name.
    pub(crate) fn note_aligned(&mut self, array: &ArrayInfo, align: u64, span: SourceSpan) {
        let name = &array.name;
        match array.space {
            Space::Local | Space::Shared => {
                self.requirements.note(format!("`{name}` is aligned to {align} bytes"), span)
            }
            Space::Global => self.requirements.note(format!("the argument `{name}` is aligned to {align} bytes"), span),
            Space::Parameter => self.aligned.push((array.key, align, span)),
            _ => {}
        }
    }

    /// Returns the index of the pointer, which is stored in a variable if it is used several times.
    fn reused_index(&mut self, pointer: &Pointer, span: SourceSpan) -> Value {
        let index = pointer.index.as_deref().cloned().unwrap_or_else(|| Value::int(0, LONG, span));
        if index.constant.is_some() { index } else { self.spill(index) }
    }

    fn multiple(&mut self, value: &Value, factor: u64, span: SourceSpan) -> Res<Value> {
        if factor == 1 {
            return Ok(value.clone());
        }
        self.binary(CppBinaryOp::Mul, value.clone(), Value::int(i128::from(factor), LONG, span), span)
    }

    fn quotient(&mut self, value: &Value, divisor: u64, span: SourceSpan) -> Res<Value> {
        if divisor == 1 {
            return Ok(value.clone());
        }
        self.binary(CppBinaryOp::Div, value.clone(), Value::int(i128::from(divisor), LONG, span), span)
    }

    fn plus(&mut self, value: &Value, more: u64, span: SourceSpan) -> Res<Value> {
        if more == 0 {
            return Ok(value.clone());
        }
        let value = self.convert(value.clone(), &LONG, span)?;
        self.binary(CppBinaryOp::Add, value, Value::int(i128::from(more), LONG, span), span)
    }

    /// Returns the index of a pointer in units of whole elements.
    pub(crate) fn element_index(&mut self, pointer: &Pointer, size: u64, span: SourceSpan) -> Res<Option<Value>> {
        if pointer.unit >= size || !size.is_multiple_of(pointer.unit) {
            return Ok(pointer.index.as_deref().cloned());
        }
        let index = self.reused_index(pointer, span);
        self.assert_whole(&index, size / pointer.unit, span)?;
        self.quotient(&index, size / pointer.unit, span).map(Some)
    }

    /// Asserts that an index in units of parts of an element is that of a whole element.
    fn assert_whole(&mut self, index: &Value, parts: u64, span: SourceSpan) -> Res<()> {
        if index.divisor.is_multiple_of(parts) {
            return Ok(());
        }
        let number = Value::int(i128::from(parts), INT, span);
        let rest = self.binary(CppBinaryOp::Rem, index.clone(), number, span)?;
        let whole = self.binary(CppBinaryOp::Eq, rest, Value::int(0, INT, span), span)?;
        let text = Expr::new(ExprKind::Text("\"an access is not aligned\"".into()), span);
        self.push(StmtKind::Expr(Expr::call("assert", vec![whole.expr, text], span)), span);
        self.requirements.note("an address is aligned, which only runs check", span);
        Ok(())
    }

    /// Returns one of the scalars that begin at a pointer.
    fn scalar_at(
        &mut self,
        pointer: &Pointer,
        view: (ClkScalar, u64),
        index: &Value,
        part: u64,
        span: SourceSpan,
    ) -> Res<Expr> {
        let (scalar, count) = view;
        let whole = pointer.unit.is_multiple_of(scalar.size() * count);
        match &pointer.base {
            PointerBase::Array(info) => {
                let info = info.clone();
                if info.axes > 1 {
                    self.note_flat(info.key);
                }
                let array = Expr { span, ..info.expr.clone() };
                let (element, component) = if whole {
                    let first = self.multiple(index, pointer.unit / (scalar.size() * count), span)?;
                    (self.plus(&first, part / count, span)?, Value::int(i128::from(part % count), INT, span))
                } else {
                    let at = self.scalar_index(pointer, scalar, index, span)?;
                    let at = self.plus(&at, part, span)?;
                    let number = Value::int(i128::from(count), INT, span);
                    match count {
                        1 => (at, Value::int(0, INT, span)),
                        _ => (
                            self.binary(CppBinaryOp::Div, at.clone(), number.clone(), span)?,
                            self.binary(CppBinaryOp::Rem, at, number, span)?,
                        ),
                    }
                };
                let element = Expr::new(ExprKind::Index(Box::new(array), vec![index_expr(&element)]), span);
                Ok(if count == 1 { element } else { component_expr(element, &component, span) })
            }
            PointerBase::Object(place) => {
                let place = (**place).clone();
                let at = if whole {
                    self.multiple(index, pointer.unit / scalar.size(), span)?
                } else {
                    self.scalar_index(pointer, scalar, index, span)?
                };
                let at = self.plus(&at, part, span)?;
                if at.constant_int().is_some_and(|at| at < 0 || at >= i128::from(count)) {
                    return refuse("an access outside of a variable", span, "use an array");
                }
                let object = match &place.kind {
                    // A constant has no variable in the text.
                    PlaceKind::Variable { value: Some(_), key, .. } if !self.is_mutated(*key) => {
                        realize(&self.load(&place)?)
                    }
                    _ => self.place_expr(&place, span)?,
                };
                if count > 1 {
                    return Ok(component_expr(object, &at, span));
                }
                if at.constant_int().is_none() {
                    let inside = self.binary(CppBinaryOp::Eq, at, Value::int(0, INT, span), span)?;
                    let text = Expr::new(ExprKind::Text("\"an access is outside of the variable\"".into()), span);
                    self.push(StmtKind::Expr(Expr::call("assert", vec![inside.expr, text], span)), span);
                }
                Ok(object)
            }
            PointerBase::Choice(_) => refuse_choice(span),
            PointerBase::Null => refuse("an access through a null pointer", span, ""),
        }
    }

    /// Returns the index of the scalar that contains the byte at a pointer.
    fn scalar_index(&mut self, pointer: &Pointer, scalar: ClkScalar, index: &Value, span: SourceSpan) -> Res<Value> {
        if pointer.unit.is_multiple_of(scalar.size()) {
            return self.multiple(index, pointer.unit / scalar.size(), span);
        }
        let parts = scalar.size() / pointer.unit;
        if index.range.is_some_and(|(low, _)| low >= 0) {
            return self.quotient(index, parts, span);
        }
        // Rounds down, so that a negative index stays out of bounds.
        let index = self.convert(index.clone(), &LONG, span)?;
        let shift = Value::int(i128::from(parts.trailing_zeros()), INT, span);
        self.binary(CppBinaryOp::Shr, index, shift, span)
    }

    /// Returns a scalar of a vector as a place.
    pub(crate) fn single_scalar(&mut self, pointer: &Pointer, span: SourceSpan) -> Res<Expr> {
        let element = match &pointer.base {
            PointerBase::Array(info) => info.element.clone(),
            PointerBase::Object(place) => place.ty.clone(),
            PointerBase::Choice(_) => return refuse_choice(span),
            PointerBase::Null => return refuse("an access through a null pointer", span, ""),
        };
        let Some(view) = ScalarView::of(&element) else { return refuse("this access", span, "") };
        let index = pointer.index.as_deref().cloned().unwrap_or_else(|| Value::int(0, LONG, span));
        self.assert_aligned(pointer, &index, span)?;
        self.scalar_at(pointer, (view.scalar, view.count), &index, 0, span)
    }

    /// Loads an object that consists of whole scalars of the array.
    pub(crate) fn load_whole(&mut self, pointer: &Pointer, views: Views, span: SourceSpan) -> Res<Value> {
        let Views { element, object } = views;
        let mut parts = vec![];
        for target in self.whole_scalars(pointer, views, span)? {
            // Smaller scalars use a scalar of the array several times.
            let load = Value::new(scalar_type(element.scalar), target);
            parts.push(if object.scalar.size() < element.scalar.size() { self.spill(load).expr } else { load.expr });
        }
        let components = regroup(parts, element.scalar, object.scalar, span);
        Ok(self.object_value(pointer, components, span))
    }

    fn object_value(&mut self, pointer: &Pointer, mut components: Vec<Expr>, span: SourceSpan) -> Value {
        let ty = pointer.to.clone();
        let expr = match ty {
            CType::Vector(..) => Expr::call(self.t.type_text(&ty), components, span),
            _ => components.swap_remove(0),
        };
        Value::new(ty, expr)
    }

    /// Returns the scalars of the array that an object consists of.
    fn whole_scalars(&mut self, pointer: &Pointer, views: Views, span: SourceSpan) -> Res<Vec<Expr>> {
        let Views { element, object } = views;
        let index = self.reused_index(pointer, span);
        self.assert_aligned(pointer, &index, span)?;
        let count = object.size() / element.scalar.size();
        let view = (element.scalar, element.count);
        (0..count).map(|part| self.scalar_at(pointer, view, &index, part, span)).collect()
    }

    /// Stores an object that consists of whole scalars of the array.
    pub(crate) fn store_whole(&mut self, pointer: &Pointer, views: Views, value: Value, span: SourceSpan) -> Res<()> {
        let Views { element, object } = views;
        let value = Value { expr: realize(&value), rep: object.scalar, ..value };
        let value = if value.constant.is_some() && object.count == 1 { value } else { self.spill(value) };
        let components: Vec<Expr> = match object.count {
            1 => vec![value.expr],
            count => (0..count as usize).map(|at| vector_part(&value.expr, at, span)).collect(),
        };
        let targets = self.whole_scalars(pointer, views, span)?;
        for (target, part) in targets.into_iter().zip(regroup(components, object.scalar, element.scalar, span)) {
            self.push_assign(target, part, span);
        }
        Ok(())
    }

    /// Returns the scalar that contains an object, and the bit at which the object begins.
    fn containing_scalar(&mut self, pointer: &Pointer, element: ScalarView, span: SourceSpan) -> Res<(Expr, Value)> {
        let index = self.reused_index(pointer, span);
        self.assert_aligned(pointer, &index, span)?;
        let view = (element.scalar, element.count);
        let whole = self.scalar_at(pointer, view, &index, 0, span)?;
        let parts = (element.scalar.size() / pointer.unit).max(1);
        let mask = Value::int(i128::from(parts - 1), LONG, span);
        let at = self.binary(CppBinaryOp::BitAnd, index, mask, span)?;
        let first = self.multiple(&at, 8 * pointer.unit, span)?;
        let first = if first.constant.is_some() { first } else { self.spill(first) };
        Ok((whole, first))
    }

    /// Stores an object that is a part of a scalar, which no other thread can access.
    pub(crate) fn store_part(&mut self, place: &CppPlace, views: Views, value: Value, span: SourceSpan) -> Res<()> {
        let Views { element, object } = views;
        let PlaceKind::At(pointer) = &place.kind else { return refuse("this store", span, "") };
        let root = self.root(place);
        self.note_passed(root);
        let value = Value { expr: realize(&value), rep: object.scalar, ..value };
        let value = self.spill(Value { stable: false, ..value }).expr;
        let (whole, first) = self.containing_scalar(pointer, element, span)?;
        let wide = word(element.scalar);
        let unsigned_element = unsigned(element.scalar);
        let mask = (1i128 << (8 * object.scalar.size())) - 1;
        for at in 0..object.count {
            let shift = self.plus(&first, 8 * object.scalar.size() * at, span)?;
            let shift = super::arith::coerce(&shift, wide);
            let component = if object.count == 1 { value.clone() } else { vector_part(&value, at as usize, span) };
            let own = unsigned(object.scalar);
            let component = convert_int(bits(component, object.scalar, own, span), own, wide, span);
            let old = bits(whole.clone(), element.scalar, unsigned_element, span);
            let old = convert_int(old, unsigned_element, wide, span);
            let hole = Expr::binary("<<", Expr::int(mask, wide, span), shift.clone(), span);
            let rest = Expr::binary("&", old, Expr::new(ExprKind::Unary("!", Box::new(hole)), span), span);
            let new = Expr::binary("|", rest, Expr::binary("<<", component, shift, span), span);
            let new = bits(convert_int(new, wide, unsigned_element, span), unsigned_element, element.scalar, span);
            self.push_assign(whole.clone(), new, span);
        }
        Ok(())
    }

    /// Loads an object that is a part of a scalar.
    pub(crate) fn load_part(&mut self, pointer: &Pointer, views: Views, span: SourceSpan) -> Res<Value> {
        let Views { element, object } = views;
        let (whole, first) = self.containing_scalar(pointer, element, span)?;
        let whole = self.spill(Value::new(scalar_type(element.scalar), whole)).expr;
        let mut components = vec![];
        for at in 0..object.count {
            let shift = self.plus(&first, 8 * object.scalar.size() * at, span)?;
            let shift = super::arith::coerce(&shift, word(element.scalar));
            components.push(piece(whole.clone(), element.scalar, object.scalar, shift, span));
        }
        Ok(self.object_value(pointer, components, span))
    }
}

pub(crate) fn refuse_access<T>(element: &str, object: &str, span: SourceSpan) -> Res<T> {
    let construct = format!("an access to {element} through a pointer to {object}");
    refuse(construct, span, "use one type for the array, or pack and unpack the values with shifts")
}

fn component_expr(vector: Expr, component: &Value, span: SourceSpan) -> Expr {
    match component.constant_int() {
        Some(known @ 0..=3) => Expr::new(ExprKind::Field(Box::new(vector), COMPONENTS[known as usize].into()), span),
        _ => Expr::new(ExprKind::Index(Box::new(vector), vec![index_expr(component)]), span),
    }
}

/// Converts a sequence of scalars to a sequence of other scalars with the same bytes.
fn regroup(parts: Vec<Expr>, from: ClkScalar, to: ClkScalar, span: SourceSpan) -> Vec<Expr> {
    if from.size() == to.size() {
        return parts.into_iter().map(|part| bits(part, from, to, span)).collect();
    }
    if from.size() < to.size() {
        let count = (to.size() / from.size()) as usize;
        return parts.chunks(count).map(|chunk| join(chunk.to_vec(), from, to, span)).collect();
    }
    let count = from.size() / to.size();
    let pieces = parts.into_iter().flat_map(|part| {
        (0..count).map(move |at| {
            let shift = Expr::int(i128::from(8 * to.size() * at), word(from), span);
            piece(part.clone(), from, to, shift, span)
        })
    });
    pieces.collect()
}

/// Returns a C++ type that a scalar represents.
fn scalar_type(scalar: ClkScalar) -> CType {
    use super::types::{FloatKind, IntKind};
    match scalar {
        ClkScalar::Bool => CType::Bool,
        ClkScalar::I8 => CType::Int(IntKind::SignedChar),
        ClkScalar::U8 => CType::Int(IntKind::UnsignedChar),
        ClkScalar::I16 => CType::Int(IntKind::Short),
        ClkScalar::U16 => CType::Int(IntKind::UnsignedShort),
        ClkScalar::I32 => INT,
        ClkScalar::U32 => super::types::UINT,
        ClkScalar::I64 => LONG,
        ClkScalar::U64 => super::types::SIZE,
        ClkScalar::F16 => CType::Float(FloatKind::Half),
        ClkScalar::Bf16 => CType::Float(FloatKind::Bfloat16),
        ClkScalar::F32 => super::types::FLOAT,
        ClkScalar::F64 => super::types::DOUBLE,
    }
}
