//! Monomorphization: substitutes compile-time arguments for the compile-time parameters of an item.

use std::rc::Rc;

use super::constant::ConstEvaluator;
use super::error::{Fallible, internal};
use super::instance::{FunctionInstance, GenericArgument};
use clk_base::source::Span;
use clk_check::typed::{FnRef, Generic, GenericArg, GenericKind, Program, Type};
use clk_scalar::{Scalar, ScalarValue};

/// The compile-time arguments of one instance of a function or kernel.
#[derive(Clone)]
pub(crate) struct Mono<'a> {
    pub program: &'a Program,
    pub arguments: Rc<[GenericArgument]>,
}

impl<'a> Mono<'a> {
    pub fn new(program: &'a Program, arguments: &[GenericArgument]) -> Self {
        Mono { program, arguments: arguments.into() }
    }

    /// Substitutes all type parameters in a type. The dimensions of an array type are not substituted.
    pub fn ty(&self, ty: &Type, span: Span) -> Fallible<Type> {
        match ty {
            Type::Param(i) => match self.arguments.get(*i as usize) {
                Some(GenericArgument::Type(ty)) => Ok(ty.clone()),
                _ => Err(internal(span, "a type parameter without argument")),
            },
            Type::Tuple(parts) => {
                let parts: Fallible<Vec<Type>> = parts.iter().map(|part| self.ty(part, span)).collect();
                Ok(Type::Tuple(parts?.into()))
            }
            Type::Error | Type::Unknown => Err(internal(span, format!("a value of type {ty:?} in a kernel"))),
            other => Ok(other.clone()),
        }
    }

    pub fn scalar_param(&self, i: u32, span: Span) -> Fallible<Scalar> {
        match self.arguments.get(i as usize) {
            Some(GenericArgument::Type(Type::Scalar(s))) => Ok(*s),
            _ => Err(internal(span, "a conversion to a type parameter that is not a scalar")),
        }
    }

    pub fn const_param(&self, i: u32, span: Span) -> Fallible<ScalarValue> {
        match self.arguments.get(i as usize) {
            Some(GenericArgument::Const(value)) => Ok(*value),
            _ => Err(internal(span, "a const parameter without argument")),
        }
    }

    /// Resolves a callee or a function-valued compile-time argument.
    pub fn function(&self, callee: &FnRef, span: Span) -> Fallible<FunctionInstance> {
        match callee {
            FnRef::Builtin(builtin) => Ok(FunctionInstance::Builtin(*builtin)),
            FnRef::Param(i) => match self.arguments.get(*i as usize) {
                Some(GenericArgument::Fn(function)) => Ok(function.clone()),
                _ => Err(internal(span, "a function parameter without argument")),
            },
            FnRef::Fn { id, generics } => {
                let declared = self.program.fns.get(*id).map_or(&[][..], |f| &f.sig.generics);
                let mut arguments: Vec<GenericArgument> = Vec::with_capacity(generics.len());
                for (i, generic_arg) in generics.iter().enumerate() {
                    arguments.push(self.argument(generic_arg, declared.get(i), &arguments, span)?);
                }
                Ok(FunctionInstance::Fn { id: *id, arguments })
            }
        }
    }

    /// Resolves a compile-time argument. If the call passes none, evaluates the parameter's default, which may depend
    /// on earlier arguments.
    fn argument(
        &self,
        argument: &GenericArg,
        declared: Option<&Generic>,
        before: &[GenericArgument],
        span: Span,
    ) -> Fallible<GenericArgument> {
        match argument {
            GenericArg::Type(ty) => Ok(GenericArgument::Type(self.ty(ty, span)?)),
            GenericArg::Const(expr) => {
                Ok(GenericArgument::Const(ConstEvaluator::new(self.program, &self.arguments).evaluate(expr)?))
            }
            GenericArg::Fn(callee) => Ok(GenericArgument::Fn(self.function(callee, span)?)),
            GenericArg::Error => Err(internal(span, "a compile-time argument that was a mistake")),
            GenericArg::Infer => declared
                .and_then(|generic| default_argument(self.program, generic, before))
                .unwrap_or_else(|| Err(internal(span, "a compile-time argument was left open in a kernel"))),
        }
    }
}

/// Evaluates the default of a compile-time parameter, which may depend on earlier arguments. `None` if there is no
/// default.
pub fn default_argument(
    program: &Program,
    generic: &Generic,
    before: &[GenericArgument],
) -> Option<Fallible<GenericArgument>> {
    Some(match &generic.kind {
        GenericKind::Const { default: Some(default), .. } => {
            ConstEvaluator::new(program, before).evaluate(default).map(GenericArgument::Const)
        }
        GenericKind::Fn { default: Some(default), .. } => {
            Mono::new(program, before).function(default, generic.span).map(GenericArgument::Fn)
        }
        _ => return None,
    })
}
