//! Instances: kernels and functions with their compile-time arguments. Each instance is lowered separately.

use clk_check::promote_f64;
use clk_check::typed::{FnId, KernelId, Program, Type};
pub use clk_ir::def::MmaPrecision;
use clk_scalar::ScalarValue;
use clk_scalar::builtin::Builtin;

/// A fully resolved compile-time argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GenericArgument {
    /// A concrete type, which contains no `Param`, `Error` or `Unknown`.
    Type(Type),
    Const(ScalarValue),
    Fn(FunctionInstance),
}

impl GenericArgument {
    /// Returns the corresponding argument in the `f64` shadow of the program, in which `f64` replaces all other float
    /// types.
    pub fn widened(&self) -> GenericArgument {
        match self {
            GenericArgument::Type(ty) => GenericArgument::Type(promote_f64::ty(ty)),
            GenericArgument::Const(value) => GenericArgument::Const(value.to_type(promote_f64::scalar(value.ty))),
            GenericArgument::Fn(FunctionInstance::Builtin(builtin)) => {
                GenericArgument::Fn(FunctionInstance::Builtin(*builtin))
            }
            GenericArgument::Fn(FunctionInstance::Fn { id, arguments }) => GenericArgument::Fn(FunctionInstance::Fn {
                id: *id,
                arguments: arguments.iter().map(GenericArgument::widened).collect(),
            }),
        }
    }
}

/// A function with its compile-time arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FunctionInstance {
    Fn { id: FnId, arguments: Vec<GenericArgument> },
    Builtin(Builtin),
}

/// A kernel instance to compile: one argument per entry of the kernel's `sig.generics`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub kernel: KernelId,
    pub arguments: Vec<GenericArgument>,
    pub sums: MmaPrecision,
}

impl Instance {
    /// Returns the instance of a kernel with these compile-time arguments.
    pub fn new(kernel: KernelId, arguments: Vec<GenericArgument>) -> Instance {
        Instance { kernel, arguments, sums: MmaPrecision::default() }
    }
}

/// Returns the dimensions of a kernel that are not an extent of any array parameter, in the order in which their values
/// follow the signature's parameters at a launch.
pub fn hidden_params(program: &Program, kernel: KernelId) -> Vec<u32> {
    program.kernels.get(kernel).map_or(vec![], |kernel| kernel.sig.hidden_dims().collect())
}
