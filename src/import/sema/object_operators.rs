//! Calls of operators that the file defines for objects, vectors and enums: `!`, `++`, `--` and assignments. Binary
//! `&&`, `||` and `,` and the unary `&` of a file are refused.

use super::lower::Lower;
use super::tree::StmtKind;
use super::types::{CType, INT};
use super::value::{CppPlace, Denoted, Res, Value, refuse};
use crate::ast::{CppBinaryOp, CppExpr, CppUnaryOp};
use crate::source::SourceSpan;

/// Returns whether operators of the file may have operands of a type.
fn may_have_operators(ty: &CType) -> bool {
    matches!(ty.referent(), CType::Record(_) | CType::Enum(..) | CType::Vector(..))
}

impl<'a> Lower<'_, 'a> {
    /// Returns the functions and methods of the whole file that define an operator with a number of operands.
    fn operators(&self, op: &str, operands: usize) -> Vec<usize> {
        let mut operators = self.t.program.functions_of_any_scope(&format!("operator{op}")).to_vec();
        operators.retain(|&id| {
            let entry = &self.t.program.functions[id];
            usize::from(entry.record.is_some()) + entry.function.params.len() == operands
        });
        operators
    }

    /// Calls `operator!` of the file for an operand; `None` if the file has none for it.
    pub(crate) fn call_not(&mut self, operand: &Denoted, span: SourceSpan) -> Res<Option<Denoted>> {
        let ty = self.type_of_denoted(operand);
        let operators = self.operators("!", 1);
        if operators.is_empty() || !may_have_operators(&ty) {
            return Ok(None);
        }
        let CType::Record(id) = ty else {
            return self.call_file_operator("!", std::slice::from_ref(operand), span);
        };
        let is_function = |id: &usize| self.t.program.functions[*id].record.is_none();
        let functions: Vec<usize> = operators.into_iter().filter(is_function).collect();
        let types = [ty.clone()];
        let is_known = !self.methods(id, "operator!").is_empty()
            || functions.iter().any(|&function| !matches!(self.viable(function, None, &types, None), Ok(None)));
        match is_known {
            true => self.call_operator("!", operand.clone(), vec![], span).map(Some),
            false => Ok(None),
        }
    }

    /// Calls `operator++` or `operator--` of the file for a vector or an enum; `None` for other operands.
    pub(crate) fn call_increment(
        &mut self,
        op: CppUnaryOp,
        operand: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Option<Denoted>> {
        let text = match op {
            CppUnaryOp::PreIncrement | CppUnaryOp::PostIncrement => "++",
            _ => "--",
        };
        let is_before = matches!(op, CppUnaryOp::PreIncrement | CppUnaryOp::PreDecrement);
        if self.operators(text, 1).is_empty() && self.operators(text, 2).is_empty() {
            return Ok(None);
        }
        let Ok(CType::Enum(..) | CType::Vector(..)) = self.type_of(operand).map(|ty| ty.referent().clone()) else {
            return Ok(None);
        };
        let mut operands = vec![self.denote(operand)?];
        if !is_before {
            operands.push(Denoted::Value(Value::int(0, INT, span)));
        }
        match self.call_file_operator(text, &operands, span)? {
            Some(result) => Ok(Some(result)),
            None => refuse(format!("`{text}` of this type"), span, "define the operator in this file"),
        }
    }

    /// Refuses operators of the file whose calls are not translated: `&&`, `||`, `,` and unary `&`.
    pub(crate) fn refuse_operators(&mut self, op: &str, operands: &[&'a CppExpr], span: SourceSpan) -> Res<()> {
        if self.operators(op, operands.len()).is_empty() {
            return Ok(());
        }
        match operands.iter().any(|operand| self.type_of(operand).is_ok_and(|ty| may_have_operators(&ty))) {
            true => refuse(format!("`operator{op}` of the file"), span, "call a function"),
            false => Ok(()),
        }
    }

    /// Assigns to an object by `operator=` or `operator op=` of the file. Returns false if C++ copies the fields
    /// instead.
    pub(crate) fn assign_object(
        &mut self,
        op: Option<CppBinaryOp>,
        place: &CppPlace,
        value: &Denoted,
        span: SourceSpan,
    ) -> Res<bool> {
        let CType::Record(id) = place.ty else { return Ok(false) };
        let source = self.type_of_denoted(value);
        if op.is_none() {
            let methods = self.methods(id, "operator=");
            let types = [source.clone()];
            // The implicit assignment is better than a template and than one that converts.
            let is_implicit = source == place.ty && !self.assigns_copies(id);
            let is_viable = |&method: &usize| !matches!(self.viable(method, None, &types, Some(id)), Ok(None));
            if is_implicit || !methods.iter().any(is_viable) {
                return Ok(false);
            }
        }
        let text = op.map_or("=".to_string(), |op| format!("{}=", op.text()));
        let result = self.call_operator(&text, Denoted::Place(place.clone()), vec![value.clone()], span)?;
        if let Denoted::Value(result) = result
            && result.effect
        {
            self.push(StmtKind::Expr(result.expr), span);
        }
        Ok(true)
    }
}
