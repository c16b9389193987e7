//! The invariants of DeviceIR and their checker. It finds all violations it can and never panics, whatever it is given.
//!
//! Checked of the module:
//! - M1 the kernel's body is the last function; a call names a function before the caller, so calls are acyclic;
//! - M2 the kernel's body has no parameters and results of its own; array parameters and global memories name each other,
//!   and no other function has global memories;
//! - M3 `threads` has 1 to 3 indices, and in that form there is no barrier, warp operation, shared memory or thread id; in
//!   the `grid` form there is no `Index`; a grid barrier is only in a cooperative kernel.
//!
//! Of every function:
//! - F1 ids are in range; the table of spans is as long as the arena of expressions; vectors have 2 to 4 lanes;
//! - F2 layouts: leaves are aligned, in order, and within the element;
//! - F3 extents: of local memory known; of shared memory known or dynamic; of parameters known or given by the launch. A
//!   dynamic one is an `i32` computed by pure operations (a tree of at most `TREE_SIZE`) from constants, parameters,
//!   extents, block and grid dimensions;
//! - F4 array parameters have the positions 0, 1, … in order.
//!
//! Of every expression that is used:
//! - E1 it has the type its operation gives (`ir::typing`); constants fit their type;
//! - E2 if it is not free, exactly one `Let` or result evaluates it, before its use, in a block around it; `Let` names no
//!   `Result`, and a statement's result is one;
//! - E3 parameters, extents, memories and locals exist; a place has one integer index per axis, a leaf, a component.
//!
//! Of every statement:
//! - S1 values have the types that locals, places, conditions, barriers, warp operations and atomics ask for;
//! - S2 labels are unique; `Break` leaves an enclosing statement, `Continue` names an enclosing loop;
//! - S3 a `For`'s bounds and step have its local's integer type; its body does not write the local;
//! - S4 `Return` hands back the results, and a function with results does not run off its end;
//! - S5 a call's arguments, memories (layout, rank, permission to write) and results fit the callee;
//! - S6 memory that is only read is not stored to; `Declare` names a local array.
//!
//! Not checked: that barriers are reached together, that memory is written before it is read (both run-time faults), that
//! launch-given extents agree between a call and its callee.

mod block;
mod expr;
mod function;

use crate::ir::def::*;
use crate::ir::typing;

/// A module that has passed [`verify`]. There is no other way to make one.
#[derive(Clone, Debug)]
pub struct Verified(Module);

impl std::ops::Deref for Verified {
    type Target = Module;
    fn deref(&self) -> &Module {
        &self.0
    }
}

impl Verified {
    pub(crate) fn into_module(self) -> Module {
        self.0
    }
}

/// A broken invariant, in words that name the function and the expression.
pub(crate) type Violation = String;

/// Checks a module.
pub fn verify(module: Module) -> Result<Verified, Vec<Violation>> {
    checked(module).map_err(|(_, violations)| violations)
}

/// Checks a module, and hands it back if it is broken.
pub(crate) fn checked(module: Module) -> Result<Verified, (Box<Module>, Vec<Violation>)> {
    let violations = violations(&module);
    if violations.is_empty() { Ok(Verified(module)) } else { Err((Box::new(module), violations)) }
}

/// All broken invariants of a module.
pub fn violations(module: &Module) -> Vec<Violation> {
    let mut out = Vec::new();
    kernel(module, &mut out);
    for (id, function) in module.functions.iter() {
        function::check(module, id, function, &mut out);
    }
    out
}

fn kernel(module: &Module, out: &mut Vec<Violation>) {
    let kernel = &module.kernel;
    let mut report = |message: String| out.push(format!("kernel `{}`: {message}", kernel.name));
    if let Form::Threads { rank } = kernel.form
        && !(1..=3).contains(&rank)
    {
        report(format!("threads with {rank} indices"));
    }
    let Some(body) = module.functions.get(kernel.body) else {
        return report(format!("its body {:?} does not exist", kernel.body));
    };
    if kernel.body.index() + 1 != module.functions.len() {
        report("its body is not the last function".to_string());
    }
    if !body.params.is_empty() || !body.results.is_empty() {
        report("its body has parameters or results of its own".to_string());
    }
    for (position, param) in kernel.params.iter().enumerate() {
        match param {
            KernelParam::Value { name, ty } if !is_type(*ty) => {
                report(format!("parameter `{name}` has no proper type"))
            }
            KernelParam::Value { .. } => {}
            KernelParam::Array { name, access, memory } => {
                let space = Space::Global { param: position as u32, access: *access };
                if body.memories.get(*memory).map(|m| m.space) != Some(space) {
                    report(format!("array parameter `{name}` and memory {memory:?} do not name each other"));
                }
            }
        }
    }
    for (id, memory) in body.memories.iter() {
        if let Space::Global { param, .. } = memory.space {
            let named = matches!(kernel.params.get(param as usize),
                Some(KernelParam::Array { memory, .. }) if *memory == id);
            if !named {
                report(format!("global memory `{}` is not its parameter's", memory.name));
            }
        }
    }
}

fn is_type(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(_) | Ty::Vector(_, 2..=4))
}

fn is_int_scalar(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(s) if s.is_int())
}

fn describe(ty: Ty) -> String {
    typing::name(ty)
}

#[cfg(test)]
mod tests;
