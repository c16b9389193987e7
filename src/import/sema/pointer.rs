//! Pointers: an array and an index. Arithmetic changes the index. A pointer variable is a variable with the index.
//! `pointer_choice` has pointers that refer to several arrays.

use super::arith::coerce;
use super::lower::{Local, Lower};
use super::tree::{Expr, ExprKind, StmtKind};
use super::types::{CType, ClkScalar, INT, LONG};
use super::value::{
    CppPlace, Denoted, PlaceKind, Pointer, PointerBase, PointerChoice, Res, Value, VariableKey, refuse,
};
use crate::ast::{CppBinaryOp, CppExpr, CppExprKind};
use crate::source::SourceSpan;
use std::rc::Rc;

/// Returns whether two expressions are equal, apart from their places in the file.
pub(crate) fn same_expr(a: &Expr, b: &Expr) -> bool {
    let all = |x: &[Expr], y: &[Expr]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same_expr(x, y));
    match (&a.kind, &b.kind) {
        (ExprKind::Index(x, i), ExprKind::Index(y, j)) => same_expr(x, y) && all(i, j),
        (ExprKind::Field(x, f), ExprKind::Field(y, g)) => f == g && same_expr(x, y),
        (ExprKind::Unary(f, x), ExprKind::Unary(g, y)) => f == g && same_expr(x, y),
        (ExprKind::Binary(f, x, p), ExprKind::Binary(g, y, q)) => f == g && same_expr(x, y) && same_expr(p, q),
        (ExprKind::Call(f, x), ExprKind::Call(g, y)) => f == g && all(x, y),
        (ExprKind::If(c, x, p), ExprKind::If(d, y, q)) => same_expr(c, d) && same_expr(x, y) && same_expr(p, q),
        (x, y) => x == y,
    }
}

