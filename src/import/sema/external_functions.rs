//! Calls of functions whose bodies are in another file. A function that takes values can neither access the arrays of
//! the kernel nor return one, so its result is any value: an atomic load from a parameter of the kernel, which is an
//! arbitrary value for proofs.

use super::file_variables::{HOISTED, array_key};
use super::lower::Lower;
use super::tree::{Expr, ExprKind, StmtKind};
use super::types::{CType, ClkScalar};
use super::value::{ArrayInfo, Denoted, Res, Space, Value, refuse};
use crate::source::SourceSpan;
use std::rc::Rc;

impl Lower<'_, '_> {
    /// Calls a function of another file. `id` is its declaration.
    pub(crate) fn call_external(&mut self, id: usize, args: Vec<Denoted>, span: SourceSpan) -> Res<Denoted> {
        let (function, name) = (self.t.function(id), self.t.program.functions[id].name.clone());
        let construct = format!("a call of `{name}`, whose body is not in this file");
        let help = "include the file with the definition";
        if function.template.is_some() || function.variadic || args.len() != function.params.len() {
            return refuse(construct, span, help);
        }
        let scope = self.t.program.functions[id].scope.clone();
        for (param, arg) in function.params.iter().zip(args) {
            let ty = self.in_context(vec![], scope.clone(), |lower| lower.resolve_type(&param.ty))?;
            let is_value = match &ty {
                CType::Record(record) => self.t.pointer_fields(*record).is_empty(),
                CType::Vector(..) => true,
                other => other.is_arithmetic(),
            };
            if !is_value {
                return refuse(construct, span, help);
            }
            let value = self.value_of(arg, span)?;
            let value = self.convert(value, &ty, span)?;
            if !value.stable {
                // The argument is evaluated, and may be out of bounds.
                let name = self.fresh("_argument");
                let ty = self.value_type_text(&value);
                self.push(StmtKind::Declare { name, mutable: false, ty, value: Some(value.expr) }, span);
            }
        }
        let result = self.in_context(vec![], scope, |lower| lower.resolve_type(&function.result))?;
        if result == CType::Void {
            self.requirements
                .note(format!("`{name}`, whose body is not in this file, has no effect on the kernel"), span);
            return Ok(Denoted::Void);
        }
        if !result.is_arithmetic() {
            return refuse(construct, span, help);
        }
        self.requirements
            .note(format!("`{name}`, whose body is not in this file, returns any value, and has no effect"), span);
        let identity = format!("result of function {id}");
        Ok(Denoted::Value(self.any_number(&result, &identity, &format!("{name}_result"), span)?))
    }

    /// Returns any value of an arithmetic type, from a parameter of the kernel with this identity and name.
    pub(crate) fn any_number(&mut self, ty: &CType, identity: &str, name: &str, span: SourceSpan) -> Res<Value> {
        let Some(scalar) = ty.scalar() else { return refuse("any value of this type", span, "") };
        let element = stored_scalar(scalar);
        let array = self.any_array(identity, name, element, span);
        let place = Expr::new(ExprKind::Index(Box::new(array), vec![Expr::int(0, ClkScalar::I32, span)]), span);
        let loaded = Expr::call("atomic_load", vec![place], span);
        let expr = match scalar {
            _ if scalar == element => loaded,
            ClkScalar::Bool => Expr::binary("!=", loaded, Expr::int(0, element, span), span),
            _ => Expr::call(scalar.name(), vec![loaded], span),
        };
        self.requirements.effect = true;
        Ok(Value { effect: true, ..Value::new(ty.clone(), expr) })
    }

    /// Returns the array that contains an arbitrary number.
    fn any_array(&mut self, identity: &str, name: &str, element: ClkScalar, span: SourceSpan) -> Expr {
        let known = self.t.hoisted.iter().position(|(known, _)| known == identity);
        let array = HOISTED + known.unwrap_or(self.t.hoisted.len());
        if known.is_none() {
            let clk = self.t.item_name(name);
            let info = ArrayInfo {
                expr: Expr::name(clk, span),
                element: super::types::INT,
                axes: 1,
                space: Space::Global,
                key: array_key(array),
                name: name.into(),
            };
            self.t.hoisted.push((identity.into(), format!("[{}; 1]", element.name())));
            self.t.file_arrays.insert(array, Rc::new(info));
        }
        // An atomic load needs an array that threads may change.
        self.note_mutated(array_key(array));
        Expr { span, ..self.file_array(array).expr.clone() }
    }
}

/// Returns a type that can be loaded atomically, and that can be converted to every value of a scalar type.
pub(crate) fn stored_scalar(scalar: ClkScalar) -> ClkScalar {
    match scalar {
        ClkScalar::Bool | ClkScalar::I8 | ClkScalar::I16 => ClkScalar::I32,
        ClkScalar::U8 | ClkScalar::U16 => ClkScalar::U32,
        ClkScalar::F16 | ClkScalar::Bf16 => ClkScalar::F32,
        other => other,
    }
}
