//! The invariants of DeviceIR and their checker, which reports as many violations as possible and never panics.
//!
//! Module:
//! - M1 the kernel's body is the last function; a function may only call functions that precede it, so calls are
//!   acyclic;
//! - M2 `params` and `results` of the kernel's body are empty; each array parameter of the kernel has one global memory
//!   of the body and vice versa, and no other function has global memories;
//! - M3 a `threads` kernel has 1 to 3 indices, and no barriers, warp operations, shared memory or thread ids; a `grid`
//!   kernel has no `Index`; only a cooperative kernel has grid barriers.
//!
//! Every function:
//! - F1 ids are in range; every expression has a span; vectors have 2 to 4 lanes;
//! - F2 layouts: leaves are aligned, in order, and within the element;
//! - F3 extents of local memory are known, those of shared memory known or dynamic, those of array parameters known or
//!   determined by the launch; a dynamic extent is an `i32` computed by a tree of at most `MAX_TREE_SIZE` pure
//!   operations from constants, parameters, extents, block and grid dimensions;
//! - F4 the array parameters have the positions 0, 1, 2, … in order of declaration.
//!
//! Every expression that is used:
//! - E1 its type is the result type of its operation (`clk_ir::typing`); constants are in the range of their type;
//! - E2 if it is not free, exactly one `Let` or statement result defines it, before its use, in the same or an
//!   enclosing block; a statement's result has the kind `Result`, and the expression of a `Let` does not;
//! - E3 parameters, extents, memories and locals exist; a memory location has one integer index per axis, a valid leaf
//!   and a valid component.
//!
//! Every statement:
//! - S1 values have the types that locals, memory locations, conditions, barriers, warp operations and atomics require;
//! - S2 labels are unique; `Break` refers to an enclosing labeled statement, `Continue` to an enclosing loop;
//! - S3 a `For`'s bounds and step have its local's integer type; its body does not write the local;
//! - S4 the values of a `Return` match the function's results, and control does not reach the end of a function with
//!   results;
//! - S5 a call's arguments, memories (layout, rank, access) and results match the callee;
//! - S6 read-only memory is not stored to; `Declare` names a local array.
//!
//! A kernel's tile program:
//! - T1 the kernel is a `grid` kernel; tiles have elements; a left operand is a matrix of `f16`, `bf16` or `f32`; a
//!   shape is that of an array parameter;
//! - T2 tiles and counters exist; a tile has values on every path to a step that reads it, where a loop may run zero
//!   times; no step but a product reads a left operand;
//! - T3 operands of an elementwise step have its columns or none; a reduction goes from a matrix to one value per row;
//! - T4 the operands of a product have the same type and matching extents, and whole groups of terms; the accumulator
//!   is a matrix of `f32`;
//! - T5 a window is a view of an `in` array with 2 to 5 axes; its last axis has the step 1;
//! - T6 a loop's step is positive, and no enclosing loop has the same counter;
//! - T7 an element kernel is a valid `threads` kernel of two indices with the parameters that `clk_ir::tiles` lists; it
//!   has no side effects but stores, no shared memory and no thread ids; it reads counters of enclosing loops only; it
//!   stores to its result, or to one array of the tile program's kernel; it reads `in` arrays, and the element of the
//!   array that it stores;
//! - T8 between two stores to the same array there is a barrier, including those of consecutive iterations.
//!
//! G: a matrix product has two `in` operands of the same type with two axes, and an epilogue that follows T7, with the
//! element of the product as its last parameter.
//!
//! Not verified: that all threads reach barriers, and that memory is written before it is read. Violations of these two
//! are run-time faults. Also not verified: that the arrays passed to a call have the extents that the callee declares,
//! and that a tile program computes the same as the kernel's body.

mod block;
mod expr;
mod function;
mod tiles;
mod verifier;
mod violation;

pub use self::violation::Violation;
use self::violation::is_type;
use crate::def::*;

/// A module without violations. Only [`verify`] and [`verify_or_return_module`] create one.
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
    verify_or_return_module(module).map_err(|(_, violations)| violations)
}

/// Like [`verify`], but returns an invalid module along with the violations.
pub fn verify_or_return_module(module: Module) -> Result<Verified, (Box<Module>, Vec<Violation>)> {
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
    tiles::check(module, violations, &mut out);
    out
}

fn kernel(module: &Module, out: &mut Vec<Violation>) {
    let kernel = &module.kernel;
    let mut report = |message: String| out.push(format!("kernel `{}`: {message}", kernel.name));
    if let LaunchForm::Threads { rank } = kernel.form
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
                let space = MemorySpace::Global { param: position as u32, access: *access };
                if body.memories.get(*memory).map(|m| m.space) != Some(space) {
                    report(format!("array parameter `{name}` and memory {memory:?} do not name each other"));
                }
            }
        }
    }
    for (id, memory) in body.memories.iter() {
        if let MemorySpace::Global { param, .. } = memory.space {
            let is_listed = matches!(kernel.params.get(param as usize),
                Some(KernelParam::Array { memory, .. }) if *memory == id);
            if !is_listed {
                report(format!("global memory `{}` is not its parameter's", memory.name));
            }
        }
    }
}

#[cfg(test)]
mod tests;