impl<'a> Lower<'_, 'a> {
    pub(crate) fn null_pointer(&self, to: CType) -> Pointer {
        Pointer { base: PointerBase::Null, prefix: vec![], index: None, unit: 1, to }
    }

    pub(crate) fn object_pointer(&self, place: CppPlace, to: CType) -> Pointer {
        let unit = self.t.size_of(&place.ty).unwrap_or(1);
        Pointer { base: PointerBase::Object(Box::new(place)), prefix: vec![], index: None, unit, to }
    }

    /// Returns an expression as a pointer; arrays decay to a pointer to their first element.
    pub(crate) fn pointer_of(&mut self, denoted: Denoted, span: SourceSpan) -> Res<Pointer> {
        match denoted {
            Denoted::Pointer(pointer) => Ok(pointer),
            Denoted::Place(place) => match (&place.kind, &place.ty) {
                (_, CType::Array(..)) => self.decay(place, span),
                (PlaceKind::PointerVariable(key), CType::Pointer(to)) => self.load_pointer(*key, to, span),
                (_, CType::Pointer(_)) => refuse(
                    "a pointer that is stored in an object or an array",
                    span,
                    "pass each pointer as a parameter",
                ),
                _ => refuse(format!("{} as a pointer", self.t.describe(&place.ty)), span, ""),
            },
            Denoted::Value(value) if value.constant_int() == Some(0) => Ok(self.null_pointer(CType::Void)),
            Denoted::Value(value) => {
                refuse(format!("{} as a pointer", self.t.describe(&value.ty)), span, "use an index into an array")
            }
            _ => refuse("this expression as a pointer", span, ""),
        }
    }

    /// Returns the pointer to the first element of an array.
    fn decay(&mut self, place: CppPlace, span: SourceSpan) -> Res<Pointer> {
        let CType::Array(element, _) = &place.ty else {
            return refuse("an array here", span, "");
        };
        let element = (**element).clone();
        let extents = place.ty.extents().len();
        let mut pointer = self.address_of(place, span)?;
        // A row of an array with several axes: its index is complete. The whole array has no index yet.
        if let PointerBase::Array(info) = &pointer.base
            && info.axes == pointer.prefix.len() + 1 + extents
        {
            let zero = Value::int(0, LONG, span);
            let index = pointer.index.take().map_or(zero, |index| *index);
            pointer.prefix.push(index);
        }
        pointer.to = element;
        Ok(pointer)
    }

    /// Returns the pointer to a place.
    pub(crate) fn address_of(&mut self, place: CppPlace, span: SourceSpan) -> Res<Pointer> {
        match place.kind {
            PlaceKind::At(pointer) => Ok(pointer),
            PlaceKind::PointerVariable(_) => refuse("a pointer to a pointer", span, "pass the pointer itself"),
            PlaceKind::Field(..) if super::translator::pointer_array(&place.ty).is_some() => {
                refuse("an array of pointers as a pointer", span, "use its elements")
            }
            PlaceKind::Field(ref base, ref field) if matches!(place.ty, CType::Array(..)) => {
                // An array in a record: it is an array of its own, whose name is the field.
                let base_expr = self.place_expr(base, span)?;
                let key = self.root(base);
                let expr = Expr::new(ExprKind::Field(Box::new(base_expr), field.clone()), span);
                let element = place.ty.leaf().clone();
                let unit = self.t.size_of(&element).unwrap_or(1);
                let info = super::value::ArrayInfo {
                    expr,
                    element,
                    axes: 1,
                    space: super::value::Space::Local,
                    key,
                    name: field.clone(),
                };
                let to = place.ty.clone();
                Ok(Pointer { base: PointerBase::Array(std::rc::Rc::new(info)), prefix: vec![], index: None, unit, to })
            }
            _ => {
                let to = place.ty.clone();
                Ok(self.object_pointer(place, to))
            }
        }
    }

    /// Returns the object at a pointer.
    pub(crate) fn object_at(&mut self, pointer: Pointer, span: SourceSpan) -> Res<Denoted> {
        match &pointer.base {
            PointerBase::Object(place) if place.ty == pointer.to && pointer.index.is_none() => {
                Ok(Denoted::Place((**place).clone()))
            }
            _ => {
                let ty = pointer.to.clone();
                if ty == CType::Void {
                    return refuse("an access through a `void` pointer", span, "cast it to a pointer to the elements");
                }
                Ok(Denoted::Place(CppPlace { kind: PlaceKind::At(pointer), ty, span }))
            }
        }
    }

    /// Adds a number of objects to a pointer.
    pub(crate) fn offset(&mut self, mut pointer: Pointer, by: Value, subtract: bool, span: SourceSpan) -> Res<Pointer> {
        if by.constant_int() == Some(0) {
            return Ok(pointer);
        }
        if !by.ty.is_integer() {
            return refuse(format!("a pointer plus {}", self.t.describe(&by.ty)), span, "");
        }
        let by = self.settle(by);
        // In an array with several axes, a step of a whole row is a step along its axis.
        let extents = pointer.to.extents().len();
        let rows = extents > 0
            && matches!(&pointer.base, PointerBase::Array(info) if info.axes == pointer.prefix.len() + 1 + extents);
        let by = if rows {
            by
        } else {
            let Some(size) = self.t.size_of(&pointer.to) else {
                return refuse(format!("arithmetic of a pointer to {}", self.t.describe(&pointer.to)), span, "");
            };
            if size % pointer.unit != 0 {
                return refuse(
                    "arithmetic of a pointer to a smaller type than the elements of its array",
                    span,
                    "use one type for the array",
                );
            }
            match size / pointer.unit {
                1 => by,
                factor => {
                    let factor = Value::int(i128::from(factor), LONG, span);
                    self.binary(CppBinaryOp::Mul, by, factor, span)?
                }
            }
        };
        let index = match pointer.index.take() {
            None if !subtract => by,
            None => {
                let by = self.convert(by, &LONG, span)?;
                self.unary_arithmetic("-", by, span)?
            }
            Some(old) => {
                let op = if subtract { CppBinaryOp::Sub } else { CppBinaryOp::Add };
                // Offsets are signed, however the index is declared.
                let old = self.convert(*old, &LONG, span)?;
                let by = self.convert(by, &LONG, span)?;
                self.binary(op, old, by, span)?
            }
        };
        pointer.index = Some(Box::new(index));
        Ok(pointer)
    }

    pub(crate) fn cast_pointer(&mut self, mut pointer: Pointer, to: &CType, span: SourceSpan) -> Res<Pointer> {
        if pointer.to == *to || matches!(pointer.base, PointerBase::Null) || *to == CType::Void {
            pointer.to = to.clone();
            return Ok(pointer);
        }
        if [&pointer.to, to].into_iter().any(|ty| matches!(ty.leaf(), CType::FunctionPointer(_))) {
            return refuse("a cast of a pointer to pointers to functions", span, "use one type for the array");
        }
        let Some(size) = self.t.size_of(to.leaf()) else {
            return refuse(format!("a cast to a pointer to {}", self.t.describe(to)), span, "");
        };
        if let PointerBase::Array(info) = &pointer.base {
            if info.axes > 1 {
                let key = info.key;
                self.note_flat(key);
                return Ok(Pointer { to: to.clone(), ..pointer });
            }
            // `extern __shared__ char s[]` is memory for elements of the type to which it is cast.
            if pointer.unit == 1 && size > 1 && !matches!(to.leaf(), CType::Vector(..)) {
                self.note_dynamic_element(info.key, to.leaf().clone());
            }
        }
        // The index counts the smaller objects. Pointers to `void` have no objects to count.
        if size < pointer.unit && !matches!(pointer.base, PointerBase::Null) {
            if !pointer.unit.is_multiple_of(size) {
                return refuse("a cast between pointers to unrelated types", span, "use one type for the array");
            }
            let factor = pointer.unit / size;
            pointer.unit = size;
            if let Some(index) = pointer.index.take() {
                let index = self.convert(*index, &LONG, span)?;
                let factor = Value::int(i128::from(factor), LONG, span);
                pointer.index = Some(Box::new(self.binary(CppBinaryOp::Mul, index, factor, span)?));
            }
        }
        pointer.to = to.clone();
        Ok(pointer)
    }

    /// Chooses the type of the elements of dynamic shared memory, unless a smaller type is chosen already.
    pub(crate) fn note_dynamic_element(&mut self, key: VariableKey, element: CType) {
        if self.shared.dynamic_key != Some(key) {
            return;
        }
        let size = |lower: &Self, ty: &CType| lower.t.size_of(ty).unwrap_or(u64::MAX);
        if self.facts.elements.get(&key).is_none_or(|known| size(self, known) > size(self, &element)) {
            self.facts.elements.insert(key, element);
            self.facts.changed = true;
            self.facts.reset_bases = true;
        }
    }

    // ---- pointer variables ----

    /// In the next pass, the variable is an array, if possible.
    fn refuse_nullable_variable<T>(&mut self, pointer: &Pointer, span: SourceSpan) -> Res<T> {
        if let PointerBase::Object(place) = &pointer.base {
            self.note_pointed(place);
        }
        refuse("a pointer to a variable that may be null", span, "use a flag")
    }

    fn find_pointer(&self, key: VariableKey) -> Option<Local> {
        self.locals.iter().rev().flat_map(|scope| scope.values()).find_map(|local| match local {
            Local::Pointer { key: own, .. } if *own == key => Some(local.clone()),
            _ => None,
        })
    }

    pub(crate) fn load_pointer(&mut self, key: VariableKey, to: &CType, span: SourceSpan) -> Res<Pointer> {
        let Some(Local::Pointer { index, selector, fixed, .. }) = self.find_pointer(key) else {
            return refuse("this pointer", span, "");
        };
        if let Some(fixed) = fixed {
            return Ok(*fixed);
        }
        let options = self.pointer_options(key);
        let Some(first) = options.first().cloned() else {
            return refuse("a pointer that is not initialized", span, "initialize it at its declaration");
        };
        if options.len() == 1 && !self.exists_here(&first) {
            return refuse("a pointer to a variable of another block", span, "declare the variable before the pointer");
        }
        if let PointerBase::Object(_) = first.base {
            return match options.len() {
                1 => Ok(Pointer { to: to.clone(), ..first }),
                _ => self.refuse_nullable_variable(&first, span),
            };
        }
        let index = Value { divisor: 1, ..Value::new(LONG, Expr::name(index, span)) };
        let base = match options.len() {
            1 => first.base,
            _ => {
                let selector = Value::new(INT, Expr::name(selector, span));
                PointerBase::Choice(Rc::new(PointerChoice { selector, options }))
            }
        };
        Ok(Pointer { base, index: Some(Box::new(index)), to: to.clone(), ..first })
    }

    pub(crate) fn assign_pointer(&mut self, place: &CppPlace, pointer: Pointer, span: SourceSpan) -> Res<()> {
        let PlaceKind::PointerVariable(key) = place.kind else {
            return refuse(
                "a pointer that is stored in an object or an array",
                span,
                "keep the pointer in a variable, or store an index",
            );
        };
        if let Some((_, name)) = self.variables.captured_pointers.iter().find(|(captured, _)| *captured == key) {
            let construct = format!("an assignment to `{name}`, which a lambda captures by reference");
            return refuse(construct, span, "capture it by value");
        }
        self.note_mutated(key);
        let Some(Local::Pointer { index: name, selector, to, fixed, .. }) = self.find_pointer(key) else {
            return refuse("this pointer", span, "");
        };
        let mut pointer = self.cast_pointer(pointer, &to, span)?;
        self.note_base(key, &pointer, span)?;
        if fixed.is_some() {
            // The next pass knows that the pointer is a variable.
            return Ok(());
        }
        let options = self.pointer_options(key);
        if let PointerBase::Object(_) = pointer.base {
            return match (&pointer.index, options.len()) {
                (None, ..=1) => Ok(()),
                (None, _) => self.refuse_nullable_variable(&pointer, span),
                (Some(_), _) => refuse("an index of a pointer to one variable", span, "use an array"),
            };
        }
        if options.len() > 1 {
            // The new index may depend on the selector.
            let mark = self.mark();
            self.spill_pointer(&mut pointer, mark);
            let position = self.selected(&pointer, &options, span)?;
            self.push_assign(Expr::name(selector, span), position, span);
        }
        if matches!(pointer.base, PointerBase::Null) {
            return Ok(());
        }
        let value = index_of(&pointer, span);
        let place = Expr::name(name, span);
        self.push_assign(place, value, span);
        Ok(())
    }

    /// Stores the indices of a pointer in variables, so that later statements do not change them.
    pub(crate) fn spill_pointer(&mut self, pointer: &mut Pointer, mark: usize) {
        let mut at = mark;
        if let PointerBase::Choice(choice) = &pointer.base
            && !choice.selector.stable
        {
            let selector = self.spill_at(choice.selector.clone(), at);
            at += 1;
            pointer.base = PointerBase::Choice(Rc::new(PointerChoice { selector, options: choice.options.clone() }));
        }
        for index in pointer.prefix.iter_mut().chain(pointer.index.as_deref_mut()) {
            if !index.stable {
                *index = self.spill_at(index.clone(), at);
                at += 1;
            }
        }
    }

    // ---- operators ----

    pub(crate) fn is_not_null(&mut self, pointer: &Pointer, span: SourceSpan) -> Value {
        match &pointer.base {
            PointerBase::Choice(choice) => self.chooses_array(&choice.clone(), span),
            PointerBase::Null => Value::bool(false, span),
            PointerBase::Object(_) => Value::bool(true, span),
            PointerBase::Array(info) => {
                if matches!(info.space, super::value::Space::Global) {
                    self.requirements.note(format!("the argument `{}` is not a null pointer", info.name), span);
                }
                Value::bool(true, span)
            }
        }
    }

    pub(crate) fn pointer_binary(&mut self, op: CppBinaryOp, a: Denoted, b: Denoted, span: SourceSpan) -> Res<Denoted> {
        use CppBinaryOp as Op;
        let is_pointer = |lower: &Self, denoted: &Denoted| {
            matches!(lower.type_of_denoted(denoted), CType::Pointer(_) | CType::Array(..) | CType::Null)
        };
        match op {
            Op::Add | Op::Sub if !is_pointer(self, &b) => {
                let pointer = self.pointer_of(a, span)?;
                let by = self.value_of(b, span)?;
                Ok(Denoted::Pointer(self.offset(pointer, by, op == Op::Sub, span)?))
            }
            Op::Add if !is_pointer(self, &a) => {
                let pointer = self.pointer_of(b, span)?;
                let by = self.value_of(a, span)?;
                Ok(Denoted::Pointer(self.offset(pointer, by, false, span)?))
            }
            Op::Sub | Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => {
                let (a, b) = (self.pointer_of(a, span)?, self.pointer_of(b, span)?);
                let null = |pointer: &Pointer| matches!(pointer.base, PointerBase::Null);
                if matches!(op, Op::Eq | Op::Ne) && (null(&a) || null(&b)) {
                    let other = if null(&a) { &b } else { &a };
                    let truth = self.is_not_null(&other.clone(), span);
                    return Ok(Denoted::Value(if op == Op::Ne { truth } else { self.negated(truth) }));
                }
                if !same_base(&Pointer { index: None, ..a.clone() }, &Pointer { index: None, ..b.clone() }) {
                    return refuse("a comparison of pointers into different arrays", span, "compare indices");
                }
                let zero = || Box::new(Value::int(0, LONG, span));
                let x = self.convert(*a.index.unwrap_or_else(zero), &LONG, span)?;
                let y = self.convert(*b.index.unwrap_or_else(zero), &LONG, span)?;
                let result = self.binary(op, x, y, span)?;
                if op != Op::Sub {
                    return Ok(Denoted::Value(result));
                }
                let size = self.t.size_of(&a.to).unwrap_or(a.unit) / a.unit.max(1);
                if size <= 1 {
                    return Ok(Denoted::Value(result));
                }
                let size = Value::int(i128::from(size), LONG, span);
                Ok(Denoted::Value(self.binary(Op::Div, result, size, span)?))
            }
            _ => refuse(format!("`{}` of a pointer", op.text()), span, "use an index"),
        }
    }

    /// `(uintptr_t)p % 16` or `(uintptr_t)p & 15`: the remainder of the offset of `p`, if its array is aligned.
    pub(crate) fn address_remainder(
        &mut self,
        op: CppBinaryOp,
        left: &'a CppExpr,
        right: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Option<Value>> {
        let CppExprKind::Cast { ty, value, .. } = &left.kind else { return Ok(None) };
        if !matches!(op, CppBinaryOp::Rem | CppBinaryOp::BitAnd) {
            return Ok(None);
        }
        let ty = self.resolve_type(ty)?;
        // A small signed integer may be negative, and so may its remainder.
        let positive = |ty: &CType| ty.scalar().is_some_and(|scalar| !scalar.is_signed() || scalar.size() == 8);
        if !matches!(ty, CType::Int(_)) || op == CppBinaryOp::Rem && !positive(&ty) {
            return Ok(None);
        }
        if !matches!(self.type_of(value), Ok(CType::Pointer(_) | CType::Array(..))) {
            return Ok(None);
        }
        let by = self.constant_value(right)?;
        let align = match (op, by) {
            (CppBinaryOp::Rem, Some(by)) => by,
            (_, Some(by)) => by + 1,
            _ => return Ok(None),
        };
        if !matches!(align, 1 | 2 | 4 | 8 | 16 | 32 | 64 | 128) {
            return Ok(None);
        }
        let denoted = self.denote(value)?;
        let pointer = self.pointer_of(denoted, span)?;
        let PointerBase::Array(info) = &pointer.base else { return Ok(None) };
        if info.axes > 1 {
            self.note_flat(info.key);
        }
        self.requirements.note(format!("the address of `{}` is a multiple of {align}", info.name), span);
        let index = pointer.index.map_or_else(|| Value::int(0, LONG, span), |index| *index);
        let index = self.convert(index, &LONG, span)?;
        let unit = Value::int(i128::from(pointer.unit), LONG, span);
        let offset = self.binary(CppBinaryOp::Mul, index, unit, span)?;
        let mask = Value::int(align - 1, LONG, span);
        let rest = self.binary(CppBinaryOp::BitAnd, offset, mask, span)?;
        let right = self.rvalue(right)?;
        let Some(common) = ty.common(&right.ty) else { return Ok(None) };
        self.convert(rest, &common, span).map(Some)
    }

    pub(crate) fn conditional_pointer(
        &mut self,
        condition: Value,
        a: Denoted,
        b: Denoted,
        span: SourceSpan,
    ) -> Res<Pointer> {
        let (a, b) = (self.pointer_of(a, span)?, self.pointer_of(b, span)?);
        if !same_base(&Pointer { index: None, ..a.clone() }, &Pointer { index: None, ..b.clone() }) {
            return self.choose_pointer(condition, a, b, span);
        }
        let (x, y) = (index_of(&a, span), index_of(&b, span));
        let expr = Expr::new(ExprKind::If(Box::new(condition.expr), Box::new(x), Box::new(y)), span);
        let index = Value::new(LONG, expr);
        Ok(Pointer { index: Some(Box::new(index)), ..a })
    }

    pub(crate) fn push_assign(&mut self, place: Expr, value: Expr, span: SourceSpan) {
        const COMPOUND: [&str; 10] = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"];
        let (op, value) = match value.kind {
            ExprKind::Binary(op, left, right) if COMPOUND.contains(&op) && same_expr(&left, &place) => (op, *right),
            kind => ("", Expr { kind, span: value.span }),
        };
        self.push(StmtKind::Assign { place, op, value }, span);
    }
}

