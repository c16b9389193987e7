//! The size of a kernel after inlining, and its limit.
//!
//! Input: a module in which callees precede their callers. Each function is lowered once, but devices inline all calls: `f`
//! that calls `g` twice, which calls `h` twice, contains `h` four times. The sizes are computed without inlining.

use super::error::Fallible;
use crate::base::diag::Diagnostic;
use crate::ir::def::{Function, FunctionId, Module, StmtKind};
use crate::ir::visit::each_stmt;

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
        Some((_, function)) => Err(Box::new(refusal(module, &sizes, function))),
        None => Ok(()),
    }
}

fn refusal(module: &Module, sizes: &[u64], function: &Function) -> Diagnostic {
    let d = Diagnostic::error("E0490", format!("`{}` becomes too large", name(function)))
        .at(function.span, format!("more than {MAX_SIZE} operations, once the calls in it are written out"))
        .help("compute what is needed twice once (`let y = f(x)`), or call in a loop");
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

/// Returns the callee that contributes most to a function's size, and how often it is called.
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

/// Returns the source name of a function; an instance's IR name has its number appended.
fn name(function: &Function) -> &str {
    function.name.rsplit_once('_').map_or(function.name.as_str(), |(name, _)| name)
}
