//! `memset` and `memcpy`, as assignments or as loops over elements.

use super::arith::coerce;
use super::lower::Lower;
use super::tree::{Expr, StmtKind};
use super::types::{CType, ClkScalar, ComponentKind, INT, RecordId, SIZE};
use super::value::{CppPlace, Denoted, Pointer, PointerBase, Res, Value, refuse};
use crate::ast::{CppBinaryOp, CppExpr};
use crate::source::SourceSpan;

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

    /// Returns the number of elements of a number of bytes.
    fn element_count(&mut self, size: &'a CppExpr, element: &CType, name: &str) -> Res<Value> {
        let span = size.span;
        let bytes = self.operand(size)?;
        let bytes = self.convert(bytes, &SIZE, span)?;
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
        let count = self.element_count(size, &element, "memset")?;
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
        let count = self.element_count(size, &element, "memcpy")?;
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
        self.for_elements(&count, span, |lower, at| {
            let from = lower.element_at(&source, &at, span)?;
            let value = lower.load(&from)?;
            let place = lower.element_at(&target, &at, span)?;
            lower.store(&place, value, span)
        })?;
        Ok(Denoted::Void)
    }
}
