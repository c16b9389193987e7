//! The size of a kernel after inlining, and its limit.
//!
//! Input: a module in which callees precede their callers. Each function is lowered once, but devices inline all calls.
//! If `f` calls `g` twice and `g` calls `h` twice, `f` contains `h` four times. The sizes after inlining are computed
//! from the sizes of the functions, without inlining them.

use super::error::Fallible;
use clk_base::diag::Diagnostic;
use clk_ir::def::{Function, FunctionId, Module, StmtKind};
use clk_ir::visit::each_stmt;

/// Maximum number of operations of a kernel after inlining.
const MAX_SIZE: u64 = 500_000;

/// Rejects a kernel that is too large, with notes on the calls that cause it.
pub(crate) fn check(module: &Module) -> Fallible<()> {
    let mut sizes: Vec<u64> = Vec::with_capacity(module.functions.len());
    for (_, function) in module.functions.iter() {
        let mut size = function.exprs.len() as u64;
        each_stmt(&function.body, &mut |stmt| {
            let called = if let StmtKind::Call { function, .. } = stmt.kind { sizes[function.index()] } else { 0 };
            size = size.saturating_add(called).saturating_add(1);
        });
        sizes.push(size);
    }
    let large = module.functions.iter().find(|(id, _)| sizes[id.index()] > MAX_SIZE);
    match large {
        Some((_, function)) => Err(Box::new(too_large_error(module, &sizes, function))),
        None => Ok(()),
    }
}

fn too_large_error(module: &Module, sizes: &[u64], function: &Function) -> Diagnostic {
    let d = Diagnostic::error("E0490", format!("`{}` becomes too large", name(function)))
        .at(function.span, format!("more than {MAX_SIZE} operations after inlining its calls"))
        .help("compute a value that is needed twice only once (`let y = f(x)`), or call in a loop");
    let mut d = d;
    let mut caller = function;
    for _ in 0..4 {
        let Some((callee, times)) = heaviest(caller, sizes) else { break };
        let callee = &module.functions[callee];
        let calls = if times == 1 { "once".into() } else { format!("{times} times") };
        d = d.note(format!("`{}` calls `{}` {calls}", name(caller), name(callee)));
        caller = callee;
    }
    d
}

/// Returns the callee that contributes most to a function's size, and the number of its calls.
fn heaviest(function: &Function, sizes: &[u64]) -> Option<(FunctionId, u64)> {
    let mut calls: Vec<(FunctionId, u64)> = Vec::new();
    each_stmt(&function.body, &mut |stmt| {
        if let StmtKind::Call { function, .. } = stmt.kind {
            match calls.iter_mut().find(|(id, _)| *id == function) {
                Some((_, times)) => *times += 1,
                None => calls.push((function, 1)),
            }
        }
    });
    calls.into_iter().max_by_key(|(id, times)| sizes[id.index()].saturating_mul(*times))
}

/// Returns the source name of a function. Its name in the IR is this name followed by the number of the instance.
fn name(function: &Function) -> &str {
    function.name.rsplit_once('_').map_or(function.name.as_str(), |(name, _)| name)
}
