//! Pointers to functions: numbers of the device functions with the same type, from 1; 0 is the null pointer. A call is
//! a chain of conditions.

use super::arith::realize;
use super::lower::Lower;
use super::overload::Chosen;
use super::program::Symbol;
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use super::types::{CType, FunctionType};
use super::value::{Denoted, Res, Value, refuse};
use crate::ast::{CppBinaryOp, CppExpr, CppFunction, CppParam, CppType, FunctionName};
use crate::source::SourceSpan;
use smol_str::SmolStr;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn function_type(&mut self, result: &'a CppType, params: &'a [CppParam]) -> Res<FunctionType> {
        let result = self.resolve_type(result)?;
        let mut types = vec![];
        for param in params {
            types.push(match self.resolve_type(&param.ty)? {
                CType::Array(element, _) => CType::Pointer(element),
                other => other,
            });
        }
        Ok(FunctionType { result, params: types })
    }

    fn type_of_function(&mut self, id: usize) -> Res<FunctionType> {
        let (function, scope) = (self.t.function(id), self.t.program.functions[id].scope.clone());
        self.in_context(vec![], scope, |lower| lower.function_type(&function.result, &function.params))
    }

    /// Returns the functions to which a pointer of a type may refer, in the order of their numbers.
    fn pointees(&mut self, ty: &FunctionType) -> Vec<usize> {
        let is_plain = |function: &CppFunction| {
            function.attributes.device
                && !function.variadic
                && function.template.is_none()
                && matches!(function.name, FunctionName::Plain(_))
        };
        let all: Vec<usize> = (0..self.t.program.functions.len())
            .filter(|&id| {
                let entry = &self.t.program.functions[id];
                is_plain(entry.function) && entry.record.is_none() && self.t.program.has_body(id)
            })
            .collect();
        all.into_iter().filter(|&id| self.type_of_function(id).is_ok_and(|own| own == *ty)).collect()
    }

    /// Returns the value of the name of a function.
    pub(crate) fn function_value(&mut self, symbols: &[Symbol], span: SourceSpan) -> Res<Denoted> {
        let ids = symbols.iter().filter_map(|symbol| match symbol {
            Symbol::Function(id) if self.t.program.has_body(*id) => Some(*id),
            _ => None,
        });
        let help = "call it directly, or use a template parameter";
        let [id] = ids.collect::<Vec<_>>()[..] else { return refuse("a function as a value", span, help) };
        let ty = self.type_of_function(id)?;
        match self.pointees(&ty).iter().position(|known| *known == id) {
            Some(at) => Ok(Denoted::Value(Value::int(at as i128 + 1, CType::FunctionPointer(Box::new(ty)), span))),
            None => refuse("a function as a value", span, help),
        }
    }

    /// Describes the numbers of the functions to which a parameter of a kernel may refer.
    pub(crate) fn note_function_numbers(&mut self, name: &str, ty: &FunctionType, span: SourceSpan) {
        let pointees = self.pointees(ty);
        let numbered = |(at, id): (usize, &usize)| format!("{} for `{}`", at + 1, self.t.program.functions[*id].name);
        let numbers: Vec<String> = pointees.iter().enumerate().map(numbered).collect();
        if numbers.is_empty() {
            return;
        }
        self.requirements.note(format!("`{name}` is the number of a function: {}", numbers.join(", ")), span);
    }

    /// Converts to or from a pointer to a function.
    pub(crate) fn convert_function_pointer(&mut self, value: Value, to: &CType, span: SourceSpan) -> Res<Value> {
        let is_null = value.ty == CType::Null || value.ty.is_integer() && value.constant_int() == Some(0);
        match to {
            CType::FunctionPointer(_) if is_null => Ok(Value::int(0, to.clone(), span)),
            CType::Bool => Ok(self.truth(value)),
            _ => {
                let construct = format!("{} as {}", self.t.describe(&value.ty), self.t.describe(to));
                refuse(construct, span, "use a pointer to a function of one type, or an enum")
            }
        }
    }

    pub(crate) fn compare_function_pointers(
        &mut self,
        op: CppBinaryOp,
        a: Value,
        b: Value,
        span: SourceSpan,
    ) -> Res<Value> {
        let ty = if matches!(a.ty, CType::FunctionPointer(_)) { a.ty.clone() } else { b.ty.clone() };
        let (a, b) = (self.convert(a, &ty, span)?, self.convert(b, &ty, span)?);
        if !matches!(op, CppBinaryOp::Eq | CppBinaryOp::Ne) {
            let construct = format!("`{}` of pointers to functions", op.text());
            return refuse(construct, span, "C++ does not define the order of functions");
        }
        if let (Some(x), Some(y)) = (a.constant_int(), b.constant_int()) {
            return Ok(Value::bool((x == y) == (op == CppBinaryOp::Eq), span));
        }
        let expr = Expr::binary(op.text(), a.expr, b.expr, span);
        Ok(Value { stable: a.stable && b.stable, ..Value::new(CType::Bool, expr) })
    }

    /// Calls the function to which a pointer refers.
    pub(crate) fn call_pointer(&mut self, pointer: Denoted, args: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        let pointer = self.value_of(pointer, span)?;
        let CType::FunctionPointer(ty) = pointer.ty.clone() else { return refuse("this call", span, "") };
        let pointer = self.spill(pointer);
        let mut args = self.arguments(args)?;
        if args.len() != ty.params.len() {
            return refuse("a call with too few arguments", span, "");
        }
        let pointees = self.pointees(&ty);
        let chosen = |id: usize| Chosen { function: id, env: vec![], record: None };
        if let Some(number) = pointer.constant_int() {
            let known = usize::try_from(number - 1).ok().and_then(|at| pointees.get(at));
            let Some(&id) = known else { return refuse("a call through a null pointer", span, "") };
            return self.call_chosen(chosen(id), None, args, span);
        }
        // Each function gets the same arguments, so they are evaluated before the choice.
        for arg in &mut args {
            let taken = std::mem::replace(arg, Denoted::Void);
            let mark = self.mark();
            *arg = self.spill_denoted(taken, mark);
        }
        let mut otherwise = vec![];
        let result = match &ty.result {
            CType::Void => None,
            result => {
                if let CType::Record(id) = result {
                    self.t.emit_record(*id, span)?;
                }
                let name = self.fresh("t");
                let text = self.t.type_text(result);
                self.push(StmtKind::Declare { name: name.clone(), mutable: true, ty: text, value: None }, span);
                let zero = realize(&self.zero_value(result, span)?);
                otherwise.push(assignment(&name, zero, span));
                Some((name, result.clone()))
            }
        };
        let no = Expr::new(ExprKind::Bool(false), span);
        let text = Expr::new(ExprKind::Text("\"a call through a pointer that refers to no function\"".into()), span);
        self.requirements.effect = true;
        otherwise.insert(0, Stmt { kind: StmtKind::Expr(Expr::call("assert", vec![no, text], span)), span });
        for (at, id) in pointees.into_iter().enumerate().rev() {
            let (args, result) = (args.clone(), &result);
            let ((), then) = self.nested(|lower| {
                let denoted = lower.call_chosen(chosen(id), None, args, span)?;
                if let Some((name, ty)) = result {
                    let value = lower.value_of(denoted, span)?;
                    let value = lower.convert(value, ty, span)?;
                    let assignment = assignment(name, realize(&value), span);
                    lower.push(assignment.kind, span);
                }
                Ok(())
            })?;
            let number = Expr::int(at as i128 + 1, pointer.rep, span);
            let condition = Expr::binary("==", pointer.expr.clone(), number, span);
            otherwise = vec![Stmt { kind: StmtKind::If { condition, then, otherwise }, span }];
        }
        if let Some(block) = self.blocks.last_mut() {
            block.append(&mut otherwise);
        }
        Ok(match result {
            None => Denoted::Void,
            Some((name, ty)) => Denoted::Value(Value { stable: true, ..Value::new(ty, Expr::name(name, span)) }),
        })
    }
}

fn assignment(name: &SmolStr, value: Expr, span: SourceSpan) -> Stmt {
    Stmt { kind: StmtKind::Assign { place: Expr::name(name.clone(), span), op: "", value }, span }
}
