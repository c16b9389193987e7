//! Instances: kernels and functions with their compile-time arguments, the units of lowering.

use crate::check::typed::{FnId, KernelId, Program, Type};
use crate::check::widen;
pub use crate::ir::def::Sums;
use crate::lang::builtin::Builtin;
use crate::lang::scalar::Value;

/// A fully resolved compile-time argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A concrete type, without `Param`, `Error`, `Unknown`.
    Type(Type),
    Const(Value),
    Fn(Function),
}

impl Argument {
    /// Returns the argument of the program's twin in `f64`.
    pub fn widened(&self) -> Argument {
        match self {
            Argument::Type(ty) => Argument::Type(widen::ty(ty)),
            Argument::Const(value) => Argument::Const(value.to_type(widen::scalar(value.ty))),
            Argument::Fn(Function::Builtin(builtin)) => Argument::Fn(Function::Builtin(*builtin)),
            Argument::Fn(Function::Fn { id, arguments }) => {
                Argument::Fn(Function::Fn { id: *id, arguments: arguments.iter().map(Argument::widened).collect() })
            }
        }
    }
}

/// A function with its own compile-time arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    Fn { id: FnId, arguments: Vec<Argument> },
    Builtin(Builtin),
}

/// A kernel instance to compile: one argument per entry of the kernel's `sig.generics`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub kernel: KernelId,
    pub arguments: Vec<Argument>,
    pub sums: Sums,
}

impl Instance {
    /// Returns the instance of a kernel with these compile-time arguments.
    pub fn new(kernel: KernelId, arguments: Vec<Argument>) -> Instance {
        Instance { kernel, arguments, sums: Sums::default() }
    }
}

/// Returns the dimensions of a kernel that are not an extent of any array parameter, in the order in which their values
/// follow the signature's parameters at a launch.
pub fn hidden_params(program: &Program, kernel: KernelId) -> Vec<u32> {
    program.kernels.get(kernel).map_or(vec![], |kernel| kernel.sig.hidden_dims().collect())
}
