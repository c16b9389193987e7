//! Values of variables that are read before a statement has written them. In C++ they are indeterminate. The
//! translation chooses any value, so that the other properties of the kernel can be proved, and the read is an error.

use super::external_functions::stored_scalar;
use super::lower::Lower;
use super::tree::Expr;
use super::types::{CType, RecordId};
use super::unwritten_reads::UnwrittenRead;
use super::value::{Res, Value};
use crate::source::SourceSpan;
use smol_str::SmolStr;

impl Lower<'_, '_> {
    /// Returns any value of a type, for a variable that is read before it has a value. `None` if the type has parts
    /// other than numbers.
    pub(crate) fn indeterminate_value(&mut self, name: &SmolStr, ty: &CType, span: SourceSpan) -> Res<Option<Value>> {
        let Some(read) = self.facts.unwritten_reads.get(&span).copied() else { return Ok(None) };
        let value = self.any_value(ty, span)?;
        if value.is_some() {
            self.requirements.note(format!("`{name}`, which is read before it has a value, has any value"), span);
            self.unwritten_reads.push(UnwrittenRead { name: name.clone(), declared: span, read });
        }
        Ok(value)
    }

    fn any_value(&mut self, ty: &CType, span: SourceSpan) -> Res<Option<Value>> {
        match ty {
            CType::Vector(component, count) => {
                let mut parts = vec![];
                for _ in 0..*count {
                    let Some(part) = self.any_value(&component.ty(), span)? else { return Ok(None) };
                    parts.push(self.settle(part).expr);
                }
                Ok(Some(Value::new(ty.clone(), Expr::call(self.t.type_text(ty), parts, span))))
            }
            CType::Record(id) => self.any_record(*id, span),
            _ if ty.is_arithmetic() => {
                let Some(scalar) = ty.scalar() else { return Ok(None) };
                let name = format!("indeterminate_{}", stored_scalar(scalar).name());
                self.any_number(ty, &name, &name, span).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn any_record(&mut self, id: RecordId, span: SourceSpan) -> Res<Option<Value>> {
        self.t.emit_record(id, span)?;
        let fields = self.t.record(id).fields.clone();
        if fields.is_empty() {
            return Ok(None);
        }
        let mut values = vec![];
        for field in fields {
            let Some(value) = self.any_value(&field.ty, span)? else { return Ok(None) };
            values.push((field.clk, super::arith::realize(&self.settle(value))));
        }
        Ok(Some(self.object(id, values, span)))
    }
}
