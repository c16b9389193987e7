//! Records in arrays of numbers. An array of structs that contain arrays is an array of numbers in the text, and so is
//! memory that a cast turns into structs. A field is a part of the numbers; a whole record is loaded number by number.

use super::lower::Lower;
use super::tree::{Expr, ExprKind};
use super::types::{CType, ClkScalar, LONG, RecordId};
use super::value::{CppPlace, PlaceKind, Pointer, PointerBase, Res, Value, refuse};
use crate::source::SourceSpan;
use smol_str::SmolStr;

/// The maximum number of numbers of a record that is copied as a whole.
const MAX_NUMBERS: u64 = 64;

impl Lower<'_, '_> {
    /// Returns the pointer to a record that is stored as numbers of an array.
    pub(crate) fn as_numbers(&self, place: &CppPlace) -> Option<(Pointer, RecordId)> {
        let (PlaceKind::At(pointer), CType::Record(id)) = (&place.kind, &place.ty) else { return None };
        let array = match &pointer.base {
            PointerBase::Array(_) => &pointer.base,
            PointerBase::Choice(choice) => {
                &choice.options.iter().find(|option| matches!(option.base, PointerBase::Array(_)))?.base
            }
            PointerBase::Object(_) | PointerBase::Null => return None,
        };
        let PointerBase::Array(info) = array else { return None };
        let (number, _) = self.t.uniform_numbers(&place.ty)?;
        let size = self.t.size_of(&number)?;
        // A record with a larger alignment than its numbers must begin at a multiple of it.
        let steps = self.t.align_of(&place.ty)?.div_ceil(size);
        let is_aligned = pointer.index.as_ref().is_none_or(|index| index.divisor.is_multiple_of(steps));
        let is_whole = pointer.unit == size && info.axes == 1 && is_aligned;
        (info.element == number && is_whole).then(|| (pointer.clone(), *id))
    }

    /// Returns a field of an object.
    pub(crate) fn field_place(&mut self, place: CppPlace, clk: SmolStr, ty: CType, span: SourceSpan) -> Res<CppPlace> {
        let Some((pointer, id)) = self.as_numbers(&place) else {
            return Ok(CppPlace { kind: PlaceKind::Field(Box::new(place), clk), ty, span });
        };
        let Some(offset) = self.t.field_offset(id, &clk) else { return refuse("this field", span, "") };
        self.number_place(&pointer, offset, ty, span)
    }

    /// Returns the object at a number of bytes after a pointer.
    fn number_place(&mut self, pointer: &Pointer, bytes: u64, ty: CType, span: SourceSpan) -> Res<CppPlace> {
        let Some((number, _)) = self.t.uniform_numbers(&ty) else { return refuse("this field", span, "") };
        let by = Value::int(i128::from(bytes / pointer.unit), LONG, span);
        let pointer = self.offset(Pointer { to: number, ..pointer.clone() }, by, false, span)?;
        Ok(CppPlace { kind: PlaceKind::At(Pointer { to: ty.clone(), ..pointer }), ty, span })
    }

    fn check_count(&self, id: RecordId, span: SourceSpan) -> Res<()> {
        match self.t.uniform_numbers(&CType::Record(id)) {
            Some((_, count)) if count <= MAX_NUMBERS => Ok(()),
            _ => refuse("a copy of so large a struct", span, "copy its fields in loops"),
        }
    }

    /// Loads a record that is stored as numbers.
    pub(crate) fn load_numbers(&mut self, pointer: &Pointer, id: RecordId, span: SourceSpan) -> Res<Value> {
        self.check_count(id, span)?;
        let mut pointer = pointer.clone();
        let mark = self.mark();
        self.spill_pointer(&mut pointer, mark);
        self.record_of_numbers(&pointer, id, span)
    }

    fn record_of_numbers(&mut self, pointer: &Pointer, id: RecordId, span: SourceSpan) -> Res<Value> {
        let mut values = vec![];
        for field in self.t.record(id).fields.clone() {
            let offset = self.t.field_offset(id, &field.clk).unwrap_or(0);
            let inner = self.number_place(pointer, offset, field.ty.clone(), span)?;
            values.push((field.clk, self.value_of_numbers(&inner, span)?));
        }
        self.t.emit_record(id, span)?;
        Ok(self.object(id, values, span))
    }

    fn value_of_numbers(&mut self, place: &CppPlace, span: SourceSpan) -> Res<Expr> {
        let PlaceKind::At(pointer) = &place.kind else { return refuse("this field", span, "") };
        match &place.ty {
            CType::Record(inner) => Ok(self.record_of_numbers(pointer, *inner, span)?.expr),
            CType::Array(..) => {
                let leaf = place.ty.leaf().clone();
                let size = self.t.size_of(&leaf).unwrap_or(1);
                let mut items = vec![];
                for at in 0..place.ty.count().unwrap_or(0) {
                    let item = self.number_place(pointer, at * size, leaf.clone(), span)?;
                    items.push(self.value_of_numbers(&item, span)?);
                }
                Ok(Expr::new(ExprKind::List(items), span))
            }
            _ => {
                let value = self.load(place)?;
                Ok(super::arith::realize(&value))
            }
        }
    }

    /// Stores a record as numbers.
    pub(crate) fn store_numbers(&mut self, pointer: &Pointer, id: RecordId, value: Value, span: SourceSpan) -> Res<()> {
        self.check_count(id, span)?;
        // Each number is a part of the value.
        let value = self.spill(Value { stable: false, ..value });
        let mut pointer = pointer.clone();
        let mark = self.mark();
        self.spill_pointer(&mut pointer, mark);
        self.store_parts(&pointer, &CType::Record(id), value.expr, span)
    }

    fn store_parts(&mut self, pointer: &Pointer, ty: &CType, value: Expr, span: SourceSpan) -> Res<()> {
        match ty {
            CType::Record(id) => {
                for field in self.t.record(*id).fields.clone() {
                    let offset = self.t.field_offset(*id, &field.clk).unwrap_or(0);
                    let part = Expr::new(ExprKind::Field(Box::new(value.clone()), field.clk), span);
                    let place = self.number_place(pointer, offset, field.ty.clone(), span)?;
                    let PlaceKind::At(inner) = &place.kind else { return refuse("this field", span, "") };
                    self.store_parts(inner, &field.ty, part, span)?;
                }
                Ok(())
            }
            CType::Array(..) => {
                let leaf = ty.leaf().clone();
                let size = self.t.size_of(&leaf).unwrap_or(1);
                for at in 0..ty.count().unwrap_or(0) {
                    let index = Expr::int(i128::from(at), ClkScalar::I32, span);
                    let part = Expr::new(ExprKind::Index(Box::new(value.clone()), vec![index]), span);
                    let place = self.number_place(pointer, at * size, leaf.clone(), span)?;
                    let PlaceKind::At(inner) = &place.kind else { return refuse("this field", span, "") };
                    self.store_parts(inner, &leaf, part, span)?;
                }
                Ok(())
            }
            _ => {
                let place = CppPlace { kind: PlaceKind::At(pointer.clone()), ty: ty.clone(), span };
                self.store(&place, Value::new(ty.clone(), value), span)
            }
        }
    }
}