/// Returns the index of a pointer as an `i64`.
pub(crate) fn index_of(pointer: &Pointer, span: SourceSpan) -> Expr {
    match &pointer.index {
        Some(index) => coerce(index, ClkScalar::I64),
        None => Expr::int(0, ClkScalar::I64, span),
    }
}

/// Returns whether two pointers without indices refer to the same array in the same way.
pub(crate) fn same_base(a: &Pointer, b: &Pointer) -> bool {
    let prefix = a.prefix.len() == b.prefix.len()
        && a.prefix.iter().zip(&b.prefix).all(|(x, y)| same_expr(&x.expr, &y.expr) && x.stable && y.stable);
    prefix
        && a.unit == b.unit
        && match (&a.base, &b.base) {
            (PointerBase::Array(x), PointerBase::Array(y)) => {
                x.key == y.key && x.axes == y.axes && x.element == y.element && same_expr(&x.expr, &y.expr)
            }
            (PointerBase::Object(x), PointerBase::Object(y)) => same_place(x, y),
            (PointerBase::Null, PointerBase::Null) => true,
            _ => false,
        }
}

fn same_place(a: &CppPlace, b: &CppPlace) -> bool {
    match (&a.kind, &b.kind) {
        (PlaceKind::Variable { key: x, .. }, PlaceKind::Variable { key: y, .. }) => x == y,
        (PlaceKind::Field(x, f), PlaceKind::Field(y, g)) => f == g && same_place(x, y),
        (PlaceKind::Component(x, f), PlaceKind::Component(y, g)) => f == g && same_place(x, y),
        _ => false,
    }
}
