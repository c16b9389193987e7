//! Calls in host code: the effects of library functions, and the variables that a statement may change.

use super::host_values::{HostInt, address_of, last_name, variables_in};
use crate::ast::*;
use crate::launches::FunctionScan;
use rustc_hash::{FxHashMap, FxHashSet};

/// Functions that change no variable that is an argument, except through the pointers that `call` handles.
pub(super) const HARMLESS: [&str; 44] = [
    "printf",
    "fprintf",
    "puts",
    "memset",
    "memcpy",
    "malloc",
    "calloc",
    "free",
    "exit",
    "abort",
    "assert",
    "rand",
    "srand",
    "atoi",
    "atol",
    "atof",
    "sqrt",
    "sqrtf",
    "pow",
    "log",
    "exp",
    "fabs",
    "abs",
    "ceil",
    "floor",
    "min",
    "max",
    "cudaMalloc",
    "cudaMallocManaged",
    "cudaMallocHost",
    "cudaHostAlloc",
    "cudaMallocAsync",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemset",
    "cudaMemsetAsync",
    "cudaFree",
    "cudaDeviceSynchronize",
    "cudaGetLastError",
    "cudaGetErrorString",
    "cudaPeekAtLastError",
    "cudaStreamSynchronize",
    "cudaFuncSetCacheConfig",
    "cudaSetDevice",
];

/// Functions that store the address of new memory in their first argument; the second one is the number of bytes.
pub(super) const ALLOCATORS: [&str; 5] =
    ["cudaMalloc", "cudaMallocManaged", "cudaMallocHost", "cudaHostAlloc", "cudaMallocAsync"];

/// Functions that read properties of a kernel.
pub(super) const KERNEL_QUERIES: [&str; 6] = [
    "cudaFuncSetAttribute",
    "cudaFuncSetCacheConfig",
    "cudaFuncSetSharedMemConfig",
    "cudaFuncGetAttributes",
    "cudaOccupancyMaxPotentialBlockSize",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
];

/// Returns the names of a template's parameters.
pub(super) fn template_names(function: &CppFunction) -> FxHashSet<SmolStr> {
    let params = function.template.iter().flat_map(|header| &header.params);
    params.filter_map(|param| Some(param.name.as_ref()?.text.clone())).collect()
}

/// Returns whether a method changes nothing.
pub(super) fn is_query(member: &QualifiedName) -> bool {
    matches!(last_name(member), "data" | "begin" | "size" | "get" | "empty")
}

/// Adds the variables that a statement may change: those that are assigned, or whose address or value is passed to a
/// function. Returns the number of expressions in it.
pub(super) fn changed_in(
    stmt: &CppStmt,
    functions: &FxHashMap<SmolStr, Option<HostInt>>,
    changed: &mut FxHashSet<SmolStr>,
) -> usize {
    let mut scan = FunctionScan::default();
    scan.stmt(stmt);
    for value in &scan.values {
        let mut add = |expr: &CppExpr| {
            // A store to an element does not change the variable of the array.
            let is_element =
                matches!(expr.kind, CppExprKind::Index { .. } | CppExprKind::Unary { op: CppUnaryOp::Deref, .. });
            if !is_element {
                changed.extend(variables_in(expr).into_iter().cloned());
            }
        };
        match &value.kind {
            CppExprKind::Assign { target, .. } => add(target),
            CppExprKind::Unary {
                op:
                    CppUnaryOp::AddressOf
                    | CppUnaryOp::PreIncrement
                    | CppUnaryOp::PreDecrement
                    | CppUnaryOp::PostIncrement
                    | CppUnaryOp::PostDecrement,
                operand,
            } => add(operand),
            CppExprKind::Call { callee, args } => {
                if let CppExprKind::Member { base, member, .. } = &callee.kind
                    && !is_query(member)
                {
                    add(base);
                }
                let name = match &callee.kind {
                    CppExprKind::Name(name) if !functions.contains_key(last_name(name)) => last_name(name),
                    _ => "",
                };
                for arg in args {
                    if address_of(arg).is_some() || !HARMLESS.contains(&name) {
                        add(address_of(arg).unwrap_or(arg));
                    }
                }
            }
            _ => {}
        }
    }
    scan.values.len()
}
