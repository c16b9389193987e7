//! `memset` and `memcpy`, as assignments or as loops over elements.

use super::arith::coerce;
use super::lower::Lower;
use super::tree::{Expr, StmtKind};
use super::types::{CType, ClkScalar, ComponentKind, INT, RecordId, SIZE};
use super::value::{CppPlace, Denoted, Pointer, PointerBase, Res, Value, refuse};
use crate::ast::{CppBinaryOp, CppExpr};
use crate::source::SourceSpan;
use smol_str::SmolStr;

impl<'a> Lower<'_, 'a> {
    /// Returns a pointer to single elements; one to rows of an array becomes one to its elements.
    fn element_pointer(&mut self, value: &'a CppExpr, name: &str) -> Res<Pointer> {
        let denoted = self.denote(value)?;
        let pointer = self.pointer_of(denoted, value.span)?;
        if let PointerBase::Null = pointer.base {
            return refuse(format!("`{name}` of a null pointer"), value.span, "pass the address of the memory");
        }
        let leaf = pointer.to.leaf().clone();
        let mut pointer = self.cast_pointer(pointer, &leaf, value.span)?;
        if let PointerBase::Array(info) = &pointer.base
            && info.axes > 1
        {
            self.note_flat(info.key);
        }
        let mark = self.mark();
        self.spill_pointer(&mut pointer, mark);
        Ok(pointer)
    }

    fn byte_count(&mut self, size: &'a CppExpr) -> Res<Value> {
        let bytes = self.operand(size)?;
        self.convert(bytes, &SIZE, size.span)
    }

    /// Returns the number of elements of a number of bytes.
    fn element_count(&mut self, bytes: Value, element: &CType, name: &str, span: SourceSpan) -> Res<Value> {
        let Some(one) = self.t.size_of(element) else {
            return refuse(format!("`{name}` of {}", self.t.describe(element)), span, "use a loop");
        };
        if !bytes.divisor.is_multiple_of(one) {
            let construct = format!("`{name}` of a size that may not be a multiple of the elements' size");
            return refuse(construct, span, "write `n * sizeof(T)`");
        }
        let one = Value::int(i128::from(one), SIZE, span);
        let count = self.binary(CppBinaryOp::Div, bytes, one, span)?;
        Ok(self.spill(count))
    }

    /// Runs `body` for each element, or once if there is one element. The argument of `body` is the number of the
    /// element.
    fn for_elements(
        &mut self,
        count: &Value,
        span: SourceSpan,
        body: impl FnOnce(&mut Self, Value) -> Res<()>,
    ) -> Res<()> {
        if count.constant_int() == Some(1) {
            return body(self, Value::int(0, SIZE, span));
        }
        let name = self.fresh("k");
        let high = count.range.map_or(ClkScalar::I64.limits().1, |(_, high)| high);
        let counter = Expr::name(name.clone(), span);
        let value = Value { rep: count.rep, range: Some((0, high)), stable: true, ..Value::new(SIZE, counter) };
        let ((), body) = self.nested(|lower| body(lower, value))?;
        let from = Expr::int(0, count.rep, span);
        let to = coerce(count, count.rep);
        self.push(StmtKind::For { name, from, to, inclusive: false, step: None, body }, span);
        Ok(())
    }

    fn element_at(&mut self, pointer: &Pointer, at: &Value, span: SourceSpan) -> Res<CppPlace> {
        let pointer = self.offset(pointer.clone(), at.clone(), false, span)?;
        match self.object_at(pointer, span)? {
            Denoted::Place(place) => Ok(place),
            _ => refuse("this memory", span, "use a loop"),
        }
    }

    pub(crate) fn call_memset(
        &mut self,
        to: &'a CppExpr,
        byte: &'a CppExpr,
        size: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Denoted> {
        self.check_order(&[to, byte, size])?;
        let pointer = self.element_pointer(to, "memset")?;
        let element = pointer.to.clone();
        let byte = self.operand(byte)?;
        let byte = self.convert(byte, &INT, span)?;
        let Some(byte) = byte.constant_int() else {
            return refuse("`memset` with a computed value", span, "store the elements in a loop");
        };
        let value = self.repeated_byte(byte & 0xff, &element, span)?;
        let bytes = self.byte_count(size)?;
        let count = self.element_count(bytes, &element, "memset", size.span)?;
        self.for_elements(&count, span, |lower, at| {
            let place = lower.element_at(&pointer, &at, span)?;
            lower.store(&place, value, span)
        })?;
        Ok(Denoted::Void)
    }

    /// Returns whether the value `T{}` of a record has only zeros.
    fn is_plain_record(&self, id: RecordId) -> bool {
        let record = self.t.record(id);
        let is_plain = |ty: &CType| match ty.leaf() {
            CType::Record(inner) => self.is_plain_record(*inner),
            other => other.is_arithmetic() || matches!(other, CType::Vector(..)),
        };
        !self.has_constructor(id) && record.fields.iter().all(|field| field.init.is_none() && is_plain(&field.ty))
    }

    /// Returns the number whose bytes all have a value.
    fn repeated_byte(&mut self, byte: i128, ty: &CType, span: SourceSpan) -> Res<Value> {
        let is_plain = match ty {
            CType::Record(id) => self.is_plain_record(*id),
            other => *other != CType::Bool,
        };
        if byte == 0 && is_plain {
            return self.zero_value(ty, span);
        }
        match ty {
            CType::Record(_) => {
                refuse(format!("`memset` of {}", self.t.describe(ty)), span, "store the elements in a loop")
            }
            CType::Int(kind) => {
                let scalar = kind.scalar();
                let bits = (0..scalar.size()).fold(0, |bits, _| bits << 8 | byte);
                Ok(Value::int(scalar.wrap(bits), ty.clone(), span))
            }
            CType::Vector(ComponentKind::Int(kind), _) => {
                let part = self.repeated_byte(byte, &CType::Int(*kind), span)?;
                Ok(Value {
                    stable: true,
                    ..Value::new(ty.clone(), Expr::call(self.t.type_text(ty), vec![part.expr], span))
                })
            }
            CType::Bool if byte <= 1 => Ok(Value::bool(byte == 1, span)),
            _ => refuse(format!("`memset` of {} to {byte}", self.t.describe(ty)), span, "store the elements in a loop"),
        }
    }

    /// Returns the number of whole records in a number of bytes, and the fields of the next record that the rest
    /// covers. `None` if there is no rest, or if it covers a part of a field.
    fn leading_fields(&self, ty: &CType, bytes: i128) -> Option<(i128, Vec<(SmolStr, CType)>)> {
        let CType::Record(id) = ty else { return None };
        let record = self.t.record(*id);
        let size = i128::from(self.t.size_of(ty)?);
        if record.is_union || self.t.has_array(*id) || bytes < 0 || bytes % size == 0 {
            return None;
        }
        let mut fields = vec![];
        for field in &record.fields {
            let begin = i128::from(self.t.field_offset(*id, &field.clk)?);
            let end = begin + i128::from(self.t.size_of(&field.ty)?);
            if end <= bytes % size {
                fields.push((field.clk.clone(), field.ty.clone()));
            } else if begin < bytes % size {
                return None;
            }
        }
        Some((bytes / size, fields))
    }

    /// Copies the first `count` elements.
    fn copy_elements(&mut self, target: &Pointer, source: &Pointer, count: &Value, span: SourceSpan) -> Res<()> {
        self.for_elements(count, span, |lower, at| {
            let from = lower.element_at(source, &at, span)?;
            let value = lower.load(&from)?;
            let place = lower.element_at(target, &at, span)?;
            lower.store(&place, value, span)
        })
    }

    /// Copies some fields of the element at an index.
    fn copy_fields(
        &mut self,
        target: &Pointer,
        source: &Pointer,
        at: &Value,
        fields: &[(SmolStr, CType)],
        span: SourceSpan,
    ) -> Res<()> {
        for (field, ty) in fields {
            let from = self.element_at(source, at, span)?;
            let from = self.field_place(from, field.clone(), ty.clone(), span)?;
            let value = self.load(&from)?;
            let place = self.element_at(target, at, span)?;
            let place = self.field_place(place, field.clone(), ty.clone(), span)?;
            self.store(&place, value, span)?;
        }
        Ok(())
    }

    pub(crate) fn call_memcpy(
        &mut self,
        to: &'a CppExpr,
        from: &'a CppExpr,
        size: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Denoted> {
        self.check_order(&[to, from, size])?;
        let target = self.element_pointer(to, "memcpy")?;
        let source = self.element_pointer(from, "memcpy")?;
        let element = target.to.clone();
        let bytes = self.byte_count(size)?;
        if source.to == element
            && let Some((count, fields)) = bytes.constant_int().and_then(|bytes| self.leading_fields(&element, bytes))
        {
            let whole = Value::int(count, SIZE, span);
            if count > 0 {
                self.copy_elements(&target, &source, &whole, span)?;
            }
            self.copy_fields(&target, &source, &whole, &fields, span)?;
            return Ok(Denoted::Void);
        }
        let count = self.element_count(bytes, &element, "memcpy", size.span)?;
        let is_object = |pointer: &Pointer| matches!(pointer.base, PointerBase::Object(_));
        let size = |ty: &CType| ty.scalar().filter(|scalar| *scalar != ClkScalar::Bool).map(ClkScalar::size);
        let same_size = size(&source.to).is_some() && size(&source.to) == size(&element);
        let source = if source.to == element {
            source
        } else if same_size || count.constant_int() == Some(1) && is_object(&source) && is_object(&target) {
            // Moves the bits.
            self.cast_pointer(source, &element, span)?
        } else {
            let construct = format!("`memcpy` from {} to {}", self.t.describe(&source.to), self.t.describe(&element));
            return refuse(construct, span, "copy the elements in a loop");
        };
        self.copy_elements(&target, &source, &count, span)?;
        Ok(Denoted::Void)
    }
}
