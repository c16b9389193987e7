//! A scalar function over arrays: `sigmoid(x)` with an array runs as a kernel `threads(i: N)`.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expr, FnRef, Type};
use crate::device::{Arg, Extents};
use crate::host::array::broadcast::{broadcast_to, common_shape};
use crate::host::value::Value;
use crate::lower::{self, Argument, Function};

use super::frame::Frame;
use super::launch::push_value;
use super::{Eval, Machine};

/// What a lifted function was compiled for: the function and each parameter's type, and whether it is an array.
pub(crate) type MapKey = (Function, Vec<(Type, bool)>);

impl Machine<'_> {
    pub(crate) fn lift(&mut self, frame: &mut Frame, callee: &FnRef, args: &[Expr], expr: &Expr) -> Eval {
        let values = args.iter().map(|a| self.eval(frame, a)).collect::<Eval<Vec<_>>>()?;
        if !values.iter().any(|v| matches!(v, Value::Array(_))) {
            return self.call_with(frame, callee, values, expr.span);
        }
        let (values, shape) = self.common_shape(args, values, expr.span)?;
        let (function, params, result) = self.specialise(frame, callee, &values, expr)?;
        let key = (function, params);
        let executable = match self.interp.kernels.maps.get(&key) {
            Some(found) => found.clone(),
            None => {
                let checks = self.checks();
                let module =
                    lower::lower_map(self.program, &key.0, &key.1, checks).map_err(|d| self.first_of(d, expr.span))?;
                let loaded = self.load(module, expr.span)?;
                self.interp.kernels.maps.insert(key.clone(), loaded.clone());
                loaded
            }
        };
        let element = self.interp.layouts.element(self.program, &result);
        let mut out = self.new_result(element, &shape, expr.span)?;
        let count = out.count() as u32;
        self.interp.options.control.launched = expr.span;
        let launched = {
            let mut given = Vec::with_capacity(values.len() + 1);
            for value in &values {
                match value {
                    Value::Array(array) => given.push(Arg::Array { storage: array.storage(), shape: vec![count] }),
                    other => push_value(&mut given, other),
                }
            }
            let storage = out.storage_mut().map_err(|p| self.problem(p, expr.span))?;
            given.push(Arg::ArrayMut { storage, shape: vec![count] });
            executable.launch(Extents::Threads([count, 1, 1]), &mut given, &self.interp.options.control)
        };
        match launched {
            Ok(output) => {
                self.say(&output);
                Ok(Value::Array(out))
            }
            Err(fault) => Err(self.fault(&fault, expr.span)),
        }
    }

    /// All array arguments broadcast to one shape; scalars stay.
    fn common_shape(&mut self, args: &[Expr], values: Vec<Value>, span: Span) -> Eval<(Vec<Value>, Vec<usize>)> {
        let names: Vec<String> = (1..=values.len()).map(|k| format!("argument {k}")).collect();
        let arrays: Vec<(&str, &[usize])> = values
            .iter()
            .zip(&names)
            .filter_map(|(v, name)| if let Value::Array(a) = v { Some((name.as_str(), a.shape())) } else { None })
            .collect();
        let shape = common_shape(&arrays).map_err(|p| self.problem(p, args.first().map_or(span, |a| a.span)))?;
        if shape.iter().product::<usize>() > i32::MAX as usize {
            let diagnostic =
                Diagnostic::error("E0520", "the arrays are too large for one launch").at(span, "applied here");
            return Err(self.error(diagnostic.note("at most 2147483647 elements at once")));
        }
        let mut fitted = Vec::with_capacity(values.len());
        for value in values {
            fitted.push(match value {
                Value::Array(array) => match broadcast_to(&array, &shape) {
                    Some(repeated) => Value::Array(repeated.map_err(|p| self.problem(p, span))?),
                    None => return Err(self.broken(span, "an array that does not fit the common shape")),
                },
                other => other,
            });
        }
        Ok((fitted, shape))
    }

    /// The function for these element types, its parameters and its result type.
    fn specialise(
        &mut self,
        frame: &mut Frame,
        callee: &FnRef,
        values: &[Value],
        expr: &Expr,
    ) -> Eval<(Function, Vec<(Type, bool)>, Type)> {
        let mut params = Vec::with_capacity(values.len());
        for value in values {
            params.push(match value {
                Value::Array(array) => (self.interp.layouts.element_type(array.element()), true),
                other => (self.interp.layouts.type_of(other), false),
            });
        }
        let function = match callee {
            FnRef::Fn { id, generics } => {
                let program = self.program;
                let sig = &program.fns[*id].sig;
                let mut arguments = Vec::with_capacity(generics.len());
                for (i, generic) in generics.iter().enumerate() {
                    let found = sig.params.iter().zip(&params).find(|(p, _)| p.ty == Type::Param(i as u32));
                    let found = found.map(|(_, (ty, _))| ty.clone());
                    let given = self.generic(frame, sig, i, generic, expr.span)?;
                    arguments.push(self.settle(sig, i, given, found, expr.span)?);
                }
                Function::Fn { id: *id, arguments }
            }
            _ => self.function(frame, callee, expr.span)?,
        };
        let result = match &function {
            Function::Fn { id, arguments } => match &self.program.fns[*id].result {
                Type::Param(i) => match arguments.get(*i as usize) {
                    Some(Argument::Type(ty)) => ty.clone(),
                    _ => Type::Unknown,
                },
                other => other.clone(),
            },
            Function::Builtin(_) => params.first().map(|(ty, _)| ty.clone()).unwrap_or_default(),
        };
        Ok((function, params, result))
    }
}
