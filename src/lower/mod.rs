//! Layer 4: a typed kernel and its compile-time arguments become monomorphic DeviceIR.

use crate::base::diag::Diagnostic;
use crate::check::typed::{FnId, KernelId, Program, Type};
use crate::ir::def::Module;
use crate::lang::builtin::Builtin;
use crate::lang::scalar::Value;

/// A compile-time argument, fully known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// Without `Param`, `Error`, `Unknown`.
    Type(Type),
    Const(Value),
    Fn(Function),
}

/// A function with its own compile-time arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    Fn { id: FnId, arguments: Vec<Argument> },
    Builtin(Builtin),
}

/// What a launch needs compiled: one argument per entry of the kernel's `sig.generics`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    pub kernel: KernelId,
    pub arguments: Vec<Argument>,
}

/// Lowers a kernel. Errors are those that only show with the arguments known (a local array of zero size, a division by a
/// constant zero, …).
pub fn lower(_program: &Program, _instance: &Instance) -> Result<Module, Vec<Diagnostic>> {
    unimplemented!()
}

/// A kernel `threads(i: N)` over flat arrays that applies `function` elementwise: parameter k is an array of `N` elements of
/// type `params[k].0` or, if `params[k].1` is false, a value; the last parameter is the `out` array.
pub fn lower_map(
    _program: &Program,
    _function: &Function,
    _params: &[(Type, bool)],
) -> Result<Module, Vec<Diagnostic>> {
    unimplemented!()
}

/// stub
pub fn hidden_params(_program: &Program, _kernel: KernelId) -> Vec<u32> {
    unimplemented!()
}
