//! Monomorphization: substitutes the compile-time parameters of the enclosing item.

use std::rc::Rc;

use super::constant::Constants;
use super::error::{Fallible, internal};
use super::instance::{Argument, Function};
use crate::base::source::Span;
use crate::check::typed::{FnRef, Generic, GenericArg, GenericKind, Program, Type};
use crate::lang::scalar::{Scalar, Value};

/// The compile-time arguments of one instance of a function or kernel.
#[derive(Clone)]
pub(crate) struct Mono<'a> {
    pub program: &'a Program,
    pub arguments: Rc<[Argument]>,
}

impl<'a> Mono<'a> {
    pub fn new(program: &'a Program, arguments: &[Argument]) -> Self {
        Mono { program, arguments: arguments.into() }
    }

    /// Substitutes every type parameter in a type. The dimensions of an array type still refer to the enclosing item.
    pub fn ty(&self, ty: &Type, span: Span) -> Fallible<Type> {
        match ty {
            Type::Param(i) => match self.arguments.get(*i as usize) {
                Some(Argument::Type(ty)) => Ok(ty.clone()),
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
            Some(Argument::Type(Type::Scalar(s))) => Ok(*s),
            _ => Err(internal(span, "a conversion to a type parameter that is not a scalar")),
        }
    }

    pub fn const_param(&self, i: u32, span: Span) -> Fallible<Value> {
        match self.arguments.get(i as usize) {
            Some(Argument::Const(value)) => Ok(*value),
            _ => Err(internal(span, "a const parameter without argument")),
        }
    }

    /// Resolves a callee or a function-valued compile-time argument.
    pub fn function(&self, callee: &FnRef, span: Span) -> Fallible<Function> {
        match callee {
            FnRef::Builtin(builtin) => Ok(Function::Builtin(*builtin)),
            FnRef::Param(i) => match self.arguments.get(*i as usize) {
                Some(Argument::Fn(function)) => Ok(function.clone()),
                _ => Err(internal(span, "a function parameter without argument")),
            },
            FnRef::Fn { id, generics } => {
                let declared = self.program.fns.get(*id).map_or(&[][..], |f| &f.sig.generics);
                let mut arguments: Vec<Argument> = Vec::with_capacity(generics.len());
                for (i, given) in generics.iter().enumerate() {
                    arguments.push(self.argument(given, declared.get(i), &arguments, span)?);
                }
                Ok(Function::Fn { id: *id, arguments })
            }
        }
    }

    /// Resolves an argument for a parameter, which may have a default that depends on the arguments before it.
    fn argument(
        &self,
        argument: &GenericArg,
        declared: Option<&Generic>,
        before: &[Argument],
        span: Span,
    ) -> Fallible<Argument> {
        match argument {
            GenericArg::Type(ty) => Ok(Argument::Type(self.ty(ty, span)?)),
            GenericArg::Const(expr) => {
                Ok(Argument::Const(Constants::new(self.program, &self.arguments).evaluate(expr)?))
            }
            GenericArg::Fn(callee) => Ok(Argument::Fn(self.function(callee, span)?)),
            GenericArg::Error => Err(internal(span, "a compile-time argument that was a mistake")),
            GenericArg::Infer => declared
                .and_then(|generic| default_argument(self.program, generic, before))
                .unwrap_or_else(|| Err(internal(span, "a compile-time argument was left open in a kernel"))),
        }
    }
}

/// Returns the default of a compile-time parameter, with the arguments before it, if there is one.
pub fn default_argument(program: &Program, generic: &Generic, before: &[Argument]) -> Option<Fallible<Argument>> {
    Some(match &generic.kind {
        GenericKind::Const { default: Some(default), .. } => {
            Constants::new(program, before).evaluate(default).map(Argument::Const)
        }
        GenericKind::Fn { default: Some(default), .. } => {
            Mono::new(program, before).function(default, generic.span).map(Argument::Fn)
        }
        _ => return None,
    })
}
