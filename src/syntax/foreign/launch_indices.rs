//! Recognizes the numbers of threads and blocks in the expressions of CUDA and Numba.

use super::tree::{ForeignArgument, ForeignExpr, ForeignStmt, StmtShape, Subscript};
use std::collections::HashMap;

/// Returns Clk's name of an index that a call returns: `cuda.grid(1)` of Numba, `wp.tid()` of Warp,
/// `get_global_id(0)` of OpenCL.
pub(super) fn launch_index(callee: &ForeignExpr, args: &[ForeignArgument]) -> Option<ForeignExpr> {
    let argument = match args {
        [] => None,
        [arg] => Some(usize::try_from(arg.value.integer()?).ok()?),
        _ => return None,
    };
    Some(match (callee.path()?.as_str(), argument) {
        ("wp.tid" | "cuda.grid", None) | ("cuda.grid", Some(1)) => axis_of("global_idx", 0),
        ("get_global_id", Some(axis @ 0..3)) => axis_of("global_idx", axis),
        ("get_local_id", Some(axis @ 0..3)) => axis_of("threadIdx", axis),
        ("get_group_id", Some(axis @ 0..3)) => axis_of("blockIdx", axis),
        ("get_local_size", Some(axis @ 0..3)) => axis_of("blockDim", axis),
        ("get_num_groups", Some(axis @ 0..3)) => axis_of("gridDim", axis),
        _ => return None,
    })
}

/// Rewrites Numba's names to CUDA's, and `*p`, `*(p + i)`, `&p[i]` to elements.
pub(super) fn normalize(e: ForeignExpr, aliases: &HashMap<String, ForeignExpr>, has_one_block: bool) -> ForeignExpr {
    let index = |base: ForeignExpr, at: ForeignExpr| ForeignExpr::Index(Box::new(base), vec![Subscript::Element(at)]);
    let index_of_call = match &e {
        ForeignExpr::Call(callee, args) => launch_index(callee, args),
        _ => None,
    };
    let e = index_of_call.unwrap_or(e);
    match e {
        ForeignExpr::Field(base, name) if base.is_name("cuda") && name.ends_with(['x', 'm']) => ForeignExpr::Name(name),
        ForeignExpr::Pointee(inner) => match *inner {
            ForeignExpr::Binary("+", base, offset) => index(*base, *offset),
            other => index(other, ForeignExpr::Number("0".into())),
        },
        ForeignExpr::Call(callee, args)
            if callee.path().is_some_and(|path| path.starts_with("atomic"))
                && matches!(args.first().map(|arg| &arg.value), Some(ForeignExpr::Name(_))) =>
        {
            let mut args = args;
            let target = args[0].value.clone();
            args[0].value = index(target, ForeignExpr::Number("0".into()));
            ForeignExpr::Call(callee, args)
        }
        ForeignExpr::Address(inner) if matches!(*inner, ForeignExpr::Index(..)) => *inner,
        ForeignExpr::Field(base, name) if base.is_name("threadIdx") && has_one_block => {
            ForeignExpr::Field(Box::new(ForeignExpr::name("global_idx")), name)
        }
        ForeignExpr::Binary("+", ..) => {
            let expanded = aliases.iter().fold(e.clone(), |e, (name, value)| e.substitute(name, value));
            global_axis(&expanded).map_or(e, |axis| axis_of("global_idx", axis))
        }
        e => e,
    }
}

/// Returns the variables that only name a number of the launch, such as `int tid = threadIdx.x`.
pub(super) fn aliases(body: &[ForeignStmt]) -> HashMap<String, ForeignExpr> {
    let mut aliases = HashMap::new();
    let mut note = |name: &str, value: &ForeignExpr| {
        let value = match value {
            ForeignExpr::Field(base, axis) => match &**base {
                ForeignExpr::Field(module, name) if module.is_name("cuda") => {
                    ForeignExpr::Field(Box::new(ForeignExpr::name(name)), axis.clone())
                }
                _ => value.clone(),
            },
            _ => return,
        };
        if (0..3).any(|axis| ["threadIdx", "blockIdx", "blockDim"].iter().any(|name| value == axis_of(name, axis))) {
            aliases.insert(name.to_owned(), value);
        }
    };
    for stmt in body {
        match &stmt.shape {
            StmtShape::Declare { variables, .. } => {
                variables.iter().for_each(|v| v.value.iter().for_each(|value| note(&v.name, value)));
            }
            StmtShape::Assign(places, "", value) => {
                if let [ForeignExpr::Name(name)] = &places[..] {
                    note(name, value);
                }
            }
            StmtShape::Bind("let", name, Some(value)) => note(name, value),
            _ => {}
        }
    }
    aliases
}

/// Returns whether the body numbers threads only within their block, and the threads do not work together: then a
/// single block is meant.
pub(super) fn has_one_block(body: &[ForeignStmt]) -> bool {
    let mut has_blocks = false;
    for stmt in body {
        stmt.visit(&mut |inner| {
            has_blocks |= matches!(inner.shape, StmtShape::Declare { is_shared: true, .. } | StmtShape::Raw(_));
            for e in inner.expressions() {
                has_blocks |= e.contains(|part| match part {
                    ForeignExpr::Name(name) => {
                        matches!(name.as_str(), "blockIdx" | "blockDim") || name.starts_with("__")
                    }
                    ForeignExpr::Field(_, name) => {
                        matches!(name.as_str(), "blockIdx" | "blockDim" | "syncthreads" | "shared" | "grid")
                    }
                    _ => false,
                });
            }
        });
    }
    !has_blocks
}

pub(super) fn axis_of(name: &str, axis: usize) -> ForeignExpr {
    ForeignExpr::Field(Box::new(ForeignExpr::name(name)), ["x", "y", "z"][axis].to_owned())
}

/// Returns the axis of `blockIdx.x * blockDim.x + threadIdx.x`, in any order.
pub(super) fn global_axis(e: &ForeignExpr) -> Option<usize> {
    let ForeignExpr::Binary("+", a, b) = e else { return None };
    let axis = |e: &ForeignExpr, name: &str| (0..3).find(|axis| *e == axis_of(name, *axis));
    let product = |e: &ForeignExpr| match e {
        ForeignExpr::Binary("*", a, b) => {
            let (block, size) = if axis(a, "blockIdx").is_some() { (a, b) } else { (b, a) };
            let block = axis(block, "blockIdx")?;
            let is_size = axis(size, "blockDim") == Some(block)
                || matches!(**size, ForeignExpr::Name(_) | ForeignExpr::Number(_));
            is_size.then_some(block)
        }
        _ => None,
    };
    let (block, thread) = match product(a) {
        Some(block) => (block, axis(b, "threadIdx")?),
        None => (product(b)?, axis(a, "threadIdx")?),
    };
    (block == thread).then_some(block)
}
