//! The invariants of DeviceIR and their checker. It reports as many violations as possible and never panics, whatever its input.
//!
//! Module:
//! - M1 the kernel's body is the last function; a call names a function that precedes the caller, so calls are acyclic;
//! - M2 the kernel's body has no parameters and results of its own; array parameters and global memories refer to each other, and
//!   no other function has global memories;
//! - M3 `threads` has 1 to 3 indices, and in that form there are no barriers, warp operations, shared memory or thread ids; in
//!   the `grid` form there is no `Index`; a grid barrier is only in a cooperative kernel.
//!
//! Every function:
//! - F1 ids are in range; the table of spans is as long as the arena of expressions; vectors have 2 to 4 lanes;
//! - F2 layouts: leaves are aligned, in order, and within the element;
//! - F3 extents: of local memory known; of shared memory known or dynamic; of parameters known or given by the launch. A dynamic
//!   one is an `i32` computed by pure operations (a tree of at most `TREE_SIZE`) from constants, parameters, extents, block and
//!   grid dimensions;
//! - F4 array parameters have the positions 0, 1, … in order.
//!
//! Every expression that is used:
//! - E1 it has the result type of its operation (`ir::typing`); constants are in range of their type;
//! - E2 if it is not free, exactly one `Let` or result evaluates it, before its use, in an enclosing block; a `Let` does not name
//!   a `Result`, and a statement's result is one;
//! - E3 parameters, extents, memories and locals exist; a memory location has one integer index per axis, a valid leaf and a
//!   valid component.
//!
//! Every statement:
//! - S1 values have the types that locals, memory locations, conditions, barriers, warp operations and atomics require;
//! - S2 labels are unique; `Break` names an enclosing statement, `Continue` an enclosing loop;
//! - S3 a `For`'s bounds and step have its local's integer type; its body does not write the local;
//! - S4 `Return` has the function's results, and control does not reach the end of a function with results;
//! - S5 a call's arguments, memories (layout, rank, access) and results match the callee;
//! - S6 read-only memory is not stored to; `Declare` names a local array.
//!
//! Not checked: that barriers are reached by all threads, that memory is written before it is read (both run-time faults), that
//! launch-given extents agree between a call and its callee.

mod block;
mod checker;
mod expr;
mod function;
mod words;

pub(crate) use self::words::Violation;
use self::words::is_type;
use crate::ir::def::*;

/// A module that has passed [`verify`], the only way to create one.
#[derive(Clone, Debug)]
pub struct Verified(Module);

impl std::ops::Deref for Verified {
    type Target = Module;
    fn deref(&self) -> &Module {
        &self.0
    }
}

impl Verified {
    pub fn into_module(self) -> Module {
        self.0
    }
}

/// Checks a module.
pub fn verify(module: Module) -> Result<Verified, Vec<Violation>> {
    checked(module).map_err(|(_, violations)| violations)
}

/// Checks a module, and returns it if it is invalid.
pub fn checked(module: Module) -> Result<Verified, (Box<Module>, Vec<Violation>)> {
    let violations = violations(&module);
    if violations.is_empty() { Ok(Verified(module)) } else { Err((Box::new(module), violations)) }
}

/// Returns all violated invariants of a module.
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

#[cfg(test)]
mod tests;
